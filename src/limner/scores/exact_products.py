"""Products of vectors in whole tiles of one shape, so that a score depends only on its two vectors.

Single pairs, and the best of lists of them, are computed from tiles too, or one by one in the same order of summation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.scores.base import Best
from limner.scores.parallel_blocks import (
    TILE_COLUMNS,
    TILE_ROWS,
    Block,
    one_thread_per_product,
    padded,
    threads,
    usable_cores,
)

Shape = tuple[int, int]
WHOLE: Shape = (TILE_ROWS, TILE_COLUMNS)
SMALL: tuple[Shape, ...] = ((8, 32), (32, 64), (32, 1024), (64, 256), (64, 1024))
"""Smaller tiles that may round like the whole tile, the smallest first."""
PARTS = (128, 192, 240, 256, 320, 352, 384, 448, 512, 640, 768, 1024)
"""Numbers of dimensions that a matrix library may add up at a time."""
UNITS = (16, 8, 4)
"""The smaller part that it divides the rest into may be a multiple of these."""


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
        part = padded(rows[top : top + height], height)
        for low in range(0, len(columns), width):
            tile = np.matmul(part, padded(columns[low : low + width], width).T)
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
        reference = np.matmul(rows, columns.T)[-height:, -width:]
        equal = [s for s in SMALL if np.array_equal(_tiled(rows[-height:], columns[-width:], s), reference)]
    return (*equal, WHOLE)


@cache
def sum_ends(dimensions: int) -> npt.NDArray[np.int64]:
    """Where the parts of a sum end, if the matrix library adds up products one after another; empty if it does not.

    Then the score of a single pair can be computed without a tile: see `pair_kernels`. Compares all scores
    of some rows of a tile whose terms differ widely in size, like `_equal_tiles`.
    """
    from limner.scores.pair_kernels import scores_of

    rng, every = np.random.default_rng(0), np.arange(TILE_COLUMNS)
    rows, columns = (read_only(_uneven(rng, count, dimensions)) for count in (TILE_ROWS, TILE_COLUMNS))
    with one_thread_per_product():
        reference = np.matmul(rows, columns.T)

    def equal(row: int, ends: npt.NDArray[np.int64]) -> bool:
        computed = np.empty(TILE_COLUMNS, np.float32)
        scores_of(rows[row], columns, every, ends, computed)
        return np.array_equal(computed, reference[row])

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


def read_only(vectors: Float32) -> Float32:
    """The same vectors, which nobody may change: numba would compile a loop a second time for writable arrays."""
    vectors.flags.writeable = False
    return vectors


def _tiled(rows: Float32, columns: Float32, shape: Shape) -> Float32:
    height, width = shape
    products = np.empty((len(rows), len(columns)), dtype=np.float32)
    for top in range(0, len(rows), height):
        for low in range(0, len(columns), width):
            tile = np.matmul(rows[top : top + height], columns[low : low + width].T)
            products[top : top + height, low : low + width] = tile
    return products


Int64 = npt.NDArray[np.int64]
Pairs = tuple[Int64, Int64]
"""indptr and columns: those of row r are columns[indptr[r]:indptr[r + 1]]."""

CALLS, COLUMN = 8e6, 6e3
"""The calls that verify a few rows, and those for each of their candidates, take as long as so many multiplications."""


class Products(Protocol):
    """The interface that a filter needs; `VectorScores` implements it."""

    @property
    def query_vectors(self) -> Embeddings:
        """Vectors of the queries."""

    @property
    def candidate_vectors(self) -> Embeddings:
        """Vectors of the candidates."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, candidates)."""

    @property
    def bound(self) -> float:
        """An upper bound of all scores."""

    def memory(self) -> Float32:
        """Memory of a block."""

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Float32:
        """Scores from float32 tiles."""

    def pairs(self, rows: Int64, columns: Int64) -> Float32:
        """Scores of single pairs, from float32 tiles."""

    def tiles(self, rows: Float32, places: Int64 | slice) -> Float32:
        """Scores of these query vectors and the candidates at these places, from float32 tiles."""

    @property
    def few_rows(self) -> int:
        """Number of query vectors for which `tiles` computes no more rows than there are."""

    @property
    def sum_ends(self) -> Int64:
        """Where the parts of a sum end, if single pairs can be computed without tiles; else empty."""


