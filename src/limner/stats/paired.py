"""Paired significance tests on per-query values, all two-sided, and effect sizes of the differences.

The difference is always `a - b`, query by query. `mcnemar` is for hits and misses, `randomisation` for any values;
`sign_test` and `wilcoxon` use only the signs and the ranks of differences.

Queries that belong together, such as the captions of one image, are not independent. With `clusters`, every test sums
its terms within each cluster and compares the total with its distribution when whole clusters are swapped. With up to
50 differing clusters this is exact over all swaps; with more, `z = (|sum| - g) / sqrt(sum of squares)`, where g is half
a step between possible sums (for hits and misses Obuchowski 1998 and Durkalski et al. 2003, for signed ranks Rosner,
Glynn & Lee 2006). If every query is its own cluster, the result is that of the test without clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.correlation import mean_ranks
from limner.stats.inputs import Vector, binary, codes, paired, vector, whole_number

_EXACT_BELOW = 25  # with fewer discordant pairs than this, McNemar is exact
_EXACT_UNITS = 50  # up to this many differing pairs (or clusters), Wilcoxon (or any test) is exact


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The result of a paired test.

    Attributes:
        p_value: probability of a difference at least this large, in either direction, under the null hypothesis.
        statistic: the test statistic; the docstring of the test defines it.
        n: number of pairs.
        differing: number of pairs on which the systems differ.
        method: description of the test and its variant.
    """

    p_value: float
    statistic: float
    n: int
    differing: int
    method: str


def mcnemar(a: npt.ArrayLike, b: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None) -> PairedTest:
    """McNemar's test for two systems that hit or miss (McNemar 1947; correction: Edwards 1948).

    Only `a` hits `n10` queries, and only `b` hits `n01`. With fewer than 25 such queries the test is exact,
    `p = 2 P(Bin(n10 + n01, 1/2) <= min(n10, n01))`, and its statistic is `min(n10, n01)`. With 25 or more it is
    `chi2 = max(|n10 - n01| - 1, 0)^2 / (n10 + n01)` with one degree of freedom. With clusters the statistic is
    `n10 - n01`.

    Args:
        a: 0 or 1 per query of the first system.
        b: the same queries of the second.
        clusters: a label per query, for queries that are not independent.

    Returns:
        The test.

    >>> mcnemar([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]).p_value
    0.03125
    """
    first, second = binary(a, b)
    if (swapped := _by_cluster("McNemar", first, second, first - second, clusters)) is not None:
        return swapped
    only_a, only_b = int((first > second).sum()), int((first < second).sum())
    differing = only_a + only_b
    if differing < _EXACT_BELOW:
        p = _binomial_p(only_a, differing)
        return PairedTest(p, float(min(only_a, only_b)), len(first), differing, "McNemar, exact")
    from scipy.special import chdtrc

    chi2 = max(abs(only_a - only_b) - 1, 0) ** 2 / differing
    return PairedTest(float(chdtrc(1, chi2)), chi2, len(first), differing, "McNemar, continuity-corrected")


def sign_test(a: npt.ArrayLike, b: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None) -> PairedTest:
    """Sign test: on how many of the differing queries is `a` better? (Dixon & Mood 1946).

    `p = 2 min(P(X <= k), P(X >= k))`, at most 1, with `X ~ Bin(differing, 1/2)`; the statistic `k` is the number of
    queries where `a > b`. Ties are left out. With clusters the statistic is the wins of `a` minus those of `b`.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.
        clusters: a label per query, for queries that are not independent.

    Returns:
        The test.

    >>> sign_test([3, 4, 5, 6, 7], [1, 2, 3, 4, 8]).p_value
    0.375
    """
    first, second = paired(a, b)
    if (swapped := _by_cluster("sign test", first, second, np.sign(first - second), clusters)) is not None:
        return swapped
    ahead, differing = int((first > second).sum()), int((first != second).sum())
    return PairedTest(_binomial_p(ahead, differing), float(ahead), len(first), differing, "sign test, exact")


