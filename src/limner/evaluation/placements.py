"""Placements: the rank of every relevant candidate. All measures are computed from these alone.

The rank of a positive is counted from blocks of scores (how many candidates are above it, how many are equal);
no row is ever sorted, and the score matrix is never held in memory. Several judgements, and several pools, are counted
in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.scores import Best, Block, PairScores, Progress, Scores, kernels
from limner.scores.filtering import NO_POOLS, Near

NEVER = int(np.iinfo(np.int64).max // 4)
"""A rank beyond every cut-off: a positive that is never found, or missing from a truncated list."""

OUTSIDE_POOL = NEVER + 1
"""The rank of a positive that is not in the pool, so that no list can contain it."""

NO_COUNTS = np.zeros((0, 3), dtype=np.int64)
NONE = np.zeros(0, dtype=np.int64)

TIES = ("expected", "order", "pessimistic")
UNRETRIEVED = ("refuse", "never")
OUTSIDE = ("drop", "count")


@dataclass(frozen=True, eq=False)
class Placements:
    """Relevant candidates of each query, sorted by rank.

    Args:
        queries: The queries that have a relevant candidate; all others are left out of every mean.
        indptr: Positives of query q are `indptr[q]:indptr[q + 1]`, best placed first.
        above: Number of candidates strictly above each positive; `NEVER` if it is not found, `OUTSIDE_POOL` if it is
            not in the pool.
        tied: Number of candidates tied with it, itself included; 1 if ties are resolved.
        grades: The grade of each positive.
        pool: How many candidates each query was ranked against (`NEVER` when unknown).
        known: How deep each query's list is known; `NEVER` when nothing is cut off.
        left_out: How many queries had no relevant candidate in the pool.
        outside: How many relevant candidates are not in the pool.
        judged: Where all judged candidates of the same queries stand, relevant or not (grade 0); None if only
            relevant ones are known.
    """

    queries: Ids
    indptr: IntArray
    above: IntArray
    tied: IntArray
    grades: FloatArray
    pool: IntArray
    known: IntArray
    left_out: int = 0
    outside: int = 0
    judged: Placements | None = None

    def __post_init__(self) -> None:
        """Refuses a rank that no candidate has: the score was NaN."""
        if (self.tied < 1).any():
            first = self.queries[int(self.query[np.argmin(self.tied)])]
            raise LimnerError(f"a place of query {first!r} is shared by 0 candidates: the positive's score was NaN")

    @cached_property
    def query(self) -> IntArray:
        """The query number of each positive."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.indptr))

    @cached_property
    def relevant(self) -> IntArray:
        """R: how many relevant candidates each query has."""
        return np.diff(self.indptr)

    @cached_property
    def order(self) -> IntArray:
        """0 for the best placed positive of a query, 1 for the next, ..."""
        return np.arange(len(self.above)) - np.repeat(self.indptr[:-1], self.relevant)

    @cached_property
    def group(self) -> tuple[IntArray, IntArray]:
        """For each positive: how many positives are strictly above it, and how many are tied with it."""
        new = np.ones(len(self.above), dtype=bool)
        new[1:] = (np.diff(self.above) != 0) | (np.diff(self.query) != 0)
        starts = np.flatnonzero(new)
        sizes = np.diff(starts, append=len(self.above))
        return np.repeat(self.order[starts], sizes), np.repeat(sizes, sizes)

    @cached_property
    def unlocated(self) -> npt.NDArray[np.bool_]:
        """For each query: whether a positive may be anywhere below a truncated list."""
        lost = np.bincount(self.query[self.above == NEVER], minlength=len(self.queries)) > 0
        return np.asarray(lost & (self.known < NEVER))

    @cached_property
    def partly_judged(self) -> bool:
        """Whether it is known which candidates were judged, and some were not."""
        return self.judged is not None and bool((self.judged.relevant < self.judged.pool).any())

    def continued(self, *, best: bool) -> Placements:
        """The best or worst continuation of truncated lists.

        At best the missing positives come next, highest grade first; at worst they come last in the pool, highest grade
        last, or never if the pool is unknown.
        """
        missing = np.flatnonzero((self.above == NEVER) & (self.known[self.query] < NEVER))
        grades, query = self.grades[missing], self.query[missing]
        missing = missing[np.lexsort((-grades if best else grades, query))]
        many = np.bincount(query, minlength=len(self.queries))
        number = np.arange(len(missing)) - (np.cumsum(many) - many)[query]
        start = self.known if best else np.where(self.pool >= NEVER, NEVER, self.pool - many)
        above = self.above.copy()
        above[missing] = start[query] + number
        order = np.lexsort((above, self.query))
        whole = np.full_like(self.known, NEVER)
        moved: dict[str, Any] = {"above": above[order], "tied": self.tied[order], "grades": self.grades[order]}
        return replace(self, **moved, known=whole, judged=self.judged and self.judged.continued(best=best))

    def at_least(self, grade: float) -> Placements:
        """Only positives of this grade or above; queries without any left are kept."""
        kept = self.grades >= grade
        counts = np.bincount(self.query[kept], minlength=len(self.queries))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return replace(self, indptr=indptr, above=self.above[kept], tied=self.tied[kept], grades=self.grades[kept])

    def with_positives(self) -> Placements:
        """Without queries that have no positives; these count as left out."""
        kept = np.flatnonzero(self.relevant > 0)
        return self if len(kept) == len(self.queries) else self.of(kept)

    def of(self, kept: IntArray) -> Placements:
        """These queries by position, in rising order; the others count as left out."""
        chosen = np.zeros(len(self.queries), dtype=bool)
        chosen[kept] = True
        entries = chosen[self.query]
        return replace(
            self,
            queries=self.queries[kept],
            indptr=np.concatenate([[0], np.cumsum(self.relevant[kept])]),
            above=self.above[entries],
            tied=self.tied[entries],
            grades=self.grades[entries],
            pool=self.pool[kept],
            known=self.known[kept],
            left_out=self.left_out + len(self.queries) - len(kept),
            judged=self.judged and self.judged.of(kept),
        )

    def split(self) -> Placements:
        """Only the relevant candidates, and separately everything that was judged."""
        if (self.grades > 0).all():
            return self
        relevant = self.at_least(float(np.nextafter(0.0, 1.0)))
        return replace(relevant, judged=self).with_positives()