def rows_at_once(scores: Products, rows: int, pairs: int) -> int:
    """How many of these rows to verify together: all of them, or few, whichever takes less time.

    All rows together compute the columns of every row for all of them, on all cores. Few rows compute little, but the
    interpreter's calls for every small tile run on one core at a time.

    Args:
        scores: The scores.
        rows: Number of rows, at most `TILE_ROWS`.
        pairs: Number of pairs to verify.
    """
    few_rows = scores.few_rows
    together = min(pairs, scores.shape[1]) * rows * scores.query_vectors.dim / usable_cores()
    separately = CALLS * rows / few_rows + COLUMN * pairs
    return few_rows if separately < together else max(rows, 1)


def chosen(
    scores: Products,
    start: int,
    rows: Float32,
    choose: Best,
    pair_lists: Sequence[Pairs],
    apply: Callable[[Float32, Int64, int], Block] | None = None,
) -> tuple[npt.NDArray[np.int32], Block]:
    """The best of the columns that were found: pair by pair if possible, or from float32 tiles of a few rows at a time.

    Args:
        scores: The scores.
        start: The query of the first row.
        rows: The query vectors.
        choose: Finds the best of a tile.
        pair_lists: Columns of every row, from several searches.
        apply: What is done to the scores of a tile first; see `Shifted`. Pairs are never computed one by one then.
    """
    if apply is None and len(pair_lists) == 1 and len(scores.sum_ends):
        return _of_lists(scores, rows, choose, *pair_lists[0])
    pairs, parts = sum(len(columns) for _, columns in pair_lists), []
    step = rows_at_once(scores, len(rows), pairs)
    for low in range(0, len(rows), step):
        high = min(low + step, len(rows))
        places = np.unique(np.concatenate([columns[indptr[low] : indptr[high]] for indptr, columns in pair_lists]))
        tiles: Block = scores.tiles(rows[low:high], places)
        best, values = choose(start + low, tiles if apply is None else apply(tiles, places, start + low))
        parts.append((places[best].astype(np.int32), values))
    return np.concatenate([best for best, _ in parts]), np.concatenate([values for _, values in parts])


def listed_scores(scores: Products, rows: Float32, indptr: Int64, columns: Int64) -> Float32:
    """The score of every query vector and each column of its list."""
    from limner.scores.pair_kernels import scores_of_lists

    if not len(scores.sum_ends):
        places, column = np.unique(columns, return_inverse=True)
        tiles = scores.tiles(rows, places)
        return np.asarray(tiles[np.repeat(np.arange(len(rows)), np.diff(indptr)), column])
    values, vectors = np.empty(len(columns), np.float32), (np.ascontiguousarray(rows), scores.candidate_vectors.matrix)
    scores_of_lists(*vectors, indptr, columns, scores.sum_ends, values)
    return values


def _of_lists(
    scores: Products, rows: Float32, choose: Best, indptr: Int64, columns: Int64
) -> tuple[npt.NDArray[np.int32], Block]:
    """The best of every row's columns, which are in ascending order, and at least as many as are wanted."""
    from limner.scores.pair_kernels import best_of_lists

    values, shape = listed_scores(scores, rows, indptr, columns), (len(rows), min(choose.k, scores.shape[1]))
    indices, best_scores = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    best_of_lists(indptr, columns, values, indices, best_scores)
    return indices, best_scores


def pair_by_pair(scores: Products, rows: Int64, columns: Int64, workers: int | None) -> Float32:
    """Scores of single pairs (rows[n], columns[n]), if the ends of sums are known."""
    from limner.scores.pair_kernels import scores_of_lists

    order = np.argsort(rows, kind="stable")
    distinct, starts = np.unique(rows[order], return_index=True)
    listed, indptr = columns[order], np.append(starts, len(rows))
    products = np.empty(len(rows), np.float32)

    def work(low: int) -> None:
        high = min(low + TILE_ROWS, len(distinct))
        span = slice(indptr[low], indptr[high])
        vectors = read_only(scores.query_vectors.matrix[distinct[low:high]])
        theirs = indptr[low : high + 1] - indptr[low], listed[span], scores.sum_ends, products[span]
        scores_of_lists(vectors, scores.candidate_vectors.matrix, *theirs)

    with threads(workers) as work_on:
        list(work_on(work, range(0, len(distinct), TILE_ROWS)))
    values = np.empty_like(products)
    values[order] = products
    return values
