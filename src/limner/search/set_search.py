"""Items with several vectors each in an index: exact late interaction, read from the store in pieces of bounded size.

The score of a query with the vectors q_1, q_2, ... and an item with the vectors c_1, c_2, ... is the sum, over the
vectors of the query, of the best product with any vector of the item (Khattab & Zaharia 2020, *ColBERT*; for pages of
documents Faysse et al. 2024, *ColPali*):

    s(q, c) = sum_i max_j <q_i, c_j>

Items are read a few at a time, together at most `PIECE` bytes of vectors (a larger item is read alone), and scored by
`limner.scores.set_scores.SetScores`, whose scores depend only on the two items. The best of all pieces are merged in
the order of the store. So lists, scores and the order of equal scores are bit-identical to those of
`Scores.from_sets(queries, items, pooling="maxsim").top(k)`, however the items are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np

from limner.core.arrays import Array, Float32
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.progress import ProgressLike, as_progress
from limner.scores import Scores, VectorSets
from limner.scores.parallel_blocks import Block
from limner.scores.set_scores import SetScores, item_ranges
from limner.scores.vector_sets import vector_names
from limner.search.exact_search import Best, Places, merged
from limner.search.index_table import Vectors, refuse_unlike
from limner.search.store import VectorStore

PIECE, ITEMS = 2**24, 2**16
"""Bytes of vectors that are read and scored at once, and items."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Some items of a store.

    Args:
        places: Their positions in the store.
        sets: Their vectors.
    """

    places: Places
    sets: VectorSets


Source = VectorStore | Sequence[Piece]
"""Where pieces come from: read from the store, or kept in memory."""


def pieces_of(source: Source, among: Array | None = None) -> Iterator[Piece]:
    """The items of a store in order, at most `PIECE` bytes of vectors at a time.

    Args:
        source: The store, or its pieces.
        among: A mask of the items to read; all by default. Of a store, no others are read.
    """
    if isinstance(source, VectorStore):
        yield from _read(source, np.arange(len(source)) if among is None else np.flatnonzero(among))
        return
    for piece in source:
        selected = np.arange(len(piece.places)) if among is None else np.flatnonzero(among[piece.places])
        if len(selected) == len(piece.places):
            yield piece
        elif len(selected):
            yield Piece(piece.places[selected], piece.sets.subset(piece.sets.ids[selected]))


def all_sets(source: Source) -> VectorSets:
    """All items in memory."""
    parts = [piece.sets for piece in pieces_of(source)]
    ids = [key for part in parts for key in part.ids]
    counts = np.concatenate([part.counts for part in parts])
    return VectorSets.in_order(ids, np.concatenate([part.vectors.matrix for part in parts]), counts)


def top(
    queries: VectorSets,
    pieces: Iterable[Piece],
    k: int,
    *,
    rows: int,
    pooling: str,
    progress: ProgressLike = None,
) -> Best:
    """The k best items of every query; equal scores keep the order of the store.

    Args:
        queries: Vectors, normalised for cosine similarity.
        pieces: The items, in order; taken one at a time.
        k: Number of items per query; at most all items.
        rows: Number of items, for the progress.
        pooling: The pooling of the index.
        progress: Called with (items done, items in total).

    >>> queries = VectorSets.of({"q": np.eye(2)})
    >>> items = VectorSets.of({"a": np.array([[0.6, 0.8]]), "b": np.eye(2)})
    >>> pieces = [Piece(np.array([n]), items.part(n, n + 1)) for n in range(2)]
    >>> top(queries, pieces, 1, rows=2, pooling="maxsim")
    (array([[1]]), array([[2.]], dtype=float32))
    """
    progress = as_progress(progress)
    merged_best: Best | None = None
    for piece in pieces:
        ranking = _scores(queries, piece.sets, pooling).top(k)
        best = piece.places[ranking.indices], np.asarray(ranking.scores, dtype=np.float32)
        merged_best = best if merged_best is None else merged(merged_best, best, k)
        progress(int(piece.places[-1]) + 1, rows)
    none = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    return none if merged_best is None else merged_best


def scores_of_items(store: VectorStore, ids: Ids, queries: Vectors) -> Scores:
    """Late interaction of some items of a store (the rows) with queries, both as they are.

    Args:
        store: A store of several vectors per item.
        ids: Ids of the items.
        queries: Vectors of the queries as `Index.asked` gives them, normalised if they have to be.
    """
    refuse_unlike(store.about, queries)
    return SetScores(cast(VectorSets, queries), all_sets(store).subset(ids), str(store.about.pooling)).T


@dataclass(frozen=True, eq=False)
class StoredSetScores(Scores):
    """Scores of queries against a store of items with several vectors; each block of queries reads the store once.

    Args:
        query_sets: Vectors of the queries, normalised for cosine similarity.
        source: The store, or its pieces in memory.
        candidates: Ids of all items of the store.
        pooling: The pooling of the index.
    """

    query_sets: VectorSets
    source: Source
    candidates: Ids
    pooling: str

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.query_sets.ids

    @property
    def T(self) -> Scores:
        """Not available."""
        raise LimnerError("scores of a store have only one direction: for the other direction, search the other index")

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> Scores:
        """The vectors of these queries only; of candidates, a view."""
        part = self if queries is None else replace(self, query_sets=self.query_sets.subset(queries))
        return part if candidates is None else Scores.restrict(part, candidates=candidates)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Late interaction with all items of the store, read in pieces."""
        if out is None:
            out = np.empty((stop - start, len(self.candidates)), dtype=np.float32)
        part = self.query_sets.part(start, stop)
        for piece in pieces_of(self.source):
            low, high = int(piece.places[0]), int(piece.places[-1]) + 1
            out[: stop - start, low:high] = _scores(part, piece.sets, self.pooling).block(0, stop - start)
        return out[: stop - start]


def _scores(queries: VectorSets, items: VectorSets, pooling: str) -> SetScores:
    """Scores of some items; their vectors have names only where a message may have to name one."""
    scores = SetScores(queries, items, pooling)
    if not scores.singles.may_overflow:
        return scores
    named = Embeddings(vector_names(items.ids, items.starts), items.vectors.matrix)
    return SetScores(queries, VectorSets(items.ids, named, items.starts), pooling)


def _read(store: VectorStore, places: Places) -> Iterator[Piece]:
    """These items of a store, in pieces."""
    starts = np.concatenate([[0], np.cumsum(store.counts()[places])])
    for low, high in item_ranges(starts, PIECE // (4 * store.about.dim), max_items=ITEMS):
        ids, matrix, counts = store.sets(places[low:high])
        local_starts = starts[low : high + 1] - starts[low]
        if not np.array_equal(counts, np.diff(local_starts)) or counts.min() < 1:
            raise LimnerError(f"the index {store.path} is damaged near item {ids[0]!r}: index again")
        vectors = Embeddings(_numbers(len(matrix)), matrix)
        yield Piece(places[low:high], VectorSets(Ids(ids, what=store.about.kind), vectors, local_starts))


def _numbers(count: int) -> Ids:
    """The ids 0, 1, ...: vectors of a piece are not looked up by id."""
    return _numbered(1 << max(count - 1, 0).bit_length())[:count]


@cache
def _numbered(count: int) -> Ids:
    return Ids(range(count), what="vector")