@dataclass(frozen=True, eq=False)
class Asked:
    """One request to a pass over the scores: the ranks of the positives of these judgements.

    Args:
        judgements: Relevance of candidates to queries.
        query_pools: Fold number of every query of the source, for protocols that cut the pool; -1 for none.
        candidate_pools: Fold number of every candidate of the source.
        outside: What to do with a positive that is not in the pool: "drop" it, or "count" it in R as never found.
    """

    judgements: Judgements
    query_pools: IntArray | None = None
    candidate_pools: IntArray | None = None
    outside: str = "drop"


@dataclass(frozen=True, eq=False)
class _Positives:
    """Relevant pairs as positions in the source, and the counts found for them."""

    rows: IntArray
    columns: IntArray
    grades: FloatArray
    outside: int


def place(
    source: Scores | Ranking,
    asked: Sequence[Asked],
    *,
    ties: str = "expected",
    unretrieved: str = "refuse",
    empty: bool = False,
    keep: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Placements], Ranking | None]:
    """Finds the rank of every positive, for several judgements in one pass.

    Args:
        source: Scores (read in blocks) or a ranking.
        asked: The judgements, each with its own pool.
        ties: "expected" keeps ties, so that measures take the expectation over random orders (McSherry
            & Najork 2008); "order" keeps candidate order; "pessimistic" puts relevant candidates last.
        unretrieved: A positive missing from a truncated ranking: "refuse" measures that depend on it, or count it as
            "never" found (the convention of trec_eval).
        empty: Whether a list without any candidate is all that the system returned, so that nothing follows.
        keep: Also keep the best `keep` candidates of every query.
        workers: Threads; all cores by default.
        progress: Called as blocks are done.

    Returns:
        One `Placements` per question, and the kept ranking (None when `keep` is 0).
    """
    for what, value, known in (("ties", ties, TIES), ("unretrieved", unretrieved, UNRETRIEVED)):
        if value not in known:
            raise UnknownName(f"value of {what}", value, known)
    positives = [_align(source, a) for a in asked]
    if isinstance(source, Ranking):
        placed = [_from_lists(source, a, p, unretrieved, empty) for a, p in zip(asked, positives, strict=True)]
        return placed, source.top(keep) if keep else None
    counts, kept = _count_pass(source, asked, positives, keep, workers, progress)
    return [_from_counts(source, a, p, c, ties) for a, p, c in zip(asked, positives, counts, strict=True)], kept


