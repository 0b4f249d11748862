"""Towers whose image encoder is trained too: what changes, what stays, saved, loaded, resumed, refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

from tower_toys import DEVICE  # noqa: E402

import limner  # noqa: E402
from limner.core.errors import LimnerError  # noqa: E402
from limner.encoders.torch_encoders import TorchEncoder  # noqa: E402
from limner.systems.towers.towers_model import TowersModel  # noqa: E402

NAME = "test_unfrozen:Tiny"
SIZES = {"word_dim": 8, "hidden_dim": 16, "embedding_dim": 16, "batch_size": 16, "device": DEVICE, "tensorboard": False}
FIRST = {"features": NAME, "epochs": 3, "learning_rate": 0.01, **SIZES}


class Tiny(TorchEncoder):
    """A convolution over images of 16 pixels."""

    kinds = ("image",)
    dim = 12

    def __init__(self, *, device: str = "cpu", blind: bool = False) -> None:
        super().__init__(device=device)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.model = torch.nn.Sequential(torch.nn.Conv2d(3, 12, 4, stride=4), torch.nn.Tanh()).eval()
        self.blind = blind
        if blind:
            self.model[0].weight.data.zero_()

    @property
    def fingerprint(self) -> str:
        return f"tiny {self.blind} None"

    def pixels(self, picture):
        return torch.from_numpy(np.array(picture.convert("RGB").resize((16, 16))))

    def image_vectors(self, pixels):
        return self.model(pixels.permute(0, 3, 1, 2).float() / 255).mean((2, 3))


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40)


@pytest.fixture(scope="module")
def frozen(world):
    return limner.train(world.train, "towers", dev=world.dev, **FIRST)


@pytest.fixture(scope="module")
def second(world, frozen):
    return limner.train(world.train, "towers", dev=world.dev, init_from=frozen, unfreeze=True, **stage(epochs=4))


def stage(**more):
    return {**SIZES, "learning_rate": 0.01, "seed": 1, **more}


def scores(model, collection):
    return model.scores(collection).matrix()


def test_the_second_stage_begins_where_the_first_ended(world, frozen):
    still = limner.train(world.train, "towers", init_from=frozen, unfreeze=True, **stage(epochs=1, learning_rate=1e-12))
    assert np.allclose(scores(still, world.test), scores(frozen, world.test), atol=1e-5)


def test_the_encoder_of_the_model_is_trained_and_the_one_given_is_not(world, frozen):
    encoder = Tiny()
    before = encoder.encode(world.test.images)
    options = stage(epochs=2, features=encoder, unfreeze=True)
    model = limner.train(world.train, "towers", **options)
    assert (encoder.encode(world.test.images) == before).all()
    learned = model.module.images.backbone.state_dict()
    assert all((learned[name] != weight).any() for name, weight in encoder.model.state_dict().items())


def test_an_encoder_that_saw_nothing_learns_to_see(world):
    options = stage(features=f"{NAME}(blind=true)", epochs=30, loss="sum", learning_rate=0.003)
    lost = [limner.train(world.train, "towers", unfreeze=each, **options).trained["history"][-1]["loss"]
            for each in (True, False)]  # fmt: skip
    assert lost[0] < 0.8 * lost[1]


def test_saved_loaded_and_trained_further(world, second, tmp_path):
    second.save(tmp_path / "model")
    with pytest.raises(LimnerError, match="trust"):
        TowersModel.load(tmp_path / "model")
    loaded = TowersModel.load(tmp_path / "model", trust=True)
    assert loaded.fingerprint == second.fingerprint
    assert (scores(loaded, world.test) == scores(second, world.test)).all()
    further = limner.train(world.train, "towers", init_from=loaded, **stage(epochs=1))
    assert further.settings["inputs"]["unfreeze"] is True
    assert further.fingerprint != loaded.fingerprint


@pytest.mark.parametrize("variant", ["towers", "pvse", "pcme"])
def test_a_stopped_run_goes_on_to_the_bit(world, variant, tmp_path):
    options = stage(features=NAME, unfreeze=True)
    uninterrupted = limner.train(world.train, variant, **options, epochs=2, checkpoint_dir=str(tmp_path / "whole"))
    limner.train(world.train, variant, **options, epochs=1, checkpoint_dir=str(tmp_path / "halves"))
    halves = limner.train(world.train, variant, **options, epochs=2, checkpoint_dir=str(tmp_path / "halves"))
    assert halves.fingerprint == uninterrupted.fingerprint


def test_pixels_are_read_in_pieces(world, second, monkeypatch):
    from limner.systems.towers import towers_model

    at_once, epochs = second.encode_images(world.train.images).matrix, []
    monkeypatch.setattr(towers_model, "PIXELS_AT_ONCE", 7)
    pieces = second.encode_images(world.train.images, progress=lambda done, total: epochs.append((done, total)))
    assert np.allclose(pieces.matrix, at_once, atol=1e-6)
    assert epochs[0] == (7, len(world.train.images))
    assert epochs[-1] == (len(world.train.images),) * 2


def test_refusals(world, second):
    with pytest.raises(LimnerError, match=r"those of Histograms: expected an image encoder that runs on torch"):
        limner.train(world.train, "towers", unfreeze=True, **stage(epochs=1))
    vectors = limner.Embeddings(world.train.images.ids, np.ones((len(world.train.images), 3), np.float32))
    with pytest.raises(LimnerError, match="vectors from a file"):
        limner.train(world.train, "towers", features=vectors, unfreeze=True, **stage(epochs=1))
    with pytest.raises(LimnerError, match="leave out features="):
        second.scores(world.test, features=vectors)
    with pytest.raises(LimnerError, match="has its own image encoder; leave it out"):
        limner.train(world.train, "towers", init_from=second, unfreeze=False, **stage(epochs=1))


def test_at_the_shell(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from limner.cli import app

    monkeypatch.chdir(tmp_path)
    sizes = [f"-O{name}={value}" for name, value in SIZES.items() if name != "tensorboard"]
    train = ["train", "towers", "scenes", "-O", "images=30", "-O", "epochs=1", *sizes]
    first = CliRunner().invoke(app, [*train, "-o", "first", "-O", f"features={NAME}"])
    assert first.exit_code == 0, first.output
    result = CliRunner().invoke(
        app, [*train, "-o", "second", "-O", "init_from=first", "-O", "unfreeze=true", "--trust"]
    )
    assert result.exit_code == 0, result.output
    assert TowersModel.load(tmp_path / "second", trust=True).settings["inputs"]["unfreeze"] is True
