"""A table with a row per system, as papers print it: reports beside each other, a column per direction and measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report
from limner.evaluation.results import DIRECTIONS, Result
from limner.evaluation.tables import Document, Grid, TableReport

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
        return {"columns": [" ".join(column) for column in self.columns], "rows": self.rows()}

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
        rows = [(report.system, *(_cell(_result(report, column)) for column in columns)) for report in self.reports]
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


def _cell(result: Result | None) -> str:
    return "" if result is None else result.measure.show(result.value)
