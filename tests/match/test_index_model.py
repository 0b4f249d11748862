"""An index knows the model that made it: its own is taken, another one of equal width is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import Embeddings, LimnerError, systems
from limner.cli import app
from limner.encoders.contract import identity
from limner.search import index, open_index

pytest.importorskip("lancedb")
WORLD = ("scenes", "-O", "images=60")


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two models of one kind and width that learned from different pictures, as folders."""
    folder = tmp_path_factory.mktemp("models")
    world = limner.load("scenes", images=60)
    for name, part in (("a", world), ("b", world.test)):
        limner.train(part, dimensions=8).save(folder / f"{name}.npz")
    return folder


@pytest.fixture(scope="module")
def index_path(models, tmp_path_factory):
    """An index made with the first model."""
    path = tmp_path_factory.mktemp("made") / "i"
    run("index", path, *WORLD, "--model", models / "a.npz", "--split", "test")
    return path


# --- its own model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["histograms", "colours"])
def test_an_index_resumes_with_the_name_it_was_made_with(tmp_path, name):
    words = ("index", tmp_path / "i", *WORLD, "--model", name, "--json")
    first = json.loads(run(*words, "--split", "test").stdout)
    assert json.loads(run(*words, "--resume", "--split", "test").stdout)["added"] == 0
    after = json.loads(run(*words, "--resume").stdout)
    assert first["items"] + after["added"] == after["items"] == 60
    opened = open_index(tmp_path / "i")
    saved_model = systems.load(tmp_path / "i" / "system")
    assert opened.about.model == saved_model.fingerprint and opened.about.made_by == name
    assert json.loads(run("search", tmp_path / "i", "a cat", "--model", name, "--json").stdout)["hits"]


def test_another_name_is_refused_before_anything_is_trained(tmp_path):
    run("index", tmp_path / "i", *WORLD, "--model", "histograms", "--split", "test")
    message = run("index", tmp_path / "i", *WORLD, "--model", "colours", "--resume", status=3).stderr
    assert "was made with 'histograms'" in message and "'colours'" in message
    assert len(open_index(tmp_path / "i")) == 12


def test_a_copy_of_the_model_is_the_model(index_path, models, tmp_path):
    shutil.copytree(models / "a.npz", tmp_path / "renamed.npz")
    words = ("index", index_path, *WORLD, "--split", "test", "--resume", "--json", "--model")
    assert json.loads(run(*words, tmp_path / "renamed.npz").stdout)["added"] == 0


# --- another model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--resume", "--replace", None])
def test_vectors_of_another_model_do_not_come_in(index_path, models, option):
    words = ("index", index_path, *WORLD, "--split", "train", "--model", models / "b.npz")
    message = run(*words, *([option] if option else []), status=3).stderr
    assert "a.npz" in message and "b.npz" in message and "two models" in message
    assert len(open_index(index_path)) == 12


def test_vectors_from_a_file_are_of_the_model_that_is_named(index_path, models, tmp_path):
    other_model = systems.load(models / "b.npz")
    other_model.encode_images(limner.load("scenes", images=60).train.images).save(tmp_path / "v.npy")
    words = ("index", index_path, "--embeddings", tmp_path / "v.npy", "--model")
    assert "two models" in run(*words, models / "b.npz", status=3).stderr
    assert len(open_index(index_path)) == 12


def test_another_model_does_not_search(index_path, models):
    assert "two models" in run("search", index_path, "a cat", "--model", models / "b.npz", status=3).stderr
    with pytest.raises(LimnerError, match="two models"):
        open_index(index_path, system=systems.load(models / "b.npz"))
    opened = open_index(index_path)
    opened.system = systems.load(models / "b.npz")
    with pytest.raises(LimnerError, match="two models"):
        opened.search("a cat")
    assert len(open_index(index_path, system=systems.load(models / "a.npz")).search("a cat", 3).ranking) == 1


