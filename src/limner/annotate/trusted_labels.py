"""Labels of a judge that need no people: those it is sure of, with a bound on how many of them are wrong.

People judge a random sample of the pairs. A threshold of the judge's probability is then certified on their answers,
one for yes and one for no, so that the share of errors among the pairs beyond it is at most a budget: "learn then test"
(Angelopoulos et al. 2021, `limner.stats.precision_threshold`), with the exact binomial test. Each side is tested at
half of the allowed risk, so both hold together; if they overlap, only the side with more pairs is used. The bound is on
all pairs beyond the threshold, those that people have judged among them. People judge the pairs that are left.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner.annotate.export import import_answers
from limner.annotate.merge import boolean_labels, by_majority
from limner.annotate.scale import ImportedAnswer
from limner.annotate.store import Store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import Key, pairs
from limner.annotate.store.designs import designs, machine_answers, refuse_unknown_judge
from limner.annotate.store.schema import sa, task_item
from limner.annotate.store.schema import task as task_table
from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.core.errors import LimnerError, count
from limner.stats.inputs import share
from limner.stats.selective import Answers, Threshold, precision_threshold

YES, NO = 4, 1
"""The grades of a judge's labels."""
SAMPLE = "sample"
"""The setting of a store with the last random sample: its tasks, and the number of the last pair it was drawn from."""
ACCEPTED = "judge labels"
"""The setting of a store with the names of the annotators whose answers are a judge's labels."""
LEAST = 4
"""Clusters without which no threshold is tried."""


@dataclass(frozen=True)
class TrustedLabels:
    """The labels of a judge that were certified.

    Args:
        labels: Whether each pair is a match: the pairs beyond a threshold that people have not judged.
        yes: Pairs with at least this probability are matches; its value is None if no threshold can be certified.
        no: Pairs with at least this probability of not being a match are none.
        errors: The largest share of wrong labels on either side.
        level: The probability that the bound holds on both sides.
        left: The number of pairs that people have to judge.
        sample: The number of pairs that people were asked for.
        unanswered: The number of these without an answer; they count as errors.
    """

    labels: Mapping[Key, bool]
    yes: Threshold
    no: Threshold
    errors: float
    level: float
    left: int
    sample: int
    unanswered: int

    def to_json(self) -> dict[str, float | int | None]:
        """Everything but the labels themselves."""
        yes = sum(self.labels.values())
        return {
            "yes": yes, "no": len(self.labels) - yes, "left": self.left, "sample": self.sample,
            "unanswered": self.unanswered, "errors": self.errors, "level": self.level,
            "yes_from": self.yes.value, "no_up_to": None if self.no.value is None else 1 - self.no.value,
        }  # fmt: skip

    def __str__(self) -> str:
        missing = f" ({count(self.unanswered, 'pair')} without an answer, counted as errors)" if self.unanswered else ""
        promise = f"at most {100 * self.errors:g}% errors with {100 * self.level:g}% confidence"
        people = f"{self.sample:,} pairs judged by people{missing}"
        if not self.labels:
            return f"no label is certain enough for {promise}, from {people}: draw a larger sample or allow more errors"
        n_yes = sum(self.labels.values())
        sides = [f"{n_yes:,} yes (probability {self.yes.value:.3g} or more)"] if self.yes.value is not None else []
        if self.no.value is not None:
            sides.append(f"{len(self.labels) - n_yes:,} no (probability {1 - self.no.value:.3g} or less)")
        total = count(len(self.labels), "label")
        return (
            f"{total} of the judge: {', '.join(sides)}; {promise}, from {people}; {self.left:,} pairs left for people"
        )


def trusted_labels(
    probabilities: Mapping[Key, float],
    people: Mapping[Key, bool | None],
    *,
    errors: float = 0.05,
    level: float = 0.95,
    clusters: Mapping[Key, str] | None = None,
    seed: int = 0,
) -> TrustedLabels:
    """The labels of a judge that need no people.

    Args:
        probabilities: The judge's probability of a match, for every pair; any number from 0 to 1 that grows with it.
        people: Whether each pair of a random sample is a match; None without an answer, which counts as an error.
        errors: The largest share of wrong labels among the yes, and among the no.
        level: The probability that both hold.
        clusters: What is drawn at random together, by pair (such as the image); by default the pairs are.
        seed: Seed of the part of the sample that proposes the thresholds.

    >>> random = np.random.default_rng(0)
    >>> chances = {(f"i{n}", "t"): float(p) for n, p in enumerate(random.random(2000))}
    >>> truth = {pair: bool(p + 0.1 * random.normal() > 0.5) for pair, p in chances.items()}
    >>> trusted = trusted_labels(chances, {pair: truth[pair] for pair in list(chances)[:800]}, errors=0.1)
    >>> len(trusted.labels), sum(truth[pair] != label for pair, label in trusted.labels.items())
    (1094, 54)
    """
    budget, side_level = share(errors, "errors"), (1 + share(level, "level")) / 2
    values = np.array(list(probabilities.values()), dtype=np.float64)
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        pair = list(probabilities)[int(bad.argmax())]
        raise LimnerError(f"probability of {pair}: got {probabilities[pair]!r}, expected a number from 0 to 1")
    sampled = [pair for pair in people if pair in probabilities]
    if not sampled:
        raise LimnerError("people have judged none of the judge's pairs: expected a random sample of them")
    owners = [pair if clusters is None else clusters[pair] for pair in sampled]
    places = {owner: place for place, owner in enumerate(dict.fromkeys(owners))}
    groups = np.array([places[owner] for owner in owners])
    chance = np.array([probabilities[pair] for pair in sampled])
    answered = np.array([people[pair] is not None for pair in sampled])
    is_match = np.array([people[pair] is True for pair in sampled])
    yes, no = (
        _certified(confidence, right, groups, precision=1 - budget, level=side_level, seed=seed)
        for confidence, right in ((chance, is_match), (1 - chance, answered & ~is_match))
    )
    yes, no = _without_overlap(yes, no, values)
    is_yes, is_no = _beyond(yes, values), _beyond(no, 1 - values)
    labels = {
        pair: bool(positive)
        for pair, positive, trusted in zip(probabilities, is_yes, is_yes | is_no, strict=True)
        if trusted and pair not in people
    }
    left = len(probabilities) - len(sampled) - len(labels)
    return TrustedLabels(labels, yes, no, errors, level, left, len(sampled), int((~answered).sum()))


