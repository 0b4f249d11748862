"""Reports and comparisons as plain text, Markdown, LaTeX and CSV, all from the same grid of cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from limner.core.notebook import html_table
from limner.core.spreadsheet import guarded_row
from limner.evaluation.comparison import Comparison, Difference, Line
from limner.evaluation.estimated import VIEW, estimate_rows
from limner.evaluation.measures import Measure
from limner.evaluation.report import Report
from limner.evaluation.results import DIRECTIONS, Result, heading


@dataclass(frozen=True)
class Grid:
    """A table of cells with a title and a header row."""

    title: str
    rows: tuple[tuple[str, ...], ...]


def to_csv(records: Sequence[dict[str, object]]) -> str:
    """Flat records as CSV with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(guarded_row, records))
    return out.getvalue()


# --- reports ----------------------------------------------------------------------------------------------------


def report_grids(report: Report) -> list[Grid]:
    """One grid per view, with measures as rows and directions as columns, each number with its interval."""
    names = report.settings.get("names") or {}
    views = dict.fromkeys(r.view for r in report.results)
    found = [(view, [r for r in report.results if r.view == view]) for view in views]
    grids = [[_view_grid(view, results, names), *_bounds_grid(view, results, names)] for view, results in found]
    estimated = [Grid(VIEW, estimate_rows(report.estimates, DIRECTIONS))] if report.estimates else []
    return [*(grid for each in grids for grid in each), *estimated]


def _bounds_grid(view: str, results: list[Result], names: Mapping[str, str]) -> list[Grid]:
    """Bounds for unjudged answers: each value if all of them were wrong, and if all of them were right."""
    bounded = [r for r in results if r.bound is not None]
    if not bounded:
        return []
    directions = [d for d in DIRECTIONS if any(r.direction == d for r in bounded) and d != "both"]
    title = f"{names.get(view, view)}: all unjudged wrong to all right"
    rows = [(title, *(names.get(d, DIRECTIONS[d]) for d in directions))]
    for measure in dict.fromkeys(r.measure for r in bounded):
        found = {r.direction: _ends(r) for r in bounded if r.measure == measure}
        first = found.get("both", found.get(directions[0], ""))
        rows.append((str(measure), first, *(found.get(d, "") for d in directions[1:])))
    return [Grid(title, tuple(rows))]


def _ends(result: Result) -> str:
    show = result.measure.show
    return f"{show(result.value)} to {show(result.bound or 0.0)}"


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


def report_text(report: Report) -> str:
    """The report for a terminal."""
    head = f"{report.system} on {report.collection}"
    return "\n\n".join([head, *(plain_text(g) for g in report_grids(report)), *(f"note: {n}" for n in report.notes)])


def report_html(report: Report) -> str:
    """The report for a notebook."""
    return _notebook(f"{report.system} on {report.collection}", report_grids(report), report.notes)


def report_csv(report: Report) -> str:
    """The report as CSV, a line per result."""
    return to_csv(report.rows())


def report_markdown(report: Report) -> str:
    """The report as Markdown."""
    return document(f"# {report.system} on {report.collection}", report_grids(report), report.notes, markdown)


def report_latex(report: Report) -> str:
    """The report as LaTeX tables (booktabs)."""
    return document(f"% {report.system} on {report.collection}", report_grids(report), report.notes, latex, note="% ")


# --- comparisons ------------------------------------------------------------------------------------------------


def comparison_grids(comparison: Comparison) -> list[Grid]:
    """One grid per view and direction: two systems with their difference, more systems with letters."""
    keys = dict.fromkeys((n.view, n.direction) for n in comparison.lines)
    make = _two if len(comparison.systems) == 2 else _many
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
        one, other = (f"{names[n]} {value}" for n, value in zip((each.a, each.b), each.values, strict=True))
        mark = " *" if each.significant else ""
        rows.append((str(each.measure), one, other, f"{each}{mark}", each.measure.show_change(each.given)))
    return Grid(heading(VIEW, direction), tuple(rows))


def _two(comparison: Comparison, title: str, lines: list[Line]) -> tuple[tuple[str, ...], ...]:
    rows = [(title, *comparison.systems, "difference", f"p (Holm, {comparison.family})", "test")]
    for line in lines:
        values = [line.measure.show(v) for v in line.values]
        if not line.differences:
            rows.append((str(line.measure), *values, "", "", "not comparable"))
            continue
        d = line.differences[0]
        mark = " *" if d.significant(comparison.level) else ""
        rows.append((str(line.measure), *values, _signed(line.measure, d) + mark, _p(d.p_adjusted), d.test.method))
    return tuple(rows)


def _signed(measure: Measure, d: Difference) -> str:
    span = "" if d.interval is None else f" [{measure.show(d.interval.low)}, {measure.show(d.interval.high)}]"
    return measure.show_change(d.value) + span


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _many(comparison: Comparison, title: str, lines: list[Line]) -> tuple[tuple[str, ...], ...]:
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


def comparison_text(comparison: Comparison) -> str:
    """The comparison for a terminal."""
    notes = [comparison_foot(comparison), *(f"note: {n}" for n in comparison.notes)]
    return "\n\n".join([*(plain_text(g) for g in comparison_grids(comparison)), *notes])


def comparison_html(comparison: Comparison) -> str:
    """The comparison for a notebook."""
    notes = [comparison_foot(comparison), *comparison.notes]
    return _notebook(" and ".join(comparison.systems), comparison_grids(comparison), notes)


def comparison_csv(comparison: Comparison) -> str:
    """The comparison as CSV, a line per measure and pair of systems."""
    return to_csv(comparison.rows())


def comparison_markdown(comparison: Comparison) -> str:
    """The comparison as Markdown."""
    notes = [comparison_foot(comparison), *comparison.notes]
    return document(f"# {' and '.join(comparison.systems)}", comparison_grids(comparison), notes, markdown)


def comparison_latex(comparison: Comparison) -> str:
    """The comparison as LaTeX tables (booktabs)."""
    notes = [comparison_foot(comparison), *comparison.notes]
    return document(f"% {' and '.join(comparison.systems)}", comparison_grids(comparison), notes, latex, note="% ")


# --- output formats of a grid ----------------------------------------------------------------------------------


def document(
    head: str, grids: Sequence[Grid], notes: Sequence[str], write: Callable[[Grid], str], *, note: str = "Note: "
) -> str:
    """Grids and notes as one file."""
    return "\n\n".join([one_line(head), *map(write, grids), *(note + one_line(n) for n in notes)]) + "\n"


def one_line(text: str) -> str:
    """A text without line breaks, so that it stays in its cell or comment."""
    return " ".join(text.splitlines())


def _notebook(head: str, grids: Sequence[Grid], notes: Sequence[str]) -> str:
    tables = [html_table(f"{head}: {grid.title}", grid.rows) for grid in grids]
    return "".join([*tables, *(f"<p>{escape(note)}</p>" for note in notes)])


def plain_text(grid: Grid) -> str:
    """A table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*grid.rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in grid.rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def markdown(grid: Grid) -> str:
    """A table as Markdown."""
    escaped = [[one_line(cell).replace("|", "\\|") for cell in row] for row in grid.rows]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + " --- |" * len(grid.rows[0]), *lines[1:]])


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def latex(grid: Grid) -> str:
    """A grid as a LaTeX table (booktabs)."""
    escaped = [
        ["".join(_LATEX.get(c, c) for c in one_line(cell)).replace("->", r"$\to$") for cell in row] for row in grid.rows
    ]
    lines = [" & ".join(row) + r" \\" for row in escaped]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{l{'r' * (len(grid.rows[0]) - 1)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
