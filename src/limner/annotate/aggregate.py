"""Aggregates several answers to one label per pair: by majority, or by the model of Dawid and Skene."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate._sql import inserted, sa
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers
from limner.annotate.store.contents import Key
from limner.annotate.store.schema import aggregation, caption, image, label, pair
from limner.core.errors import LimnerError, UnknownId, UnknownName
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


def aggregate(store: Store, method: str = "majority") -> list[Label]:
    """Aggregates the valid answers to one label per pair, and saves them in the store."""
    if method not in METHODS:
        raise UnknownName("aggregation method", method, METHODS)
    given = answers(store)
    found = METHODS[method](given)
    if not found:
        raise LimnerError("no answers yet: nothing to aggregate")
    numbers = {(a.image, a.caption): a.pair for a in given}
    with store.writing() as connection:
        key = inserted(connection, aggregation, method=method, answers=len(given), added=store.now())
        rows = [{"aggregation_id": key, "pair_id": numbers[x.image, x.caption], **_columns(x)} for x in found]
        connection.execute(sa.insert(label), rows)
    return found


def _columns(each: Label) -> dict[str, object]:
    return {"grade": each.grade, "confidence": each.confidence, "answers": each.answers}


def labels(store: Store, *, number: int | None = None) -> list[Label]:
    """The labels of one aggregation, the last one by default."""
    with store.reading() as connection:
        chosen = number or connection.scalar(sa.select(sa.func.max(aggregation.c.id)))
    if chosen is None:
        raise UnknownId("no aggregation yet: run 'limner annotate aggregate' first")
    columns = (image.c.key.label("image"), caption.c.key.label("caption"), label.c.grade, label.c.confidence)
    query = sa.select(*columns, label.c.answers).join_from(label, pair).join(image).join(caption)
    rows = store.rows(query.where(label.c.aggregation_id == chosen).order_by(label.c.id))
    if not rows:
        raise UnknownId(f"no aggregation {chosen}")
    return [Label(**row) for row in rows]
