"""An overview for the study lead while people judge: people, agreement, disagreements, pace, and remaining work."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import median, pvariance

from limner.annotate.quality import Agreement, Doubtful, Record, agreement, annotator_table, review_queue
from limner.annotate.scale import relevant
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers, by_pair
from limner.annotate.store.tasks import progress

DAY = 86_400_000
DAYS = 14
"""Number of days in the chart."""
TIMED = 20
"""Fewest measured times from which the remaining work is forecast."""


@dataclass(frozen=True)
class Disagreement:
    """A pair that people graded differently.

    Args:
        image: Id of the image.
        caption: Id of the caption.
        answers: All valid answers to it.
        spread: Difference between the highest and the lowest grade.
        opposed: Whether one person says yes and another no.
    """

    image: str
    caption: str
    answers: tuple[Answer, ...]
    spread: int
    opposed: bool


def disagreements(answers: Sequence[Answer]) -> list[Disagreement]:
    """Pairs with different grades, the largest difference first; controls are left out."""
    several = [each for each in by_pair(answers).values() if len({a.grade for a in each}) > 1]
    disputed = [_disagreement(pair_answers) for pair_answers in several]
    return sorted(disputed, key=lambda d: (-d.opposed, -d.spread, -pvariance([a.grade for a in d.answers]), d.image))


def _disagreement(pair_answers: Sequence[Answer]) -> Disagreement:
    grades = [answer.grade for answer in pair_answers]
    opposed = len({relevant(grade) for grade in grades}) > 1
    return Disagreement(
        pair_answers[0].image, pair_answers[0].caption, tuple(pair_answers), max(grades) - min(grades), opposed
    )


@dataclass(frozen=True)
class Throughput:
    """The pace of the annotation, without controls.

    Args:
        days: Number of answers on each of the last days, oldest first.
        today: Number of answers in the last 24 hours.
        people: Number of people who gave them.
        seconds: Median time of an answer; NaN if none was measured.
        left: Number of missing answers.
        timed: Number of answers with a measured time.
        whole_day: Whether the first answer is at least a day old, so that `today` is the rate of a day.
    """

    days: tuple[tuple[date, int], ...]
    today: int
    people: int
    seconds: float
    left: int
    timed: int
    whole_day: bool

    @property
    def work_left(self) -> float:
        """Hours of work left for one person at the median time; NaN before `TIMED` times are measured."""
        return self.left * self.seconds / 3600 if self.timed >= TIMED else math.nan

    @property
    def days_left(self) -> float:
        """Days left at the rate of the last 24 hours; NaN on the first day, and if nobody answered."""
        return self.left / self.today if self.today and self.whole_day else math.nan


def throughput(answers: Sequence[Answer], *, requested: int, timestamp: int) -> Throughput:
    """The answers by day, and the remaining work.

    Args:
        answers: The valid answers.
        requested: Total number of answers that the pooled pairs need.
        timestamp: The time, in milliseconds since 1970.
    """
    real = [answer for answer in answers if answer.role == "real"]
    day = datetime.fromtimestamp(timestamp / 1000, UTC).date()
    counted = Counter(datetime.fromtimestamp(answer.added / 1000, UTC).date() for answer in real)
    days = tuple((when, counted[when]) for when in (day - timedelta(days=n) for n in reversed(range(DAYS))))
    recent = [answer for answer in real if answer.added > timestamp - DAY]
    times = [answer.milliseconds for answer in real if answer.milliseconds is not None]
    seconds = median(times) / 1000 if times else math.nan
    people, left = len({answer.annotator for answer in recent}), max(0, requested - len(real))
    whole_day = any(answer.added <= timestamp - DAY for answer in real)
    return Throughput(days, len(recent), people, seconds, left, len(times), whole_day)


SAMPLES = 300
"""Bootstrap samples for the intervals on the page."""


@dataclass(frozen=True)
class PeopleOverview:
    """What annotators have done, and how far they agree.

    Args:
        answers: How many answers there were.
        records: For each annotator: number of answers, correct controls, agreement with the others, median time.
        queue: Finished tasks with a wrong control (a pair whose right answer is known).
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


def people_overview(store: Store) -> PeopleOverview:
    """The overview of a store now; with many answers this takes seconds."""
    all_answers = answers(store)
    several = len({answer.annotator for answer in all_answers}) > 1
    agreed = agreement(all_answers, samples=SAMPLES) if several else None
    pace = throughput(all_answers, requested=progress(store)["asked"], timestamp=store.timestamp())
    people = annotator_table(all_answers), review_queue(store, all_answers), agreed
    comments = [answer for answer in reversed(all_answers) if answer.comment]
    return PeopleOverview(len(all_answers), *people, disagreements(all_answers), pace, comments)
