"""Notes on estimates: what they rest on, what they leave out, and the quality of judges, people and given labels.

The precision of the given labels (the share of them that is true) comes from the known positives that people see as
controls: they are drawn at random from the given pairs, and annotators do not know which pairs are controls. Recall,
their share of all matches, needs the total number of matches and therefore a design of levels
(`limner.annotate.levels`): with p the precision, g given pairs per query and h further matches, it is `p g / (p g +
h)`, a ratio of two independent estimates, with a linearised interval (Cochran 1977, 6.4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from limner.annotate import levels
from limner.annotate.merge import majority
from limner.annotate.quality import Agreement, agreement
from limner.annotate.sample import Sample
from limner.annotate.scale import relevant
from limner.annotate.store.answers import Answer
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design
from limner.core.collection import Collection
from limner.core.errors import LimnerError, count
from limner.evaluation.label_estimates import Estimated
from limner.stats import Estimate, cohen_kappa, mean_interval, stratified
from limner.stats.agreement import Undefined
from limner.stats.estimators import sum_of_means


def over_all(counted: Estimate, left: Estimate, sizes: tuple[int, int]) -> tuple[float, float]:
    """The range of a measure over all queries that have a match, from two means that hold together.

    With the sum H of the values of the queries without a given match, at least H of these and at most all of them have
    a match, because no value is above 1.

    Args:
        counted: The mean over the queries with a given match.
        left: The mean over the others.
        sizes: The number of both.
    """
    n_counted, n_left = sizes
    low = (n_counted * counted.low + n_left * left.low) / (n_counted + n_left)
    return low, (n_counted * counted.high + n_left * left.high) / (n_counted + n_left * left.high)


def left_out_note(
    sample: Sample,
    sizes: tuple[int, int],
    with_match: int | None = None,
    k: int = 1,
    ranges: Sequence[str] = (),
    level: float = 0.95,
) -> list[str]:
    """What is known of the queries without a given match.

    Args:
        sample: The sample.
        sizes: The number of queries with a given match, and of those without.
        with_match: How many of the latter have a match at least; None if nothing is known.
        k: The ranks down to which their pairs are drawn.
        ranges: Each measure with its range over all queries that have a match.
        level: The probability that all of this holds, for one measure.
    """
    number, direction = sizes[1], sample.design.direction
    if not number:
        return []
    if with_match is None and sample.design.unit == LEVEL:
        words = "none of their pairs is drawn, so how many of them have a match is unknown"
    elif with_match is None:
        words = "none of their pairs is judged yet, so how many of them have a match is unknown"
    else:
        place = "as the first result" if k == 1 else f"in the first {k} results"
        words = (
            f"at least {with_match:,} of them have a match {place}, so at most {number - with_match:,} have no match "
            f"at all; over all queries that have one, {', '.join(ranges)} ({100 * level:g}% confidence)"
        )
    return [
        f"estimated ({direction}): {number:,} of {sum(sizes):,} queries have no given match and are left out, as in "
        f"the view pairs; {words}"
    ]


def notes_of(sample: Sample, estimated: Sequence[Estimated], mode: str) -> list[str]:
    """What the estimates of a direction rest on."""
    design, head = sample.design, f"estimated ({sample.design.direction})"
    validity = "valid for one look" if mode == "fixed" else "valid after every answer"
    effects = [e.estimate.effect for e in estimated if np.isfinite(e.estimate.effect)]
    effect = f", design effect {np.mean(effects):.2f}" if effects else ""
    notes = [
        f"{head}: complete truth of this collection for the {_queries(estimated)} with a given match, from "
        f"{count(sample.labels, 'label')}, {mode} intervals ({validity}){effect}; given pairs count as true"
    ]
    if design.unit == LEVEL and any(e.estimate.low < e.estimate.high for e in estimated):
        notes.append(
            f"{head}: intervals of measures that need all matches are approximate: 95% ones held the truth in "
            "90 to 100% of simulated studies, least where the last level has few matches"
        )
    if sample.open:
        waiting = count(sample.open, f"drawn {design.unit} waits", f"drawn {design.unit}s wait")
        notes.append(f"{head}: {waiting} for answers; only units drawn before them count")
    notes += [
        f"{head}: {e.outside:.1%} of {e.measure} is decided by pairs outside the design (a system that was not planned "
        "for): what they are is unknown, so there is an interval that is wider by that, and no point"
        for e in estimated
        if e.outside
    ]
    agreed = judged(sample)
    return notes + ([] if agreed is None else [str(agreed)])


def _queries(estimated: Sequence[Estimated]) -> str:
    return count(max((e.queries for e in estimated), default=0), "query", "queries")


def judged(sample: Sample) -> JudgeQuality | None:
    """How well the judge agrees with people on the labelled units; None without a judge or labels."""
    design = sample.design
    name, units = design.settings.get("judge"), [design.units[n] for n in sample.units]
    scores = [unit.score for unit in units if unit.score is not None]
    if name is None or not units or len(scores) < len(units):
        return None
    people = [any(sample.said.get(p) for p in unit.pairs(design.direction)) for unit in units]
    return judge_quality(str(name), design.direction, scores, people)


SAMPLES = 200
"""Bootstrap samples for the interval of people's agreement."""


