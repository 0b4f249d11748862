"""Probe cases from the scenes: two captions with the same words in swapped roles, and their two images.

"A red dog and a blue cup" and "a blue dog and a red cup"; "a dog to the left of a cup" and "a cup to the left of a
dog". A system that reads captions as bags of words cannot tell them apart.
"""

from __future__ import annotations

from limner.core.errors import LimnerError
from limner.datasets.probe_files import Probe, ProbeCase
from limner.datasets.scenes import Drawing
from limner.datasets.scenes.dice import Dice
from limner.datasets.scenes.grammar import article
from limner.datasets.scenes.layout import extent
from limner.datasets.scenes.meaning import Entity, Meaning
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import BACKGROUNDS, COLOURS, KINDS, SIDE, WATERSIDE, ObjectKind

STREAM = 3
SUBSETS = ("colours", "places")
_GROUND, _WIDEST, _TALLEST = 140, 66, 80
_HORIZON, _WATER = 66, 32


def scenes_probe(cases: int = 200, *, seed: int = 0) -> Probe:
    """Cases of two images and two captions, half with swapped colours and half with swapped positions.

    Args:
        cases: Number of cases.
        seed: Seed of the scenes.

    >>> made = scenes_probe(2)
    >>> [sorted(made.cases[0].right[0].split()) == sorted(made.cases[0].right[1].split()), len(made.pictures)]
    [True, 4]
    """
    if cases < 1:
        raise LimnerError(f"a probe needs at least one case; got cases={cases}")
    drawn: list[ProbeCase] = []
    images: dict[str, Drawing] = {}
    for number in range(cases):
        subset = SUBSETS[number % 2]
        scenes, texts = _drawn(Dice(seed, number, STREAM), subset, seed, number)
        names = tuple(f"probe-{number:05d}-{side}" for side in (0, 1))
        drawn.append(ProbeCase(f"{number:05d}", subset, names, texts))
        images |= {name: Drawing(scene) for name, scene in zip(names, scenes, strict=True)}
    return Probe("scenes", tuple(drawn), images)


def meanings(dice: Dice, subset: str) -> tuple[list[ObjectKind], list[str], str, tuple[Meaning, Meaning]]:
    """Two kinds, two colours, a background, and the two meanings."""
    background = dice.choose(BACKGROUNDS)
    fit = [kind for kind in standing_kinds() if background in kind.backgrounds]
    kinds, colours = dice.shuffled(fit)[:2], dice.shuffled(COLOURS)[:2]
    first, second = (Entity(kind.name) for kind in kinds)
    if subset == "places":
        swapped = Meaning((first, second), "left of"), Meaning((second, first), "left of")
    else:
        names = [kind.name for kind in kinds]
        swapped = tuple(  # type: ignore[assignment]  # two of them
            Meaning(tuple(Entity(name, colour=colour) for name, colour in zip(names, palette, strict=True)))
            for palette in (colours, colours[::-1])
        )
    return kinds, colours, background, swapped


def standing_kinds() -> list[ObjectKind]:
    """The kinds that stand on the ground and leave room for another object."""
    sizes = {kind: extent(kind, "medium") for kind in KINDS.values() if "ground" in kind.places}
    return [kind for kind, (width, height) in sizes.items() if width <= _WIDEST and height <= _TALLEST]


def _drawn(dice: Dice, subset: str, seed: int, number: int) -> tuple[list[Scene], tuple[str, str]]:
    kinds, colours, background, pair = meanings(dice, subset)
    orders = ([0, 1], [1, 0]) if subset == "places" else ([0, 1], [0, 1])
    paints = (colours, colours) if subset == "places" else (colours, colours[::-1])
    scenes = [
        side_by_side(background, [kinds[k] for k in order], [paint[k] for k in order], seed, 2 * number + side)
        for side, (order, paint) in enumerate(zip(orders, paints, strict=True))
    ]
    return scenes, (_sentence(pair[0]), _sentence(pair[1]))


def side_by_side(background: str, kinds: list[ObjectKind], colours: list[str], seed: int, index: int) -> Scene:
    """Two objects side by side on the ground."""
    objects = []
    for at, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
        width, height = extent(kind, "medium")
        middle = SIDE // 4 + at * SIDE // 2
        box = (middle - width // 2, _GROUND - height, middle - width // 2 + width, _GROUND)
        objects.append(SceneObject(kind.name, colour, "medium", box, "ground"))
    shore = _HORIZON + (_WATER if background in WATERSIDE else 0)
    return Scene(seed, index, background, tuple(objects), _HORIZON, shore)


def _sentence(meaning: Meaning) -> str:
    """Always the same sentence form, so that two captions differ only in the order of their words."""
    phrases = [f"{e.colour} {e.noun}" if e.colour else e.noun for e in meaning.entities]
    joint = " to the left of " if meaning.relation else " and "
    return joint.join(f"{article(phrase)} {phrase}" for phrase in phrases)
