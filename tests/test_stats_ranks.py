"""Confidence sets for ranks: against slow loops, known answers, and what they must not depend on."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from limner import LimnerError, stats
from limner.stats.rank_sets import rank_sets_of_means, rank_sets_of_sum


def slow_sets(values, clusters, level, samples, seed):
    """Step-down max-t with one loop per thing: clusters, pairs, draws."""
    n, k = values.shape
    names = sorted(set(clusters))
    mean = values.mean(axis=0)
    total = np.array([values[[c == name for c in clusters]].sum(axis=0) / n for name in names])
    size = np.array([sum(c == name for c in clusters) for name in names])
    off = total - np.outer(size, mean) / n
    units = len(names)
    covariance = sum(np.outer(row, row) for row in off) * units / (units - 1)
    rng = np.random.default_rng(seed)
    factor = np.linalg.cholesky(covariance + 1e-12 * np.trace(covariance) * np.eye(k))
    scale = np.sqrt(rng.chisquare(units - 1, size=samples) / (units - 1))
    drawn = [(factor @ z) / s for z, s in zip(rng.standard_normal((samples, k)), scale, strict=True)]
    spread, error = {}, {}
    for i, j in itertools.permutations(range(k), 2):
        spread[i, j] = math.sqrt(max(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j], 0))
        error[i, j] = math.hypot(spread[i, j], math.sqrt(2) * max(abs(row[i] - row[j]) for row in total))
    open_ = {pair for pair in spread if spread[pair] > 1e-9}
    separated = set()
    while True:
        tops = sorted(max((d[i] - d[j]) / spread[i, j] for i, j in open_) for d in drawn)
        bound = tops[math.ceil(level * (samples + 1)) - 1]
        new = {(i, j) for i, j in open_ if (mean[i] - mean[j]) / error[i, j] > bound}
        if not new or not open_ - new:
            separated |= new
            break
        separated, open_ = separated | new, open_ - new
    return [(1 + sum(j == s for _, j in separated), k - sum(i == s for i, _ in separated)) for s in range(k)]


def pairs_of(sets):
    return list(zip(sets.lowest.tolist(), sets.highest.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_paired_sets_are_those_of_the_slow_loops(seed):
    rng = np.random.default_rng(seed)
    clusters = np.sort(rng.integers(0, 25, size=80))
    ease = rng.standard_normal(25)[clusters]
    values = (ease[:, None] + rng.standard_normal((80, 4)) > [-1.5, 0, 0.2, 1.2]) * 1.0
    sets = stats.rank_sets(values, clusters=clusters, samples=400, seed=seed)
    assert pairs_of(sets) == slow_sets(values, clusters.tolist(), 0.95, 400, seed)


def test_the_sets_hold_all_orders_that_fit_what_is_told():
    """The set of a system is every rank it has in some order of the systems that contradicts nothing told."""
    rng = np.random.default_rng(3)
    sets = stats.rank_sets(rng.random((300, 5)) < [0.9, 0.75, 0.7, 0.5, 0.45])
    orders = [o for o in itertools.permutations(range(5)) if not any(
        sets.better[b, a] for a, b in itertools.combinations(o, 2))]  # fmt: skip
    for system, (low, high) in enumerate(pairs_of(sets)):
        ranks = {order.index(system) + 1 for order in orders}
        assert (min(ranks), max(ranks)) == (low, high)


def test_unpaired_sets_are_those_of_holm_by_hand():
    means, counts = [0.62, 0.55, 0.3, 0.3], [500, 400, 500, 100]
    p = {}
    for i, j in itertools.permutations(range(4), 2):
        pooled = (means[i] * counts[i] + means[j] * counts[j] + 1) / (counts[i] + counts[j] + 2)
        error = math.sqrt(pooled * (1 - pooled) * (1 / counts[i] + 1 / counts[j]))
        p[i, j] = 0.5 * math.erfc((means[i] - means[j]) / error / math.sqrt(2))
    separated, left = set(), len(p)
    for pair in sorted(p, key=p.get):
        if p[pair] * left > 0.05:
            break
        separated, left = separated | {pair}, left - 1
    expected = [(1 + sum(j == s for _, j in separated), 4 - sum(i == s for i, _ in separated)) for s in range(4)]
    assert pairs_of(rank_sets_of_means(means, counts)) == expected


def test_a_sum_of_one_part_is_the_mean_and_parts_add_up():
    rng = np.random.default_rng(0)
    a, b = rng.random((60, 3)), rng.random((300, 3))
    images = np.repeat(np.arange(60), 5)
    one = rank_sets_of_sum([stats.Part(a, np.arange(60), 100)])
    assert one.estimates == pytest.approx(100 * a.mean(axis=0))
    summed = rank_sets_of_sum([stats.Part(a, np.arange(60), 100), stats.Part(b, images, 100)])
    assert summed.estimates == pytest.approx(100 * (a.mean(axis=0) + b.mean(axis=0)))
    assert summed.method == "paired, max-t by cluster"


def test_equal_systems_are_never_told_apart_and_few_differences_are_not_enough():
    values = np.random.default_rng(0).random((200, 1)) < 0.5
    assert pairs_of(stats.rank_sets(np.hstack([values, values, values]))) == [(1, 3)] * 3
    five = np.zeros((1000, 2))
    five[:5, 0] = 1  # five hits against none: p = 0.0625 by McNemar's exact test, two-sided
    assert pairs_of(stats.rank_sets(five)) == [(1, 2), (1, 2)]
    ten = np.zeros((1000, 2))
    ten[:10, 0] = 1
    assert pairs_of(stats.rank_sets(ten)) == [(1, 1), (2, 2)]


def test_the_same_constant_lead_on_few_queries_is_no_proof():
    assert pairs_of(stats.rank_sets([[0.5, 0.4], [0.7, 0.6]])) == [(1, 2), (1, 2)]


def test_pairing_and_clusters_matter():
    rng = np.random.default_rng(1)
    hard = rng.random(400)
    values = np.column_stack([hard, hard - 0.02 + 0.01 * rng.standard_normal(400)]).clip(0, 1)
    assert pairs_of(stats.rank_sets(values)) == [(1, 1), (2, 2)]
    assert pairs_of(rank_sets_of_means(values.mean(axis=0), [400, 400])) == [(1, 2), (1, 2)]
    copied = np.repeat(rng.random((12, 2)) < [0.8, 0.4], 50, axis=0)
    alone, together = stats.rank_sets(copied), stats.rank_sets(copied, clusters=np.repeat(np.arange(12), 50))
    assert together.error[0, 1] > 5 * alone.error[0, 1]


def test_the_order_of_systems_does_not_matter():
    values = np.random.default_rng(5).random((150, 5)) < [0.9, 0.3, 0.6, 0.6, 0.1]
    order = [3, 0, 4, 2, 1]
    plain, moved = stats.rank_sets(values), stats.rank_sets(values[:, order])
    assert [pairs_of(plain)[i] for i in order] == pairs_of(moved)


def test_queries_needed_would_make_the_difference_detectable():
    rng = np.random.default_rng(0)
    sets = stats.rank_sets(rng.random((500, 2)) < [0.55, 0.5])
    needed = stats.queries_needed(0.05, sets.error[0, 1], 500, sets.critical)
    assert sets.detectable(0, 1) * math.sqrt(500 / needed) == pytest.approx(0.05)
    assert stats.queries_needed(0.0, 0.1, 500, 2.0) == math.inf


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: stats.rank_sets([1, 2, 3]), "two systems or more"),
        (lambda: stats.rank_sets([[1, 2]]), "two or more"),
        (lambda: stats.rank_sets([[1, np.nan], [1, 2]]), "finite"),
        (lambda: stats.rank_sets([[1, 2], [1, 2]], level=1.2), "level"),
        (lambda: stats.rank_sets([[1, 2], [1, 2]], clusters=["a", "a"]), "1 independent"),
        (lambda: rank_sets_of_means([0.5, 1.5], [10, 10]), "expected 0 to 1"),
        (lambda: rank_sets_of_means([0.5, 0.5], [10, 0]), "one positive count per mean"),
        (lambda: rank_sets_of_means([0.5, 0.5], [10]), "at least 2"),
    ],
)
def test_what_is_refused(call, says):
    with pytest.raises(LimnerError, match=says):
        call()
