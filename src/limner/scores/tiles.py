"""Products of vectors in whole tiles of one shape, so that a score depends only on its two vectors."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.scores.base import TILE_COLUMNS, TILE_ROWS
from limner.scores.parallel_blocks import one_thread_per_product

Shape = tuple[int, int]
WHOLE: Shape = (TILE_ROWS, TILE_COLUMNS)
SMALL: tuple[Shape, ...] = ((8, 32), (32, 64), (32, 1024), (64, 256), (64, 1024))
"""Smaller tiles that may round like the whole tile, the smallest first."""
PARTS = (128, 192, 240, 256, 320, 352, 384, 448, 512, 640, 768, 1024)
"""Numbers of dimensions that a matrix library may add up at a time."""
UNITS = (16, 8, 4)
"""The smaller part that it divides the rest into may be a multiple of these."""


def fill(block: Float32, rows: Float32, columns: Float32) -> None:
    """Products of at most `TILE_ROWS` rows, from whole tiles: edges are padded with zeros."""
    rows, width = _padded(rows, TILE_ROWS), len(columns)
    whole = width - width % TILE_COLUMNS
    for low in range(0, whole, TILE_COLUMNS):
        np.matmul(rows, columns[low : low + TILE_COLUMNS].T, out=block[:, low : low + TILE_COLUMNS])
    if whole < width:
        block[:, whole:] = np.matmul(rows, _padded(columns[whole:], TILE_COLUMNS).T)[:, : width - whole]


def fill_small(block: Float32, rows: Float32, columns: Float32) -> None:
    """The same numbers for a few rows and columns, from the smallest tile that rounds like the whole one."""
    with one_thread_per_product():
        fill_few(block, rows, columns)


def few_rows(dimensions: int) -> int:
    """Number of rows of the smallest tile that rounds like the whole one."""
    return _equal_tiles(dimensions)[0][0]


def tile_for(rows: int, columns: int, dimensions: int) -> Shape:
    """The tile that rounds like the whole one and suits so many rows and columns.

    It is the lowest that has the rows, and of those the widest that the columns fill, or else the narrowest.
    """
    fit = [shape for shape in _equal_tiles(dimensions) if shape[0] >= min(rows, TILE_ROWS)]
    low = [shape for shape in fit if shape[0] == fit[0][0]]
    return max((shape for shape in low if shape[1] <= columns), default=low[0])


def fill_few(block: Float32, rows: Float32, columns: Float32) -> None:
    """Like `fill_small`, in a thread whose products already use one core."""
    height, width = tile_for(len(rows), len(columns), rows.shape[1])
    for top in range(0, len(rows), height):
        part = _padded(rows[top : top + height], height)
        for low in range(0, len(columns), width):
            tile = np.matmul(part, _padded(columns[low : low + width], width).T)
            place = block[top : top + height, low : low + width]
            place[:] = tile[: place.shape[0], : place.shape[1]]


@cache
def _equal_tiles(dimensions: int) -> tuple[Shape, ...]:
    """The tiles whose products equal those of the whole tile bit for bit, the smallest first; the whole one is last.

    The order in which a matrix library sums depends on the shapes, not on the numbers. Two different orders give
    different bits for many random products whose terms differ widely in size, so two shapes that agree on a whole tile
    of such products use the same order. This compares the last small tiles of the whole one: 65,536 products of each
    small shape.
    """
    rng, (height, width) = np.random.default_rng(0), SMALL[-1]
    rows, columns = np.zeros((TILE_ROWS, dimensions), np.float32), np.zeros((TILE_COLUMNS, dimensions), np.float32)
    rows[-height:], columns[-width:] = _uneven(rng, height, dimensions), _uneven(rng, width, dimensions)
    with one_thread_per_product():
        whole = np.matmul(rows, columns.T)[-height:, -width:]
        equal = [s for s in SMALL if np.array_equal(_tiled(rows[-height:], columns[-width:], s), whole)]
    return (*equal, WHOLE)


@cache
def sum_ends(dimensions: int) -> npt.NDArray[np.int64]:
    """Where the parts of a sum end, if the matrix library adds up products one after another; empty if it does not.

    Then the score of a single pair can be computed without a tile: see `pair_kernels`. Compares all scores
    of some rows of a tile whose terms differ widely in size, like `_equal_tiles`.
    """
    from limner.scores.pair_kernels import scores_of

    rng, every = np.random.default_rng(0), np.arange(TILE_COLUMNS)
    rows, columns = _uneven(rng, TILE_ROWS, dimensions), _uneven(rng, TILE_COLUMNS, dimensions)
    with one_thread_per_product():
        whole = np.matmul(rows, columns.T)

    def equal(row: int, ends: npt.NDArray[np.int64]) -> bool:
        found = np.empty(TILE_COLUMNS, np.float32)
        scores_of(rows[row], columns, every, ends, found)
        return np.array_equal(found, whole[row])

    for ends in dict.fromkeys(_ends(dimensions, part, unit) for unit in UNITS for part in (dimensions, *PARTS)):
        if all(equal(row, np.array(ends)) for row in range(0, TILE_ROWS, 7)):
            return np.array(ends)
    return np.zeros(0, np.int64)


def _ends(dimensions: int, part: int, unit: int) -> tuple[int, ...]:
    """The ends of parts of this size, the last two of which share what is left, the first a multiple of the unit.

    >>> _ends(256, 384, 16), _ends(1000, 640, 16), _ends(2048, 640, 16)
    ((256,), (512, 1000), (640, 1280, 1664, 2048))
    """
    ends = [0]
    while (left := dimensions - ends[-1]) > 0:
        half = -(-(left // 2) // unit) * unit
        ends.append(ends[-1] + (part if left >= 2 * part else left if left <= part else half))
    return tuple(ends[1:])


def _uneven(rng: np.random.Generator, count: int, dimensions: int) -> Float32:
    size = count, dimensions
    return np.ldexp(rng.standard_normal(size, dtype=np.float32), rng.integers(-6, 7, size, dtype=np.int32))


def _tiled(rows: Float32, columns: Float32, shape: Shape) -> Float32:
    height, width = shape
    found = np.empty((len(rows), len(columns)), dtype=np.float32)
    for top in range(0, len(rows), height):
        for low in range(0, len(columns), width):
            tile = np.matmul(rows[top : top + height], columns[low : low + width].T)
            found[top : top + height, low : low + width] = tile
    return found


def _padded(matrix: Float32, rows: int) -> Float32:
    if len(matrix) == rows:
        return matrix
    padded = np.zeros((rows, matrix.shape[1]), dtype=np.float32)
    padded[: len(matrix)] = matrix
    return padded
