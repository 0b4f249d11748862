"""Details of one image or text: its captions or images, its rank by every system, its labels and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from starlette.responses import Response

from limner.core.errors import LimnerError, UnknownId
from limner.web.jobs import Pending
from limner.web.search_page import linker, parse_request
from limner.web.search_request import SearchRequest
from limner.web.searching import SearchAnswer, known_query, row_of, search
from limner.web.site import Ask, page
from limner.web.word_search import plain_words

if TYPE_CHECKING:
    from limner.core.collection import Collection

NEIGHBOURS = 8
MOST_LABELS = 10
"""Number of labels shown per set of judgements."""


@dataclass(frozen=True)
class LabelledPair:
    """A labelled pair of the item.

    Args:
        id: The caption of the image, or the image of the caption.
        text: The caption; empty for an image.
        ranks: The rank of the image for the caption by system; None if the image is not searched.
    """

    id: str
    text: str
    ranks: Mapping[str, int | None]


@dataclass(frozen=True)
class FurtherLabel:
    """A judgement of the item: the set of judgements, the other item, and the grade."""

    view: str
    id: str
    text: str
    grade: float


def item_page(ask: Ask) -> Response:
    """An image (`id`) or a text (`text`) of a collection or an index."""
    request, key, is_text = parse_request(ask), ask.get("id") or ask.get("text"), not ask.get("id")
    if request.collection in ask.site.library.indexes:
        return _of_index(ask, request, key)
    collection = ask.site.library.loaded(request.collection).whole
    items = collection.texts if is_text else collection.images
    if key not in items.ids:
        raise UnknownId(f"no {'text' if is_text else 'image'} {key[:80]!r} in {request.collection!r}")
    words = str(items.values[items.ids.index(key)]) if is_text else ""
    rows, waiting = _rows(ask, request, collection, key, is_text)
    query = replace(request, words="" if request.words else words)
    query_ranks = _ranks_of_query(ask, request, key, is_text)
    return page(
        ask, "item.html", request=request, key=key, is_text=is_text, words=words, rows=rows, waiting=waiting,
        here=query_ranks, ranked_by=_ranked_by(ask, request) if query_ranks else "",
        labels=_labels(collection, key, is_text),
        near=_neighbours(ask, query, key, is_text, words), link=linker(request), systems=ask.site.library.names,
        like=linker(request)(words=words, find="texts") if is_text else linker(request)(image=key, find="images"),
        across=linker(request)(words=words) if is_text else linker(request)(image=key), captions=(), fields={},
    )  # fmt: skip


def _of_index(ask: Ask, request: SearchRequest, key: str) -> Response:
    """An item of an index: its stored data and its neighbours."""
    served = ask.site.library.indexes[request.collection]
    is_text = served.kind == "text"
    words = str(served.row(key)["value"] or key) if is_text else ""
    captions, fields = served.described(key)
    return page(
        ask, "item.html", request=request, key=key, is_text=is_text, words=words, rows=[], waiting=[], here={},
        ranked_by="", labels=[], near=_neighbours(ask, request, key, is_text, words), link=linker(request), systems=[],
        like=linker(request)(image=key, find="texts" if is_text else "images"), across="", captions=captions,
        fields=fields,
    )  # fmt: skip


def _rows(
    ask: Ask, request: SearchRequest, collection: Collection, key: str, is_text: bool
) -> tuple[list[LabelledPair], list[str]]:
    """The labelled pairs with their ranks, and the systems that are still loading."""
    pairs = collection.judged(collection.judgements.name, "t2i" if is_text else "i2t").relevant
    place = pairs.queries.index(key)
    partners = [pairs.candidates[int(c)] for c in pairs.columns[pairs.indptr[place] : pairs.indptr[place + 1]]]
    texts = {t: str(collection.texts.values[collection.texts.ids.index(t)]) for t in ([key] if is_text else partners)}
    ranks: dict[str, dict[str, int | None]] = {name: {} for name in partners}
    waiting = []
    for system in ask.site.library.names:
        try:
            for name in partners:
                text, image = (key, name) if is_text else (name, key)
                ranks[name][system] = _rank(ask, request, system, texts[text], image)
        except Pending as pending:
            waiting.append(pending.job.what)
        except LimnerError as error:
            waiting.append(str(error))
    return [LabelledPair(name, "" if is_text else texts[name], ranks[name]) for name in partners], waiting


def _rank(ask: Ask, request: SearchRequest, system: str, words: str, image: str) -> int | None:
    """The rank of an image for a text by a system; None if the image is not searched."""
    library = ask.site.library
    ready = library.system(request.collection, system, split=request.split)
    if image not in ready.collection.images.ids:
        return None
    by_text = SearchRequest(request.collection, words, split=request.split)
    row = row_of(library, ready, by_text, known_query(ready.collection, by_text))
    order = np.argsort(-row, kind="stable")
    return int(np.flatnonzero(order == ready.collection.images.ids.index(image))[0]) + 1


def _ranks_of_query(ask: Ask, request: SearchRequest, key: str, is_text: bool) -> dict[str, int | None]:
    """The rank of an image for the query that led to this page, by system."""
    if is_text or not request.words.strip():
        return {}
    ranks: dict[str, int | None] = {}
    for system in ask.site.library.names:
        try:
            ranks[system] = _rank(ask, request, system, plain_words(ask.site.library, request), key)
        except (Pending, LimnerError):
            continue  # shown above the table of ranks
    return ranks


def _ranked_by(ask: Ask, request: SearchRequest) -> str:
    """What these ranks are of: of a search with words, minus terms or filters, the rank of its vectors among all."""
    if not request.has_terms:
        return f"Rank for “{request.words}”"
    words = plain_words(ask.site.library, request)
    return f"Rank by vectors among all images, without minus terms and filters, for “{words}”"


def _labels(collection: Collection, key: str, is_text: bool) -> list[FurtherLabel]:
    """The labels of the item in the other sets of judgements."""
    labels = []
    for view, judgements in collection.all_judgements.items():
        if view == collection.judgements.name:
            continue
        pairs = judgements.T if is_text else judgements
        if key not in pairs.queries:
            continue
        place = pairs.queries.index(key)
        row = slice(int(pairs.indptr[place]), int(pairs.indptr[place + 1]))
        for column, grade in list(zip(pairs.columns[row], pairs.grades[row], strict=True))[:MOST_LABELS]:
            partner = pairs.candidates[int(column)]
            has_text = not is_text and partner in collection.texts.ids
            text = str(collection.texts.values[collection.texts.ids.index(partner)]) if has_text else ""
            labels.append(FurtherLabel(view, partner, text, float(grade)))
    return labels


def _neighbours(ask: Ask, request: SearchRequest, key: str, is_text: bool, words: str) -> Sequence[SearchAnswer]:
    """The nearest items of the same kind, by the first selected system."""
    in_index = request.collection in ask.site.library.indexes
    kind = "texts" if is_text else "images"
    by_id = not is_text or in_index
    neighbour_request = replace(
        request, words="" if by_id else words, image=key if by_id else "", find=kind, k=NEIGHBOURS, correction="",
        systems=request.systems[:1], by="vectors", where=(),
    )  # fmt: skip
    try:
        columns = search(ask.site.library, neighbour_request)
    except (Pending, LimnerError):
        return []
    return columns[0].answers if columns else []
