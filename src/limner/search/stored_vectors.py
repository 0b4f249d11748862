"""The vectors of a store: one version in memory, single vectors, and scores against a store larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownId, shown
from limner.core.ids import Ids
from limner.core.images import give_back
from limner.scores import Scores, VectorSets
from limner.scores.parallel_blocks import Block
from limner.scores.vectors import VectorScores
from limner.search.index_table import Vectors
from limner.search.items import Row
from limner.search.set_search import Piece, pieces_of
from limner.search.store import VectorStore

if TYPE_CHECKING:
    import pyarrow as pa


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


FEW = 64
"""So many rows are read one by one, which takes less time than Arrow's selection from long columns."""


@dataclass(frozen=True, eq=False)
class HeldVersion:
    """Vectors of all rows, with ids and values unless rows have thumbnails, which would need too much memory.

    Args:
        version: Version of the store.
        vectors: Vectors in the order of the store; none where items have several.
        labels: "id", "value" and "picture" (all empty) as Arrow columns; None to read them from the store.
        pieces: The items in the order of the store, where they have several vectors.
    """

    version: int
    vectors: Float32
    labels: pa.Table | None
    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, store: VectorStore) -> HeldVersion:
        """Reads the current version of the store."""
        import pyarrow as pa

        several = store.about.has_sets
        pieces = tuple(pieces_of(store)) if several else ()
        matrix, low = np.empty((0 if several else len(store), store.about.dim), dtype=np.float32), 0
        for block in () if several else store.vectors():
            matrix[low : low + len(block)] = block
            low += len(block)
        batches = [] if store.has_thumbnails() else list(store.scan(["id", "value", "picture"]))
        labels = pa.Table.from_batches(batches).combine_chunks() if batches else None
        del batches
        pa.default_memory_pool().release_unused()
        give_back()  # what the scan needed on its threads
        return cls(store.version, matrix, labels, pieces)

    def take(self, store: VectorStore, places: Iterable[int]) -> list[Row]:
        """Id, value and thumbnail of the rows at these positions, in this order."""
        offsets = [int(place) for place in places]
        if self.labels is None or not offsets:
            return store.take(offsets)
        if len(offsets) > FEW:
            return list(self.labels.take(offsets).to_pylist())
        columns = {name: self.labels[name] for name in self.labels.column_names}
        return [{name: column[place].as_py() for name, column in columns.items()} for place in offsets]
