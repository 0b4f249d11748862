"""Encoding of items for search, with the interface of `limner.encoders`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, NothingKnown, ZeroVectors
from limner.core.images import NoImage, Unreadable
from limner.core.progress import ProgressLike
from limner.encoders.contract import (
    Encoder,
    SetEncoder,
    TwoSided,
    encoded,
    encoded_sets,
    gives_sets,
    identity,
    refuse_blank,
    set_similarity,
)
from limner.scores import VectorSets
from limner.scores.parallel_blocks import usable_cores

__all__ = [
    "Encoder", "SetEncoder", "TwoSided", "encoded", "encoded_known", "encoded_queries", "encoded_readable",
    "encoded_sets", "gives_sets", "identity", "refuse_blank", "set_similarity", "unreadable",
]  # fmt: skip

Result = TypeVar("Result")


def encoded_known(
    system: Any, items: Items, *, sets: bool = False, queries: bool = False, progress: ProgressLike = None
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
        readable = [row for row in range(len(items)) if row not in lost]
    left = items[sorted(lost)]
    return (encoded(system, items[readable], progress=progress) if readable else None), items[readable], left


def encoded_readable(encode: Callable[[Items], Result], items: Items) -> tuple[Result | None, Items, dict[str, str]]:
    """Encodes the images of a large collection that open; for an index, not for an evaluation.

    Args:
        encode: Encodes items.
        items: The items.

    Returns:
        The result, None if no image opens; the items it belongs to; and the reason for each image that does not open.
    """
    try:
        return encode(items), items, {}
    except LimnerError:
        broken = unreadable(items)
        if not broken:
            raise
    readable = items.subset([key for key in items.ids if key not in broken])
    return (encode(readable) if len(readable) else None), readable, broken


def unreadable(items: Items) -> dict[str, str]:
    """Opens all images; for each one that does not open, the reason."""

    def reason(row: int) -> str | None:
        try:
            with items.opened(row):
                return None
        except (Unreadable, NoImage) as error:
            return str(error)

    if items.kind != "image":
        return {}
    with ThreadPoolExecutor(usable_cores()) as pool:
        reasons = pool.map(reason, range(len(items)))
        return {key: why for key, why in zip(items.ids, reasons, strict=True) if why is not None}


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
