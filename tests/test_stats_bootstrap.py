"""Bootstrap intervals against scipy, full enumeration, plain functions, and the coverage they promise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from limner import stats
from limner.stats import resampling
from limner.stats.bootstrap import bootstrap_sum
from limner.stats.correlation import median
from limner.stats.resampling import Median, drawn_counts


def all_resamples(values: np.ndarray) -> np.ndarray:
    """Every one of the n^n resamples, a row each."""
    return values[np.array(list(itertools.product(range(len(values)), repeat=len(values))))]


@pytest.mark.parametrize("statistic", ["mean", "median", lambda x: float(np.max(x) - np.mean(x))])
def test_bootstrap_has_the_exact_distribution(statistic) -> None:
    """Five values, 3125 resamples: the share of draws at or below each possible value must be the exact one."""
    values = np.array([0.0, 1.0, 1.0, 3.0, 7.0])
    of = {"mean": np.mean, "median": np.median}.get(statistic, statistic) if isinstance(statistic, str) else statistic
    exact = np.sort([of(row) for row in all_resamples(values)])
    for level in (0.5, 0.8, 0.95):
        interval = stats.bootstrap(values, statistic=statistic, samples=20_000, level=level, seed=1)
        assert np.mean(exact < interval.low) - 0.015 <= (1 - level) / 2 <= np.mean(exact <= interval.low) + 0.015
        assert np.mean(exact < interval.high) - 0.015 <= (1 + level) / 2 <= np.mean(exact <= interval.high) + 0.015


@pytest.mark.parametrize("times", [[1] * 12, [5, 4, 3], [60, 20, 10], [7]])
def test_draws_of_distinct_units_are_multinomial(times: list[int]) -> None:
    """Both ways of drawing: counts add up, and have the mean and covariance of n single draws."""
    n, samples = sum(times), 30_000
    drawn = np.concatenate(list(drawn_counts(np.array(times), samples, np.random.default_rng(0))))
    assert drawn.shape == (samples, len(times))
    assert (drawn.sum(axis=1) == n).all()
    share = np.array(times) / n
    np.testing.assert_allclose(drawn.mean(axis=0), times, atol=6 * math.sqrt(n / samples))
    np.testing.assert_allclose(np.cov(drawn.T), n * (np.diag(share) - np.outer(share, share)).squeeze(), atol=0.05 * n)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_is_scipys(method: str) -> None:
    values = np.random.default_rng(7).exponential(size=60)
    interval = stats.bootstrap(values, method=method, samples=20_000)
    theirs = scipy_stats.bootstrap((values,), np.mean, method=method, n_resamples=20_000, rng=np.random.default_rng(0))
    np.testing.assert_allclose([interval.low, interval.high], theirs.confidence_interval, atol=0.012)


def test_bca_of_folds_is_scipys_of_several_samples() -> None:
    rng = np.random.default_rng(8)
    first, second = rng.exponential(size=12), rng.normal(0, 3, size=600)  # few and skewed, many and not

    def mean_of_means(x, y, axis=-1):
        return (x.mean(axis=axis) + y.mean(axis=axis)) / 2

    interval = stats.bootstrap([*first, *second], folds=[0] * 12 + [1] * 600, method="bca", samples=20_000)
    theirs = scipy_stats.bootstrap((first, second), mean_of_means, method="BCa", n_resamples=20_000, rng=rng)
    assert interval.estimate == pytest.approx(mean_of_means(first, second))
    np.testing.assert_allclose([interval.low, interval.high], theirs.confidence_interval, atol=0.02)


def test_bca_of_a_biased_function_is_scipys() -> None:
    values = np.random.default_rng(3).exponential(size=15)
    interval = stats.bootstrap(values, statistic=np.std, method="bca", samples=10_000)
    theirs = scipy_stats.bootstrap((values,), np.std, n_resamples=10_000, rng=np.random.default_rng(0))
    np.testing.assert_allclose([interval.low, interval.high], theirs.confidence_interval, rtol=0.05)
    assert interval.low > 1.1 * stats.bootstrap(values, statistic=np.std, samples=10_000).low


def coverage(make, truth: float, trials: int, **options) -> float:
    """How often the interval of freshly made data, freshly resampled, holds the truth."""
    rng = np.random.default_rng(11)
    covered = [truth in stats.bootstrap(make(rng), samples=300, seed=i, **options) for i in range(trials)]
    return float(np.mean(covered))


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    assert coverage(lambda rng: rng.random(300) < 0.3, 0.3, 300) == pytest.approx(0.95, abs=0.04)
    assert coverage(lambda rng: rng.normal(size=200), 0, 300, level=0.8) == pytest.approx(0.8, abs=0.07)
    assert coverage(lambda rng: rng.normal(size=201), 0, 200, statistic="median") == pytest.approx(0.95, abs=0.05)


def clustered(rng: np.random.Generator, clusters: np.ndarray) -> np.ndarray:
    """Values that share most of their luck within a cluster."""
    return rng.normal(size=clusters.max() + 1)[clusters] + 0.3 * rng.normal(size=len(clusters))


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_only_the_cluster_bootstrap_covers_clustered_values(statistic: str) -> None:
    clusters = np.repeat(np.arange(80), 5)
    make = lambda rng: clustered(rng, clusters)  # noqa: E731
    assert coverage(make, 0, 120, clusters=clusters, statistic=statistic) == pytest.approx(0.95, abs=0.06)
    assert coverage(make, 0, 120, statistic=statistic) < 0.75


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_fast_paths_agree_with_the_plain_function(statistic: str) -> None:
    """Uneven clusters in folds: the closed forms against one call per resample."""
    rng = np.random.default_rng(4)
    clusters = np.sort(rng.integers(0, 60, 200))
    values, folds = clustered(rng, clusters).round(1), clusters % 3
    options = {"clusters": clusters, "folds": folds, "samples": 6000}
    fast = stats.bootstrap(values, statistic=statistic, **options)
    slow = stats.bootstrap(values, statistic=getattr(np, statistic), **options)
    assert fast.estimate == pytest.approx(slow.estimate)
    assert fast.n == slow.n == len(np.unique(clusters))
    np.testing.assert_allclose([fast.low, fast.high], [slow.low, slow.high], atol=0.04)


@pytest.mark.parametrize("kind", ["ranks", "mostly ones", "continuous", "two values"])
@pytest.mark.parametrize("clusters", ["none", "pairs", "few", "unequal"])
@pytest.mark.parametrize("size", [1, 2, 601])
def test_medians_of_resamples_are_those_of_the_values_drawn(kind, clusters, size):
    """Each resample is spelled out: every value as often as its unit is drawn."""
    rng = np.random.default_rng(size)
    values = {
        "ranks": rng.geometric(0.1, size).astype(float),
        "mostly ones": np.where(rng.random(size) < 0.8, 1.0, rng.integers(1, 60, size)),
        "continuous": rng.normal(size=size),
        "two values": rng.integers(0, 2, size).astype(float),
    }[kind]
    units = {
        "none": None,
        "pairs": np.arange(size) // 2,
        "few": np.arange(size) % 3,
        "unequal": rng.integers(0, 90, size),
    }
    unit = None if units[clusters] is None else np.unique(units[clusters], return_inverse=True)[1]
    replicates = Median(values, unit).replicates(40, np.random.default_rng(1))
    if unit is None:
        contents, times = np.unique(values, return_counts=True)
        members = [np.array([each]) for each in contents]
    else:
        members, times = [values[unit == each] for each in range(unit.max() + 1)], np.ones(unit.max() + 1, np.int64)
    draws = np.concatenate(list(drawn_counts(times, 40, np.random.default_rng(1)))).astype(int)
    drawn = [[value for each, n in zip(members, row, strict=True) for value in np.repeat(each, n)] for row in draws]
    assert replicates.tolist() == [float(np.median(row)) for row in drawn]


def test_clusters_of_opposites_hold_the_median_still() -> None:
    """Each cluster has one value on either side of 0, so no draw of clusters can move the middle far."""
    side = np.random.default_rng(4).uniform(0.5, 9, 80)
    values, clusters = np.concatenate([side, -side]), np.tile(np.arange(80), 2)
    interval = stats.bootstrap(values, statistic="median", clusters=clusters)
    assert (interval.low, interval.high) == pytest.approx((0, 0))
    alone = stats.bootstrap(values, statistic="median")
    assert alone.high - alone.low > 1


def test_singleton_clusters_are_queries() -> None:
    values = np.random.default_rng(0).normal(size=50)
    alone, named = stats.bootstrap(values), stats.bootstrap(values, clusters=np.arange(50))
    assert (alone.low, alone.high, alone.unit, named.unit) == (named.low, named.high, "queries", "clusters")


def test_a_sum_of_one_part_is_the_clustered_mean() -> None:
    values, clusters = np.random.default_rng(0).random(60), np.repeat(np.arange(20), 3)
    alone = stats.bootstrap(values, clusters=clusters, method="bca")
    summed = bootstrap_sum([(values, clusters, 100.0)], method="bca")
    np.testing.assert_allclose(
        [summed.estimate, summed.low, summed.high], [100 * v for v in (alone.estimate, alone.low, alone.high)]
    )


def test_a_sum_draws_its_clusters_together() -> None:
    """An image and its captions that hit together vary twice as much as apart; opposites cancel."""
    values = np.random.default_rng(0).random(200)
    ids = [f"img{i}" for i in range(200)]
    together = bootstrap_sum([(values, ids), (values[::-1], ids[::-1])])
    double = stats.bootstrap(values, clusters=ids)
    np.testing.assert_allclose([together.low, together.high], [2 * double.low, 2 * double.high], rtol=0.02)
    opposed = bootstrap_sum([(values, ids), (values, ids, -1.0)])
    assert abs(opposed.low) + abs(opposed.high) < 1e-12


def test_a_sum_over_folds_is_the_mean_over_folds() -> None:
    rng = np.random.default_rng(6)
    images, captions = np.arange(50), np.repeat(np.arange(50), 5)
    a, b = rng.random(50) < 0.5, rng.random(250) < 0.4
    parts = [stats.Part(a, images, 100, images // 10), stats.Part(b, captions, 100, captions // 10)]
    interval = bootstrap_sum(parts)
    assert interval.estimate == pytest.approx(
        100 * np.mean([a[images // 10 == f].mean() + b[captions // 10 == f].mean() for f in range(5)])
    )
    assert interval.low < interval.estimate < interval.high
    assert interval.n == 50


def test_paired_difference_is_narrower_than_two_apart() -> None:
    rng = np.random.default_rng(9)
    hard = rng.normal(size=300)
    a, b = hard + 0.2 + 0.1 * rng.normal(size=300), hard
    for statistic in ("mean", "median"):
        paired, alone = stats.bootstrap_difference(a, b, statistic=statistic), stats.bootstrap(a, statistic=statistic)
        of = getattr(np, statistic)
        assert paired.estimate == pytest.approx(of(a) - of(b))
        assert paired.high - paired.low < alone.high - alone.low
    assert 0 not in stats.bootstrap_difference(a, b)
    plain = stats.bootstrap_difference(a, b, statistic=np.mean, samples=8000)
    fast = stats.bootstrap_difference(a, b, samples=8000)
    np.testing.assert_allclose([plain.low, plain.high], [fast.low, fast.high], atol=0.001)


@pytest.mark.parametrize("times", [[1], [2, 1, 1], [1] * 50, [3, 1] * 600])
def test_draws_do_not_depend_on_how_many_are_counted_at_a_time(monkeypatch, times) -> None:
    """Row by row is the definition: what a seed has given so far, it gives for ever."""
    units, rng = np.repeat(np.arange(len(times)), times), np.random.default_rng(3)
    row_by_row = [np.bincount(units[rng.integers(0, len(units), len(units))], minlength=len(times)) for _ in range(99)]
    after = rng.random()
    for cached in (1, 4_000, resampling._CACHED):
        monkeypatch.setattr(resampling, "_CACHED", cached)
        generator = np.random.default_rng(3)
        assert np.array_equal(np.concatenate(list(drawn_counts(np.array(times), 99, generator))), row_by_row)
        assert generator.random() == after


def test_the_seed_decides() -> None:
    values = np.random.default_rng(0).normal(size=40)
    assert stats.bootstrap(values, seed=1) == stats.bootstrap(values, seed=1)
    assert stats.bootstrap(values, seed=1) != stats.bootstrap(values, seed=2)


def test_constant_values_have_no_width() -> None:
    for method in ("percentile", "bca"):
        interval = stats.bootstrap([0.25] * 8, method=method)
        assert (interval.low, interval.high) == (0.25, 0.25)
    assert str(stats.bootstrap([0.25] * 8)) == "0.25 [0.25, 0.25]"


@pytest.mark.parametrize("size", [1, 2, 3, 8, 401])
def test_the_quick_median_is_numpys(size):
    rng = np.random.default_rng(size)
    for values in (rng.standard_normal(size), rng.integers(1, 9, size), np.full(size, np.inf)):
        assert median(values) == np.median(values)
    assert math.isnan(median([*rng.standard_normal(size), math.nan]))
    assert median([1.0, 2.0, math.inf, math.inf]) == math.inf
