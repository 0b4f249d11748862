"""One hold-out rule: a system is never searched or evaluated on its training items.

A system that is trained now uses the training split; without splits, it is trained on four images in five and the fifth
is held out. A saved model records its training items: everything else is searched and evaluated. Images and
captions are recorded as 8-byte hashes: they are small and do not reveal the training data.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.model_store import Content

if TYPE_CHECKING:
    from limner.core.collection import Collection
    # TRIM

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The training items of a model.

    Args:
        collection: Its name.
        images: Hashes of the ids of its images, sorted.
        texts: Hashes of its captions, sorted.
    """

    collection: str
    images: Hashes
    texts: Hashes

    @classmethod
    def of(cls, collection: Collection) -> TrainedOn:
        """The record of a training collection."""
        texts = np.unique(_hashed(collection.texts.values))
        return cls(collection.name, np.unique(_hashed(collection.images.ids)), texts)

    def joined(self, earlier: TrainedOn | None) -> TrainedOn:
        """The union of both records, for a model that was trained further on new items."""
        if earlier is None:
            return self
        images, texts = np.union1d(self.images, earlier.images), np.union1d(self.texts, earlier.texts)
        return TrainedOn(f"{earlier.collection} + {self.collection}", images, texts)

    def saw(self, collection: Collection) -> npt.NDArray[np.bool_]:
        """Which images of a collection were trained on.

        An id alone is not enough: two folders may both contain IMG_0001.jpg. An image is recognised by its id and one
        of its captions; without captions, by its id.
        """
        is_trained = np.isin(_hashed(collection.images.ids), self.images)
        if not is_trained.any():
            return is_trained
        pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        captions = np.isin(_hashed(collection.texts.values), self.texts)[pairs.columns]
        counts = np.bincount(pairs.rows, minlength=len(is_trained))
        shared = np.bincount(pairs.rows, weights=captions, minlength=len(is_trained))
        return np.asarray(is_trained & ((counts == 0) | (shared > 0)))

    def content(self) -> dict[str, object]:
        """The record as stored in a saved model."""
        counts = {"images": len(self.images), "texts": len(self.texts)}
        hashes = {"images": self.images.view(np.int64), "texts": self.texts.view(np.int64)}
        return {"collection": self.collection, **counts, "hashes": hashes}

    @classmethod
    def from_content(cls, content: Content | None) -> TrainedOn | None:
        """Reads what `content` wrote; None for a model without a record."""
        if content is None:
            return None
        images, texts = (np.asarray(content["hashes"][side]).view(np.uint64) for side in ("images", "texts"))
        return cls(str(content["collection"]), images, texts)


def _hashed(values: Iterable[str]) -> Hashes:
    digests = (hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in values)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def saved_record(record: TrainedOn | None) -> dict[str, object]:
    """The part of a saved model's content with its training items; empty if they are unknown."""
    return {} if record is None else {"trained_on": record.content()}


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
