"""Slow, obvious versions of the measures: an ordered list of grades in, one number out.

Ties and truncated lists by listing every order that is possible.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from limner import Measure


def of_order(measure: Measure, grades: Sequence[float], lost: Sequence[float] = ()) -> float:
    """The measure of one query whose candidates, best first, have these grades; the lost ones are never found."""
    chosen = dict(measure.options)
    grades, lost = ([g if g >= chosen.get("min_grade", 0) else 0.0 for g in side] for side in (grades, lost))
    hits = [g > 0 for g in grades]
    relevant, k = sum(hits) + sum(g > 0 for g in lost), measure.k or len(grades) + len(lost)
    worth, gone = ([g if "graded" in chosen else float(g > 0) for g in side] for side in (grades, lost))
    ideal = sorted([*worth, *gone], reverse=True)
    first = hits.index(True) + 1 if any(hits) else math.inf

    def precision(n: int) -> float:
        return sum(hits[:n]) / n

    def gain(listed: Sequence[float]) -> float:
        gained = [g if "linear" in chosen else 2**g - 1 for g in listed[:k]]
        return sum(g / math.log2(i + 2) for i, g in enumerate(gained))

    def average(deep: int) -> float:
        return sum(precision(i + 1) for i in range(min(deep, len(grades))) if hits[i]) / relevant

    cap = min(relevant, int(chosen.get("cap", 50)))
    return {
        "R": lambda: max(worth[:k], default=0.0),
        "S": lambda: max(worth[:k], default=0.0),
        "Recall": lambda: sum(worth[:k]) / sum(ideal),
        "P": lambda: sum(worth[:k]) / k,
        "MedR": lambda: first,
        "MeanR": lambda: first,
        "MRR": lambda: 1 / first if first <= k else 0.0,
        "nDCG": lambda: gain(grades) / gain(sorted([*grades, *lost], reverse=True)),
        "MAP": lambda: average(k),
        "mAP@R": lambda: average(relevant),
        "RP": lambda: sum(worth[:relevant]) / sum(ideal[:relevant]),
        "PMRP": lambda: sum(worth[:cap]) / sum(ideal[:cap]),
    }[measure.name]()


def orders(scores: Sequence[float]) -> list[tuple[int, ...]]:
    """Every order of the candidates in which scores do not rise."""
    groups = [[c for c, s in enumerate(scores) if s == score] for score in sorted(set(scores), reverse=True)]
    every = itertools.product(*(itertools.permutations(group) for group in groups))
    return [tuple(itertools.chain(*parts)) for parts in every]


def expected(measure: Measure, scores: Sequence[float], grades: Sequence[float], lost: Sequence[float] = ()) -> float:
    """The mean of the measure over every order that the scores allow."""
    return float(np.mean([of_order(measure, [grades[c] for c in o], lost) for o in orders(scores)]))


def in_order(measure: Measure, scores: Sequence[float], grades: Sequence[float], lost: Sequence[float] = ()) -> float:
    """Equal scores keep candidate order."""
    order = sorted(range(len(scores)), key=lambda c: -scores[c])
    return of_order(measure, [grades[c] for c in order], lost)


def pessimistic(
    measure: Measure, scores: Sequence[float], grades: Sequence[float], lost: Sequence[float] = ()
) -> float:
    """The worst of every order that the scores allow."""
    values = [of_order(measure, [grades[c] for c in o], lost) for o in orders(scores)]
    return min(values) if measure.kind.better > 0 else max(values)


TIES = {"expected": expected, "order": in_order, "pessimistic": pessimistic}


def continued(measure: Measure, listed: Sequence[float], remaining: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest value when a list goes on with the rest of its pool, in any order."""
    values = [of_order(measure, [*listed, *o]) for o in set(itertools.permutations(remaining))]
    return min(values), max(values)


def share_of_swaps(terms: np.ndarray, clusters: Sequence[object]) -> float:
    """The share of all swaps of whole clusters that put the sum of the terms at least as far from 0."""
    labels = list(dict.fromkeys(clusters))
    sums = np.array([sum(t for t, c in zip(terms, clusters, strict=True) if c == label) for label in labels])
    flips = np.array(list(itertools.product((-1, 1), repeat=len(sums))))
    return float(np.mean(np.abs(flips @ sums) >= abs(sums.sum()) - 1e-9))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction by its definition: the k-th smallest of m times m - k + 1, never below one before it."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, before = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        before = max(before, min(1.0, (len(p_values) - place) * p_values[i]))
        adjusted[i] = before
    return adjusted
