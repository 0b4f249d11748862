"""Quality of the given labels: the share of them that is true (precision), and their share of all matches (recall).

Precision comes from the known positives that people see as controls: they are drawn at random from the given pairs, and
annotators do not know which pairs are controls. Recall needs the total number of matches and therefore a design of
levels (`limner.annotate.levels`): with p the precision, g given pairs per query and h further matches, it is `p g / (p
g + h)`, a ratio of two independent estimates, with a linearised interval (Cochran 1977, 6.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner.annotate import levels
from limner.annotate.aggregate import majority
from limner.annotate.scale import relevant
from limner.annotate.store.answers import Answer
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design
from limner.core.collection import Collection
from limner.core.errors import LimnerError, count
from limner.stats import Estimate, stratified
from limner.stats.estimators import sum_of_means


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
