"""Fine-tuning of pretrained two-tower models: what is trained, saved, opened again, resumed, exported, refused."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("transformers", reason="CLIP needs transformers")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "encoders")]

import tiny  # noqa: E402
from test_towers_resume import Stopped, stopping, without_time  # noqa: E402
from tower_toys import DEVICE  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import limner  # noqa: E402
from limner.cli import app  # noqa: E402
from limner.core.errors import LimnerError  # noqa: E402
from limner.encoders import encoder  # noqa: E402
from limner.encoders.torch_encoders import JointEncoder  # noqa: E402
from limner.systems import LOSSES, load  # noqa: E402
from limner.systems.towers.finetuned_model import MODES  # noqa: E402

torch.set_num_threads(1)
needs_peft = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="mode='lora' needs peft")
RUN = {"batch_size": 8, "epochs": 2, "learning_rate": 0.003, "device": DEVICE, "tensorboard": False}
EVERY = [pytest.param(mode, marks=needs_peft) if mode == "lora" else mode for mode in MODES]


class Loops(JointEncoder):
    """Two towers in plain torch, the image one with torch's own attention and batch normalisation, as in open_clip."""

    dim = 6

    def __init__(self) -> None:
        super().__init__(device="cpu")
        with torch.random.fork_rng():
            torch.manual_seed(1)
            self.model = torch.nn.ModuleDict(
                {
                    "norm": torch.nn.BatchNorm1d(12),
                    "attention": torch.nn.MultiheadAttention(12, 2, batch_first=True),
                    "mlp": torch.nn.Linear(12, 6),
                    "words": torch.nn.Embedding(300, 6),
                    "mix": torch.nn.Linear(6, 6),
                }
            ).eval()

    @property
    def fingerprint(self) -> str:
        return "loops None"

    def pixels(self, picture):
        return torch.from_numpy(np.array(picture.convert("RGB").resize((2, 2)), dtype=np.float32).ravel() / 255)

    def image_vectors(self, pixels):
        rows = self.model["norm"](pixels)[:, None]
        return self.model["mlp"](self.model["attention"](rows, rows, rows)[0][:, 0])

    def tokens(self, texts):
        return [[ord(letter) % 300 for letter in text[:9]] or [0] for text in texts]

    def text_vectors(self, tokens, filled):
        return self.model["mix"]((self.model["words"](tokens) * filled[..., None]).sum(1))


@pytest.fixture(scope="module")
def world():
    """Images of one colour each, small enough to be read in no time."""
    rng = np.random.default_rng(0)
    ids = [f"i{n}" for n in range(20)]
    colours = rng.integers(0, 255, (20, 1, 1, 3))
    pixels = [np.broadcast_to(colour, (32, 32, 3)).astype(np.uint8) for colour in colours]
    message = [f"{tiny.SENTENCES[n % 6]} {tiny.SENTENCES[n // 6 % 6]}" for n in range(40)]
    texts = limner.Items([f"t{n}" for n in range(40)], message, kind="text")
    pairs = limner.Judgements.from_pairs([(f"i{n // 2}", f"t{n}") for n in range(40)])
    splits = {"train": ids[:12], "dev": ids[12:16], "test": ids[16:]}
    return limner.Collection("small", limner.Items(ids, pixels), texts, pairs, splits)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def name(folder):
    return f"clip(model={folder})"


@pytest.fixture(scope="module")
def shared(name):
    """The encoder, read once: training copies it."""
    return encoder(name)


def tuned(world, name, **options):
    return limner.train(world, "finetune", encoder=name, **{**RUN, **options})


def matrix(model, collection):
    return np.asarray(model.scores(collection).matrix())


def plain(name, collection):
    model = encoder(name)
    sides = model.encode_images(collection.images), model.encode_texts(collection.texts)
    return np.asarray(limner.Scores.from_embeddings(*sides).matrix())


@pytest.mark.parametrize(
    ("kind", "mode"),
    [*(("clip", mode) for mode in MODES), *((kind, mode) for kind in ("siglip", "siglip2") for mode in ("head",))],
)
def test_training_begins_at_the_pretrained_model_and_changes_only_what_the_mode_names(tmp_path, world, kind, mode):
    if mode == "lora":
        pytest.importorskip("peft", reason="mode='lora' needs peft")
    name = f"clip(model={tiny.clip(tmp_path, kind=kind)})"
    still = tuned(world, name, mode=mode, epochs=1, learning_rate=1e-12)
    assert np.allclose(matrix(still, world.test), plain(name, world.test), atol=1e-5)
    base = encoder(name).model.state_dict()
    model = tuned(world, name, mode=mode)
    assert not np.allclose(matrix(model, world.test), plain(name, world.test), atol=1e-4)
    moved = {
        key.replace(".base_layer", "")
        for key, tensor in model.module.backbone.state_dict().items()
        if "lora_" not in key and not torch.equal(tensor.cpu(), base[key.replace(".base_layer", "")])
    }
    if mode in ("frozen", "lora"):
        assert not moved
    elif mode == "head":
        assert moved and all("projection" in key or ".head." in key for key in moved)
    else:
        assert len(moved) > 0.9 * len([key for key, weight in base.items() if weight.is_floating_point()]) - 2
    assert set(model.module.state_dict()) == {k for k, p in model.module.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("mode", EVERY)
def test_a_saved_model_opens_again_and_trains_further(tmp_path, world, name, mode):
    model = tuned(world, name, mode=mode)
    reloaded = load(model.save(tmp_path / "m"))
    assert np.allclose(matrix(reloaded, world.test), matrix(model, world.test), atol=1e-6)
    assert reloaded.fingerprint == model.fingerprint
    assert reloaded.trained_on.saw(world.train).all() and not reloaded.trained_on.saw(world.test).any()
    further = limner.train(world, "finetune", init_from=tmp_path / "m", **RUN)
    assert further.module.mode == mode and further.trained["start"]["fingerprint"] == model.fingerprint
    assert further.fingerprint != model.fingerprint
    still = limner.train(world, "finetune", init_from=model, **{**RUN, "epochs": 1, "learning_rate": 1e-12})
    assert np.allclose(matrix(still, world.test), matrix(model, world.test), atol=1e-5)
    assert f"{model.module.trained_count:,} parameters" in (tmp_path / "m" / "README.md").read_text()


@pytest.mark.parametrize("mode", EVERY)
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, monkeypatch, world, shared, mode):
    monkeypatch.setattr("limner.systems.towers.logs._SECONDS", 0.0)
    options = {"mode": mode, "epochs": 2, **({"lora_dropout": 0.3} if mode == "lora" else {})}
    uninterrupted = tuned(world, shared, **options)
    checkpoints = {"checkpoint_dir": str(tmp_path), "checkpoint_every": 2}
    with pytest.raises(Stopped):
        tuned(world, shared, progress=stopping(5), **options, **checkpoints)
    resumed = tuned(world, shared, **options, **checkpoints)
    for key, tensor in uninterrupted.module.state_dict().items():
        assert torch.equal(tensor, resumed.module.state_dict()[key]), key
    assert without_time(resumed.trained["history"]) == without_time(uninterrupted.trained["history"])
    with pytest.raises(LimnerError, match="was made with"):
        tuned(world, shared, **{**options, "loss": "max"}, **checkpoints)


