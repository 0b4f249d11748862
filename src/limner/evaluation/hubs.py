"""Hubs: candidates that are among the nearest neighbours of far too many queries.

N_k(c) = number of queries that have candidate c among their k nearest. In a space without hubs it is close to its
mean, queries times k over candidates; in high dimensions a few candidates get most of the total (Radovanovic et al.
2010) and many are never retrieved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.ranking import Ranking


@dataclass(frozen=True, eq=False)
class Hubs:
    """How often each candidate is among the k nearest of a query, and how unequal these counts are.

    >>> hubs = Hubs.of(Ranking.from_lists({"q1": ["a"], "q2": ["a"], "q3": ["b"]}, candidates="abc"), k=1)
    >>> hubs.counts.tolist(), hubs.largest, round(hubs.robin_hood, 3), hubs.shares([0, 1, 2])
    ([2, 1, 0], 2, 0.333, {'0': 0.333..., '1': 0.333..., '>=2': 0.333...})
    """

    candidates: Ids
    counts: IntArray
    k: int

    @classmethod
    def of(cls, ranking: Ranking, *, k: int = 10) -> Hubs:
        """Counts the candidates at the first k ranks."""
        if k < 1 or k > ranking.depth:
            raise LimnerError(
                f"hubs at {k} from a ranking of depth {ranking.depth}: expected 1 to {ranking.depth}; rank deeper"
            )
        neighbours = ranking.indices[:, :k]
        counts = np.bincount(neighbours[neighbours >= 0].ravel(), minlength=len(ranking.candidates))
        return cls(ranking.candidates, counts.astype(np.int64), k)

    @cached_property
    def skewness(self) -> float:
        """Third standardised moment of N_k: E[(N - mean)^3] / sd^3; 0 if all counts are equal."""
        centred = self.counts - self.counts.mean()
        spread = float(np.sqrt(np.mean(centred**2)))
        return float(np.mean(centred**3) / spread**3) if spread > 0 else 0.0

    @property
    def largest(self) -> int:
        """The count of the largest hub."""
        return int(self.counts.max(initial=0))

    @cached_property
    def robin_hood(self) -> float:
        """Share of all entries that would have to move for equal counts: sum |N - mean| / (2 sum N) (Hoover 1936)."""
        total = self.counts.sum()
        return float(np.abs(self.counts - self.counts.mean()).sum() / (2 * total)) if total else 0.0

    @cached_property
    def gini(self) -> float:
        """Gini coefficient of the counts: 0 if all are equal, close to 1 if one candidate has all."""
        ordered, n = np.sort(self.counts), len(self.counts)
        total = ordered.sum()
        return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * total)) if total else 0.0

    def shares(self, steps: tuple[int, ...] | list[int] = (0, 1, 2, 5, 10)) -> dict[str, float]:
        """Share of candidates with count 0, 1, and at least 2, 5, 10, ... (the table of Liu & Ye 2019)."""
        exact = {str(s): float((self.counts == s).mean()) for s in steps if s < 2}
        return exact | {f">={s}": float((self.counts >= s).mean()) for s in steps if s >= 2}

    def greatest(self, n: int = 10) -> list[tuple[str, int]]:
        """The n candidates with the highest counts."""
        order = np.argsort(-self.counts, kind="stable")[:n]
        return [(self.candidates[int(c)], int(self.counts[c])) for c in order]

    def describe(self) -> dict[str, float | int | dict[str, float]]:
        """The statistics as plain values."""
        return {
            "k": self.k,
            "skewness": self.skewness,
            "largest": self.largest,
            "robin hood": self.robin_hood,
            "gini": self.gini,
            "shares": self.shares(),
        }
