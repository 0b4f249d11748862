"""Probe cases and composed queries from the scenes.

A probe case has two captions with the same words in swapped roles, and their two images:

"A red dog and a blue cup" and "a blue dog and a red cup"; "a dog to the left of a cup" and "a cup to the left of a
dog". A system that reads captions as bags of words cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.datasets.composed_queries import ComposedQueries, ComposedQuery
from limner.datasets.probe_files import Probe, ProbeCase
from limner.datasets.scenes import Drawing
from limner.datasets.scenes.grammar import article
from limner.datasets.scenes.layout import extent
from limner.datasets.scenes.meaning import Entity, Meaning
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import BACKGROUNDS, COLOURS, KINDS, SIDE, WATERSIDE, Dice, ObjectKind

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


CHANGE_STREAM = 4
CHANGES = ("colour", "object", "background")
PER_FAMILY = 30
"""Queries of a family, at most."""
_WHERE = {
    "beach": "on a beach",
    "meadow": "on a meadow",
    "snow": "in the snow",
    "street": "on a street",
    "room": "in a room",
    "night": "at night",
}


class Content(NamedTuple):
    """The content that an answer must have: the background, and each kind with its colour."""

    background: str
    things: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, scene: Scene) -> Content:
        """The content of a scene."""
        return cls(scene.background, frozenset((each.kind, each.colour) for each in scene.objects))

    def but(self, old: tuple[str, str], new: tuple[str, str]) -> Content:
        """The same content with one object replaced."""
        return Content(self.background, self.things - {old} | {new})


def scenes_composed(queries: int = 120, *, seed: int = 0) -> ComposedQueries:
    """Composed queries, "the same, but the dog is red", with all answers known, and the images of their families.

    Images come in families: two objects side by side, in every combination of two backgrounds, two of three kinds,
    three colours each, and both orders. An image answers a query if it has the background, the kinds and the colours of
    the reference with the one change that the text describes; the positions of the objects do not matter.

    Args:
        queries: Number of queries; a family of 108 images is drawn for every 30.
        seed: Seed of the scenes.

    >>> made = scenes_composed(3)
    >>> [query.subset for query in made.queries], len(made.images), {len(query.answers) for query in made.queries}
    (['colour', 'object', 'background'], 108, {2})
    """
    if queries < 1:
        raise LimnerError(f"expected at least one query; got queries={queries}")
    if seed < 0:
        raise LimnerError(f"the seed of scenes must be 0 or above; got seed={seed}")
    families = [_Family(Dice(seed, number, CHANGE_STREAM)) for number in range(-(-queries // PER_FAMILY))]
    scenes = [scene for number, family in enumerate(families) for scene in family.scenes(seed, number)]
    ids = [f"composed-{number:05d}" for number in range(len(scenes))]
    having: dict[Content, list[str]] = {}
    for name, scene in zip(ids, scenes, strict=True):
        having.setdefault(Content.of(scene), []).append(name)
    listed = []
    for number in range(queries):
        family = families[number // PER_FAMILY]
        subset = CHANGES[number % len(CHANGES)]
        target, text, before = family.change(Dice(seed, number, CHANGE_STREAM + 1), subset)
        reference = Dice(seed, number, CHANGE_STREAM + 2).choose(having[before])
        listed.append(ComposedQuery(f"{number:05d}", reference, text, tuple(having[target]), subset=subset))
    images = Items(Ids(ids, what="image"), [Drawing(scene) for scene in scenes], {"scene": scenes}, kind="image")
    return ComposedQueries("scenes", tuple(listed), images, complete=True)


class _Family:
    """Two backgrounds, three kinds that fit both, and three colours."""

    def __init__(self, dice: Dice) -> None:
        self.backgrounds = dice.shuffled(BACKGROUNDS)[:2]
        fit = [kind for kind in standing_kinds() if all(b in kind.backgrounds for b in self.backgrounds)]
        self.kinds = [kind.name for kind in dice.shuffled(fit)[:3]]
        self.colours = dice.shuffled(COLOURS)[:3]

    def scenes(self, seed: int, number: int) -> Iterator[Scene]:
        """Every combination, in both orders."""
        every = product(self.backgrounds, combinations(self.kinds, 2), product(self.colours, repeat=2), (1, -1))
        for at, (background, kinds, colours, step) in enumerate(every):
            chosen = [KINDS[kind] for kind in kinds[::step]]
            yield side_by_side(background, chosen, list(colours[::step]), seed, 1000 * number + at)

    def change(self, dice: Dice, subset: str) -> tuple[Content, str, Content]:
        """The wanted content, the text that asks for it, and the content of the reference."""
        first, second, third = dice.shuffled(self.kinds)
        paint, second_colour = dice.shuffled(self.colours)[:2]
        background, second_background = dice.shuffled(self.backgrounds)
        before = Content(background, frozenset({(first, paint), (second, dice.choose(self.colours))}))
        if subset == "colour":
            return (
                before.but((first, paint), (first, second_colour)),
                f"the same, but the {_word(first)} is {second_colour}",
                before,
            )
        if subset == "object":
            phrase = f"{article(second_colour)} {second_colour} {_word(third)}"
            after = before.but((first, paint), (third, second_colour))
            return after, f"the same, but with {phrase} instead of the {_word(first)}", before
        return Content(second_background, before.things), f"the same, but {_WHERE[second_background]}", before


def _word(kind: str) -> object:
    return KINDS[kind].words[0]
