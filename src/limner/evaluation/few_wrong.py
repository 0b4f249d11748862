"""R-precision, mAP@R and the first rank of lists in which all but a few candidates are relevant.

They are computed from the ranks of these few.

The bounds of partly judged collections need them: with 25,000 candidates a query, of which a few dozen were judged,
writing out all relevant ranks would cost more than the whole evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from limner.core.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class FewWrong:
    """Candidates that are not relevant; all others in the pool are.

    Args:
        query: Query number of each, in ascending order.
        place: Rank of each from 0, ascending within a query and below the size of its pool.
        pool: Number of candidates of each query.
    """

    query: IntArray
    place: IntArray
    pool: IntArray

    @cached_property
    def relevant(self) -> IntArray:
        """R of each query."""
        return self.pool - np.bincount(self.query, minlength=len(self.pool))

    def first(self) -> IntArray:
        """The rank of the first relevant candidate, from 0.

        >>> FewWrong(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([4, 4])).first()
        array([2, 0])
        """
        many = np.bincount(self.query, minlength=len(self.pool))
        order = np.arange(len(self.query)) - (np.cumsum(many) - many)[self.query]
        return np.bincount(self.query[self.place == order], minlength=len(self.pool))

    def r_precision(self) -> FloatArray:
        """The share of relevant candidates among the first R.

        >>> FewWrong(np.array([0, 0]), np.array([1, 3]), np.array([4])).r_precision()
        array([0.5])
        """
        query, _ = self._inside
        return np.asarray((self.relevant - np.bincount(query, minlength=len(self.pool))) / self._divisor)

    def average_precision_at_r(self) -> FloatArray:
        """The mean precision at the relevant ranks among the first R.

        A relevant rank j after w wrong ones has precision 1 - w / j: between two wrong ones these are sums of 1 / j.

        >>> FewWrong(np.array([0, 0]), np.array([1, 4]), np.array([5])).average_precision_at_r().round(4)
        array([0.5556])
        """
        query, place = self._inside
        before = np.bincount(query, minlength=len(self.pool))
        wrong = 1 + np.arange(len(query)) - (np.cumsum(before) - before)[query]
        end = np.append(place[1:], 0)
        last = np.flatnonzero(np.append(np.diff(query) != 0, True)[: len(query)])
        end = end[: len(query)]
        end[last] = self.relevant[query[last]]
        sums = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, self.relevant.max(initial=0) + 1))])
        lost = np.bincount(query, weights=wrong * (sums[end] - sums[place + 1]), minlength=len(self.pool))
        return np.asarray((self.relevant - before - lost) / self._divisor)

    @property
    def _divisor(self) -> FloatArray:
        """R; NaN if nothing is relevant."""
        return np.where(self.relevant > 0, self.relevant, np.nan)

    @cached_property
    def _inside(self) -> tuple[IntArray, IntArray]:
        """Query and rank of the irrelevant candidates among the first R."""
        inside = self.place < self.relevant[self.query]
        return self.query[inside], self.place[inside]
