"""Items with several vectors each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import IntArray
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids


@dataclass(frozen=True, eq=False)
class VectorSets:
    """Items with any number of vectors each, at least one.

    Args:
        ids: One unique id per item.
        vectors: All vectors in the order of the items, those of one item together.
        starts: Where the vectors of each item begin, followed by the number of vectors.

    >>> sets = VectorSets.of({"a": np.eye(2), "b": np.array([[3.0, 4.0]])})
    >>> len(sets), sets.starts.tolist(), sets.subset(["b"]).vectors.matrix.tolist()
    (2, [0, 2, 3], [[3.0, 4.0]])
    """

    ids: Ids
    vectors: Embeddings
    starts: IntArray

    @classmethod
    def of(cls, sets: Mapping[str, object]) -> VectorSets:
        """Builds vector sets from {id: array with one row per vector}."""
        parts = [np.atleast_2d(np.asarray(vectors)) for vectors in sets.values()]
        ids = Ids(sets, what="item")
        for name, part in zip(ids, parts, strict=True):
            if part.ndim != 2 or len(part) == 0 or part.shape[1] != parts[0].shape[1]:
                raise LimnerError(
                    f"item {name!r} has vectors of shape {part.shape}: expected one row or more, of "
                    f"{parts[0].shape[1]} numbers as the first item's"
                )
        if not parts:
            raise LimnerError("no items: expected {id: vectors} with at least one item")
        starts = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
        names = (f"{name}#{n}" for name, part in zip(ids, parts, strict=True) for n in range(len(part)))
        return cls(ids, Embeddings(Ids(names, what="vector"), np.concatenate(parts)), starts)

    def normalised(self) -> VectorSets:
        """Every vector divided by its norm."""
        return VectorSets(self.ids, self.vectors.normalised(), self.starts)

    def subset(self, ids: Iterable[object]) -> VectorSets:
        """These items, in this order."""
        chosen = Ids(ids, what="item")
        rows = self.ids.positions(chosen)
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        which = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return VectorSets(chosen, Embeddings(self.vectors.ids[which], self.vectors.matrix[which]), starts)

    def __len__(self) -> int:
        return len(self.ids)
