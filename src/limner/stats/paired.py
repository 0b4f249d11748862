"""Paired significance tests on per-query values, all two-sided.

The difference is always `a - b`, query by query. `mcnemar` is for hits and misses, `randomisation` for any values;
`sign_test` and `wilcoxon` use only the signs and the ranks of differences.

Queries that belong together, such as the captions of one image, are not independent. With `clusters`, every test sums
its terms within each cluster and compares the total with its distribution when whole clusters are swapped. With up to
50 differing clusters this is exact over all swaps; with more, `z = (|sum| - g) / sqrt(sum of squares)`, where g is half
a step between possible sums (for hits and misses Obuchowski 1998 and Durkalski et al. 2003, for signed ranks Rosner,
Glynn & Lee 2006). If every query is its own cluster, the result is that of the test without clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.inputs import Vector, binary, codes, paired, vector
from limner.stats.order import mean_ranks

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
