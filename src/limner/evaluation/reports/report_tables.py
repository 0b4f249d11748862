"""The tables of a report."""

from __future__ import annotations

from collections.abc import Mapping

from limner.evaluation.estimated import VIEW, estimate_rows
from limner.evaluation.reports.report import Report
from limner.evaluation.results import DIRECTIONS, Result
from limner.evaluation.tables import Document, Grid


def report_document(report: Report) -> Document:
    """What a report shows."""
    return Document(f"{report.system} on {report.collection}", report_grids(report), report.notes)


def report_grids(report: Report) -> list[Grid]:
    """One grid per view, with measures as rows and directions as columns, each number with its interval."""
    names = report.settings.get("names") or {}
    views = dict.fromkeys(r.view for r in report.results)
    found = [(view, [r for r in report.results if r.view == view]) for view in views]
    grids = [[_view_grid(view, results, names), *_bounds_grid(view, results, names)] for view, results in found]
    estimated = [Grid(VIEW, estimate_rows(report.estimates, DIRECTIONS))] if report.estimates else []
    return [*(grid for each in grids for grid in each), *estimated]


def _bounds_grid(view: str, results: list[Result], names: Mapping[str, str]) -> list[Grid]:
    """The lowest and the highest value over all ways to judge the unjudged pairs."""
    bounded = [r for r in results if r.possible is not None]
    if not bounded:
        return []
    directions = [d for d in DIRECTIONS if any(r.direction == d for r in bounded) and d != "both"]
    title = f"{names.get(view, view)}: lowest to highest, whatever the unjudged pairs are"
    rows = [(title, *(names.get(d, DIRECTIONS[d]) for d in directions))]
    for measure in dict.fromkeys(r.measure for r in bounded):
        found = {r.direction: _ends(r) for r in bounded if r.measure == measure}
        first = found.get("both", found.get(directions[0], ""))
        rows.append((str(measure), first, *(found.get(d, "") for d in directions[1:])))
    return [Grid(title, tuple(rows))]


def _ends(result: Result) -> str:
    return " to ".join(map(result.measure.show, result.possible or ()))


def _view_grid(view: str, results: list[Result], names: Mapping[str, str]) -> Grid:
    directions = [d for d in DIRECTIONS if any(r.direction == d for r in results) and d != "both"]
    called = {d: names.get(d, DIRECTIONS[d]) for d in directions}
    head = (names.get(view, view), *(f"{called[d]} ({_counted(results, d)})" for d in directions))
    rows = [head]
    for measure in dict.fromkeys(r.measure for r in results if r.direction != "both"):
        rows.append((str(measure), *(_cell(results, measure, d) for d in directions)))
    for result in (r for r in results if r.direction == "both"):
        rows.append((str(result.measure), with_interval(result), *[""] * (len(directions) - 1)))
    return Grid(view, tuple(rows))


def _counted(results: list[Result], direction: str) -> str:
    return f"{next(len(r.queries) for r in results if r.direction == direction):,}"


def _cell(results: list[Result], measure: object, direction: str) -> str:
    found = [r for r in results if r.measure == measure and r.direction == direction]
    return with_interval(found[0]) if found else ""


def with_interval(result: Result) -> str:
    """A number with its interval, if it has one."""
    shown = result.measure.show(result.value)
    interval = result.interval
    return (
        shown
        if interval is None
        else f"{shown} [{result.measure.show(interval.low)}, {result.measure.show(interval.high)}]"
    )
