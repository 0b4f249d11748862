"""Designed samples and their estimators, beside all samples there are and beside other programs."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from limner import stats
from limner.core.errors import LimnerError
from limner.stats.estimators import sum_of_means
from limner.stats.sampling import draw, strata_of

FROZEN = json.loads((Path(__file__).parent / "sampling_peers.json").read_text())


# --- draws ------------------------------------------------------------------------------------------------------


def test_every_sample_of_a_stratum_is_as_likely_as_every_other():
    """All samples of a tiny population, counted over many seeds, beside the probabilities they should have."""
    counts: dict[frozenset[int], int] = {}
    for seed in range(6000):
        sample = frozenset(draw([0, 0, 0, 0], 2, seed=seed).units.tolist())
        counts[sample] = counts.get(sample, 0) + 1
    assert len(counts) == 6
    expected = 1000
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 20.5  # chi-square, 5 degrees, 0.001


def test_the_stored_probabilities_are_those_of_the_draws():
    strata, shares = np.array([0, 0, 1, 1, 1]), [0.75, 0.25]
    times = np.zeros(5)
    for seed in range(8000):
        times[draw(strata, 1, shares=shares, seed=seed).units[0]] += 1
    first = draw(strata, 1, shares=shares, seed=3)
    assert first.probabilities[0] == pytest.approx(0.375 if first.units[0] < 2 else 0.25 / 3)
    np.testing.assert_allclose(times / 8000, [0.375, 0.375, 0.25 / 3, 0.25 / 3, 0.25 / 3], atol=0.02)


def test_a_further_draw_adds_and_never_repeats():
    strata = np.repeat([0, 1, 2], 20)
    first = draw(strata, 15, pilot=2, seed=1)
    further = draw(strata, 100, before=first.units, pilot=2, seed=2)
    assert sorted([*first.units, *further.units]) == list(range(60))
    assert (first.probabilities[:6] == 1).all() and set(strata[first.units[:6]]) == {0, 1, 2}
    assert (further.probabilities < 1).sum() >= len(further) - 1  # the very last unit is certain


# --- estimators -------------------------------------------------------------------------------------------------


def every_stratified_sample(strata, sizes):
    units = [np.flatnonzero(strata == h) for h in range(len(sizes))]
    for chosen in product(*(combinations(u, n) for u, n in zip(units, sizes, strict=True))):
        yield np.concatenate([np.array(c) for c in chosen])


def test_the_stratified_estimate_is_unbiased_over_all_samples():
    values, strata = np.array([1, 0, 1, 1, 0.5, 0, 0.2]), np.array([0, 0, 0, 0, 1, 1, 1])
    predictions, size = np.array([0.9, 0.2, 0.1, 0.7, 0.5, 0.5, 0.0]), [4, 3]
    expected = [predictions[:4].mean(), predictions[4:].mean()]
    plain, helped, variances = [], [], []
    for sample in every_stratified_sample(strata, (2, 2)):
        plain.append(stats.stratified(values[sample], strata[sample], size))
        options = {"predictions": predictions[sample], "expected": expected}
        helped.append(stats.stratified(values[sample], strata[sample], size, **options).value)
        s = [np.var(values[sample][strata[sample] == h], ddof=1) for h in (0, 1)]
        variances.append((4 / 7) ** 2 * 0.5 * s[0] / 2 + (3 / 7) ** 2 * (1 / 3) * s[1] / 2)
    assert np.mean([e.value for e in plain]) == pytest.approx(values.mean(), abs=1e-12)
    assert np.mean(helped) == pytest.approx(values.mean(), abs=1e-12)
    assert np.mean(variances) == pytest.approx(np.var([e.value for e in plain]), abs=1e-12)  # Cochran's formula holds


def test_a_whole_population_leaves_no_doubt():
    estimate = stats.stratified([1, 0, 1], [0, 0, 0], [3])
    assert estimate.low == estimate.value == estimate.high == pytest.approx(2 / 3)


def test_equal_answers_are_no_certainty():
    estimate = stats.stratified([0] * 20, [0] * 20, [1000])
    assert estimate.value == 0 and 0.05 < estimate.high < 0.3
    half = stats.stratified([0] * 20 + [1] * 20, [0] * 20 + [1] * 20, [500, 500])
    assert half.low < 0.49 and half.high > 0.51


def coverage(estimate, truth, studies):
    intervals = [estimate(seed) for seed in range(studies)]
    return np.mean([e.low <= truth <= e.high for e in intervals]), np.mean([e.half_width for e in intervals])


def test_intervals_cover_and_a_bad_judge_costs_nothing():
    random = np.random.default_rng(0)
    values = (random.random(3000) < 0.3).astype(float)
    judges = {"good": 0.8 * values + 0.3 * random.random(3000), "useless": random.random(3000)}
    judges["adversarial"] = 1 - judges["good"]
    plain = coverage(lambda s: _sampled(values, np.zeros(3000, int), 200, s), values.mean(), 200)
    assert plain[0] > 0.9
    for name, judge in judges.items():
        strata = strata_of(judge, 5)
        covered, half = coverage(lambda s, h=strata: _sampled(values, h, 200, s), values.mean(), 200)
        assert covered > 0.9, name
        assert half < plain[1] * (1.05 if name == "useless" else 0.6), name


def test_intervals_cover_where_a_judge_is_almost_always_right():
    """The variances of the strata alone, mostly zeros, cover in 69 of 100 studies here."""
    random = np.random.default_rng(0)
    values = random.random(5000) < 0.3
    strata = (values ^ (random.random(5000) < 0.01)).astype(int)
    covered, half = coverage(lambda s: _sampled(values.astype(float), strata, 100, s), values.mean(), 300)
    assert covered > 0.93
    assert half < 0.03, "a third of the length without the judge"


def _sampled(values, strata, number, seed):
    units = draw(strata, number, pilot=2, seed=seed).units
    return stats.stratified(values[units], strata[units], np.bincount(strata))


def test_without_strata_and_for_a_large_population_it_is_ppi_python():
    """The estimate of `ppi_py.ppi_mean_pointestimate(..., lam=1)`, whose population is endless; frozen."""
    frozen = FROZEN["ppi"]
    y, f, unlabelled = (np.array(frozen[k]) for k in ("y", "f", "unlabelled"))
    widths = []
    for bound in (2, 5):
        options = {"predictions": f, "expected": [unlabelled.mean()], "bounds": (-bound, bound)}
        estimate = stats.stratified(y, np.zeros(len(y), int), [10**9], **options)
        assert estimate.value == pytest.approx(frozen["estimate"], abs=1e-9)
        widths.append((estimate.high - estimate.low) / (frozen["high"] - frozen["low"]))
    assert widths[0] == pytest.approx(1, abs=0.05)  # theirs adds the variance of the unlabelled mean and takes z for t
    assert widths[1] > 1, "one more answer may be as far off as the bounds allow: wide bounds cost width"


def test_power_tuning_is_that_of_ppi_python():
    """`ppi_mean_pointestimate(..., lam=None)`; its population is the unlabelled units alone, ours all of them."""
    frozen, f, unlabelled = FROZEN["tuned"], *(np.array(FROZEN["ppi"][k]) for k in ("f", "unlabelled"))
    y, every = np.array(frozen["y"]), np.concatenate([f, unlabelled])
    n, h = len(y), np.zeros(len(y), int)
    (factor,) = stats.power_tuning(y, f, h, [len(every)])
    theirs = frozen["lambda"] * (1 + n / len(unlabelled))  # for the mean of all instead of the unlabelled alone
    # Theirs takes the variance of all predictions, and 1 / n for the covariance.
    assert factor * np.var(f) / np.var(every, ddof=1) == pytest.approx(theirs, rel=1e-9)
    scaled = stats.stratified(
        y, h, [len(every)], predictions=theirs * f, expected=[theirs * every.mean()], bounds=(-5, 5)
    )
    assert scaled.value == pytest.approx(frozen["estimate"], abs=1e-12)
    options = {"predictions": f, "expected": [every.mean()], "bounds": (-5, 5)}
    tuned = stats.stratified(y, h, [len(every)], tuned=True, **options)
    assert tuned.value == pytest.approx(frozen["estimate"], abs=0.02)


def test_power_tuning_makes_the_estimate_vary_least():
    """Against the least variance over a grid of factors, in strata that are sampled unequally."""
    random = np.random.default_rng(4)
    h, size = np.repeat([0, 1], [30, 60]), np.array([100, 900])
    f = random.normal(size=(90, 2))
    y = 0.7 * f[:, 0] - 0.3 * f[:, 1] + random.normal(size=90) + h

    def variance(a, b):
        r = y - f @ [a, b]
        return sum(
            (size[k] / 1000) ** 2 * (1 - n / size[k]) * np.var(r[h == k], ddof=1) / n for k, n in ((0, 30), (1, 60))
        )

    grid = np.linspace(-1, 1.5, 251)
    best = min(((variance(a, b), a, b) for a in grid for b in grid[::5]), key=lambda each: each[0])
    factors = stats.power_tuning(y, f, h, size)
    assert variance(*factors) <= best[0]
    np.testing.assert_allclose(factors, best[1:], atol=0.06)


def test_predictions_of_no_use_and_inverted_ones_cost_nothing():
    random = np.random.default_rng(5)
    values = (random.random(3000) < 0.3).astype(float)
    good = 0.6 * values + 0.4 * random.random(3000)
    judges = {"good": good, "useless": random.random(3000), "adversarial": 1 - good, "constant": np.ones(3000)}

    def study(seed, judge=None):
        units, h = random_units[seed], np.zeros(100, int)
        options = {} if judge is None else {"predictions": judge[units], "expected": [judge.mean()], "tuned": True}
        return stats.stratified(values[units], h, [3000], **options)

    random_units = [random.choice(3000, 100, replace=False) for _ in range(200)]
    plain = coverage(study, values.mean(), 200)
    for name, judge in judges.items():
        covered, half = coverage(lambda seed, judge=judge: study(seed, judge), values.mean(), 200)
        assert covered > 0.9, name
        assert half < plain[1] * (0.6 if name in ("good", "adversarial") else 1.02), name


# --- confidence sequences ---------------------------------------------------------------------------------------


def test_the_sequence_is_that_of_confseq_where_both_take_the_same_bets():
    frozen = FROZEN["confseq"]
    x = np.array(frozen["x"])
    low, high = stats.confidence_sequence(x, np.zeros(len(x)), np.ones(len(x)), grid=1001)
    assert low[-1] == pytest.approx(frozen["low"], abs=0.02)
    assert high[-1] == pytest.approx(frozen["high"], abs=0.02)


def test_the_sequence_holds_the_truth_at_every_time():
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(200):
        x = (random.random(150) < 0.3).astype(float)
        low, high = stats.confidence_sequence(x, np.zeros(150), np.ones(150), grid=201)
        assert (np.diff(low) >= 0).all() and (np.diff(high) <= 0).all()
        missed += bool(((low > 0.3) | (high < 0.3)).any())
    assert missed <= 16  # of 200 at 95%: more than 16 happens once in 30 if the level were exactly held


def slow_sequence(z, lows, highs, grid, level=0.95):
    """The same bets one after the other, as the paper has them."""
    means, limit = np.linspace(0, 1, grid), np.log(2 / (1 - level))
    up, down, out = np.zeros(grid), np.zeros(grid), np.zeros(grid, bool)
    total, square, n_values, bounds = (lows[0] + highs[0]) / 2, (highs[0] - lows[0]) ** 2 / 4, 1, []
    for t, value in enumerate(z):
        bet = np.sqrt(2 * limit / (square / n_values * (t + 1) * np.log(t + 2)))
        up += np.log1p(np.minimum(bet, 0.5 / np.maximum(means - lows[t], 1e-12)) * (value - means))
        down += np.log1p(-np.minimum(bet, 0.5 / np.maximum(highs[t] - means, 1e-12)) * (value - means))
        out |= np.maximum(up, down) >= limit
        total, n_values = total + value, n_values + 1
        square += (value - total / n_values) ** 2
        plausible = means[~out]
        bounds.append((plausible[0], plausible[-1]) if len(plausible) else bounds[-1])
    step = 1 / (grid - 1)
    low, high = np.array(bounds).T
    return np.maximum.accumulate(np.clip(low - step, 0, 1)), np.minimum.accumulate(np.clip(high + step, 0, 1))


def test_the_sequence_is_that_of_bets_one_after_the_other():
    random = np.random.default_rng(6)
    lows, highs = -random.random(300), 1 + random.random(300)
    for z in (random.uniform(0, 0.4, 300), np.where(np.arange(300) < 150, 0.0, 1.0), random.uniform(lows, highs)):
        np.testing.assert_array_equal(
            stats.confidence_sequence(z, lows, highs, grid=101), slow_sequence(z, lows, highs, 101)
        )


def test_the_weighted_draws_have_the_mean_of_the_population():
    """The conditional mean of the first draw after two others, over all units it could have been; with predictions."""
    from limner.stats.sequences import _martingale, _State

    values, strata = np.array([1, 0, 0.5, 1, 0]), np.array([0, 0, 1, 1, 1])
    size, shares = np.bincount(strata).astype(float), np.array([0.7, 0.3])
    f = np.array([[0.2, 1], [0.9, 0], [0.4, 0], [0.7, 1], [0.1, 0]])
    means = np.array([f[strata == h].mean(axis=0) for h in (0, 1)])
    corners = np.array([f[[0, 1, 1]], f[[2, 3, 4]]]) - means[:, None]
    for x, ends in ((f - means[strata], corners), (np.zeros((5, 0)), np.zeros((2, 1, 0)))):
        total = 0.0
        for unit in (1, 3, 4):  # after the pilot of 0 and 2
            order = np.array([0, 2, unit])
            y, h, members = values[order], strata[order], np.ones(3, bool)
            state = _State.before_each_draw(y, h, members, x[order], ends, 2, (0, 1))
            z, low, high = _martingale(state, y, h, members, size, size, np.tile(shares, (3, 1)), 2, (0, 1))
            assert low[0] <= z[0] <= high[0]
            chance = shares[h[2]] / (size[h[2]] - 1)
            total += chance * z[0]
        assert total == pytest.approx(values.mean(), abs=1e-12)


def test_a_judge_narrows_anytime_intervals_and_a_useless_one_does_not_widen_them():
    random = np.random.default_rng(7)
    values = (random.random(2000) < 0.4).astype(float)
    judges = {"good": 0.7 * values + 0.3 * random.random(2000), "useless": random.random(2000)}
    orders = [random.permutation(2000)[:200] for _ in range(40)]
    plain = np.mean([stats.sequential(values[u], [0] * 200, [2000], shares=[1]).half_width for u in orders])
    for name, f in judges.items():
        options = {"shares": [1], "expected": [f.mean()], "corners": [[[f.min()], [f.max()]]]}
        estimates = [stats.sequential(values[u], [0] * 200, [2000], predictions=f[u], **options) for u in orders]
        assert np.mean([e.half_width for e in estimates]) < plain * (0.75 if name == "good" else 1.03), name
        assert np.mean([e.low <= values.mean() <= e.high for e in estimates]) > 0.9


def test_anytime_intervals_cover_when_one_stops_as_soon_as_they_are_narrow():
    random = np.random.default_rng(3)
    values = (random.random(1000) < 0.4).astype(float)
    strata, size = strata_of(values + random.random(1000), 4), np.array([250] * 4)
    missed = 0
    for seed in range(60):
        units = draw(strata, 400, pilot=2, seed=seed).units
        for n in (50, 100, 200, 400):
            estimate = stats.sequential(values[units[:n]], strata[units[:n]], size, shares=[0.25] * 4, pilot=8)
            if estimate.half_width < 0.1:
                break
        missed += not estimate.low <= values.mean() <= estimate.high
    assert missed <= 7 and estimate.mode == "anytime"


def test_a_sum_of_means_reaches_further_on_the_side_of_the_tail():
    """The shift of Johnson (1978) for one large population, m3 (1 + 2 z^2) / (6 s^2 n), by the formula of his paper."""
    y = -np.random.default_rng(1).exponential(size=40)
    estimate = sum_of_means(y, [0] * 40, [10**9], bounds=(-99, 99))
    third = ((y - y.mean()) ** 3).sum() * 40 / (39 * 38)
    shift = third * (1 + 2 * 1.959964**2) / (6 * y.var(ddof=1) * 40)
    longer = (estimate.high - estimate.value) - (estimate.value - estimate.low)
    assert shift < 0 and longer == pytest.approx(shift, rel=1e-4)
    even = sum_of_means([-1, 0, 1, -2, 2], [0] * 5, [100], bounds=(-99, 99))
    assert even.high - even.value == pytest.approx(even.value - even.low)


def test_a_sum_of_means_covers_where_few_units_carry_the_mean():
    """Values with a long tail to one side: an interval that is as long on both sides misses half as often again."""
    random = np.random.default_rng(4)
    values = -(random.exponential(size=4000) ** 1.5) / 20
    missed = {"longer on one side": 0, "even": 0}
    for _ in range(2000):
        estimate = sum_of_means(random.choice(values, 30, replace=False), [0] * 30, [4000], bounds=(-9, 9))
        half = min(estimate.high - estimate.value, estimate.value - estimate.low)
        missed["longer on one side"] += not estimate.low <= values.mean() <= estimate.high
        missed["even"] += bool(abs(estimate.value - values.mean()) > half)
    assert missed["longer on one side"] < 0.75 * missed["even"] and missed["longer on one side"] < 150, missed


def test_mistakes_are_named():
    with pytest.raises(LimnerError, match="expected one size each"):
        stats.stratified([1, 0], [0, 0], [1])
    with pytest.raises(LimnerError, match="outside its bounds"):
        stats.confidence_sequence([2], [0], [1])
