"""What is known of the people who judge: who they are, how far they agree, what waits for a second look.

With many answers this takes seconds, so it is computed in the background, once for everybody, and a page shows what is
known so far.
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

SAMPLES = 300
"""Bootstrap samples for the intervals on the page."""
PATIENCE = 2.0
"""Seconds that a page waits for it."""


@dataclass(frozen=True)
class Known:
    """What was worked out, of which state of the store.

    Args:
        state: The state, `limner.annotate.store.answers.latest`.
        answers: How many answers there were.
        records: What everybody has done.
        queue: Finished tasks with a wrong control.
        agreed: How far people agree; None if two people are lacking.
        disputed: Pairs with different grades.
        pace: Answers by day, and what is left.
    """

    state: tuple[int, ...]
    answers: int
    records: list[Record]
    queue: list[Doubtful]
    agreed: Agreement | None
    disputed: list[Disagreement]
    pace: Throughput


class Dated(Protocol):
    """What was worked out of a known state of the store."""

    @property
    def state(self) -> tuple[int, ...]:
        """The state."""


T = TypeVar("T", bound=Dated)


@dataclass
class Watch:
    """The last that was worked out, by what it is; nothing before the first time."""

    known: dict[str, Any] = field(default_factory=dict)


def watched(
    ask: Ask, name: str, what: str, state: Callable[[], tuple[int, ...]], make: Callable[[], T], *, patience: float
) -> tuple[T | None, Job | None]:
    """What is known, and the work under way where that is not the newest.

    Args:
        ask: The request.
        name: What is worked out; equal names are one work.
        what: Description for the person who waits.
        state: The store's state now.
        make: Works it out.
        patience: Seconds to wait for the first; for a newer one nobody waits.
    """
    jobs, known = ask.site.library.jobs, ask.request.app.state.watch.known
    key = (name, ask.site.store_at)
    for seconds in (patience, 0.0):  # what is ready may be old: then the next is begun
        if name in known and known[name].state == state():
            break
        try:
            known[name] = jobs.value(key, what, lambda job: make(), patience=seconds)
        except Pending as pending:
            return known.get(name), pending.job
        jobs.forget(key)
    return known.get(name), None


def people_of(ask: Ask) -> tuple[Known | None, Job | None]:
    """What is known of people, and the work under way where that is not the newest."""
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

    state = latest(store)  # first: what comes in between is counted next time
    given = answers(store)
    several = len({answer.annotator for answer in given}) > 1
    agreed = agreement(given, samples=SAMPLES) if several else None
    pace = throughput(given, asked=progress(store)["asked"], now=store.now())
    people = annotator_table(given), review_queue(store, given), agreed
    return Known(state, len(given), *people, disagreements(given), pace)
