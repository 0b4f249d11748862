"""Products of two sets of vectors on the CPU, tile by tile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from limner.core.embeddings import Embeddings
from limner.core.ids import Ids
from limner.scores.base import KINDS, LARGEST, TILE_COLUMNS, TILE_ROWS, Scores, refuse_overflow
from limner.scores.running import Float32


@KINDS.register("vectors")
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
        """The other direction."""
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
        given = queries.normalised() if self.similarity == "cosine" else queries
        return VectorScores(given, self.candidate_vectors, self.similarity)

    def memory(self) -> Float32:
        """A block."""
        return np.empty((TILE_ROWS, len(self.candidates)), dtype=np.float32)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Float32:
        """Products of whole tiles: edges are padded with zeros, so that every product has the same shape."""
        width = len(self.candidates)
        block = self.memory() if out is None else out.reshape(-1)[: TILE_ROWS * width].reshape(TILE_ROWS, width)
        rows = _padded(self.query_vectors.matrix[start:stop], TILE_ROWS)
        whole = width - width % TILE_COLUMNS
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            for low in range(0, whole, TILE_COLUMNS):
                columns = self.candidate_vectors.matrix[low : low + TILE_COLUMNS]
                np.matmul(rows, columns.T, out=block[:, low : low + TILE_COLUMNS])
            if whole < width:
                columns = _padded(self.candidate_vectors.matrix[whole:], TILE_COLUMNS)
                block[:, whole:] = np.matmul(rows, columns.T)[:, : width - whole]
        if self.may_overflow:
            lengths = self.query_vectors.max_norm, self.candidate_vectors.max_norm
            refuse_overflow(self, block[: stop - start], start, lengths)
        return block[: stop - start]


def _padded(matrix: Float32, rows: int) -> Float32:
    if len(matrix) == rows:
        return matrix
    padded = np.zeros((rows, matrix.shape[1]), dtype=np.float32)
    padded[: len(matrix)] = matrix
    return padded
