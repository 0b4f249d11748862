"""Overview of the annotators: their records, their agreement, and tasks to review.

With many answers this takes seconds, so it is computed in the background, once for everyone, and a page shows the
latest result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from limner.web.jobs import NOTICED, Job
from limner.web.site import Ask

if TYPE_CHECKING:
    from limner.annotate.overview import Disagreement, Throughput
    from limner.annotate.quality import Agreement, Doubtful, Record
    from limner.annotate.store import Store
    from limner.annotate.store.answers import Answer

SAMPLES = 300
"""Bootstrap samples for the intervals on the page."""


@dataclass(frozen=True)
class PeopleOverview:
    """What annotators have done, and how far they agree.

    Args:
        answers: How many answers there were.
        records: The records of all annotators.
        queue: Finished tasks with a wrong control.
        agreed: Agreement of people; None with fewer than two people.
        disputed: Pairs with different grades.
        pace: Answers by day, and the remaining work.
        comments: Answers with a comment, newest first.
    """

    answers: int
    records: list[Record]
    queue: list[Doubtful]
    agreed: Agreement | None
    disputed: list[Disagreement]
    pace: Throughput
    comments: list[Answer]


def people_of(ask: Ask) -> tuple[PeopleOverview | None, Job | None]:
    """The latest overview of people, and the running job if it is outdated."""
    from limner.annotate.store.answers import latest

    site, store = ask.site, ask.site.store
    return site.library.jobs.latest(
        ("people", site.store_at),
        "comparing answers",
        lambda: latest(store),
        lambda: _overview(store),
        patience=NOTICED,
    )


def _overview(store: Store) -> PeopleOverview:
    from limner.annotate.overview import disagreements, throughput
    from limner.annotate.quality import agreement, annotator_table, review_queue
    from limner.annotate.store.answers import answers
    from limner.annotate.store.tasks import progress

    all_answers = answers(store)
    several = len({answer.annotator for answer in all_answers}) > 1
    agreed = agreement(all_answers, samples=SAMPLES) if several else None
    pace = throughput(all_answers, requested=progress(store)["asked"], timestamp=store.timestamp())
    people = annotator_table(all_answers), review_queue(store, all_answers), agreed
    comments = [answer for answer in reversed(all_answers) if answer.comment]
    return PeopleOverview(len(all_answers), *people, disagreements(all_answers), pace, comments)
