"""The pages for looking at results: home, side by side, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.evaluation.page.words import plain
from limner.web.failures import ORDERS, failures_of, story
from limner.web.jobs import Job
from limner.web.library import Library
from limner.web.site import NAME, PAGES, Ask, page, query

if TYPE_CHECKING:
    from limner.evaluation.report import Report
    from limner.evaluation.results import Result

STEP = 24
"""Failures on a page."""
MEASURES = "R@1 R@5 R@10 mAP@R"


def home(ask: Ask) -> Response:
    """The home page; it loads nothing."""
    library = ask.site.library
    about = {path: words for path, _, _, words in PAGES}
    looks = ask.visitor.may("reviewer")
    return page(ask, "home.html", about=about, collections=library.searchable, systems=library.names, looks=looks)


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


@dataclass(frozen=True)
class FailureList:
    """What a page of failures shows: of which system, which of them, in which order."""

    collection: str
    system: str
    direction: str
    kind: str = ""
    words: str = ""
    order: str = "far"

    @classmethod
    def asked(cls, ask: Ask) -> FailureList:
        """The list in a URL."""
        library = ask.site.library
        where = library.known(ask.get("c")), ask.get("s") or library.names[0], ask.get("d") or "t2i"
        return cls(*where, ask.get("class"), ask.get("q")[:200], ask.get("order") or "far")

    def link(self, **more: int | str) -> str:
        """The words of an address in this list."""
        kept = {"c": self.collection, "s": self.system, "d": self.direction, "q": self.words, "class": self.kind}
        order = "" if self.order == "far" else self.order
        return query(**{**kept, "order": order, **more})


def failures_page(ask: Ask) -> Response:
    """Failures of a system, the truth farthest away first."""
    library, listed = ask.site.library, FailureList.asked(ask)
    failures = failures_of(library, listed.collection, listed.system, listed.direction)
    start = ask.number("start", 0)
    numbers = failures.listed(listed.kind, listed.words, listed.order)
    loaded = library.loaded(listed.collection)
    stories = [story(failures, n, loaded, brief=True) for n in numbers[start : start + STEP]]
    return page(
        ask, "failures.html", failures=failures, stories=stories, listed=listed, start=start, step=STEP,
        total=len(numbers), orders=ORDERS, collections=library.collections, systems=library.names,
    )  # fmt: skip


def failure_page(ask: Ask) -> Response:
    """One failure, with the explanation drawn and told."""
    library, listed = ask.site.library, FailureList.asked(ask)
    failures = failures_of(library, listed.collection, listed.system, listed.direction)
    number = failures.number(ask.get("query"))
    told = story(failures, number, library.loaded(listed.collection))
    order = failures.listed(listed.kind, listed.words, listed.order)
    place = order.index(number) if number in order else 0
    earlier, further = (
        [failures.found[n].query for n in near] for near in (order[:place][-1:], order[place + 1 :][:1])
    )
    again = {"q": told.text} if told.by_text else {"image": told.truth.image}
    return page(
        ask, "failure.html", story=told, listed=listed, failures=failures, place=place + 1, total=len(order),
        again=query(c=listed.collection, s=listed.system, **again), earlier=earlier, further=further,
    )  # fmt: skip
