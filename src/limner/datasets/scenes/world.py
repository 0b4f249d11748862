"""The vocabulary of the scenes (kinds of object, categories, colours, sizes, backgrounds, relations) and their dice.

Every kind and every category is a WordNet 3.0 synset, every word used for it is a lemma of that synset, and a
category contains exactly the kinds that have its synset among their hypernyms. So captions can be interpreted with
WordNet. `Dice` is the only source of randomness, the same on every machine and with every version of numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.random import PCG64, SeedSequence

SIDE = 160
"""Width and height of every image in pixels."""


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object.

    Args:
        name: The plain name, which is also the first of its words in captions.
        synset: WordNet 3.0 name, such as "dog.n.01".
        wnid: WordNet 3.0 offset, in the format of ImageNet.
        words: Lemmas of the synset that captions use.
        grid: Width and height of the drawing grid, with the aspect ratio of the drawn box.
        scale: Relative size in the drawing.
        places: Where it can be: "ground", "air" or "water".
        backgrounds: Backgrounds it can appear in.
        surface: For a kind that can carry others: left, right and height of its top surface, as shares of the box.
        perches: Whether it may be put on another object.
    """

    name: str
    synset: str
    wnid: str
    words: tuple[str, ...]
    grid: tuple[int, int]
    scale: float = 1.0
    places: tuple[str, ...] = ("ground",)
    backgrounds: tuple[str, ...] = ("beach", "meadow", "snow", "street", "room", "night")
    surface: tuple[float, float, float] | None = None
    perches: bool = False


@dataclass(frozen=True)
class Category:
    """A hypernym: a word for several kinds at once."""

    name: str
    synset: str
    words: tuple[str, ...]
    kinds: tuple[str, ...]


OUTDOORS = ("beach", "meadow", "snow", "street", "night")
WATERSIDE = ("beach", "meadow", "night")

_ANIMALS = (
    ObjectKind("dog", "dog.n.01", "n02084071", ("dog",), (120, 96), perches=True),
    ObjectKind("cat", "cat.n.01", "n02121620", ("cat",), (82, 100), perches=True),
    ObjectKind("rabbit", "rabbit.n.01", "n02324045", ("rabbit",), (70, 100), perches=True),
    ObjectKind("sheep", "sheep.n.01", "n02411705", ("sheep",), (112, 84), backgrounds=OUTDOORS),
    ObjectKind("bird", "bird.n.01", "n01503061", ("bird",), (104, 84), 0.9, ("air", "ground"), perches=True),
    ObjectKind("fish", "fish.n.01", "n02512053", ("fish",), (104, 60), 0.85, ("water",), WATERSIDE),
    ObjectKind("butterfly", "butterfly.n.01", "n02274259", ("butterfly",), (100, 84), 0.85, ("air",)),
)
_VEHICLES = (
    ObjectKind(
        "car",
        "car.n.01",
        "n02958343",
        ("car", "automobile", "auto"),
        (132, 72),
        1.15,
        backgrounds=OUTDOORS,
        surface=(0.3, 0.7, 0.0),
    ),
    ObjectKind(
        "truck", "truck.n.01", "n04490091", ("truck",), (132, 82), 1.2, backgrounds=OUTDOORS, surface=(0.03, 0.6, 0.0)
    ),
    ObjectKind("bicycle", "bicycle.n.01", "n02834778", ("bicycle", "bike"), (122, 80), 1.1),
    ObjectKind("boat", "boat.n.01", "n02858304", ("boat",), (110, 112), 1.1, ("water",), WATERSIDE),
    ObjectKind(
        "airplane", "airplane.n.01", "n02691156", ("airplane", "plane", "aeroplane"), (132, 72), 1.1, ("air",), OUTDOORS
    ),
)
_TOYS = (
    ObjectKind("ball", "ball.n.06", "n02779435", ("ball",), (70, 70), 0.75, perches=True),
    ObjectKind("kite", "kite.n.03", "n03621473", ("kite",), (80, 112), 1.0, ("air",), OUTDOORS),
    ObjectKind("balloon", "balloon.n.02", "n02782329", ("balloon",), (64, 112), 1.0, ("air",)),
    ObjectKind("teddy", "teddy.n.01", "n04399382", ("teddy bear", "teddy"), (88, 100), 0.95, perches=True),
)
_PLANTS = (
    ObjectKind("tree", "tree.n.01", "n13104059", ("tree",), (92, 120), 1.25, backgrounds=OUTDOORS),
    ObjectKind("flower", "flower.n.01", "n11669921", ("flower",), (60, 104), 0.95),
    ObjectKind("cactus", "cactus.n.01", "n11842204", ("cactus",), (80, 110), 1.0, perches=True),
)
_FURNITURE = (
    ObjectKind("chair", "chair.n.01", "n03001627", ("chair",), (64, 100), 1.1, surface=(0.1, 0.9, 0.55)),
    ObjectKind("table", "table.n.02", "n04379243", ("table",), (120, 72), 1.25, surface=(0.02, 0.98, 0.0)),
    ObjectKind("lamp", "lamp.n.02", "n03636649", ("lamp",), (64, 100), 1.0, perches=True),
)
_OTHERS = (
    ObjectKind("house", "house.n.01", "n03544360", ("house",), (112, 102), 1.3, backgrounds=OUTDOORS),
    ObjectKind("umbrella", "umbrella.n.01", "n04507155", ("umbrella",), (110, 104), 1.1),
)

