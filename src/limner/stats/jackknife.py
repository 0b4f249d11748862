"""The jackknife by cluster: interval and test of any statistic, from its values without one cluster at a time.

For statistics that are no means, such as a rank correlation or BLEU of a corpus, and for differences of two of them on
the same data (Tukey 1958; Efron & Tibshirani 1993, chapter 11).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.bootstrap import Interval
from limner.stats.inputs import Vector, codes, refuse_non_finite, share, vector


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