def _binomial_p(k: int, n: int) -> float:
    """Two-sided exact p-value of k heads in n coin tosses; 1 for n = 0."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(k, n - k), n, 0.5))) if n else 1.0


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike, *, clusters: npt.ArrayLike | None = None) -> PairedTest:
    """Wilcoxon's signed-rank test (Wilcoxon 1945); equal pairs are left out, equal magnitudes share their mean rank.

    The statistic is `min(W+, W-)`, the rank sums of positive and negative `a - b`. With up to 50 differing queries the
    p-value is exact over all sign patterns, ties included; with more, it is normal with variance
    `n(n+1)(2n+1)/24 - sum(t^3 - t)/48` over groups of t tied magnitudes. With clusters the ranks are still those among
    all queries, and the statistic is `W+ - W-`.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.
        clusters: a label per query, for queries that are not independent.

    Returns:
        The test.

    >>> wilcoxon([2, 4, 6, 8, 10], [1, 2, 3, 4, 5]).p_value
    0.0625
    """
    first, second = paired(a, b)
    every = first - second
    difference = every[every != 0]
    n = len(difference)
    ranks = mean_ranks(np.abs(difference))
    signed = np.zeros(len(every))
    signed[every != 0] = ranks * np.sign(difference)
    if (swapped := _by_cluster("Wilcoxon signed-rank", first, second, signed, clusters)) is not None:
        return swapped
    plus = float(ranks[difference > 0].sum())
    smaller = min(plus, float(ranks.sum()) - plus)
    exact = n <= _EXACT_UNITS
    p = _swaps_exact(ranks, smaller) if exact else _signed_rank_normal(ranks, smaller)
    return PairedTest(p, smaller, len(first), n, f"Wilcoxon signed-rank, {'exact' if exact else 'normal'}")


def _swaps_exact(magnitudes: Vector, smaller: float) -> float:
    """Share of sign patterns whose sum of positive magnitudes is at least this extreme, by dynamic programming."""
    doubled = np.rint(2 * magnitudes).astype(np.int64)  # integers, or half-integers for tied ranks
    chance = np.zeros(int(doubled.sum()) + 1)
    chance[0] = 1.0
    for magnitude in doubled:
        moved = np.zeros_like(chance)
        moved[magnitude:] = chance[: len(chance) - magnitude]
        chance = (chance + moved) / 2
    return min(1.0, 2 * float(chance[: round(2 * smaller) + 1].sum()))


def _signed_rank_normal(ranks: Vector, smaller: float) -> float:
    from scipy.special import ndtr

    n = len(ranks)
    tied = np.unique(ranks, return_counts=True)[1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((tied**3 - tied).sum()) / 48
    return min(1.0, 2 * float(ndtr((smaller - n * (n + 1) / 4) / np.sqrt(variance))))


def _by_cluster(
    name: str, first: Vector, second: Vector, terms: Vector, clusters: npt.ArrayLike | None
) -> PairedTest | None:
    """The test on the sums of terms within clusters; None if no cluster has two queries."""
    labels = None if clusters is None else codes(clusters, len(terms), "clusters")
    if labels is None or int(labels.max()) + 1 == len(labels):
        return None
    sums = np.bincount(labels, weights=terms)
    sums = sums[sums != 0]
    total, exact = float(sums.sum()), len(sums) <= _EXACT_UNITS
    p = _swaps_exact(np.abs(sums), (float(np.abs(sums).sum()) - abs(total)) / 2) if exact else _swaps_normal(sums)
    method = f"{name} by cluster, {'exact' if exact else 'normal'}"
    return PairedTest(p, total, len(first), int((first != second).sum()), method)


def _swaps_normal(sums: Vector) -> float:
    """Normal approximation with continuity correction: swapping one cluster changes the sum by twice its value."""
    from scipy.special import ndtr

    half_step = int(np.gcd.reduce(np.rint(2 * np.abs(sums)).astype(np.int64))) / 2
    beyond = max(abs(float(sums.sum())) - half_step, 0.0)
    return 2 * float(ndtr(-beyond / np.sqrt(float((sums**2).sum()))))


def holm(p_values: npt.ArrayLike) -> Vector:
    """Holm's step-down correction for multiple comparisons (Holm 1979).

    Sorted ascending, `adjusted_i = max over j <= i of min(1, (m - j + 1) p_j)`. Comparing the adjusted values with 0.05
    keeps the probability of any false positive among all m below 5 percent.

    Args:
        p_values: the p-values of one family of comparisons.

    Returns:
        The adjusted p-values in the order given.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = vector(p_values, "p_values")
    outside = p[(p < 0) | (p > 1)]
    if outside.size:
        raise LimnerError(f"p_values: got {outside[0]:g}, expected probabilities between 0 and 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def cohen_d(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Cohen's d for pairs, `d_z = mean(a - b) / sd(a - b)`, where sd divides by n - 1 (Cohen 1988).

    0 when no query differs; infinite when every query differs by the same amount.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.

    Returns:
        The effect size.

    >>> round(cohen_d([3, 5, 7], [1, 2, 3]), 3)
    3.0
    """
    first, second = paired(a, b, minimum=2)
    difference = first - second
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    if np.ptp(difference) == 0:  # exactly constant: the computed spread may be a rounding residue
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / spread


def rank_biserial(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Rank-biserial correlation of pairs, `(W+ - W-) / (W+ + W-)` (Kerby 2014).

    The effect size of Wilcoxon's test: -1 to 1; 0 when no query differs.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.

    Returns:
        The effect size.

    >>> rank_biserial([2, 4, 0], [1, 2, 3])
    0.0
    """
    first, second = paired(a, b)
    difference = (first - second)[first != second]
    ranks = mean_ranks(np.abs(difference))
    return float((ranks * np.sign(difference)).sum() / ranks.sum()) if len(ranks) else 0.0


def cliff_delta(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Cliff's delta, `P(a_i > b_j) - P(a_i < b_j)` over all i and j (Cliff 1993).

    For two groups of different queries; -1 to 1, and the groups may differ in size.

    Args:
        a: values of the first group.
        b: values of the second.

    Returns:
        The effect size.

    >>> cliff_delta([3, 4], [1, 2, 3])
    0.8333333333333334
    """
    first, second = vector(a, "a"), np.sort(vector(b, "b"))
    wins = np.searchsorted(second, first, side="left").sum()
    losses = (len(second) - np.searchsorted(second, first, side="right")).sum()
    return float(wins - losses) / (len(first) * len(second))


def cohen_g(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Cohen's g, `n10 / (n10 + n01) - 1/2`: the effect size of McNemar's test (Cohen 1988).

    -0.5 to 0.5; 0 when no query differs. 0.05 is a small effect, 0.15 medium, 0.25 large.

    Args:
        a: 0 or 1 per query of the first system.
        b: the same queries of the second.

    Returns:
        The effect size.

    >>> cohen_g([1, 1, 1, 0], [0, 0, 0, 1])
    0.25
    """
    only_a, only_b = _discordant(a, b)
    return only_a / (only_a + only_b) - 0.5 if only_a + only_b else 0.0


def odds_ratio(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Odds ratio of pairs that hit or miss, `n10 / n01`; 1/2 is added to both when one is 0 (Haldane 1956).

    Args:
        a: 0 or 1 per query of the first system.
        b: the same queries of the second.

    Returns:
        The odds that `a` hits where only one of the two does.

    >>> odds_ratio([1, 1, 1, 0], [0, 0, 0, 1])
    3.0
    """
    only_a, only_b = _discordant(a, b)
    correction = 0.0 if only_a and only_b else 0.5
    return (only_a + correction) / (only_b + correction)


def _discordant(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[int, int]:
    first, second = binary(a, b)
    return int((first > second).sum()), int((first < second).sum())


_BITS = 16  # signs per table lookup: 65,536 sums fit into the cache
_MANY = 256  # from this many equal magnitudes on, one binomial draw is faster


def randomisation(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    samples: int = 100_000,
    seed: int = 0,
) -> PairedTest:
    """Fisher's randomisation test on the mean difference (Fisher 1935; for retrieval: Smucker et al. 2007).

    If the systems do not differ, each query's two values are exchangeable. They are swapped at random, `samples` times:
    `p = (hits + 1) / (samples + 1)`, where hits counts the swaps whose `|mean(a - b)|` is at least the observed one,
    which is the statistic. With `clusters`, all queries of a cluster are swapped together.

    Queries without a difference have no effect and are skipped. The signs of many equal magnitudes sum to one binomial
    draw; the rest are looked up sixteen at a time in tables of all their sums. Both are exact, not approximations.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.
        clusters: a label per query, for queries that are not independent.
        samples: how many random swaps.
        seed: the same seed gives the same p-value.

    Returns:
        The test.

    >>> test = randomisation([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0])
    >>> round(test.p_value, 2), test.statistic  # exactly 2 of 64 patterns
    (0.03, 1.0)
    """
    first, second = paired(a, b)
    samples, seed = whole_number(samples, "samples", minimum=1), whole_number(seed, "seed", minimum=0)
    difference = first - second
    swapped = difference if clusters is None else _cluster_sums(difference, clusters)
    magnitudes = np.abs(swapped[swapped != 0])
    sums = _random_sign_sums(magnitudes, samples, np.random.default_rng(seed))
    slack = 1e-12 * float(magnitudes.sum())  # mathematically equal sums may differ in the last digits
    hits = int((np.abs(sums) >= abs(float(swapped.sum())) - slack).sum())
    method = "Fisher randomisation" + ("" if clusters is None else ", by cluster")
    differing = int((first != second).sum())
    return PairedTest((hits + 1) / (samples + 1), float(difference.mean()), len(first), differing, method)


def randomisation_of(
    statistic: Callable[[Vector], float],
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    samples: int = 2_000,
    seed: int = 0,
) -> PairedTest:
    """Fisher's randomisation test on the difference of any statistic, such as a median, by swapping and recomputing.

    Like `randomisation`, with `|statistic(a') - statistic(b')|` instead of the mean difference. It is slower, so the
    default number of swaps is lower.

    Args:
        statistic: function from per-query values to one number.
        a: one number per query of the first system.
        b: the same queries of the second.
        clusters: a label per query, for queries that are not independent.
        samples: how many random swaps.
        seed: the same seed gives the same p-value.

    Returns:
        The test; its statistic is the observed difference.

    >>> test = randomisation_of(np.median, [1, 1, 2, 1, 1, 1, 1, 1, 2], [9, 8, 9, 7, 9, 9, 8, 9, 8])
    >>> test.statistic, bool(test.p_value < 0.05)
    (-8.0, True)
    """
    first, second = paired(a, b)
    samples, seed = whole_number(samples, "samples", minimum=1), whole_number(seed, "seed", minimum=0)
    labels = np.arange(len(first)) if clusters is None else codes(clusters, len(first), "clusters")
    observed = statistic(first) - statistic(second)
    rng, hits, units = np.random.default_rng(seed), 0, int(labels.max()) + 1
    for _ in range(samples):
        swap = rng.random(units)[labels] < 0.5
        drawn = statistic(np.where(swap, second, first)) - statistic(np.where(swap, first, second))
        hits += int(abs(drawn) >= abs(observed) - 1e-12)
    method = "Fisher randomisation" + ("" if clusters is None else ", by cluster")
    return PairedTest((hits + 1) / (samples + 1), float(observed), len(first), int((first != second).sum()), method)


def _cluster_sums(values: Vector, clusters: npt.ArrayLike) -> Vector:
    return np.bincount(codes(clusters, len(values), "clusters"), weights=values).astype(np.float64)


def _random_sign_sums(magnitudes: Vector, samples: int, rng: np.random.Generator) -> Vector:
    """`samples` draws of the sum of the magnitudes, each with a random sign."""
    sizes, times = np.unique(magnitudes, return_counts=True)
    frequent = times >= _MANY
    sums = np.zeros(samples)
    for size, count in zip(sizes[frequent], times[frequent], strict=True):
        sums += size * (2.0 * rng.binomial(int(count), 0.5, size=samples) - count)
    rare = np.repeat(sizes[~frequent], times[~frequent])
    looked_up = np.empty(samples)
    for start in range(0, len(rare), _BITS):
        table = _sign_sums(rare[start : start + _BITS])
        signs = np.frombuffer(rng.bytes(2 * samples), dtype=np.uint16) & np.uint16(len(table) - 1)
        sums += np.take(table, signs, out=looked_up, mode="clip")  # nothing is out of range: this mode avoids a copy
    return sums


def _sign_sums(magnitudes: Vector) -> Vector:
    """All sums of the magnitudes with either sign; bit i of the position is the sign of the i-th."""
    table = np.zeros(1)
    for magnitude in magnitudes:
        table = np.concatenate([table - magnitude, table + magnitude])
    return table
