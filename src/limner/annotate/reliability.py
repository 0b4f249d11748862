"""Reliability of answers: agreement between people, and between a judge and people, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.annotate.quality import Agreement, agreement
from limner.annotate.store.answers import Answer
from limner.core.errors import count
from limner.stats import cohen_kappa, mean_interval
from limner.stats.agreement import Undefined

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
