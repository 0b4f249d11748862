"""Folds: parts of a collection that are evaluated alone, such as the five of COCO 1K, named in a field of its items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from limner.core.arrays import IntArray
from limner.core.collection import Collection, Items
from limner.core.ids import Ids


class Folds:
    """The folds of the images and texts of a collection, as numbers from 0 in order of appearance.

    Args:
        collection: The collection, whose images and texts have the same folds.
        name: The field that names the folds.
    """

    def __init__(self, collection: Collection, name: str) -> None:
        number = _numbers(collection, name)
        self._ids: dict[str, Ids] = {}
        self._folds: dict[str, IntArray] = {}
        for kind, items in (("image", collection.images), ("text", collection.texts)):
            values, labels = _labelled(items, name)
            self._ids[kind] = items.ids
            self._folds[kind] = np.array([*(number[labels[value]] for value in values), -1])

    def of(self, ids: Ids, kind: str) -> IntArray:
        """The fold of each id of an "image" or a "text"; -1 for none and for unknown ids."""
        return self._folds[kind][self._ids[kind].find(ids)]


def _numbers(collection: Collection, name: str) -> dict[str | None, int]:
    """The number of every label, in order of appearance."""
    numbers: dict[str | None, int] = {None: -1}
    for items in (collection.images, collection.texts):
        for label in _labelled(items, name)[1].values():
            numbers.setdefault(label, len(numbers) - 1)
    return numbers


def _labelled(items: Items, name: str) -> tuple[Sequence[object], dict[object, str | None]]:
    """A value for every item, and the label of every distinct value; values of other types than these are labels."""
    values: Sequence[object] = items.field(name)
    if set(map(type, values)) <= {str, int}:
        return values, {value: str(value) for value in dict.fromkeys(values)}
    labels = [_label(value) for value in values]
    return labels, {label: label for label in labels}


def _label(fold: object) -> str | None:
    """The name of a fold: 1, 1.0 and "1" are the same fold; None and NaN are no fold."""
    if fold is None or fold != fold:
        return None
    return str(int(fold)) if isinstance(fold, (float, np.floating)) and float(fold).is_integer() else str(fold)
