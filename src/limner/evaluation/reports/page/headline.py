"""The first screen: the headline numbers, and all numbers with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from limner.core.errors import LimnerError, count
from limner.evaluation.label_estimates import VIEW, Estimated
from limner.evaluation.measures import Measure
from limner.evaluation.reports.page.truth import Truth
from limner.evaluation.reports.page.words import (
    chance,
    constant,
    direction_title,
    nouns,
    number,
    plain,
    range_text,
    span,
    style_of,
    views_of,
)
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result, comparable, main_result, paired, paired_test


@dataclass(frozen=True)
class Cell:
    """One number with its interval as text and, for shares, the ends of its bar in percent.

    `open` says what the number may be, whatever the unjudged pairs are; empty if all were judged.
    """

    value: str
    span: str = ""
    bar: tuple[float, float, float] | None = None
    open: str = ""


@dataclass(frozen=True)
class HeadlineTable:
    """All numbers of one direction, with measures as rows and views as columns."""

    title: str
    views: Sequence[tuple[str, str, str]]  # name, style, number of queries
    rows: Sequence[tuple[str, Sequence[Cell | None]]]

    @property
    def opened(self) -> bool:
        """Whether unjudged answers leave a number open."""
        return any(cell is not None and cell.open for _, cells in self.rows for cell in cells)


@dataclass(frozen=True)
class Card:
    """The main number of one direction, the same measure under other views, and two or three other numbers.

    Args:
        title: The direction.
        about: Queries and candidates.
        measure: The main measure.
        meaning: What the measure counts.
        views: Name, style and number of each view.
        more: Further numbers of the first view.
        view: The name of the first view.
        chance: The main measure of a random ranking under the first view; "" if unknown.
        constant: The main measure of the best single answer to every query; "" if unknown.
        baseline: Name, number and interval of a baseline, and whether the difference is significant.
    """

    title: str
    about: str
    measure: str
    meaning: str
    views: Sequence[tuple[str, str, Cell]]  # name, style, number
    more: Sequence[tuple[str, str]]
    view: str = ""
    chance: str = ""
    constant: str = ""
    baseline: tuple[str, str, str, str] | None = None


def directions_of(report: Report) -> list[str]:
    """The directions with queries, in order."""
    return [d for d in dict.fromkeys(r.direction for r in report.results) if d != "both"]


def cards(report: Report, truth: Truth, baseline: Report | None = None) -> list[Card]:
    """One card per direction."""
    return [
        _card(report, truth, d, [r for r in report.results if r.direction == d], baseline)
        for d in directions_of(report)
    ]


def _card(report: Report, truth: Truth, direction: str, results: list[Result], baseline: Report | None) -> Card:
    main = main_result([r for r in results if r.view == results[0].view])
    of_measure = [r for r in results if alike(r.measure, main.measure)]
    views = [(_view(r, main), style_of(report, r.view), _cell(r)) for r in of_measure]
    estimates = [e for e in report.estimates if e.direction == direction and e.measure == main.measure]
    views += [(f"{VIEW}, {count(e.labels, 'label', 'labels')}", "", _estimate_cell(e)) for e in estimates]
    random, same_answer = chance(report, truth, main), constant(report, truth, main)
    return Card(
        direction_title(direction), _about(report, main), str(main.measure), meaning(main), views,
        _further_numbers(results, main), main.view, _or_nothing(main, random), _or_nothing(main, same_answer),
        None if baseline is None else _baseline(main, baseline),
    )  # fmt: skip


def _or_nothing(main: Result, value: float | None) -> str:
    return "" if value is None else number(main.measure, value)


def _baseline(main: Result, baseline: Report) -> tuple[str, str, str, str]:
    """The value of the baseline, and whether it differs significantly by a paired test of this measure."""
    result = next((r for r in baseline.results if r.key == main.key), None)
    if result is None:
        raise LimnerError(
            f"the baseline {baseline.system!r} has no {' '.join(main.key)}: evaluate it with the same measures"
        )
    aligned = paired(main, result)
    name, value, ends = baseline.system, number(main.measure, result.value), span(result)
    if not comparable(main, aligned):
        return name, value, ends, ""
    test = paired_test(main, aligned, samples=10_000)
    change = main.measure.show_change(main.value - result.value)
    p = "< 0.0001" if test.p_value < 0.0001 else f"= {test.p_value:.4f}"
    return name, value, ends, f"The difference is {change}, p {p} ({test.method})."


def alike(a: Measure, b: Measure) -> bool:
    """Whether two measures are the same: S@k is another name for R@k."""
    return a == b or (a.kind.hit and b.kind.hit and (a.k, a.options) == (b.k, b.options))


def _view(result: Result, main: Result) -> str:
    return result.view if result.measure == main.measure else f"{result.view}, {result.measure}"


def _about(report: Report, main: Result) -> str:
    one, query_nouns, _, candidate_nouns = nouns(main.direction)
    top = report.top.get(main.direction)
    pool = (
        f", each looking among {top.n_candidates:,} {candidate_nouns}" if top is not None and top.n_candidates else ""
    )
    return f"{count(len(main.queries), one, query_nouns)}{pool}"


def meaning(result: Result) -> str:
    """What the value of a measure means, as text."""
    _, query_nouns, one, _ = nouns(result.direction)
    k = result.measure.k
    if not result.measure.kind.hit:
        return result.measure.kind.formula
    return (
        f"{query_nouns.capitalize()} with a right {one} in first place"
        if k == 1
        else f"{query_nouns.capitalize()} with a right {one} among the first {k}"
    )


def _further_numbers(results: Sequence[Result], main: Result) -> list[tuple[str, str]]:
    """Three more numbers of the main view: hits at the largest k, the median rank, and one for the whole list."""
    of_view = [r for r in results if r.view == main.view and r is not main]
    widest = sorted((r for r in of_view if r.measure.name == main.measure.name), key=lambda r: r.measure.k or 0)[-1:]
    ranks = [r for r in of_view if r.measure.kind.rank][:1]
    lists = [r for r in of_view if r.measure.kind.sees != "k" and not r.measure.kind.rank]
    deep = sorted(lists, key=lambda r: r.measure.kind.sees != "R")[:1]
    return [(str(r.measure), number(r.measure, r.value)) for r in [*widest, *ranks, *deep]]


def lead(report: Report) -> list[str]:
    """One sentence per direction, and one about the other views."""
    return [_sentence(report, [r for r in report.results if r.direction == d]) for d in directions_of(report)]


def _sentence(report: Report, results: list[Result]) -> str:
    main = main_result([r for r in results if r.view == results[0].view])
    other_views = [r for r in results if alike(r.measure, main.measure) and r.view != main.view]
    further = "".join(f"; under {r.view}{_pool(report, r)}, {number(r.measure, r.value)}" for r in other_views)
    detail = ", ".join(part for part in (_under(report, main), _interval_text(main)) if part)
    return f"{_claim(main)}{f' ({detail})' if detail else ''}{further}."


def _pool(report: Report, result: Result) -> str:
    """A note for a view whose pool differs from that of the first view."""
    size = report.settings.get("judged_pool", {}).get(f"{result.view} {result.direction}")
    return f" (among the {size:,} {nouns(result.direction)[3]} that were judged)" if size else ""


def _claim(main: Result) -> str:
    _, query_nouns, one, candidate_nouns = nouns(main.direction)
    value = number(main.measure, main.value)
    k = main.measure.k
    if not main.measure.kind.hit:
        over = count(len(main.queries), "query", "queries")
        return f"{direction_title(main.direction)}: {main.measure} is {value} over {over}"
    claim = (
        f"the first {one} returned is right" if k == 1 else f"one of the first {k} {candidate_nouns} returned is right"
    )
    return f"For {value} of {len(main.queries):,} {query_nouns}, {claim}"


def _under(report: Report, main: Result) -> str:
    return f"under {main.view}" if len(views_of(report)) > 1 else ""


def _interval_text(main: Result) -> str:
    return f"95% interval {span(main)}" if span(main) else ""


# --- every number -----------------------------------------------------------------------------------------------


def tables(report: Report) -> list[HeadlineTable]:
    """One table per direction, and one for measures that sum both."""
    present = dict.fromkeys(r.direction for r in report.results)
    return [_table(report, d, [r for r in report.results if r.direction == d]) for d in present]


def _table(report: Report, direction: str, results: list[Result]) -> HeadlineTable:
    views = list(dict.fromkeys(r.view for r in results))
    heads = [(v, style_of(report, v), _counted(direction, [r for r in results if r.view == v])) for v in views]
    by_key: dict[tuple[str, Measure], Result] = {(r.view, r.measure): r for r in results}
    estimates = {e.measure: e for e in report.estimates if e.direction == direction}
    rows = []
    for measure in dict.fromkeys([*(r.measure for r in results), *estimates]):
        by_view = [by_key.get((view, measure)) for view in views]
        cells = [None if r is None else _cell(r) for r in by_view]
        estimate = estimates.get(measure)
        estimate_cells = [None if estimate is None else _estimate_cell(estimate)] if estimates else []
        rows.append((str(measure), cells + estimate_cells))
    if estimates:
        heads.append((VIEW, "", count(max(e.labels for e in estimates.values()), "label", "labels")))
    return HeadlineTable(direction_title(direction), heads, rows)


def _estimate_cell(estimated: Estimated) -> Cell:
    """A value estimated for complete judgements, from labels of a designed sample."""
    e, show = estimated.estimate, estimated.measure.show
    bar = (100 * e.low, 100 * e.value, 100 * e.high) if math.isfinite(e.value) else None
    return Cell(plain(estimated.measure, e.value), f"{show(e.low)} to {show(e.high)}", bar)


def _counted(direction: str, results: list[Result]) -> str:
    one, plural = ("image", "images") if direction == "both" else nouns(direction)[:2]
    return count(len(results[0].queries), one, plural)


def _cell(result: Result) -> Cell:
    value, interval = result.value, result.interval
    shares = interval is not None and result.measure.kind.percent
    ends = (100 * interval.low, 100 * value, 100 * interval.high) if interval is not None and shares else None
    return Cell(plain(result.measure, value), span(result), ends, range_text(result))
