"""Search for the page: images and texts by a text or an image, with plain and corrected scores.

All items of the searched part are scored, so every answer is exact; an index has its own search. Answers with a
guaranteed precision are cut off by a calibration with the collection's judgements, made once per system.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection, Items
from limner.core.cut_texts import collected, is_cut_note
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores.correction import CORRECTIONS
from limner.systems.system_spec import OpenSystem
from limner.web.jobs import NOTICED, Job
from limner.web.kept_systems import key_of
from limner.web.library import Library
from limner.web.ready_system import Loaded
from limner.web.search_request import LOWEST_PROMISE, SearchRequest, no_new_image
from limner.web.word_search import Pieces, WordSearch, marked, texts_of_index

if TYPE_CHECKING:
    from limner.scores import Scores
    from limner.scores.correction import Statistics
    from limner.search import Hit
    from limner.search.cut_off import Calibration, CutOff
    from limner.search.hits import Match
    from limner.systems.system_spec import OpenSystem
    from limner.web.library import Library


def promised_order(
    library: Library, ready: OpenSystem, request: SearchRequest, row: FloatArray, order: IntArray
) -> tuple[IntArray, str]:
    """The positions that pass the cut-off, in the same order, and the guarantee as a sentence."""
    from limner.search.cut_off import NEIGHBOURS

    calibration = _calibration(library, ready, request)
    cut_off: CutOff = library.jobs.value(
        ("cut-off", request.collection, request.split, ready.name, request.direction, request.precision, request.k),
        f"computing the cut-off of {ready.name}",
        lambda job: calibration.cut_off(float(request.precision or 0), k=request.k, lowest=LOWEST_PROMISE),
        patience=NOTICED,
    )
    pool = ready.collection.images if request.finds_images else ready.collection.texts
    first = order[: max(request.k, NEIGHBOURS)]
    ids = [pool.ids[int(place)] for place in first]
    return first[calibration.above_cut_off(ids, row[first], cut_off)], str(cut_off)


def _calibration(library: Library, ready: OpenSystem, request: SearchRequest) -> Calibration:
    """The calibration from judged queries about images that the system was not trained on, computed once."""
    from limner.search.cut_off import calibrate, judged_queries

    def work(job: Job) -> Calibration:
        scores = ready.scores.T if request.direction == "t2i" else ready.scores
        right, images = judged_queries(ready.collection, request.direction)
        unseen = library.unseen(ready)
        rows = [row for row, image in enumerate(images) if image in unseen]
        if not rows:
            raise LimnerError(
                f"{ready.name} was trained on all of these images, so their queries tell nothing about new ones: "
                "search everything or the held-out part"
            )
        queries = [scores.queries[row] for row in rows]
        labels = [images[row] for row in rows]
        return calibrate(scores.restrict(queries=queries), right.restrict(queries=queries), images=labels, progress=job)

    return library.jobs.value(
        ("calibration", request.collection, request.split, ready.name, request.direction),
        f"calibrating {ready.name} with judged queries",
        work,
        patience=NOTICED,
    )


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


def search(library: Library, request: SearchRequest) -> list[Column]:
    """Every system's answers, with the corrected ones if a correction is selected.

    Raises:
        limner.web.jobs.Pending: While a system is being loaded or trained.
    """
    if request.empty:
        return []
    if request.collection in library.indexes:
        return _in_index(library, request)
    return [column for name in request.systems for column in _noted(library, request, name)]


def _noted(library: Library, request: SearchRequest, name: str) -> list[Column]:
    """The results of one system, with notes on captions and on a query that it does not read to their end."""
    with collected() as cut:
        columns = _columns(library, request, name)
    ready = library.system(request.collection, name, split=request.split)
    notes = [*filter(is_cut_note, ready.notes), *cut.notes]
    return [replace(each, note="; ".join(filter(None, (each.note, *notes)))) for each in columns]


def _columns(library: Library, request: SearchRequest, name: str) -> list[Column]:
    """The results of one system: without correction, and with one if requested."""
    ready = library.system(request.collection, name, split=request.split)
    word_search = WordSearch.of(library, request, ready)
    request = request if word_search is None else word_search.request
    query_id = known_query(ready.collection, request)
    row = row_of(library, ready, request, query_id)
    notes = "; ".join([*filter(None, [word_search.note if word_search else ""]), *without_effect(request)])
    plain = Column(
        name,
        "",
        (),
        () if request.by_image or request.by != "vectors" else tuple(ready.unknown_words(request.words)),
        _method(ready, request),
        note=notes,
    )
    if request.has_promise:
        order, promise = promised_order(library, ready, request, row, np.argsort(-row, kind="stable"))
        return [replace(plain, answers=_answers(ready, request, query_id, row, order), promise=promise)]
    answers, order = _ranked(ready, request, word_search, query_id, row)
    plain = replace(plain, answers=answers)
    if not request.corrects:
        return [plain]
    ranks = {int(place): rank for rank, place in enumerate(order, start=1)}
    changed = _corrected(library, ready, request, query_id)
    answers, _ = _ranked(ready, request, word_search, query_id, changed, before=ranks)
    fused = f", vectors corrected by {request.correction}" if request.by == "hybrid" else ""
    return [plain, replace(plain, correction=request.correction, answers=answers, searched=plain.searched + fused)]


def _method(ready: OpenSystem, request: SearchRequest) -> str:
    from limner.search.hits import searched

    return f"{searched(_pool(ready, request), 'image' if request.finds_images else 'text', request.by)}, exactly"


def _ranked(
    ready: OpenSystem,
    request: SearchRequest,
    word_search: WordSearch | None,
    query_id: str | None,
    row: FloatArray,
    *,
    before: Mapping[int, int] | None = None,
) -> tuple[list[SearchAnswer], IntArray]:
    """The answers by these scores, with words, minus terms and filters as requested; and the whole order.

    Args:
        ready: The system.
        request: The request.
        word_search: Its words, minus terms and filters; None for a plain search by vectors.
        query_id: The id of the query.
        row: Scores by vectors, one per item.
        before: Ranks without the correction, by position.
    """
    order = np.argsort(-row, kind="stable")
    if word_search is None:
        return _answers(ready, request, query_id, row, order, before=before), order
    ordered, shown_scores = word_search.ordered(row, order), np.zeros(len(row))
    shown_scores[ordered.places] = ordered.scores
    pool = ready.collection.images if request.finds_images else ready.collection.texts
    by_id = {pool.ids[place]: match for place, match in word_search.matches(ordered, request.k + 1).items()}
    answers = _answers(ready, request, query_id, shown_scores, ordered.places, before=before)
    return [_explained(each, by_id.get(each.id), word_search.terms.words) for each in answers], ordered.places


def without_effect(request: SearchRequest) -> list[str]:
    """Remarks on chosen options that do not apply to this search."""
    remarks = []
    if request.correction and not request.corrects:
        remarks.append(f"the correction {request.correction} is not applied: {_not_corrected(request)}")
    if request.precision is not None and not request.has_promise:
        remarks.append("nothing is promised about what is alike: the nearest are shown, right or wrong")
    return remarks


def _not_corrected(request: SearchRequest) -> str:
    if not request.crosses:
        return "it corrects searches for images by text and for texts by image"
    return (
        "the promise is for plain scores"
        if request.has_promise
        else "it corrects vectors, and these are ranked by words"
    )


def _explained(answer: SearchAnswer, match: Match | None, words: str) -> SearchAnswer:
    """An answer with the reason why it was found."""
    if match is None:
        return answer
    return replace(answer, why=str(match), caption=marked(match.text or answer.text, words))


def _in_index(library: Library, request: SearchRequest) -> list[Column]:
    """The answers of an index, among its own images and texts, without and with the correction that it keeps."""
    served = library.indexes[request.collection]
    answer = served.search(library.indexes, request, lambda name: texts_of_index(library, name))
    answers = [
        _explained(_hit(hit, answer.kind), hit.match, answer.words)
        for hit in (replace(each, rank=rank) for rank, each in enumerate(answer.hits, start=1))
    ]
    unknown = () if request.by_image or request.by != "vectors" else tuple(served.unknown_words(answer.words))
    remarks = without_effect(request)
    if request.corrects and request.has_terms:
        remarks.append(
            f"the correction {request.correction} is not applied: an index corrects plain searches by vectors only"
        )
    notes = "; ".join([*filter(None, [answer.note]), *remarks])
    plain = Column(served.encoder, "", answers, unknown, answer.how, answer.promise, notes)
    if not request.corrects or request.has_terms:
        return [plain]
    hits, before, method = served.corrected(library.indexes, request, answer)
    changed = [replace(_hit(hit, answer.kind), before=before.get(hit.id)) for hit in hits]
    return [plain, Column(served.encoder, request.correction, changed, unknown, method)]


def _hit(hit: Hit, kind: str) -> SearchAnswer:
    return SearchAnswer(hit.rank, hit.id, hit.score, hit.value or hit.id if kind == "text" else "")


def _pool(ready: OpenSystem, request: SearchRequest) -> int:
    return len(ready.collection.images if request.finds_images else ready.collection.texts)


def known_query(pool: Collection, request: SearchRequest) -> str | None:
    """The id of the query, if it is one of the searched texts or images."""
    if request.image:
        return request.image if request.image in pool.images.ids else None
    if request.uploaded is not None:
        return None
    words = request.words.strip()
    named = zip(pool.texts.ids, pool.texts.values, strict=True)
    return next((key for key, text in named if text == words), None)


def row_of(library: Library, ready: OpenSystem, request: SearchRequest, query_id: str | None) -> FloatArray:
    """The scores of the query with all searched items."""
    row: FloatArray = np.asarray(_scores(library, ready, request, query_id).block(0, 1))[0]
    return row


def _scores(library: Library, ready: OpenSystem, request: SearchRequest, query_id: str | None) -> Scores:
    """Scores of the query: from its vector, or its row of the scores."""
    from limner.scores import Scores

    if ready.encodes:
        if request.direction == "i2t" and query_id is not None:
            return ready.scores.restrict(queries=[query_id])
        return Scores.from_embeddings(
            _vector(library, ready, request, query_id), _side(ready, images=request.finds_images)
        )
    if not request.crosses:
        raise LimnerError(
            f"{ready.name} only has scores of images with texts: to find similar items, choose a system with an encoder"
        )
    if query_id is None:
        kind = "images" if request.by_image else "captions"
        raise LimnerError(
            f"{ready.name} only has scores of this collection: use one of its {kind} as the query, or choose a "
            f"system with an encoder"
        )
    return (ready.scores if request.by_image else ready.scores.T).restrict(queries=[query_id])


def _vector(library: Library, ready: OpenSystem, request: SearchRequest, query_id: str | None) -> Embeddings:
    """The query in the joint space."""
    if not request.by_image:
        return ready.encode(Items(Ids(["query"]), [request.words.strip()], kind="text"))
    if query_id is not None:
        return _side(ready, images=True).subset([query_id])
    if request.image:
        return ready.encode(library.loaded(request.collection).whole.images.subset([request.image]))
    try:
        return ready.encode(Items(Ids(["query"]), [request.uploaded]))
    except LimnerError as error:
        raise no_new_image(ready.name) from error


def _side(ready: OpenSystem, *, images: bool) -> Embeddings:
    """Vectors of the searched images or texts."""
    vectors: Embeddings = getattr(ready.scores, "query_vectors" if images else "candidate_vectors")
    return vectors


def _corrected(library: Library, ready: OpenSystem, request: SearchRequest, query_id: str | None) -> FloatArray:
    loaded = library.loaded(request.collection)
    model_key = library.ready(request.collection, ready.name).key
    key = (
        None
        if model_key is None or request.correction not in CORRECTIONS
        else key_of(model_key, request.split, request.direction, request.correction, *loaded.evaluated.images.ids)
    )
    statistics: Statistics = library.jobs.value(
        ("bank", request.collection, request.split, ready.name, request.direction, request.correction),
        f"computing the statistics of {request.correction} for {ready.name}",
        lambda job: library.kept.statistics(key, lambda: _bank(ready, loaded, request)),
        patience=NOTICED,
    )
    row: FloatArray = np.asarray(_scores(library, ready, request, query_id).correct(statistics).block(0, 1))[0]
    return row


def _bank(ready: OpenSystem, loaded: Loaded, request: SearchRequest) -> Statistics:
    """Statistics of each candidate from bank queries; from the pool itself if there are none."""
    from limner.scores.corrected import correct

    scores = ready.scores.T if request.direction == "t2i" else ready.scores
    if not ready.encodes or not loaded.divided:
        return correct(scores, request.correction).statistics
    items = loaded.training.texts if request.direction == "t2i" else loaded.training.images
    some = items[: BANK if request.direction == "t2i" else BANK // 5]
    return correct(scores, request.correction, bank=ready.encode(some)).statistics


def _answers(
    ready: OpenSystem,
    request: SearchRequest,
    query_id: str | None,
    row: FloatArray,
    order: IntArray,
    *,
    before: Mapping[int, int] | None = None,
) -> list[SearchAnswer]:
    pool = ready.collection.images if request.finds_images else ready.collection.texts
    right = _right(ready.collection, request.direction, query_id) if request.crosses else None
    itself = None if request.crosses or query_id is None else pool.ids.index(query_id)
    listed = []
    for rank, column in enumerate((int(c) for c in order[: request.k + 1] if c != itself), start=1):
        key = pool.ids[column]
        text = pool.values[column] if pool.kind == "text" else ""
        called = None if right is None else key in right
        moved = None if before is None else before.get(column)
        listed.append(SearchAnswer(rank, key, float(row[column]), text, called, moved))
    return listed[: request.k]


def _right(pool: Collection, direction: str, query_id: str | None) -> frozenset[str] | None:
    """All relevant items of a known query."""
    if query_id is None:
        return None
    return frozenset(pool.judged(pool.judgements.name, direction).relevant_to(query_id))
