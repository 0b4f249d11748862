"""Document of a report: for a terminal and a notebook, and as Markdown, LaTeX, CSV and JSON files."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from limner.core.arrow_tables import Tabular, by_column
from limner.core.errors import LimnerError
from limner.core.files import write_file
from limner.core.markup import guarded_row, html_table
from limner.core.paths import place_for
from limner.core.registry import Registry, checked
from limner.stats import Interval

DOCUMENTS: Registry[Callable[..., Document]] = Registry(
    "kind of report",
    {
        "report": "limner.evaluation.reports.report_tables:report_document",
        "comparison": "limner.evaluation.reports.report_tables:comparison_document",
        "slices": "limner.evaluation.reports.report_tables:slice_document",
        "board": "limner.evaluation.boards.board_tables:board_document",
    },
)
"""The tables of a report, by its kind, where another module makes them."""

FORMATS = {
    ".json": "limner.evaluation.tables:json_text",
    ".csv": "limner.evaluation.tables:csv_text",
    ".md": "limner.evaluation.tables:markdown",
    ".tex": "limner.evaluation.tables:latex",
    ".txt": "limner.evaluation.tables:text",
}
"""What every report can be saved as: `(report, **options) -> str`, by file ending."""


@dataclass(frozen=True)
class Grid:
    """A table of cells with a title and a header row.

    Args:
        title: What the table is about.
        rows: The rows, the header first.
        caption: A line above the table, where its header does not say what it is about.
    """

    title: str
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


Block = str | Grid
"""A paragraph or a table."""


@dataclass(frozen=True)
class Document:
    """What a report shows.

    Args:
        title: What the tables are about.
        grids: The tables.
        notes: Remarks on the numbers.
        foot: Explanations of marks and columns.
        is_titled: Whether a terminal shows the title, because the tables do not say it.
    """

    title: str
    grids: Sequence[Grid]
    notes: Sequence[str] = ()
    foot: Sequence[str] = ()
    is_titled: bool = True

    def blocks(self) -> list[Block]:
        """What a terminal shows."""
        notes = (f"note: {note}" for note in self.notes)
        return [*([self.title] if self.is_titled else []), *self.grids, *self.foot, *notes]

    def __str__(self) -> str:
        return blocks_text(self.blocks())


class TableReport(Tabular):
    """A mixin for what prints as tables, and is saved in the format of the file ending."""

    kind: ClassVar[str]
    """What the .json file says it is, such as "composed"."""
    formats: ClassVar[Registry[Callable[..., str | bytes]]] = Registry("file ending of a report", FORMATS)
    """File formats by file ending: `(report, **options) -> str or bytes`. `print` shows ".txt"."""

    @abstractmethod
    def rows(self) -> list[dict[str, object]]:
        """One flat record per line, as in the CSV file."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """The whole report as plain values."""

    def document(self) -> Document:
        """What the report shows."""
        return DOCUMENTS[self.kind](self)

    def blocks(self) -> list[Block]:
        """What a terminal shows."""
        return self.document().blocks()

    def save(self, path: str | Path, **options: object) -> Path:
        """Writes the report in the format of the file ending, one of `formats`.

        Args:
            path: The file.
            options: Options of the format.
        """
        return save_as(self, path, self.formats, options, what=self.kind)

    def _columns(self) -> dict[str, list[object]]:
        return by_column(self.rows())

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)


# --- formats -----------------------------------------------------------------------------------------------------


def text(report: TableReport) -> str:
    """For a terminal."""
    return blocks_text(report.blocks())


def html(report: TableReport) -> str:
    """For a notebook."""
    document = report.document()
    grids = (html_table(f"{document.title}: {grid.title}", grid.rows) for grid in document.grids)
    return "".join([*grids, *(f"<p>{escape(note)}</p>" for note in (*document.foot, *document.notes))])


def markdown(report: TableReport) -> str:
    """As Markdown."""
    document = report.document()
    grids = [
        f"## {one_line(g.caption)}\n\n{markdown_grid(g)}" if g.caption else markdown_grid(g) for g in document.grids
    ]
    notes = (f"Note: {one_line(note)}" for note in document.notes)
    return "\n\n".join([f"# {one_line(document.title)}", *grids, *map(one_line, document.foot), *notes]) + "\n"


def latex(report: TableReport) -> str:
    """As LaTeX tables (booktabs)."""
    document = report.document()
    grids = [f"% {one_line(g.caption)}\n{latex_grid(g)}" if g.caption else latex_grid(g) for g in document.grids]
    notes = (f"% {one_line(note)}" for note in (*document.foot, *document.notes))
    return "\n\n".join([f"% {one_line(document.title)}", *grids, *notes]) + "\n"


def csv_text(report: TableReport) -> str:
    """As CSV, a line per record."""
    return to_csv(report.rows())


def json_text(report: TableReport) -> str:
    """As JSON, with its kind."""
    return json.dumps({"limner": report.kind, **json_ready(report.describe())}, ensure_ascii=False, allow_nan=False)


# --- one table ---------------------------------------------------------------------------------------------------


def to_csv(records: Sequence[dict[str, object]]) -> str:
    """Flat records as CSV with a header line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(guarded_row, records))
    return out.getvalue()


def one_line(text: str) -> str:
    """A text without line breaks, so that it stays in its cell or comment."""
    return " ".join(text.splitlines())


def blocks_text(blocks: Sequence[Block]) -> str:
    """Paragraphs and tables, a blank line between two; a caption is above its table."""
    return "\n\n".join(
        block if isinstance(block, str) else "\n".join([*([block.caption] if block.caption else []), plain_text(block)])
        for block in blocks
    )


def plain_text(grid: Grid) -> str:
    """A table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*grid.rows, strict=True)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in grid.rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def markdown_grid(grid: Grid) -> str:
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


def latex_grid(grid: Grid) -> str:
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


def percent(value: Interval) -> str:
    """A share with its interval.

    >>> from limner.stats import mean_interval
    >>> percent(mean_interval([0.5, 0.5]))
    '50.0 [0.9, 99.1]'
    """
    return f"{100 * value.estimate:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def shown_p(value: float) -> str:
    """A p-value for a table.

    >>> shown_p(0.00001), shown_p(0.0312)
    ('< 0.0001', '0.0312')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def json_ready(value: object) -> Any:
    """The same data with only JSON types; JSON has no infinity, which is the rank of a candidate that is never found.

    >>> json_ready({"ranks": [1.0, float("inf")], "score": float("-inf")})
    {'ranks': [1.0, None], 'score': '-inf'}
    """
    if isinstance(value, Mapping):
        return {key: json_ready(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(entry) for entry in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if value == math.inf else str(value)


Content = TypeVar("Content", bound=str | bytes)


def save_as(
    value: object,
    path: str | Path,
    formats: Registry[Callable[..., Content]],
    options: Mapping[str, object],
    *,
    what: str,
) -> Path:
    """Writes a value atomically, in the format given by the file extension.

    Args:
        value: The value to write.
        path: The file; its folder must exist.
        formats: Functions `(value, **options) -> str or bytes` by file extension.
        options: Options of the format; unknown options are refused.
        what: Name of the value in error messages.

    Returns:
        The path.
    """
    target = place_for(path)
    ending = target.suffix.lower()
    if ending not in formats:
        raise LimnerError(
            f"unknown {what} file ending {target.suffix or target.name!r}: expected one of {', '.join(formats)}"
        )
    write = formats[ending]
    chosen = checked(write, options, what=f"a {ending} {what}", filled=1) if options else {}
    write_file(target, write(value, **chosen))
    return target
