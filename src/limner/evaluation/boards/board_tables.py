"""The tables of a leaderboard."""

from __future__ import annotations

import math

from limner.evaluation.boards.board import Board, BoardRow
from limner.evaluation.measures import Measure
from limner.evaluation.tables import Document, Grid

MOST = 10_000_000
"""Larger numbers of queries are shown as "over" this."""
HEAD = ("ranks", "system", "value", "interval", "queries", "detectable", "queries needed")


def board_document(board: Board) -> Document:
    """What a leaderboard shows: a row per system, the best first."""
    grids = [
        Grid(t.title, (HEAD, *(_cells(t.measure, row) for row in t.rows)), f"{t.title} ({t.method})")
        for t in board.tables
    ]
    return Document("Leaderboard", grids, notes(board), (foot(board),), is_titled=False)


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
            f"ranks: all sets of a table hold the true ranks with {100 * board.level:g}% confidence",
            "interval: of the value alone, 95%",
            "detectable: the smallest difference to the next system that is told apart with 80% probability",
            "queries needed: to tell the difference to the next system with 80% probability, if it is true",
        ]
    )


def notes(board: Board) -> list[str]:
    """The notes of all tables, without repetitions."""
    return list(dict.fromkeys([*(note for table in board.tables for note in table.notes), *board.notes]))
