"""What is known of the people who judge: who they are, how far they agree, what waits for a second look.

With many answers this takes seconds, so it is worked out beside the pages, once for everybody, and a page shows what is
known so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from limner.web.jobs import Job, Pending
from limner.web.site import Ask

if TYPE_CHECKING:
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
    """

    state: tuple[int, ...]
    answers: int
    records: list[Record]
    queue: list[Doubtful]
    agreed: Agreement | None


@dataclass
class Watch:
    """The last that was worked out; None before the first time."""

    known: Known | None = None


def people_of(ask: Ask) -> tuple[Known | None, Job | None]:
    """What is known, and the work under way where that is not the newest."""
    from limner.annotate.store.answers import latest

    store, jobs, watch = ask.site.store, ask.site.library.jobs, ask.request.app.state.watch
    key = ("people", ask.site.store_at)
    for patience in (PATIENCE, 0.0):  # what is ready may be old: then the next is begun, but nobody waits for it
        if watch.known is not None and watch.known.state == latest(store):
            break
        try:
            watch.known = jobs.value(key, "comparing answers", lambda job: _worked_out(store), patience=patience)
        except Pending as pending:
            return watch.known, pending.job
        jobs.forget(key)
    return watch.known, None


def _worked_out(store: Store) -> Known:
    from limner.annotate.quality import agreement, annotator_table, review_queue
    from limner.annotate.store.answers import answers, latest

    state = latest(store)  # first: what comes in between is counted next time
    given = answers(store)
    several = len({answer.annotator for answer in given}) > 1
    agreed = agreement(given, samples=SAMPLES) if several else None
    return Known(state, len(given), annotator_table(given), review_queue(store, given), agreed)
