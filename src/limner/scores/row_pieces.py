"""A pass over few queries and many candidates: rows are divided into pieces, so that every core has work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from limner.core.progress import Progress
from limner.scores.base import Best, elsewhere
from limner.scores.parallel_blocks import Block, Divisible, PairScores, counted, threads, usable_cores

ENOUGH = 4
"""Pieces of work per core: with fewer, some cores are idle at the end of a pass."""


class Wide(Protocol):
    """Scores that can be read in pieces of rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, candidates)."""

    @property
    def block_rows(self) -> int:
        """Number of rows of a piece."""

    @property
    def piece_columns(self) -> int:
        """The smallest number of candidates that a piece should have; others are multiples of it."""

    def prepare(self) -> None:
        """Prepares a pass."""

    def piece(self, start: int, stop: int, low: int, high: int) -> Block:
        """Scores of queries start:stop and candidates low:high, equal to those in blocks."""


def in_pieces(
    scores: Wide, consume: object, *, pairs: PairScores | None = None, workers: int | None, progress: Progress
) -> Iterator[Any] | None:
    """The results of a pass, block by block; None if there are enough blocks, or if it needs whole rows.

    Args:
        scores: The scores.
        consume: As for `Scores.stream`; used if it can take pieces, see `Divisible`.
        pairs: Scores of single pairs, for consumers that need them; without it only `Best` takes pieces.
        workers: Threads; all cores by default.
        progress: Called with (rows done, rows in total).
    """
    (n, width), unit = scores.shape, scores.piece_columns
    blocks = -(-n // scores.block_rows)
    many = max(1, -(-ENOUGH * (workers or usable_cores()) // max(blocks, 1)))
    step = -(-width // (many * unit)) * unit
    if elsewhere(workers) or step >= width or not isinstance(consume, Divisible):
        return None
    if pairs is None and not isinstance(consume, Best):
        return None
    scores.prepare()
    divided = consume.divided(pairs)  # type: ignore[arg-type]  # `Best` needs no scores of pairs
    return None if divided is None else _joined(scores, divided, step, workers, progress)


def _joined(scores: Wide, divided: Any, step: int, workers: int | None, progress: Progress) -> Iterator[Any]:
    (n, width), rows = scores.shape, scores.block_rows
    starts, lows = range(0, n, rows), range(0, width, step)

    def work(place: tuple[int, int]) -> Any:
        start, low = place
        return divided.piece(start, low, scores.piece(start, min(start + rows, n), low, min(low + step, width)))

    with threads(workers) as work_on:
        parts = work_on(work, [(start, low) for start in starts for low in lows])
        results = (divided.join([next(parts) for _ in lows]) for _ in starts)
        yield from counted(results, rows, n, progress)
