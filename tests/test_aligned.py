"""An encoder of images and one of texts are joined in closed form: from the name of either to a report."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import Items, LimnerError
from limner.cli import app
from limner.systems.aligned import AlignedModel
from limner.systems.opening import open_system

WORLD = ("scenes", "-O", "images=60", "--measures", "R@1 R@10")


class Letters:
    """An encoder of texts: how often each letter occurs."""

    dim, kinds, fingerprint = 26, ("text",), "letters 1"

    def encode(self, items):
        return np.array([[text.lower().count(chr(97 + n)) for n in range(26)] for text in items.values], np.float32)


class Means(Letters):
    """An encoder of images: mean colours of a grid."""

    dim, kinds, fingerprint = 48, ("image",), "means 1"

    def encode(self, items):
        small = [np.asarray(items.open(row).convert("RGB").resize((4, 4))) for row in range(len(items))]
        return np.array([each.ravel() for each in small], np.float32)


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=120)


@pytest.fixture(autouse=True)
def workdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def shell(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_what_numpy_gives(world):
    """Dense rows: the maps are those of the definition, up to the sign of each direction."""
    model = limner.train(world, "aligned", images=Means(), texts=Letters(), ridge=0.5, dimensions=5)
    part = world.train
    sides = [each.encode(items).astype(float) for each, items in ((Means(), part.images), (Letters(), part.texts))]
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in sides)
    pairs = part.judgements.relevant.restrict(candidates=part.texts.ids)
    a, b = a[pairs.rows], b[pairs.columns]
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    covariances = [each.T @ each / len(each) for each in (a, b)]
    low = [np.linalg.cholesky(c + 0.5 * np.trace(c) / len(c) * np.eye(len(c))) for c in covariances]
    left, strength, _ = np.linalg.svd(np.linalg.solve(low[0], a.T @ b / len(a)) @ np.linalg.inv(low[1]).T)
    expected = np.linalg.inv(low[0]).T @ left[:, :5] * strength[:5]
    actual = model.image_map.weights
    np.testing.assert_allclose(np.abs(actual), np.abs(expected), atol=1e-8)


def test_it_finds_more_than_chance_and_the_same_after_saving(world, tmp_path):
    model = limner.train(world, "aligned", texts="words")
    report = limner.evaluate(model, world.test, measures="R@10")
    assert report.value("R@10", direction="i2t", view="pairs") > 0.5
    model.save(tmp_path / "model")
    reloaded = limner.systems.load(tmp_path / "model")
    assert isinstance(reloaded, AlignedModel) and reloaded.fingerprint == model.fingerprint
    scores = [each.scores(world.test).matrix() for each in (model, reloaded)]
    np.testing.assert_array_equal(*scores)


def test_an_encoder_that_was_an_object_is_not_guessed(world, tmp_path):
    limner.train(world, "aligned", texts=Letters()).save(tmp_path / "model")
    with pytest.raises(LimnerError, match="texts was an object"):
        limner.systems.load(tmp_path / "model")


@pytest.mark.parametrize(("encoder", "message"), [(Letters(), "texts only"), (Means(), "images only")])
def test_an_encoder_of_one_kind_is_joined_with_a_simple_one_of_the_other(world, encoder, message):
    opened = open_system(encoder, world)
    assert any(message in note for note in opened.notes)
    assert opened.scores.shape == (len(world.test.images), len(world.test.texts))
    assert opened.training is not None and not set(opened.training.images.ids) & set(opened.collection.images.ids)


def test_from_the_name_of_an_encoder_of_texts_alone_to_a_report():
    done = shell("evaluate", *WORLD, "--model", "minilm", "-o", "r.json", "--json")
    assert done.exit_code == 0, done.stderr
    explicit = shell("evaluate", *WORLD, "--model", "aligned(images=histograms, texts=minilm)", "--json")
    assert json.loads(explicit.stdout)["results"] == json.loads(done.stdout)["results"]
    assert "encodes texts only" in " ".join(limner.Report.load("r.json").notes)


def test_options_that_the_loader_does_not_have_are_the_encoders():
    plain = shell("evaluate", *WORLD, "--model", "aligned", "-O", "dimensions=3", "--json")
    written = shell("evaluate", *WORLD, "--model", "aligned(dimensions=3)", "--json")
    assert plain.exit_code == 0 and plain.stdout == written.stdout
    combined = shell("evaluate", *WORLD, "--model", "aligned(ridge=1)", "-O", "dimensions=3", "--json")
    assert json.loads(combined.stdout)["results"] == json.loads(plain.stdout)["results"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "aligned", "-O", "dimension=3"), "dimensions"),
        (("--model", "aligned(ridge=0)"), "ridge above 0"),
        (("--model", "aligned(texts=histograms)"), "encodes images; name an encoder of texts"),
        (("--model", "aligned(images=nothing)"), "nothing"),
        (("--model", "aligned(images=histograms"), "expected a name"),
        (("--model", "histograms", "--split", "all"), "all"),
    ],
)
def test_what_is_refused(words, message):
    done = shell("evaluate", *WORLD, *words)
    assert done.exit_code in (2, 3) and message in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_items_in_place_of_an_encoder_are_refused(world):
    with pytest.raises(LimnerError, match="texts="):
        limner.train(world, "aligned", texts=Items.of(["a"]))
