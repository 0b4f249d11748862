"""Composed queries on the scenes: "the same, but the dog is red", with all answers known.

Images come in families: two objects side by side, in every combination of two backgrounds, two of three kinds, three
colours each, and both orders. An image answers a query if it has the background, the kinds and the colours of the
reference with the one change that the text describes; the positions of the objects do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import NamedTuple

from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.datasets.composed_queries import ComposedQueries, ComposedQuery
from limner.datasets.scenes import Drawing
from limner.datasets.scenes.dice import Dice
from limner.datasets.scenes.grammar import article
from limner.datasets.scenes.scene import Scene
from limner.datasets.scenes.scene_probes import side_by_side, standing_kinds
from limner.datasets.scenes.world import BACKGROUNDS, COLOURS, KINDS

STREAM = 4
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
    """Queries with three kinds of change, and the images of their families.

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
    families = [_Family(Dice(seed, number, STREAM)) for number in range(-(-queries // PER_FAMILY))]
    scenes = [scene for number, family in enumerate(families) for scene in family.scenes(seed, number)]
    ids = [f"composed-{number:05d}" for number in range(len(scenes))]
    having: dict[Content, list[str]] = {}
    for name, scene in zip(ids, scenes, strict=True):
        having.setdefault(Content.of(scene), []).append(name)
    listed = []
    for number in range(queries):
        family = families[number // PER_FAMILY]
        subset = CHANGES[number % len(CHANGES)]
        target, text, before = family.change(Dice(seed, number, STREAM + 1), subset)
        reference = Dice(seed, number, STREAM + 2).choose(having[before])
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
