"""Models trained on features take new images, encoders use their cache, and training goes on from a saved model."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import Embeddings, LimnerError, systems
from limner.cli import app
from limner.cli.shell import Status
from limner.datasets import write
from limner.encoders.image_descriptors import Histograms

SMALL = {"word_dim": 4, "hidden_dim": 4, "embedding_dim": 4, "epochs": 1, "batch_size": 16}
COUNTED = []


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


class Counting:
    """An encoder that says which model it is, and counts what it encodes."""

    fingerprint, dim = "counting 1", 3

    def encode(self, items):
        COUNTED.extend(items.ids)
        return np.array([[len(key), 1.0, sum(map(ord, key)) % 7] for key in items.ids])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two folders of pictures, with a file of features for each: what is trained on, and what is new."""
    place = tmp_path_factory.mktemp("features")
    world = limner.load("scenes", images=36)
    for name, ids in (("old", world.images.ids[:24]), ("new", world.images.ids[24:])):
        part = world.restrict(ids)
        write(part, place / name)
        loaded = limner.load(str(place / name))
        Embeddings(loaded.images.ids, Histograms(("colours",)).encode(loaded.images)).save(place / f"{name}.npz")
    return place


def sets(**options):
    return [word for name, value in options.items() for word in ("-O", f"{name}={value}")]


@pytest.mark.parametrize("kind", ["towers", "nearest", "kcca"])
def test_a_model_trained_on_a_file_of_features_takes_new_images(folder, tmp_path, kind):
    options = {"nearest": {"images": "linear"}, "kcca": {"images": "linear", "fuse": "False"}}.get(kind, SMALL)
    if kind == "towers":
        pytest.importorskip("torch")
    run("train", kind, folder / "old", "-o", tmp_path / "m", *sets(features=folder / "old.npz", **options))
    done = run("evaluate", folder / "new", "--model", tmp_path / "m", status=Status.INPUT)
    assert "-O features" in done.stderr
    words = ("evaluate", folder / "new", "--model", tmp_path / "m", "-O", f"features={folder / 'new.npz'}", "--json")
    report = json.loads(run(*words).stdout)
    assert report["results"][0]["queries"] == 12
    model, new = systems.load(tmp_path / "m"), limner.load(str(folder / "new"))
    expected = limner.evaluate(model.scores(new, features=folder / "new.npz"), new)
    assert report["results"][0]["value"] == pytest.approx(expected.results[0].value)


def test_encoding_with_a_model_that_was_trained_on_features(folder, tmp_path):
    pytest.importorskip("torch")
    old, new = (limner.load(str(folder / name)) for name in ("old", "new"))
    model = limner.train(old, "towers", features=folder / "old.npz", device="cpu", **SMALL)
    model.save(tmp_path / "m")
    words = ("encode", folder / "new", "--side", "images", "--model", tmp_path / "m", "-o", tmp_path / "v.npz")
    run(*words, "-O", f"features={folder / 'new.npz'}")
    expected = model.encode_images(new.images, features=folder / "new.npz")
    np.testing.assert_allclose(Embeddings.load(tmp_path / "v.npz").matrix, expected.matrix, atol=1e-6)
    done = run(
        "encode", folder / "new", "--side", "texts", *words[4:], "-O", f"features={folder / 'new.npz'}", status=3
    )
    assert "leave them out" in done.stderr


@pytest.fixture(scope="module")
def model(folder):
    """A model with one space for images and texts, trained on a file of features."""
    kernels = sets(features=folder / "old.npz", images="linear", fuse="False")
    run("train", "kcca", folder / "old", "-o", folder / "kcca", *kernels)
    return folder / "kcca"


def hits(*words):
    return [hit["id"] for hit in json.loads(run(*words, "-k", "3", "--json").stdout)["hits"]]


def test_an_index_of_new_images_by_their_features(folder, model, tmp_path):
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    new, index = limner.load(str(folder / "new")), tmp_path / "i"
    words = ("index", index, folder / "new", "--model", model)
    assert "-O features" in run(*words, status=Status.INPUT).stderr
    run(*words, "-O", f"features={folder / 'new.npz'}", "--json")
    scores = systems.load(model).scores(new, features=folder / "new.npz")
    text = str(new.texts.values[0])
    assert hits("search", index, text) == scores.T.top(3)[new.texts.ids[0]]
    picture = new.images.values[3]
    assert "-O features" in run("search", index, "--image", picture, status=Status.INPUT).stderr
    vectors = Embeddings.load(folder / "new.npz").subset([new.images.ids[3]])
    Embeddings([str(picture)], vectors.matrix).save(tmp_path / "query.npz")
    search = ("search", index, "--image", picture, "-O", f"features={tmp_path / 'query.npz'}")
    assert hits(*search)[0] == new.images.ids[3]
    run("index", index, folder / "old", "-O", f"features={folder / 'old.npz'}")
    assert json.loads(run("index", index, "--json").stdout)["items"] == 36


def test_features_beside_what_needs_none_are_refused(folder, model, tmp_path):
    pytest.importorskip("lancedb", reason="lancedb is not installed")
    vectors = ("--embeddings", folder / "new.npz", "-O", f"features={folder / 'new.npz'}")
    assert "give only one of them" in run("index", tmp_path / "i", folder / "new", *vectors, status=Status.USAGE).output
    run("train", "colours", folder / "old", "-o", tmp_path / "colours.npz")
    words = ("--model", tmp_path / "colours.npz", "-O", f"features={folder / 'new.npz'}")
    assert "leave them out" in run("index", tmp_path / "i", folder / "new", *words, status=Status.INPUT).stderr
    run("index", tmp_path / "j", "--embeddings", folder / "new.npz")
    search = ("search", tmp_path / "j", "--queries", folder / "new.npz", "-O", f"features={folder / 'new.npz'}")
    assert "already vectors" in run(*search, status=Status.USAGE).output


