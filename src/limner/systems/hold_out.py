"""One hold-out rule: a system is never searched or evaluated on its training items.

A system that is trained now uses the training split; without splits, it is trained on four images in five and the fifth
is held out. A saved model records its training items: everything else is searched and evaluated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.systems.trained_on import TrainedOn

SEED = 0
TEST_SHARE = 5
"""One image in this many is held out, if a collection has no splits."""
FEWEST = 2 * TEST_SHARE
"""Minimum number of images to train on a collection without splits."""


@dataclass(frozen=True, eq=False)
class Division:
    """A collection, divided for one or several systems.

    Args:
        collection: The whole collection.
        training: The part on which systems are trained now; None if nothing is trained.
        evaluated: The part that is searched and evaluated.
        notes: Remarks.
    """

    collection: Collection
    training: Collection | None
    evaluated: Collection
    notes: tuple[str, ...] = ()

    def with_note(self, note: str) -> Division:
        """The same parts with one more remark."""
        return replace(self, notes=(*self.notes, note))

    def excluding(self, name: str, record: TrainedOn) -> Division:
        """Leaves out the items that a saved model was trained on."""
        part = self.evaluated
        trained = record.saw(part)
        if not trained.any():
            return self
        count, total = int(trained.sum()), len(part.images)
        if count == total:
            raise LimnerError(
                f"{name} was trained on all {total:,} images of {part.name!r}: evaluate it on others, choose a "
                f"split that it has not seen, or hold out some images when you train it (limner train ... "
                f"--hold-out)"
            )
        unseen = part.restrict(part.images.ids[np.flatnonzero(~trained)], name=part.name)
        note = f"{name} was trained on {count:,} of the {total:,} images: measured on the {total - count:,} others"
        return replace(self, evaluated=unseen).with_note(note)


def part_of(collection: Collection, split: str | None) -> Collection:
    """The requested split; by default the test split if there is one, else everything."""
    if split is None:
        return collection.test if "test" in collection.splits else collection
    return collection if split == "all" else collection.split("dev" if split == "val" else split)


def trained_and_evaluated(collection: Collection, split: str | None) -> Division:
    """The parts of a collection for systems that are trained now.

    Args:
        collection: The collection.
        split: The split to evaluate; by default the test split if there is one.
    """
    if split == "all":
        raise LimnerError(
            "split 'all' with a system that is trained now would test on training items: name a split, or "
            "leave it out; a saved model may be evaluated on everything it was not trained on"
        )
    if collection.splits:
        return _by_split(collection, split)
    if split is not None:
        raise LimnerError(
            f"{collection.name!r} has no splits: leave out the split {split!r}, and one image in {TEST_SHARE} is held "
            "out"
        )
    return _at_random(collection, "has no splits")


def _at_random(collection: Collection, why: str) -> Division:
    training, evaluated = random_parts(collection)
    counts = f"trained on {len(training.images):,} images, measured on {len(evaluated.images):,} others (seed {SEED})"
    return Division(collection, training, evaluated, (f"{collection.name} {why}: {counts}",))


def _by_split(collection: Collection, split: str | None) -> Division:
    if split is None and "test" not in collection.splits:
        not_train = outside(collection, collection.train) if "train" in collection.splits else None
        if not_train is None or not len(not_train.images):
            return _at_random(collection, "has no test split")
        return Division(collection, collection.train, not_train, ("measured on every image outside the split 'train'",))
    name = split or "test"
    evaluated = part_of(collection, name)
    if "train" in collection.splits and not set(collection.splits["train"]) & set(evaluated.images.ids):
        return Division(collection, collection.train, evaluated)
    training = outside(collection, evaluated)
    if not len(training.images):
        raise LimnerError(
            f"every image of {collection.name!r} is in the split {name!r}: expected some that are not, to train on; or "
            "give a model that was trained elsewhere"
        )
    return Division(collection, training, evaluated, (f"trained on every image outside the split {name!r}",))


def random_parts(collection: Collection) -> tuple[Collection, Collection]:
    """Random parts for training and evaluation, four to one, with a fixed seed."""
    if len(collection.images) < FEWEST:
        missing = "test split" if collection.splits else "splits"
        raise LimnerError(
            f"{collection.name!r} has {len(collection.images)} images and no {missing}: expected at least {FEWEST}, of "
            f"which one in {TEST_SHARE} is held out; give more images, or a model that was trained elsewhere"
        )
    order = np.random.default_rng(SEED).permutation(len(collection.images))
    cut = len(order) // TEST_SHARE
    training, evaluated = (
        collection.restrict(collection.images.ids[np.sort(rows)]) for rows in (order[cut:], order[:cut])
    )
    return training, evaluated


def outside(collection: Collection, part: Collection) -> Collection:
    """Every image that is not in a part."""
    return collection.restrict([key for key in collection.images.ids if key not in part.images.ids])


def dev_of(trainer: Callable[..., object], parts: Division) -> dict[str, Collection]:
    """The dev split as an argument for a system that tunes its settings, unless the dev split is evaluated."""
    collection = parts.collection
    tunes = "dev" in inspect.signature(trainer).parameters and "dev" in collection.splits
    if not tunes or set(collection.dev.images.ids) & set(parts.evaluated.images.ids):
        return {}
    return {"dev": collection.dev}
