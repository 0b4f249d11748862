"""Cosine similarity of queries and candidates where each query excludes one candidate, such as itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.core.ids import Ids
from limner.scores import Scores

Side = tuple[Ids, Float32, npt.ArrayLike]
"""Ids, unit vectors and positions."""


def excluding(queries: Side, candidates: Side) -> Scores:
    """Dot products, block by block; -inf where the position of the query, which it excludes, is that of the candidate.

    >>> ids, vectors = Ids(["a", "b"]), np.eye(2, dtype=np.float32)
    >>> excluding((ids, vectors, [1, 0]), (ids, vectors, [0, 1])).matrix()
    array([[  1., -inf],
           [-inf,   1.]])
    """
    sides = [np.column_stack([v, np.asarray(at)]).astype(np.float32) for _, v, at in (queries, candidates)]
    return Scores.from_kernel(_products, *sides, queries=queries[0], candidates=candidates[0])


def _products(rows: Float32, columns: Float32) -> Float32:
    """The last number of each vector is a position."""
    block = rows[:, :-1] @ columns[:, :-1].T
    block[rows[:, -1:] == columns[:, -1]] = -np.inf
    return block
