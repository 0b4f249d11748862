"""The ground truth of an image: its objects, and the definitions of the spatial relations.

Each relation is a condition on the boxes and the places of two objects, defined in the function with its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

from limner.datasets.scenes.world import KINDS

Box = tuple[int, int, int, int]
Triple = tuple[int, str, int]

NEAR = 12
"""The largest gap, in pixels, between two objects that are next to each other."""


@dataclass(frozen=True)
class SceneObject:
    """One object of a scene; its box is the extent of the whole drawing, even if something covers part of it.

    Args:
        kind: Name of the kind.
        colour: One of `COLOURS`.
        size: One of `SIZES`, relative to the kind: a large ball may be smaller than a small house.
        box: Left, top, right, bottom in pixels; right and bottom are one past the last pixel.
        place: "ground", "air", "water", or "perch" when it is on another object.
        support: Position of the object it is on, among the objects of the scene.
        flip: Whether it is drawn facing left.
    """

    kind: str
    colour: str
    size: str
    box: Box
    place: str
    support: int | None = None
    flip: bool = False

    @property
    def synset(self) -> str:
        """WordNet 3.0 name of the kind."""
        return KINDS[self.kind].synset

    def as_dict(self) -> dict[str, object]:
        """The object as plain values, as in the field `objects` and the written JSON."""
        return {
            "synset": self.synset,
            "name": self.kind,
            "colour": self.colour,
            "size": self.size,
            "box": self.box,
            "place": self.place,
        }


@dataclass(frozen=True)
class Scene:
    """The ground truth of one image: everything that captions can mention and that drawing needs.

    Args:
        seed: Seed of the scenes.
        index: Number of the image.
        background: One of `BACKGROUNDS`.
        objects: The objects in drawing order, from far to near.
        horizon: Height of the horizon in pixels from the top.
        shore: Where the water ends and the ground begins (the horizon if there is no water).
    """

    seed: int
    index: int
    background: str
    objects: tuple[SceneObject, ...]
    horizon: int
    shore: int

    @cached_property
    def relations(self) -> tuple[Triple, ...]:
        """Every relation that holds between two objects, as (position, relation, position)."""
        return relations(self.objects)


def overlap(a: Box, b: Box) -> int:
    """The number of pixels that two boxes share."""
    if a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]:
        return 0
    return _shared(a, b, 0) * _shared(a, b, 1)


def area(box: Box) -> int:
    """Pixels in a box."""
    return (box[2] - box[0]) * (box[3] - box[1])


def left_of(a: SceneObject, b: SceneObject) -> bool:
    """The first is entirely to the left of the second."""
    return a.box[2] <= b.box[0]


def in_air_over(a: SceneObject, b: SceneObject) -> bool:
    """The first is in the air, entirely higher, and overlaps horizontally by a third of the narrower one's width."""
    narrower = min(a.box[2] - a.box[0], b.box[2] - b.box[0])
    return a.place == "air" and a.box[3] <= b.box[1] and 3 * _shared(a.box, b.box, 0) >= narrower


def in_front_of(a: SceneObject, b: SceneObject) -> bool:
    """Both are on the ground, the first is nearer to the viewer, and its box covers a tenth of the second's or more."""
    grounded = a.place == "ground" == b.place
    return grounded and a.box[3] > b.box[3] and 10 * overlap(a.box, b.box) >= area(b.box)


def next_to(a: SceneObject, b: SceneObject) -> bool:
    """Side by side in the same place: at most `NEAR` pixels apart, with an overlap of half the lower one's height."""
    gap = -_shared(a.box, b.box, 0)
    lower = min(a.box[3] - a.box[1], b.box[3] - b.box[1])
    level = a.place == b.place and a.support == b.support
    return level and 0 <= gap <= NEAR and 2 * _shared(a.box, b.box, 1) >= lower


def relations(objects: Sequence[SceneObject]) -> tuple[Triple, ...]:
    """Every relation that holds, with its converse; `on` and `under` follow from the support of an object."""
    triples: list[Triple] = []
    for i, j in permutations(range(len(objects)), 2):
        a, b = objects[i], objects[j]
        if left_of(a, b):
            triples += (i, "left of", j), (j, "right of", i)
        if in_air_over(a, b):
            triples += (i, "above", j), (j, "below", i)
        if in_front_of(a, b):
            triples += (i, "in front of", j), (j, "behind", i)
        if next_to(a, b):
            triples.append((i, "next to", j))
        if a.support == j:
            triples += (i, "on", j), (j, "under", i)
    return tuple(sorted(triples))


def _shared(a: Box, b: Box, axis: int) -> int:
    """The overlap of two boxes along an axis (0 across, 1 down); a negative number is the gap between them."""
    return min(a[axis + 2], b[axis + 2]) - max(a[axis], b[axis])
