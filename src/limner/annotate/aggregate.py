"""Aggregates several answers to one label per pair: by majority, or by the model of Dawid and Skene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.store.answers import Answer
from limner.annotate.store.contents import Key
from limner.core.errors import LimnerError, UnknownName
from limner.stats import dawid_skene

GRADE_VALUES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Label:
    """The grade of a pair, its confidence (0 to 1), and the number of answers."""

    image: str
    caption: str
    grade: int
    confidence: float
    answers: int


def majority(grades: Sequence[int]) -> tuple[int, float]:
    """The most frequent grade and its share; on a tie, the lower grade.

    >>> majority([4, 4, 2]), majority([4, 1])
    ((4, 0.6666666666666666), (1, 0.5))
    """
    if not grades:
        raise LimnerError("no answers to take a majority of: expected at least one")
    counted = Counter(grades)
    most = max(counted.values())
    return min(grade for grade, count in counted.items() if count == most), most / len(grades)


def by_majority(given: Sequence[Answer]) -> list[Label]:
    """The majority of every pair's answers; controls are left out."""
    return [Label(*key, *majority(grades), len(grades)) for key, grades in _grades(given).items()]


def by_dawid_skene(given: Sequence[Answer]) -> list[Label]:
    """Dawid and Skene's most probable grade; controls are used to estimate error rates, but get no label."""
    if not given:
        return []
    names = {name: row for row, name in enumerate(dict.fromkeys(a.annotator for a in given))}
    keys = {key: row for row, key in enumerate(dict.fromkeys((a.image, a.caption) for a in given))}
    rows = [(names[a.annotator], keys[a.image, a.caption], a.grade - 1) for a in given]
    found = dawid_skene(*np.array(rows).T, n_classes=len(GRADE_VALUES))
    counts = {key: len(grades) for key, grades in _grades(given).items()}
    best = found.classes.argmax(axis=1)
    return [
        Label(*key, int(best[keys[key]]) + 1, float(found.classes[keys[key], best[keys[key]]]), count)
        for key, count in counts.items()
    ]


METHODS: dict[str, Callable[[Sequence[Answer]], list[Label]]] = {
    "majority": by_majority,
    "dawid-skene": by_dawid_skene,
}


def _grades(given: Iterable[Answer]) -> dict[Key, list[int]]:
    found: dict[Key, list[int]] = {}
    for answer in given:
        if answer.role == "real":
            found.setdefault((answer.image, answer.caption), []).append(answer.grade)
    return found


def aggregate(given: Sequence[Answer], method: str = "majority") -> list[Label]:
    """One label per pair, by one of `METHODS`."""
    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    return METHODS[method](given)
