"""Assignment: each candidate is assigned at most once per round, so no candidate can be first for every query.

Bijective matching (Messina et al. 2022): a linear sum assignment gives every query its first candidate, with the
highest total score; those pairs are removed, and the next assignment gives every query its second.

The matrix is never in memory. Each query (or each candidate, if there are fewer) lists its best partners, the
assignment is solved on the lists, and its prices show which pairs outside the lists could still raise the total. Such
pairs are added to the lists and it is solved again; if there are none, the optimum over all pairs is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, FloatArray, IntArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.match import _dense_solver
from limner.match._edge_lists import BestEdges, EdgeRequest, Edges, Market
from limner.scores import Scores

METHODS = ("auto", "sparse", "dense")
BIDS = 50  # bids per bidder before paths are searched; fewer leave more to search, more are wasted on popular items
EXTRA = 8  # pairs per bidder that one pass of proof may add
SLICE = 2048  # bidders between two calls of progress
Method = Literal["auto", "sparse", "dense"]
_INFINITE = "bijective: a score is +inf, so the total would be infinite; use a large finite number instead"


@dataclass(frozen=True, eq=False)
class BijectiveRanking(Ranking):
    """A ranking by rounds of assignment, with the total score of each round and the optimality gap.

    Args:
        totals: The sum of the scores of each round's pairs.
        gaps: Optimality gap of each total, given earlier rounds; 0 if proven.
        assigned: The number of queries that got a candidate in each round.
        solver: The solver used.
    """

    totals: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()
    assigned: tuple[int, ...] = ()
    solver: str = ""

    @property
    def bounds(self) -> tuple[float, ...]:
        """Upper bounds of each round's total."""
        return tuple(total + gap for total, gap in zip(self.totals, self.gaps, strict=True))

    @property
    def exact(self) -> bool:
        """Whether every round is proven optimal, given earlier rounds."""
        return not any(self.gaps)


def bijective(
    scores: Scores,
    *,
    rounds: int = 5,
    method: Method = "auto",
    candidates: int = 100,
    prove: bool = True,
    progress: ProgressLike = None,
) -> BijectiveRanking:
    """Ranks by rounds of linear sum assignment; round r gives every query its candidate of rank r.

    In each round as many queries as possible get a candidate, no candidate is used twice, and the total score is the
    highest among all such assignments. The pairs are then removed. A query may get no candidate in a round, because
    there are fewer candidates than queries or others took what was left. Its list then continues with the next round in
    which it gets one, and may be shorter than the others (padded with -1). A score of -inf excludes a pair. Messina et
    al. 2022, algorithm 1.

    Args:
        scores: Scores to maximise, read in blocks ("dense" needs the matrix).
        rounds: Number of rounds.
        method: "sparse" solves on lists of the best partners, "dense" on the whole matrix with `lapx` (or scipy if that
            is not installed); "auto" is sparse, and switches to dense if lists have grown to a quarter of the matrix.
        candidates: Initial length of the list of each query (or of each candidate, if there are fewer).
        prove: Whether to search, in further passes over the scores, for pairs outside the lists that could raise a
            total, until it is proven that there are none. Most pairs are ruled out by bounds. Without it, `gaps` bounds
            how far the totals may be from the optimum.
        progress: Called with (steps done, steps in total); the second number may grow.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> ranked = bijective(hub, rounds=2)
    >>> ranked["a"], ranked["b"], ranked.totals, ranked.exact
    (['fit', 'hub'], ['hub', 'fit'], (1.7..., 1.0), True)
    """
    progress = as_progress(progress)
    if rounds < 1 or candidates < 1:
        raise LimnerError(f"bijective: {rounds} rounds and {candidates} candidates: expected at least 1 of each")
    if method not in METHODS:
        raise UnknownName("method of assignment", str(method), METHODS)
    if 0 in scores.shape:
        raise LimnerError(f"bijective: scores of shape {scores.shape}: expected at least one query and one candidate")
    if method == "dense":
        return _solve_dense(scores, rounds, progress)
    try:
        return _Rounds(Market(scores), rounds, candidates, method == "auto", _Steps(progress)).run(prove)
    except _TooLong:
        return _solve_dense(scores, rounds, progress)


class _TooLong(Exception):
    """Raised when the lists have become so long that a dense matrix is faster."""


