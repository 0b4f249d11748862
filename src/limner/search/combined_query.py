"""Words and images as one query: an image says what it looks like, the words what is to be different."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.search.approximate import sample

if TYPE_CHECKING:
    from limner.search.index import Index

SAMPLE = 1_000
"""Rows of the index from which the spread of the scores is estimated."""


def combined_query(index: Index, *parts: Items) -> Embeddings:
    """One query vector from texts and images: the sum of their vectors, each divided by the spread of its scores.

    Scores of an image against images spread more than those of a text: a plain sum would be ranked by the image alone.

    Args:
        index: The index, with its model.
        parts: Texts and images, which all count the same.
    """
    if index.about.has_sets:
        raise LimnerError("words and an image in one query need one vector per item, and this index has several")
    rows = sample(index.store, SAMPLE)
    total = np.zeros(index.about.dim)
    names: list[str] = []
    for items in parts:
        vectors = index.read_queries(items)[1]
        if not isinstance(vectors, Embeddings):
            raise LimnerError("words and an image in one query need a model with one vector for each of them")
        for vector in vectors.matrix.astype(np.float64):
            spread = float((rows @ vector).std())
            total += vector / spread if spread > 0 else vector
        names += items.values if items.kind == "text" else [Path(key).name for key in items.ids]
    return Embeddings(Ids([" + ".join(names)], what="query"), total[None].astype(np.float32))
