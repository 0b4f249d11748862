"""A leaderboard as tables and as one web page; and the rank of each system under each measure, as a table and a chart.

As in Figures 4, 5 and E.3 of Chun et al. (2022), each system of the chart is a line from measure to measure; lines
cross if two measures order two systems differently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from itertools import pairwise

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.display_names import display_names
from limner.core.errors import LimnerError, UnknownName
from limner.core.version import VERSION
from limner.evaluation.boards.board import Board, BoardRow, BoardTable
from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report
from limner.evaluation.tables import Document, Grid
from limner.stats import kendall_tau_b
from limner.stats.correlation import mean_ranks

MOST = 10_000_000
"""Larger numbers of queries are shown as "over" this."""
HEAD = ("ranks", "system", "value", "interval", "queries", "detectable", "queries needed")


def board_document(board: Board) -> Document:
    """What a leaderboard shows: a row per system, the best first."""
    board = _shortly_named(board)
    grids = [
        Grid(t.title, (HEAD, *(_cells(t.measure, row) for row in t.rows)), f"{t.title} ({t.method})")
        for t in board.tables
    ]
    return Document("Leaderboard", grids, notes(board), (foot(board),), is_titled=False)


def _shortly_named(board: Board) -> Board:
    """The board with short names of its systems, told apart where they are the same."""
    names = list(dict.fromkeys(row.system for table in board.tables for row in table.rows))
    short = dict(zip(names, display_names(names), strict=True))
    tables = (
        replace(table, rows=tuple(replace(row, system=short[row.system]) for row in table.rows))
        for table in board.tables
    )
    return replace(board, tables=tuple(tables))


def _cells(measure: Measure, row: BoardRow) -> tuple[str, ...]:
    span = "" if row.low is None or row.high is None else f"[{measure.show(row.low)}, {measure.show(row.high)}]"
    queries = "unknown" if row.queries is None else f"{row.queries:,}"
    return (
        ranks(row),
        row.system,
        measure.show(row.value),
        span,
        queries,
        "" if row.detectable is None or not math.isfinite(row.detectable) else measure.show(row.detectable),
        needed(row),
    )


def ranks(row: BoardRow) -> str:
    """The possible ranks of a system: `3` or `2-5`."""
    return str(row.lowest) if row.lowest == row.highest else f"{row.lowest}-{row.highest}"


def needed(row: BoardRow) -> str:
    """The number of queries needed to distinguish a system from the next one, abbreviated."""
    if row.needed is None:
        return ""
    if math.isinf(row.needed):
        return "no difference"
    return f"{math.ceil(row.needed):,}" if row.needed <= MOST else f"over {MOST:,}"


def foot(board: Board) -> str:
    """Explanations of the columns."""
    return "\n".join(
        [
            f"ranks: all sets of a table hold the true ranks with {100 * board.level:g}% confidence",
            "interval: of the value alone, 95%",
            "detectable: the smallest difference to the next system that is told apart with 80% probability",
            "queries needed: to tell the difference to the next system with 80% probability, if it is true",
        ]
    )


def notes(board: Board) -> list[str]:
    """The notes of all tables, without repetitions."""
    return list(dict.fromkeys([*(note for table in board.tables for note in table.notes), *board.notes]))


# --- web page --------------------------------------------------------------------------------------------------------


def render_board(board: Board) -> str:
    """Renders a leaderboard as one self-contained HTML page.

    Args:
        board: The leaderboard.

    Returns:
        The page as text.
    """
    from limner.evaluation.reports.page import NOTES, written
    from limner.evaluation.reports.page.words import slug

    board = _shortly_named(board)
    tables = [{**_table_content(table), "id": f"t{at}-{slug(table.title)}"} for at, table in enumerate(board.tables)]
    remarks = notes(board)
    contents = [*((table["id"], table["title"]) for table in tables), *([NOTES] if remarks else [])]
    return written("board.html", tables=tables, foot=foot(board), notes=remarks, contents=contents, version=VERSION)


def _table_content(table: BoardTable) -> dict[str, object]:
    return {
        "title": table.title,
        "known": table.known,
        "method": table.method,
        "lead": _lead(table),
        "rows": [_page_cells(table, row) for row in table.rows],
    }


def _lead(table: BoardTable) -> str:
    """One sentence on which systems may be the best."""
    first, systems = table.first, len(table.rows)
    if len(first) == 1:
        return f"{first[0]} is the best of {systems} systems."
    if len(first) == systems:
        return f"Any of the {systems} systems may be the best: none can be told apart from all others."
    return f"{len(first)} of {systems} systems may be the best."


def _page_cells(table: BoardTable, row: BoardRow) -> dict[str, object]:
    show, systems = table.measure.show, len(table.rows)
    step = 100 / systems
    span = "" if row.low is None or row.high is None else f"{show(row.low)} to {show(row.high)}"
    is_detectable = row.detectable is not None and math.isfinite(row.detectable)
    return {
        "system": row.system,
        "ranks": ranks(row),
        "lowest": row.lowest,
        "left": f"{(row.lowest - 1) * step:.1f}",
        "width": f"{(row.highest - row.lowest + 1) * step:.1f}",
        "dot": f"{(row.rank - 0.5) * step:.1f}",
        "value": show(row.value),
        "sortable": row.value,
        "span": span,
        "queries": "unknown" if row.queries is None else f"{row.queries:,}",
        "number": "" if row.queries is None else row.queries,
        "detectable": show(row.detectable) if is_detectable and row.detectable is not None else "",
        "least": row.detectable if is_detectable else "",
        "needed": needed(row),
        "most": "" if row.needed is None else "inf" if math.isinf(row.needed) else row.needed,
    }


_STEP, _ROW, _EDGE = 150, 22, 190  # pixels of the chart: between measures, between ranks, and for names on both sides
WIDTH = 80
"""Columns of a printed table."""
_COLOURS = ("#1b6ca8", "#c44536", "#2e7d4f", "#8a5a00", "#6a4c93", "#00798c", "#9c2c77", "#4f5d2f")


@dataclass(frozen=True, eq=False)
class SystemRanks:
    """Systems under several measures.

    Args:
        systems: Their names.
        columns: View, direction and measure of each column.
        values: (systems, columns).
        better: 1 for each column in which higher is better, -1 for the others.
    """

    systems: tuple[str, ...]
    columns: tuple[str, ...]
    values: FloatArray
    better: tuple[int, ...]

    @cached_property
    def ranks(self) -> FloatArray:
        """The ranks, (systems, columns): 1 for the best; ties share their mean rank."""
        signed = -self.values * np.array(self.better)
        return np.column_stack([mean_ranks(column) for column in signed.T])

    @cached_property
    def tau(self) -> FloatArray:
        """Kendall's tau-b between every pair of columns; NaN if a column ties all systems."""
        signed = self.values * np.array(self.better)
        correlations = np.full((len(self.columns), len(self.columns)), np.nan)
        for i, j in np.ndindex(*correlations.shape):
            if np.ptp(signed[:, i]) > 0 and np.ptp(signed[:, j]) > 0:
                correlations[i, j] = kendall_tau_b(signed[:, i], signed[:, j])
        return correlations

    def only(self, *, systems: Iterable[str] = (), columns: Iterable[str] = ()) -> SystemRanks:
        """Only some of the systems and measures; ranks are computed among these."""
        rows, named = (
            _chosen(self.systems, systems, "system"),
            _chosen(self.columns, columns, "measure of these systems"),
        )
        return SystemRanks(
            tuple(self.systems[r] for r in rows),
            tuple(self.columns[c] for c in named),
            self.values[np.ix_(rows, named)],
            tuple(self.better[c] for c in named),
        )

    def __str__(self) -> str:
        """The ranks as tables of at most 80 columns, with the tau-b between each measure and the first."""
        names = (*self.systems, "tau-b with the first")
        cells = [[f"{rank:g}" for rank in row] for row in self.ranks]
        cells.append(["–" if t != t else f"{t:.2f}" for t in self.tau[0]])
        heads = [column.split() for column in self.columns]
        height, edge = max(map(len, heads)), max(map(len, names))
        columns = [
            _aligned([*[""] * (height - len(head)), *head, *column])
            for head, column in zip(heads, zip(*cells, strict=True), strict=True)
        ]
        left = [" " * edge] * height + [name.ljust(edge) for name in names]
        blocks = _blocks([len(column[0]) for column in columns], WIDTH - edge)
        return "\n\n".join(_joined(left, columns[low:high]) for low, high in blocks)

    def svg(self) -> str:
        """The chart: a line per system, the best at the top, with tau-b between neighbouring measures."""
        width = 2 * _EDGE + _STEP * (len(self.columns) - 1)
        height = 70 + _ROW * len(self.systems)
        look = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {look}>']
        parts += [_text(_EDGE + _STEP * c, 18, name, "middle") for c, name in enumerate(self.columns)]
        for c in range(len(self.columns) - 1):
            tau = self.tau[c, c + 1]
            parts.append(_text(_EDGE + _STEP * (c + 0.5), 36, "τ –" if tau != tau else f"τ {tau:.2f}", "middle"))
        for number, name in enumerate(self.systems):
            parts += self._line(number, name)
        return "\n".join([*parts, "</svg>\n"])

    def _line(self, number: int, name: str) -> list[str]:
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(_EDGE + _STEP * c, 50 + _ROW * (rank - 0.5)) for c, rank in enumerate(self.ranks[number])]
        drawn = " ".join(f"{x:g},{y:g}" for x, y in places)
        line = f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>'
        dots = [f'<circle cx="{x:g}" cy="{y:g}" r="3.5" fill="{colour}"/>' for x, y in places]
        ends = (
            _text(_EDGE - 10, places[0][1] + 4, name, "end"),
            _text(places[-1][0] + 10, places[-1][1] + 4, name, "start"),
        )
        return [line, *dots, *ends]


