"""The k best assignments, and the best total for each pair.

One assignment gives every query one candidate. The next best assignments (Murty 1968) give it other candidates, in
order of decreasing total. They need the matrix in memory, so they are meant for hundreds of items, not thousands.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.ranking import Ranking
from limner.match import _matrix_kernels
from limner.scores import Scores


@dataclass(frozen=True, eq=False)
class Assignment:
    """An assignment of candidates to queries, each to at most one.

    Args:
        queries: Ids of the queries.
        candidates: Ids of the candidates.
        chosen: The candidate of each query, or -1 if it has none (when there are fewer candidates).
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

    Every assignment gives a partner to each item of the smaller side. Pairs with a score of -inf are excluded. Murty
    1968: the set of all other assignments is split by the first query that differs, and the part with the best bound is
    solved next. At first a part differs from the assignment it was split from in one pair only, so one shortest path
    search with the prices of that assignment solves it (Miller, Stone & Cox 1997), once its bound is the best.

    >>> scores = Scores.from_matrix(np.array([[9.0, 6.0], [8.0, 1.0]]), ["a", "b"], ["x", "y"])
    >>> [(each.total, each.pairs) for each in k_best(scores, 3)]
    [(14.0, {'a': 'y', 'b': 'x'}), (10.0, {'a': 'x', 'b': 'y'})]
    """
    if k < 1:
        raise LimnerError(f"k_best({k}): expected at least 1")
    worths, turned = _worths(scores)
    best: list[Assignment] = []
    waiting = [_Part.root(worths)]
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

    A list has the candidates that the query gets in any of these assignments; equal totals keep candidate order. The
    scores are the totals. `best_totals` does the same for all assignments at once.

    >>> scores = Scores.from_matrix(np.array([[9.0, 6.0], [8.0, 1.0]]), ["a", "b"], ["x", "y"])
    >>> k_best_ranking(scores, 2)["a"]
    ['y', 'x']
    """
    totals_by_row: list[dict[int, float]] = [{} for _ in scores.queries]
    for assignment in k_best(scores, k):
        for row, column in enumerate(assignment.chosen):
            if column >= 0:
                totals_by_row[row].setdefault(int(column), assignment.total)
    depth = max(map(len, totals_by_row))
    indices, totals = (
        np.full((len(totals_by_row), depth), -1, dtype=np.int64),
        np.full((len(totals_by_row), depth), -np.inf),
    )
    for row, totals_of_row in enumerate(totals_by_row):
        ranked = sorted(totals_of_row, key=lambda column: (-totals_of_row[column], column))
        indices[row, : len(ranked)] = ranked
        totals[row, : len(ranked)] = [totals_of_row[column] for column in ranked]
    return Ranking(scores.queries, scores.candidates, indices, totals, scores.shape[1])


def best_totals(scores: Scores) -> Scores:
    """For every pair, the best total of an assignment that contains it: the limit of `k_best_ranking` for large k.

    Starting from one assignment with its prices, one shortest path search per query gives the cost of each of its
    pairs. The total is -inf for a pair that is in no complete assignment.

    >>> scores = Scores.from_matrix(np.array([[9.0, 6.0], [8.0, 1.0]]), ["a", "b"], ["x", "y"])
    >>> best_totals(scores).matrix()
    array([[10., 14.], [14., 10.]])
    """
    worths, turned = _worths(scores)
    solution = _Part.root(worths)
    n, m = sorted(scores.shape)
    total = float(worths[np.arange(n), solution.columns[:n]].sum())
    totals = total - _matrix_kernels.losses(worths, solution.columns, solution.prices)[:n, :m]
    return Scores.from_matrix(totals.T if turned else totals, scores.queries, scores.candidates)


def _worths(scores: Scores) -> tuple[FloatArray, bool]:
    """Scores as a square matrix, with the smaller side as rows, padded with zeros; and whether it was transposed."""
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
    """All assignments that agree with `columns` in the first `fixed` rows and avoid some columns in the next row.

    Before it is solved, `columns` and `prices` are those of the assignment it was split from, whose next row has one of
    the columns to avoid, and `bound` is an upper bound of its total. Afterwards they are those of its best assignment.
    """

    bound: float
    solved: bool
    columns: IntArray
    prices: FloatArray
    fixed: int
    avoided: frozenset[int]

    def __lt__(self, other: _Part) -> bool:
        """Highest bound first, then solved before unsolved, then by columns, so that the order is deterministic."""
        if self.bound != other.bound or self.solved != other.solved:
            return (-self.bound, not self.solved) < (-other.bound, not other.solved)
        return (self.columns.tolist(), self.fixed) < (other.columns.tolist(), other.fixed)

    @classmethod
    def root(cls, worths: FloatArray) -> _Part:
        """All assignments, solved."""
        columns, prices = np.full(len(worths), -1, dtype=np.int64), np.zeros(len(worths))
        allowed = np.ones(len(worths), dtype=bool)
        for row in range(len(worths)):
            if _matrix_kernels.assign_row(worths, columns, prices, row, 0, allowed) == -np.inf:
                raise LimnerError("no complete assignment exists: too many pairs are -inf; allow more pairs")
        return cls(_matrix_kernels.total(worths, columns), True, columns, prices, 0, frozenset())

    def solve(self, worths: FloatArray) -> _Part | None:
        """The same part with its best assignment; None if it contains no assignment."""
        allowed = np.ones(len(worths), dtype=bool)
        allowed[list(self.avoided)] = False
        columns, prices = self.columns.copy(), self.prices.copy()
        columns[self.fixed] = -1
        if _matrix_kernels.assign_row(worths, columns, prices, self.fixed, self.fixed, allowed) == -np.inf:
            return None
        return _Part(_matrix_kernels.total(worths, columns), True, columns, prices, self.fixed, self.avoided)

    def split(self, worths: FloatArray, rows: int) -> list[_Part]:
        """Splits all its assignments except the best by the first row that differs; rows from `rows` on are padding."""
        parts = []
        for row in range(self.fixed, rows):
            avoided = (self.avoided if row == self.fixed else frozenset()) | {int(self.columns[row])}
            allowed = np.ones(len(worths), dtype=bool)
            allowed[list(avoided)] = False
            loss = _matrix_kernels.least_loss(worths, self.columns, self.prices, row, allowed)
            if loss < np.inf:
                parts.append(_Part(self.bound - loss, False, self.columns, self.prices, row, avoided))
        return parts
