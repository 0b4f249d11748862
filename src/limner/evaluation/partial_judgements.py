"""Partial judgements: extra judgements for a collection, the pool they cover, and the range of every measure.

An unjudged answer is not a wrong answer. Judgements with grade 0 ("judged and not relevant") show which pairs were
judged. If not all pairs were, measures can only be bounded, see `possible`: by the lowest and the highest value over
all ways to judge the pairs that nobody judged.

A query whose judged candidates are all irrelevant counts in no mean, but it would if an unjudged candidate of its were
relevant. So the range is over the values of the queries and over the queries that count.

The values of a query are those of few completions. With the same number of relevant candidates, a measure is lowest if
the unjudged ones among them come last in the list, and highest if they come first. Measures that do not depend on the
number of relevant candidates are lowest if as few as possible are relevant, and highest if all are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.datasets.trec import read_qrels
from limner.evaluation.measures import Measure, bounds
from limner.evaluation.measures.measure import computed
from limner.evaluation.placements import NEVER, Placements, relevant_last
from limner.evaluation.protocols import View

JudgementFiles = Judgements | Mapping[str, Judgements] | str | Path

USUAL_CUT = 10
"""The cut-off for the share of judged answers if no measure has one."""


# --- extra judgements for a collection -----------------------------------------------------------------------------


def with_judgements(collection: Collection, further: JudgementFiles) -> tuple[Collection, list[View], list[str]]:
    """Adds judgements to a collection; returns the collection, the new views, and notes.

    Original pairs that were not judged still count as relevant.

    Args:
        collection: The collection.
        further: Judgements (image -> text, or text -> image), several judgements by name, or a qrels file.
    """
    extra, notes = dict(collection.extra), []
    views = []
    for name, judgements in _named(further).items():
        key = name if name not in collection.all_judgements else f"{name} (given)"
        extra[key], lost = _inside(collection, judgements)
        views.append(View(key, key, originals="unjudged"))
        if lost:
            notes.append(f"{key}: {lost:,} judged pairs are not in {collection.name!r} and are left out")
    return replace(collection, extra=extra), views, notes


def read_judgements(files: Iterable[str | Path]) -> dict[str, Judgements]:
    """The judgements of several qrels files, by file name."""
    return {name: judgements for file in files for name, judgements in _named(file).items()}


def _named(judgements: JudgementFiles) -> dict[str, Judgements]:
    if isinstance(judgements, Mapping):
        return dict(judgements)
    if isinstance(judgements, Judgements):
        return {"judged" if judgements.name == "pairs" else judgements.name: judgements}
    name = Path(judgements).name.split(".")[0]
    return {name: read_qrels(judgements, name=name)}


def _inside(collection: Collection, judgements: Judgements) -> tuple[Judgements, int]:
    """The judgements between images and texts of a collection, as image -> text, and the number of others."""
    sides = collection.images.ids, collection.texts.ids
    orientations = [j.restrict(queries=sides[0], candidates=sides[1]) for j in (judgements, judgements.T)]
    straight, turned = (len(j.grades) for j in orientations)
    if bool(straight) == bool(turned):
        why = "match images and texts in both directions" if straight else "cover none of its images and texts"
        raise LimnerError(
            f"the judgements {judgements.name!r} (queries {shown(judgements.queries, most=2)}, candidates "
            f"{shown(judgements.candidates, most=2)}) {why}: expected ids of {collection.name!r} (images "
            f"{shown(sides[0], most=2)}, texts {shown(sides[1], most=2)})"
        )
    chosen = orientations[0] if straight else orientations[1]
    return chosen, len(judgements.grades) - len(chosen.grades)


# --- judgements and candidate pool of a view -------------------------------------------------------------


def combined_judgements(view: View, collection: Collection, direction: str) -> Judgements:
    """The judgements of a view, with the original pairs if the view includes them."""
    judged = collection.judged(view.judgements, direction)
    if view.threshold is not None and view.judgements in collection.ratings:
        rated = collection.ratings[view.judgements].at_least(view.threshold)
        judged = rated if direction == "i2t" else rated.T
    if view.originals == "none":
        return judged
    pairs = collection.judged(collection.judgements.name, direction).relevant
    if view.originals == "unjudged":
        pairs = _unjudged_pairs(pairs, judged)
    return (judged | pairs).with_name(judged.name)


def _unjudged_pairs(pairs: Judgements, judged: Judgements) -> Judgements:
    """The pairs that are not in the judgements."""
    same_pairs = judged.restrict(queries=pairs.queries, candidates=pairs.candidates)
    width = max(len(pairs.candidates), 1)
    fresh = ~np.isin(pairs.rows * width + pairs.columns, same_pairs.rows * width + same_pairs.columns)
    return replace(pairs, rows=pairs.rows[fresh], columns=pairs.columns[fresh], grades=pairs.grades[fresh])


def judged_pool(view: View, collection: Collection, direction: str) -> tuple[set[str], set[str]] | None:
    """Queries and candidates of the judged pool; None if the view uses the whole pool."""
    if view.pool is None:
        return None
    judged = collection.judged(view.pool, direction)
    return set(judged.queries[np.unique(judged.rows)]), set(judged.candidates[np.unique(judged.columns)])


def pool_notes(view: View, collection: Collection, direction: str, candidates: Ids) -> list[str]:
    """Notes on views with a restricted pool, and on which original pairs count."""
    pool = judged_pool(view, collection, direction)
    notes = []
    if pool is not None and len(pool[1]) < len(candidates):
        notes.append(
            f"{view.name} ({direction}): measured among the {len(pool[1]):,} of {len(candidates):,} candidates that "
            "were judged; not comparable with views of the whole pool"
        )
    return notes


def judged_measures(placements: Placements, measures: Sequence[Measure]) -> list[Measure]:
    """Judged@k for every cut-off k of the measures, or for 10 if there is none.

    Cut-offs beyond the end of a list are left out.
    """
    has_judged = any(m.kind.judged for m in measures)
    cuts = sorted({m.k for m in measures if m.k is not None and not m.kind.judged}) or (
        [] if has_judged else [USUAL_CUT]
    )
    return [measure for measure in (Measure("Judged", k) for k in cuts) if _is_certain(placements, measure)]


def _is_certain(placements: Placements, measure: Measure) -> bool:
    low, high = bounds(placements, measure)
    return low is high or bool(np.array_equal(low, high))


MOST_CELLS = 10_000_000
"""Maximum number of ranks to write out for one measure."""
_CHUNK = 2_000_000

Range = tuple[float, float]


def possible(
    placements: Placements, measure: Measure, values: FloatArray, folding: Callable[[Ids], IntArray] | None = None
) -> Range | None:
    """The lowest and the highest value over all ways to judge the unjudged pairs; None if it cannot be computed.

    Unjudged candidates get grades between the lowest and the highest positive grade of the judgements. Queries of the
    judgements without a relevant candidate count if one of their unjudged candidates is relevant.

    Args:
        placements: Ranks of relevant and judged candidates.
        measure: The measure.
        values: Its value for each query of `measure.counted(placements)`.
        folding: The fold of queries, if the value is a mean over folds.
    """
    if placements.judged is None or not placements.partly_judged or measure.kind.judged:
        return None
    open_ = _Open(placements.judged, measure, placements.worst)
    certain = np.zeros(len(open_.judged.queries), dtype=bool)
    certain[open_.judged.queries.positions(measure.counted(placements).queries)] = True
    counts = certain | (open_.free > 0)
    if not counts.any() or not open_.computable(int(counts.sum())):
        return None
    low, high = np.full(len(certain), np.nan), np.full(len(certain), np.nan)
    if open_.grows:
        low[certain], high[counts] = values, open_.all_right(np.flatnonzero(counts))
        joining = np.flatnonzero(counts & ~certain)
        low[joining] = open_.last_right(joining)
        low, high = np.minimum(low, high), np.maximum(low, high)
    else:
        for query in np.flatnonzero(counts):
            low[query], high[query] = open_.extremes(int(query), min_relevant=0 if certain[query] else 1)
    folds = folding(open_.judged.queries)[counts] if folding else np.zeros(int(counts.sum()), dtype=np.int64)
    ends = [_over_folds(measure, ends[counts], certain[counts], folds, sign) for ends, sign in ((low, 1), (high, -1))]
    return ends[0], ends[1]


# --- over queries -------------------------------------------------------------------------------------------------


def _over_folds(
    measure: Measure, values: FloatArray, certain: npt.NDArray[np.bool_], folds: IntArray, sign: int
) -> float:
    """The lowest (sign 1) or highest (sign -1) mean over folds; a fold counts if a query in it does."""
    each = [
        (
            _extreme(measure.summarise, values[in_fold & certain], values[in_fold & ~certain], sign),
            bool(certain[in_fold].any()),
        )
        for in_fold in (folds == fold for fold in np.unique(folds))
    ]
    certain_values, possible_values = (
        np.array([value for value, counts in each if counts is want]) for want in (True, False)
    )
    return _extreme(lambda some: float(np.mean(some)), certain_values, possible_values, sign)


def _extreme(summarise: Callable[[FloatArray], float], certain: FloatArray, uncertain: FloatArray, sign: int) -> float:
    """The lowest or highest mean (or median) of values, over all choices of which others are added.

    The others are added from the lowest (or highest) on, while they are beyond the mean so far.
    """
    ordered = sign * np.sort(sign * uncertain)
    first, last = (0 if len(certain) else 1), len(ordered)
    while first < last:
        middle = (first + last) // 2
        if sign * ordered[middle] < sign * summarise(np.concatenate([certain, ordered[:middle]])):
            first = middle + 1
        else:
            last = middle
    return summarise(np.concatenate([certain, ordered[:first]]))


# --- of one query -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Open:
    """What the unjudged candidates leave open.

    Args:
        judged: Placements of all judged candidates, with their ties.
        measure: The measure.
        worst: Whether ties count in the worst order.
    """

    judged: Placements
    measure: Measure
    worst: bool

    @cached_property
    def lowest_grade(self) -> float:
        """The lowest grade that counts as relevant."""
        lowest = self.measure.option("min_grade") if "min_grade" in self.measure.kind.options else 0.0
        return max(float(lowest), float(np.nextafter(0.0, 1.0)))

    @cached_property
    def levels(self) -> FloatArray:
        """The relevant grades of the judgements; 1 or the lowest that counts if there is none."""
        levels = np.unique(self.judged.grades[self.judged.grades >= self.lowest_grade])
        return levels if len(levels) else np.array([self.lowest_grade if self.lowest_grade > 1e-300 else 1.0])

    @cached_property
    def grows(self) -> bool:
        """Whether the measure improves with every further relevant candidate."""
        return not self.measure.kind.needs_total or self.measure.kind.decided_by == "first"

    @cached_property
    def mixed(self) -> bool:
        """Whether several grades count differently."""
        options = self.measure.kind.options
        graded = bool(self.measure.option("graded")) if "graded" in options else "min_grade" not in options
        return graded and len(self.levels) > 1

    @cached_property
    def lengths(self) -> IntArray:
        """The number of candidates in each query's list."""
        return self.judged.pool if self.judged.length is None else self.judged.length

    @cached_property
    def inside(self) -> IntArray:
        """The number of judged candidates of each query that are in its pool."""
        return np.bincount(self.judged.query[self.judged.above <= NEVER], minlength=len(self.judged.queries))

    @cached_property
    def absent(self) -> IntArray:
        """The number of unjudged candidates of each query that are not in its list."""
        listed = np.bincount(self.judged.query[self.judged.above < NEVER], minlength=len(self.judged.queries))
        if self.judged.length is None:
            return np.zeros(len(listed), dtype=np.int64)
        return np.maximum(self.judged.pool - self.lengths - (self.inside - listed), 0)

    @cached_property
    def free(self) -> IntArray:
        """The number of unjudged candidates of each query."""
        return self.judged.pool - self.inside

    @cached_property
    def place(self) -> IntArray:
        """The rank of each judged candidate, distinct for those of a tie."""
        return _places(self.judged)

    @cached_property
    def depth(self) -> int:
        """The number of ranks that matter if all unjudged candidates are relevant."""
        kind, judged = self.measure.kind, self.judged
        longest = int(self.lengths.max(initial=1))
        if not (kind.rank or kind.decided_by == "first" or (kind.sees == "k" and self.measure.k)):
            return longest
        limit = max(self.measure.k or 0, int(judged.relevant.max(initial=0)) + 1)
        in_limit = judged.above < limit
        return min(longest, max(limit, int((judged.above + judged.tied)[in_limit].max(initial=0))))

    def computable(self, queries: int) -> bool:
        """Whether the number of ranks to write out is small enough."""
        if self.grows:
            return queries * self.depth <= MOST_CELLS
        pool = int(self.judged.pool.max(initial=0))
        return queries * pool**2 <= MOST_CELLS and not (self.mixed and self.measure.kind.bounds is None)

    def all_right(self, queries: IntArray) -> FloatArray:
        """The values of these queries if all unjudged candidates are relevant, with the highest grade."""
        step = max(1, _CHUNK // max(self.depth, 1))
        parts = [self._values(self._filled(queries[at : at + step])) for at in range(0, len(queries), step)]
        return np.concatenate(parts)

    def _filled(self, queries: IntArray) -> Placements:
        """Placements in which every candidate is relevant unless it was judged irrelevant."""
        judged, depth, rank = self.judged.of(queries), self.depth, np.arange(self.depth)
        unseen = np.where(judged.known < NEVER, self.absent[queries] + judged.relevant, 0)
        n_above, tied = np.tile(rank, (len(queries), 1)), np.ones((len(queries), depth), dtype=np.int64)
        grades = np.where(rank < (self.lengths[queries] + unseen)[:, None], self.levels[-1], 0.0)
        place = _places(judged)
        at = np.flatnonzero(place < depth)
        grades[judged.query[at], place[at]] = np.where(judged.grades >= self.lowest_grade, judged.grades, 0.0)[at]
        for entry in np.flatnonzero((judged.tied > 1) & (judged.above < depth)):
            row, first = int(judged.query[entry]), int(judged.above[entry])
            block = slice(first, min(first + int(judged.tied[entry]), depth))
            n_above[row, block], tied[row, block] = first, judged.tied[entry]
        lost = ~(grades > 0).any(axis=1)
        n_above[lost, -1], tied[lost, -1], grades[lost, -1] = NEVER, 1, self.levels[-1]
        right = grades > 0
        indptr = np.concatenate([[0], np.cumsum(right.sum(axis=1))])
        complete = np.full(len(queries), NEVER)
        return Placements(judged.queries, indptr, n_above[right], tied[right], grades[right], judged.pool, complete)

    def last_right(self, queries: IntArray) -> FloatArray:
        """The values if only the last unjudged candidate is relevant, with the lowest grade; no judged one is."""
        if not len(queries):
            return np.empty(0)
        n_above, tied = np.stack([self._unjudged(int(query), limit=1)[:, -1] for query in queries], axis=1)
        one = self._placements(queries, np.ones(len(queries), dtype=np.int64), n_above, tied)
        grades = np.full(len(queries), self.levels[0])
        return self._values(replace(one, grades=grades).continued(best=False))

    def extremes(self, query: int, *, min_relevant: int) -> Range:
        """The lowest and the highest value of a query, if at least so many unjudged candidates are relevant."""
        entries = self._entries(query)
        right = np.flatnonzero(self.judged.grades[entries] >= self.lowest_grade)
        certain = np.stack([self.judged.above[entries], self.judged.tied[entries]])[:, right]
        uncertain = self._unjudged(query, limit=NEVER)
        n_unjudged = uncertain.shape[1]
        n_above, tied = np.concatenate([certain, uncertain], axis=1)
        grades = np.concatenate([self.judged.grades[entries][right], np.full(n_unjudged, self.levels[-1])])
        number = np.concatenate(
            [np.full(len(right), -1), np.arange(n_unjudged)]
        )  # -1 for those that are relevant in any case
        order = np.lexsort((grades, n_above))
        values = []
        for best in (True, False):
            max_relevant = np.arange(min_relevant, n_unjudged + 1)[:, None]
            chosen = number < max_relevant if best else (number >= n_unjudged - max_relevant) | (number < 0)
            _, at = np.nonzero(chosen[:, order])
            queries = np.full(len(chosen), query)
            placements = self._placements(queries, chosen.sum(axis=1), n_above[order][at], tied[order][at])
            values.append(self._values(replace(placements, grades=grades[order][at]).continued(best=best)))
        values_of = np.concatenate(values)
        bounds = self.measure.kind.bounds
        return values_of.min(), bounds[1] if self.mixed and bounds else values_of.max()

    def _entries(self, query: int) -> slice:
        return slice(self.judged.indptr[query], self.judged.indptr[query + 1])

    def _unjudged(self, query: int, limit: int) -> IntArray:
        """Rank and size of the tie of a query's unjudged candidates, in order; at most so many outside its list."""
        entries, length = self._entries(query), int(self.lengths[query])
        starts, sizes, place = self.judged.above[entries], self.judged.tied[entries], self.place[entries]
        n_above, tied = np.arange(length), np.ones(length, dtype=np.int64)
        for first, size in set(zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True)):
            n_above[first : first + size], tied[first : first + size] = first, size
        listed = np.delete(np.stack([n_above, tied]), place[place < length], axis=1)
        absent = np.repeat([[NEVER], [1]], min(int(self.absent[query]), limit), axis=1)
        return np.concatenate([listed, absent], axis=1)

    def _placements(self, queries: IntArray, sizes: IntArray, n_above: IntArray, tied: IntArray) -> Placements:
        """Placements of lists with so many relevant candidates, each of grade 1, for queries that may be repeated."""
        ids = Ids([str(number) for number in range(len(queries))])
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        pool, list_lengths = self.judged.pool[queries], self.judged.known[queries]
        return Placements(ids, indptr, n_above, tied, np.ones(len(n_above)), pool, list_lengths)

    def _values(self, placements: Placements) -> FloatArray:
        return computed(self.measure, relevant_last(placements) if self.worst else placements)


def _places(judged: Placements) -> IntArray:
    """The rank of each entry, from 0; distinct for those of a tie."""
    return np.asarray(judged.above + (judged.order - judged.group[0]))
