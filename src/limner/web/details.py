"""Details of one image or text: its captions or images, its rank by every system, its labels and its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from starlette.responses import Response

from limner.core.errors import LimnerError, UnknownId
from limner.web.jobs import Pending
from limner.web.search_page import asked_in, linker
from limner.web.search_request import SearchRequest
from limner.web.searching import SearchAnswer, known_query, row_of, search
from limner.web.site import Ask, page
from limner.web.worded import plain_words

if TYPE_CHECKING:
    from limner.core.collection import Collection

NEIGHBOURS = 8
MOST_LABELS = 10
"""Number of labels shown per set of judgements."""


@dataclass(frozen=True)
class PairRow:
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
    asked, key, is_text = asked_in(ask), ask.get("id") or ask.get("text"), not ask.get("id")
    if asked.collection in ask.site.library.indexes:
        return _of_index(ask, asked, key)
    whole = ask.site.library.loaded(asked.collection).whole
    own = whole.texts if is_text else whole.images
    if key not in own.ids:
        raise UnknownId(f"no {'text' if is_text else 'image'} {key[:80]!r} in {asked.collection!r}")
    words = str(own.values[own.ids.index(key)]) if is_text else ""
    rows, waiting = _rows(ask, asked, whole, key, is_text)
    query = replace(asked, words="" if asked.words else words)
    here = _ranks_of_query(ask, asked, key, is_text)
    return page(
        ask, "item.html", asked=asked, key=key, is_text=is_text, words=words, rows=rows, waiting=waiting,
        here=here, ranked_by=_ranked_by(ask, asked) if here else "", labels=_labels(whole, key, is_text),
        near=_near(ask, query, key, is_text, words), link=linker(asked), systems=ask.site.library.names,
        like=linker(asked)(words=words, find="texts") if is_text else linker(asked)(image=key, find="images"),
        across=linker(asked)(words=words) if is_text else linker(asked)(image=key), captions=(), fields={},
    )  # fmt: skip


def _of_index(ask: Ask, asked: SearchRequest, key: str) -> Response:
    """An item of an index: its stored data and its neighbours."""
    served = ask.site.library.indexes[asked.collection]
    is_text = served.kind == "text"
    words = str(served.row(key)["value"] or key) if is_text else ""
    captions, fields = served.described(key)
    return page(
        ask, "item.html", asked=asked, key=key, is_text=is_text, words=words, rows=[], waiting=[], here={},
        ranked_by="", labels=[], near=_near(ask, asked, key, is_text, words), link=linker(asked), systems=[],
        like=linker(asked)(image=key, find="texts" if is_text else "images"), across="", captions=captions,
        fields=fields,
    )  # fmt: skip


def _rows(
    ask: Ask, asked: SearchRequest, whole: Collection, key: str, is_text: bool
) -> tuple[list[PairRow], list[str]]:
    """The labelled pairs with their ranks, and the systems that are still loading."""
    pairs = whole.judged(whole.judgements.name, "t2i" if is_text else "i2t").relevant
    place = pairs.queries.index(key)
    other = [pairs.candidates[int(c)] for c in pairs.columns[pairs.indptr[place] : pairs.indptr[place + 1]]]
    texts = {t: str(whole.texts.values[whole.texts.ids.index(t)]) for t in ([key] if is_text else other)}
    ranks: dict[str, dict[str, int | None]] = {name: {} for name in other}
    waiting = []
    for system in ask.site.library.names:
        try:
            for name in other:
                text, image = (key, name) if is_text else (name, key)
                ranks[name][system] = _rank(ask, asked, system, texts[text], image)
        except Pending as pending:
            waiting.append(pending.job.what)
        except LimnerError as error:
            waiting.append(str(error))
    return [PairRow(name, "" if is_text else texts[name], ranks[name]) for name in other], waiting


def _rank(ask: Ask, asked: SearchRequest, system: str, words: str, image: str) -> int | None:
    """The rank of an image for a text by a system; None if the image is not searched."""
    library = ask.site.library
    ready = library.system(asked.collection, system, split=asked.split)
    if image not in ready.collection.images.ids:
        return None
    by_text = SearchRequest(asked.collection, words, split=asked.split)
    row = row_of(library, ready, by_text, known_query(ready.collection, by_text))
    order = np.argsort(-row, kind="stable")
    return int(np.flatnonzero(order == ready.collection.images.ids.index(image))[0]) + 1


def _ranks_of_query(ask: Ask, asked: SearchRequest, key: str, is_text: bool) -> dict[str, int | None]:
    """The rank of an image for the query that led to this page, by system."""
    if is_text or not asked.words.strip():
        return {}
    found: dict[str, int | None] = {}
    for system in ask.site.library.names:
        try:
            found[system] = _rank(ask, asked, system, plain_words(ask.site.library, asked), key)
        except (Pending, LimnerError):
            continue  # shown above the table of ranks
    return found


def _ranked_by(ask: Ask, asked: SearchRequest) -> str:
    """What these ranks are of: of a search with words, minus terms or filters, the rank of its vectors among all."""
    if not asked.has_terms:
        return f"Rank for “{asked.words}”"
    words = plain_words(ask.site.library, asked)
    return f"Rank by vectors among all images, without minus terms and filters, for “{words}”"


def _labels(whole: Collection, key: str, is_text: bool) -> list[FurtherLabel]:
    """The labels of the item in the other sets of judgements."""
    found = []
    for view, judgements in whole.all_judgements.items():
        if view == whole.judgements.name:
            continue
        pairs = judgements.T if is_text else judgements
        if key not in pairs.queries:
            continue
        place = pairs.queries.index(key)
        held = slice(int(pairs.indptr[place]), int(pairs.indptr[place + 1]))
        for column, grade in list(zip(pairs.columns[held], pairs.grades[held], strict=True))[:MOST_LABELS]:
            other = pairs.candidates[int(column)]
            known = not is_text and other in whole.texts.ids
            text = str(whole.texts.values[whole.texts.ids.index(other)]) if known else ""
            found.append(FurtherLabel(view, other, text, float(grade)))
    return found


def _near(ask: Ask, asked: SearchRequest, key: str, is_text: bool, words: str) -> Sequence[SearchAnswer]:
    """The nearest items of the same kind, by the first selected system."""
    in_index = asked.collection in ask.site.library.indexes
    kind = "texts" if is_text else "images"
    by_id = not is_text or in_index
    wanted = replace(
        asked, words="" if by_id else words, image=key if by_id else "", find=kind, k=NEIGHBOURS, correction="",
        systems=asked.systems[:1], by="vectors", where=(),
    )  # fmt: skip
    try:
        columns = search(ask.site.library, wanted)
    except (Pending, LimnerError):
        return []
    return columns[0].answers if columns else []
