"""Loops that pool products of single vectors into scores of items with several vectors. All release the GIL.

Sums are in double precision and in the order of the vectors, so that they do not depend on how blocks are cut.
"""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
# Products are finite, and the order of -0.0 and 0.0 does not matter: these flags let the loops vectorise.
_highest = compiled(nogil=True, fastmath={"nnan", "nsz"}, boundscheck=False)


@_highest
def highest_of_columns(block, ends, first, pooled):  # type: ignore[no-untyped-def]
    """Raises `pooled` to the highest value of each range of columns.

    Args:
        block: Products, a row per vector.
        ends: Where the ranges end; each begins where the previous one ends.
        first: The column of `pooled` for the first range.
        pooled: Output, a row per vector and a column per item.
    """
    for r in range(block.shape[0]):
        low = 0
        for n in range(ends.shape[0]):
            top = pooled[r, first + n]
            for i in range(np.uint64(low), np.uint64(ends[n])):
                value = block[r, i]
                top = value if value > top else top
            pooled[r, first + n] = top
            low = ends[n]


@_highest
def highest_of_rows(block, owners, pooled):  # type: ignore[no-untyped-def]
    """Raises row `owners[r]` of `pooled` to row r of the block, column by column."""
    for r in range(block.shape[0]):
        row, held = block[r], pooled[owners[r]]
        for i in range(row.shape[0]):
            held[i] = row[i] if row[i] > held[i] else held[i]


@_jit
def add_rows_of_items(block, owners, sums):  # type: ignore[no-untyped-def]
    """Adds row r of a block to row `owners[r]` of the sums."""
    for r in range(block.shape[0]):
        row, held = block[r], sums[owners[r]]
        for i in range(row.shape[0]):
            held[i] += np.float64(row[i])


@_jit
def add_columns_of_items(block, owners, sums):  # type: ignore[no-untyped-def]
    """Adds column i of a block to column `owners[i]` of the sums."""
    for r in range(block.shape[0]):
        for i in range(block.shape[1]):
            sums[r, owners[i]] += np.float64(block[r, i])
