"""Products of two sets of vectors on the CPU, tile by tile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.core.ids import Ids
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.scores.base import LARGEST, Best, Scores, current_runner, refuse_overflow
from limner.scores.exact_products import (
    WHOLE,
    Int64,
    few_rows,
    fill_few,
    fill_small,
    pair_by_pair,
    rows_at_once,
    sum_ends,
    tile_for,
)
from limner.scores.lowprecision import Filter, Selective, best_of_columns, filter_of, request_of
from limner.scores.parallel_blocks import (
    TILE_COLUMNS,
    TILE_ROWS,
    Block,
    Divisible,
    PairScores,
    PieceConsumer,
    Result,
    counted,
    fill,
    load_loops,
    threads,
    usable_cores,
)

FILTERED = TILE_ROWS
"""Low-precision filtering saves no time for fewer queries or candidates."""
LOOPS = "limner.scores.pair_kernels"
"""Single pairs are computed by compiled loops where these are loaded; else from tiles, since loading takes longer."""


@dataclass(frozen=True, eq=False)
class VectorScores(Scores):
    """Products of two sets of vectors, tile by tile.

    Args:
        query_vectors: Vectors of the queries, already normalised for cosine similarity.
        candidate_vectors: Likewise.
        similarity: "cosine" or "dot", for further queries.
    """

    query_vectors: Embeddings
    candidate_vectors: Embeddings
    similarity: str = "cosine"

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.query_vectors.ids

    @property
    def candidates(self) -> Ids:  # type: ignore[override]
        """Ids of the candidates."""
        return self.candidate_vectors.ids

    @property
    def T(self) -> VectorScores:
        """The transposed scores."""
        return VectorScores(self.candidate_vectors, self.query_vectors, self.similarity)

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> VectorScores:
        """The vectors of these queries and candidates only."""
        rows = self.query_vectors if queries is None else self.query_vectors.subset(queries)
        columns = self.candidate_vectors if candidates is None else self.candidate_vectors.subset(candidates)
        return VectorScores(rows, columns, self.similarity)

    @property
    def bound(self) -> float:
        """The product of the largest norms, with a margin for rounding."""
        return self.query_vectors.max_norm * self.candidate_vectors.max_norm * (1 + self.query_vectors.dim * 2.0**-23)

    @property
    def may_overflow(self) -> bool:
        """Whether a product may overflow single precision; blocks are then checked."""
        return self.bound > LARGEST

    def with_queries(self, queries: Embeddings) -> VectorScores:
        """Scores of other queries against the same candidates."""
        query_vectors = queries.normalised() if self.similarity == "cosine" else queries
        return VectorScores(query_vectors, self.candidate_vectors, self.similarity)

    def memory(self) -> Float32:
        """A buffer for one block."""
        return np.empty((TILE_ROWS, len(self.candidates)), dtype=np.float32)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Float32:
        """Products of whole tiles: edges are padded with zeros, so that every product has the same shape."""
        width = len(self.candidates)
        block = self.memory() if out is None else out.reshape(-1)[: TILE_ROWS * width].reshape(TILE_ROWS, width)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            fill(block, self.query_vectors.matrix[start:stop], self.candidate_vectors.matrix)
        if self.may_overflow:
            lengths = self.query_vectors.max_norm, self.candidate_vectors.max_norm
            refuse_overflow(self, block[: stop - start], start, lengths)
        return block[: stop - start]

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: ProgressLike = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`; uses low-precision products, or pieces of rows, if that is faster."""
        progress = as_progress(progress)
        request = request_of(consume) if min(self.shape) >= FILTERED else None
        if request is not None and (by_filter := self.filter(workers, request)):
            return cast(Iterator[Result], by_filter.stream(request, workers=workers, progress=progress))
        load_loops(self.shape[0] * self.shape[1])
        pieces = (
            None
            if self.may_overflow
            else in_pieces(self, consume, pairs=self.pairs, workers=workers, progress=progress)
        )
        return super().stream(consume, workers=workers, progress=progress) if pieces is None else pieces

    @property
    def piece_columns(self) -> int:
        """The smallest number of candidates of a piece: a few tiles."""
        return 4 * TILE_COLUMNS

    def filter(self, workers: int | None, consume: Selective) -> Filter | None:
        """Low-precision filtering of these scores, if it gives this consumer the same result faster."""
        if min(self.shape) < FILTERED or current_runner(workers):
            return None
        return filter_of(self, consume.verified)

    def best_of_columns(self, k: int, *, progress: ProgressLike = None) -> Float32 | None:
        """The k highest scores of every candidate, with low-precision filtering; None if that saves no time."""
        if min(self.shape) < FILTERED or current_runner(None):
            return None
        return best_of_columns(self, self.T, k, progress=progress)

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of up to `TILE_ROWS` queries start:stop and candidates low:high, equal to those in blocks."""
        if self.may_overflow:
            return np.ascontiguousarray(self.block(start, stop)[:, low:high])
        block = np.empty((TILE_ROWS, high - low), dtype=np.float32)
        fill(block, self.query_vectors.matrix[start:stop], self.candidate_vectors.matrix[low:high])
        return block[: stop - start]

    def small(self) -> Float32:
        """All scores of a few queries and candidates, from smaller products, equal to those in blocks."""
        if self.may_overflow:
            return self.matrix()
        block = np.empty(self.shape, dtype=np.float32)
        fill_small(block, self.query_vectors.matrix, self.candidate_vectors.matrix)
        return block

    def tiles(self, rows: Float32, places: Int64 | slice) -> Float32:
        """Scores of up to `TILE_ROWS` query vectors and the candidates at these places, equal to those in blocks."""
        columns = self.candidate_vectors.matrix[places]
        if tile_for(len(rows), len(columns), rows.shape[1]) != WHOLE:
            block = np.empty((len(rows), len(columns)), dtype=np.float32)
            fill_few(block, rows, columns)
            return block
        block = np.empty((TILE_ROWS, len(columns)), dtype=np.float32)
        fill(block, rows, columns)
        return block[: len(rows)]

    @property
    def few_rows(self) -> int:
        """Number of query vectors for which `tiles` computes no more rows than there are."""
        return few_rows(self.query_vectors.dim)

    @property
    def sum_ends(self) -> Int64:
        """Where the parts of a sum end, if single pairs can be computed without tiles; else empty."""
        return sum_ends(self.query_vectors.dim)

    def pairs(self, rows: Int64, columns: Int64, *, workers: int | None = None) -> Float32:
        """Scores of single pairs (rows[n], columns[n]), equal to those in blocks."""
        if LOOPS in sys.modules and len(self.sum_ends) and not self.may_overflow:
            return pair_by_pair(self, rows, columns, workers)
        scores = np.empty(len(rows), dtype=np.float32)
        distinct, row = np.unique(rows, return_inverse=True)
        order = np.argsort(row, kind="stable")
        step = rows_at_once(self, TILE_ROWS, len(rows) * TILE_ROWS // max(len(distinct), 1))
        ends = np.searchsorted(row[order], np.arange(0, len(distinct) + step, step))

        def work(number: int) -> None:
            chosen = order[ends[number] : ends[number + 1]]
            low = number * step
            places, column = np.unique(columns[chosen], return_inverse=True)
            tiles = self.tiles(self.query_vectors.matrix[distinct[low : low + step]], places)
            scores[chosen] = tiles[row[chosen] - low, column]

        with threads(workers) as work_on:
            list(work_on(work, range(len(ends) - 1)))
        return scores


ENOUGH = 4
"""PieceConsumer of work per core: with fewer, some cores are idle at the end of a pass."""


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
    piece_count = max(1, -(-ENOUGH * (workers or usable_cores()) // max(blocks, 1)))
    step = -(-width // (piece_count * unit)) * unit
    if current_runner(workers) or step >= width or not isinstance(consume, Divisible):
        return None
    if pairs is None and not isinstance(consume, Best):
        return None
    scores.prepare()
    divided = consume.divided(pairs)
    return None if divided is None else _joined(scores, divided, step, workers, progress)


def _joined(
    scores: Wide, divided: PieceConsumer, step: int, workers: int | None, progress: Progress
) -> Iterator[object]:
    (n, width), rows = scores.shape, scores.block_rows
    starts, lows = range(0, n, rows), range(0, width, step)

    def work(place: tuple[int, int]) -> object:
        start, low = place
        return divided.piece(start, low, scores.piece(start, min(start + rows, n), low, min(low + step, width)))

    with threads(workers) as work_on:
        parts = work_on(work, [(start, low) for start in starts for low in lows])
        results = (divided.join([next(parts) for _ in lows]) for _ in starts)
        yield from counted(results, rows, n, progress)
