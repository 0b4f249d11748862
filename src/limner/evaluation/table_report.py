"""A report of flat records: prints as a table, and is saved as .json, .csv or .txt."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from limner.core.formats import save_as
from limner.core.frames import Tabular, by_column
from limner.core.registry import Registry
from limner.evaluation.tables import Grid, plain_text, to_csv
from limner.stats import Interval

TABLE_FORMATS: Registry[Callable[..., str]] = Registry(
    "report file ending",
    {
        ".json": "limner.evaluation.table_report:table_json",
        ".csv": "limner.evaluation.table_report:table_csv",
        ".txt": "limner.evaluation.table_report:table_text",
    },
)
"""File formats of a `TableReport`, by file ending; ".txt" is what `print` shows."""


class TableReport(Tabular):
    """A mixin for reports that are a list of flat records."""

    kind: ClassVar[str]
    """What the .json file says it is, such as "composed"."""

    @abstractmethod
    def rows(self) -> Sequence[dict[str, object]]:
        """One flat record per line: the form of the CSV file."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Plain values that hold the whole report."""

    def save(self, path: str | Path) -> Path:
        """Writes the report in the format of the file extension, one of `TABLE_FORMATS`."""
        return save_as(self, path, TABLE_FORMATS, {}, what=f"{self.kind} report")

    def _columns(self) -> dict[str, list[object]]:
        return by_column(self.rows())


def table_json(report: TableReport) -> str:
    """The report as JSON, with its kind."""
    return json.dumps({"limner": report.kind, **report.describe()}, ensure_ascii=False)


def table_csv(report: TableReport) -> str:
    """The report as CSV, a line per record."""
    return to_csv(report.rows())


def table_text(report: TableReport) -> str:
    """What `print` shows."""
    return str(report)


def titled(title: str, grids: Iterable[Grid], notes: Iterable[str]) -> str:
    """A title, tables and notes for a terminal."""
    return "\n\n".join([title, *map(plain_text, grids), *(f"note: {note}" for note in notes)])


def percent(value: Interval) -> str:
    """A share with its interval.

    >>> from limner.stats import mean_interval
    >>> percent(mean_interval([0.5, 0.5]))
    '50.0 [0.9, 99.1]'
    """
    return f"{100 * value.estimate:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"
