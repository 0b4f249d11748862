"""The rows of the table of an index: ids, vectors, and the stored form of the items."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.scores import Progress
from limner.search.items import kept
from limner.search.store import COLUMNS, About, Kept, batch

AT_ONCE = 8_192
"""Rows per batch when writing; all batches are one commit."""
NOTHING: Kept = dict.fromkeys(COLUMNS)


def batches(about: About, embeddings: Embeddings, items: Items | None, progress: Progress | None) -> Iterator[object]:
    """Yields the rows of the table, a few thousand at a time. Errors are raised before the first row is written."""
    places = None if items is None else items.ids.positions(embeddings.ids)
    cuts = [*range(0, len(embeddings), AT_ONCE), len(embeddings)]

    def made() -> Iterator[Any]:
        for low, high in pairwise(cuts):
            part = Embeddings(embeddings.ids[low:high], embeddings.matrix[low:high])
            vectors = part.normalised() if about.similarity == "cosine" else part
            described = [NOTHING] * (high - low)
            if items is not None and places is not None:
                described = [kept(items, int(place)) for place in places[low:high]]
            yield batch(about, list(part.ids), vectors.matrix, described)
            if progress is not None:
                progress(high, len(embeddings))

    return made()
