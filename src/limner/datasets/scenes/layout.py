"""Composes a scene: its objects and their positions. All randomness comes from (seed, index)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from limner.datasets.scenes.scene import Box, Scene, SceneObject, area, overlap
from limner.datasets.scenes.world import BACKGROUNDS, COLOURS, KINDS, SIDE, SIZES, WATERSIDE, Dice, ObjectKind

LAYOUT, CAPTIONS, BACKDROP = 0, 1, 2
"""Independent random streams, so that captions, layout and background do not affect each other."""

MOST_OBJECTS = 9
LENGTHS = {"small": 20.0, "medium": 32.0, "large": 50.0}
"""The longer side of an object of scale 1, in pixels."""

_EDGE = 3
_TRIES = 30
_COUNTS = ((1, 2, 3, 4, 5), (0.42, 0.2, 0.16, 0.12, 0.1))
_SIZE_WEIGHTS = {
    1: (0.3, 0.35, 0.35),
    2: (0.35, 0.35, 0.3),
    3: (0.4, 0.45, 0.15),
    4: (0.55, 0.45, 0.0),
    5: (0.65, 0.35, 0.0),
}


@dataclass(frozen=True)
class _Member:
    """An object that is not placed yet."""

    kind: ObjectKind
    colour: str
    size: str
    width: int
    height: int
    flip: bool


def compose(seed: int, index: int) -> Scene:
    """Composes image number `index` for this seed, independently of all other images."""
    dice = Dice(seed, index, LAYOUT)
    stage = _Stage(dice, dice.choose(BACKGROUNDS))
    for kind in _kinds(dice, stage.background):
        room = MOST_OBJECTS - len(stage.objects)
        stage.place(_group(dice, kind, min(dice.weighted(*_COUNTS), room)))
    return stage.scene(seed, index)


def _kinds(dice: Dice, background: str) -> list[ObjectKind]:
    """One to three different kinds that can appear in this background."""
    count = dice.weighted((1, 2, 3), (0.15, 0.5, 0.35))
    possible = [k for k in KINDS.values() if background in k.backgrounds]
    # Water kinds have few backgrounds; counting them twice there keeps all kinds about equally common.
    possible += [k for k in possible if "water" in k.places]
    chosen: dict[str, ObjectKind] = {}
    while len(chosen) < count:
        kind = dice.choose(possible)
        chosen[kind.name] = kind
    # Kinds that can carry others come first, so that the others can be put on them.
    return sorted(chosen.values(), key=lambda kind: kind.surface is None)


def _group(dice: Dice, kind: ObjectKind, count: int) -> list[_Member]:
    """The objects of one kind: mostly of one colour and one size."""
    colour, size = dice.choose(COLOURS), dice.weighted(SIZES, _SIZE_WEIGHTS[max(count, 1)])
    mixed_colours, mixed_sizes = dice.chance(0.25), dice.chance(0.15)
    members = []
    for _ in range(count):
        own_colour = dice.choose(COLOURS) if mixed_colours else colour
        own_size = dice.weighted(SIZES, _SIZE_WEIGHTS[count]) if mixed_sizes else size
        width, height = extent(kind, own_size, stretch=dice.choose((0.93, 1.0, 1.07)))
        members.append(_Member(kind, own_colour, own_size, width, height, dice.chance(0.5)))
    return members


def extent(kind: ObjectKind, size: str, *, stretch: float = 1.0) -> tuple[int, int]:
    """Width and height in pixels of an object of this kind and size."""
    longer = LENGTHS[size] * kind.scale * stretch / max(kind.grid)
    return round(kind.grid[0] * longer), round(kind.grid[1] * longer)


class _Stage:
    """A scene under construction."""

    def __init__(self, dice: Dice, background: str) -> None:
        self.dice = dice
        self.background = background
        self.horizon = dice.between(60, 72)
        self.shore = self.horizon + (dice.between(28, 36) if background in WATERSIDE else 0)
        self.objects: list[SceneObject] = []

    def place(self, members: list[_Member]) -> None:
        """Places a group near, on, in front of or above existing objects; objects that do not fit are left out."""
        if not members:
            return
        kind, dice = members[0].kind, self.dice
        place = dice.choose(kind.places)
        target = self._target(kind)
        arrangement = self._arrangement(kind, place, target)
        anchor: Box | None = None
        for position, member in enumerate(members):
            following = arrangement in ("on", "above") or position == 0
            placed = self._try(member, place, arrangement if following else "free", target, anchor)
            if placed:
                self.objects.append(placed)
                anchor = anchor or placed.box

    def _target(self, kind: ObjectKind) -> int | None:
        """An object to place a group next to, if possible one that can carry it."""
        carrying = [i for i, o in enumerate(self.objects) if kind.perches and KINDS[o.kind].surface]
        if not self.objects or self.dice.chance(0.3):
            return None
        return self.dice.choose(carrying or range(len(self.objects)))

    def _arrangement(self, kind: ObjectKind, place: str, target: int | None) -> str:
        """How a group is placed relative to an existing object."""
        if target is None:
            return "free"
        neighbour = self.objects[target]
        if kind.perches and KINDS[neighbour.kind].surface and self.dice.chance(0.8):
            return "on"
        if place == "air" and neighbour.place != "air":
            return "above"
        if place == "ground" == neighbour.place:
            return self.dice.choose(("in front", "beside"))
        return "beside" if place == neighbour.place else "free"

    def _try(
        self, member: _Member, place: str, arrangement: str, target: int | None, anchor: Box | None
    ) -> SceneObject | None:
        """Places one object at a free position; None after `_TRIES` attempts."""
        for _ in range(_TRIES):
            if arrangement == "free" or target is None:
                corner, touching = self._free(member, place, anchor), None
            else:
                corner = self._by(member, self.objects[target], arrangement)
                touching = target if arrangement in ("on", "in front") else None
            box = (*corner, corner[0] + member.width, corner[1] + member.height)
            if self._fits(box, place, arrangement, touching):
                perch = target if arrangement == "on" else None
                zone = "perch" if arrangement == "on" else place
                return SceneObject(member.kind.name, member.colour, member.size, box, zone, perch, member.flip)
        return None

    def _free(self, member: _Member, place: str, anchor: Box | None) -> tuple[int, int]:
        """A corner anywhere in the zone of this place, near the anchor if there is one."""
        low, high = self._bottoms(place, member.height)
        left, right = _EDGE, SIDE - _EDGE - member.width
        if anchor and self.dice.chance(0.8):
            left, right = max(left, anchor[0] - 55), min(right, anchor[0] + 55)
            low, high = max(low, anchor[3] - 24), min(high, anchor[3] + 24)
        return self.dice.between(left, right), self.dice.between(low, high) - member.height

    def _by(self, member: _Member, target: SceneObject, arrangement: str) -> tuple[int, int]:
        """A corner on, in front of, above or beside an object."""
        dice, width, height, target_box = self.dice, member.width, member.height, target.box
        if arrangement == "on":
            first, last, face = KINDS[target.kind].surface or (0.0, 1.0, 0.0)
            across, down = target_box[2] - target_box[0], target_box[3] - target_box[1]
            x = dice.between(target_box[0] + first * across - width / 5, target_box[0] + last * across - width * 4 / 5)
            return x, target_box[1] + round(face * down) + 1 - height
        if arrangement == "in front":
            x = dice.between(target_box[0] - width * 0.7, target_box[2] - width * 0.3)
            return x, target_box[3] + dice.between(3, 16) - height
        if arrangement == "above":
            x = dice.between(target_box[0] - width / 2, target_box[2] - width / 2)
            return x, dice.between(_EDGE, min(target_box[1] - 2, self.horizon + 4) - height)
        gap = dice.between(2, 10)
        x = target_box[0] - gap - width if dice.chance(0.5) else target_box[2] + gap
        return x, target_box[3] + dice.between(-4, 4) - height

    def _bottoms(self, place: str, height: int) -> tuple[int, int]:
        """The highest and lowest position for the bottom of an object."""
        if place == "air":
            return _EDGE + height, max(_EDGE + height, self.horizon + 4)
        if place == "water":
            return min(self.horizon + min(height, 24) + 1, self.shore - 1), self.shore - 1
        return self.shore + 16, SIDE - _EDGE

    def _fits(self, box: Box, place: str, arrangement: str, touching: int | None) -> bool:
        """Whether a box lies in the image and its zone, and covers nothing except part of the object behind it."""
        if box[0] < 1 or box[1] < 1 or box[2] >= SIDE or box[3] >= SIDE:
            return False
        low, high = self._bottoms(place, box[3] - box[1])
        if arrangement != "on" and not low <= box[3] <= high:
            return False
        wide = (box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1)
        if any(overlap(wide, o.box) for position, o in enumerate(self.objects) if position != touching):
            return False
        return touching is None or self._shows(self.objects[touching].box, box, arrangement)

    def _shows(self, behind: Box, box: Box, arrangement: str) -> bool:
        """Whether an object stays visible enough behind or below another."""
        hidden = overlap(box, behind) / area(behind)
        if arrangement == "on":
            return hidden <= 0.35 and box[2] - box[0] <= behind[2] - behind[0]
        return 0.12 <= hidden <= 0.4

    def scene(self, seed: int, index: int) -> Scene:
        """The finished scene with objects sorted from far to near; an object on another is drawn right after it."""
        order = sorted(range(len(self.objects)), key=self._depth)
        moved = {old: new for new, old in enumerate(order)}
        objects = (self.objects[old] for old in order)
        return Scene(seed, index, self.background, _renumbered(objects, moved), self.horizon, self.shore)

    def _depth(self, position: int) -> tuple[int, int, int]:
        item = self.objects[position]
        if item.support is not None:
            return self.objects[item.support].box[3], 1, position
        return (0 if item.place == "air" else item.box[3]), 0, position


def _renumbered(objects: Iterable[SceneObject], moved: dict[int, int]) -> tuple[SceneObject, ...]:
    return tuple(o if o.support is None else replace(o, support=moved[o.support]) for o in objects)
