"""Pages that show results: home and failures."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.web.failures import ORDERS, ExplainedFailures, failures_of, story, with_classes
from limner.web.jobs import NOTICED, Job, Pending
from limner.web.library import Library
from limner.web.search_request import HELD_OUT
from limner.web.site import NAME, PAGES, Ask, page, query

STEP = 24
"""Number of failures per page."""


def home(ask: Ask) -> Response:
    """The home page; it loads nothing."""
    library = ask.site.library
    about = {path: words for path, _, _, words in PAGES}
    looks = ask.visitor.may("reviewer")
    systems = library.names if library.collections else []  # an index is searched with its own model
    return page(ask, "home.html", about=about, collections=library.searchable, systems=systems, looks=looks)


def name(ask: Ask) -> Response:
    """Stores the name of a local user."""
    from urllib.parse import quote

    from limner.annotate.store.people import add_annotator

    if ask.site.team:
        raise LimnerError("in team mode your account identifies you")
    chosen = add_annotator(ask.site.store, ask.field("name"), existing=True).name
    response = RedirectResponse("/", 303)
    ask.cookie(response, NAME, quote(chosen, safe=""), days=365)
    return response


# --- failures ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailureList:
    """The settings of a failures page: system, filter and order."""

    collection: str
    system: str
    direction: str
    kind: str = ""
    words: str = ""
    order: str = "far"

    @classmethod
    def asked(cls, ask: Ask) -> FailureList:
        """The list settings in a URL."""
        library = ask.site.library
        where = library.known(ask.get("c")), ask.get("s") or library.names[0], ask.get("d") or "t2i"
        return cls(*where, ask.get("class"), ask.get("q")[:200], ask.get("order") or "far")

    def link(self, **more: int | str) -> str:
        """The query parameters of a link within this list."""
        kept = {"c": self.collection, "s": self.system, "d": self.direction, "q": self.words, "class": self.kind}
        order = "" if self.order == "far" else self.order
        return query(**{**kept, "order": order, **more})


def failures_page(ask: Ask) -> Response:
    """Failures of a system, the worst rank of the relevant item first."""
    library, listed = ask.site.library, FailureList.asked(ask)
    failures, reading = _failures(library, listed)
    start = ask.number("start", 0)
    numbers = failures.listed(listed.kind, listed.words, listed.order)
    loaded = library.loaded(listed.collection)
    stories = [story(failures, n, loaded, brief=True) for n in numbers[start : start + STEP]]
    return page(
        ask, "failures.html", failures=failures, stories=stories, listed=listed, start=start, step=STEP,
        total=len(numbers), orders=ORDERS, collections=library.collections, systems=library.names, reading=reading,
    )  # fmt: skip


def _failures(library: Library, listed: FailureList) -> tuple[ExplainedFailures, Job | None]:
    """The failures with their classes; or, while captions are read and no class is asked for, without, and the job."""
    where = listed.collection, listed.system, listed.direction
    failures = failures_of(library, *where)
    try:
        return with_classes(library, *where, patience=NOTICED if listed.kind else 0.3), None
    except Pending as pending:
        if listed.kind:
            raise
        return failures, pending.job


def failure_page(ask: Ask) -> Response:
    """One failure, explained by boxes on the images and by text."""
    library, listed = ask.site.library, FailureList.asked(ask)
    failures, _ = _failures(library, listed)
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
        again=query(c=listed.collection, s=listed.system, split=HELD_OUT, **again), earlier=earlier, further=further,
    )  # fmt: skip
