"""Encoding of items for search, with the interface of `limner.encoders`."""

from __future__ import annotations

from typing import Any

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import NothingKnown, ZeroVectors
from limner.core.progress import Progress
from limner.encoders.contract import Encoder, TwoSided, encoded, identity

__all__ = ["Encoder", "TwoSided", "encoded", "encoded_known", "encoded_queries", "identity"]


def encoded_known(
    system: Any, items: Items, *, progress: Progress | None = None
) -> tuple[Embeddings | None, Items, Items]:
    """Encodes the items that a system knows something of; texts without a known word have a vector of zeros.

    Returns:
        The vectors, None if there are none; the items they belong to; and the items that are left out.
    """
    try:
        return encoded(system, items, progress=progress), items, items[[]]
    except ZeroVectors as error:
        lost = set(error.rows)
        kept = [row for row in range(len(items)) if row not in lost]
    left = items[sorted(lost)]
    return (encoded(system, items[kept], progress=progress) if kept else None), items[kept], left


def encoded_queries(system: Any, queries: Items) -> Embeddings:
    """Encodes queries; those that a system cannot tell from any other are refused."""
    try:
        return encoded(system, queries)
    except ZeroVectors as error:
        lost = queries[list(error.rows)]
    if lost.kind == "text":
        raise NothingKnown(f"the system knows no word of {str(lost.values[0])[:80]!r}: search for other words")
    raise NothingKnown(f"the system finds nothing in the image {lost.ids[0]!r}: search with another image")
