"""Batches of texts of one length or nearly so, so that little is computed for padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.errors import LimnerError

IntArray = npt.NDArray[np.int64]


def by_length(lengths: Sequence[int] | npt.NDArray[Any], *, budget: int, most: int = 4096) -> Iterator[IntArray]:
    """Rows in batches, the longest first, each of at most `budget` tokens with its padding.

    The longest come first, so that what does not fit into memory fails at once and not after an hour.

    Args:
        lengths: Tokens of each row.
        budget: Tokens of a batch, padding included; a row that is longer has a batch of its own.
        most: Rows of a batch.

    >>> [rows.tolist() for rows in by_length([3, 9, 2, 4, 8], budget=18)]
    [[1, 4], [3, 0, 2]]
    """
    if budget < 1 or most < 1:
        raise LimnerError(f"batches of {budget} tokens and {most} rows: expected at least 1 of each")
    known = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-known, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, min(most, budget // max(int(known[order[start]]), 1)))
        yield order[start : start + size]
        start += size


def padded(rows: Sequence[Sequence[int]], *, fill: int = 0) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """Rows of numbers as one matrix, and which of its places are filled.

    >>> matrix, filled = padded([[5, 6], [7]])
    >>> matrix.tolist(), filled.tolist()
    ([[5, 6], [7, 0]], [[True, True], [True, False]])
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    filled = np.arange(lengths.max(initial=1))[None, :] < lengths[:, None]
    matrix = np.full(filled.shape, fill, dtype=np.int64)
    matrix[filled] = np.fromiter((n for row in rows for n in row), dtype=np.int64, count=int(lengths.sum()))
    return matrix, filled
