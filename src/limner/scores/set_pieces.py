"""Products of single vectors, computed in pieces and pooled into scores of items with several vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from limner.core.arrays import Float32, IntArray
from limner.scores.base import TILE_COLUMNS, TILE_ROWS
from limner.scores.exact_pairs import Products
from limner.scores.tiles import SMALL

CHUNK = 4 * TILE_COLUMNS
"""Number of candidate vectors whose products with a tile of query vectors are in memory at once."""


FEW = SMALL[-1][0]
"""Number of query vectors for which smaller tiles compute fewer products."""


class Singles(Protocol):
    """Scores of single vectors."""

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of up to `TILE_ROWS` query vectors start:stop and candidate vectors low:high."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """Scores of single vectors for a few query vectors, from smaller tiles that round like the whole one."""

    singles: Products

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of query vectors start:stop and candidate vectors low:high, equal to those in blocks."""
        return self.singles.tiles(self.singles.query_vectors.matrix[start:stop], slice(low, high))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Products of the vectors of some queries with those of all candidates, in pieces that are pooled one by one.

    Args:
        singles: Scores of single vectors.
        rows: Where the vectors of each query begin, and where the last ones end.
        columns: Where the vectors of each candidate begin, and where the last ones end.
    """

    singles: Singles
    rows: IntArray
    columns: IntArray

    def pooled(self, pooling: str, *, turned: bool) -> Float32:
        """The scores of all queries and candidates: "max", or "maxsim" with the sum over query or candidate vectors."""
        if pooling == "max":
            return self.highest()
        return self.sums_over_columns() if turned else self.sums_over_rows()

    def highest(self) -> Float32:
        """The best pair of vectors."""
        from limner.scores import pooling_kernels

        best = np.full((len(self.rows) - 1, len(self.columns) - 1), -np.inf, dtype=np.float32)
        for owners, pooled in self._by_rows():
            pooling_kernels.highest_of_rows(pooled, owners, best)
        return best

    def sums_over_rows(self) -> Float32:
        """The sum over query vectors of their best candidate vector."""
        from limner.scores import pooling_kernels

        sums = np.zeros((len(self.rows) - 1, len(self.columns) - 1))
        for owners, pooled in self._by_rows():
            pooling_kernels.add_rows_of_items(pooled, owners, sums)
        return sums.astype(np.float32)

    def sums_over_columns(self) -> Float32:
        """The sum over candidate vectors of their best query vector."""
        from limner.scores import pooling_kernels

        sums = np.zeros((len(self.rows) - 1, len(self.columns) - 1))
        for low, high in self._chunks():
            best = np.full((len(sums), high - low), -np.inf, dtype=np.float32)
            for start, stop in self._tiles():
                piece = self.singles.piece(start, stop, low, high)
                pooling_kernels.highest_of_rows(piece, owners_of(self.rows, start, stop), best)
            pooling_kernels.add_columns_of_items(best, owners_of(self.columns, low, high), sums)
        return sums.astype(np.float32)

    def _by_rows(self) -> Iterator[tuple[IntArray, Float32]]:
        """Yields (owners, best score with each candidate) for each tile of query vectors."""
        from limner.scores import pooling_kernels

        for start, stop in self._tiles():
            pooled = np.full((stop - start, len(self.columns) - 1), -np.inf, dtype=np.float32)
            for low, high in self._chunks():
                first, last = (int(at) for at in owners_of(self.columns, low, high)[[0, -1]])
                ends = np.minimum(self.columns[first + 1 : last + 2], high) - low
                pooling_kernels.highest_of_columns(self.singles.piece(start, stop, low, high), ends, first, pooled)
            yield owners_of(self.rows, start, stop), pooled

    def _tiles(self) -> Iterator[tuple[int, int]]:
        low, high = int(self.rows[0]), int(self.rows[-1])
        return ((r, min(r + TILE_ROWS, high)) for r in range(low, high, TILE_ROWS))

    def _chunks(self) -> Iterator[tuple[int, int]]:
        low, high = int(self.columns[0]), int(self.columns[-1])
        return ((c, min(c + CHUNK, high)) for c in range(low, high, CHUNK))


def item_ranges(starts: IntArray, width: int, *, most: int | None = None) -> list[tuple[int, int]]:
    """Ranges of items with at most `width` vectors together, and of at most so many items; at least one item each.

    >>> item_ranges(np.array([0, 2, 3, 9, 10]), 3), item_ranges(np.array([0, 2, 3, 9, 10]), 3, most=1)
    ([(0, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (2, 3), (3, 4)])
    """
    found, first = [], 0
    while first < len(starts) - 1:
        last = max(int(np.searchsorted(starts, starts[first] + width, side="right")) - 1, first + 1)
        last = last if most is None else min(last, first + most)
        found.append((first, last))
        first = last
    return found


def owners_of(starts: IntArray, low: int, high: int) -> IntArray:
    """The item that each vector of a range belongs to."""
    return np.searchsorted(starts, np.arange(low, high), side="right") - 1