def _certified(
    confidence: FloatArray, right: BoolArray, groups: IntArray, *, precision: float, level: float, seed: int
) -> Threshold:
    """The threshold of one side."""
    if groups.max() < LEAST - 1:
        return Threshold(None, precision, level, 0.0, 0.0, 0)
    column = confidence[:, None]
    sample = Answers(column, right[:, None], np.full_like(column, -np.inf), groups)
    return precision_threshold(sample, precision=precision, absent=0.0, level=level, seed=seed)


def _without_overlap(yes: Threshold, no: Threshold, values: FloatArray) -> tuple[Threshold, Threshold]:
    """Both, or if some pairs are beyond both, the one with more pairs."""
    if yes.value is None or no.value is None or yes.value > 1 - no.value:
        return yes, no
    if _beyond(yes, values).sum() >= _beyond(no, 1 - values).sum():
        return yes, replace(no, value=None)
    return replace(yes, value=None), no


def _beyond(threshold: Threshold, confidence: FloatArray) -> BoolArray:
    return np.asarray(confidence >= (np.inf if threshold.value is None else threshold.value))


# --- in a store -------------------------------------------------------------------------------------------------


def drawn_sample(open_pairs: Sequence[Key], size: int, *, seed: int = 0) -> list[Key]:
    """A random sample of the pairs without a task."""
    if not 0 < size <= len(open_pairs):
        raise LimnerError(f"a sample of {size:,} pairs: {len(open_pairs):,} pooled pairs are without a task")
    return random.Random(f"sample {seed}").sample(open_pairs, size)


def remember_sample(store: Store, open_pairs: Iterable[Key], task_ids: Iterable[int]) -> None:
    """Keeps which tasks are a random sample of the pairs that had no task."""
    chosen = set(open_pairs)
    last = max(each.id for each in pairs(store) if (each.image, each.caption) in chosen)
    store.set(SAMPLE, {"tasks": list(task_ids), "last": last})


def accept(store: Store, judge: str, *, errors: float = 0.05, level: float = 0.95) -> TrustedLabels:
    """Certifies a judge's labels on the random sample of a store, and adds them as answers of "judge NAME".

    The pairs that get a label are those without a task that were there when the sample was drawn.

    Args:
        store: A store whose last sample ('limner annotate tasks -O sample=N') people have judged.
        judge: The name of a judge with stored answers.
        errors: The largest share of wrong labels among the yes, and among the no.
        level: The probability that both hold.
    """
    if designs(store):
        raise LimnerError(
            "the store has a plan, whose intervals need people's answers: pool the pairs in another store"
        )
    sample = store.setting(SAMPLE)
    if sample is None:
        raise LimnerError("the store has no random sample: draw one with 'limner annotate tasks STORE -O sample=N'")
    refuse_unknown_judge(store, judge)
    tasks, all_pairs = set(sample["tasks"]), pairs(store)
    judged = boolean_labels(by_majority([each for each in answers(store) if each.task in tasks]))
    in_tasks = _pairs_of(store, tasks)
    people = {(p.image, p.caption): judged.get((p.image, p.caption)) for p in all_pairs if p.id in in_tasks}
    candidates = {
        (p.image, p.caption) for p in all_pairs if p.origin == "pool" and not p.asked and p.id <= sample["last"]
    }
    scores = {pair: p for pair, p in machine_answers(store, judge).items() if pair in candidates or pair in people}
    trusted = trusted_labels(scores, people, errors=errors, level=level)
    name = f"judge {judge}"
    rows = [ImportedAnswer(name, *pair, YES if label else NO) for pair, label in trusted.labels.items()]
    if rows:
        digest = hashlib.blake2b(repr(sorted(trusted.labels.items())).encode(), digest_size=8).hexdigest()
        import_answers(store, rows, key=f"{name} {digest}")
        store.set(ACCEPTED, sorted({name, *(store.setting(ACCEPTED) or ())}))
    return trusted


def refuse_judge_labels(store: Store) -> None:
    """Refuses a plan for a store with labels of a judge: intervals need people's answers."""
    accepted = set(store.setting(ACCEPTED) or ()) & {each.annotator for each in answers(store)}
    if accepted:
        raise LimnerError(
            f"the store has labels of {', '.join(sorted(accepted))}, and a plan's intervals need people's answers: "
            "plan in another store, or take them out with 'limner annotate people review'"
        )


def _pairs_of(store: Store, tasks: Iterable[int]) -> set[int]:
    """The numbers of the pairs of some tasks, without controls."""
    query = sa.select(task_item.c.pair_id).join(task_table)
    chosen = query.where(task_item.c.role == "real", task_table.c.id.in_(list(tasks)))
    with store.reading() as connection:
        return set(connection.scalars(chosen))