def _aligned(column: Sequence[str]) -> list[str]:
    """The cells of a column, right-aligned, with a space before them."""
    width = max(map(len, column))
    return [f" {cell:>{width}}" for cell in column]


def _blocks(widths: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Where a table is cut, so that each part fits; a part has one column at least.

    >>> _blocks([8, 8, 8, 8], 17), _blocks([30], 10)
    ([(0, 2), (2, 4)], [(0, 1)])
    """
    cuts, used = [0], 0
    for at, width in enumerate(widths):
        if used and used + width > room:
            cuts, used = [*cuts, at], 0
        used += width
    return list(pairwise([*cuts, len(widths)]))


def _joined(left: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    return "\n".join("".join(row).rstrip() for row in zip(left, *columns, strict=True))


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def _chosen(available: Sequence[str], names_wanted: Iterable[str], noun: str) -> list[int]:
    names = list(names_wanted)
    for name in names:
        if name not in available:
            raise UnknownName(noun, name, available)
    return [available.index(name) for name in names] if names else list(range(len(available)))


def of_reports(reports: Sequence[Report]) -> SystemRanks:
    """Systems under all measures that their reports share.

    Args:
        reports: Two or more reports, of systems with different names.
    """
    names = [report.system for report in reports]
    if len(names) < 2 or len(set(names)) < len(names):
        raise LimnerError(
            f"{len(names)} reports of {len(set(names))} systems: expected two or more with different names"
        )
    by_key = [{(r.view, r.direction, str(r.measure)): r for r in report.results} for report in reports]
    common = [key for key in by_key[0] if all(key in results for results in by_key)]
    if not common:
        raise LimnerError("the reports have no measure in common: evaluate the systems in the same way")
    values = np.array([[of[key].value for key in common] for of in by_key])
    if not np.isfinite(values).all():
        keep = np.isfinite(values).all(axis=0)
        common, values = [key for key, is_finite in zip(common, keep, strict=True) if is_finite], values[:, keep]
    better = tuple(by_key[0][key].measure.kind.better for key in common)
    return SystemRanks(display_names(names), tuple(" ".join(key) for key in common), values, better)
