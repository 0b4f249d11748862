"""The jackknife by cluster: interval and test of any statistic, from its values without one cluster at a time.

For statistics that are no means, such as a rank correlation or BLEU of a corpus, and for differences of two of them on
the same data (Tukey 1958; Efron & Tibshirani 1993, chapter 11).

The captions judged for one image are not independent, and one caption may have several ratings, so a rank correlation
of them (tau-b, tau-c, Spearman's rho) needs its value without each cluster. Counting pairs once for all and once within
each cluster gives tau exactly, at the cost of a few passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.bootstrap import Interval
from limner.stats.correlation import kendall_tau_b, kendall_tau_c, spearman
from limner.stats.inputs import Codes, Vector, codes, one_of, paired, refuse_non_finite, share, vector


@dataclass(frozen=True, eq=False)
class Jackknife:
    """A statistic, and its values when one cluster is left out.

    Two of the same clusters are subtracted with `-`; what the difference has in common cancels.

    Attributes:
        estimate: the statistic of all data.
        deleted: the statistic without each cluster, in the order of the clusters.

    >>> better = Jackknife.of_mean([1, 1, 0, 1], clusters=["a", "a", "b", "c"])
    >>> worse = Jackknife.of_mean([0, 1, 0, 1], clusters=["a", "a", "b", "c"])
    >>> (better - worse).estimate, round((better - worse).p_value, 2)
    (0.25, 0.38)
    """

    estimate: float
    deleted: Vector

    def __post_init__(self) -> None:
        """Refuses a single cluster, and a statistic that is undefined without one of the clusters."""
        if len(self.deleted) < 2:
            raise LimnerError("got one cluster, expected at least two: an interval needs data that vary independently")
        refuse_non_finite(np.append(self.deleted, self.estimate), "the statistic without one cluster")

    @classmethod
    def of_mean(cls, values: npt.ArrayLike, *, clusters: npt.ArrayLike) -> Jackknife:
        """The mean of values, a cluster for each value."""
        column = vector(values)
        labels = codes(clusters, len(column), "clusters")
        sums, sizes = np.bincount(labels, column), np.bincount(labels)
        if len(sizes) < 2:
            return cls(float(column.mean()), np.zeros(1))
        return cls(float(column.mean()), (column.sum() - sums) / (len(column) - sizes))

    def __sub__(self, second: Jackknife) -> Jackknife:
        """The difference of two statistics of the same clusters."""
        if len(self.deleted) != len(second.deleted):
            sizes = f"{len(self.deleted)} and {len(second.deleted)}"
            raise LimnerError(f"got {sizes} clusters, expected the same clusters in the same order")
        return Jackknife(self.estimate - second.estimate, self.deleted - second.deleted)

    @property
    def standard_error(self) -> float:
        """`sqrt((G - 1) / G * sum_g (t_g - mean t)^2)` for the values t_g without one of G clusters."""
        n = len(self.deleted)
        return float(np.sqrt((n - 1) / n * np.square(self.deleted - self.deleted.mean()).sum()))

    @property
    def p_value(self) -> float:
        """Two-sided test that the statistic is 0, by Student's t with one degree of freedom less than clusters."""
        from scipy.special import stdtr

        if self.standard_error == 0:
            return 1.0 if self.estimate == 0 else 0.0
        return float(2 * stdtr(len(self.deleted) - 1, -abs(self.estimate) / self.standard_error))

    def interval(self, *, level: float = 0.95, low: float = -np.inf, high: float = np.inf) -> Interval:
        """The interval by Student's t, cut to the range from `low` to `high` that the statistic can have."""
        from scipy.special import stdtrit

        reach = float(stdtrit(len(self.deleted) - 1, (1 + share(level, "level")) / 2)) * self.standard_error
        ends = max(low, self.estimate - reach), min(high, self.estimate + reach)
        return Interval(self.estimate, *ends, level, 0, "jackknife", "clusters", len(self.deleted))


COEFFICIENTS = {"tau-b": kendall_tau_b, "tau-c": kendall_tau_c, "spearman": spearman}
"""The rank correlations by name."""


class _Pairs(NamedTuple):
    """For each item, its pairs with the items: concordant minus discordant, tied under x, tied under y; and how many.

    Each pair counts for both of its items.
    """

    concordance: Codes
    tied_x: Codes
    tied_y: Codes
    size: int

    @property
    def totals(self) -> Vector:
        """Each sum over pairs, counted once: concordant minus discordant, ties of x, ties of y, items."""
        return np.array([self.concordance.sum() / 2, self.tied_x.sum() / 2, self.tied_y.sum() / 2, self.size])


