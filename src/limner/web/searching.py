"""Search for the page: images and texts by a text or an image, with plain and corrected scores.

All items of the searched part are scored, so every answer is exact; an index has its own search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.cut_texts import collected, is_cut_note
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores import CORRECTIONS
from limner.systems.system_spec import OpenSystem
from limner.web.guaranteed_precision import sure_order
from limner.web.jobs import NOTICED
from limner.web.kept_systems import key_of
from limner.web.library import Library
from limner.web.loaded import Loaded
from limner.web.search_request import SearchRequest, no_new_image
from limner.web.worded import Pieces, WordedSearch, marked, texts_of_index

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.core.embeddings import Embeddings
    from limner.scores import Scores, Statistics
    from limner.search import Hit, Match

BANK = 5000
"""Maximum number of bank queries from the training split."""


@dataclass(frozen=True)
class SearchAnswer:
    """One result.

    Args:
        rank: From 1.
        id: Its id.
        score: Its score.
        text: A caption; empty for an image.
        right: Whether it is relevant; None if the query is not judged.
        before: Its rank in the same search without the correction; None if nothing was corrected.
        why: Its ranks by words and by vectors, and the words that matched; "" for a plain search by vectors.
        caption: The caption that has most words of the query, in pieces, with the words of the query marked.
    """

    rank: int
    id: str
    score: float
    text: str = ""
    right: bool | None = None
    before: int | None = None
    why: str = ""
    caption: Pieces = ()


@dataclass(frozen=True)
class Column:
    """The results of one system, with or without correction.

    Args:
        system: Its name.
        correction: The name of the correction, or "".
        answers: Best first.
        unknown: Words of the query that the system does not know.
        searched: Description of the searched items and the method.
        promise: The guarantee behind the cut-off, as a sentence; "" if all answers are shown.
        note: What minus terms and filters did, and which options were not applied.
    """

    system: str
    correction: str
    answers: Sequence[SearchAnswer]
    unknown: tuple[str, ...] = ()
    searched: str = ""
    promise: str = ""
    note: str = ""


def search(library: Library, asked: SearchRequest) -> list[Column]:
    """Every system's answers, with the corrected ones if a correction is selected.

    Raises:
        limner.web.jobs.Pending: While a system is being loaded or trained.
    """
    if asked.empty:
        return []
    if asked.collection in library.indexes:
        return _in_index(library, asked)
    return [column for name in asked.systems for column in _noted(library, asked, name)]


def _noted(library: Library, asked: SearchRequest, name: str) -> list[Column]:
    """The results of one system, with notes on captions and on a query that it does not read to their end."""
    with collected() as cut:
        columns = _columns(library, asked, name)
    ready = library.system(asked.collection, name, split=asked.split)
    notes = [*filter(is_cut_note, ready.notes), *cut.notes]
    return [replace(each, note="; ".join(filter(None, (each.note, *notes)))) for each in columns]


def _columns(library: Library, asked: SearchRequest, name: str) -> list[Column]:
    """The results of one system: without correction, and with one if requested."""
    ready = library.system(asked.collection, name, split=asked.split)
    worded = WordedSearch.of(library, asked, ready)
    asked = asked if worded is None else worded.asked
    known = known_query(ready.collection, asked)
    row = row_of(library, ready, asked, known)
    notes = "; ".join([*filter(None, [worded.note if worded else ""]), *without_effect(asked)])
    plain = Column(
        name,
        "",
        (),
        () if asked.by_image or asked.by != "vectors" else tuple(ready.unknown_words(asked.words)),
        _how(ready, asked),
        note=notes,
    )
    if asked.is_sure:
        order, promise = sure_order(library, ready, asked, row, np.argsort(-row, kind="stable"))
        return [replace(plain, answers=_answers(ready, asked, known, row, order), promise=promise)]
    answers, order = _ranked(ready, asked, worded, known, row)
    plain = replace(plain, answers=answers)
    if not asked.corrects:
        return [plain]
    ranks = {int(place): rank for rank, place in enumerate(order, start=1)}
    changed = _corrected(library, ready, asked, known)
    answers, _ = _ranked(ready, asked, worded, known, changed, before=ranks)
    fused = f", vectors corrected by {asked.correction}" if asked.by == "hybrid" else ""
    return [plain, replace(plain, correction=asked.correction, answers=answers, searched=plain.searched + fused)]


def _how(ready: OpenSystem, asked: SearchRequest) -> str:
    from limner.search.hits import searched

    return f"{searched(_pool(ready, asked), 'image' if asked.finds_images else 'text', asked.by)}, exactly"


def _ranked(
    ready: OpenSystem,
    asked: SearchRequest,
    worded: WordedSearch | None,
    known: str | None,
    row: FloatArray,
    *,
    before: Mapping[int, int] | None = None,
) -> tuple[list[SearchAnswer], IntArray]:
    """The answers by these scores, with words, minus terms and filters as requested; and the whole order.

    Args:
        ready: The system.
        asked: The request.
        worded: Its words, minus terms and filters; None for a plain search by vectors.
        known: The id of the query.
        row: Scores by vectors, one per item.
        before: Ranks without the correction, by position.
    """
    order = np.argsort(-row, kind="stable")
    if worded is None:
        return _answers(ready, asked, known, row, order, before=before), order
    ordered, shown = worded.ordered(row, order), np.zeros(len(row))
    shown[ordered.places] = ordered.scores
    pool = ready.collection.images if asked.finds_images else ready.collection.texts
    by_id = {pool.ids[place]: match for place, match in worded.matches(ordered, asked.k + 1).items()}
    answers = _answers(ready, asked, known, shown, ordered.places, before=before)
    return [_explained(each, by_id.get(each.id), worded.terms.words) for each in answers], ordered.places


def without_effect(asked: SearchRequest) -> list[str]:
    """Remarks on chosen options that do not apply to this search."""
    remarks = []
    if asked.correction and not asked.corrects:
        remarks.append(f"the correction {asked.correction} is not applied: {_not_corrected(asked)}")
    if asked.precision is not None and not asked.is_sure:
        remarks.append("nothing is promised about what is alike: the nearest are shown, right or wrong")
    return remarks


def _not_corrected(asked: SearchRequest) -> str:
    if not asked.crosses:
        return "it corrects searches for images by text and for texts by image"
    return "the promise is for plain scores" if asked.is_sure else "it corrects vectors, and these are ranked by words"


def _explained(answer: SearchAnswer, match: Match | None, words: str) -> SearchAnswer:
    """An answer with the reason why it was found."""
    if match is None:
        return answer
    return replace(answer, why=str(match), caption=marked(match.text or answer.text, words))


def _in_index(library: Library, asked: SearchRequest) -> list[Column]:
    """The answers of an index, among its own images and texts, without and with the correction that it keeps."""
    served = library.indexes[asked.collection]
    found = served.search(library.indexes, asked, lambda name: texts_of_index(library, name))
    answers = [
        _explained(_hit(hit, found.kind), hit.match, found.words)
        for hit in (replace(each, rank=rank) for rank, each in enumerate(found.hits, start=1))
    ]
    unknown = () if asked.by_image or asked.by != "vectors" else tuple(served.unknown_words(found.words))
    remarks = without_effect(asked)
    if asked.corrects and asked.has_terms:
        remarks.append(
            f"the correction {asked.correction} is not applied: an index corrects plain searches by vectors only"
        )
    notes = "; ".join([*filter(None, [found.note]), *remarks])
    plain = Column(served.encoder, "", answers, unknown, found.how, found.promise, notes)
    if not asked.corrects or asked.has_terms:
        return [plain]
    hits, before, how = served.corrected(library.indexes, asked, found)
    changed = [replace(_hit(hit, found.kind), before=before.get(hit.id)) for hit in hits]
    return [plain, Column(served.encoder, asked.correction, changed, unknown, how)]


def _hit(hit: Hit, kind: str) -> SearchAnswer:
    return SearchAnswer(hit.rank, hit.id, hit.score, hit.value or hit.id if kind == "text" else "")


def _pool(ready: OpenSystem, asked: SearchRequest) -> int:
    return len(ready.collection.images if asked.finds_images else ready.collection.texts)


def known_query(pool: Collection, asked: SearchRequest) -> str | None:
    """The id of the query, if it is one of the searched texts or images."""
    if asked.image:
        return asked.image if asked.image in pool.images.ids else None
    if asked.uploaded is not None:
        return None
    words = asked.words.strip()
    named = zip(pool.texts.ids, pool.texts.values, strict=True)
    return next((key for key, text in named if text == words), None)


def row_of(library: Library, ready: OpenSystem, asked: SearchRequest, known: str | None) -> FloatArray:
    """The scores of the query with all searched items."""
    row: FloatArray = np.asarray(_scores(library, ready, asked, known).block(0, 1))[0]
    return row


def _scores(library: Library, ready: OpenSystem, asked: SearchRequest, known: str | None) -> Scores:
    """Scores of the query: from its vector, or its row of the scores."""
    from limner.scores import Scores

    if ready.encodes:
        if asked.direction == "i2t" and known is not None:
            return ready.scores.restrict(queries=[known])
        return Scores.from_embeddings(_vector(library, ready, asked, known), _side(ready, images=asked.finds_images))
    if not asked.crosses:
        raise LimnerError(
            f"{ready.name} only has scores of images with texts: to find similar items, choose a system with an encoder"
        )
    if known is None:
        what = "images" if asked.by_image else "captions"
        raise LimnerError(
            f"{ready.name} only has scores of this collection: use one of its {what} as the query, or choose a "
            f"system with an encoder"
        )
    return (ready.scores if asked.by_image else ready.scores.T).restrict(queries=[known])


def _vector(library: Library, ready: OpenSystem, asked: SearchRequest, known: str | None) -> Embeddings:
    """The query in the joint space."""
    from limner.core.collection import Items

    if not asked.by_image:
        return ready.encode(Items(Ids(["query"]), [asked.words.strip()], kind="text"))
    if known is not None:
        return _side(ready, images=True).subset([known])
    if asked.image:
        return ready.encode(library.loaded(asked.collection).whole.images.subset([asked.image]))
    try:
        return ready.encode(Items(Ids(["query"]), [asked.uploaded]))
    except LimnerError as error:
        raise no_new_image(ready.name) from error


def _side(ready: OpenSystem, *, images: bool) -> Embeddings:
    """Vectors of the searched images or texts."""
    scores: Any = ready.scores
    found: Embeddings = scores.query_vectors if images else scores.candidate_vectors
    return found


def _corrected(library: Library, ready: OpenSystem, asked: SearchRequest, known: str | None) -> FloatArray:
    loaded = library.loaded(asked.collection)
    made_from = library.ready(asked.collection, ready.name).key
    key = (
        None
        if made_from is None or asked.correction not in CORRECTIONS
        else key_of(made_from, asked.split, asked.direction, asked.correction, *loaded.held.images.ids)
    )
    statistics: Statistics = library.jobs.value(
        ("bank", asked.collection, asked.split, ready.name, asked.direction, asked.correction),
        f"computing the statistics of {asked.correction} for {ready.name}",
        lambda job: library.kept.statistics(key, lambda: _bank(ready, loaded, asked)),
        patience=NOTICED,
    )
    row: FloatArray = np.asarray(_scores(library, ready, asked, known).correct(statistics).block(0, 1))[0]
    return row


def _bank(ready: OpenSystem, loaded: Loaded, asked: SearchRequest) -> Statistics:
    """Statistics of each candidate from bank queries; from the pool itself if there are none."""
    from limner.scores import correct

    scores = ready.scores.T if asked.direction == "t2i" else ready.scores
    if not ready.encodes or not loaded.divided:
        return correct(scores, asked.correction).statistics
    items = loaded.seen.texts if asked.direction == "t2i" else loaded.seen.images
    some = items[: BANK if asked.direction == "t2i" else BANK // 5]
    return correct(scores, asked.correction, bank=ready.encode(some)).statistics


def _answers(
    ready: OpenSystem,
    asked: SearchRequest,
    known: str | None,
    row: FloatArray,
    order: IntArray,
    *,
    before: Mapping[int, int] | None = None,
) -> list[SearchAnswer]:
    pool = ready.collection.images if asked.finds_images else ready.collection.texts
    right = _right(ready.collection, asked.direction, known) if asked.crosses else None
    itself = None if asked.crosses or known is None else pool.ids.index(known)
    found = []
    for rank, column in enumerate((int(c) for c in order[: asked.k + 1] if c != itself), start=1):
        key = pool.ids[column]
        text = pool.values[column] if pool.kind == "text" else ""
        called = None if right is None else key in right
        moved = None if before is None else before.get(column)
        found.append(SearchAnswer(rank, key, float(row[column]), text, called, moved))
    return found[: asked.k]


def _right(pool: Collection, direction: str, known: str | None) -> frozenset[str] | None:
    """All relevant items of a known query."""
    if known is None:
        return None
    pairs = pool.judged(pool.judgements.name, direction).relevant
    row = pairs.queries.index(known)
    columns = pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]
    return frozenset(pairs.candidates[int(column)] for column in columns)
