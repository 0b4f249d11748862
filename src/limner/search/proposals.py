"""Exact search for one query without loading the vectors: LanceDB's scan proposes rows, and a bound proves them.

LanceDB sums float32 products in its own order, so its scores are within 2 gamma |q| |v| of those of `Scores` (see
`limner.search.exact`), and it returns 1 - score, which adds another rounding. A few more rows than needed are
requested. If the k-th best score of these is above the highest score possible for a row outside the list, the list is
complete. Otherwise more rows are requested, and finally the vectors are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.core.ids import Ids
from limner.scores import VectorScores
from limner.search.approximate import Row
from limner.search.exact import gamma
from limner.search.store import VectorStore

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ["id", "vector", "value", "picture", "_distance"]
LIMIT = 1024
"""Maximum number of rows to request."""


def proven(store: VectorStore, queries: Embeddings, k: int) -> list[list[Row]] | None:
    """The k best rows of every query with the scores of `Scores`; None if the bound does not prove them.

    Args:
        store: A store of unit vectors.
        queries: Queries as unit vectors.
        k: Number of rows per query.
    """
    listed = [
        _proven(store, Embeddings(queries.ids[n : n + 1], queries.matrix[n : n + 1]), k) for n in range(len(queries))
    ]
    return None if any(each is None for each in listed) else [each for each in listed if each is not None]


def _proven(store: VectorStore, query: Embeddings, k: int) -> list[Row] | None:
    limit = 2 * k + 16
    while limit <= LIMIT:
        found = _asked(store, query.matrix[0], limit)
        vectors = _vectors(found, query.dim)
        scores = VectorScores(query, Embeddings(Ids(range(len(vectors))), vectors)).small()[0]
        order = np.argsort(-scores, kind="stable")
        best = scores[order[: k + 1]]
        if (np.diff(best) == 0).any():  # ties keep the order of the store, which only a full read knows
            return None
        if len(found) < limit or best[k - 1] > _outside(found["_distance"][-1].as_py(), query.dim):
            return _rows(found, order[:k], scores)
        limit *= 4
    return None


def _asked(store: VectorStore, vector: Float32, limit: int) -> pa.Table:
    with store.explained():
        query = store.table.search(vector, vector_column_name="vector").distance_type("dot").bypass_vector_index()
        return query.limit(limit).select(COLUMNS).to_arrow()


def _vectors(found: pa.Table, dim: int) -> Float32:
    flat = found["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(flat.reshape(-1, dim), dtype=np.float32)


def _outside(distance: float, dim: int) -> float:
    """An upper bound of the score of any row outside a list.

    Args:
        distance: The largest distance (1 - score) in the list.
        dim: Dimension of the vectors; their lengths are 1 up to rounding, for which 2^-10 is more than enough.
    """
    return 1 - distance + 4 * (gamma(dim) + 2.0**-24) * (1 + 2.0**-10)


def _rows(found: pa.Table, chosen: Any, scores: Float32) -> list[Row]:
    rows = found.select(["id", "value", "picture"]).take(chosen).to_pylist()
    return [{**row, "score": float(score)} for row, score in zip(rows, scores[chosen], strict=True)]
