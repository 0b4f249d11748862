"""A leaderboard as tables, and as one web page: sortable, filterable, with the possible ranks of each system."""

from __future__ import annotations

import math
from dataclasses import replace

from limner.core.display_names import display_names
from limner.core.version import VERSION
from limner.evaluation.boards.board import Board, BoardRow, BoardTable
from limner.evaluation.measures import Measure
from limner.evaluation.tables import Document, Grid

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