def clustered_correlation(
    x: npt.ArrayLike, y: npt.ArrayLike, *, clusters: npt.ArrayLike, coefficient: str = "tau-b"
) -> Jackknife:
    """A rank correlation with its values when one cluster is left out.

    Args:
        x: a score per item.
        y: the same items under the other measure.
        clusters: a label per item.
        coefficient: `tau-b`, `tau-c` or `spearman`. Tau-c keeps the number of grades of all items.

    Returns:
        The coefficient, for intervals and for differences of two measures on the same items.

    >>> tau = clustered_correlation([1, 2, 3, 4, 5, 6], [1, 1, 2, 1, 2, 2], clusters=["a", "a", "b", "b", "c", "c"])
    >>> round(tau.estimate, 3), tau.deleted.round(3)
    (0.602, array([0.236, 0.816, 0.236]))
    """
    one_of(coefficient, tuple(COEFFICIENTS), "coefficient")
    first, second = paired(x, y, minimum=2)
    labels = codes(clusters, len(first), "clusters")
    estimate = COEFFICIENTS[coefficient](first, second)
    ranks = codes(first, len(first), "x"), codes(second, len(second), "y")
    with np.errstate(invalid="ignore", divide="ignore"):
        deleted = (
            _rho_deleted(*ranks, labels) if coefficient == "spearman" else _tau_deleted(*ranks, labels, coefficient)
        )
    if not np.isfinite(deleted).all():
        cluster = np.asarray(clusters)[labels == int(np.flatnonzero(~np.isfinite(deleted))[0])][0]
        raise LimnerError(
            f"no interval of the rank correlation: without cluster {cluster!r} all values are equal; expected values "
            "that vary without any one cluster"
        )
    return Jackknife(estimate, deleted)


def _tau_deleted(x: Codes, y: Codes, clusters: Codes, coefficient: str) -> Vector:
    every = _pairs(x, y)
    left_out = np.array([np.bincount(clusters, column) for column in every[:3]] + [np.bincount(clusters)])
    inside = np.array([_pairs(_renumbered(x[rows]), _renumbered(y[rows])).totals for rows in _rows(clusters)]).T
    inside[3] = 0  # pairs within a cluster are taken out once too often, items are not
    concordance, tied_x, tied_y, n = every.totals[:, None] - left_out + inside
    if coefficient == "tau-c":
        grades = min(int(x.max()), int(y.max())) + 1
        return np.asarray(2 * concordance / (n**2 * (grades - 1) / grades))
    pairs = n * (n - 1) / 2
    return np.asarray(concordance / np.sqrt((pairs - tied_x) * (pairs - tied_y)))


def _pairs(x: Codes, y: Codes) -> _Pairs:
    """The pairs of each item with all others, in one pass over the levels of the column that has fewer."""
    if x.max() < y.max():
        turned = _pairs(y, x)
        return _Pairs(turned.concordance, turned.tied_y, turned.tied_x, turned.size)
    concordance = np.zeros(len(x), np.int64)
    total = _below_minus_above(x, x)
    lower = np.zeros(int(x.max()) + 1, np.int64)  # below minus above, over the levels of y so far
    for rows in _rows(y):
        level = _below_minus_above(x[rows], x)
        concordance[rows] = (2 * lower + level - total)[x[rows]]
        lower += level
    return _Pairs(concordance, np.bincount(x)[x] - 1, np.bincount(y)[y] - 1, len(x))


def _below_minus_above(values: Codes, x: Codes) -> Codes:
    """For each level of x, how many of the values lie below it minus how many lie above."""
    counts = np.bincount(values, minlength=int(x.max()) + 1)
    up_to = np.cumsum(counts)
    return np.asarray(2 * up_to - counts - up_to[-1])


def _rho_deleted(x: Codes, y: Codes, clusters: Codes) -> Vector:
    columns = [(codes, np.bincount(codes)) for codes in (x, y)]
    rho = []
    for rows in _rows(clusters):
        one, second = (_Ranks.of_remaining(rows, *column) for column in columns)
        common = (one.centred[x] * second.centred[y]).sum() - (one.centred[x[rows]] * second.centred[y[rows]]).sum()
        rho.append(common / np.sqrt(one.variation * second.variation))
    return np.array(rho)


class _Ranks(NamedTuple):
    """Ranks without some items: of each level, minus their mean, and the sum of their squares over the items."""

    centred: Vector
    variation: float

    @classmethod
    def of_remaining(cls, rows: Codes, codes: Codes, sizes: Codes) -> _Ranks:
        left = sizes - np.bincount(codes[rows], minlength=len(sizes))
        up_to = np.cumsum(left)
        centred = up_to - (left + up_to[-1]) / 2
        return cls(centred, float((left * centred**2).sum()))


def _renumbered(values: Codes) -> Codes:
    return np.unique(values, return_inverse=True)[1].astype(np.intp)


def _rows(labels: Codes) -> Iterator[Codes]:
    """The rows of each label, in order of the labels."""
    by_label = np.argsort(labels, kind="stable")
    return iter(np.split(by_label, np.cumsum(np.bincount(labels))[:-1]))
