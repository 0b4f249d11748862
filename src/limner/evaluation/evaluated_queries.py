"""The queries of an evaluation: those that a run or the judgements lack, clusters, and texts that a model cuts."""

from __future__ import annotations

import re
from collections.abc import Collection as Group
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from limner.core.arrays import BoolArray, IntArray
from limner.core.collection import Collection
from limner.core.cut_texts import THAT_ARE_CUT
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.reports.report import Report
from limner.evaluation.reports.report_tables import with_interval
from limner.evaluation.results import ALONE, DIRECTIONS, Result, main_result
from limner.scores import Scores

CAPTIONS = 20
"""With more queries per set of relevant candidates on average, the sets are classes, not images with captions."""
_CAPTION = re.compile(r"(?P<image>.+)#\d+")
_COUNTED = {"empty": "count as empty lists", "skip": "are left out"}


def without_missing(
    source: Scores | Ranking, judged: Sequence[tuple[str, Judgements]], missing: str
) -> tuple[Scores | Ranking, list[Judgements], list[str]]:
    """Restricts a system and judgements to the same queries.

    Args:
        source: The output of the system.
        judged: Judgements of each view, with the name of the view.
        missing: What to do with a query that has relevant candidates but is not ranked: count it as an "empty" list, or
            "skip" it.

    Returns:
        The system, with empty lists if they count; the judgements, without skipped queries; and notes.
    """
    missing_of = {view: _unranked(source.queries, judgements) for view, judgements in judged}
    if not any(missing_of.values()):
        return source, [judgements for _, judgements in judged], []
    notes = [
        f"{view}: {len(ids):,} queries with relevant candidates are not ranked ({shown(ids)}) and {_COUNTED[missing]}"
        for view, ids in missing_of.items()
        if ids
    ]
    if missing == "skip":
        return source, [_without_queries(judgements, missing_of[view]) for view, judgements in judged], notes
    every = dict.fromkeys(query for ids in missing_of.values() for query in ids)
    return _with_empty(source, every), [judgements for _, judgements in judged], notes


def _unranked(ranked: Ids, judgements: Judgements) -> list[str]:
    """Queries with a relevant candidate that are not ranked."""
    absent = (ranked.find(judgements.queries) < 0) & (judgements.counts > 0)
    return list(judgements.queries[np.flatnonzero(absent)])


def _without_queries(judgements: Judgements, queries: Sequence[str]) -> Judgements:
    gone = set(queries)
    return judgements.restrict(queries=[q for q in judgements.queries if q not in gone]) if gone else judgements


def _with_empty(source: Scores | Ranking, queries: Iterable[str]) -> Ranking:
    if not isinstance(source, Ranking):
        raise LimnerError(
            "missing='empty' is for rankings, whose lists may be empty: score the missing queries too, or leave "
            "them out with missing='skip'"
        )
    names = Ids([*source.queries, *queries], what="query")
    n_missing = len(names) - len(source.queries)
    indices = np.concatenate([source.indices, np.full((n_missing, source.depth), -1, dtype=source.indices.dtype)])
    scores = source.scores
    if scores is not None:
        scores = np.concatenate([scores, np.full((n_missing, source.depth), -np.inf, dtype=scores.dtype)])
    return Ranking(names, source.candidates, indices, scores, source.n_candidates, notes=source.notes)


def unjudged_queries(source: Scores | Ranking, judgements: Judgements) -> list[str]:
    """A note on ranked queries without judgements, which are ignored."""
    extra = [query for query in source.queries if query not in judgements.queries]
    if not extra:
        return []
    return [f"{len(extra):,} queries of the ranking have no judgements ({shown(extra)}) and do not count"]