def _align(source: Scores | Ranking, asked: Asked) -> _Positives:
    judged = asked.judgements
    rows = source.queries.find(judged.queries)[judged.rows]
    columns = source.candidates.find(judged.candidates)[judged.columns]
    relevant = judged.grades > 0
    if (rows[relevant] < 0).any():
        lacking = np.unique(judged.rows[(rows < 0) & relevant])
        raise LimnerError(
            f"{len(lacking)} queries of the judgements {judged.name!r} are not ranked "
            f"({shown(judged.queries[lacking])}): rank them too, or restrict the judgements to the ranked queries "
            "(a split: collection.test; or judgements.restrict(queries=...)), or choose how they count with "
            "missing='empty' or 'skip' (--missing)"
        )
    inside = (columns >= 0) & (rows >= 0)
    open_pool = (
        isinstance(source, Ranking) and source.n_candidates is None
    )  # a candidate outside the list may still be in the pool
    outside = 0 if open_pool else int((~inside & relevant).sum())
    listed = inside | (rows < 0)
    if asked.query_pools is not None and asked.candidate_pools is not None:
        inside &= (asked.query_pools[rows] == asked.candidate_pools[columns]) & (asked.query_pools[rows] >= 0)
    if asked.outside == "count" or open_pool:
        kept = inside | ((asked.outside == "count") & relevant) | ~listed
        columns, inside = np.where(inside, columns, -1), kept
    return _Positives(rows[inside], columns[inside], judged.grades[inside], outside)


def _count_pass(
    source: Scores,
    asked: Sequence[Asked],
    positives: Sequence[_Positives],
    keep: int,
    workers: int | None,
    progress: Progress | None,
) -> tuple[list[IntArray], Ranking | None]:
    """One pass over the blocks: counts for every question (grouped by pool), and the best `keep`."""
    counters = _counters(source, asked, positives)
    parts = source.map(_Count(counters, Best(keep) if keep else None), workers=workers, progress=progress)
    found: dict[int, IntArray] = {}
    for number, counter in enumerate(counters):
        each = [counts[number] for counts, _ in parts]
        counted = np.concatenate([NO_COUNTS, *(c.counts if isinstance(c, _Open) else c for c in each)])
        counter.settle(source, counted, [c for c in each if isinstance(c, _Open)])
        found |= counter.answers(source, counted)
    kept = Best(keep).ranking(source, [best for _, best in parts if best]) if keep else None
    return [found[i] for i in range(len(asked))], kept


@dataclass(frozen=True, eq=False)
class _Count:
    """Counts of every counter for a block, and its top candidates if they are kept."""

    counters: list[_Counter]
    best: Best | None

    def __call__(self, start: int, block: Block) -> tuple[list[IntArray], Any]:
        return [counter.count(start, block) for counter in self.counters], self.best and self.best(start, block)

    def from_near(self, near: Near) -> tuple[list[_Open], Any] | None:
        """The same from low-precision products, but for pairs that only the grid can compare."""
        found = [counter.from_near(near) for counter in self.counters]
        kept = self.best and near.best(self.best)
        if self.best and kept is None:
            return None
        told = [each for each in found if each is not None]
        return (told, kept) if len(told) == len(found) else None

    def divided(self, score: PairScores) -> _CountPieces | None:
        """Counts of pieces of rows add up, once the scores of the positives are known; pools of folds are not cut."""
        if any(counter.pools is not None for counter in self.counters):
            return None
        known = [score(*np.divmod(counter.keys, counter.width)) for counter in self.counters]
        return _CountPieces(self.counters, known, self.best)


@dataclass(frozen=True, eq=False)
class _CountPieces:
    """Counts against scores of positives that are known beforehand."""

    counters: list[_Counter]
    scores: list[Block]
    best: Best | None

    def piece(self, start: int, low: int, block: Block) -> tuple[list[IntArray], Any]:
        """Counts among some columns."""
        counts = [c.count_piece(start, low, block, s) for c, s in zip(self.counters, self.scores, strict=True)]
        return counts, self.best and self.best.piece(start, low, block)

    def join(self, parts: Sequence[tuple[list[IntArray], Any]]) -> tuple[list[IntArray], Any]:
        """Counts among all columns."""
        counts = [np.sum(each, axis=0) for each in zip(*(counts for counts, _ in parts), strict=True)]
        return counts, self.best and self.best.join([best for _, best in parts])