@dataclass(frozen=True)
class Proportion:
    """A proportion, `yes` out of `of`, with Wilson's 95% interval."""

    yes: int
    of: int
    low: float
    high: float

    @classmethod
    def over(cls, hits: npt.NDArray[np.bool_]) -> Proportion:
        """Counts hits."""
        if not len(hits):
            return cls(0, 0, 0.0, 1.0)
        interval = mean_interval(hits.astype(np.float64), bounds=(0.0, 1.0))
        return cls(int(hits.sum()), len(hits), interval.low, interval.high)

    def __str__(self) -> str:
        if not self.of:
            return "0 of 0"
        return f"{self.yes} of {self.of} ({self.yes / self.of:.0%}, {self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True)
class JudgeQuality:
    """Agreement of a judge with people on the labelled units; a probability of at least 0.5 counts as its yes.

    Args:
        judge: Its name.
        direction: "i2t" or "t2i".
        units: Number of labelled units.
        right: Precision: how many of its yes are right.
        found: Recall: how many of people's yes it found.
        kappa: Cohen's kappa; None if undefined.
    """

    judge: str
    direction: str
    units: int
    right: Proportion
    found: Proportion
    kappa: float | None

    def __str__(self) -> str:
        kappa = "undefined" if self.kappa is None else f"{self.kappa:.2f}"
        return (
            f"judge {self.judge!r} ({self.direction}) on {self.units:,} labelled units: {self.right} of its yes right, "
            f"{self.found} of people's yes found, kappa {kappa}; people's answers count, not its own"
        )


def judge_quality(judge: str, direction: str, predictions: Sequence[float], people: Sequence[bool]) -> JudgeQuality:
    """Compares a judge with people.

    Args:
        judge: Its name.
        direction: "i2t" or "t2i".
        predictions: The judge's probability for each labelled unit.
        people: The human labels of the same units.
    """
    judge_yes, theirs = np.array(predictions, dtype=np.float64) >= 0.5, np.array(people, dtype=bool)
    try:
        kappa = float(cohen_kappa(judge_yes.astype(int), theirs.astype(int)))
    except Undefined:
        kappa = None
    right, recall = Proportion.over(theirs[judge_yes]), Proportion.over(judge_yes[theirs])
    return JudgeQuality(judge, direction, len(theirs), right, recall, kappa)


def people_agree(answers: Sequence[Answer]) -> Agreement:
    """Agreement of people on pairs that several of them judged."""
    return agreement(answers, samples=SAMPLES)


def agreement_words(agreement: Agreement) -> str:
    """The agreement as one line for a report."""
    if agreement.pairs == 0:
        return "people's agreement is unknown: no pair was judged by two people"
    if math.isnan(agreement.alpha):
        return f"people's agreement is undefined on {count(agreement.pairs, 'pair')}: all grades are the same"
    interval = f"[{agreement.low:.2f}, {agreement.high:.2f}]"
    return f"people's agreement: alpha {agreement.alpha:.2f} {interval} on {count(agreement.pairs, 'pair')}"