class _Steps(Progress):
    """Counts progress steps: rows of a pass, bidders of a round."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.before, self.ahead = progress, 0, 0

    def expect(self, steps: int) -> None:
        """Adds expected steps."""
        self.ahead += steps

    def __call__(self, done: int, total: int) -> None:
        """Reports completed steps of the current part."""
        self.progress(self.before + done, max(self.ahead, self.before + total))
        if done == total:
            self.before += total
            self.ahead = max(self.ahead, self.before)


@dataclass(frozen=True, eq=False)
class _Solution:
    """The solution of one round.

    Args:
        items: The item of each bidder, or -1.
        profits: Score minus price of the item of each bidder; the worth of staying without an item if it has none.
        best: The highest score minus price in each bidder's list; it exceeds the profit only by rounding.
        prices: Prices of the items; 0 for unassigned items, if some are left over.
        total: The sum of the scores.
        gap: The optimality gap.
    """

    items: IntArray
    profits: FloatArray
    best: FloatArray
    prices: FloatArray
    total: float
    gap: float = np.inf

    @property
    def room(self) -> float:
        """The rounding tolerance, from the spread of prices and profits.

        A common offset of all scores does not matter: differences of large numbers are exact.
        """
        return float(np.ptp(2.0**-50 * self.prices) + np.ptp(2.0**-50 * self.profits[self.items >= 0]))

    def bounded(self, outside: FloatArray) -> _Solution:
        """The same solution with an upper bound on the gap to the optimum, at these prices.

        For any prices, no assignment has a higher total than the sum of all prices plus the sum of every bidder's
        highest score minus price. The gap comes from bidders whose best pair, listed or not, would give more, and from
        prices of unassigned items.
        """
        free = np.ones(len(self.prices), dtype=bool)
        free[self.items[self.items >= 0]] = False
        gains = np.maximum(np.maximum(self.best, outside) - self.profits, 0.0)
        gap = math.fsum(gains) + math.fsum(self.prices[free])
        return replace(self, gap=gap if gap > len(self.items) * self.room else 0.0)


@dataclass(frozen=True, eq=False)
class _Limits:
    """Bounds for pairs outside the lists: score minus price at the time."""

    prices: FloatArray
    tops: FloatArray

    @classmethod
    def of(cls, lists: BestEdges, prices: FloatArray, m: int, floors: FloatArray | None = None) -> _Limits:
        """The last pair found bounds all others; if fewer were found, there are no others."""
        full = (lists.items[:, -1] >= 0) & (lists.items.shape[1] < m)
        tops = np.where(full, lists.profits[:, -1], -np.inf)
        return cls(prices, tops if floors is None else np.where(floors == np.inf, np.inf, tops))

    def at(self, prices: FloatArray) -> FloatArray:
        """The same at other prices: no profit rises by more than the largest drop in price."""
        return np.asarray(self.tops + (self.prices - prices).max())


class _Rounds:
    """All rounds, on lists that grow as needed."""

    def __init__(self, market: Market, rounds: int, candidates: int, may_give_up: bool, steps: _Steps) -> None:
        self.market, self.rounds, self.candidates, self.steps = market, rounds, candidates, steps
        self.n, self.m = market.shape
        self.wide = candidates
        self.most = self.n * self.m // 4 if may_give_up and self.n * self.m > 10**6 else self.n * self.m
        self.square = self.n == self.m
        self.done: list[_Solution] = []
        self.starts: dict[int, FloatArray] = {}
        self.steps.expect(self.market.scores.shape[0] + rounds * self.n)

    @property
    def assigned(self) -> list[IntArray]:
        """The items assigned in the rounds so far."""
        return [solution.items for solution in self.done]

    def run(self, prove: bool) -> BijectiveRanking:
        """Solves all rounds, then proves them together in one pass over the scores."""
        self._first_lists()
        first = 0
        while first < self.rounds:
            self._solve_from(first)
            if not prove:
                break
            first = self._disproved(first)
        return self._ranking()

    def _first_lists(self) -> None:
        lists = self.market.best(self.candidates, progress=self.steps)
        if np.isposinf(lists.worths).any():
            raise LimnerError(_INFINITE)
        self.edges = lists.edges
        self.limits = [_Limits.of(lists, np.zeros(self.m), self.m)]

    def _outside(self, prices: FloatArray) -> FloatArray:
        """The highest profit that each bidder can get from a pair outside the lists, at these prices."""
        return np.asarray(np.min([limits.at(prices) for limits in self.limits], axis=0))

    def _solve_from(self, first: int) -> None:
        del self.done[first:]
        while len(self.done) < self.rounds:
            solution = self._solve()
            if not (solution.items >= 0).any():
                self.rounds = len(self.done)  # every pair is assigned
                return
            self.done.append(solution.bounded(self._outside(solution.prices)))

    def _solve(self) -> _Solution:
        """Solves one round on lists that are widened until every bidder has an item, or this is proven impossible."""
        while True:
            edges, prices = self.edges.without_items(self.assigned), self._start()
            solution, dead = _solve_lists(edges, prices, -np.inf, self.steps)
            self.starts[len(self.done)] = prices
            if solution is not None:
                return solution
            if not self._widen(edges, dead, prices):
                return self._solve_short(edges)

    def _solve_short(self, edges: Edges) -> _Solution:
        """Solves one round in which some bidders stay unassigned, at a cost that keeps their number minimal."""
        self.starts.pop(len(self.done), None)
        low, high = self.market.ends()
        null = low - _dense_solver.cost_of_none(low, high, self.n)
        solution, _ = _solve_lists(edges, np.zeros(self.m), null, self.steps)
        if solution is None:
            raise RuntimeError("internal error: no assignment was found")
        return solution

    def _start(self) -> FloatArray:
        """The initial prices of a round.

        If every item is assigned, any prices work, and those of the last attempt are nearly right. If items are left
        over, their prices must be 0, so all prices start at 0.
        """
        if not self.square:
            return np.zeros(self.m)
        last = self.done[-1].prices if self.done else np.zeros(self.m)
        return self.starts.get(len(self.done), last).copy()

    def _widen(self, edges: Edges, dead: npt.NDArray[np.bool_], prices: FloatArray) -> bool:
        """Adds free items to the lists that are too short; False if no list can grow."""
        closed = np.logical_and.reduceat(np.append(dead[edges.items], True), np.minimum(edges.indptr[:-1], len(edges)))
        closed |= np.diff(edges.indptr) == 0
        floors = np.where(closed & (self._outside(prices) > -np.inf), -np.inf, np.inf)
        if (floors == np.inf).all():
            return False
        if len(self.edges) + (floors < np.inf).sum() * min(self.wide, self.m) > self.most:
            raise _TooLong
        self.steps.expect(self.market.scores.shape[0])
        request = EdgeRequest(np.where(dead, np.inf, prices), floors)
        (lists,) = self.market.find([request], self.wide, hidden=self.edges, progress=self.steps)
        self.edges = self.edges.with_edges(*lists.flat)
        self.wide *= 2
        self._forget_beaten(*lists.flat)
        return bool((lists.items >= 0).any())

    def _forget_beaten(self, bidders: Array, items: Array, worths: Array) -> None:
        """Drops earlier rounds whose totals these new pairs could raise."""
        for r, s in enumerate(self.done):
            if (worths - s.prices[items] > s.profits[bidders] + s.room).any():
                del self.done[r:]
                return

    def _disproved(self, first: int) -> int:
        """Looks for pairs outside the lists that could raise a total; returns the first such round."""
        open_rounds = range(first, self.rounds)
        requests = [self._doubts(self.done[r]) for r in open_rounds]
        if all((w.floors == np.inf).all() for w in requests):
            return self.rounds
        self.steps.expect(self.market.scores.shape[0])
        lists = self.market.find(requests, EXTRA, hidden=self.edges, progress=self.steps)
        self.edges = self.edges.with_edges(*map(np.concatenate, zip(*(f.flat for f in lists), strict=True)))
        self.limits += [_Limits.of(f, w.prices, self.m, w.floors) for f, w in zip(lists, requests, strict=True)]
        disproved = self.rounds
        for r, w, f in zip(open_rounds, requests, lists, strict=True):
            best = np.where(w.floors < np.inf, f.profits[:, 0], -np.inf)
            self.done[r] = self.done[r].bounded(best)
            if (best > self.done[r].profits + self.done[r].room).any():
                disproved = min(disproved, r)
        return disproved

    def _doubts(self, solution: _Solution) -> EdgeRequest:
        """Requests more candidates for bidders that could gain from a pair outside the lists."""
        certain = self._outside(solution.prices) <= solution.profits + solution.room
        return EdgeRequest(solution.prices, np.where(certain, np.inf, -np.inf))

    def _ranking(self) -> BijectiveRanking:
        scores = self.market.scores
        lists = (
            self.assigned if self.market.by_rows else [_inverse(items, len(scores.queries)) for items in self.assigned]
        )
        return _ranked(scores, lists, [s.total for s in self.done], [s.gap for s in self.done], "limner")


def _solve_lists(
    edges: Edges, prices: FloatArray, null: float, steps: _Steps
) -> tuple[_Solution | None, npt.NDArray[np.bool_]]:
    """The best assignment on lists, starting from prices; None if some bidder cannot have an item.

    Returns:
        The solution, and the items that too many bidders compete for.
    """
    from limner.match import _path_kernels

    n, m = len(edges.indptr) - 1, len(prices)
    edge_of, owners = np.full(n, _path_kernels.FREE, dtype=np.int64), np.full(m, _path_kernels.FREE, dtype=np.int64)
    graph, state, dead = edges.graph, (prices, edge_of, owners), np.zeros(m, dtype=bool)
    slices = [(low, min(low + SLICE, n)) for low in range(0, n, SLICE)]
    for low, high in slices * 2:
        _path_kernels.bid(graph, state, null, BIDS * (high - low), low, high)
    stuck = 0
    for low, high in slices:
        stuck += _path_kernels.augment(graph, state, null, dead, low, high)
        steps(high, n)
    if stuck:
        return None, dead
    has = edge_of >= 0
    items, worths = np.full(n, -1, dtype=np.int64), np.zeros(n)
    items[has], worths[has] = edges.items[edge_of[has]], edges.worths[edge_of[has]]
    profits, best = np.where(has, worths - prices[items], null), np.empty(n)
    _path_kernels.best_profits(graph, prices, best)
    return _Solution(items, profits, np.maximum(best, null), prices, _total(worths)), dead


def _total(scores: Array) -> float:
    """The sum, rounded once."""
    try:
        return math.fsum(scores)
    except OverflowError:
        raise LimnerError(
            f"bijective: scores as large as {np.abs(scores).max():g} are too large to add up: divide them by a constant"
        ) from None


def _inverse(items: IntArray, n: int) -> IntArray:
    """The bidder of each item, -1 if it has none."""
    bidders = np.full(n, -1, dtype=np.int64)
    has = np.flatnonzero(items >= 0)
    bidders[items[has]] = has
    return bidders


def _ranked(
    scores: Scores, lists: list[IntArray], totals: list[float], gaps: list[float], solver: str
) -> BijectiveRanking:
    """Builds a ranking from the candidate of each query in each round (-1 if it got none)."""
    n, m = scores.shape
    table = np.stack(lists, axis=1) if lists else np.zeros((n, 0), dtype=np.int64)
    table = np.take_along_axis(table, np.argsort(table < 0, axis=1, kind="stable"), axis=1)
    depth = int((table >= 0).sum(axis=1).max(initial=0))
    counts = tuple(int((items >= 0).sum()) for items in lists)
    return BijectiveRanking(
        scores.queries, scores.candidates, table[:, :depth], None, m, tuple(totals), tuple(gaps), counts, solver
    )


def _solve_dense(scores: Scores, rounds: int, progress: Progress) -> BijectiveRanking:
    """Solves all rounds on the whole matrix, with the solver of a library."""
    costs = np.negative(scores.matrix(), dtype=np.float64)
    if np.isneginf(costs).any():
        raise LimnerError(_INFINITE)
    lists, totals = [], []
    for r in range(rounds):
        rows, columns = _dense_solver.solve(costs)
        if not len(rows):
            break
        totals.append(-_total(costs[rows, columns]))
        costs[rows, columns] = np.inf
        lists.append(np.full(len(costs), -1, dtype=np.int64))
        lists[-1][rows] = columns
        progress(r + 1, rounds)
    return _ranked(scores, lists, totals, [0.0] * len(totals), _dense_solver.library(costs.shape))
