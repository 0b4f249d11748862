"""Exact top-k search over the streamed vectors of a store, with the same lists as `Scores.top`.

For a few queries, one plain matrix product per block finds everything that could be among the best. Its rounding
differs from that of the fixed tiles that `Scores` uses, but by no more than 2 gamma |q| |v| with gamma = d u / (1 - d
u) and u = 2^-24 (Higham 2002, section 3.1), so rows further below the k-th best are excluded. The remaining rows, a few
more than k, are scored in tiles. For many queries, every block is scored in tiles and the lists are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.scores.base import LARGEST
from limner.scores.exact_products import fill_small
from limner.scores.parallel_blocks import TILE_ROWS
from limner.scores.vectors import VectorScores
from limner.search.items import Row
from limner.search.store import VectorStore

if TYPE_CHECKING:
    import pyarrow as pa

Places = npt.NDArray[np.int64]
Best = tuple[Places, Float32]
"""Positions in the store, best first, and their scores; one row per query."""

HELD = 32_768
"""Maximum number of rows collected before they are scored in tiles."""
GROUPS = 16
"""Groups of scores for each of the k best, whose maxima bound the k-th best from below."""
SMALL = 4096
"""Up to this many scores are computed without threads and compiled loops."""


def top(
    queries: Embeddings,
    blocks: Iterable[Float32],
    k: int,
    *,
    rows: int,
    max_norm: float | None = None,
    among: Array | None = None,
    progress: ProgressLike = None,
) -> Best:
    """The k best rows of every query; equal scores keep the order of the store.

    Args:
        queries: Vectors, normalised for cosine similarity.
        blocks: The store's vectors, in order; read one at a time.
        k: Number of rows per query; at most all rows.
        rows: Total number of rows in the blocks.
        max_norm: The largest Euclidean norm of a row, if known: 1 for cosine.
        among: A mask of the rows to compare; all rows by default.
        progress: Called with (rows done, rows in total).
    """
    progress = as_progress(progress)
    counted = _counted(blocks, rows, progress)
    if among is not None:
        chosen = np.flatnonzero(among)
        if not len(chosen):
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        places, scores = top(queries, _allowed(counted, among), k, rows=len(chosen), max_norm=max_norm)
        return chosen[places], scores
    k = min(k, rows)
    return (
        _few_queries(queries, counted, k, max_norm) if len(queries) <= TILE_ROWS else _many_queries(queries, counted, k)
    )


def _allowed(blocks: Iterable[tuple[int, Float32]], among: Array) -> Iterator[Float32]:
    """The rows that a mask selects."""
    for start, block in blocks:
        chosen = among[start : start + len(block)]
        if chosen.any():
            yield block[chosen]


def graded(queries: Embeddings, vectors: Float32, k: int) -> Best:
    """The k best of these rows, with the scores of `Scores`."""
    if len(queries) * len(vectors) <= SMALL:
        scores = np.empty((len(queries), len(vectors)), dtype=np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            fill_small(scores, queries.matrix, vectors)
        if np.isfinite(scores).all():
            indices = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            return indices, np.take_along_axis(scores, indices, axis=1)
    ranking = VectorScores(queries, Embeddings(Ids(range(len(vectors))), vectors)).top(k)
    return ranking.indices.astype(np.int64), np.asarray(ranking.scores, dtype=np.float32)


def _few_queries(
    queries: Embeddings, blocks: Iterable[tuple[int, Float32]], k: int, max_norm: float | None = None
) -> Best:
    candidates, longest = _Candidates(k), max_norm or 0.0
    lengths = np.linalg.norm(queries.matrix.astype(np.float64), axis=1)
    floor = np.full(len(queries), -np.inf)
    for start, block in blocks:
        products = _products(queries, start, block, max_norm)
        if max_norm is None:
            longest = max(longest, float(np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64).max())))
        floor = np.maximum(floor, _kth(products, k))
        lowest = floor - 4 * gamma(queries.dim) * lengths * longest * 1.001  # norms are rounded too
        reached = products >= np.nextafter(lowest.astype(np.float32), np.float32(-np.inf))[:, None]
        candidates.add(start, block, np.flatnonzero(reached[0] if len(products) == 1 else reached.any(axis=0)))
        if candidates.count > HELD:
            candidates.decide(queries)
    return candidates.decide(queries)


@dataclass
class _Candidates:
    """Rows that may be among the best, with their positions."""

    k: int
    rows: list[Float32] = field(default_factory=list)
    places: list[Places] = field(default_factory=list)
    count: int = 0

    def add(self, start: int, block: Float32, chosen: Places) -> None:
        self.rows.append(block[chosen])  # a copy, so that the block can be freed
        self.places.append(start + chosen)
        self.count += len(chosen)

    def decide(self, queries: Embeddings) -> Best:
        """Finds the best so far and drops everything else."""
        rows, places = np.concatenate(self.rows), np.concatenate(self.places)
        indices, scores = graded(queries, rows, self.k)
        best_rows = np.unique(indices)
        self.rows, self.places, self.count = [rows[best_rows]], [places[best_rows]], len(best_rows)
        return places[indices], scores


def _many_queries(queries: Embeddings, blocks: Iterable[tuple[int, Float32]], k: int) -> Best:
    top: Best | None = None
    for start, block in blocks:
        indices, scores = graded(queries, block, k)
        candidates = start + indices, scores
        top = candidates if top is None else merged(top, candidates, k)
    return top if top is not None else (np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32))


def merged(earlier: Best, later: Best, k: int) -> Best:
    """The k best of two lists; equal scores keep the order of the store, of which the second list is a later part.

    >>> one, two = np.array([[2.0, 1.0]], np.float32), np.array([[2.0]], np.float32)
    >>> merged((np.array([[7, 3]]), one), (np.array([[9]]), two), 2)
    (array([[7, 9]]), array([[2., 2.]], dtype=float32))
    """
    from limner.scores.block_kernels import best

    places, all_scores = np.hstack([earlier[0], later[0]]), np.hstack([earlier[1], later[1]])
    chosen = np.zeros((len(all_scores), min(k, all_scores.shape[1])), dtype=np.int32)
    scores = np.zeros(chosen.shape, dtype=np.float32)
    best(all_scores, chosen, scores)
    return np.take_along_axis(places, chosen.astype(np.int64), axis=1), scores


def _products(queries: Embeddings, start: int, block: Float32, max_norm: float | None) -> Float32:
    """Plain products; refuses overflow, which would corrupt the comparison."""
    with np.errstate(over="ignore", invalid="ignore"):
        products = queries.matrix @ block.T
    small = max_norm is not None and 2 * queries.max_norm * max_norm < LARGEST
    if not small and not np.isfinite(products).all():
        row, column = np.argwhere(~np.isfinite(products))[0]
        raise LimnerError(
            f"the product of query {queries.ids[int(row)]!r} and row {start + int(column)} of the index overflows "
            "single precision: index normalised vectors (similarity='cosine'), or divide them all by a constant"
        )
    return products


def _kth(scores: Float32, k: int) -> Float32:
    """A score that at least k of every row reach, close to the k-th best; -inf if there are fewer.

    The maxima of groups are k scores of different columns. Without compiled loops a server needs 100 MB less memory.

    >>> _kth(np.array([[3.0, 1.0, 2.0]], dtype=np.float32), 2).tolist()
    [2.0]
    """
    columns = scores.shape[1]
    if columns < k:
        return np.full(len(scores), -np.inf)
    size = columns // (GROUPS * k)
    if size > 1:
        full_groups = scores[:, : columns // size * size]
        scores = full_groups.reshape(len(scores), -1, size).max(axis=2)
    return np.partition(scores, scores.shape[1] - k, axis=1)[:, -k]


def gamma(terms: int) -> float:
    """The relative error bound of a sum of products in float32, in any order of summation."""
    share = terms * 2.0**-24
    return share / (1 - share)


def _counted(blocks: Iterable[Float32], rows: int, progress: Progress) -> Iterator[tuple[int, Float32]]:
    start = 0
    for block in blocks:
        yield start, block
        start += len(block)
        progress(start, rows)


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
        table = _nearest_table(store, query.matrix[0], limit)
        vectors = _vectors(table, query.dim)
        scores = VectorScores(query, Embeddings(Ids(range(len(vectors))), vectors)).small()[0]
        order = np.argsort(-scores, kind="stable")
        best = scores[order[: k + 1]]
        if (np.diff(best) == 0).any():  # ties keep the order of the store, which only a full read knows
            return None
        if len(table) < limit or best[k - 1] > _outside(table["_distance"][-1].as_py(), query.dim):
            return _rows(table, order[:k], scores)
        limit *= 4
    return None


def _nearest_table(store: VectorStore, vector: Float32, limit: int) -> pa.Table:
    with store.explained():
        query = store.table.search(vector, vector_column_name="vector").distance_type("dot").bypass_vector_index()
        return query.limit(limit).select(COLUMNS).to_arrow()


def _vectors(table: pa.Table, dim: int) -> Float32:
    flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(flat.reshape(-1, dim), dtype=np.float32)


def _outside(distance: float, dim: int) -> float:
    """An upper bound of the score of any row outside a list.

    Args:
        distance: The largest distance (1 - score) in the list.
        dim: Dimension of the vectors; their lengths are 1 up to rounding, for which 2^-10 is more than enough.
    """
    return 1 - distance + 4 * (gamma(dim) + 2.0**-24) * (1 + 2.0**-10)


def _rows(table: pa.Table, chosen: Array, scores: Float32) -> list[Row]:
    rows = table.select(["id", "value", "picture"]).take(chosen).to_pylist()
    return [{**row, "score": float(score)} for row, score in zip(rows, scores[chosen], strict=True)]
