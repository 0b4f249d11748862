"""The pages of failures: the list, and each one explained."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from limner.web.failures import ORDERS, ExplainedFailures, failures_of, story, with_classes
from limner.web.jobs import NOTICED, Job, Pending
from limner.web.library import Library
from limner.web.search_request import HELD_OUT
from limner.web.site import Ask, page, query

STEP = 24
"""Number of failures per page."""


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
    def from_url(cls, ask: Ask) -> FailureList:
        """The list settings in a URL."""
        library = ask.site.library
        source = library.known_collection(ask.get("c")), ask.get("s") or library.names[0], ask.get("d") or "t2i"
        return cls(*source, ask.get("class"), ask.get("q")[:200], ask.get("order") or "far")

    def link(self, **more: int | str) -> str:
        """The query parameters of a link within this list."""
        parameters = {"c": self.collection, "s": self.system, "d": self.direction, "q": self.words, "class": self.kind}
        order = "" if self.order == "far" else self.order
        return query(**{**parameters, "order": order, **more})


def failures_page(ask: Ask) -> Response:
    """Failures of a system, the worst rank of the relevant item first."""
    library, listed = ask.site.library, FailureList.from_url(ask)
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
    source = listed.collection, listed.system, listed.direction
    failures = failures_of(library, *source)
    try:
        return with_classes(library, *source, patience=NOTICED if listed.kind else 0.3), None
    except Pending as pending:
        if listed.kind:
            raise
        return failures, pending.job


def failure_page(ask: Ask) -> Response:
    """One failure, explained by boxes on the images and by text."""
    library, listed = ask.site.library, FailureList.from_url(ask)
    failures, _ = _failures(library, listed)
    number = failures.number(ask.get("query"))
    failure_story = story(failures, number, library.loaded(listed.collection))
    order = failures.listed(listed.kind, listed.words, listed.order)
    place = order.index(number) if number in order else 0
    earlier, further = (
        [failures.found[n].query for n in positions] for positions in (order[:place][-1:], order[place + 1 :][:1])
    )
    same_query = {"q": failure_story.text} if failure_story.by_text else {"image": failure_story.truth.image}
    return page(
        ask, "failure.html", story=failure_story, listed=listed, failures=failures, place=place + 1, total=len(order),
        again=query(c=listed.collection, s=listed.system, split=HELD_OUT, **same_query), earlier=earlier,
        further=further,
    )  # fmt: skip
