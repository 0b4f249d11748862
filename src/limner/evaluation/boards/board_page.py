"""A leaderboard as one web page: sortable, filterable tables, with the possible ranks of each system."""

from __future__ import annotations

import math

from limner.core.version import VERSION
from limner.evaluation.boards.board import Board, BoardRow, BoardTable
from limner.evaluation.boards.board_tables import foot, needed, notes, ranks
from limner.evaluation.reports.page.words import slug
from limner.evaluation.reports.page.writing import NOTES, written


def render_board(board: Board) -> str:
    """Renders a leaderboard as one self-contained HTML page.

    Args:
        board: The leaderboard.

    Returns:
        The page as text.
    """
    tables = [{**_shown(table), "id": f"t{at}-{slug(table.title)}"} for at, table in enumerate(board.tables)]
    remarks = notes(board)
    contents = [*((table["id"], table["title"]) for table in tables), *([NOTES] if remarks else [])]
    return written("board.html", tables=tables, foot=foot(board), notes=remarks, contents=contents, version=VERSION)


def _shown(table: BoardTable) -> dict[str, object]:
    return {
        "title": table.title,
        "known": table.known,
        "method": table.method,
        "lead": _lead(table),
        "rows": [_cells(table, row) for row in table.rows],
    }


def _lead(table: BoardTable) -> str:
    """One sentence on which systems may be the best."""
    first, systems = table.first, len(table.rows)
    if len(first) == 1:
        return f"{first[0]} is the best of {systems} systems."
    if len(first) == systems:
        return f"Any of the {systems} systems may be the best: none can be told apart from all others."
    return f"{len(first)} of {systems} systems may be the best."


def _cells(table: BoardTable, row: BoardRow) -> dict[str, object]:
    show, systems = table.measure.show, len(table.rows)
    step = 100 / systems
    span = "" if row.low is None or row.high is None else f"{show(row.low)} to {show(row.high)}"
    told = row.detectable is not None and math.isfinite(row.detectable)
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
        "detectable": show(row.detectable) if told and row.detectable is not None else "",
        "least": row.detectable if told else "",
        "needed": needed(row),
        "most": "" if row.needed is None else "inf" if math.isinf(row.needed) else row.needed,
    }
