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
    top_count = max(counted.values())
    return min(grade for grade, count in counted.items() if count == top_count), top_count / len(grades)


def by_majority(answers: Sequence[Answer]) -> list[Label]:
    """The majority of every pair's answers; controls are left out."""
    return [Label(*key, *majority(grades), len(grades)) for key, grades in _grades(answers).items()]


def by_dawid_skene(answers: Sequence[Answer]) -> list[Label]:
    """Dawid and Skene's most probable grade; controls are used to estimate error rates, but get no label."""
    if not answers:
        return []
    names = {name: row for row, name in enumerate(dict.fromkeys(a.annotator for a in answers))}
    keys = {key: row for row, key in enumerate(dict.fromkeys((a.image, a.caption) for a in answers))}
    rows = [(names[a.annotator], keys[a.image, a.caption], a.grade - 1) for a in answers]
    fit = dawid_skene(*np.array(rows).T, n_classes=len(GRADE_VALUES))
    counts = {key: len(grades) for key, grades in _grades(answers).items()}
    best = fit.classes.argmax(axis=1)
    return [
        Label(*key, int(best[keys[key]]) + 1, float(fit.classes[keys[key], best[keys[key]]]), count)
        for key, count in counts.items()
    ]


METHODS: dict[str, Callable[[Sequence[Answer]], list[Label]]] = {
    "majority": by_majority,
    "dawid-skene": by_dawid_skene,
}


def _grades(answers: Iterable[Answer]) -> dict[Key, list[int]]:
    by_pair: dict[Key, list[int]] = {}
    for answer in answers:
        if answer.role == "real":
            by_pair.setdefault((answer.image, answer.caption), []).append(answer.grade)
    return by_pair


def aggregate(answers: Sequence[Answer], method: str = "majority") -> list[Label]:
    """One label per pair, by one of `METHODS`."""
    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    return METHODS[method](answers)
