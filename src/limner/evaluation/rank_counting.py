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
from limner.scores import Best, Block, PairScores, Scores, kernels
from limner.scores.lowprecision import NO_POOLS, ProductBlock, Ranked, share_verified

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

    def seen(self, counts: IntArray) -> IntArray:
        """The counts, with `NEVER` for those beyond the depth."""
        above, relevant = counts[:, 0], self.grades > 0
        if not (above >= self.depths).any():
            return counts
        best = np.full(int(self.rows.max(initial=0)) + 1, NEVER)
        np.minimum.at(best, self.rows[relevant], above[relevant])
        kept = (above < self.depths) | (relevant & (above == best[self.rows]))
        return np.where(kept[:, None], counts, [NEVER, 1, 0])


def count_ranks(
    source: Scores,
    asked: Sequence[RankRequest],
    positives: Sequence[Positives],
    keep: int,
    workers: int | None,
    progress: Progress,
) -> tuple[list[IntArray], Ranking | None]:
    """One pass over the blocks: counts for every request (grouped by pool), and the best `keep` candidates."""
    counters = _counters(source, asked, positives)
    parts = source.map(_Count(counters, Best(keep) if keep else None), workers=workers, progress=progress)
    found: dict[int, IntArray] = {}
    each = [[counts[number] for counts, _ in parts] for number in range(len(counters))]
    counted = [np.concatenate([NO_COUNTS, *(c.counts if isinstance(c, _Open) else c for c in one)]) for one in each]
    undecided = [[c for c in one if isinstance(c, _Open)] for one in each]
    _count_rows(source, counters, counted, undecided, workers)
    for counter, counts, left in zip(counters, counted, undecided, strict=True):
        counter.settle(source, counts, left)
        found |= counter.answers(source, counts)
    kept = Best(keep).ranking(source, [best for _, best in parts if best]) if keep else None
    return [found[i] for i in range(len(asked))], kept


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
    few = [counter.only(every, mine) for counter, mine in zip(counters, rows, strict=True)]
    parts = source.restrict(queries=source.queries[every]).map(_Plain([c for c, _ in few]), workers=workers)
    for number, (_, places) in enumerate(few):
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
        kept = None if self.best is None else self.best(start, block)
        if kept is None or not isinstance(block, np.ndarray):
            return [counter.count(start, block) for counter in self.counters], kept
        return [counter.count_beyond(start, block, kept) for counter in self.counters], kept

    @cached_property
    def _listed(self) -> tuple[IntArray, IntArray, list[IntArray]]:
        """The positives of all counters, indptr and columns, and where those of each counter are among them."""
        first, *others = self.counters
        keys = _united([counter.keys for counter in self.counters])
        indptr = first.indptr if not others else np.searchsorted(keys, first.width * np.arange(len(first.indptr)))
        return indptr, keys % first.width, [np.searchsorted(keys, counter.keys) for counter in self.counters]

    def from_products(self, near: ProductBlock) -> tuple[list[_Open], object] | None:
        """The same from low-precision products, except for pairs that only float32 scores can compare."""
        kept = None if self.best is None else near.best(self.best)  # first: counting puts the products in order
        if self.best is not None and kept is None:
            return None
        (indptr, columns, where), stop, found = self._listed, near.start + len(near.bits), []
        low, high = indptr[near.start], indptr[stop]
        scores = near.listed(indptr[near.start : stop + 1] - low, columns[low:high])
        for counter, places in zip(self.counters, where, strict=True):
            own = scores[places[counter.part(near.start, stop)] - low]
            if (counted := counter.from_products(near, own, kept)) is None:
                return None
            found.append(counted)
        return found, kept

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """Counts above the positives of every pool, and the best."""
        return COUNTED * len(self.counters) + (share_verified(self.best.k, width, dimensions) if self.best else 0.0)

    def divided(self, score: PairScores) -> _CountPieces | None:
        """A counter for pieces of rows, whose counts can be summed if positive scores are known; None with folds."""
        if any(counter.pools is not None for counter in self.counters):
            return None
        known = [score(*np.divmod(counter.keys, counter.width)) for counter in self.counters]
        return _CountPieces(self.counters, known, self.best)


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

    def __init__(self, source: Scores, asked: RankRequest, members: dict[int, Positives]) -> None:
        n, self.width = source.shape
        self.members = members
        keys = [p.rows[p.columns >= 0] * self.width + p.columns[p.columns >= 0] for p in members.values()]
        self.keys = _united(keys)
        rows, self.columns = np.divmod(self.keys, self.width)
        self.depths, self.requests = np.zeros(len(self.keys), np.int64), np.zeros(len(self.keys), np.uint64)
        self.at: dict[int, IntArray] = {}
        for number, (member, own) in enumerate(zip(members, keys, strict=True)):
            p, at = members[member], np.searchsorted(self.keys, own)
            self.at[member], inside = at, p.columns >= 0
            relevant, depths = p.grades[inside] > 0, p.depths[inside] if len(members) <= MOST_REQUESTS else NEVER
            self.depths[at] = np.maximum(self.depths[at], depths)
            self.requests[at[relevant]] |= np.uint64(1) << np.uint64(number % MOST_REQUESTS)
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
        self.pools = asked.query_pools
        if asked.query_pools is not None and asked.candidate_pools is not None:
            self._cut(asked.candidate_pools)

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
        from limner.evaluation.rank_kernels import count_in_best

        stop = start + len(best[0])
        part, indptr = self.part(start, stop), self.indptr[start : stop + 1] - self.indptr[start]
        counts, depths = np.empty((len(scores), 3), np.int64), np.empty(len(scores), np.int64)
        pools = (NONE, NONE) if self.pools is None else (self.pools[start:stop], self.pool_of)
        positives = indptr, self.columns[part], scores, self.depths[part], self.requests[part]
        ends, left = np.empty_like(indptr), np.empty_like(depths)
        count_in_best(*best, positives, pools, counts, depths, ends, left)
        return counts, depths, ends, left[: ends[-1]]

    def from_products(self, near: ProductBlock, scores: Float32, best: Kept | None) -> _Open | None:
        """Like `count_beyond`, from low-precision products; None if they leave too many pairs undecided."""
        start, stop = near.start, near.start + len(near.bits)
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
        found = near.above(Ranked(indptr, self.columns[first + left], scores[left], depths[left]), pools)
        if found is None:
            return None
        counts[left, 0] = found.counts
        return _Open(counts, first + left[found.whose], found.columns, found.rows + start)

    def only(self, rows: IntArray, mine: IntArray) -> tuple[_Counter, IntArray]:
        """A counter for some rows, with the positives of `mine` alone, and the numbers of these positives."""
        sizes = np.where(np.isin(rows, mine), np.diff(self.indptr)[rows], 0)
        few = copy(self)
        few.indptr = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self.indptr[rows] - few.indptr[:-1], sizes) + np.arange(few.indptr[-1])
        few.columns = self.columns[places]
        if self.pools is not None:
            few.pools, few.places = self.pools[rows], self.places[places]
        return few, places

    def settle(self, source: Any, counted: IntArray, parts: Sequence[_Open]) -> None:
        """Adds the counts of pairs that only float32 scores can compare."""
        whose = np.concatenate([NONE, *(part.whose for part in parts)])
        if not len(whose):
            return
        columns, own = np.concatenate([NONE, *(part.columns for part in parts)]), self.columns[whose]
        rows = self.keys[whose] // self.width
        theirs, mine = np.split(source.pairs(np.tile(rows, 2), np.concatenate([columns, own])), 2)
        for place, found in enumerate((theirs > mine, theirs == mine, (theirs == mine) & (columns < own))):
            np.add.at(counted[:, place], whose[found], 1)

    def count_piece(self, start: int, low: int, block: Block, scores: Block) -> IntArray:
        """Like `count`, for the columns of a piece that begins at `low`."""
        from limner.evaluation.rank_kernels import count_against

        part = self.part(start, start + len(block))
        indptr = self.indptr[start : start + len(block) + 1] - part.start
        counts = np.zeros((part.stop - part.start, 3), dtype=np.int64)
        count_against(block, indptr, scores[part], self.columns[part] - low, counts)
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
    found = np.sort(np.concatenate([NONE, *keys]), kind="stable")
    return found[np.diff(found, prepend=-1) > 0]  # np.unique puts numbers into a hash table first


def _counters(source: Scores, asked: Sequence[RankRequest], positives: Sequence[Positives]) -> list[_Counter]:
    shared: dict[tuple[int, int], dict[int, Positives]] = {}
    for number, (a, p) in enumerate(zip(asked, positives, strict=True)):
        shared.setdefault((id(a.query_pools), id(a.candidate_pools)), {})[number] = p
    return [_Counter(source, asked[next(iter(members))], members) for members in shared.values()]