@pytest.mark.parametrize("loss", sorted(set(LOSSES)))
def test_every_loss_trains(world, shared, loss):
    model = tuned(world, shared, mode="head", loss=loss, epochs=1)
    assert np.isfinite(model.trained["history"][0]["loss"]) and model.settings["margin"]["loss"] == loss


@pytest.mark.parametrize("mode", [mode for mode in EVERY if mode != "frozen"])
def test_an_exported_model_is_a_folder_of_transformers(tmp_path, world, shared, mode):
    model = tuned(world, shared, mode=mode, export_dir=str(tmp_path / "out"))
    assert np.allclose(plain(f"clip(model={tmp_path / 'out'})", world.test), matrix(model, world.test), atol=1e-5)


@needs_peft
def test_attention_of_torch_itself_and_batch_statistics_stay_as_they_are(world):
    pretrained = Loops()
    model = tuned(world, pretrained, mode="lora")
    adapted = {key.split(".lora_")[0] for key in model.module.state_dict()}
    assert adapted == {"backbone.mlp", "backbone.mix"}
    full = tuned(world, pretrained, mode="full")
    assert torch.equal(full.module.backbone["norm"].running_mean, pretrained.model["norm"].running_mean)
    with pytest.raises(LimnerError, match="finds no last layer"):
        tuned(world, pretrained, mode="head")
    with tempfile.TemporaryDirectory() as place, pytest.raises(LimnerError, match="only its maker has"):
        load(model.save(Path(place) / "m"))


def test_images_beyond_the_memory_are_decoded_again_with_the_same_result(monkeypatch, world, shared):
    first = tuned(world, shared, mode="head")
    monkeypatch.setattr("limner.systems.towers.finetune.PixelRows.__init__.__kwdefaults__", {"memory": 0})
    second = tuned(world, shared, mode="head")
    for key, tensor in first.module.state_dict().items():
        assert torch.equal(tensor, second.module.state_dict()[key])


def test_what_cannot_be_tuned_is_refused(world, shared):
    with pytest.raises(LimnerError, match="needs a pretrained model"):
        limner.train(world, "finetune")
    with pytest.raises(LimnerError, match="cannot be fine-tuned"):
        tuned(world, "histograms")
    with pytest.raises(LimnerError, match="mode 'lara'"):
        tuned(world, shared, mode="lara")
    with pytest.raises(LimnerError, match="rank=0"):
        tuned(world, shared, rank=0)
    with pytest.raises(LimnerError, match="export_dir= with mode='frozen'"):
        tuned(world, shared, mode="frozen", export_dir="x")
    model = tuned(world, shared, mode="head", epochs=1)
    with pytest.raises(LimnerError, match="mode='full' with init_from="):
        limner.train(world, "finetune", init_from=model, mode="full", **RUN)
    with pytest.raises(LimnerError, match="encoder= with init_from="):
        tuned(world, shared, init_from=model)


def test_another_pretrained_model_in_the_same_place_is_refused(tmp_path, world):
    place = tiny.clip(tmp_path / "clip")
    model = tuned(world, f"clip(model={place})", mode="head", epochs=1)
    model.save(tmp_path / "m")
    (place / "model.safetensors").write_bytes(_changed((place / "model.safetensors").read_bytes()))
    with pytest.raises(LimnerError, match="tuned from another pretrained model"):
        load(tmp_path / "m")


def _changed(data: bytes) -> bytes:
    return data[:-4] + np.float32(0.123).tobytes()


def test_from_the_shell(tmp_path, world, folder):
    from limner.datasets import write

    write(world, tmp_path / "pairs")
    out, words = str(tmp_path / "m"), ["-O", "mode=head", "-O", "epochs=1", "-O", f"device={DEVICE}"]
    command = ["train", "finetune", str(tmp_path / "pairs"), "-o", out, "-O", f"encoder=clip(model={folder})", *words]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path / "pairs"), "--model", out])
    assert done.exit_code == 0 and "R@1" in done.stdout, done.output
    done = CliRunner().invoke(app, ["train", "finetune", "scenes", "-o", str(tmp_path / "n"), "-O", "mode=head"])
    assert done.exit_code == 3 and "needs a pretrained model" in done.output