KINDS: dict[str, ObjectKind] = {k.name: k for k in _ANIMALS + _VEHICLES + _TOYS + _PLANTS + _FURNITURE + _OTHERS}


def _names(kinds: tuple[ObjectKind, ...]) -> tuple[str, ...]:
    return tuple(k.name for k in kinds)


CATEGORIES: dict[str, Category] = {
    c.name: c
    for c in (
        Category("animal", "animal.n.01", ("animal", "creature"), _names(_ANIMALS)),
        Category("mammal", "mammal.n.01", ("mammal",), ("dog", "cat", "rabbit", "sheep")),
        Category("insect", "insect.n.01", ("insect",), ("butterfly",)),
        Category("vehicle", "vehicle.n.01", ("vehicle",), _names(_VEHICLES)),
        Category("motor vehicle", "motor_vehicle.n.01", ("motor vehicle",), ("car", "truck")),
        Category("toy", "plaything.n.01", ("toy", "plaything"), _names(_TOYS)),
        Category("plant", "plant.n.02", ("plant",), _names(_PLANTS)),
        Category("piece of furniture", "furniture.n.01", ("piece of furniture",), _names(_FURNITURE)),
        Category("building", "building.n.01", ("building",), ("house",)),
        Category("object", "object.n.01", ("object",), tuple(KINDS)),
    )
}

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white")
SIZES = ("small", "medium", "large")
PLACES = ("ground", "air", "water", "perch")
BACKGROUNDS = ("beach", "meadow", "snow", "street", "room", "night")

SETTINGS: dict[str, tuple[str, ...]] = {**{b: (b,) for b in BACKGROUNDS}, "outdoors": OUTDOORS}
"""Words for the background in captions, and the backgrounds that they describe."""

CONVERSE = {
    "left of": "right of",
    "right of": "left of",
    "above": "below",
    "below": "above",
    "in front of": "behind",
    "behind": "in front of",
    "next to": "next to",
    "on": "under",
    "under": "on",
}
RELATIONS = tuple(CONVERSE)


def kinds_of(noun: str) -> tuple[str, ...]:
    """The kinds that a noun of the vocabulary covers: one for a kind, several for a category.

    >>> kinds_of("plant")
    ('tree', 'flower', 'cactus')
    """
    return _KINDS_OF[noun]


_KINDS_OF = {**{name: (name,) for name in KINDS}, **{c.name: c.kinds for c in CATEGORIES.values()}}


T = TypeVar("T")

_BLOCK = 128


class Dice:
    """Random choices from the raw bits of PCG64, seeded by a tuple of numbers.

    numpy guarantees the raw bits of a bit generator, but not the results of `Generator.choice` and similar methods, so
    the choices here use the bits directly.

    >>> dice = Dice(0, 7)
    >>> dice.integer(10) == Dice(0, 7).integer(10)
    True
    """

    def __init__(self, *key: int) -> None:
        """Starts the random stream of this key; different keys give independent streams."""
        self._bits = PCG64(SeedSequence(key))
        self._block: list[float] = []

    def fraction(self) -> float:
        """A number in [0, 1)."""
        if not self._block:
            self._block = ((self._bits.random_raw(_BLOCK) >> np.uint64(11)) * 2.0**-53).tolist()
        return self._block.pop()

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.fraction() < probability

    def integer(self, stop: int) -> int:
        """A random integer from 0 to stop - 1."""
        return int(self.fraction() * stop)

    def between(self, low: float, high: float) -> int:
        """A random integer from low to high, inclusive; low for an empty range."""
        first, last = round(low), round(high)
        return first + self.integer(last - first + 1) if last > first else first

    def choose(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.integer(len(options))]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        """One of the options, with probability proportional to its weight."""
        left = self.fraction() * sum(weights)
        for option, weight in zip(options, weights, strict=True):
            left -= weight
            if left < 0:
                return option
        return options[-1]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in random order."""
        order = list(options)
        for last in range(len(order) - 1, 0, -1):
            swapped = self.integer(last + 1)
            order[last], order[swapped] = order[swapped], order[last]
        return order