def clusters_of(
    queries: Ids, truth: Judgements, groups: Mapping[str, object] | None
) -> tuple[IntArray | None, list[str]]:
    """The cluster of each query of plain judgements, and a note on where it comes from.

    The groups, if there are any; else the image in ids such as `dog.jpg#0`; else queries with the same relevant
    candidates are a cluster. If some queries share only a part of them, or more than `CAPTIONS` share all, as those of
    a class do, no cluster is certain.

    Args:
        queries: The queries.
        truth: Their judgements.
        groups: The group of each query.

    Returns:
        Clusters, numbered from 0, and notes; None if every query counts as independent.

    >>> truth = Judgements.from_pairs([("a", "dog"), ("b", "dog"), ("c", "cat")])
    >>> clusters, notes = clusters_of(Ids("abc"), truth, None)
    >>> clusters.tolist(), clusters_of(Ids("abc"), truth, {"a": 1, "b": 2, "c": 1})[0].tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    if groups is not None:
        return _grouped(queries, groups), []
    ways = (("the same id before '#'", _images_in(queries)), ("the same relevant candidates", _answers(queries, truth)))
    for shared, labels in ways:
        clusters = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        count = int(clusters.max(initial=-1)) + 1
        if 0 < count < len(queries) <= CAPTIONS * count:
            return clusters, [
                f"queries with {shared} count as one cluster: {len(queries):,} queries, {count:,} clusters; pass "
                "groups (-O groups=FILE) if others belong together"
            ]
    return None, [ALONE]


def _grouped(queries: Ids, groups: Mapping[str, object]) -> IntArray:
    ungrouped = [query for query in queries if query not in groups]
    if ungrouped:
        raise LimnerError(f"groups: {len(ungrouped)} queries have no group ({shown(ungrouped)}): give every query one")
    return np.unique([str(groups[query]) for query in queries], return_inverse=True)[1].astype(np.int64)


def _images_in(queries: Ids) -> list[str]:
    """The image in each id; empty if an id names none."""
    matches = [_CAPTION.fullmatch(query) for query in queries]
    return [match["image"] for match in matches if match] if all(matches) else []


def _answers(queries: Ids, truth: Judgements) -> list[str]:
    """One label per set of relevant candidates; empty if two sets overlap in part."""
    pairs = truth.relevant
    sets = [pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]] for row in pairs.queries.positions(queries)]
    labels = [" ".join(map(str, each)) for each in sets]
    distinct = dict(zip(labels, sets, strict=True))
    columns = np.concatenate([*distinct.values(), np.empty(0, np.int64)])
    return labels if len(np.unique(columns)) == len(columns) else []


def with_cut_queries(report: Report, collection: Collection, cut: Group[str]) -> Report:
    """The report with a note for each direction: its headline for queries with a text that is cut, and for the others.

    Args:
        report: The report.
        collection: What it was evaluated on.
        cut: The ids of texts that the model cuts.
    """
    notes = [note for each in _headlines(report.results) if (note := _note(each, collection, cut))] if cut else []
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def _headlines(results: Sequence[Result]) -> list[Result]:
    """The headline number of each direction under the first view."""
    first = [result for result in results if result.view == results[0].view and result.direction in ("i2t", "t2i")]
    directions = dict.fromkeys(result.direction for result in first)
    return [main_result([result for result in first if result.direction == each]) for each in directions]


def _note(result: Result, collection: Collection, cut: Group[str]) -> str:
    """Both numbers, each with its interval and its queries; "" if all or none of the queries are cut."""
    if not len(result.values):
        return ""
    is_cut = _is_cut(result, collection, cut)
    parts = [result.restricted(np.flatnonzero(rows)) for rows in (is_cut, ~is_cut)]
    if not all(len(part.queries) for part in parts):
        return ""
    one = "texts" if result.direction == "t2i" else "images with texts"
    counts = [f"{with_interval(part)} for {len(part.queries):,}" for part in parts]
    return (
        f"{DIRECTIONS[result.direction]}, {result.view}, {result.measure}: {counts[0]} {one} {THAT_ARE_CUT}, "
        f"{counts[1]} others"
    )


def _is_cut(result: Result, collection: Collection, cut: Group[str]) -> BoolArray:
    """Whether each query is a text that is cut, or an image with one among its texts."""
    if result.direction == "t2i":
        return np.array([query in cut for query in result.queries], dtype=bool)
    pairs = collection.judgements.relevant
    texts = np.array([text in cut for text in pairs.candidates], dtype=bool)
    counts = np.bincount(pairs.rows, texts[pairs.columns], minlength=len(pairs.queries))
    return np.asarray(counts[pairs.queries.positions(result.queries)] > 0)
