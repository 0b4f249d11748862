"""Placements: the rank of every relevant candidate. All measures are computed from these.

The rank of a positive is counted from blocks of scores (how many candidates are above it, and how many are equal);
no row is ever sorted, and the score matrix is never in memory. Several judgements and pools are counted in one pass.
With a depth, ranks beyond it are not counted, but for the best relevant candidate of a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.progress import SILENT, Progress
from limner.core.ranking import Ranking
from limner.evaluation.rank_counting import NEVER, Positives, RankRequest, count_ranks
from limner.scores import Scores

__all__ = [
    "NEVER", "OUTSIDE", "OUTSIDE_POOL", "TIES", "UNRETRIEVED", "Placements", "RankOptions", "RankRequest", "place",
]  # fmt: skip

OUTSIDE_POOL = NEVER + 1
"""The rank of a positive that is not in the pool, so that no list can contain it."""

TIES = ("expected", "order", "pessimistic")
UNRETRIEVED = ("refuse", "never")
MISSING = ("refuse", "empty", "skip")
OUTSIDE = ("drop", "count")


@dataclass(frozen=True, eq=False)
class Placements:
    """Relevant candidates of each query, sorted by rank.

    Args:
        queries: The queries with a relevant candidate; all others are left out of every mean.
        indptr: Positives of query q are `indptr[q]:indptr[q + 1]`, best placed first.
        above: Number of candidates strictly above each positive; `NEVER` if it is not found, `OUTSIDE_POOL` if it is
            not in the pool.
        tied: Number of candidates tied with it, itself included; 1 if ties are resolved.
        grades: The grade of each positive.
        pool: Number of candidates that each query was ranked against (`NEVER` if unknown).
        known: Length of each query's list; `NEVER` if it is not truncated.
        left_out: Number of queries without a relevant candidate in the pool.
        outside: Number of relevant candidates that are not in the pool.
        judged: Placements of all judged candidates, relevant or not (grade 0), of all queries of the judgements, also
            of those without a relevant one; None if only relevant candidates are known.
        length: Number of candidates in each query's list; None if the whole pool is ranked.
        worst: Whether ties count in the worst order; those of `judged` are not resolved, since the order depends on
            what counts as relevant.
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
    length: IntArray | None = None
    worst: bool = False

    def __post_init__(self) -> None:
        """Refuses a rank without candidates: the score was NaN."""
        if (self.tied < 1).any():
            first = self.queries[int(self.query[np.argmin(self.tied)])]
            raise LimnerError(f"a rank of query {first!r} has no candidates: the score of the positive was NaN")

    @cached_property
    def query(self) -> IntArray:
        """The query number of each positive."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.indptr))

    @cached_property
    def relevant(self) -> IntArray:
        """R: the number of relevant candidates of each query."""
        return np.diff(self.indptr)

    @cached_property
    def order(self) -> IntArray:
        """The position of each positive among those of its query: 0 for the best placed, 1 for the next, ..."""
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
    def untied(self) -> bool:
        """Whether no candidate is tied with another."""
        return bool((self.tied == 1).all())

    @cached_property
    def unlocated(self) -> npt.NDArray[np.bool_]:
        """For each query: whether a positive may be anywhere below the end of a truncated list."""
        lost = np.bincount(self.query[self.above == NEVER], minlength=len(self.queries)) > 0
        return np.asarray(lost & (self.known < NEVER))

    @cached_property
    def partly_judged(self) -> bool:
        """Whether the judged candidates are known, and do not include all candidates."""
        return self.judged is not None and bool((self.judged.relevant < self.judged.pool).any())

    @cached_property
    def judged_alone(self) -> Placements:
        """The judged candidates of these queries, relevant or not; ties as for relevant candidates."""
        if self.judged is None:
            return self
        judged = self.judged.of(self.judged.queries.positions(self.queries))
        return replace(relevant_last(judged) if self.worst else judged, left_out=self.left_out)

    def continued(self, *, best: bool) -> Placements:
        """The best or worst continuation of truncated lists.

        At best the missing positives come next, highest grade first; at worst they come last in the pool, highest grade
        last, or never if the pool is unknown.
        """
        missing = np.flatnonzero((self.above == NEVER) & (self.known[self.query] < NEVER))
        grades, query = self.grades[missing], self.query[missing]
        missing = missing[np.lexsort((-grades if best else grades, query))]
        n_missing = np.bincount(query, minlength=len(self.queries))
        number = np.arange(len(missing)) - (np.cumsum(n_missing) - n_missing)[query]
        start = self.known if best else np.where(self.pool >= NEVER, NEVER, self.pool - n_missing)
        n_above = self.above.copy()
        n_above[missing] = start[query] + number
        order = np.lexsort((n_above, self.query))
        complete = np.full_like(self.known, NEVER)
        judged = self.judged and self.judged.continued(best=best)
        tied, grades = self.tied[order], self.grades[order]
        return replace(self, above=n_above[order], tied=tied, grades=grades, known=complete, judged=judged)

    def with_min_grade(self, grade: float) -> Placements:
        """Only positives of this grade or above; queries are kept even if they have none left."""
        is_relevant = self.grades >= grade
        counts = np.bincount(self.query[is_relevant], minlength=len(self.queries))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return replace(
            self,
            indptr=indptr,
            above=self.above[is_relevant],
            tied=self.tied[is_relevant],
            grades=self.grades[is_relevant],
        )

    def with_positives(self) -> Placements:
        """Removes queries without positives; these count as left out."""
        return self.of(np.flatnonzero(self.relevant > 0))

    def of(self, rows: IntArray) -> Placements:
        """Keeps these queries, by position in ascending order; the others count as left out."""
        if len(rows) == len(self.queries):
            return self
        chosen = np.zeros(len(self.queries), dtype=bool)
        chosen[rows] = True
        entries = chosen[self.query]
        return replace(
            self,
            queries=self.queries[rows],
            indptr=np.concatenate([[0], np.cumsum(self.relevant[rows])]),
            above=self.above[entries],
            tied=self.tied[entries],
            grades=self.grades[entries],
            pool=self.pool[rows],
            known=self.known[rows],
            left_out=self.left_out + len(self.queries) - len(rows),
            length=None if self.length is None else self.length[rows],
        )

    def split(self, judged: IntArray) -> Placements:
        """Splits placements into the relevant candidates and everything that was judged, of these queries."""
        if (self.grades > 0).all():
            return self
        return replace(self.with_min_grade(float(np.nextafter(0.0, 1.0))), judged=self.of(judged))


@dataclass(frozen=True)
class RankOptions:
    """How a pass over the scores ranks.

    Args:
        ties: "expected" keeps ties, so that measures take the expectation over random orders (McSherry
            & Najork 2008); "order" keeps candidate order; "pessimistic" puts relevant candidates last.
        unretrieved: How a positive missing from a truncated ranking counts: "refuse" measures that depend on it, or
            "never" found (the convention of trec_eval).
        missing: How judged queries missing from a ranking count: "refuse" them, as an "empty" list, or "skip" them.
        keep: Number of top candidates per query to return as well.
        workers: Threads; all cores by default.
        progress: Called as blocks are finished.
    """

    ties: str = "expected"
    unretrieved: str = "refuse"
    missing: str = "refuse"
    keep: int = 0
    workers: int | None = None
    progress: Progress = SILENT

    def __post_init__(self) -> None:
        """Refuses unknown values."""
        for name, values in (("ties", TIES), ("unretrieved", UNRETRIEVED), ("missing", MISSING)):
            if getattr(self, name) not in values:
                raise UnknownName("value", getattr(self, name), values, of=name)


DEFAULT_OPTIONS = RankOptions()


def place(
    source: Scores | Ranking, requests: Sequence[RankRequest], options: RankOptions = DEFAULT_OPTIONS
) -> tuple[list[Placements], Ranking | None]:
    """Finds the rank of every positive, for several judgements in one pass.

    Args:
        source: Scores (read in blocks) or a ranking.
        requests: The judgements, each with its own pool.
        options: How ties and missing candidates count, and what else the pass returns.

    Returns:
        One `Placements` per request, and the ranking of the top candidates (None if `keep` is 0).
    """
    positives = [_align(source, request) for request in requests]
    if isinstance(source, Ranking):
        placed = [_from_lists(source, r, p, options) for r, p in zip(requests, positives, strict=True)]
        return placed, source.top(options.keep) if options.keep else None
    counts, best = count_ranks(source, requests, positives, options.keep, options.workers, options.progress)
    return [
        _from_counts(source, r, p, c, options.ties) for r, p, c in zip(requests, positives, counts, strict=True)
    ], best


def _align(source: Scores | Ranking, request: RankRequest) -> Positives:
    judged = request.judgements
    rows = source.queries.find(judged.queries)[judged.rows]
    columns = source.candidates.find(judged.candidates)[judged.columns]
    relevant = judged.grades > 0
    if (rows[relevant] < 0).any():
        unranked = np.unique(judged.rows[(rows < 0) & relevant])
        raise LimnerError(
            f"{len(unranked)} queries of the judgements {judged.name!r} are not ranked "
            f"({shown(judged.queries[unranked])}): {_one_caption(source.queries)}rank them too, or restrict the "
            "judgements to the ranked queries "
            "(a split: collection.test; or judgements.restrict(queries=...)), or choose how they count with "
            "missing='empty' or 'skip' (--missing)"
        )
    inside = (columns >= 0) & (rows >= 0)
    open_pool = (
        isinstance(source, Ranking) and source.n_candidates is None
    )  # a candidate outside the list may still be in the pool
    outside = 0 if open_pool else int((~inside & relevant).sum())
    listed = inside | (rows < 0)
    if request.query_pools is not None and request.candidate_pools is not None:
        inside &= (request.query_pools[rows] == request.candidate_pools[columns]) & (request.query_pools[rows] >= 0)
    if request.outside == "count" or open_pool:
        is_counted = inside | ((request.outside == "count") & relevant) | ~listed
        columns, inside = np.where(inside, columns, -1), is_counted
    depths = np.broadcast_to(NEVER if request.depth is None else request.depth, len(judged.queries))[
        judged.rows[inside]
    ]
    return Positives(rows[inside], columns[inside], judged.grades[inside], outside, depths)


def _one_caption(queries: Ids) -> str:
    """Advice if all queries are captions with the same number, as in "dog.jpg#2"."""
    numbers = {query.rpartition("#")[2] for query in queries if "#" in query}
    if len(numbers) != 1 or not all("#" in query for query in queries) or not next(iter(numbers)).isdigit():
        return ""
    (number,) = numbers
    option = f"captions=[{number}]"
    return f"these are captions number {number}: load these alone with {option} (-O {option}); or "


def _from_counts(source: Scores, request: RankRequest, p: Positives, counts: IntArray, ties: str) -> Placements:
    n_above, equal, before = p.cut_counts(counts).T
    pool = _pool_sizes(request, len(source.queries), source.shape[1])
    if ties == "order":
        n_above, equal = n_above + before, np.ones_like(equal)
    placed = _placements(source, request, p, n_above, equal, pool, np.full(len(source.queries), NEVER))
    return replace(relevant_last(placed), worst=True) if ties == "pessimistic" else placed


def relevant_last(placed: Placements) -> Placements:
    """Resolves every tie in the worst order: irrelevant candidates first, then by ascending grade."""
    before, size = placed.group
    below_irrelevant = placed.tied - size + (placed.order - before)
    return replace(placed, above=np.minimum(placed.above + below_irrelevant, NEVER), tied=np.ones_like(placed.tied))


def _from_lists(source: Ranking, request: RankRequest, p: Positives, options: RankOptions) -> Placements:
    from limner.scores.block_kernels import filter_lists, locate

    order = np.argsort(p.rows, kind="stable")
    indptr = np.searchsorted(p.rows[order], np.arange(len(source.queries) + 1)).astype(np.int64)
    list_ranks = np.empty(len(order), dtype=np.int64)
    locate(source.indices, indptr, np.where(p.columns < 0, -2, p.columns)[order], list_ranks)
    before, tied = _tied(source, request, indptr, list_ranks, options.ties)
    lengths = source.lengths
    if request.query_pools is not None and request.candidate_pools is not None:
        lengths = np.zeros_like(lengths)
        filter_lists(source.indices, indptr, request.query_pools, request.candidate_pools, list_ranks, lengths)
    n_above, equal = np.empty_like(list_ranks), np.empty_like(list_ranks)
    n_above[order], equal[order] = np.where(list_ranks < 0, NEVER, list_ranks - before), tied
    if source.n_candidates is not None:
        n_above[p.columns < 0] = OUTSIDE_POOL
    pool_size = NEVER if source.n_candidates is None else source.n_candidates
    pool = _pool_sizes(request, len(source.queries), pool_size)
    complete = (lengths >= pool) | (options.unretrieved == "never")
    complete |= (options.missing == "empty") & (source.lengths == 0)
    placed = _placements(source, request, p, n_above, equal, pool, np.where(complete, NEVER, lengths), lengths)
    return replace(relevant_last(placed), worst=True) if options.ties == "pessimistic" else placed


def _tied(
    source: Ranking, request: RankRequest, indptr: IntArray, places: IntArray, ties: str
) -> tuple[IntArray, IntArray]:
    """For each positive, how many candidates with its score are listed before it, and how many there are."""
    before, tied = np.zeros_like(places), np.ones_like(places)
    scores = source.scores
    if ties == "order" or scores is None or not (scores[:, 1:] == scores[:, :-1])[source.indices[:, 1:] >= 0].any():
        return before, tied
    from limner.scores.block_kernels import count_tied

    everything = np.zeros(0, dtype=np.int64)
    restricted = request.query_pools is not None and request.candidate_pools is not None
    pools = (request.query_pools, request.candidate_pools) if restricted else (everything, everything)
    count_tied(source.indices, scores, indptr, places, *pools, before, tied)
    return before, tied


def _pool_sizes(request: RankRequest, n: int, pool_size: int) -> IntArray:
    if request.query_pools is None or request.candidate_pools is None:
        return np.full(n, pool_size, dtype=np.int64)
    sizes = np.bincount(
        request.candidate_pools[request.candidate_pools >= 0], minlength=int(request.query_pools.max(initial=0)) + 1
    )
    return np.where(request.query_pools >= 0, sizes[np.maximum(request.query_pools, 0)], 0)


def _placements(
    source: Scores | Ranking,
    request: RankRequest,
    p: Positives,
    n_above: IntArray,
    tied: IntArray,
    pool: IntArray,
    list_lengths: IntArray,
    length: IntArray | None = None,
) -> Placements:
    order: IntArray | slice = slice(None)  # nothing to sort if every query has one positive
    if (np.diff(p.rows) <= 0).any():
        order = _by_rank(p.rows, n_above, p.grades)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(p.rows, minlength=len(source.queries)))])
    every = Placements(
        source.queries,
        indptr,
        n_above[order],
        tied[order],
        p.grades[order],
        pool,
        list_lengths,
        0,
        p.outside,
        length=length,
    )
    judged = source.queries.find(request.judgements.queries)
    return every.split(np.sort(judged[judged >= 0])).with_positives()


def _by_rank(rows: IntArray, n_above: IntArray, grades: FloatArray) -> IntArray:
    """The order by query, rank and grade: of equal ranks the lower grade comes first, which is the worst order.

    One number that holds all three, and the position, is sorted several times faster than three lists; it is used if it
    fits into 62 bits.
    """
    ranks = int(n_above[n_above < NEVER].max(initial=0)) + 1
    levels = np.unique(grades) if (grades != grades[:1]).any() else grades[:1]
    width, bits = (ranks + 2) * len(levels), len(rows).bit_length()
    if int(n_above.max(initial=0)) > OUTSIDE_POOL or (int(rows.max(initial=0)) + 1) * width >= 1 << (62 - bits):
        return np.lexsort((grades, n_above, rows))
    place = np.where(n_above < NEVER, n_above, n_above - NEVER + ranks)
    keys = (rows * (ranks + 2) + place) * len(levels) + np.searchsorted(levels, grades)
    return np.asarray(np.sort((keys << bits) | np.arange(len(rows))) & ((1 << bits) - 1))