def test_python_adds_with_the_model_that_it_names(tmp_path, models):
    one, other_model = (systems.load(models / f"{name}.npz") for name in "ab")
    items = limner.load("scenes", images=60).images
    opened = index(tmp_path / "i", one.encode_images(items[:20]), items[:20], system=one)
    assert opened.about.model == one.fingerprint
    with pytest.raises(LimnerError, match="two models"):
        opened.add(other_model.encode_images(items[20:]), items[20:], system=other_model)
    assert opened.add(one.encode_images(items[20:]), items[20:], system=one) == 40


def test_a_model_that_was_put_in_the_place_of_the_kept_one_is_noticed(index_path, models, tmp_path):
    shutil.copytree(index_path, tmp_path / "i")
    shutil.rmtree(tmp_path / "i" / "system")
    shutil.copytree(models / "b.npz", tmp_path / "i" / "system")
    assert "two models" in run("search", tmp_path / "i", "a cat", status=3).stderr


def test_encoders_of_ones_own_are_known_by_name_or_by_what_they_say(tmp_path, monkeypatch):
    code = "import numpy as np\nclass One:\n    def encode(self, items):\n        return np.ones((len(items), 3))\n"
    code += "class Two(One): pass\nclass Same(One):\n    fingerprint = 'mine 1'\nclass Alias(Same): pass\n"
    (tmp_path / "own_models.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    for first, good, bad in (("One", "One", "Two"), ("Same", "Alias", "One")):
        words = ("index", tmp_path / first, *WORLD, "--resume", "--model")
        run(*words, f"own_models:{first}")
        run(*words, f"own_models:{good}")
        assert "two models" in run(*words, f"own_models:{bad}", status=3).stderr


# --- what a model says of itself ------------------------------------------------------------------------------------


def small(kind):
    """A small model of a kind, and another one that differs in its weights only."""
    world = limner.load("scenes", images=60)
    options = {
        "histograms": {},
        "kcca": {"fuse": False},
        "towers": {"epochs": 1, "hidden_dim": 4, "embedding_dim": 4, "word_dim": 4},
        "mcprop": {"epochs": 1, "hidden_dim": 8, "heads": 2, "layers": 1},
        "crank": {"epochs": 1, "hidden_dim": 8, "heads": 2, "layers": 1},
    }[kind]
    changed_option = {"ridge": 0.5} if kind == "histograms" else {"seed": 5}
    return limner.train(world, kind, **options), limner.train(world, kind, **options, **changed_option)


@pytest.mark.parametrize("kind", ["histograms", "kcca", "towers", "mcprop", "crank"])
def test_a_saved_model_is_the_one_that_was_trained(tmp_path, kind):
    one, other_model = small(kind)
    read = systems.load(one.save(tmp_path / "one.npz" if kind == "histograms" else tmp_path / "one"))
    assert read.fingerprint == one.fingerprint != other_model.fingerprint
    assert type(one).__name__ == "CrankModel" or identity(one) == one.fingerprint


def test_the_precision_is_no_part_of_the_identity():
    torch = pytest.importorskip("torch", reason="this encoder needs torch")
    from limner.encoders.torch_encoders import TorchEncoder

    class Tiny(TorchEncoder):
        dim = 2

        @property
        def fingerprint(self):
            return f"tiny abc {self.number_type}"

    single, half = Tiny(device="cpu", precision="float32"), Tiny(device="cpu", precision="bfloat16")
    assert single.fingerprint != half.fingerprint and half.number_type is torch.bfloat16
    assert identity(single) == identity(half) == "tiny abc"


def test_what_says_nothing_is_unknown_and_is_not_refused(tmp_path):
    class Plain:
        def encode(self, items):
            return np.ones((len(items), 2))

    opened = index(tmp_path / "i", Embeddings(["a"], np.ones((1, 2))), system=Plain())
    assert opened.about.model is None and identity(Plain(), "histograms") is None
    assert opened.add(Embeddings(["b"], np.ones((1, 2))), system=Plain()) == 1
