"""Keeps one version of a store in memory between searches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.images import give_back
from limner.search.sets import Piece, pieces_of
from limner.search.store import VectorStore

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
    labels: Any | None
    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, store: VectorStore) -> HeldVersion:
        """Reads the current version of the store."""
        import pyarrow as pa

        several = store.about.has_sets
        pieces = tuple(pieces_of(store)) if several else ()
        whole, low = np.empty((0 if several else len(store), store.about.dim), dtype=np.float32), 0
        for block in () if several else store.vectors():
            whole[low : low + len(block)] = block
            low += len(block)
        batches = [] if store.has_thumbnails() else list(store.scan(["id", "value", "picture"]))
        labels = pa.Table.from_batches(batches).combine_chunks() if batches else None
        del batches
        pa.default_memory_pool().release_unused()
        give_back()  # what the scan needed on its threads
        return cls(store.version, whole, labels, pieces)

    def take(self, store: VectorStore, places: Iterable[int]) -> list[dict[str, Any]]:
        """Id, value and thumbnail of the rows at these positions, in this order."""
        wanted = [int(place) for place in places]
        if self.labels is None or not wanted:
            return store.take(wanted)
        if len(wanted) > FEW:
            return list(self.labels.take(wanted).to_pylist())
        columns = {name: self.labels[name] for name in self.labels.column_names}
        return [{name: column[place].as_py() for name, column in columns.items()} for place in wanted]