@dataclass(frozen=True)
class LabelQuality:
    """The quality of the given labels, compared with complete judgements.

    Args:
        precision: Share of the given pairs that are true; None if no known positive was judged.
        recall: Share of all true pairs that are given; None without answers to a design of levels.
        matches: Mean number of true matches per query; None without answers to a design of levels.
    """

    precision: Estimate | None
    recall: Estimate | None
    matches: Estimate | None

    def __str__(self) -> str:
        """One line for each available estimate."""
        named = (("precision", self.precision), ("recall", self.recall))
        lines = [f"{name} of the given labels: {_percent(e)}" for name, e in named if e is not None]
        if self.matches is not None:
            e = self.matches
            lines.append(f"true matches per query: {e.value:.2f} [{e.low:.2f}, {e.high:.2f}]")
        return "\n".join(lines)


def _percent(e: Estimate) -> str:
    return f"{100 * e.value:.1f} [{100 * e.low:.1f}, {100 * e.high:.1f}] from {count(e.n, 'answer')}"


def quality(
    answers: Sequence[Answer],
    collection: Collection,
    design: Design | None,
    units: Sequence[int],
    labels: Mapping[Key, bool],
    level: float,
) -> LabelQuality:
    """Precision and recall of the given pairs: `limner.annotate.estimate.label_quality` on a sample.

    Args:
        answers: All answers.
        collection: The collection with the given pairs.
        design: A design; recall needs a design of levels.
        units: Its units that people have labelled.
        labels: The human label of each (image, caption).
        level: Coverage of the intervals.
    """
    precision = _precision(answers, collection, level)
    if design is None or design.unit != LEVEL or not units:
        return LabelQuality(precision, None, None)
    each = len(collection.judgements.relevant) / design.queries
    hidden = _hidden(design, units, labels, level)
    right = precision or Estimate(1.0, 1.0, 1.0, level, 0.0, 0, 0, float("nan"))
    matches = _linear(right.value * each + hidden.value, each**2 * right.variance + hidden.variance, hidden)
    return LabelQuality(precision, label_recall(each, right, hidden), matches)


def _precision(answers: Sequence[Answer], collection: Collection, level: float) -> Estimate | None:
    """The share of judged known positives that people call matches."""
    pairs = {(image, caption) for image, caption, _ in collection.judgements.relevant}
    by_pair: dict[tuple[str, str], list[int]] = {}
    for answer in answers:
        if answer.role == "gold_pos" and (answer.image, answer.caption) in pairs:
            by_pair.setdefault((answer.image, answer.caption), []).append(answer.grade)
    if not by_pair:
        return None
    right = [float(relevant(majority(grades)[0])) for grades in by_pair.values()]
    return stratified(right, np.zeros(len(right), dtype=int), [len(pairs)], level=level)


def _hidden(design: Design, units: Sequence[int], labels: Mapping[Key, bool], level: float) -> Estimate:
    """Mean number of a query's matches that are not given."""
    strata = [design.units[n].stratum for n in units]
    count = np.bincount(strata, minlength=len(levels.PRIOR))
    if count.min() < 2:
        raise LimnerError(f"queries labelled at each level: {count.tolist()}; an interval needs at least 2 per level")
    new_matches = levels.matches_found(design, units, labels)
    return sum_of_means(new_matches, strata, [design.queries] * len(count), bounds=(0.0, np.inf), level=level)


def label_recall(positives: float, precision: Estimate, hidden: Estimate) -> Estimate:
    """`p g / (p g + h)` with a linearised interval, from independent estimates of p and h.

    Args:
        positives: Given pairs per query, g.
        precision: Share of true pairs among them, p.
        hidden: Further matches per query, h.

    >>> sure = Estimate(1.0, 1.0, 1.0, 0.95, 0.0, 0, 0, 1.0)
    >>> found = label_recall(1.0, sure, Estimate(3.0, 2.0, 4.0, 0.95, 0.25, 50, 100, 1.0))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.25, 0.189, 0.311)
    """
    p, h = precision.value, hidden.value
    total = p * positives + h
    if total <= 0:
        raise LimnerError("the answers contain no match, given or new: recall is undefined")
    variance = positives**2 * (h**2 * precision.variance + p**2 * hidden.variance) / total**4
    return _linear(p * positives / total, variance, hidden, high=1.0)


def _linear(value: float, variance: float, like: Estimate, high: float = np.inf) -> Estimate:
    """An estimate with a normal interval and the other fields of a given estimate."""
    from scipy.special import ndtri

    half = float(ndtri((1 + like.level) / 2)) * float(np.sqrt(variance))
    return replace(like, value=value, low=max(value - half, 0.0), high=min(value + half, high), variance=variance)
