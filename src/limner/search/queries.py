"""Queries of an index: vectors in any format, or items that its system encodes."""

from __future__ import annotations

import numpy as np

from limner.core.arrays import Array, array, is_matrix
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.ids import Ids

Queries = object
"""Queries: vectors (embeddings, an array or tensor, a list of rows), or anything `limner.Items.of` accepts."""


def as_vectors(given: object) -> Embeddings | None:
    """The queries as vectors; None if they are items."""
    if isinstance(given, Embeddings):
        return given
    if isinstance(given, (str, bytes, Items)) or not hasattr(given, "__len__") or not len(given):
        return None
    if is_matrix(given):
        return numbered(array(given, "queries"))
    if isinstance(given, (list, tuple)) and not isinstance(given[0], (int, float, np.number)):
        return None
    found = array(given, "query")
    return numbered(found) if found.ndim == 1 and np.issubdtype(found.dtype, np.number) else None


def numbered(given: Array) -> Embeddings:
    """One vector, or rows of vectors, with row numbers as ids."""
    matrix = np.atleast_2d(given)
    return Embeddings(Ids(range(len(matrix)), what="query"), matrix)
