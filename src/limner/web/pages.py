"""The pages for looking: home, search, side by side, failures, and the pictures they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.evaluation.page.words import plain
from limner.web.failing import failures_of, story
from limner.web.jobs import Job
from limner.web.library import Library
from limner.web.searching import SearchRequest, search
from limner.web.site import NAME, PAGES, Ask, page, query

if TYPE_CHECKING:
    from limner.evaluation.report import Report
    from limner.evaluation.results import Result

MOST_SYSTEMS = 8
"""Systems side by side."""
STEP = 8
"""Failures on a page."""
MEASURES = "R@1 R@5 R@10 mAP@R"


def home(ask: Ask) -> Response:
    """The home page; it loads nothing."""
    library = ask.site.library
    about = {path: words for path, _, _, words in PAGES}
    looks = ask.visitor.may("reviewer")
    return page(ask, "home.html", about=about, collections=library.collections, systems=library.names, looks=looks)


def name(ask: Ask) -> Response:
    """Stores the name of a local user."""
    from urllib.parse import quote

    from limner.annotate.store.people import add_annotator

    if ask.site.team:
        raise LimnerError("in a team the account says who you are")
    chosen = add_annotator(ask.site.store, ask.field("name"), existing=True).name
    response = RedirectResponse("/", 303)
    ask.cookie(response, NAME, quote(chosen, safe=""), days=365)
    return response


# --- search -----------------------------------------------------------------------------------------------------


def asked_in(ask: Ask, *, picture: bytes | None = None) -> SearchRequest:
    """The search request in a URL."""
    library = ask.site.library
    collection = library.known(ask.get("c"))
    chosen = tuple(ask.all("s")) or tuple(library.names[:1])
    for name in chosen:
        library.known_system(name)
    if len(chosen) > MOST_SYSTEMS:
        raise LimnerError(f"{len(chosen)} systems: at most {MOST_SYSTEMS} are shown side by side")
    fix, k = library.known_correction(ask.get("fix")), ask.number("k", 12, low=1, high=50)
    return SearchRequest(collection, ask.get("q"), ask.get("image"), picture, chosen, fix, k)


def search_page(ask: Ask) -> Response:
    """The search page, and what was found."""
    upload = ask.get("upload")
    asked = asked_in(ask, picture=ask.site.uploads.get(upload) if upload else None)
    library, error = ask.site.library, ""
    try:
        columns = search(library, asked)
    except LimnerError as refusal:
        columns, error = [], str(refusal)

    def link(*, words: str = "", image: str = "") -> str:
        return query(c=asked.collection, q=words, image=image, s=asked.systems, fix=asked.correction, k=asked.k)

    held = library.loaded(asked.collection).held
    pool = f"{len(held.images):,} images" if asked.direction == "t2i" else f"{len(held.texts):,} texts"
    shown = f"/upload/{upload}" if upload else f"/image?{query(c=asked.collection, id=asked.image, size='view')}"
    return page(
        ask, "search.html", asked=asked, columns=columns, error=error, upload=upload, picture=shown, link=link,
        pool=pool, collections=library.collections, systems=library.names, corrections=library.corrections,
        labelled=any(a.right is not None for column in columns for a in column.answers),
        samples=held.texts.values[:: max(1, len(held.texts) // 4)][:4],
    )  # fmt: skip


def send_picture(ask: Ask) -> Response:
    """Accepts an uploaded image, checks it, and redirects to its results."""
    if ask.file is None:
        raise LimnerError("no picture was sent: choose a file")
    key = ask.site.uploads.keep(ask.file)
    systems = [value for value in ask.form.getlist("s") if isinstance(value, str)]
    words = query(c=ask.field("c"), upload=key, s=systems, fix=ask.field("fix"), k=ask.field("k"))
    return RedirectResponse(f"/search?{words}", 303)


def image(ask: Ask) -> Response:
    """One picture of a collection, by its id there."""
    library = ask.site.library
    name = library.known(ask.get("c"))
    made = ask.site.pictures.get(name, library.loaded(name).whole, ask.get("id"), ask.get("size", "view"))
    headers = {"ETag": f'"{made.tag}"', "Cache-Control": "private, max-age=3600"}
    if ask.request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(made.data, media_type=made.kind, headers=headers)


def sent_picture(ask: Ask) -> Response:
    """An uploaded image, re-encoded."""
    data = ask.site.uploads.get(ask.request.path_params["key"])
    return Response(data, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})


# --- side by side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MeasureRow:
    """One measure of all systems."""

    view: str
    direction: str
    measure: str
    values: Sequence[str]


@dataclass(frozen=True)
class CollectionTable:
    """One collection."""

    collection: str
    counts: str
    columns: Sequence[str]
    rows: Sequence[MeasureRow]


def report_of(library: Library, collection: str, system: str, correction: str = "") -> Report:
    """A system measured on a collection, once."""
    ready, held = library.system(collection, system), library.loaded(collection).held

    def work(job: Job) -> Report:
        from limner.evaluation.evaluate import evaluate

        scores = ready.scores.correct(correction) if correction else ready.scores
        return evaluate(scores, held, direction="i2t", measures=MEASURES, name=system, progress=job.told)

    found: Report = library.jobs.value(
        ("report", collection, system, correction), f"measuring {system} on {collection}", work, patience=5.0
    )
    return found


def with_bound(result: Result) -> str:
    """A number; where answers are not judged, with what it would be if all of them were right."""
    shown = plain(result.measure, result.value)
    return shown if result.bound is None else f"{shown} to {plain(result.measure, result.bound)}"


def compare(ask: Ask) -> Response:
    """Systems on collections, side by side."""
    library = ask.site.library
    chosen = [library.known(name) for name in ask.all("c")] or [library.known(None)]
    asked = ask.all("s") or library.names
    correction = library.known_correction(ask.get("fix"))
    tables = [_table(library, name, asked, correction) for name in chosen]
    return page(
        ask, "compare.html", tables=tables, chosen=chosen, asked=asked, correction=correction,
        collections=library.collections, systems=library.names, corrections=library.corrections,
    )  # fmt: skip


def _table(library: Library, collection: str, systems: Sequence[str], correction: str) -> CollectionTable:
    ways = [(name, way) for name in systems for way in (("", correction) if correction else ("",))]
    reports = [report_of(library, collection, name, way) for name, way in ways]
    loaded = library.loaded(collection)
    columns = [f"{name} with {way}" if way else name for name, way in ways]
    held, whole = loaded.held, loaded.whole
    counts = f"{len(held.images):,} images and {len(held.texts):,} texts, held out of {len(whole.images):,} images"
    shown = {result.key: [with_bound(result)] for result in reports[0].results}
    for report in reports[1:]:
        for result in report.results:
            shown.get(result.key, []).append(with_bound(result))
    words = {"i2t": "image → text", "t2i": "text → image"}
    rows = [MeasureRow(key[0], words.get(key[1], key[1]), str(key[2]), values) for key, values in shown.items()]
    return CollectionTable(collection, counts, columns, rows)


# --- failures ---------------------------------------------------------------------------------------------------


def _where(ask: Ask) -> tuple[str, str, str]:
    """Collection, system and direction of an address."""
    library = ask.site.library
    return library.known(ask.get("c")), ask.get("s") or library.names[0], ask.get("d") or "t2i"


def failures_page(ask: Ask) -> Response:
    """Failures of a system by class."""
    library = ask.site.library
    collection, system, direction = _where(ask)
    failures = failures_of(library, collection, system, direction)
    kind, start = ask.get("class"), ask.number("start", 0)
    numbers = failures.of_class(kind)
    stories = [story(failures, n, library.loaded(collection)) for n in numbers[start : start + STEP]]
    return page(
        ask, "failures.html", failures=failures, stories=stories, kind=kind, start=start, step=STEP,
        total=len(numbers), link=_linker(collection, system, direction), collection=collection, system=system,
        direction=direction, collections=library.collections, systems=library.names,
    )  # fmt: skip


def failure_page(ask: Ask) -> Response:
    """One failure, with the explanation drawn and told."""
    library = ask.site.library
    collection, system, direction = _where(ask)
    failures = failures_of(library, collection, system, direction)
    number = failures.number(ask.get("query"))
    told = story(failures, number, library.loaded(collection))
    near = {n: failures.found[n].query for n in (number - 1, number + 1) if 0 <= n < len(failures.found)}
    again = {"q": told.text} if told.by_text else {"image": told.truth.image}
    return page(
        ask, "failure.html", story=told, collection=collection, system=system,
        link=_linker(collection, system, direction), again=query(c=collection, s=system, **again),
        earlier=near.get(number - 1), further=near.get(number + 1),
    )  # fmt: skip


def _linker(collection: str, system: str, direction: str) -> object:
    def link(*, kind: str = "", start: int | str = "", query: str = "") -> str:
        return _query(c=collection, s=system, d=direction, start=start, query=query, **{"class": kind})

    return link


_query = query
