"""The search page and the details of one item.

The query, the answers of every system, uploaded images; and for an image or text its captions or images, its rank by
every system, its labels and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from starlette.responses import RedirectResponse, Response

from limner.core.collection import Collection
from limner.core.errors import LimnerError, NothingKnown, UnknownId
from limner.web.jobs import Job, Pending
from limner.web.search_request import ALL, HELD_OUT, PROMISES, SearchRequest
from limner.web.searching import Column, SearchAnswer, known_query, row_of, search
from limner.web.served_images import of_collection
from limner.web.site import Ask, page, query
from limner.web.word_search import choices_of, plain_words

MOST_SYSTEMS = 8
"""Maximum number of systems side by side."""
STARTS = 12
"""Number of images of an index that are shown before the first query."""


def parse_request(ask: Ask, *, uploaded: bytes | None = None) -> SearchRequest:
    """Parses the search request in a URL."""
    library = ask.site.library
    collection = library.known_pool(ask.get("c"))
    chosen = tuple(ask.all("s")) or tuple(library.names[:1])
    for name in chosen:
        library.known_system(name)
    if len(chosen) > MOST_SYSTEMS:
        raise LimnerError(f"{len(chosen)} systems: at most {MOST_SYSTEMS} are shown side by side")
    fix, k = library.known_correction(ask.get("fix")), ask.number("k", 12, low=1, high=50)
    return SearchRequest(
        collection, ask.get("q"), ask.get("image"), uploaded, chosen, fix, k, ask.get("find"), ask.get("split") or ALL,
        _promise(ask.get("sure")), ask.get("by") or "vectors", tuple(filter(None, ask.all("where"))),
    )  # fmt: skip


def _promise(percent: str) -> float | None:
    """A precision in percent."""
    if percent not in ("", *PROMISES):
        raise LimnerError(f"sure = {percent[:20]!r}: expected one of {', '.join(PROMISES)}")
    return int(percent) / 100 if percent else None


def search_page(ask: Ask) -> Response:
    """The search page with its results; while a model is loading, the query and the progress."""
    upload = ask.get("upload")
    request = parse_request(ask, uploaded=ask.site.uploads.get(upload) if upload else None)
    library = ask.site.library
    columns, error, job, unknown = _results(ask, request)
    picture = f"/upload/{upload}" if upload else f"/image?{query(c=request.collection, id=request.image, size='view')}"
    return page(
        ask, "search.html", status=202 if job else 200, request=request, columns=columns, error=error, job=job,
        unknown=unknown, upload=upload, picture=picture, link=linker(request), collections=library.searchable,
        systems=library.names, corrections=_corrections(ask, request), is_index=request.collection in library.indexes,
        splits=[] if job else _splits(ask, request), samples=[] if job or columns else _samples(ask, request),
        starts=[] if job or columns else _starts(ask, request),
        promises=PROMISES, choices={} if job else choices_of(library, request),
        labelled=any(a.right is not None for column in columns for a in column.answers),
    )  # fmt: skip


def _results(ask: Ask, request: SearchRequest) -> tuple[list[Column], str, Job | None, bool]:
    """The columns; or the reason why there are none; or the job to wait for; and whether no word is known."""
    try:
        return search(ask.site.library, request), "", None, False
    except Pending as pending:
        return [], "", pending.job, False
    except LimnerError as refusal:
        return [], str(refusal), None, isinstance(refusal, NothingKnown)


def _corrections(ask: Ask, request: SearchRequest) -> list[str]:
    """The corrections that can be chosen: of an index, the one that it keeps."""
    library = ask.site.library
    if request.collection not in library.indexes:
        return library.corrections
    index_correction = library.indexes[request.collection].correction
    return [] if index_correction is None else [index_correction[0].correction.name]


def _splits(ask: Ask, request: SearchRequest) -> list[tuple[str, str]]:
    """The parts that can be searched, with their numbers of images; the value of everything is empty."""
    sizes = ask.site.library.splits(request.collection)
    named = {ALL: "everything", HELD_OUT: "held out"}
    return [("" if name == ALL else name, f"{named.get(name, name)}, {size:,} images") for name, size in sizes.items()]


def _samples(ask: Ask, request: SearchRequest) -> list[str]:
    """A few captions to start with."""
    library = ask.site.library
    if request.collection in library.indexes:
        return []
    texts = library.loaded(request.collection).evaluated.texts
    return list(texts.values[:: max(1, len(texts) // 4)][:4])


def _starts(ask: Ask, request: SearchRequest) -> list[str]:
    """Ids of a few images of an index to start with: one of vectors without an encoder has no other queries."""
    served = ask.site.library.indexes.get(request.collection)
    return [] if served is None or served.kind != "image" else served.some(STARTS)


def linker(request: SearchRequest) -> Callable[..., str]:
    """Creates query parameters for further searches with the same settings."""

    def link(*, words: str = "", image: str = "", find: str = "", **more: str) -> str:
        parameters = {"c": request.collection, "s": request.systems, "fix": request.correction, "k": request.k}
        parameters |= {"split": "" if request.split == ALL else request.split}
        percent = "" if request.precision is None else f"{request.precision:.0%}"[:-1]
        by = "" if request.by == "vectors" else request.by
        terms = {"by": by if words else "", "where": request.where}
        return query(**{**parameters, "q": words, "image": image, "find": find, "sure": percent, **terms, **more})

    return link


def send_image(ask: Ask) -> Response:
    """Accepts an uploaded image, checks it, and redirects to its results."""
    if ask.file is None:
        raise LimnerError("no image was sent: choose a file")
    key = ask.site.uploads.keep(ask.file)
    systems = [value for value in ask.form.getlist("s") if isinstance(value, str)]
    filters = [value for value in ask.form.getlist("where") if isinstance(value, str)]
    fields = {name: ask.field(name) for name in ("c", "fix", "k", "find", "split", "sure")}
    return RedirectResponse(f"/search?{query(upload=key, s=systems, where=filters, **fields)}", 303)


def image(ask: Ask) -> Response:
    """One image of a collection or an index, by its id there."""
    library = ask.site.library
    name = library.known_pool(ask.get("c"))
    opened = (
        library.indexes[name].open_image if name in library.indexes else of_collection(name, library.loaded(name).whole)
    )
    encoded = ask.site.images.get(name, opened, ask.get("id"), ask.get("size", "view"))
    headers = {"ETag": f'"{encoded.tag}"', "Cache-Control": "private, max-age=3600"}
    if ask.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(encoded.data, media_type=encoded.kind, headers=headers)


def sent_image(ask: Ask) -> Response:
    """An uploaded image, re-encoded."""
    data = ask.site.uploads.get(ask.request.path_params["key"])
    return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})


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
    neighbour_request = replace(request, words="" if request.words else words)
    query_ranks = _ranks_of_query(ask, request, key, is_text)
    return page(
        ask, "item.html", request=request, key=key, is_text=is_text, words=words, rows=rows, waiting=waiting,
        here=query_ranks, ranked_by=_ranked_by(ask, request) if query_ranks else "",
        labels=_labels(collection, key, is_text),
        near=_neighbours(ask, neighbour_request, key, is_text, words), link=linker(request),
        systems=ask.site.library.names,
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
    partners = collection.judged(collection.judgements.name, "t2i" if is_text else "i2t").relevant_to(key)
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
