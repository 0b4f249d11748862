"""Effect sizes of paired differences. Positive means that `a` is better."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from limner.stats.inputs import binary, paired, vector
from limner.stats.order import mean_ranks


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
