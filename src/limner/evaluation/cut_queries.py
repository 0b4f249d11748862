"""Numbers of the texts that a model cuts, beside those of the texts that it reads to the end."""

from __future__ import annotations

from collections.abc import Collection as Group
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from limner.core.arrays import BoolArray
from limner.core.collection import Collection
from limner.core.cut_texts import THAT_ARE_CUT
from limner.evaluation.reports.report import Report
from limner.evaluation.results import DIRECTIONS, Result, main_result


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
    counts = [f"{_number(part)} for {len(part.queries):,}" for part in parts]
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


def _number(result: Result) -> str:
    show, interval = result.measure.show, result.interval
    return show(result.value) + ("" if interval is None else f" [{show(interval.low)}, {show(interval.high)}]")