@dataclass(frozen=True, eq=False)
class _Open:
    """Counts of a block so far, and pairs that are still to be compared: positives by number, and columns."""

    counts: IntArray
    whose: IntArray
    columns: IntArray


class _Counter:
    """Counts for all questions that share one pool: the union of their positives is counted once."""

    def __init__(self, source: Scores, asked: Asked, members: dict[int, _Positives]) -> None:
        n, self.width = source.shape
        self.members = members
        keys = [p.rows[p.columns >= 0] * self.width + p.columns[p.columns >= 0] for p in members.values()]
        self.keys = np.unique(np.concatenate(keys)) if keys else np.empty(0, dtype=np.int64)
        rows, self.columns = np.divmod(self.keys, self.width)
        self.indptr = np.searchsorted(rows, np.arange(n + 1)).astype(np.int64)
        self.pools = asked.query_pools
        if asked.query_pools is not None and asked.candidate_pools is not None:
            self._cut(asked.candidate_pools)

    def _cut(self, pools: IntArray) -> None:
        """Columns of each fold together, in candidate order, and each positive's place among them."""
        order = np.argsort(pools, kind="stable")
        self.pool_indptr = np.searchsorted(pools[order], np.arange(int(pools.max(initial=-1)) + 2)).astype(np.int64)
        self.pool_columns = order.astype(np.int64)
        place = np.empty(len(pools), dtype=np.int64)
        place[order] = np.arange(len(pools)) - self.pool_indptr[np.maximum(pools[order], 0)]
        self.places = place[self.columns]

    def part(self, start: int, stop: int) -> slice:
        """The positives of some rows."""
        return slice(int(self.indptr[start]), int(self.indptr[stop]))

    def count(self, start: int, block: Block) -> IntArray:
        """(positives of these rows, 3): above, equal, equal before."""
        stop = start + len(block)
        part = self.part(start, stop)
        indptr = self.indptr[start : stop + 1] - part.start
        counts = np.zeros((part.stop - part.start, 3), dtype=np.int64)
        if self.pools is None:
            kernels(block).count_all(block, indptr, self.columns[part], counts)
        else:
            pools = self.pools[start:stop]
            cut = pools, self.pool_indptr, self.pool_columns
            kernels(block).count_pool(block, indptr, self.places[part], counts, *cut)
        return counts

    def from_near(self, near: Near) -> _Open | None:
        """As `count`, from low-precision products; None where they leave too much open."""
        stop = near.start + len(near.bits)
        part = self.part(near.start, stop)
        indptr, pools = self.indptr[near.start : stop + 1] - part.start, NO_POOLS
        if self.pools is not None:
            pools = self.pools[near.start : stop], self.pool_indptr, self.pool_columns
        found = near.above(indptr, self.columns[part], pools)
        if found is None:
            return None
        counts = np.stack([found[0], np.ones_like(found[0]), np.zeros_like(found[0])], axis=1)
        return _Open(counts, found[1] + part.start, found[2])

    def settle(self, source: Any, counted: IntArray, parts: Sequence[_Open]) -> None:
        """Adds what only the grid can compare."""
        whose = np.concatenate([NONE, *(part.whose for part in parts)])
        if not len(whose):
            return
        columns, own = np.concatenate([NONE, *(part.columns for part in parts)]), self.columns[whose]
        rows = self.keys[whose] // self.width
        theirs, mine = np.split(source.pairs(np.tile(rows, 2), np.concatenate([columns, own])), 2)
        for place, found in enumerate((theirs > mine, theirs == mine, (theirs == mine) & (columns < own))):
            np.add.at(counted[:, place], whose[found], 1)

    def count_piece(self, start: int, low: int, block: Block, scores: Block) -> IntArray:
        """As `count`, among the columns of a piece that begins at `low`."""
        from limner.core.kernels import count_against

        part = self.part(start, start + len(block))
        indptr = self.indptr[start : start + len(block) + 1] - part.start
        counts = np.zeros((part.stop - part.start, 3), dtype=np.int64)
        count_against(block, indptr, scores[part], self.columns[part] - low, counts)
        return counts

    def answers(self, source: Scores, counted: IntArray) -> dict[int, IntArray]:
        """The counts of each question's own positives; `NEVER` for those outside the pool."""
        self._refuse_nan(source, counted[:, 1] == 0)
        answered = {}
        for number, p in self.members.items():
            counts = np.tile(np.array([NEVER, 1, 0]), (len(p.rows), 1))
            inside = p.columns >= 0
            counts[inside] = counted[np.searchsorted(self.keys, p.rows[inside] * self.width + p.columns[inside])]
            answered[number] = counts
        return answered

    def _refuse_nan(self, source: Scores, unequal: npt.NDArray[np.bool_]) -> None:
        """A positive that does not equal itself is NaN and has no rank."""
        if unequal.any():
            row, column = (int(at) for at in np.divmod(self.keys[np.argmax(unequal)], self.width))
            raise LimnerError(
                f"the score of query {source.queries[row]!r} and candidate {source.candidates[column]!r} is NaN "
                f"({int(unequal.sum())} such positives): its rank is undefined; fix the scores"
            )


