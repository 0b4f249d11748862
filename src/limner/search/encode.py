"""Encoding of items for search, with the interface of `limner.encoders`."""

from __future__ import annotations

from typing import Any

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import NothingKnown, ZeroVectors
from limner.core.progress import Progress
from limner.encoders.contract import (
    Encoder,
    SetEncoder,
    TwoSided,
    encoded,
    encoded_sets,
    gives_sets,
    identity,
    set_similarity,
)
from limner.scores import VectorSets

__all__ = [
    "Encoder", "SetEncoder", "TwoSided", "encoded", "encoded_known", "encoded_queries", "encoded_sets", "gives_sets",
    "identity", "set_similarity",
]  # fmt: skip


def encoded_known(
    system: Any, items: Items, *, sets: bool = False, queries: bool = False, progress: Progress | None = None
) -> tuple[Embeddings | VectorSets | None, Items, Items]:
    """Encodes the items that a system knows something of; texts without a known word have a vector of zeros.

    Args:
        system: The system.
        items: The items.
        sets: Whether the index has several vectors per item.
        queries: Whether the items are queries; it matters only for several vectors per item.
        progress: Called with (items done, items in total).

    Returns:
        The vectors, None if there are none; the items they belong to; and the items that are left out.
    """
    if sets:
        return encoded_sets(system, items, queries=queries, progress=progress), items, items[[]]
    try:
        return encoded(system, items, progress=progress), items, items[[]]
    except ZeroVectors as error:
        lost = set(error.rows)
        kept = [row for row in range(len(items)) if row not in lost]
    left = items[sorted(lost)]
    return (encoded(system, items[kept], progress=progress) if kept else None), items[kept], left


def encoded_queries(system: Any, queries: Items, *, sets: bool = False) -> Embeddings | VectorSets:
    """Encodes queries; those that a system cannot tell from any other are refused.

    With several vectors per item, texts are encoded as queries; an image is encoded as it is in the index.
    """
    if sets:
        return encoded_sets(system, queries, queries=queries.kind == "text")
    try:
        return encoded(system, queries)
    except ZeroVectors as error:
        lost = queries[list(error.rows)]
    if lost.kind == "text":
        raise NothingKnown(f"the system knows no word of {str(lost.values[0])[:80]!r}: search for other words")
    raise NothingKnown(f"the system finds nothing in the image {lost.ids[0]!r}: search with another image")
