"""The best and the worst queries: the query, the returned items, and the relevant ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from limner.core.arrays import IntArray
from limner.core.errors import count
from limner.evaluation.measures import Measure
from limner.evaluation.reports.page.gallery import Gallery, PageItem
from limner.evaluation.reports.page.headline import directions_of
from limner.evaluation.reports.page.truth import Mark, Truth, spread
from limner.evaluation.reports.page.words import direction_title, number, plain
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result

SHOWN = 5
THUMBNAILS = 60  # rows with a thumbnail in a table of image queries: each adds some kilobytes to the page
"""Number of returned items in an example."""


@dataclass(frozen=True)
class Returned:
    """One returned item: its rank, how it is shown, and its relevance."""

    rank: int
    item: PageItem
    mark: Mark | None


@dataclass(frozen=True)
class Example:
    """One query with its returned items, its labels and its results."""

    query: PageItem
    fared: str
    returned: Sequence[Returned]
    expected: Sequence[PageItem]


@dataclass(frozen=True)
class Examples:
    """The best and worst queries of one direction, and the view they were chosen by."""

    title: str
    by: str
    best: Sequence[Example]
    worst: Sequence[Example]


def examples(report: Report, truth: Truth, gallery: Gallery, *, total: int) -> list[Examples]:
    """The best and worst queries of every direction with stored lists, `total` of them."""
    directions = [d for d in directions_of(report) if d in report.top and report.top[d].depth]
    each = max(1, total // (2 * len(directions))) if directions and total > 0 else 0
    return [_examples(report, truth, gallery, d, each) for d in directions if each]


def _examples(report: Report, truth: Truth, gallery: Gallery, direction: str, each: int) -> Examples:
    results = [r for r in report.results if r.direction == direction]
    view = deciding_view(truth, results)
    judges = most_informative_first([r for r in results if r.view == view])
    worst, best = extremes(judges, each)
    queries = judges[0].queries
    make = [[_example(report, truth, gallery, direction, queries[row]) for row in rows] for rows in (best, worst)]
    return Examples(direction_title(direction), _by(truth, view, judges[0]), make[0], make[1])


def _by(truth: Truth, view: str, judge: Result) -> str:
    criterion = "the rank of the first right answer" if judge.measure.kind.rank else str(judge.measure)
    fuller = truth.judgements_of(view) in truth.fuller
    return f"Chosen by {criterion} under {view}" + (
        ", so that no query looks bad only because labels are missing." if fuller else "."
    )


def deciding_view(truth: Truth, results: Sequence[Result]) -> str:
    """The most complete view, under which a bad query is the fault of the system, not of missing labels.

    A view with only hit-or-miss measures cannot rank the misses, so it is used last.
    """
    views = list(dict.fromkeys(r.view for r in results))
    fuller = [view for name in truth.fuller for view in views if truth.judgements_of(view) == name]
    fine = {r.view for r in results if r.measure.sees_whole_list}
    return next((view for view in [*fuller, *views] if view in fine), [*fuller, *views][0])


def most_informative_first(results: Sequence[Result]) -> list[Result]:
    """The results of one view, with the most informative measures first."""
    return sorted(results, key=lambda r: _coarseness(r.measure))


def _coarseness(measure: Measure) -> tuple[bool, int, bool]:
    """Sort key: ranks are most informative, then measures of the whole list, of the first R, of the first k, hits."""
    kind = measure.kind
    return not kind.rank, ("list", "R", "k").index(kind.sees), kind.hit


def order(judges: Sequence[Result]) -> IntArray:
    """Rows of the queries from worst to best: by the first measure, with ties broken by the next."""
    keys = [r.values * r.measure.kind.better for r in judges if r.queries == judges[0].queries]
    return np.lexsort(keys[::-1]).astype(np.int64)


def extremes(judges: Sequence[Result], each: int) -> tuple[list[int], list[int]]:
    """The rows of the worst and of the best queries; if many are equally good, an evenly spaced sample."""
    ordered = order(judges)
    if not len(ordered):
        return [], []
    each = min(each, len(ordered) // 2) or len(ordered)
    return [int(row) for row in ordered[:each]], spread(_equally_good(judges, ordered, each), each)


def _equally_good(judges: Sequence[Result], ordered: IntArray, each: int) -> IntArray:
    """The best rows, and all rows that tie with the last of them."""
    best = ordered[::-1]
    level = best[each - 1]
    is_tied = np.ones(len(ordered), dtype=bool)
    for r in (r for r in judges if r.queries == judges[0].queries):
        is_tied &= r.values[best] == r.values[level]
    last = int(np.flatnonzero(is_tied).max())
    return np.sort(best[: last + 1]) if is_tied[0] else best[:each]


def _example(report: Report, truth: Truth, gallery: Gallery, direction: str, query: str) -> Example:
    returned = returned_for(report, truth, gallery, direction, query)
    returned_ids = {r.item.id for r in returned}
    missed = [c for c in truth.labelled(direction, query) if c not in returned_ids]
    expected = missed if not any(r.mark and r.mark.style == "labelled" for r in returned) else []
    n_expected = 1 if direction == "t2i" else 2
    return Example(
        gallery.query(direction, query),
        _fared(report, direction, query),
        returned,
        [gallery.candidate(direction, c) for c in expected[:n_expected]],
    )


def returned_for(
    report: Report, truth: Truth, gallery: Gallery, direction: str, query: str, limit: int = SHOWN
) -> list[Returned]:
    """The first items returned for a query."""
    top = report.top[direction]
    if query not in top.queries:
        return []
    return [
        Returned(i + 1, gallery.candidate(direction, c), truth.mark(direction, query, c))
        for i, c in enumerate(top[query][:limit])
    ]


def _fared(report: Report, direction: str, query: str) -> str:
    """The result of a query under every view: the rank of its first right answer, or its most informative number."""
    values = []
    for view in dict.fromkeys(r.view for r in report.results if r.direction == direction):
        judge = most_informative_first([r for r in report.results if (r.view, r.direction) == (view, direction)])[0]
        if query in judge.queries:
            values.append((f"{_value(judge, query)} ({view})", judge.measure.kind.rank))
    words = [
        ("" if number or not ranked else "first right answer at rank ") + value
        for number, (value, ranked) in enumerate(values)
    ]
    return ", ".join(words)


def _value(judge: Result, query: str) -> str:
    value = float(judge.values[judge.queries.index(query)])
    if not judge.measure.kind.rank:
        return f"{judge.measure} {number(judge.measure, value)}"
    if not np.isfinite(value):
        return "∞"
    return f"{int(value):,}" if value == int(value) else f"{judge.measure.show(value)}, tied"


# --- the table of queries ----------------------------------------------------------------


@dataclass(frozen=True)
class QueryTable:
    """All queries of a direction as a table, the hardest first: one column per view.

    Args:
        title: The direction.
        name: Its short name.
        heads: The columns.
        rows: The first queries: id, caption, columns, and their image.
        about: Their number, as text.
        further: The other queries as JSON: id, caption, columns, and the name of an image that is already on the page.
    """

    title: str
    name: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[tuple[str, str]], PageItem | None]]
    about: str
    further: Markup | None = None


def query_tables(report: Report, truth: Truth, gallery: Gallery, *, n_rows: int = 500) -> list[QueryTable]:
    """One table per direction, the hardest queries first; rows after the first `most` are data for the script."""
    return [_query_table(report, truth, gallery, d, n_rows) for d in directions_of(report)]


def _query_table(report: Report, truth: Truth, gallery: Gallery, direction: str, n_rows: int) -> QueryTable:
    results = [r for r in report.results if r.direction == direction]
    views = dict.fromkeys(r.view for r in results)
    judges = [most_informative_first([r for r in results if r.view == view])[0] for view in views]
    view = deciding_view(truth, results)
    decisive = most_informative_first([r for r in results if r.view == view])
    queries = [decisive[0].queries[int(row)] for row in order(decisive)]
    rows = [
        (q, _caption(gallery, direction, q), [_sortable(judge, q) for judge in judges],
         _image_of(truth, gallery, direction, q) if place < THUMBNAILS else None)
        for place, q in enumerate(queries[:n_rows])
    ]  # fmt: skip
    about = f"All {count(len(queries), 'query', 'queries')}"
    heads = [_head(judge) for judge in judges]
    further = _further(truth, gallery, direction, queries[n_rows:], judges)
    return QueryTable(direction_title(direction), direction, heads, rows, about, further)


def _image_of(truth: Truth, gallery: Gallery, direction: str, query: str) -> PageItem | None:
    """The image of a query: its own, or the one that a caption was written for."""
    if direction == "i2t":
        return gallery.query(direction, query)
    return next((gallery.candidate(direction, image) for image in truth.labelled(direction, query)), None)


def _further(
    truth: Truth, gallery: Gallery, direction: str, queries: Sequence[str], judges: Sequence[Result]
) -> Markup | None:
    """The rows for the script, as JSON that is safe inside a script element."""
    rows = []
    for query in queries:
        image = query if direction == "i2t" else next(iter(truth.labelled(direction, query)), "")
        thumbnail = gallery.thumbnails.get(image)
        cells = [_sortable(judge, query)[0] for judge in judges]
        rows.append([query, _caption(gallery, direction, query), cells, thumbnail.name if thumbnail else ""])
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(text) if rows else None  # every "<" is escaped above


def _head(judge: Result) -> str:
    return f"first rank, {judge.view}" if judge.measure.kind.rank else f"{judge.measure}, {judge.view}"


def _caption(gallery: Gallery, direction: str, query: str) -> str:
    item = gallery.query(direction, query) if direction == "t2i" else None
    return item.text if item is not None and item.kind == "text" else ""


def _sortable(judge: Result, query: str) -> tuple[str, str]:
    if query not in judge.queries:
        return "–", ""
    value = float(judge.values[judge.queries.index(query)])
    is_integer = judge.measure.kind.rank and value == int(value) if np.isfinite(value) else False
    return f"{int(value):,}" if is_integer else plain(judge.measure, value), f"{value:.6g}"
