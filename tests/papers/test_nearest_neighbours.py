"""The nearest-neighbour systems, beside the definition written out."""

from __future__ import annotations

import numpy as np
import pytest

import limner
from limner import systems
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.papers import nearest_neighbours as nearest
from limner.papers.nearest_neighbours import NearestModel
from limner.systems.classic.kernel_model import documents_of
from limner.systems.classic.strings import OverlapF1

SMALL = {"side": 64, "points": 40}


@pytest.fixture(scope="module")
def world() -> Collection:
    return limner.load("scenes", images=100)


@pytest.fixture(scope="module")
def model(world) -> NearestModel:
    return limner.train(world, "nearest", **SMALL)


def test_scores_are_those_of_the_definition(model, world):
    train, test = world.train, world.test
    documents = documents_of(train)
    words = OverlapF1().fit(documents)
    scores = model.scores(test)
    forward, backward = scores.matrix(), scores.T.matrix()
    for i in (0, 7, 19):
        t = int(model.image_kernel(test.images[[i]], model.images)[0].argmax())
        for s in (0, 33, 99):
            assert forward[i, s] == pytest.approx(words([documents[t]], [[test.texts.values[s]]])[0, 0])
    for s in (1, 50, 98):
        t = int(words([[test.texts.values[s]]], documents)[0].argmax())
        for i in (2, 11):
            expected = model.image_kernel(train.images[[t]], test.images[[i]])[0, 0]
            assert backward[s, i] == pytest.approx(expected, rel=1e-5)


def test_neighbours_of_training_queries_are_themselves(model, world):
    """An image of the training set finds itself, and so its own captions first."""
    report = limner.evaluate(model.scores(world.train), world.train, measures="R@1")
    assert report.value("R@1", direction="i2t", view="pairs") > 0.9


def test_it_is_above_chance_on_new_images(model, world):
    report = limner.evaluate(model.scores(world.test), world.test, measures="R@10")
    chance = 1 - np.prod([(95 - k) / (100 - k) for k in range(10)])
    assert report.value("R@10", direction="i2t", view="pairs") > chance


@pytest.mark.parametrize("texts", ["bow", "trigrams"])
def test_other_similarities_of_texts(world, texts):
    model = limner.train(world, "nearest", texts=texts, weights="root idf", images="histogram", **SMALL)
    assert model.scores(world.test).shape == (20, 100)


def test_a_saved_model_scores_alike(model, world, tmp_path):
    reloaded = systems.load(model.save(tmp_path / "model"))
    assert isinstance(reloaded, NearestModel)
    np.testing.assert_array_equal(reloaded.scores(world.test).matrix(), model.scores(world.test).matrix())
    np.testing.assert_array_equal(reloaded.scores(world.test).T.matrix(), model.scores(world.test).T.matrix())


def test_too_little_to_compare_with_is_refused(world):
    with pytest.raises(LimnerError, match="at least 5"):
        nearest.train(world.train.restrict(world.train.images.ids[:4]))
