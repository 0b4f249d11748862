"""Intervals of means of bounded values: what they cover, and what they say where nothing varies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from limner import stats
from limner.core.errors import LimnerError


def exact_coverage(n: int, rate: float) -> float:
    """The chance that the interval of n independent hits and misses holds the rate, over every number of hits."""
    covered = [rate in stats.mean_interval(np.arange(n) < hits) for hits in range(n + 1)]
    return float(scipy_stats.binom.pmf(np.arange(n + 1), n, rate)[covered].sum())


@pytest.mark.parametrize("n", [50, 100, 200])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 0.95, 0.99])
def test_proportions_are_covered(n, rate):
    assert exact_coverage(n, rate) >= 0.935


@pytest.mark.parametrize(("hits", "n"), [(12, 50), (30, 50), (250, 1000)])
def test_away_from_the_ends_it_is_wilsons(hits, n):
    theirs = scipy_stats.binomtest(hits, n).proportion_ci(method="wilson")
    interval = stats.mean_interval(np.arange(n) < hits)
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))
    assert (interval.estimate, interval.method, interval.unit, interval.n) == (hits / n, "Wilson", "queries", n)


@pytest.mark.parametrize("end", [0.0, 1.0])
@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(20), 5)])
def test_no_certainty_at_the_ends(end, clusters):
    interval = stats.mean_interval(np.full(100, end), clusters=clusters)
    units = 100 if clusters is None else 20
    t = 1.96 if clusters is None else scipy_stats.t.ppf(0.975, 19)
    width = t**2 / (units + t**2)
    assert end in interval and interval.high - interval.low == pytest.approx(width, rel=1e-3)


def simulated(rng, images, rate, shared):
    """Five captions to an image that share their luck."""
    luck = np.sqrt(shared) * rng.normal(size=(images, 1)) + np.sqrt(1 - shared) * rng.normal(size=(images, 5))
    return (luck > scipy_stats.norm.isf(rate)).ravel() * 1.0


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.95])
def test_captions_of_one_image_are_covered(shared, rate):
    rng = np.random.default_rng(3)
    images = np.repeat(np.arange(60), 5)
    covered = [rate in stats.mean_interval(simulated(rng, 60, rate, shared), clusters=images) for _ in range(400)]
    assert np.mean(covered) >= 0.93


def test_only_clusters_make_it_honest():
    rng = np.random.default_rng(4)
    covered = [0.3 in stats.mean_interval(simulated(rng, 100, 0.3, 0.9)) for _ in range(200)]
    assert np.mean(covered) < 0.75


@pytest.mark.parametrize("power", [1, 8, 40])
def test_values_that_are_no_hits_and_misses(power):
    """Such as reciprocal ranks, most of them small: the mean of u^p is 1 / (p + 1)."""
    rng = np.random.default_rng(5)
    covered = [1 / (power + 1) in stats.mean_interval(rng.random(100) ** power) for _ in range(400)]
    assert np.mean(covered) >= 0.925


def test_equal_values_are_not_certain_either():
    wide, narrow = (stats.mean_interval(np.full(n, 0.5)) for n in (5, 500))
    assert wide.low < 0.3 < 0.7 < wide.high and 0.49 < narrow.low < 0.5 < narrow.high < 0.51
    alone = stats.mean_interval([0.5])
    assert (alone.low, alone.high) == (0.0, 1.0)


def test_differences_are_bounded_on_both_sides():
    equal = stats.mean_interval(np.zeros(1000), bounds=(-1, 1))
    assert -0.01 < equal.low < 0 < equal.high < 0.01
    rng = np.random.default_rng(6)
    covered = []
    for _ in range(400):
        a, b = rng.random(200) < 0.03, rng.random(200) < 0.01
        covered.append(0.02 in stats.mean_interval(1.0 * a - b, bounds=(-1, 1)))
    assert np.mean(covered) >= 0.93


def test_large_samples_agree_with_the_bootstrap():
    rng = np.random.default_rng(7)
    clusters = np.sort(rng.integers(0, 400, 1500))
    values = np.clip(rng.normal(0.4, 0.1, 400)[clusters] + 0.1 * rng.normal(size=1500), 0, 1)
    for options in ({}, {"clusters": clusters}, {"clusters": clusters, "folds": clusters % 3}):
        ours, drawn = stats.mean_interval(values, **options), stats.bootstrap(values, samples=6000, **options)
        assert ours.estimate == pytest.approx(drawn.estimate)
        assert (ours.low, ours.high) == pytest.approx((drawn.low, drawn.high), abs=0.0012)


def test_folds_of_unequal_size_count_alike():
    values, folds = np.r_[np.ones(10), np.zeros(90)], np.r_[np.zeros(10), np.ones(90)]
    interval = stats.mean_interval(values, folds=folds)
    # 36 queries of one fold would be as sure.
    assert interval.estimate == 0.5 and interval.low < 0.4 and interval.high > 0.6


def test_a_cluster_may_lie_in_two_folds():
    interval = stats.mean_interval([1, 0, 1, 0, 1, 0], clusters=[0, 0, 1, 1, 2, 2], folds=[0, 1, 0, 1, 0, 1])
    assert interval.estimate == 0.5 and interval.n == 3


def test_a_sum_of_means_that_share_clusters():
    """Parts that move together vary as one, parts that are each other's opposite hardly at all."""
    rng = np.random.default_rng(8)
    values, images = rng.random(300), np.arange(300)
    alone = stats.mean_interval(values, clusters=images)
    twice = stats.sum_interval([stats.Part(values, images, 100), stats.Part(values, images, 100)])
    assert (twice.low, twice.high) == pytest.approx((200 * alone.low, 200 * alone.high), rel=0.01)
    opposed = stats.sum_interval([stats.Part(values, images, 100), stats.Part(1 - values, images, 100)])
    assert opposed.estimate == pytest.approx(100) and opposed.high - opposed.low < 2


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=12).flatmap(
        lambda v: st.tuples(st.just(v), st.lists(st.integers(0, 3), min_size=len(v), max_size=len(v)))
    )
)
def test_the_interval_holds_its_estimate_and_stays_in_bounds(case):
    values, clusters = case
    for options in ({}, {"clusters": clusters}, {"folds": clusters}):
        interval = stats.mean_interval(values, **options)
        assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
        assert interval.high - interval.low > 1e-6


def test_what_is_out_of_bounds_is_refused():
    with pytest.raises(LimnerError, match=r"got 1.5, expected values between 0 and 1"):
        stats.mean_interval([0.5, 1.5])
    with pytest.raises(LimnerError, match="bounds: got"):
        stats.mean_interval([0.5], bounds=(1, 0))
    with pytest.raises(LimnerError, match="got no parts"):
        stats.sum_interval([])
