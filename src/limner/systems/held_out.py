"""One hold-out rule: a system is never searched or evaluated on its training items.

A system that is trained now uses the training split; without splits, it is trained on four images in five and the fifth
is held out. A saved model records its training items: everything else is searched and evaluated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

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


class Holds(Protocol):
    """The properties of a system that the rule uses."""

    @property
    def name(self) -> str:
        """Name in reports."""

    @property
    def is_trained_now(self) -> bool:
        """Whether it still has to be trained."""

    @property
    def trained_on(self) -> TrainedOn | None:
        """The training items of a saved model; None if there are none or they are unknown."""

    @property
    def is_unsure(self) -> bool:
        """Whether it is a saved model without a record of its training items."""


@dataclass(frozen=True, eq=False)
class HoldOut:
    """A collection, divided for one or several systems.

    Args:
        whole: The whole collection.
        seen: The part on which systems are trained now; None if nothing is trained.
        held: The part that is searched and evaluated.
        notes: Remarks.
    """

    whole: Collection
    seen: Collection | None
    held: Collection
    notes: tuple[str, ...] = ()


def hold_out(whole: Collection, systems: Iterable[Holds], split: str | None = None) -> HoldOut:
    """Divides a collection into training items and items for search and evaluation.

    Args:
        whole: The collection.
        systems: The systems that are opened on it.
        split: The split to evaluate; "all" for everything. By default the test split if there is one.
    """
    listed = list(systems)
    if any(system.is_trained_now for system in listed):
        parts = _divided(whole, split)
    else:
        parts = HoldOut(whole, None, part_of(whole, split))
    for system in listed:
        if system.trained_on is not None:
            parts = _without(parts, system.name, system.trained_on)
        elif system.is_unsure and (split == "all" or not whole.splits):
            note = f"{system.name} has no record of its training items: it may have been trained on these images"
            parts = replace(parts, notes=(*parts.notes, note))
    return parts


def part_of(whole: Collection, split: str | None) -> Collection:
    """The requested split; by default the test split if there is one, else everything."""
    if split is None:
        return whole.test if "test" in whole.splits else whole
    return whole if split == "all" else whole.split("dev" if split == "val" else split)


def _divided(whole: Collection, split: str | None) -> HoldOut:
    if split == "all":
        raise LimnerError(
            "split 'all' with a system that is trained now would test on training items: name a split, or "
            "leave it out; a saved model may be evaluated on everything it was not trained on"
        )
    if whole.splits:
        return _by_split(whole, split)
    if split is not None:
        raise LimnerError(
            f"{whole.name!r} has no splits: leave out the split {split!r}, and one image in {TEST_SHARE} is held out"
        )
    return _drawn(whole, "has no splits")


def _drawn(whole: Collection, why: str) -> HoldOut:
    seen, held = drawn(whole)
    many = f"trained on {len(seen.images):,} images, measured on {len(held.images):,} others (seed {SEED})"
    return HoldOut(whole, seen, held, (f"{whole.name} {why}: {many}",))


def _by_split(whole: Collection, split: str | None) -> HoldOut:
    if split is None and "test" not in whole.splits:
        rest = outside(whole, whole.train) if "train" in whole.splits else None
        if rest is None or not len(rest.images):
            return _drawn(whole, "has no test split")
        return HoldOut(whole, whole.train, rest, ("measured on every image outside the split 'train'",))
    name = split or "test"
    held = part_of(whole, name)
    if "train" in whole.splits and not set(whole.splits["train"]) & set(held.images.ids):
        return HoldOut(whole, whole.train, held)
    rest = outside(whole, held)
    if not len(rest.images):
        raise LimnerError(
            f"every image of {whole.name!r} is in the split {name!r}: expected some that are not, to train on; or "
            "give a model that was trained elsewhere"
        )
    return HoldOut(whole, rest, held, (f"trained on every image outside the split {name!r}",))


def drawn(whole: Collection) -> tuple[Collection, Collection]:
    """Random parts for training and evaluation, four to one, with a fixed seed."""
    if len(whole.images) < FEWEST:
        lacking = "test split" if whole.splits else "splits"
        raise LimnerError(
            f"{whole.name!r} has {len(whole.images)} images and no {lacking}: expected at least {FEWEST}, of which one "
            f"in {TEST_SHARE} is held out; give more images, or a model that was trained elsewhere"
        )
    order = np.random.default_rng(SEED).permutation(len(whole.images))
    cut = len(order) // TEST_SHARE
    seen, held = (whole.restrict(whole.images.ids[np.sort(rows)]) for rows in (order[cut:], order[:cut]))
    return seen, held


def outside(whole: Collection, held: Collection) -> Collection:
    """Every image that is not held out."""
    return whole.restrict([key for key in whole.images.ids if key not in held.images.ids])


def _without(parts: HoldOut, name: str, record: TrainedOn) -> HoldOut:
    """Leaves out the items that a saved model was trained on."""
    held = parts.held
    saw = record.saw(held)
    if not saw.any():
        return parts
    count, total = int(saw.sum()), len(held.images)
    if count == total:
        raise LimnerError(
            f"{name} was trained on all {total:,} images of {held.name!r}: evaluate it on others, choose a "
            f"split that it has not seen, or hold out some images when you train it (limner train ... "
            f"--hold-out)"
        )
    kept = held.restrict(held.images.ids[np.flatnonzero(~saw)], name=held.name)
    note = f"{name} was trained on {count:,} of the {total:,} images: measured on the {total - count:,} others"
    return replace(parts, held=kept, notes=(*parts.notes, note))


def dev_of(trainer: Callable[..., object], whole: Collection, held: Collection) -> dict[str, Collection]:
    """The dev split as an argument for a system that tunes its settings, unless the dev split is evaluated."""
    wanted = "dev" in inspect.signature(trainer).parameters and "dev" in whole.splits
    if not wanted or set(whole.dev.images.ids) & set(held.images.ids):
        return {}
    return {"dev": whole.dev}
