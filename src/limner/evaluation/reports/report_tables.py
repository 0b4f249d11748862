"""The tables of reports, comparisons and slices, and a table with a row per system, as papers print it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from limner.core.display_names import display_name, display_names
from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.comparison import Comparison, Line
from limner.evaluation.label_estimates import VIEW, estimate_rows
from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report
from limner.evaluation.results import DIRECTIONS, Result, heading
from limner.evaluation.slices import Slice, Slices, of_direction
from limner.evaluation.tables import Document, Grid, TableReport, shown_p
from limner.stats import Interval


def report_document(report: Report) -> Document:
    """What a report shows."""
    return Document(f"{display_name(report.system)} on {report.collection}", report_grids(report), report.notes)


def report_grids(report: Report) -> list[Grid]:
    """One grid per view, with measures as rows and directions as columns, each number with its interval."""
    names = report.settings.get("names") or {}
    views = dict.fromkeys(r.view for r in report.results)
    by_view = [(view, [r for r in report.results if r.view == view]) for view in views]
    grids = [[_view_grid(view, results, names), *_bounds_grid(view, results, names)] for view, results in by_view]
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
        ends = {r.direction: _ends(r) for r in bounded if r.measure == measure}
        first = ends.get("both", ends.get(directions[0], ""))
        rows.append((str(measure), first, *(ends.get(d, "") for d in directions[1:])))
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
    matches = [r for r in results if r.measure == measure and r.direction == direction]
    return with_interval(matches[0]) if matches else ""


def with_interval(result: Result) -> str:
    """A number with its interval, if it has one."""
    show = result.measure.show
    return _with(show(result.value), result.interval, show)


def _with(value: str, interval: Interval | None, show: Callable[[float], str]) -> str:
    return value if interval is None else f"{value} [{show(interval.low)}, {show(interval.high)}]"


# --- comparisons -----------------------------------------------------------------------------------------------------


def comparison_document(comparison: Comparison) -> Document:
    """What a comparison shows."""
    title, foot = " and ".join(comparison.systems), (comparison_foot(comparison),)
    return Document(title, comparison_grids(comparison), comparison.notes, foot, is_titled=False)


def comparison_grids(comparison: Comparison) -> list[Grid]:
    """One grid per view and direction: two systems with their difference, more systems with letters."""
    keys = dict.fromkeys((n.view, n.direction) for n in comparison.lines)
    make = _two_systems if len(comparison.systems) == 2 else _many_systems
    grids = [
        Grid(
            heading(*key),
            make(comparison, heading(*key), [n for n in comparison.lines if (n.view, n.direction) == key]),
        )
        for key in keys
    ]
    return [*grids, *(_estimated_grid(comparison, d) for d in dict.fromkeys(e.direction for e in comparison.estimated))]


def _estimated_grid(comparison: Comparison, direction: str) -> Grid:
    """Every pair of systems under complete judgements: both estimates, and the difference with its interval."""
    names = comparison.systems
    rows = [(heading(VIEW, direction), "one", "other", "difference", "by the given pairs")]
    for each in (e for e in comparison.estimated if e.direction == direction):
        one, second = (f"{names[n]} {value}" for n, value in zip((each.a, each.b), each.values, strict=True))
        mark = " *" if each.significant else ""
        rows.append((str(each.measure), one, second, f"{each}{mark}", each.measure.show_change(each.change_by_pairs)))
    return Grid(heading(VIEW, direction), tuple(rows))


def _two_systems(comparison: Comparison, title: str, lines: list[Line]) -> tuple[tuple[str, ...], ...]:
    rows = [(title, *comparison.systems, "difference", f"p (Holm, {comparison.family})", "test")]
    for line in lines:
        values = [line.measure.show(v) for v in line.values]
        if not line.differences:
            rows.append((str(line.measure), *values, "", "", "not comparable"))
            continue
        d = line.differences[0]
        mark = " *" if d.significant(comparison.level) else ""
        shown = _with(line.measure.show_change(d.value), d.interval, line.measure.show)
        rows.append((str(line.measure), *values, f"{shown}{mark}", shown_p(d.p_adjusted), d.test.method))
    return tuple(rows)


def _many_systems(comparison: Comparison, title: str, lines: list[Line]) -> tuple[tuple[str, ...], ...]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    head = (title, *(f"{letters[i % 26]} {name}" for i, name in enumerate(comparison.systems)))
    body = [
        (
            str(n.measure),
            *(
                f"{n.measure.show(v)} {''.join(letters[b % 26] for b in n.beaten(i, comparison.level))}".rstrip()
                for i, v in enumerate(n.values)
            ),
        )
        for n in lines
    ]
    return (head, *body)


def comparison_foot(comparison: Comparison) -> str:
    """An explanation of the marks in the table."""
    mark = "*: significant" if len(comparison.systems) == 2 else "letters: significantly better than these systems"
    return f"{mark} at {comparison.level:g}, p-values {comparison.corrected}"


# --- slices ----------------------------------------------------------------------------------------------------------


SLICE_COLUMNS = ("queries", "value", "rest", "difference", "p (adjusted)", "")


def slice_document(sliced: Slices) -> Document:
    """What slices show."""
    return Document(slices_title(sliced), slice_grids(sliced), _slice_notes(sliced))


def slice_grids(sliced: Slices) -> list[Grid]:
    """One grid per view, direction and measure."""
    grids = []
    for view, direction, measure, listed in of_direction(sliced):
        title = f"{measure}, {heading(view, direction)}"
        grids.append(Grid(title, ((title, *SLICE_COLUMNS), *map(_slice_row, listed))))
    return grids


def _slice_row(each: Slice) -> tuple[str, ...]:
    show, change = each.measure.show, each.measure.show_change
    return (
        f"{each.by}: {each.name}", f"{each.queries:,}", _with(show(each.value), each.interval, show), show(each.rest),
        _with(change(each.difference), each.difference_interval, show), shown_p(each.p_adjusted), each.verdict,
    )  # fmt: skip


def slices_title(sliced: Slices) -> str:
    """A heading with the systems and the collection."""
    names = display_names([sliced.system, sliced.against]) if sliced.against else (display_name(sliced.system),)
    systems = " minus ".join(names)
    return f"{systems} on {sliced.collection}, slices of at least {sliced.min_size} queries"


def _slice_notes(sliced: Slices) -> list[str]:
    counted = f"{len(sliced.marked)} of {len(sliced.slices)} slices differ from the rest"
    return [f"{counted}; p-values {sliced.corrected}", *sliced.notes]


Column = tuple[str, str, str]
"""View, direction and measure."""


@dataclass(frozen=True, eq=False)
class SystemTable(TableReport):
    """Systems as rows.

    Args:
        reports: One report per system.
        columns: What they have in common or alone, in the order of the reports.
    """

    kind: ClassVar[str] = "systems"
    reports: tuple[Report, ...]
    columns: tuple[Column, ...]

    def rows(self) -> list[dict[str, object]]:
        """A record per system; values are not rounded, and None where a report lacks a column."""
        return [
            {"system": report.system, "collection": report.collection}
            | {" ".join(column): None if (r := _result(report, column)) is None else r.value for column in self.columns}
            for report in self.reports
        ]

    def describe(self) -> dict[str, object]:
        """The table as plain values."""
        named = ("system", "collection")
        rows = [
            {name: row[name] for name in named} | {"values": {k: v for k, v in row.items() if k not in named}}
            for row in self.rows()
        ]
        return {"columns": [" ".join(column) for column in self.columns], "rows": rows}

    def document(self) -> Document:
        """A table per view."""
        names = dict.fromkeys(report.collection for report in self.reports)
        notes = [f"systems were evaluated on different collections: {', '.join(names)}"] if len(names) > 1 else []
        return Document(
            ", ".join(names), [self._grid(view) for view in dict.fromkeys(c[0] for c in self.columns)], notes
        )

    def _grid(self, view: str) -> Grid:
        columns = [column for column in self.columns if column[0] == view]
        head = (view, *(f"{DIRECTIONS.get(direction, direction)} {measure}" for _, direction, measure in columns))
        rows = [
            (report.system, *(_value_cell(_result(report, column)) for column in columns)) for report in self.reports
        ]
        return Grid(view, (head, *rows))


def system_table(reports: Sequence[Report], *, measures: str | Iterable[str] | None = None) -> SystemTable:
    """Systems as rows, from their reports.

    Args:
        reports: One report per system.
        measures: Only these, such as "R@1 rsum".
    """
    columns = list(dict.fromkeys((r.view, r.direction, str(r.measure)) for report in reports for r in report.results))
    if measures is not None:
        words = measures.replace(",", " ").split() if isinstance(measures, str) else measures
        chosen = {str(Measure.foreign(word, {})) for word in words}
        available = {measure for _, _, measure in columns}
        for name in sorted(chosen - available):
            raise UnknownName("measure of these reports", name, available)
        columns = [column for column in columns if column[2] in chosen]
    systems = [report.system for report in reports]
    twice = next((name for name in systems if systems.count(name) > 1), None)
    if twice is not None:
        raise LimnerError(f"two reports of {twice!r}: a row has the name of its system; evaluate with another --name")
    return SystemTable(tuple(reports), tuple(columns))


def _result(report: Report, column: Column) -> Result | None:
    return next((r for r in report.results if (r.view, r.direction, str(r.measure)) == column), None)


def _value_cell(result: Result | None) -> str:
    return "" if result is None else result.measure.show(result.value)
