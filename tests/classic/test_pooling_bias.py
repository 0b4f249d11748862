"""The pooling bias of `proofs/pooling.py`, beside the same thing counted pair by pair."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from limner.core.collection import Collection, Items
from limner.core.judgements import Judgements


@pytest.fixture
def pooling(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2] / "proofs"), *sys.path])
    import pooling

    return pooling


def test_first_answers_are_judged_below_the_filter_or_never_judged(pooling):
    rng = np.random.default_rng(7)
    judged, passes = rng.random((2, 30, 40)) < 0.4
    own_pairs = np.zeros((30, 40), dtype=bool)
    relevant = judged & (rng.random((30, 40)) < 0.3)
    relevant[:, 0] = judged[:, 0] = True
    scores = rng.permuted(np.tile(np.arange(40.0), (30, 1)), axis=1)
    bias = pooling.Pool(judged, relevant, own_pairs, np.where(passes, 0.5, 0.1)).bias(scores, depth=5)
    kinds, plain, lenient = {"judged": 0, "below": 0, "never": 0}, [], []
    for row in range(30):
        order = sorted(range(40), key=lambda at: -scores[row, at])
        right = {at for at in range(40) if relevant[row, at]}
        wider = set(right)
        for at in order[:5]:
            kind = "judged" if judged[row, at] else "never" if passes[row, at] else "below"
            kinds[kind] += 1
            wider |= {at} if kind == "never" else set()
        plain.append(sum(at in right for at in order[: len(right)]) / len(right))
        lenient.append(sum(at in wider for at in order[: len(wider)]) / len(wider))
    assert (bias.judged, bias.below_filter, bias.never_judged) == pytest.approx(
        tuple(100 * kinds[kind] / 150 for kind in ("judged", "below", "never"))
    )
    assert (bias.precision, bias.if_right) == pytest.approx((100 * np.mean(plain), 100 * np.mean(lenient)))


def test_a_pool_joins_originals_and_the_majority_of_the_crowd(pooling):
    pairs = Judgements.from_pairs([("1.jpg", "a"), ("2.jpg", "b")])
    votes = [("1.jpg", "b", 0.5), ("2.jpg", "a", 0.33), ("2.jpg", "unused", 1.0)]
    test = Collection(
        "tiny",
        images=Items(["1.jpg", "2.jpg"], ["1.jpg", "2.jpg"], kind="image"),
        texts=Items(["a", "b"], ["a dog runs", "a cat sleeps"], kind="text"),
        judgements=pairs,
        ratings={"crowd": Judgements.from_pairs(votes)},
    )
    pool = pooling.Pool.of(test, [["a dog runs", "the dog"], ["cats asleep", "a sleeping cat"]])
    assert pool.judged.all()
    assert pool.relevant.tolist() == [[True, True], [False, True]]
    assert pool.own.tolist() == [[True, False], [False, True]]
    assert pool.passes.tolist() == [[True, False], [False, True]]


def test_rates_count_judged_pairs_that_pass_and_are_no_originals(pooling):
    rng = np.random.default_rng(3)
    overlap, judged = rng.random((25, 30)), rng.random((25, 30)) < 0.6
    own_pairs = np.eye(25, 30, dtype=bool)
    relevant = own_pairs | (judged & (rng.random((25, 30)) < overlap))
    judged |= own_pairs
    scores = rng.permuted(np.tile(np.arange(30.0), (25, 1)), axis=1)
    pool = pooling.Pool(judged, relevant, own_pairs, overlap)
    begins, ends = pooling.BANDS, (*pooling.BANDS[1:], 2)
    judged_others = judged & ~own_pairs
    for at, (low, high) in enumerate(zip(begins, ends, strict=True)):
        inside = judged_others & (overlap >= low) & (overlap < high)
        assert pool.rates().judged[at] == inside.sum()
        assert pool.rates().right[at] == (inside & relevant).sum()
    ranks = (-scores).argsort(axis=1).argsort(axis=1) + 1
    rates = pool.rates_of(scores, depth=10)
    second = judged_others & (overlap >= 0.4) & (overlap < 0.5) & (ranks >= 3) & (ranks < 6)
    assert (rates.judged[1, 2], rates.right[1, 2]) == (second.sum(), (second & relevant).sum())
    assert rates.judged.sum() == (judged_others & (overlap >= pooling.FILTER) & (ranks <= 10)).sum()


def test_expected_precision_lies_between_the_bounds(pooling):
    rng = np.random.default_rng(5)
    overlap, judged = rng.random((40, 50)), rng.random((40, 50)) < 0.5
    own_pairs = np.eye(40, 50, dtype=bool)
    judged |= own_pairs
    relevant = own_pairs | (judged & (rng.random((40, 50)) < 0.2))
    scores = rng.permuted(np.tile(np.arange(50.0), (40, 1)), axis=1)
    pool = pooling.Pool(judged, relevant, own_pairs, overlap)
    bias, chances = pool.bias(scores), pool.chances(scores, pool.rates())
    possible = chances > 0
    assert 100 * possible.sum() / 400 == pytest.approx(bias.never_judged)
    assert pool.expected(scores, np.zeros_like(chances), draws=2) == pytest.approx(bias.precision)
    assert pool.expected(scores, possible.astype(float), draws=2) == pytest.approx(bias.if_right)
    assert bias.precision < pool.expected(scores, chances) < bias.if_right


def test_the_widest_pool_is_that_of_the_systems_that_bring_most(proof_script):
    script = proof_script("thirty_systems")
    widest, all_other_systems = script.widest, script.OTHERS
    own_pairs = np.array([[True, True, False, False, False]])
    other_systems = {"same": own_pairs, "one": np.array([[False, False, True, False, False]]),
              "two": np.array([[False, False, False, True, True]])}  # fmt: skip
    assert widest([own_pairs], other_systems, 1) == (4, ("two",)) and widest([own_pairs], other_systems, 2) == (
        5,
        ("one", "two"),
    )
    assert len(all_other_systems) == 3
    assert all(each.method == "nearest" and each.images == "histogram" for each in all_other_systems.values())
