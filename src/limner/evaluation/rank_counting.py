"""Counts ranks from blocks of scores: how many candidates are above each positive, and how many are equal."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32, FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import Progress
from limner.core.ranking import Ranking
from limner.scores import Scores
from limner.scores.array_kernels import count_in_best
from limner.scores.base import Best
from limner.scores.lowprecision import NO_POOLS, ProductBlock, Ranked, share_verified
from limner.scores.parallel_blocks import Block, PairScores, kernels

NEVER = int(np.iinfo(np.int64).max // 4)
"""A rank beyond every cut-off: a positive that is never found, or missing from a truncated list."""

MOST_REQUESTS = 64
"""With more requests in one pass than this, all ranks are counted."""

NO_COUNTS = np.zeros((0, 3), dtype=np.int64)
NONE = np.zeros(0, dtype=np.int64)

Kept = tuple[npt.NDArray[np.int32], Block]
"""The best candidates of every row, and their scores."""


@dataclass(frozen=True, eq=False)
class RankRequest:
    """What one pass over the scores has to count: the ranks of the positives of these judgements.

    Args:
        judgements: Relevance of candidates to queries.
        query_pools: Fold number of every query of the source, for protocols that split the pool; -1 for no fold.
        candidate_pools: Fold number of every candidate of the source.
        outside: What to do with a positive that is not in the pool: "drop" it, or "count" it in R as never found.
        depth: Judged candidates count as never found from this rank on, but for the best relevant one of a query: one
            for each query of the judgements, or for all of them; None to count all ranks.
    """

    judgements: Judgements
    query_pools: IntArray | None = None
    candidate_pools: IntArray | None = None
    outside: str = "drop"
    depth: IntArray | int | None = None


@dataclass(frozen=True, eq=False)
class Positives:
    """Judged pairs as positions in the source.

    Args:
        rows: Queries.
        columns: Candidates; -1 for those outside the pool.
        grades: The grade of each pair.
        outside: Number of relevant pairs outside the pool.
        depths: See `RankRequest`; `NEVER` for pairs whose ranks are counted in any case.
    """

    rows: IntArray
    columns: IntArray
    grades: FloatArray
    outside: int
    depths: IntArray

    def cut_counts(self, counts: IntArray) -> IntArray:
        """The counts, with `NEVER` for those beyond the depth."""
        n_above, relevant = counts[:, 0], self.grades > 0
        if not (n_above >= self.depths).any():
            return counts
        best = np.full(int(self.rows.max(initial=0)) + 1, NEVER)
        np.minimum.at(best, self.rows[relevant], n_above[relevant])
        is_counted = (n_above < self.depths) | (relevant & (n_above == best[self.rows]))
        return np.where(is_counted[:, None], counts, [NEVER, 1, 0])


def count_ranks(
    source: Scores,
    requests: Sequence[RankRequest],
    positives: Sequence[Positives],
    keep: int,
    workers: int | None,
    progress: Progress,
) -> tuple[list[IntArray], Ranking | None]:
    """One pass over the blocks: counts for every request (grouped by pool), and the best `keep` candidates."""
    counters = _counters(source, requests, positives)
    parts = source.map(_Count(counters, Best(keep) if keep else None), workers=workers, progress=progress)
    answers: dict[int, IntArray] = {}
    each = [[counts[number] for counts, _ in parts] for number in range(len(counters))]
    counted = [np.concatenate([NO_COUNTS, *(c.counts if isinstance(c, _Open) else c for c in one)]) for one in each]
    undecided = [[c for c in one if isinstance(c, _Open)] for one in each]
    _count_rows(source, counters, counted, undecided, workers)
    for counter, counts, left in zip(counters, counted, undecided, strict=True):
        counter.settle(source, counts, left)
        answers |= counter.answers(source, counts)
    top = Best(keep).ranking(source, [best for _, best in parts if best]) if keep else None
    return [answers[i] for i in range(len(requests))], top


def _count_rows(
    source: Scores,
    counters: Sequence[_Counter],
    counted: Sequence[IntArray],
    undecided: Sequence[Sequence[_Open]],
    workers: int | None,
) -> None:
    """Counts in float32 the rows that low-precision products leave open, from blocks of such rows alone."""
    rows = [np.concatenate([NONE, *(part.rows for part in parts)]) for parts in undecided]
    every = np.unique(np.concatenate([NONE, *rows]))
    if not len(every):
        return
    restricted = [counter.only(every, positions) for counter, positions in zip(counters, rows, strict=True)]
    parts = source.restrict(queries=source.queries[every]).map(_Plain([c for c, _ in restricted]), workers=workers)
    for number, (_, places) in enumerate(restricted):
        counted[number][places] = np.concatenate([NO_COUNTS, *(counts[number] for counts in parts)])


COUNTED = 0.03
"""What counting from low-precision products costs more than counting from scores, as a share of the float32 product. It
is more where many candidates are near a positive; a row with too many of them is counted in float32."""


@dataclass(frozen=True, eq=False)
class _Count:
    """Runs all counters on a block, and finds its top candidates if requested, which decide most ranks."""

    counters: list[_Counter]
    best: Best | None

    def __call__(self, start: int, block: Block) -> tuple[list[IntArray], Any]:
        best = None if self.best is None else self.best(start, block)
        if best is None or not isinstance(block, np.ndarray):
            return [counter.count(start, block) for counter in self.counters], best
        return [counter.count_beyond(start, block, best) for counter in self.counters], best

    @cached_property
    def _listed(self) -> tuple[IntArray, IntArray, list[IntArray]]:
        """The positives of all counters, indptr and columns, and where those of each counter are among them."""
        first, *remaining = self.counters
        keys = _united([counter.keys for counter in self.counters])
        indptr = first.indptr if not remaining else np.searchsorted(keys, first.width * np.arange(len(first.indptr)))
        return indptr, keys % first.width, [np.searchsorted(keys, counter.keys) for counter in self.counters]

    def from_products(self, products: ProductBlock) -> tuple[list[_Open], object] | None:
        """The same from low-precision products, except for pairs that only float32 scores can compare."""
        best = None if self.best is None else products.best(self.best)  # first: counting puts the products in order
        if self.best is not None and best is None:
            return None
        (indptr, columns, places_of), stop, open_counts = self._listed, products.start + len(products.bits), []
        low, high = indptr[products.start], indptr[stop]
        scores = products.listed(indptr[products.start : stop + 1] - low, columns[low:high])
        for counter, places in zip(self.counters, places_of, strict=True):
            own_scores = scores[places[counter.part(products.start, stop)] - low]
            if (counted := counter.from_products(products, own_scores, best)) is None:
                return None
            open_counts.append(counted)
        return open_counts, best

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """Counts above the positives of every pool, and the best."""
        return COUNTED * len(self.counters) + (share_verified(self.best.k, width, dimensions) if self.best else 0.0)

    def divided(self, score: PairScores) -> _CountPieces | None:
        """A counter for pieces of rows, whose counts can be summed if positive scores are known; None with folds."""
        if any(counter.pools is not None for counter in self.counters):
            return None
        positive_scores = [score(*np.divmod(counter.keys, counter.width)) for counter in self.counters]
        return _CountPieces(self.counters, positive_scores, self.best)


@dataclass(frozen=True, eq=False)
class _Plain:
    """Runs all counters on a block of float32 scores; never from low-precision products."""

    counters: list[_Counter]

    def __call__(self, start: int, block: Block) -> list[IntArray]:
        return [counter.count(start, block) for counter in self.counters]


@dataclass(frozen=True, eq=False)
class _CountPieces:
    """Counts for positives whose scores are known in advance."""

    counters: list[_Counter]
    scores: list[Block]
    best: Best | None

    def piece(self, start: int, low: int, block: Block) -> tuple[list[IntArray], object]:
        """Counts among some columns."""
        counts = [c.count_piece(start, low, block, s) for c, s in zip(self.counters, self.scores, strict=True)]
        return counts, self.best and self.best.piece(start, low, block)

    def join(self, parts: Sequence[tuple[list[IntArray], Any]]) -> tuple[list[IntArray], Any]:
        """Counts among all columns."""
        counts = [np.sum(each, axis=0) for each in zip(*(counts for counts, _ in parts), strict=True)]
        return counts, self.best and self.best.join([best for _, best in parts])


@dataclass(frozen=True, eq=False)
class _Open:
    """The counts of a block so far, and what is still undecided.

    Args:
        counts: Above, equal, equal before, for every positive; undefined in `rows`.
        whose: The number of the positive of each undecided pair.
        columns: The column of each undecided pair.
        rows: Queries with so many undecided pairs that they are counted in float32.
    """

    counts: IntArray
    whose: IntArray
    columns: IntArray
    rows: IntArray


class _Counter:
    """Counts for all requests that share a pool: the union of their positives is counted once."""

    def __init__(self, source: Scores, request: RankRequest, members: dict[int, Positives]) -> None:
        n, self.width = source.shape
        self.members = members
        keys = [p.rows[p.columns >= 0] * self.width + p.columns[p.columns >= 0] for p in members.values()]
        self.keys = _united(keys)
        rows, self.columns = np.divmod(self.keys, self.width)
        self.depths, self.requests = np.zeros(len(self.keys), np.int64), np.zeros(len(self.keys), np.uint64)
        self.at: dict[int, IntArray] = {}
        for number, (member, member_keys) in enumerate(zip(members, keys, strict=True)):
            p, at = members[member], np.searchsorted(self.keys, member_keys)
            self.at[member], inside = at, p.columns >= 0
            relevant, depths = p.grades[inside] > 0, p.depths[inside] if len(members) <= MOST_REQUESTS else NEVER
            self.depths[at] = np.maximum(self.depths[at], depths)
            self.requests[at[relevant]] |= np.uint64(1) << np.uint64(number % MOST_REQUESTS)
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
        self.pools = request.query_pools
        if request.query_pools is not None and request.candidate_pools is not None:
            self._cut(request.candidate_pools)

    def _cut(self, pools: IntArray) -> None:
        """The columns of each fold, in candidate order, and the position of each positive among them."""
        self.pool_of, order = pools, np.argsort(pools, kind="stable")
        self.pool_indptr = np.searchsorted(pools[order], np.arange(int(pools.max(initial=-1)) + 2)).astype(np.int64)
        self.pool_columns = order.astype(np.int64)
        place = np.empty(len(pools), dtype=np.int64)
        place[order] = np.arange(len(pools)) - self.pool_indptr[np.maximum(pools[order], 0)]
        self.places = place[self.columns]

    def part(self, start: int, stop: int) -> slice:
        """The positives of some rows."""
        return slice(int(self.indptr[start]), int(self.indptr[stop]))

    def count(self, start: int, block: Block) -> IntArray:
        """Counts for the positives of these rows, (positives, 3): above, equal, equal before."""
        part = self.part(start, start + len(block))
        return self._counted(start, block, self.indptr[start : start + len(block) + 1] - part.start, part)

    def _counted(self, start: int, block: Block, indptr: IntArray, chosen: IntArray | slice) -> IntArray:
        """Counts for some positives of these rows."""
        counts = np.zeros((int(indptr[-1]), 3), dtype=np.int64)
        if self.pools is None:
            kernels(block).count_all(block, indptr, self.columns[chosen], counts)
        else:
            cut = self.pools[start : start + len(block)], self.pool_indptr, self.pool_columns
            kernels(block).count_pool(block, indptr, self.places[chosen], counts, *cut)
        return counts

    def count_beyond(self, start: int, block: Block, best: Kept) -> IntArray:
        """Like `count`, for a block whose best are known; a positive beyond its depth may count as never found."""
        part = self.part(start, start + len(block))
        rows = np.repeat(np.arange(len(block)), np.diff(self.indptr[start : start + len(block) + 1]))
        counts, _, indptr, left = self._in_best(start, block[rows, self.columns[part]], best)
        if len(left):
            counts[left] = self._counted(start, block, indptr, part.start + left)
        return counts

    def _in_best(self, start: int, scores: Block, best: Kept) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """What the best of a block decide: counts and depths of its positives; indptr and numbers of the others."""
        stop = start + len(best[0])
        part, indptr = self.part(start, stop), self.indptr[start : stop + 1] - self.indptr[start]
        pools = (NONE, NONE) if self.pools is None else (self.pools[start:stop], self.pool_of)
        positives = indptr, self.columns[part], scores, self.depths[part], self.requests[part]
        counts, depths, left = count_in_best(*best, positives, pools)
        return counts, depths, np.searchsorted(left, indptr), left

    def from_products(self, products: ProductBlock, scores: Float32, best: Kept | None) -> _Open | None:
        """Like `count_beyond`, from low-precision products; None if they leave too many pairs undecided."""
        start, stop = products.start, products.start + len(products.bits)
        first, none = (
            self.indptr[start],
            (np.empty((stop - start, 0), np.int32), np.empty((stop - start, 0), np.float32)),
        )
        counts, depths, indptr, left = self._in_best(start, scores, best or none)
        if not len(left):
            return _Open(counts, NONE, NONE, NONE)
        pools = NO_POOLS
        if self.pools is not None:
            pools = self.pools[start:stop], self.pool_indptr, self.pool_columns
        candidates = products.count_above(Ranked(indptr, self.columns[first + left], scores[left], depths[left]), pools)
        if candidates is None:
            return None
        counts[left, 0] = candidates.counts
        return _Open(counts, first + left[candidates.whose], candidates.columns, candidates.rows + start)

    def only(self, rows: IntArray, positions: IntArray) -> tuple[_Counter, IntArray]:
        """A counter for some rows, with the positives of `mine` alone, and the numbers of these positives."""
        sizes = np.where(np.isin(rows, positions), np.diff(self.indptr)[rows], 0)
        restricted = copy(self)
        restricted.indptr = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self.indptr[rows] - restricted.indptr[:-1], sizes) + np.arange(restricted.indptr[-1])
        restricted.columns = self.columns[places]
        if self.pools is not None:
            restricted.pools, restricted.places = self.pools[rows], self.places[places]
        return restricted, places

    def settle(self, source: Any, counted: IntArray, parts: Sequence[_Open]) -> None:
        """Adds the counts of pairs that only float32 scores can compare."""
        owner = np.concatenate([NONE, *(part.whose for part in parts)])
        if not len(owner):
            return
        columns, own_columns = np.concatenate([NONE, *(part.columns for part in parts)]), self.columns[owner]
        rows = self.keys[owner] // self.width
        theirs, own_scores = np.split(source.pairs(np.tile(rows, 2), np.concatenate([columns, own_columns])), 2)
        for place, is_counted in enumerate(
            (theirs > own_scores, theirs == own_scores, (theirs == own_scores) & (columns < own_columns))
        ):
            np.add.at(counted[:, place], owner[is_counted], 1)

    def count_piece(self, start: int, low: int, block: Block, scores: Block) -> IntArray:
        """Like `count`, for the columns of a piece that begins at `low`."""
        part = self.part(start, start + len(block))
        indptr = self.indptr[start : start + len(block) + 1] - part.start
        counts = np.zeros((part.stop - part.start, 3), dtype=np.int64)
        kernels(block).count_against(block, indptr, scores[part], self.columns[part] - low, counts)
        return counts

    def answers(self, source: Scores, counted: IntArray) -> dict[int, IntArray]:
        """The counts for the positives of each request; `NEVER` for those outside the pool."""
        self._refuse_nan(source, counted[:, 1] == 0)
        answered = {}
        for number, p in self.members.items():
            counts, inside = counted[self.at[number]], p.columns >= 0
            if not inside.all():
                every = np.tile(np.array([NEVER, 1, 0]), (len(p.rows), 1))
                every[inside], counts = counts, every
            answered[number] = counts
        return answered

    def _refuse_nan(self, source: Scores, unequal: npt.NDArray[np.bool_]) -> None:
        """Refuses a positive whose score is NaN, which has no rank; NaN does not equal itself."""
        if unequal.any():
            row, column = (int(at) for at in np.divmod(self.keys[np.argmax(unequal)], self.width))
            raise LimnerError(
                f"the score of query {source.queries[row]!r} and candidate {source.candidates[column]!r} is NaN "
                f"({int(unequal.sum())} such positives): its rank is undefined; fix the scores"
            )


def _united(keys: Sequence[IntArray]) -> IntArray:
    """All of these numbers in order, each once; fast for lists that are in order."""
    sorted_keys = np.sort(np.concatenate([NONE, *keys]), kind="stable")
    return sorted_keys[np.diff(sorted_keys, prepend=-1) > 0]  # np.unique puts numbers into a hash table first


def _counters(source: Scores, requests: Sequence[RankRequest], positives: Sequence[Positives]) -> list[_Counter]:
    shared: dict[tuple[int, int], dict[int, Positives]] = {}
    for number, (a, p) in enumerate(zip(requests, positives, strict=True)):
        shared.setdefault((id(a.query_pools), id(a.candidate_pools)), {})[number] = p
    return [_Counter(source, requests[next(iter(members))], members) for members in shared.values()]