def test_served_models_take_the_features_of_the_images(folder, model):
    pytest.importorskip("starlette", reason="starlette is not installed")
    from limner.web.library import Library

    run("train", "colours", folder / "old", "-o", folder / "colours.npz")
    named = {"kcca": str(model), "colours": str(folder / "colours.npz")}
    served = Library({"new": str(folder / "new")}, named, features=folder / "new.npz")
    assert len(served.system("new", "kcca", patience=60).collection.images) == 12
    assert len(served.system("new", "colours", patience=60).collection.images) == 12
    words = ("serve", folder / "new", "--model", folder / "colours.npz", "-O", f"features={folder / 'new.npz'}")
    assert "leave them out" in run(*words, "--port", "0", status=Status.INPUT).stderr


def test_features_for_what_takes_none_are_refused(folder):
    words = ("evaluate", folder / "new", "-O", f"features={folder / 'new.npz'}")
    assert "is only for a --model" in run(*words, "--scores", folder / "new.npz", status=Status.USAGE).stderr
    done = run(*words, "--model", "colours", status=Status.INPUT)
    assert "features" in done.stderr


def test_the_encoder_that_made_the_features_is_recorded_and_serves_new_images(folder, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("LIMNER_CACHE", "")
    old, new = (limner.load(str(folder / name)) for name in ("old", "new"))
    encoder_features = {"embeddings": str(folder / "old.npz"), "encoder": "histograms", "names": ["colours"]}
    limner.train(old, "towers", features=encoder_features, device="cpu", **SMALL).save(tmp_path / "m")
    model = systems.load(tmp_path / "m")
    scores = model.scores(new, features=folder / "new.npz").matrix()
    np.testing.assert_allclose(model.scores(new).matrix(), scores, atol=1e-6)
    changed = {**encoder_features, "names": ["colours", "shapes"]}
    with pytest.raises(LimnerError, match="name the encoder that computed them"):
        limner.train(old, "towers", features=changed, device="cpu", **SMALL).scores(new)


def test_an_encoder_uses_its_cache(folder, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "cache"))
    old = limner.load(str(folder / "old"))
    COUNTED.clear()
    name = f"{__name__}:Counting"
    limner.train(old, "towers", features=name, device="cpu", **SMALL).save(tmp_path / "m")
    assert sorted(COUNTED) == sorted(old.images.ids), "each image is encoded once"
    first = systems.load(tmp_path / "m", trust=True).scores(old).matrix()
    assert len(COUNTED) == len(old.images), "nothing is encoded again in another command"
    monkeypatch.setenv("LIMNER_CACHE", "")
    np.testing.assert_allclose(systems.load(tmp_path / "m", trust=True).scores(old).matrix(), first)
    assert len(COUNTED) == 2 * len(old.images), "without a cache it is"


def test_a_finished_run_that_is_started_again_says_so(folder, tmp_path):
    pytest.importorskip("torch")
    words = [
        "train",
        "towers",
        folder / "old",
        "-o",
        tmp_path / "m",
        *sets(checkpoint_dir=tmp_path / "run", tensorboard="no"),
    ]
    words += sets(**SMALL)
    assert "left to train" not in run(*words).stdout
    weights = (tmp_path / "m" / "model.safetensors").read_bytes()
    assert "nothing left to train: the checkpoint has all 1 epochs" in run(*words).stdout.replace("\n", " ")
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == weights
    resumed = [
        "train",
        "towers",
        folder / "old",
        "-o",
        tmp_path / "m",
        *sets(checkpoint_dir=tmp_path / "run", tensorboard="no"),
    ]
    assert "resumed after epoch 1: 1 further epochs" in run(*resumed, *sets(**{**SMALL, "epochs": 2})).stdout


def test_fine_tuning_goes_on_from_a_saved_model(folder, tmp_path):
    torch = pytest.importorskip("torch")
    old, new = (limner.load(str(folder / name)) for name in ("old", "new"))
    first = limner.train(old, "towers", device="cpu", **SMALL)
    first.save(tmp_path / "first")
    run("train", "towers", folder / "new", "-o", tmp_path / "tuned", "--from", tmp_path / "first", *sets(epochs=1))
    tuned = systems.load(tmp_path / "tuned")
    assert tuned.vocabulary.words == first.vocabulary.words and tuned.settings["shape"] == first.settings["shape"]
    assert tuned.trained_on.saw(old).all() and tuned.trained_on.saw(new).all(), "both were trained on"
    assert tuned.trained["start"]["fingerprint"] == first.fingerprint
    options = {"device": "cpu", "init_from": first, "learning_rate": 1e-9, "epochs": 1}
    still = limner.train(new, "towers", **options)
    for name, tensor in first.module.state_dict().items():
        torch.testing.assert_close(still.module.state_dict()[name], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_dim": 5}, "hidden_dim=5 with init_from=: that model has 4"),
        ({"texts": "minilm"}, "texts= with init_from="),
        ({"word_vectors": "glove.npz"}, "word_vectors= with init_from="),
    ],
)
def test_what_does_not_fit_the_model_that_is_begun_with_is_refused(folder, options, message):
    pytest.importorskip("torch")
    old = limner.load(str(folder / "old"))
    first = limner.train(old, "towers", device="cpu", **SMALL)
    with pytest.raises(LimnerError, match=message):
        limner.train(old, "towers", init_from=first, device="cpu", **options)
    with pytest.raises(LimnerError, match="is a model of kind 'towers': expected 'pvse'"):
        limner.train(old, "pvse", init_from=first, device="cpu")
