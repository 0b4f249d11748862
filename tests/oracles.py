"""Slow, obvious versions of the measures: an ordered list of grades in, one number out.

Ties and truncated lists by listing every order that is possible.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from limner import Measure


def of_order(measure: Measure, grades: Sequence[float]) -> float:
    """The measure of one query whose candidates, best first, have these grades."""
    chosen = dict(measure.options)
    grades = [g if g >= chosen.get("min_grade", 0) else 0.0 for g in grades]
    hits = [g > 0 for g in grades]
    relevant, k = sum(hits), measure.k or len(grades)
    worth = list(grades) if "graded" in chosen else [float(h) for h in hits]
    ideal = sorted(worth, reverse=True)
    first = hits.index(True) + 1 if relevant else math.inf

    def precision(n: int) -> float:
        return sum(hits[:n]) / n

    def gain(listed: Sequence[float]) -> float:
        gained = [g if "linear" in chosen else 2**g - 1 for g in listed[:k]]
        return sum(g / math.log2(i + 2) for i, g in enumerate(gained))

    cap = min(relevant, int(chosen.get("cap", 50)))
    return {
        "R": lambda: max(worth[:k]),
        "S": lambda: max(worth[:k]),
        "Recall": lambda: sum(worth[:k]) / sum(worth),
        "P": lambda: sum(worth[:k]) / k,
        "MedR": lambda: first,
        "MeanR": lambda: first,
        "MRR": lambda: 1 / first if first <= k else 0.0,
        "nDCG": lambda: gain(grades) / gain(sorted(grades, reverse=True)),
        "MAP": lambda: sum(precision(i + 1) for i in range(min(k, len(grades))) if hits[i]) / relevant,
        "mAP@R": lambda: sum(precision(i + 1) for i in range(relevant) if hits[i]) / relevant,
        "RP": lambda: sum(worth[:relevant]) / sum(ideal[:relevant]),
        "PMRP": lambda: sum(worth[:cap]) / sum(ideal[:cap]),
    }[measure.name]()


def orders(scores: Sequence[float]) -> list[tuple[int, ...]]:
    """Every order of the candidates in which scores do not rise."""
    every = itertools.permutations(range(len(scores)))
    return [o for o in every if all(scores[a] >= scores[b] for a, b in itertools.pairwise(o))]


def expected(measure: Measure, scores: Sequence[float], grades: Sequence[float]) -> float:
    """The mean of the measure over every order that the scores allow."""
    return float(np.mean([of_order(measure, [grades[c] for c in o]) for o in orders(scores)]))


def in_order(measure: Measure, scores: Sequence[float], grades: Sequence[float]) -> float:
    """Equal scores keep candidate order."""
    order = sorted(range(len(scores)), key=lambda c: -scores[c])
    return of_order(measure, [grades[c] for c in order])


def pessimistic(measure: Measure, scores: Sequence[float], grades: Sequence[float]) -> float:
    """The worst of every order that the scores allow."""
    found = [of_order(measure, [grades[c] for c in o]) for o in orders(scores)]
    return min(found) if measure.kind.better > 0 else max(found)


def continued(measure: Measure, listed: Sequence[float], rest: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest value when a list goes on with the rest of its pool, in any order."""
    found = [of_order(measure, [*listed, *o]) for o in set(itertools.permutations(rest))]
    return min(found), max(found)
