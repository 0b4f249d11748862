"""Is the difference between two systems more than luck? Paired tests on per-query values, all two-sided.

The difference is always `a - b`, query by query. `mcnemar` is for hits and misses, `randomisation` for any values;
`sign_test` and `wilcoxon` look only at the directions and at the ranks of differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.errors import LimnerError
from limner.stats.inputs import Vector, binary, codes, paired, vector, whole

_EXACT_BELOW = 25  # discordant pairs under which McNemar is exact
_EXACT_RANKS = 50  # differing pairs up to which Wilcoxon is exact
_BITS = 16  # signs looked up at once: a table of 65,536 sums stays in the cache
_MANY = 256  # equal magnitudes from which one binomial draw beats looking up their signs


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The answer of a paired test.

    Attributes:
        p_value: how often luck alone would give a difference at least this large, either way.
        statistic: what was tested; the docstring of the test says which.
        n: how many pairs were given.
        differing: on how many of them the systems differ.
        method: the test and its variant in words.
    """

    p_value: float
    statistic: float
    n: int
    differing: int
    method: str


def mcnemar(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedTest:
    """McNemar's test for two systems that hit or miss (McNemar 1947; correction: Edwards 1948).

    With `n10` queries that only `a` hits and `n01` that only `b` hits: below 25 such queries exact,
    `p = 2 P(Bin(n10 + n01, 1/2) <= min(n10, n01))`, statistic `min(n10, n01)`; from 25 on
    `chi2 = max(|n10 - n01| - 1, 0)^2 / (n10 + n01)` with one degree of freedom.

    Args:
        a: 0 or 1 per query of the first system.
        b: the same queries of the second.

    Returns:
        The test.

    >>> mcnemar([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]).p_value
    0.03125
    """
    first, second = binary(a, b)
    only_a, only_b = int((first > second).sum()), int((first < second).sum())
    differing = only_a + only_b
    if differing < _EXACT_BELOW:
        p = _binomial_p(only_a, differing)
        return PairedTest(p, float(min(only_a, only_b)), len(first), differing, "McNemar, exact")
    from scipy.special import chdtrc

    chi2 = max(abs(only_a - only_b) - 1, 0) ** 2 / differing
    return PairedTest(float(chdtrc(1, chi2)), chi2, len(first), differing, "McNemar, continuity-corrected")


def sign_test(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedTest:
    """Sign test: on how many of the differing queries is `a` ahead? (Dixon & Mood 1946).

    `p = 2 min(P(X <= k), P(X >= k))`, at most 1, `X ~ Bin(differing, 1/2)`, `k` the queries where `a > b`, which is the
    statistic. Ties are left out.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.

    Returns:
        The test.

    >>> sign_test([3, 4, 5, 6, 7], [1, 2, 3, 4, 8]).p_value
    0.375
    """
    first, second = paired(a, b)
    ahead, differing = int((first > second).sum()), int((first != second).sum())
    return PairedTest(_binomial_p(ahead, differing), float(ahead), len(first), differing, "sign test, exact")


def _binomial_p(k: int, n: int) -> float:
    """Two-sided exact p of k heads in n throws; 1 when nothing was thrown."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(k, n - k), n, 0.5))) if n else 1.0


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedTest:
    """Wilcoxon's signed-rank test (Wilcoxon 1945); equal pairs are left out, equal magnitudes share their mean rank.

    The statistic is `min(W+, W-)`, the rank sums of positive and negative `a - b`. Up to 50 differing queries the
    p-value is exact over all sign patterns, ties included; beyond, normal with variance
    `n(n+1)(2n+1)/24 - sum(t^3 - t)/48` over groups of t tied magnitudes.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.

    Returns:
        The test.

    >>> wilcoxon([2, 4, 6, 8, 10], [1, 2, 3, 4, 5]).p_value
    0.0625
    """
    from scipy.stats import rankdata

    first, second = paired(a, b)
    difference = (first - second)[first != second]
    n = len(difference)
    ranks = rankdata(np.abs(difference))
    plus = float(ranks[difference > 0].sum())
    smaller = min(plus, float(ranks.sum()) - plus)
    exact = n <= _EXACT_RANKS
    p = _signed_rank_exact(ranks, smaller) if exact else _signed_rank_normal(ranks, smaller)
    return PairedTest(p, smaller, len(first), n, f"Wilcoxon signed-rank, {'exact' if exact else 'normal'}")


def _signed_rank_exact(ranks: Vector, smaller: float) -> float:
    """Share of sign patterns with a rank sum this far out: the distribution is built rank by rank."""
    doubled = np.rint(2 * ranks).astype(np.int64)  # mean ranks are halves at worst
    chance = np.zeros(int(doubled.sum()) + 1)
    chance[0] = 1.0
    for rank in doubled:
        moved = np.zeros_like(chance)
        moved[rank:] = chance[: len(chance) - rank]
        chance = (chance + moved) / 2
    return min(1.0, 2 * float(chance[: round(2 * smaller) + 1].sum()))


def _signed_rank_normal(ranks: Vector, smaller: float) -> float:
    from scipy.special import ndtr

    n = len(ranks)
    tied = np.unique(ranks, return_counts=True)[1].astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((tied**3 - tied).sum()) / 48
    return min(1.0, 2 * float(ndtr((smaller - n * (n + 1) / 4) / np.sqrt(variance))))


def randomisation(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    samples: int = 100_000,
    seed: int = 0,
) -> PairedTest:
    """Fisher's randomisation test on the mean difference (Fisher 1935; for retrieval: Smucker et al. 2007).

    If the systems do not differ, each query's two values could as well be swapped. Swap at random, `samples` times:
    `p = (hits + 1) / (samples + 1)`, hits being the swaps whose `|mean(a - b)|` is at least the one observed, which is
    the statistic. With `clusters`, all queries of a cluster are swapped together.

    Queries without difference change nothing and are skipped. Signs of many equal magnitudes add up to one binomial
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
    samples, seed = whole(samples, "samples", least=1), whole(seed, "seed", least=0)
    difference = first - second
    swapped = difference if clusters is None else _cluster_sums(difference, clusters)
    magnitudes = np.abs(swapped[swapped != 0])
    sums = _random_sign_sums(magnitudes, samples, np.random.default_rng(seed))
    slack = 1e-12 * float(magnitudes.sum())  # sums that are equal on paper may differ in their last digits
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

    As `randomisation`, with `|statistic(a') - statistic(b')|` in place of the mean difference. Slower, so fewer swaps.

    Args:
        statistic: one number from one value per query.
        a: one number per query of the first system.
        b: the same queries of the second.
        clusters: a label per query, for queries that are not independent.
        samples: how many random swaps.
        seed: the same seed gives the same p-value.

    Returns:
        The test; its statistic is the difference observed.

    >>> test = randomisation_of(np.median, [1, 1, 2, 1, 1, 1, 1, 1, 2], [9, 8, 9, 7, 9, 9, 8, 9, 8])
    >>> test.statistic, bool(test.p_value < 0.05)
    (-8.0, True)
    """
    first, second = paired(a, b)
    samples, seed = whole(samples, "samples", least=1), whole(seed, "seed", least=0)
    labels = np.arange(len(first)) if clusters is None else codes(clusters, len(first), "clusters")
    observed = statistic(first) - statistic(second)
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(samples):
        swap = rng.random(int(labels.max()) + 1)[labels] < 0.5
        drawn = statistic(np.where(swap, second, first)) - statistic(np.where(swap, first, second))
        hits += int(abs(drawn) >= abs(observed) - 1e-12)
    method = "Fisher randomisation" + ("" if clusters is None else ", by cluster")
    return PairedTest((hits + 1) / (samples + 1), float(observed), len(first), int((first != second).sum()), method)


def _cluster_sums(values: Vector, clusters: npt.ArrayLike) -> Vector:
    return np.bincount(codes(clusters, len(values), "clusters"), weights=values).astype(np.float64)


def _random_sign_sums(magnitudes: Vector, samples: int, rng: np.random.Generator) -> Vector:
    """`samples` draws of the sum of the magnitudes, each with a random sign."""
    sizes, times = np.unique(magnitudes, return_counts=True)
    many = times >= _MANY
    sums = np.zeros(samples)
    for size, count in zip(sizes[many], times[many], strict=True):
        sums += size * (2.0 * rng.binomial(int(count), 0.5, size=samples) - count)
    few = np.repeat(sizes[~many], times[~many])
    looked_up = np.empty(samples)
    for start in range(0, len(few), _BITS):
        table = _sign_sums(few[start : start + _BITS])
        signs = np.frombuffer(rng.bytes(2 * samples), dtype=np.uint16) & np.uint16(len(table) - 1)
        sums += np.take(table, signs, out=looked_up, mode="clip")  # never clips: this mode skips a copy
    return sums


def _sign_sums(magnitudes: Vector) -> Vector:
    """All sums of the magnitudes with either sign; bit i of the position is the sign of the i-th."""
    table = np.zeros(1)
    for magnitude in magnitudes:
        table = np.concatenate([table - magnitude, table + magnitude])
    return table


def holm(p_values: npt.ArrayLike) -> Vector:
    """Holm's step-down correction for many comparisons (Holm 1979).

    Sorted ascending, `adjusted_i = max over j <= i of min(1, (m - j + 1) p_j)`. Comparing the adjusted values with 0.05
    keeps the chance of even one false finding among all m below 5 percent.

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
