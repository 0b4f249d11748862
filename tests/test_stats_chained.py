"""Means of values that are seen step by step, beside slow loops and all samples there are."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from limner import stats
from limner.core.errors import LimnerError
from limner.stats import chained
from limner.stats.chained import FACTOR, FACTOR_PRIOR, chain
from limner.stats.estimators import sum_of_means


@pytest.fixture
def values():
    """Five units, four values each: they shrink, with noise."""
    random = np.random.default_rng(5)
    first = random.random(5)
    return np.array([first, 0.6 * first + 0.2 * random.random(5), 0.5 * first, 0.3 * first + 0.1 * random.random(5)])


def slowly(values, samples, sizes):
    """The estimate in loops: the factor without the unit, Mickey's mean, and the chain from the first value on."""
    estimate = values[0].mean()
    for step, sample in enumerate(samples):
        means, factors = [], []
        for unit in sample:
            remaining = [n for n in sample if n != unit]
            u, v = values[step][remaining], values[step + 1][remaining]
            products = sum((a - u.mean()) * (b - v.mean()) for a, b in zip(u, v, strict=True))
            squares = sum((a - u.mean()) ** 2 for a in u)
            b = (products + FACTOR * FACTOR_PRIOR) / (squares + FACTOR_PRIOR)
            sampled_sum = sum(values[step + 1][n] - b * values[step][n] for n in remaining)
            unsampled_sum = (sizes - len(remaining)) * (values[step + 1][unit] - b * values[step][unit])
            means.append((sampled_sum + unsampled_sum) / sizes)
            factors.append(b)
        estimate = np.mean(means) + np.mean(factors) * estimate
    return estimate


def arranged(values, samples):
    parts = np.repeat(np.arange(len(samples)), [len(s) for s in samples])
    units = np.concatenate([list(s) for s in samples])
    return values[parts, units], values[parts + 1, units], parts, [values.shape[1]] * len(samples)


def test_over_all_samples_of_a_tiny_population_the_estimate_is_the_truth(values):
    """Every sample of three, three and two of five units: 1,000 studies, each as likely as the others."""
    estimates = []
    for samples in product(*(list(combinations(range(5), n)) for n in (3, 3, 2))):
        estimate = stats.chained_means(*arranged(values, samples), start=values[0].mean(), bounds=(-99, 99))
        assert estimate.value == pytest.approx(slowly(values, samples, 5), abs=1e-12)
        estimates.append(estimate.value)
    assert len(estimates) == 1000
    assert np.mean(estimates) == pytest.approx(values[-1].mean(), abs=1e-12)


def test_with_all_units_the_estimate_is_exact(values):
    estimate = stats.chained_means(*arranged(values, [range(5)] * 3), start=values[0].mean())
    assert estimate.value == estimate.low == estimate.high == pytest.approx(values[-1].mean(), abs=1e-12)


def test_equal_values_before_say_nothing_about_the_factor():
    before, after = [0.5] * 4, [0.1, 0.4, 0.2, 0.3]
    estimate = stats.chained_means(before, after, [0] * 4, [50], start=0.7)
    plain = sum_of_means(after, [0] * 4, [50])
    assert estimate.value == pytest.approx(plain.value + FACTOR * (0.7 - 0.5))
    variance = plain.variance * (4 / 3) ** 2  # each without its own unit
    # The sample is below the mean that it should have.
    assert estimate.variance == pytest.approx(variance * (0.7 / 0.5) ** 2)


def test_values_that_shrink_are_estimated_better_than_by_their_changes():
    """Each value is about half of the one before: 500 studies of 20 and 12 units."""
    random = np.random.default_rng(0)
    first = random.random(600)
    values = np.array([first, 0.5 * first + 0.05 * random.random(600), 0.25 * first + 0.05 * random.random(600)])
    errors, changes, covered = [], [], 0
    for _ in range(500):
        samples = [random.choice(600, n, replace=False) for n in (20, 12)]
        before, after, parts, sizes = arranged(values, samples)
        estimate = stats.chained_means(before, after, parts, sizes, start=first.mean())
        plain = sum_of_means(after - before, parts, sizes, bounds=(-9, 9)).value + first.mean()
        errors.append(estimate.value - values[-1].mean())
        changes.append(plain - values[-1].mean())
        covered += estimate.low <= values[-1].mean() <= estimate.high
    assert np.std(errors) < np.std(changes) / 4
    assert covered >= 465


def test_a_sample_with_low_values_before_has_a_wider_interval(monkeypatch):
    """Values vary where they are large: without the adjustment, intervals miss where the sample has few of these."""
    random = np.random.default_rng(1)
    first = np.where(random.random(3000) < 0.8, 0.0, random.random(3000))
    values = np.array([first, first * (random.random(3000) < 0.5)])

    def coverage():
        studies, covered = np.random.default_rng(2), 0
        for _ in range(2000):
            arrays = arranged(values, [studies.choice(3000, 60, replace=False)])
            estimate = stats.chained_means(*arrays, start=first.mean())
            covered += estimate.low <= values[-1].mean() <= estimate.high
        return covered / 2000

    adjusted = coverage()
    monkeypatch.setattr(chained, "STRETCH", (1.0, 1.0))
    assert coverage() + 0.01 < adjusted
    assert 0.935 < adjusted < 0.985


def test_a_step_without_units_has_the_factor_1():
    result = chain([0.5, 0.7, 0.1], [0.2, 0.3, 0.1], [1, 1, 1], [9, 9, 9])
    assert result.weights[1] == result.weights[2] == 1 and 0 < result.weights[0] < 1
    assert result.start == result.weights[0]


def test_lengths_must_agree():
    with pytest.raises(LimnerError, match="2 values before and 1 after of 2 units"):
        stats.chained_means([0.1, 0.2], [0.1], [0, 0], [9], start=0.5)
