"""Annotation quality: controls, agreement, annotators to exclude, tasks to review."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, mean, median
from typing import Literal, cast

import numpy as np

from limner.annotate.scale import relevant
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers
from limner.annotate.store.exclusions import exclude
from limner.annotate.store.schema import assignment as assignments
from limner.annotate.store.schema import inserted, sa
from limner.annotate.store.schema import review as reviews
from limner.core.errors import LimnerError, UnknownId, UnknownName
from limner.stats import cohen_kappa
from limner.stats.agreement import Undefined, alpha_interval
from limner.stats.inputs import Vector

THRESHOLD = 0.7
"""Minimum share of correct controls, as in Hodosh et al. (2013)."""
LEAST = 4
"""Minimum number of controls before an annotator is excluded."""
DECISIONS = ("accept", "reject")
_QUICK = 0.25  # share of the median time of other annotators
Level = Literal["nominal", "ordinal", "interval"]


def right(answer: Answer) -> bool:
    """Whether the answer to a control is right: a yes to a known positive, a no to a known negative."""
    if answer.role == "real":
        raise LimnerError("only controls have a known answer")
    return relevant(answer.grade) == (answer.role == "gold_pos")


# --- agreement --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Agreement of annotators.

    Args:
        alpha: Krippendorff's alpha: 1 is full agreement, 0 is chance.
        low: Lower end of its interval.
        high: Upper end.
        level: Level of measurement: "ordinal" or "nominal".
        annotators: How many people.
        pairs: Number of pairs judged by at least two people.
        kappas: Cohen's kappa for each pair of people, weighted by the distance of grades, with the number of pairs both
            judged; NaN if undefined.
        note: Remarks, e.g. why a number is NaN.
    """

    alpha: float
    low: float
    high: float
    level: str
    annotators: int
    pairs: int
    kappas: dict[tuple[str, str], tuple[float, int]]
    note: str = ""


def agreement(
    answers: Sequence[Answer],
    *,
    level: Level = "ordinal",
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    controls: bool = False,
) -> Agreement:
    """Krippendorff's alpha with an interval, and Cohen's kappa of each pair of annotators.

    Both come from `limner.stats`. The table has annotators as rows and pairs as columns; it is built here from named
    answers, because a transposed table would silently give a value near 0.

    Args:
        answers: The answers.
        level: "ordinal" (the grades have an order), "nominal" or "interval".
        samples: Bootstrap samples for the interval.
        confidence: Confidence of the interval.
        seed: Seed of the bootstrap.
        controls: Whether to count controls too; they are easy, so they inflate agreement.
    """
    used = [a for a in answers if controls or a.role == "real"]
    table = ratings(used)
    shared = int((np.isfinite(table).sum(axis=0) >= 2).sum())
    kappas = _kappas(used)
    notes = [f"kappa of {a} and {b} is undefined (both gave the same grade throughout)"
             for (a, b), (value, _) in kappas.items() if math.isnan(value)]  # fmt: skip
    alpha = low = high = math.nan
    try:
        if len(table) < 2:
            raise Undefined("alpha is undefined: no pair was judged by two people")
        interval = alpha_interval(
            table, level=level, raters=len(table), samples=samples, confidence=confidence, seed=seed
        )
        alpha, low, high = interval.estimate, interval.low, interval.high
    except Undefined as error:
        notes.insert(0, str(error))
    return Agreement(alpha, low, high, level, len(table), shared, kappas, "; ".join(notes))


def ratings(answers: Iterable[Answer]) -> Vector:
    """A table of grades: one row per annotator, one column per pair, NaN without an answer."""
    listed = list(answers)
    rows = {name: row for row, name in enumerate(dict.fromkeys(a.annotator for a in listed))}
    columns = {pair: column for column, pair in enumerate(dict.fromkeys(a.pair for a in listed))}
    table = np.full((len(rows), len(columns)), np.nan)
    for answer in listed:
        table[rows[answer.annotator], columns[answer.pair]] = answer.grade
    return table


def _kappas(answers: Iterable[Answer]) -> dict[tuple[str, str], tuple[float, int]]:
    by_person: dict[str, dict[int, int]] = {}
    for answer in answers:
        by_person.setdefault(answer.annotator, {})[answer.pair] = answer.grade
    kappas = {}
    for one, second in combinations(sorted(by_person), 2):
        shared = sorted(by_person[one].keys() & by_person[second].keys())
        if shared:
            kappas[one, second] = (
                _kappa([by_person[one][p] for p in shared], [by_person[second][p] for p in shared]),
                len(shared),
            )
    return kappas


def _kappa(one: Sequence[int], second: Sequence[int]) -> float:
    """Linearly weighted Cohen's kappa of two people's grades; NaN if undefined."""
    try:
        return cohen_kappa(one, second, weights="linear")
    except Undefined:
        return math.nan


# --- annotators -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """Statistics of one annotator.

    Args:
        annotator: The name.
        answers: Number of answers to pooled pairs.
        controls: Number of answered controls.
        right: Number of correct controls.
        agreement: Mean distance to the others' mean grade of the same pairs, 0 is perfect; NaN without others.
        milliseconds: Median time of an answer; NaN if none was measured.
        commonest: Share of the most frequent grade.
        suspicious: Reasons to check; empty if there are none.
    """

    annotator: str
    answers: int
    controls: int
    right: int
    agreement: float
    milliseconds: float
    commonest: float
    suspicious: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of correct controls; NaN without controls."""
        return self.right / self.controls if self.controls else math.nan


