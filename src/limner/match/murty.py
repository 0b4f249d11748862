"""The k best assignments, and the best total with each pair.

One assignment gives every query one candidate. The next best ones (Murty 1968) give it others, in order of decreasing
total. They need the matrix in memory: meant for hundreds of items, not thousands.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.ranking import Ranking
from limner.match import _square
from limner.scores import Scores


@dataclass(frozen=True, eq=False)
class Assignment:
    """An assignment of candidates to queries, each to at most one.

    Args:
        queries: Ids of the queries.
        candidates: Ids of the candidates.
        chosen: The candidate of each query, -1 for one that has none (there are fewer candidates).
        total: The sum of the scores of its pairs.
    """

    queries: Ids
    candidates: Ids
    chosen: IntArray
    total: float

    @property
    def pairs(self) -> dict[str, str]:
        """{query id: candidate id}."""
        return {self.queries[i]: self.candidates[int(j)] for i, j in enumerate(self.chosen) if j >= 0}


def k_best(scores: Scores, k: int) -> list[Assignment]:
    """The k assignments with the highest totals, best first; fewer if fewer exist.

    All give partners to the whole smaller side. Pairs with a score of -inf are excluded. Murty 1968: the set of all
    other assignments is split by the first query that differs, and the part with the best bound is solved next. A part
    differs from the assignment it was split from in one pair at first, so that one shortest path solves it, with the
    prices of that assignment (Miller, Stone & Cox 1997); it is solved only when its bound is the best there is.

    >>> scores = Scores.from_matrix(np.array([[9.0, 6.0], [8.0, 1.0]]), ["a", "b"], ["x", "y"])
    >>> [(each.total, each.pairs) for each in k_best(scores, 3)]
    [(14.0, {'a': 'y', 'b': 'x'}), (10.0, {'a': 'x', 'b': 'y'})]
    """
    if k < 1:
        raise LimnerError(f"k_best({k}): expected at least 1")
    worths, turned = _worths(scores)
    best: list[Assignment] = []
    waiting = [_Part.whole(worths)]
    while waiting and len(best) < k:
        part = heappop(waiting)
        if not part.solved:
            solved = part.solve(worths)
            if solved is not None:
                heappush(waiting, solved)
            continue
        best.append(_assignment(scores, worths, part.columns, turned))
        for child in part.split(worths, min(scores.shape)):
            heappush(waiting, child)
    return best


def k_best_ranking(scores: Scores, k: int) -> Ranking:
    """Ranks each query's candidates by the best total in which they appear, among the k best assignments.

    A list holds the candidates that some of these assignments gives the query; equal totals keep candidate order. Its
    scores are those totals. `best_totals` does the same for all assignments at once.

    >>> scores = Scores.from_matrix(np.array([[9.0, 6.0], [8.0, 1.0]]), ["a", "b"], ["x", "y"])
    >>> k_best_ranking(scores, 2)["a"]
    ['y', 'x']
    """
    found: list[dict[int, float]] = [{} for _ in scores.queries]
    for assignment in k_best(scores, k):
        for row, column in enumerate(assignment.chosen):
            if column >= 0:
                found[row].setdefault(int(column), assignment.total)
    depth = max(map(len, found))
    indices, totals = np.full((len(found), depth), -1, dtype=np.int64), np.full((len(found), depth), -np.inf)
    for row, given in enumerate(found):
        ranked = sorted(given, key=lambda column: (-given[column], column))
        indices[row, : len(ranked)] = ranked
        totals[row, : len(ranked)] = [given[column] for column in ranked]
    return Ranking(scores.queries, scores.candidates, indices, totals, scores.shape[1])


def best_totals(scores: Scores) -> Scores:
    """For every pair the best total of an assignment that has it: the limit of `k_best_ranking` for large k.

    From one assignment with its prices, one shortest path search per query gives the cost of each of its pairs. -inf
    for a pair that no complete assignment has.

    >>> scores = Scores.from_matrix(np.array([[9.0, 6.0], [8.0, 1.0]]), ["a", "b"], ["x", "y"])
    >>> best_totals(scores).matrix()
    array([[10., 14.], [14., 10.]])
    """
    worths, turned = _worths(scores)
    whole = _Part.whole(worths)
    n, m = sorted(scores.shape)
    total = float(worths[np.arange(n), whole.columns[:n]].sum())
    totals = total - _square.losses(worths, whole.columns, whole.prices)[:n, :m]
    return Scores.from_matrix(totals.T if turned else totals, scores.queries, scores.candidates)


def _worths(scores: Scores) -> tuple[FloatArray, bool]:
    """Scores as a square matrix, the smaller side in the rows, rows of zeros below; whether it was transposed."""
    matrix = scores.matrix().astype(np.float64)
    if 0 in matrix.shape or np.isposinf(matrix).any():
        raise LimnerError(f"scores of shape {matrix.shape}: expected at least one query and one candidate, and no +inf")
    turned = matrix.shape[0] > matrix.shape[1]
    matrix = matrix.T if turned else matrix
    square = np.zeros((matrix.shape[1], matrix.shape[1]))
    square[: len(matrix)] = matrix
    return square, turned


def _assignment(scores: Scores, worths: FloatArray, columns: IntArray, turned: bool) -> Assignment:
    """The assignment of the original scores from that of the square matrix."""
    n = min(scores.shape)
    chosen = columns[:n].copy()
    total = float(worths[np.arange(n), chosen].sum())
    if turned:
        chosen = np.full(len(scores.queries), -1, dtype=np.int64)
        chosen[columns[:n]] = np.arange(n)
    return Assignment(scores.queries, scores.candidates, chosen, total)


@dataclass(frozen=True, eq=False)
class _Part:
    """All assignments that agree with `columns` in the first `fixed` rows, and in the next row avoid some columns.

    Before it is solved, `columns` and `prices` are those of the assignment it was split from, whose next row has one of
    the columns to avoid, and `bound` is a total it cannot exceed; afterwards they are its own best.
    """

    bound: float
    solved: bool
    columns: IntArray
    prices: FloatArray
    fixed: int
    avoided: frozenset[int]

    def __lt__(self, other: _Part) -> bool:
        """Highest bound first, the solved before the unsolved, then by columns: the order is always the same."""
        if self.bound != other.bound or self.solved != other.solved:
            return (-self.bound, not self.solved) < (-other.bound, not other.solved)
        return (self.columns.tolist(), self.fixed) < (other.columns.tolist(), other.fixed)

    @classmethod
    def whole(cls, worths: FloatArray) -> _Part:
        """All assignments, solved."""
        columns, prices = np.full(len(worths), -1, dtype=np.int64), np.zeros(len(worths))
        allowed = np.ones(len(worths), dtype=bool)
        for row in range(len(worths)):
            if _square.assign_row(worths, columns, prices, row, 0, allowed) == -np.inf:
                raise LimnerError("no complete assignment exists: too many pairs are -inf; allow more")
        return cls(_square.total(worths, columns), True, columns, prices, 0, frozenset())

    def solve(self, worths: FloatArray) -> _Part | None:
        """The same with its best assignment; None if it has none."""
        allowed = np.ones(len(worths), dtype=bool)
        allowed[list(self.avoided)] = False
        columns, prices = self.columns.copy(), self.prices.copy()
        columns[self.fixed] = -1
        if _square.assign_row(worths, columns, prices, self.fixed, self.fixed, allowed) == -np.inf:
            return None
        return _Part(_square.total(worths, columns), True, columns, prices, self.fixed, self.avoided)

    def split(self, worths: FloatArray, rows: int) -> list[_Part]:
        """All its assignments but the best, by the first row that differs; only `rows` rows are real."""
        parts = []
        for row in range(self.fixed, rows):
            avoided = (self.avoided if row == self.fixed else frozenset()) | {int(self.columns[row])}
            allowed = np.ones(len(worths), dtype=bool)
            allowed[list(avoided)] = False
            loss = _square.least_loss(worths, self.columns, self.prices, row, allowed)
            if loss < np.inf:
                parts.append(_Part(self.bound - loss, False, self.columns, self.prices, row, avoided))
        return parts
