"""The k best assignments, and the best total for each pair.

One assignment gives every query one candidate. The next best assignments (Murty 1968) give it other candidates, in
order of decreasing total. They need the matrix in memory, so they are meant for hundreds of items, not thousands.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import fsum

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.paths import compiled
from limner.core.ranking import Ranking
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
    return sorted(best, key=lambda assignment: -assignment.total)  # bounds are rounded, totals are not


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
    totals = total - losses(worths, solution.columns, solution.prices)[:n, :m]
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
    total = fsum(worths[np.arange(n), chosen])  # the same in any order, so that equal totals are equal
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
            if assign_row(worths, columns, prices, row, 0, allowed) == -np.inf:
                raise LimnerError("no complete assignment exists: too many pairs are -inf; allow more pairs")
        return cls(total_worth(worths, columns), True, columns, prices, 0, frozenset())

    def solve(self, worths: FloatArray) -> _Part | None:
        """The same part with its best assignment; None if it contains no assignment."""
        allowed = np.ones(len(worths), dtype=bool)
        allowed[list(self.avoided)] = False
        columns, prices = self.columns.copy(), self.prices.copy()
        columns[self.fixed] = -1
        if assign_row(worths, columns, prices, self.fixed, self.fixed, allowed) == -np.inf:
            return None
        return _Part(total_worth(worths, columns), True, columns, prices, self.fixed, self.avoided)

    def split(self, worths: FloatArray, rows: int) -> list[_Part]:
        """Splits all its assignments except the best by the first row that differs; rows from `rows` on are padding."""
        parts = []
        for row in range(self.fixed, rows):
            avoided = (self.avoided if row == self.fixed else frozenset()) | {int(self.columns[row])}
            allowed = np.ones(len(worths), dtype=bool)
            allowed[list(avoided)] = False
            loss = least_loss(worths, self.columns, self.prices, row, allowed)
            if loss < np.inf:
                parts.append(_Part(self.bound - loss, False, self.columns, self.prices, row, avoided))
        return parts


# Compiled loops with reusable prices. As in `_edge_lists`, bidders are rows, items are columns, and a row's profit is
# its highest worth minus price. Every row gets a column here, so any initial prices work.
_jit = compiled(nogil=True)


@_jit
def total_worth(worths, columns):  # type: ignore[no-untyped-def]
    """The total worth of an assignment."""
    total = 0.0
    for i in range(columns.shape[0]):
        total += worths[i, columns[i]]
    return total


@_jit
def _distances(worths, prices, owners, root, first, allowed, distance, before, stop_at_free):  # type: ignore[no-untyped-def]
    """Shortest paths of exchanges from a row, over rows from `first` on.

    Args:
        worths: The matrix.
        prices: Prices of the columns.
        owners: The row of each column, -1 for a free one, which ends a path; rows below `first` keep their column.
        root: The starting row. Its profit is that of the best column allowed for it.
        first: The first row that may change.
        allowed: Columns allowed for the root.
        distance: Output, per column; inf if no path leads there.
        before: Output, the row from which a column was reached.
        stop_at_free: Whether to stop at the nearest free column.

    Returns:
        The nearest free column, or -1, and the root's profit.
    """
    m = worths.shape[0]
    done = np.zeros(m, np.bool_)
    distance[:] = np.inf
    i, low, begin = root, 0.0, -np.inf
    for j in range(m):
        if allowed[j] and (owners[j] < 0 or owners[j] >= first):
            begin = max(begin, worths[root, j] - prices[j])
    profit = begin
    while profit > -np.inf:
        nearest = -1
        for j in range(m):
            if done[j] or (0 <= owners[j] < first):
                continue
            if i != root or allowed[j]:
                reach = low + max(profit - (worths[i, j] - prices[j]), 0.0)
                if reach < distance[j]:
                    distance[j], before[j] = reach, i
            if distance[j] < np.inf and (nearest < 0 or distance[j] < distance[nearest]):
                nearest = j
        if nearest < 0:
            break
        done[nearest] = True
        if owners[nearest] < 0 and stop_at_free:
            return nearest, begin
        low, i = distance[nearest], owners[nearest]
        if i < 0:
            break
        profit = worths[i, nearest] - prices[nearest]
    return -1, begin


@_jit
def assign_row(worths, columns, prices, row, first, allowed):  # type: ignore[no-untyped-def]
    """Assigns a column to a row along a shortest path, changing only rows from `first` on; -inf if there is none.

    Args:
        worths: The matrix.
        columns: The column of each row or -1; changed in place.
        prices: Prices of the columns, at which every assigned row has its best column; raised in place.
        row: The row.
        first: The first row that may change.
        allowed: Columns allowed for the row.
    """
    m = worths.shape[0]
    owners, before, distance = np.full(m, -1, np.int64), np.empty(m, np.int64), np.empty(m)
    for i in range(m):
        if columns[i] >= 0:
            owners[columns[i]] = i
    end, _ = _distances(worths, prices, owners, row, first, allowed, distance, before, True)
    if end < 0:
        return -np.inf
    goal = distance[end]
    for j in range(m):
        if distance[j] < goal:
            prices[j] += goal - distance[j]
    while True:
        i = before[end]
        given_up = columns[i]
        columns[i] = end
        if i == row:
            return goal
        end = given_up


@_jit
def least_loss(worths, columns, prices, row, allowed):  # type: ignore[no-untyped-def]
    """A lower bound on the loss in total worth if a row may have only some other columns.

    The row takes another column, and another row takes its old one. These are two different steps of any path of
    exchanges, and each loses at least as much as its best choice. Rows above keep their columns.
    """
    given_up = columns[row]
    taken_loss, left = np.inf, np.inf
    profit = worths[row, given_up] - prices[given_up]
    for i in range(row + 1, columns.shape[0]):
        column = columns[i]
        if allowed[column]:
            taken_loss = min(taken_loss, profit - (worths[row, column] - prices[column]))
        left = min(left, worths[i, column] - prices[column] - (worths[i, given_up] - prices[given_up]))
    return max(taken_loss, 0.0) + max(left, 0.0)


@_jit
def losses(worths, columns, prices):  # type: ignore[no-untyped-def]
    """The loss in total score if a row is forced to take a column: (rows, columns), 0 for pairs of the assignment.

    If row i takes column j, the row that had j needs another column, along a shortest path that ends at the column that
    i gives up.
    """
    m = worths.shape[0]
    lost, distance, before = np.empty((m, m)), np.empty(m), np.empty(m, np.int64)
    owners = np.empty(m, np.int64)
    for i in range(m):
        owners[columns[i]] = i
    all_columns = np.ones(m, np.bool_)
    for j in range(m):
        _distances(worths, prices, owners, owners[j], 0, all_columns, distance, before, False)
        distance[j] = 0.0
        for i in range(m):
            profit = worths[i, columns[i]] - prices[columns[i]]
            lost[i, j] = max(profit - (worths[i, j] - prices[j]), 0.0) + distance[columns[i]]
    return lost