def annotator_table(answers: Sequence[Answer]) -> list[Record]:
    """A record of every annotator, the most suspicious first."""
    by_person: dict[str, list[Answer]] = {}
    sums = _Sums()
    for answer in answers:
        by_person.setdefault(answer.annotator, []).append(answer)
        sums.add(answer)
    times = {
        name: [a.milliseconds for a in person_answers if a.milliseconds is not None]
        for name, person_answers in by_person.items()
    }
    records = [_record(name, person_answers, sums, _usual(times, name)) for name, person_answers in by_person.items()]
    return sorted(records, key=lambda r: (-len(r.suspicious), r.annotator))


def _usual(times: Mapping[str, Sequence[int]], name: str) -> float:
    """The median time of everyone else's answers; NaN if none was measured."""
    other_times = np.array(
        [each for annotator, their_times in times.items() if annotator != name for each in their_times]
    )
    return float(np.median(other_times)) if len(other_times) else math.nan


class _Sums:
    """Sums of grades per pair, and per pair and person, for fast lookup."""

    def __init__(self) -> None:
        self.number: Counter[object] = Counter()
        self.total: Counter[object] = Counter()

    def add(self, answer: Answer) -> None:
        for key in (answer.pair, (answer.pair, answer.annotator)):
            self.number[key] += 1
            self.total[key] += answer.grade

    def gap(self, answer: Answer) -> float | None:
        """Distance of an answer to the mean of the others; None without other answers."""
        key = (answer.pair, answer.annotator)
        n_others = self.number[answer.pair] - self.number[key]
        return abs(answer.grade - (self.total[answer.pair] - self.total[key]) / n_others) if n_others else None


def _record(name: str, answers: Sequence[Answer], sums: _Sums, usual: float) -> Record:
    real = [a for a in answers if a.role == "real"]
    golden = [right(a) for a in answers if a.role != "real"]
    times = [a.milliseconds for a in answers if a.milliseconds is not None]
    took = float(median(times)) if times else math.nan
    top_share = max(Counter(a.grade for a in real).values(), default=0) / max(len(real), 1)
    gaps = [gap for a in real if (gap := sums.gap(a)) is not None]
    why = []
    if len(golden) >= LEAST and mean(golden) < THRESHOLD:
        why.append(f"{sum(golden)} of {len(golden)} controls right")
    if len(times) >= LEAST and took < _QUICK * usual:
        why.append(f"answers in {took / 1000:.1f} s, others in {usual / 1000:.1f} s")
    if len(real) >= 20 and top_share > 0.95:
        why.append(f"the same grade {top_share:.0%} of the time")
    distance = fmean(gaps) if gaps else math.nan
    return Record(name, len(real), len(golden), sum(golden), distance, took, top_share, tuple(why))


def set_aside(store: Store, *, threshold: float = THRESHOLD) -> list[str]:
    """Excludes annotators whose share of correct controls is below the threshold; their pairs are asked again.

    Args:
        store: The store.
        threshold: Minimum share of correct controls.

    Returns:
        Names of the excluded annotators.
    """
    poor = [r for r in annotator_table(answers(store)) if r.controls >= LEAST and r.share < threshold]
    for record in poor:
        reason = f"{record.right} of {record.controls} controls right, below {threshold:.0%}"
        exclude(store, "annotator", record.annotator, reason=reason)
    return [record.annotator for record in poor]


# --- review -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doubtful:
    """A finished task with wrong answers to controls: the annotator and these controls."""

    assignment: int
    task: int
    annotator: str
    wrong: tuple[Answer, ...]
    controls: int


def review_queue(store: Store, collected: Iterable[Answer] | None = None) -> list[Doubtful]:
    """Finished tasks with a wrong control that are not reviewed yet, in order.

    Args:
        store: The store.
        collected: Its answers, if already loaded.
    """
    waiting = set(_column(store, sa.select(assignments.c.id).where(assignments.c.finished.is_not(None))))
    waiting -= set(_column(store, sa.select(reviews.c.assignment_id)))
    controls: dict[int, list[Answer]] = {}
    for answer in answers(store) if collected is None else collected:
        if answer.role != "real" and answer.assignment in waiting:
            controls.setdefault(answer.assignment, []).append(answer)
    return [
        Doubtful(key, control_answers[0].task, control_answers[0].annotator, wrong, len(control_answers))
        for key, control_answers in controls.items()
        if (wrong := tuple(a for a in control_answers if not right(a)))
    ]


def _column(store: Store, query: sa.Select[object]) -> list[int]:
    return [cast("int", next(iter(row.values()))) for row in store.rows(query)]


def review(store: Store, assignment: int, decision: str, *, reason: str, by: int | None = None) -> None:
    """Accepts or rejects a doubtful task; if rejected, its answers no longer count and it goes to someone else.

    A task in progress is refused.

    Args:
        store: The store.
        assignment: Its id, `Doubtful.assignment`.
        decision: "accept" or "reject".
        reason: The reason; it is stored.
        by: The reviewer.
    """
    if decision not in DECISIONS:
        raise UnknownName("decision", decision, DECISIONS)
    if not reason.strip():
        raise LimnerError("a review needs a reason")
    with store.writing() as connection:
        row = connection.execute(sa.select(assignments.c.finished).where(assignments.c.id == assignment)).first()
        if row is None:
            raise UnknownId(f"no assignment {assignment}: see 'limner annotate people review'")
        if row.finished is None:
            raise LimnerError(f"assignment {assignment} is not finished: wait until all of its pairs are answered")
        values = {"assignment_id": assignment, "decision": decision, "reason": reason.strip(), "by_id": by}
        inserted(connection, reviews, **values, added=store.timestamp())
    if decision == "reject":
        exclude(store, "assignment", assignment, reason=reason, by=by)
