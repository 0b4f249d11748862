"""Words, minus terms and filters by field on the page, with the texts of images read once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.web.jobs import NOTICED, Job, Pending
from limner.web.search_request import SearchRequest

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.search.hits import Match
    from limner.search.hybrid import Ordered
    from limner.search.item_texts import ItemTexts
    from limner.search.query_terms import Terms
    from limner.systems.system_spec import OpenSystem
    from limner.web.library import Library

Pieces = Sequence[tuple[str, bool]]
"""A text in pieces, and whether each is a word of the query."""
AT_START = 200_000
"""Items of an index up to which a form of its fields is shown before a search has read them."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, eq=False)
class WordSearch:
    """A request with words, minus terms or filters, on one part of a collection.

    Args:
        request: The request; its words are only the search words.
        texts: The texts of the items.
        terms: The parsed words, minus terms and filters.
    """

    request: SearchRequest
    texts: ItemTexts
    terms: Terms

    @classmethod
    def of(cls, library: Library, request: SearchRequest, ready: OpenSystem) -> WordSearch | None:
        """None for a plain search by vectors."""
        if not request.has_terms:
            return None
        texts = texts_of(library, request, ready.collection, ready.name)
        terms = terms_of(request, texts)
        if not terms.words.strip() and not request.by_image:
            raise LimnerError("a query without words: add words to search for, besides minus terms and filters")
        if request.by_image and request.by != "vectors":
            raise LimnerError("an image has no words to rank by: rank by vectors")
        return cls(replace(request, words=terms.words), texts, terms)

    @property
    def note(self) -> str:
        """The effect of minus terms and filters."""
        from limner.search.hybrid import about

        return about(self.terms, self.texts)

    def ordered(self, row: FloatArray, order: IntArray) -> Ordered:
        """The allowed items in order."""
        from limner.search.hybrid import DEPTH, fused

        chosen = self.only(order)
        depth = len(order) if self.request.by == "vectors" else DEPTH
        return fused(self.terms, self.texts, (chosen, row[chosen]), self._allowed, self.request.by, depth)

    def only(self, order: IntArray) -> IntArray:
        """The allowed positions, in the same order."""
        return order if self._allowed is None else order[self._allowed[order]]

    @property
    def _allowed(self) -> BoolArray | None:
        return self.texts.allowed(self.terms)

    def matches(self, ordered: Ordered, limit: int) -> dict[int, Match]:
        """Why the first items were found, by position."""
        return {
            int(ordered.places[n]): ordered.match(n, self.texts, self.terms)
            for n in range(min(limit, len(ordered.places)))
        }


def terms_of(request: SearchRequest, texts: ItemTexts) -> Terms:
    """The words, minus terms and filters of a request."""
    from limner.search.query_terms import read_filters, read_terms

    return read_terms(request.words, texts.names).with_filters(read_filters(request.where))


def texts_of(library: Library, request: SearchRequest, pool: Collection, system: str = "") -> ItemTexts:
    """The texts of the part of a collection that a system searches, read once."""
    from limner.search import with_captions
    from limner.search.item_texts import ItemTexts

    side = "images" if request.finds_images else "texts"

    def work(job: Job) -> ItemTexts:
        texts = ItemTexts.of_items(with_captions(pool, side))
        _ = texts.bm25
        return texts

    key = ("words", request.collection, request.split, side, system)
    return library.jobs.value(key, f"reading the captions of {request.collection}", work, patience=NOTICED)


def texts_of_index(library: Library, name: str, *, patience: float = NOTICED) -> ItemTexts:
    """The stored texts of an index's items, read once per version."""
    from limner.search import search_words
    from limner.search.item_texts import ItemTexts

    index = library.indexes[name].index

    def work(job: Job) -> ItemTexts:
        texts = ItemTexts.of_index(index)
        _ = texts.bm25, texts.choices
        with suppress(LimnerError):  # searched once, so that no visitor waits for what is loaded on first use
            search_words(index, ["a red dog"], 1, texts=texts)
        return texts

    key = ("words", name, index.version)
    return library.jobs.value(key, f"reading the captions of {name}", work, patience=patience)


def warm(library: Library) -> None:
    """Reads the captions of indexes in the background, if they are not too large, so that no visitor waits for them."""
    for name, served in library.indexes.items():
        if len(served.index) <= AT_START:
            with suppress(Pending, LimnerError):  # reported when it is requested
                texts_of_index(library, name, patience=0.0)


def choices_of(library: Library, request: SearchRequest) -> dict[str, list[str]]:
    """The values to filter by, by field; empty until they are read."""
    try:
        if request.collection in library.indexes:
            small = len(library.indexes[request.collection].index) <= AT_START
            return texts_of_index(library, request.collection).choices if small or request.has_terms else {}
        return texts_of(library, request, library.part(request.collection, request.split)).choices
    except (Pending, LimnerError):
        return {}


def plain_words(library: Library, request: SearchRequest) -> str:
    """The search words of a request, without its minus terms and filters."""
    if not request.has_terms:
        return request.words.strip()
    texts = texts_of(library, request, library.part(request.collection, request.split))
    return terms_of(request, texts).words.strip()


def marked(text: str, words: str) -> Pieces:
    """A text in pieces, so that a page can mark the words of a query.

    >>> marked("Two dogs, running.", "a dog")
    [('Two ', False), ('dogs', True), (', running.', False)]
    """
    from limner.language.bm25 import query_words

    word_stems, pieces, last = query_words(words), [], 0
    for word in _WORD.finditer(text):
        if query_words(word[0]).keys() & word_stems.keys():
            pieces += [(text[last : word.start()], False), (word[0], True)]
            last = word.end()
    return [piece for piece in [*pieces, (text[last:], False)] if piece[0]]
