"""Leaderboards as plain text, Markdown and CSV."""

from __future__ import annotations

import math

from limner.evaluation.board import Board, BoardRow
from limner.evaluation.measures import Measure
from limner.evaluation.tables import Grid, document, markdown, plain_text, to_csv

MOST = 10_000_000
"""Larger numbers of queries are shown as "over" this."""
HEAD = ("ranks", "system", "value", "interval", "queries", "detectable", "queries needed")


def board_grids(board: Board) -> list[Grid]:
    """One grid per table: a row per system, the best first."""
    return [Grid(table.title, (HEAD, *(_cells(table.measure, row) for row in table.rows))) for table in board.tables]


def _cells(measure: Measure, row: BoardRow) -> tuple[str, ...]:
    span = "" if row.low is None or row.high is None else f"[{measure.show(row.low)}, {measure.show(row.high)}]"
    seen = "unknown" if row.queries is None else f"{row.queries:,}"
    return (
        ranks(row),
        row.system,
        measure.show(row.value),
        span,
        seen,
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
            f"ranks: all sets of a table hold the true ranks with {board.level:.0%} confidence",
            "detectable: the smallest difference to the next system that is told apart with 80% probability",
            "queries needed: to tell the difference to the next system, if it is true",
        ]
    )


def notes(board: Board) -> list[str]:
    """The notes of all tables, without repetitions."""
    return list(dict.fromkeys([*(note for table in board.tables for note in table.notes), *board.notes]))


def board_text(board: Board) -> str:
    """The board for a terminal."""
    grids = zip(board.tables, board_grids(board), strict=True)
    tables = [f"{table.title} ({table.method})\n{plain_text(grid)}" for table, grid in grids]
    return "\n\n".join([*tables, foot(board), *(f"note: {note}" for note in notes(board))])


def board_markdown(board: Board) -> str:
    """The board as Markdown."""
    said = [foot(board), *notes(board)]
    return document("# Leaderboard", board_grids(board), said, lambda grid: f"## {grid.title}\n\n{markdown(grid)}")


def board_csv(board: Board) -> str:
    """The board as CSV, a line per table and system."""
    return to_csv(board.rows())
