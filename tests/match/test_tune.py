"""Tuning: the best point of the grid, by evaluating every point by hand."""

import itertools

import numpy as np
import pytest

import limner
from limner import Embeddings, LimnerError, Scores
from limner.evaluation.tuning import corrected, tune
from limner.match import CORRECTIONS, correction


@pytest.fixture(scope="module")
def world():
    """Scenes with made-up vectors: texts near their image, images around a common centre, so that there are hubs."""
    pairs = limner.load("scenes", images=100)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((len(pairs.images), 12)) + 1.0
    judged = pairs.judgements.T.relevant
    texts = rng.standard_normal((len(pairs.texts), 12)) * 0.9
    texts[judged.rows] += images[judged.columns]
    return pairs, Scores.from_embeddings(Embeddings(pairs.images.ids, images), Embeddings(pairs.texts.ids, texts))


def part(world, name):
    pairs, scores = world
    split = pairs.split(name)
    return scores.restrict(queries=split.images.ids, candidates=split.texts.ids), split


def value(scores, split, measure):
    results = limner.evaluate(scores, split, measures=measure).results
    return np.mean([r.value for r in results if str(r.measure) == measure])


@pytest.mark.parametrize(("name", "measure"), [("csls", "rsum"), ("inverted_softmax", "R@1"), ("nnn", "rsum")])
def test_the_best_of_all_points(world, name, measure):
    dev = part(world, "dev")
    by_hand = {}
    grid = CORRECTIONS[name].grid
    for point in itertools.product(*grid.values()):
        options = dict(zip(grid, point, strict=True))
        if options.get("k", 1) <= dev[0].shape[0]:
            by_hand[point] = value(dev[0].correct(name, **options), dev[1], measure)
    assert len(set(by_hand.values())) > 1  # there is something to choose
    chosen = tune(name, *dev, measure=measure)
    assert by_hand[tuple(chosen.values())] == max(by_hand.values())
    assert next(p for p in by_hand if by_hand[p] == max(by_hand.values())) == tuple(chosen.values())


def test_lower_is_better_where_it_is(world):
    dev = part(world, "dev")
    grid = {"k": [1, 5, 15]}
    values = {k: value(dev[0].correct("csls", k=k), dev[1], "MeanR") for k in grid["k"]}
    assert values[tune("csls", *dev, measure="MeanR", grid=grid)["k"]] == min(values.values())


def test_correct_with_tune(world):
    test, dev = part(world, "test"), part(world, "dev")
    options = tune("nnn", *dev)
    assert np.array_equal(test[0].correct("nnn", tune=dev).matrix(), test[0].correct("nnn", **options).matrix())
    assert test[0].correct("nnn", k=4, tune=dev).correction.k == 4


@pytest.mark.parametrize("turned", [False, True])
def test_from_scores_of_the_whole(world, turned):
    pairs, scores = world
    test, dev = part(world, "test"), part(world, "dev")
    tuned = corrected(scores.T if turned else scores, pairs, "csls")
    expected = test[0].correct("csls", **tune("csls", *dev)).matrix()
    assert np.allclose(tuned.T.matrix() if turned else tuned.matrix(), expected, atol=1e-6)
    assert corrected(scores, pairs, "csls", tune=None).correction == correction("csls")


def test_every_correction_has_a_grid_with_its_default_first():
    for name, kind in CORRECTIONS.items():
        assert kind.grid, name
        assert correction(name, **{option: values[0] for option, values in kind.grid.items()}) == correction(name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda w, d: tune("clss", *d), "unknown correction 'clss'"),
        (lambda w, d: tune("csls", *d, fixed={"beta": 3}), "unknown option 'beta' of correction 'csls'"),
        (lambda w, d: tune("csls", *d, grid={"k": []}), "nothing to try"),
        (lambda w, d: corrected(w[1], w[0], "csls", split="dev"), "would be too optimistic"),
    ],
)
def test_refused(world, make, message):
    with pytest.raises(LimnerError, match=message):
        make(world, part(world, "dev"))
