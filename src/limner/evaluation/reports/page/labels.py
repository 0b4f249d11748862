"""Missing labels: relevant pairs without a label, their effect on the numbers, and right answers counted as errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import BoolArray
from limner.core.errors import count
from limner.core.judgements import Judgements
from limner.evaluation.measures import Measure
from limner.evaluation.reports.page.examples import Returned
from limner.evaluation.reports.page.gallery import Gallery, PageItem
from limner.evaluation.reports.page.headline import directions_of
from limner.evaluation.reports.page.system_comparison import signed
from limner.evaluation.reports.page.truth import Truth, also, missing, relevant_in, spread
from limner.evaluation.reports.page.words import direction_title, nouns, percent, plain
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result


@dataclass(frozen=True)
class Gap:
    """The relevant pairs that more complete judgements add to the labels, in one direction."""

    direction: str
    name: str
    queries: str
    labelled: str
    relevant: str
    unlabelled: str
    share: str
    missed: float
    first: str
    places: str
    finding: str


@dataclass(frozen=True)
class Change:
    """One measure under the labels and under more complete judgements."""

    measure: str
    labels: str
    fuller: str
    change: str


@dataclass(frozen=True)
class Changes:
    """All measures that two views share, in one direction."""

    title: str
    labels: str
    fuller: str
    rows: Sequence[Change]


@dataclass(frozen=True)
class MissedPositive:
    """An answer at rank 1 that is wrong according to the labels but right according to more complete judgements."""

    direction: str
    query: PageItem
    returned: Returned
    expected: Sequence[PageItem]


def gaps(report: Report, truth: Truth) -> list[Gap]:
    """One gap per set of further judgements and direction."""
    pairs = [
        (name, d, truth.judged(name, d), truth.judged(truth.base, d))
        for name in truth.fuller
        for d in directions_of(report)
    ]
    return [
        _gap(report, truth, name, d, fuller, base)
        for name, d, fuller, base in pairs
        if fuller is not None and base is not None
    ]


def _gap(report: Report, truth: Truth, name: str, direction: str, fuller: Judgements, base: Judgements) -> Gap:
    queries, labelled, relevant, unlabelled = missing(fuller, base)
    first, places, sentence = _missed_positive_texts(report, truth, name, direction)
    return Gap(
        direction_title(direction),
        name,
        f"{queries:,}",
        f"{labelled:,} ({labelled / max(queries, 1):.1f} each)",
        f"{relevant:,} ({relevant / max(queries, 1):.1f} each)",
        f"{unlabelled:,}",
        percent(unlabelled / max(relevant, 1)),
        100 * unlabelled / max(relevant, 1),
        first,
        places,
        sentence,
    )


def missed_positives(report: Report, truth: Truth, name: str, direction: str) -> tuple[BoolArray, BoolArray]:
    """Which stored entries are wrong by the labels, and which of these are right by the more complete judgements.

    Only queries with more complete judgements are counted.
    """
    fuller, base = truth.judged(name, direction), truth.judged(truth.base, direction)
    top = report.top.get(direction)
    if fuller is None or base is None or top is None:
        return np.zeros((0, 0), dtype=bool), np.zeros((0, 0), dtype=bool)
    answered = fuller.restrict(queries=top.queries).counts > 0
    wrong = ~relevant_in(top, base) & (top.indices >= 0) & answered[:, None]
    return wrong, wrong & relevant_in(top, fuller)


def _missed_positive_texts(report: Report, truth: Truth, name: str, direction: str) -> tuple[str, str, str]:
    wrong, right = missed_positives(report, truth, name, direction)
    if not wrong.size:
        return "–", "–", ""
    _, query_nouns, one, candidate_nouns = nouns(direction)
    counted, just = int(wrong[:, 0].sum()), int(right[:, 0].sum())
    counted_wrong = (
        f"Of {count(counted, one, candidate_nouns)} returned first for {query_nouns} and counted wrong by the labels"
    )
    sentence = f"{counted_wrong}, {just:,} ({percent(just / max(counted, 1))}) are right by {name}."
    return _of(just, counted), _of(int(right.sum()), int(wrong.sum())), sentence


def _of(part: int, total: int) -> str:
    return f"{part:,} of {total:,} ({percent(part / max(total, 1))})"


# --- effect on the numbers --------------------------------------------------------------------------------


def changes(report: Report, truth: Truth) -> list[Changes]:
    """Measures of the first view compared with every other view, by direction."""
    views = list(dict.fromkeys(r.view for r in report.results))
    labels = next((v for v in views if truth.judgements_of(v) == truth.base), views[0] if views else "")
    pairs = [(view, d) for view in views if view != labels for d in directions_of(report)]
    changes_of = [_changes(report, labels, view, d) for view, d in pairs]
    return [each for each in changes_of if each.rows]


def _changes(report: Report, labels: str, fuller: str, direction: str) -> Changes:
    by_labels, theirs = (_by_measure(report, view, direction) for view in (labels, fuller))
    rows = [_change(r, theirs[measure]) for measure, r in by_labels.items() if measure in theirs]
    return Changes(direction_title(direction), labels, fuller, rows)


def _by_measure(report: Report, view: str, direction: str) -> dict[Measure, Result]:
    return {r.measure: r for r in report.results if (r.view, r.direction) == (view, direction)}


def _change(labels: Result, fuller: Result) -> Change:
    measure, difference = labels.measure, fuller.value - labels.value
    change = signed(measure.show(difference)) if np.isfinite(difference) else "–"
    return Change(str(measure), plain(measure, labels.value), plain(measure, fuller.value), change)


# --- answers counted wrong that are right -----------------------------------------------------------------------


def missed_positive_examples(report: Report, truth: Truth, gallery: Gallery, *, each: int = 3) -> list[MissedPositive]:
    """First answers that are wrong by the labels but right by the most reliable of the more complete judgements."""
    if not truth.fuller:
        return []
    name = truth.fuller[0]
    positives = []
    for direction in (d for d in directions_of(report) if d in report.top):
        _, right = missed_positives(report, truth, name, direction)
        rows = np.flatnonzero(right[:, 0]) if right.size else np.zeros(0, dtype=np.int64)
        positives += [_missed_positive(report, truth, gallery, name, direction, row) for row in spread(rows, each)]
    return positives


def _missed_positive(
    report: Report, truth: Truth, gallery: Gallery, name: str, direction: str, row: int
) -> MissedPositive:
    query = report.top[direction].queries[row]
    answer = report.top[direction][query][0]
    labelled = truth.labelled(direction, query)
    return MissedPositive(
        direction,
        gallery.query(direction, query),
        Returned(1, gallery.candidate(direction, answer), also(name)),
        [gallery.candidate(direction, c) for c in labelled[:1]],
    )
