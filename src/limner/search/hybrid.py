"""Hybrid search by words and vectors, with minus terms, filters by field, and images that words change.

Vectors find similar meanings, words find exact wording. Both lists are fused by reciprocal rank, which needs no common
scale. A minus term removes the items whose texts contain it. If an index has no texts, the direction of the term is
removed from the query vector instead (Widdows 2003), which ranks such items lower but removes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Array
from limner.core.collection import Items
from limner.core.cut_texts import noted
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.search.approximate import sample
from limner.search.hits import Hits, Match
from limner.search.index_table import Queries, Vectors, as_vectors
from limner.search.item_texts import ItemTexts
from limner.search.query_terms import FieldFilter, Terms, read_filters, read_terms

if TYPE_CHECKING:
    from limner.search.index import Index

WAYS = ("vectors", "words", "hybrid")
DEPTH = 1000
"""The best of each list that are fused."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """A ranked list of items.

    Args:
        places: Their positions, best first.
        scores: Scores of the vectors, BM25 scores, or sums of reciprocal ranks.
        by_words: Rank of each in the list by words; 0 if it is not in that list.
        by_vectors: Likewise by vectors.
    """

    places: Array
    scores: Array
    by_words: Array
    by_vectors: Array

    def match(self, number: int, texts: ItemTexts, terms: Terms) -> Match:
        """Why an item is in the list."""
        place = int(self.places[number])
        words = texts.bm25.matched(terms.words, place)
        return Match(words, int(self.by_words[number]), int(self.by_vectors[number]), texts.best_text(terms, place))


@noted
def search_words(
    index: Index,
    queries: Queries,
    k: int = 10,
    *,
    by: str = "hybrid",
    where: Iterable[str | FieldFilter] = (),
    literal: bool = False,
    texts: ItemTexts | None = None,
    progress: ProgressLike = None,
) -> Hits:
    """Searches an index with queries as people type them: `dog -beach split:test`.

    Args:
        index: An index of images with captions, or of texts; and a system that encodes texts, unless `by` is "words".
        queries: Texts, which `read_terms` parses; images and vectors can be filtered too.
        k: Number of hits per query.
        by: "vectors", "words" (BM25), or "hybrid" for both, fused by reciprocal rank.
        where: Filters for all queries: "split=test", or as `read_filters` gives them.
        literal: Whether hyphens and colons in the queries are plain text.
        texts: The texts and fields of the index, if they are already loaded.
        progress: Called with (queries done, queries in total).
    """
    progress = as_progress(progress)
    if by not in WAYS:
        raise UnknownName("way to rank", by, WAYS)
    if k < 1:
        raise LimnerError(f"search for the {k} best: expected at least 1")
    item_texts = ItemTexts.of_index(index) if texts is None else texts
    filters = [
        each
        for condition in where
        for each in ([condition] if isinstance(condition, FieldFilter) else read_filters([condition]))
    ]
    items, read, vectors = _read(index, queries, item_texts, by, literal)
    ordered, notes = [], []
    for number, terms in enumerate(each.with_filters(filters) for each in read):
        vector = None if vectors is None else vectors.subset([vectors.ids[number]])
        ordered.append((terms, _ordered(index, terms, item_texts, by, max(k, DEPTH), vector)))
        notes.append(about(terms, item_texts))
        progress(number + 1, len(read))
    return replace(_hits(index, items, ordered, item_texts, k), by=by, notes=tuple(dict.fromkeys(filter(None, notes))))


def _read(
    index: Index, queries: Queries, item_texts: ItemTexts, by: str, literal: bool
) -> tuple[Items, list[Terms], Vectors | None]:
    """The queries, the terms of each, and the vectors of those that are not texts."""
    items = None if as_vectors(queries, sets=index.about.has_sets) is not None else Items.of(queries)
    if items is not None and items.kind == "text":
        return items, [Terms(text) if literal else read_terms(text, item_texts.names) for text in items.values], None
    if by != "vectors":
        raise LimnerError(f"queries that are not texts cannot be ranked by words: leave out by={by!r} (--by {by})")
    query_items, vectors = index.read_queries(queries)
    return query_items, [Terms("")] * len(vectors), vectors


def _ordered(
    index: Index, terms: Terms, texts: ItemTexts, by: str, depth: int, vector: Vectors | None = None
) -> Ordered:
    """The best items of one query."""
    if vector is None and not terms.words.strip():
        raise LimnerError("a query without words: add words to search for, besides minus terms and filters")
    allowed = texts.allowed(replace(terms, without=()) if texts.is_empty else terms)
    nearest = None
    if by != "words":
        vectors = query_vector(index, terms, texts) if vector is None else vector
        places, scores = index.nearest(vectors, depth, among=allowed)
        nearest = places[0], scores[0]
    return fused(terms, texts, nearest, allowed, by, depth)


def query_vector(index: Index, terms: Terms, texts: ItemTexts) -> Vectors:
    """The vector of the words, or their vectors; if the index has no texts, without the directions of minus terms."""
    query = index.read_queries(Items(Ids(["query"]), [terms.words], kind="text"))[1]
    if not terms.without or not texts.is_empty:
        return query
    minus = index.read_queries(Items(Ids(range(len(terms.without))), list(terms.without), kind="text"))[1]
    if not isinstance(query, Embeddings) or not isinstance(minus, Embeddings):
        raise LimnerError(
            f"the minus term {terms.without[0]!r}: an index without captions removes its direction from the query "
            "vector, but a query has several vectors here; leave it out, or create the index from a collection "
            "with captions"
        )
    basis = np.linalg.qr(minus.matrix.T.astype(np.float64))[0]
    left = query.matrix - (query.matrix @ basis) @ basis.T
    return index.read_queries(Embeddings(query.ids, left.astype(np.float32)))[1]


def fused(
    terms: Terms, texts: ItemTexts, nearest: tuple[Array, Array] | None, allowed: Array | None, by: str, depth: int
) -> Ordered:
    """Ranks items by words, vectors, or both.

    Args:
        terms: The query.
        texts: The texts and fields of the items.
        nearest: Positions and scores of allowed items by vectors, best first; None if only words count.
        allowed: Which items may be shown; None for all.
        by: A key of `WAYS`.
        depth: Number of entries of each list that count.
    """
    empty = np.empty(0, np.int64), np.empty(0)
    by_vectors = empty if nearest is None or by == "words" else (nearest[0][:depth], nearest[1][:depth])
    if by == "vectors":
        ranks = np.arange(1, len(by_vectors[0]) + 1)
        return Ordered(by_vectors[0], by_vectors[1], np.zeros(len(ranks), np.int64), ranks)
    if texts.is_empty:
        raise LimnerError(
            f"these {texts.kind}s have no texts in the index: create it from a collection with captions, or "
            "with a field 'captions' (limner.search.with_captions); or search by vectors"
        )
    word = _by_words(terms, texts, allowed, depth)
    if by == "words":
        ranks = np.arange(1, len(word[0]) + 1)
        return Ordered(word[0], word[1], ranks, np.zeros(len(ranks), np.int64))
    return _merged_ranks(word, by_vectors)


def _by_words(terms: Terms, texts: ItemTexts, allowed: Array | None, depth: int) -> tuple[Array, Array]:
    """Positions and BM25 scores of the items that share a word with the query, best first."""
    scores = texts.bm25.scores(terms.words)
    if allowed is not None:
        scores = np.where(allowed, scores, 0.0)
    places = np.flatnonzero(scores)
    order = places[np.argsort(-scores[places], kind="stable")][:depth]
    return order, scores[order]


def _merged_ranks(word: tuple[Array, Array], by_vectors: tuple[Array, Array]) -> Ordered:
    """Fuses two lists by reciprocal rank; equal sums keep the order of the items."""
    from limner.match.fusion import reciprocal_rank

    union = np.union1d(word[0], by_vectors[0]).astype(np.int64)
    if not len(union):
        return Ordered(union, np.empty(0), union, union)
    ids, at = Ids(union.tolist(), what="candidate"), [np.searchsorted(union, each[0]) for each in (word, by_vectors)]
    lists = [
        Ranking(Ids(["query"]), ids, places[None, :], np.asarray(scores, dtype=np.float64)[None, :], len(union))
        for places, (_, scores) in zip(at, (word, by_vectors), strict=True)
    ]
    ranking = reciprocal_rank([each for each in lists if each.depth])
    chosen = ranking.indices[0][ranking.indices[0] >= 0]
    ranks = np.zeros((2, len(union)), dtype=np.int64)
    for row, places in enumerate(at):
        ranks[row, places] = np.arange(1, len(places) + 1)
    return Ordered(union[chosen], np.asarray(ranking.scores)[0, : len(chosen)], ranks[0][chosen], ranks[1][chosen])


def about(terms: Terms, texts: ItemTexts) -> str:
    """Notes on the effect of minus terms and filters."""
    kind, parts = texts.kind, []
    if terms.without:
        named = " and ".join(f"“{word}”" for word in terms.without)
        parts.append(
            f"without {named}: its direction is removed from the query vector; {kind}s that show it can still be found"
            if texts.is_empty
            else f"without {named}: {kind}s whose own {'captions' if kind == 'image' else 'words'} have it are removed"
        )
    if terms.where:
        parts.append("only " + ", ".join(map(str, terms.where)))
    return "; ".join(parts)


def _hits(index: Index, items: Items, ordered: list[tuple[Terms, Ordered]], texts: ItemTexts, k: int) -> Hits:
    """The hits of all queries; short lists are padded."""
    width = max((min(k, len(each.places)) for _, each in ordered), default=0)
    places = np.full((len(ordered), width), -1, dtype=np.int64)
    scores = np.full(places.shape, -np.inf)
    matches: dict[tuple[str, str], Match] = {}
    for number, (_, each) in enumerate(ordered):
        count = min(width, len(each.places))
        places[number, :count], scores[number, :count] = each.places[:count], each.scores[:count]
    hits = index.hits_at(items, places, scores)
    for number, (terms, each) in enumerate(ordered):
        for place, hit in enumerate(hits[items.ids[number]]):
            matches[items.ids[number], hit.id] = each.match(place, texts, terms)
    return replace(hits, matches=matches)


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
