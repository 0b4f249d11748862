"""Overview of the annotators: their records, their agreement, and tasks to review.

With many answers this takes seconds, so it is computed in the background, once for everyone, and a page shows the
latest result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from limner.web.jobs import Job, Pending
from limner.web.site import Ask

if TYPE_CHECKING:
    from limner.annotate.overview import Disagreement, Throughput
    from limner.annotate.quality import Agreement, Doubtful, Record
    from limner.annotate.store import Store
    from limner.annotate.store.answers import Answer

SAMPLES = 300
"""Bootstrap samples for the intervals on the page."""
PATIENCE = 2.0
"""Seconds that a page waits for the result."""


@dataclass(frozen=True)
class Known:
    """The computed overview, and the state of the store it is based on.

    Args:
        state: The state, `limner.annotate.store.answers.latest`.
        answers: How many answers there were.
        records: The records of all annotators.
        queue: Finished tasks with a wrong control.
        agreed: Agreement of people; None with fewer than two people.
        disputed: Pairs with different grades.
        pace: Answers by day, and the remaining work.
        comments: Answers with a comment, newest first.
    """

    state: tuple[int, ...]
    answers: int
    records: list[Record]
    queue: list[Doubtful]
    agreed: Agreement | None
    disputed: list[Disagreement]
    pace: Throughput
    comments: list[Answer]


class Dated(Protocol):
    """A result with the state of the store it is based on."""

    @property
    def state(self) -> tuple[int, ...]:
        """The state."""


T = TypeVar("T", bound=Dated)


@dataclass
class Watch:
    """The latest results by name; empty at first."""

    known: dict[str, Any] = field(default_factory=dict)


def watched(
    ask: Ask, name: str, what: str, state: Callable[[], tuple[int, ...]], make: Callable[[], T], *, patience: float
) -> tuple[T | None, Job | None]:
    """The latest result, and the running job if the result is outdated.

    Args:
        ask: The request.
        name: Name of the result; equal names are the same job.
        what: Description of the job for the page.
        state: The store's state now.
        make: Computes the result.
        patience: Seconds to wait for the first result; there is no wait for newer ones.
    """
    jobs, known = ask.site.library.jobs, ask.request.app.state.watch.known
    key = (name, ask.site.store_at)
    for seconds in (patience, 0.0):  # the result may be outdated: then the next job is started
        if name in known and known[name].state == state():
            break
        try:
            known[name] = jobs.value(key, what, lambda job: make(), patience=seconds)
        except Pending as pending:
            return known.get(name), pending.job
        jobs.forget(key)
    return known.get(name), None


def people_of(ask: Ask) -> tuple[Known | None, Job | None]:
    """The latest overview of people, and the running job if it is outdated."""
    from limner.annotate.store.answers import latest

    store = ask.site.store
    return watched(
        ask, "people", "comparing answers", lambda: latest(store), lambda: _worked_out(store), patience=PATIENCE
    )


def _worked_out(store: Store) -> Known:
    from limner.annotate.overview import disagreements, throughput
    from limner.annotate.quality import agreement, annotator_table, review_queue
    from limner.annotate.store.answers import answers, latest
    from limner.annotate.store.tasks import progress

    state = latest(store)  # read first: answers that arrive in between are counted next time
    given = answers(store)
    several = len({answer.annotator for answer in given}) > 1
    agreed = agreement(given, samples=SAMPLES) if several else None
    pace = throughput(given, asked=progress(store)["asked"], now=store.now())
    people = annotator_table(given), review_queue(store, given), agreed
    comments = [answer for answer in reversed(given) if answer.comment]
    return Known(state, len(given), *people, disagreements(given), pace, comments)
