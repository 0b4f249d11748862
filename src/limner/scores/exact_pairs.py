"""Exact scores of what a filter keeps, and the best of them: from float32 tiles, or pair by pair in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.scores.base import TILE_ROWS, Best
from limner.scores.parallel_blocks import Block, threads, usable_cores

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


def rows_at_once(scores: Products, rows: int, found: int) -> int:
    """How many of these rows to verify together: all of them, or few, whichever takes less time.

    All rows together compute the columns of every row for all of them, on all cores. Few rows compute little, but the
    interpreter's calls for every small tile run on one core at a time.

    Args:
        scores: The scores.
        rows: Number of rows, at most `TILE_ROWS`.
        found: Number of pairs to verify.
    """
    few = scores.few_rows
    together = min(found, scores.shape[1]) * rows * scores.query_vectors.dim / usable_cores()
    apart = CALLS * rows / few + COLUMN * found
    return few if apart < together else max(rows, 1)


def chosen(
    scores: Products,
    start: int,
    rows: Float32,
    choose: Best,
    found: Sequence[Pairs],
    apply: Callable[[Float32, Int64, int], Block] | None = None,
) -> tuple[npt.NDArray[np.int32], Block]:
    """The best of the columns that were found: pair by pair if possible, or from float32 tiles of a few rows at a time.

    Args:
        scores: The scores.
        start: The query of the first row.
        rows: The query vectors.
        choose: Finds the best of a tile.
        found: Columns of every row, from several searches.
        apply: What is done to the scores of a tile first; see `Shifted`. Pairs are never computed one by one then.
    """
    if apply is None and len(found) == 1 and len(scores.sum_ends):
        return _of_lists(scores, rows, choose, *found[0])
    pairs, parts = sum(len(columns) for _, columns in found), []
    step = rows_at_once(scores, len(rows), pairs)
    for low in range(0, len(rows), step):
        high = min(low + step, len(rows))
        places = np.unique(np.concatenate([columns[indptr[low] : indptr[high]] for indptr, columns in found]))
        tiles: Block = scores.tiles(rows[low:high], places)
        best, kept = choose(start + low, tiles if apply is None else apply(tiles, places, start + low))
        parts.append((places[best].astype(np.int32), kept))
    return np.concatenate([best for best, _ in parts]), np.concatenate([kept for _, kept in parts])


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
    indices, kept = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    best_of_lists(indptr, columns, values, indices, kept)
    return indices, kept


def pair_by_pair(scores: Products, rows: Int64, columns: Int64, workers: int | None) -> Float32:
    """Scores of single pairs (rows[n], columns[n]), if the ends of sums are known."""
    from limner.scores.pair_kernels import scores_of_lists

    order = np.argsort(rows, kind="stable")
    distinct, starts = np.unique(rows[order], return_index=True)
    listed, indptr = columns[order], np.append(starts, len(rows))
    found = np.empty(len(rows), np.float32)

    def work(low: int) -> None:
        high = min(low + TILE_ROWS, len(distinct))
        mine = slice(indptr[low], indptr[high])
        vectors = scores.query_vectors.matrix[distinct[low:high]]
        theirs = indptr[low : high + 1] - indptr[low], listed[mine], scores.sum_ends, found[mine]
        scores_of_lists(vectors, scores.candidate_vectors.matrix, *theirs)

    with threads(workers) as work_on:
        list(work_on(work, range(0, len(distinct), TILE_ROWS)))
    values = np.empty_like(found)
    values[order] = found
    return values
