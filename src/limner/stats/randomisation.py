"""Fisher's randomisation test: if two systems do not differ, the two values of a query are exchangeable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from limner.stats.inputs import Vector, codes, paired, whole_number
from limner.stats.paired import PairedTest

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
