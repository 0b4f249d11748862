"""Folds: parts of a collection that are evaluated alone, such as the five of COCO 1K, named in a field of its items."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from limner.core.arrays import IntArray
from limner.core.collection import Collection, Items
from limner.core.ids import Ids

_KNOWN: WeakKeyDictionary[Collection, dict[str, tuple[IntArray, IntArray]]] = WeakKeyDictionary()


def fold_of(ids: Ids, items: Items, name: str | None, collection: Collection) -> IntArray:
    """The fold of each id as a number from 0, the same for images and texts; -1 for none and for unknown ids.

    Args:
        ids: Ids of the items.
        items: The images or the texts of the collection.
        name: The field that names the folds; None if all items are in one fold.
        collection: The collection, whose images and texts have the same folds.
    """
    at = items.ids.find(ids)
    if name is None:
        return np.where(at < 0, -1, 0)
    return _folds(collection, name)[items is collection.texts][at]


def _folds(collection: Collection, name: str) -> tuple[IntArray, IntArray]:
    """The folds of all images and of all texts, and -1 at the end; found once for each collection."""
    known = _KNOWN.setdefault(collection, {})
    if name not in known:
        number = _numbers(collection, name)
        sides = (_labelled(items, name) for items in (collection.images, collection.texts))
        images, texts = ([number[labels[value]] for value in values] for values, labels in sides)
        known[name] = np.array([*images, -1]), np.array([*texts, -1])
    return known[name]


def _numbers(collection: Collection, name: str) -> dict[str | None, int]:
    """The number of every label, in order of appearance."""
    found: dict[str | None, int] = {None: -1}
    for items in (collection.images, collection.texts):
        for label in _labelled(items, name)[1].values():
            found.setdefault(label, len(found) - 1)
    return found


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