def _counters(source: Scores, asked: Sequence[Asked], positives: Sequence[_Positives]) -> list[_Counter]:
    shared: dict[tuple[int, int], dict[int, _Positives]] = {}
    for number, (a, p) in enumerate(zip(asked, positives, strict=True)):
        shared.setdefault((id(a.query_pools), id(a.candidate_pools)), {})[number] = p
    return [_Counter(source, asked[next(iter(members))], members) for members in shared.values()]


def _from_counts(source: Scores, asked: Asked, p: _Positives, counts: IntArray, ties: str) -> Placements:
    above, equal, before = counts.T
    pool = _pool_sizes(asked, len(source.queries), source.shape[1])
    if ties == "order":
        above, equal = above + before, np.ones_like(equal)
    placed = _placements(source, p, above, equal, pool, np.full(len(source.queries), NEVER))
    return _relevant_last(placed) if ties == "pessimistic" else placed


def _relevant_last(placed: Placements) -> Placements:
    """Every tie in its worst order: irrelevant candidates first, then by rising grade."""
    before, size = placed.group
    below_others = placed.tied - size + (placed.order - before)
    return replace(placed, above=np.minimum(placed.above + below_others, NEVER), tied=np.ones_like(placed.tied))


def _from_lists(source: Ranking, asked: Asked, p: _Positives, unretrieved: str, empty: bool) -> Placements:
    from limner.core.kernels import filter_lists, locate

    order = np.argsort(p.rows, kind="stable")
    indptr = np.searchsorted(p.rows[order], np.arange(len(source.queries) + 1)).astype(np.int64)
    found = np.empty(len(order), dtype=np.int64)
    locate(source.indices, indptr, np.where(p.columns < 0, -2, p.columns)[order], found)
    lengths = source.lengths
    if asked.query_pools is not None and asked.candidate_pools is not None:
        lengths = np.zeros_like(lengths)
        filter_lists(source.indices, indptr, asked.query_pools, asked.candidate_pools, found, lengths)
    above = np.empty_like(found)
    above[order] = np.where(found < 0, NEVER, found)
    if source.n_candidates is not None:
        above[p.columns < 0] = OUTSIDE_POOL
    whole = NEVER if source.n_candidates is None else source.n_candidates
    pool = _pool_sizes(asked, len(source.queries), whole)
    complete = (lengths >= pool) | (unretrieved == "never") | (empty & (source.lengths == 0))
    return _placements(source, p, above, np.ones_like(above), pool, np.where(complete, NEVER, lengths))


def _pool_sizes(asked: Asked, n: int, whole: int) -> IntArray:
    if asked.query_pools is None or asked.candidate_pools is None:
        return np.full(n, whole, dtype=np.int64)
    sizes = np.bincount(
        asked.candidate_pools[asked.candidate_pools >= 0], minlength=int(asked.query_pools.max(initial=0)) + 1
    )
    return np.where(asked.query_pools >= 0, sizes[np.maximum(asked.query_pools, 0)], 0)


def _placements(
    source: Any, p: _Positives, above: IntArray, tied: IntArray, pool: IntArray, known: IntArray
) -> Placements:
    order = np.lexsort((p.grades, above, p.rows))  # of equal places the lower grade first: the worst order of a tie
    indptr = np.searchsorted(p.rows[order], np.arange(len(source.queries) + 1)).astype(np.int64)
    every = Placements(source.queries, indptr, above[order], tied[order], p.grades[order], pool, known, 0, p.outside)
    return every.split().with_positives()
