"""Strata of a design, and how labels are allocated to them: Cochran 1977, *Sampling Techniques*; Neyman 1934."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.stats import strata_of

Z = 1.96
EACH = 50
"""Minimum number of units drawn per stratum, on average; otherwise there are fewer strata."""
CORRECTED = 20
"""The same, after the finite-population correction."""
_DOUBT = 4.0  # weight of the overall rate in each stratum's rate, as a number of answers


def strata_for(number: float, units: int, most: int) -> int:
    """The number of strata of a judge's scores: the largest that leaves `EACH` drawn units per stratum.

    The number of units from each stratum is random. With n of N units drawn from H strata, this adds about
    `(H - 1) / (n (1 - n / N))` to the variance, as a share, and a useless judge does not compensate for it. So there
    are fewer strata if most units are drawn: `CORRECTED` units per stratum after the finite-population correction.

    Args:
        number: Number of units to draw.
        units: Number of units in the sampling frame.
        most: Maximum number of strata.

    >>> strata_for(200, 100_000, 4), strata_for(200, 300, 4), strata_for(60, 100_000, 4)
    (4, 3, 1)
    """
    corrected = number * (1 - min(number / units, 1))
    return max(min(most, int(number / EACH), int(corrected / CORRECTED)), 1)


def cut(deeper: BoolArray, scores: FloatArray | None, strata: int) -> IntArray:
    """The stratum of each unit: top-ranked pairs are separate from deeper ones; then by the judge's scores.

    Args:
        deeper: Whether each unit is a pair that no system returns first.
        scores: The judge's score of each unit; None without a judge.
        strata: Total number of strata; each of the two parts has at least one.
    """
    codes = np.zeros(len(deeper), dtype=np.int64)
    for part in (~deeper, deeper):
        if scores is not None and part.any():
            codes[part] = strata_of(scores[part], max(round(strata * part.mean()), 1))
    return np.unique(codes + deeper * (strata + 1), return_inverse=True)[1].astype(np.int64)


def spread_of(
    codes: IntArray, size: IntArray, labelled: Mapping[int, float], believed: FloatArray | None
) -> FloatArray:
    """The standard deviation of the answers in each stratum: from answers, else from the judge, else the maximum."""
    if labelled:
        units = np.array(list(labelled))
        said = np.array(list(labelled.values()))
        n = np.bincount(codes[units], minlength=len(size))
        rate = (np.bincount(codes[units], weights=said, minlength=len(size)) + _DOUBT * said.mean()) / (n + _DOUBT)
    elif believed is not None:
        rate = np.bincount(codes, weights=np.clip(believed, 0.02, 0.98)) / size
    else:
        rate = np.full(len(size), 0.5)
    return np.asarray(np.sqrt(np.clip(rate * (1 - rate), 0.02, 0.25)))


def shares_of(wanted: FloatArray, size: IntArray, number: int, *, answered: bool) -> FloatArray:
    """The allocation of a draw to strata: half by size, half by need.

    Before there are answers, the need comes from the judge's predictions. These may be wrong, which costs most if
    nearly all units are drawn, so their weight decreases with the share of units drawn.

    Args:
        wanted: Number of units that the measures need from each stratum.
        size: Number of units in each stratum.
        number: Number of units to draw.
        answered: Whether the need is estimated from answers.
    """
    by_need = 0.5 if answered else 0.5 * (1 - min(number / size.sum(), 1))
    return np.asarray(by_need * wanted / wanted.sum() + (1 - by_need) * size / size.sum())


def enough(own: FloatArray, spread: FloatArray, best: FloatArray, variance: float) -> FloatArray:
    """Units per stratum, in proportion to `best` as far as available, that reduce the variance to this value."""
    weight, held = own / own.sum(), own > 0
    low, high = 0.0, float((own[held] / best[held]).max())
    for _ in range(60):
        middle = (low + high) / 2
        n = np.minimum(middle * best[held], own[held])
        enough = float((weight[held] ** 2 * spread[held] ** 2 * (1 / n - 1 / own[held])).sum()) <= variance
        low, high = (low, middle) if enough else (middle, high)
    return np.minimum(high * best, own)


def expected_half_width(
    share: float, inside: FloatArray, spread: FloatArray, codes: IntArray, counts: IntArray
) -> float:
    """The expected half-width for these numbers of labelled units."""
    size = np.bincount(codes)
    own = np.bincount(codes, weights=inside, minlength=len(size))
    n = np.maximum(counts * own / size, 0.5)
    weight = own / max(own.sum(), 1)
    variance = float((weight**2 * spread**2 / n * np.clip(1 - n / np.maximum(own, 1), 0, 1)).sum())
    return min(Z * share * float(np.sqrt(variance)), share)
