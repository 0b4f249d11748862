"""Scores of queries against a store larger than memory, and single vectors of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownId, shown
from limner.core.ids import Ids
from limner.scores import Block, Scores, VectorScores, VectorSets
from limner.search.queries import Vectors
from limner.search.store import VectorStore


def stored_vectors(store: VectorStore, ids: Sequence[str]) -> Vectors:
    """The vectors of a few items, in this order, as they are stored."""
    rows = store.rows(ids, columns=("id", "vector"))
    missing = [key for key in ids if key not in rows]
    if missing:
        raise UnknownId(f"{len(missing)} of {len(ids)} ids are not in the index ({shown(missing)}): check the ids")
    if store.about.has_sets:
        return VectorSets.of({key: np.asarray(rows[key]["vector"], dtype=np.float32) for key in ids})
    return Embeddings(Ids(ids), np.asarray([rows[key]["vector"] for key in ids], dtype=np.float32))


@dataclass(frozen=True, eq=False)
class StoredScores(Scores):
    """Scores of queries against a store larger than memory; each block of queries reads the store once."""

    query_vectors: Embeddings
    store: VectorStore
    candidates: Ids

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.query_vectors.ids

    @property
    def T(self) -> Scores:
        """Not available."""
        raise LimnerError("scores of a store have only one direction: for the other direction, search the other index")

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Products with all vectors of the store, read in pieces."""
        if out is None:
            out = np.empty((stop - start, len(self.candidates)), dtype=np.float32)
        rows = Embeddings(self.queries[start:stop], self.query_vectors.matrix[start:stop])
        low = 0
        for piece in self.store.vectors():
            scores = VectorScores(rows, Embeddings(self.candidates[low : low + len(piece)], piece))
            out[: stop - start, low : low + len(piece)] = scores.block(0, stop - start)
            low += len(piece)
        return out[: stop - start, :low]
