"""The rows of the table of an index: ids, vectors, and the stored form of the items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.progress import Progress
from limner.scores import VectorSets
from limner.scores.set_pieces import item_ranges
from limner.search.items import kept
from limner.search.table import COLUMNS, About, Kept, batch

AT_ONCE = 8_192
"""Rows per batch when writing; all batches are one commit."""
VECTORS_AT_ONCE = 65_536
"""Vectors per batch, where items have several; an item that has more is a batch of its own."""
NOTHING: Kept = dict.fromkeys(COLUMNS)


def batches(
    about: About, vectors: Embeddings | VectorSets, items: Items | None, progress: Progress
) -> Iterator[object]:
    """Yields the rows of the table, a few thousand at a time. Errors are raised before the first row is written."""
    places = None if items is None else items.ids.positions(vectors.ids)

    def made() -> Iterator[Any]:
        for low, high in _cuts(vectors):
            described = [NOTHING] * (high - low)
            if items is not None and places is not None:
                described = [kept(items, int(place)) for place in places[low:high]]
            yield _batch(about, _part(vectors, low, high), described)
            progress(high, len(vectors))

    return made()


def _cuts(vectors: Embeddings | VectorSets) -> list[tuple[int, int]]:
    """Ranges of items that are written at once."""
    if isinstance(vectors, VectorSets):
        return item_ranges(vectors.starts, VECTORS_AT_ONCE, most=AT_ONCE)
    return [(low, min(low + AT_ONCE, len(vectors))) for low in range(0, len(vectors), AT_ONCE)]


def _part(vectors: Embeddings | VectorSets, low: int, high: int) -> Embeddings | VectorSets:
    if isinstance(vectors, VectorSets):
        return vectors.part(low, high)
    return Embeddings(vectors.ids[low:high], vectors.matrix[low:high])


def _batch(about: About, part: Embeddings | VectorSets, described: list[Kept]) -> Any:
    unit = part.normalised() if about.similarity == "cosine" else part
    if isinstance(unit, VectorSets):
        return batch(about, list(unit.ids), unit.vectors.matrix, described, unit.starts)
    return batch(about, list(unit.ids), unit.matrix, described)
