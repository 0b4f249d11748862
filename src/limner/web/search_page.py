"""The search page: the query, the answers of every system, uploaded images, and the images of a collection."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError, NothingKnown
from limner.web.jobs import Job, Pending
from limner.web.search_request import ALL, HELD_OUT, PROMISES, SearchRequest
from limner.web.searching import Column, search
from limner.web.served_images import of_collection
from limner.web.site import Ask, page, query
from limner.web.word_search import choices_of

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
