"""Queries of an index: vectors in any format, or items that its system encodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from limner.core.arrays import Array, array, is_matrix
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.encoders.contract import identity
from limner.scores import VectorSets
from limner.search.index_table import About

Queries = object
"""Queries: vectors (embeddings, an array or tensor, a list of rows), several vectors per query (`VectorSets`, or {id:
vectors}) for an index of such items, or anything `limner.Items.of` accepts."""
Vectors = Embeddings | VectorSets
"""One vector per item, or several."""


def as_vectors(queries: object, *, sets: bool = False) -> Vectors | None:
    """The queries as vectors; None if they are items.

    Args:
        queries: The queries.
        sets: Whether the index has several vectors per item; vectors of the other kind are returned as they are, and
            refused by `refuse_unlike`.
    """
    if isinstance(queries, (Embeddings, VectorSets)):
        return queries
    if isinstance(queries, Mapping) and sets:
        return VectorSets.of({str(key): vectors for key, vectors in queries.items()})
    if isinstance(queries, (str, bytes, Items)) or not hasattr(queries, "__len__") or not len(queries):
        return None
    if is_matrix(queries):
        return numbered(array(queries, "queries"))
    if isinstance(queries, (list, tuple)) and not isinstance(queries[0], (int, float, np.number)):
        return None
    matrix = array(queries, "query")
    return numbered(matrix) if matrix.ndim == 1 and np.issubdtype(matrix.dtype, np.number) else None


def numbered(vectors: Array) -> Embeddings:
    """One vector, or rows of vectors, with row numbers as ids."""
    matrix = np.atleast_2d(vectors)
    return Embeddings(Ids(range(len(matrix)), what="query"), matrix)


def refuse_other_model(about: About, system: object, name: str | None = None) -> None:
    """Refuses a system that differs from the model of the index; unknown models are accepted.

    Args:
        about: The description of the index.
        system: The encoder.
        name: The name the user gave.
    """
    index_model, query_model = about.model, identity(system, name)
    if index_model is not None and query_model is not None and index_model != query_model:
        called = name or getattr(system, "name", None) or type(system).__name__
        raise LimnerError(
            f"the index was made with {str(about.made_by)!r} ({index_model}), and {str(called)!r} is another model "
            f"({query_model}): vectors of two models cannot be compared; use the first, or make a separate index"
        )


def refuse_unlike(about: About, vectors: Vectors, items: Items | None = None) -> None:
    """Refuses vectors and items that do not fit an index."""
    if about.has_sets and not isinstance(vectors, VectorSets):
        raise LimnerError(
            f"one vector for each of {len(vectors):,} items, but the index has several vectors per item: give "
            "limner.scores.VectorSets, a file with the arrays 'vectors' and 'counts', or texts for its system"
        )
    if isinstance(vectors, VectorSets) and not about.has_sets:
        raise LimnerError(
            f"several vectors for each of {len(vectors):,} items, but the index has one vector per item: give "
            "Embeddings, or make a separate index"
        )
    if vectors.dim != about.dim:
        raise LimnerError(
            f"vectors have {vectors.dim} dimensions, the index {about.dim}: encode them with the system "
            "that the index was made with"
        )
    if items is not None and items.kind != about.kind:
        raise LimnerError(f"{items.kind} items for an index of {about.kind}s: make a separate index")
