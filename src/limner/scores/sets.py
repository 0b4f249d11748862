"""Items with several vectors each, compared by the best pair of vectors or by a smooth maximum over all pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids, IntArray
from limner.scores.base import KINDS, SIMILARITIES, TILE_ROWS, Scores
from limner.scores.running import Block, Float32
from limner.scores.vector_sets import VectorSets
from limner.scores.vectors import VectorScores

POOLINGS = ("max", "smooth")


@dataclass(frozen=True, eq=False)
class SetScores(Scores):
    """The highest score of a pair of vectors, or (1 / gamma) log sum exp(gamma s) over all pairs.

    Multiple instances: Song & Soleymani 2019.

    >>> one = VectorSets.of({"q": np.array([[1.0, 0.0], [0.0, 1.0]])})
    >>> two = VectorSets.of({"c": np.array([[0.6, 0.8]])})
    >>> round(float(SetScores.of(one, two).matrix()[0, 0]), 3)
    0.8
    """

    query_sets: VectorSets
    candidate_sets: VectorSets
    pooling: str = "max"
    gamma: float = 10.0

    @classmethod
    def of(
        cls,
        queries: VectorSets,
        candidates: VectorSets,
        *,
        similarity: str = "cosine",
        pooling: str = "max",
        gamma: float = 10.0,
    ) -> SetScores:
        """Checks the options, and normalises the vectors for cosine similarity."""
        for what, value, known in (("similarity", similarity, SIMILARITIES), ("pooling", pooling, POOLINGS)):
            if value not in known:
                raise UnknownName(what, value, known)
        if not gamma > 0:
            raise LimnerError(f"gamma is {gamma!r}: expected a number above 0")
        if queries.vectors.dim != candidates.vectors.dim:
            raise LimnerError(
                f"query vectors have {queries.vectors.dim} dimensions, candidate vectors "
                f"{candidates.vectors.dim}: expected the same"
            )
        if similarity == "cosine":
            queries, candidates = queries.normalised(), candidates.normalised()
        return cls(queries, candidates, pooling, gamma)

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.query_sets.ids

    @property
    def candidates(self) -> Ids:  # type: ignore[override]
        """Ids of the candidates."""
        return self.candidate_sets.ids

    @property
    def T(self) -> SetScores:
        """The other direction."""
        return SetScores(self.candidate_sets, self.query_sets, self.pooling, self.gamma)

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> SetScores:
        """The vectors of these queries and candidates only."""
        rows = self.query_sets if queries is None else self.query_sets.subset(queries)
        columns = self.candidate_sets if candidates is None else self.candidate_sets.subset(candidates)
        return SetScores(rows, columns, self.pooling, self.gamma)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Blocks of vectors against vectors, pooled over the candidates' vectors and then over the queries'."""
        singles = VectorScores(self.query_sets.vectors, self.candidate_sets.vectors)
        low, high = int(self.query_sets.starts[start]), int(self.query_sets.starts[stop])
        rows = [singles.block(r, min(r + TILE_ROWS, high)) for r in range(low, high, TILE_ROWS)]
        pooled = np.concatenate([self._pooled(r, self.candidate_sets.starts[:-1], axis=1) for r in rows])
        return np.ascontiguousarray(self._pooled(pooled, self.query_sets.starts[start:stop] - low, axis=0))

    def _pooled(self, block: Block, starts: IntArray, *, axis: int) -> Block:
        """Pools along one axis, over the segments that begin at `starts`."""
        highest = np.maximum.reduceat(block, starts, axis=axis)
        if self.pooling == "max":
            return np.asarray(highest)
        lengths = np.diff(starts, append=block.shape[axis])
        terms = np.exp(self.gamma * (block - np.repeat(highest, lengths, axis=axis)))
        sums = np.add.reduceat(terms, starts, axis=axis, dtype=np.float64)
        return np.asarray(highest + np.log(sums) / self.gamma, dtype=np.float32)


KINDS.register("sets")(SetScores.of)
