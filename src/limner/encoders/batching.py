"""Batches of texts of similar length, to reduce padding, and work in pieces of a few seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, IntArray
from limner.core.errors import LimnerError

PART_SECONDS = 5.0
"""Seconds of work per piece: at most this much is lost if the process is killed."""
_FIRST = 32  # items in the first piece, before the speed is known


def at_least_one(value: int | None, name: str, *, default: int) -> int:
    """The given batch size, or the default; a size below 1 is refused.

    >>> at_least_one(None, "batch_size", default=16), at_least_one(4, "batch_size", default=16)
    (16, 4)
    >>> at_least_one(0, "batch_size", default=16)
    Traceback (most recent call last):
    limner.core.errors.LimnerError: batch_size=0: expected at least 1
    """
    if value is not None and value < 1:
        raise LimnerError(f"{name}={value}: expected at least 1")
    return default if value is None else value


def by_length(lengths: Sequence[int] | Array, *, budget: int, max_rows: int = 4096) -> Iterator[IntArray]:
    """Groups rows into batches, the longest first, of at most `budget` tokens each, including padding.

    The longest rows come first, so that running out of memory happens at the start and not after an hour.

    Args:
        lengths: Number of tokens of each row.
        budget: Maximum number of tokens in a batch, padding included; a longer row gets its own batch.
        max_rows: Maximum number of rows in a batch.

    >>> [rows.tolist() for rows in by_length([3, 9, 2, 4, 8], budget=18)]
    [[1, 4], [3, 0, 2]]
    """
    if budget < 1 or max_rows < 1:
        raise LimnerError(f"batches of {budget} tokens and {max_rows} rows: expected at least 1 of each")
    token_counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-token_counts, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, min(max_rows, budget // max(int(token_counts[order[start]]), 1)))
        yield order[start : start + size]
        start += size


def paced(total: int, *, max_items: int, seconds: float | None = PART_SECONDS) -> Iterator[slice]:
    """Splits work into pieces of a few seconds and at most `max_items` items, so that little is lost if it is killed.

    The time of a piece is measured until the next one is requested.

    Args:
        total: Total number of items.
        max_items: Maximum number of items in a piece.
        seconds: Target time of a piece; None for no target.

    >>> list(paced(100, max_items=60))
    [slice(0, 32, None), slice(32, 92, None), slice(92, 100, None)]
    """
    low, size = 0, max_items if seconds is None else min(_FIRST, max_items)
    while low < total:
        began = monotonic()
        yield slice(low, min(low + size, total))
        low += size
        if seconds is not None:
            ideal = size * min(8.0, seconds / max(monotonic() - began, 1e-9))
            size = max_items if ideal >= max_items else 1 << max(0, int(ideal).bit_length() - 1)


def padded(rows: Sequence[Sequence[int]], *, fill: int = 0) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Pads rows to one matrix; returns it with the mask of its filled positions.

    >>> matrix, filled = padded([[5, 6], [7]])
    >>> matrix.tolist(), filled.tolist()
    ([[5, 6], [7, 0]], [[True, True], [True, False]])
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    filled = np.arange(lengths.max(initial=1))[None, :] < lengths[:, None]
    matrix = np.full(filled.shape, fill, dtype=np.int64)
    matrix[filled] = np.fromiter((n for row in rows for n in row), dtype=np.int64, count=int(lengths.sum()))
    return matrix, filled
