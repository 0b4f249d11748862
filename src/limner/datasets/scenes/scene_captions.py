"""Captions of a scene: partial descriptions that are true of it, and their sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from limner.datasets.scenes.dice import Dice
from limner.datasets.scenes.grammar import sentence
from limner.datasets.scenes.layout import CAPTIONS
from limner.datasets.scenes.meaning import Entity, Meaning, exclusive
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import CATEGORIES

_SALIENCE = {"on": 6.0, "under": 2.0, "in front of": 5.0, "behind": 3.0, "above": 3.0, "below": 2.0, "next to": 3.0}
"""The weight of each relation if several hold; left and right nearly always hold and are least informative."""


def captions(scene: Scene, *, count: int = 5) -> list[tuple[str, Meaning]]:
    """Captions for a scene, all with different meanings; the same (seed, index) gives the same captions."""
    dice = Dice(scene.seed, scene.index, CAPTIONS)
    sentences: dict[Meaning, str] = {}
    while len(sentences) < count:
        meaning = plan(scene, dice)
        if meaning not in sentences:
            sentences[meaning] = sentence(meaning, dice)
    return [(text, meaning) for meaning, text in sentences.items()]


def plan(scene: Scene, dice: Dice) -> Meaning:
    """A meaning that is true of the scene: a relation between two things, or a list of up to three."""
    meaning = _relating(scene, dice) if dice.chance(0.45) else None
    meaning = meaning or Meaning(_entities(scene, dice))
    bare = len(meaning.entities) == 1 and meaning.entities[0].vague
    return replace(meaning, setting=_setting(scene, dice)) if bare or dice.chance(0.3) else meaning


def _entities(scene: Scene, dice: Dice) -> tuple[Entity, ...]:
    """One to three entities that cannot refer to the same object."""
    count = dice.weighted((1, 2, 3), (0.4, 0.45, 0.15))
    entities: tuple[Entity, ...] = ()
    for item in dice.shuffled(scene.objects):
        entity = _describe(scene, item, dice)
        if exclusive((*entities, entity)):
            entities += (entity,)
        if len(entities) == count:
            break
    return entities


def _relating(scene: Scene, dice: Dice) -> Meaning | None:
    """A relation between objects of different kinds that the two descriptions allow, if there is one."""
    kinds = [item.kind for item in scene.objects]
    triples = [(i, relation, j) for i, relation, j in scene.relations if kinds[i] != kinds[j]]
    names = sorted({relation for _, relation, _ in triples})
    if not names:
        return None
    relation = dice.weighted(names, [_SALIENCE.get(name, 1.0) for name in names])
    i, _, j = dice.choose([triple for triple in triples if triple[1] == relation])
    first, second = (_describe(scene, scene.objects[at], dice) for at in (i, j))
    if not first.excludes(second):
        return None
    return next(m for m in _relation_meanings(first, second, relation) if m.true_of(scene))


def _relation_meanings(first: Entity, second: Entity, relation: str) -> Iterator[Meaning]:
    """Versions of the relation that say less and less about numbers: all dogs, a dog, ..."""
    one, second_entity = (replace(entity, number=1, exact=False) for entity in (first, second))
    for pair in ((first, second), (one, second), (first, second_entity), (one, second_entity)):
        if any(entity.number == 1 or entity.exact for entity in pair):
            yield Meaning(pair, relation)


def _describe(scene: Scene, item: SceneObject, dice: Dice) -> Entity:
    """A partial description of an object, and the number of objects in the scene that it fits."""
    noun = _category(item.kind, dice) if dice.chance(0.25) else item.kind
    colour = item.colour if noun == "object" or dice.chance(0.4) else None
    size = item.size if dice.chance(0.05 if item.size == "medium" else 0.2) else None
    place = item.place if item.place in ("air", "water") and dice.chance(0.12) else None
    fits = Entity(noun, colour, size, place).fits
    return Entity(noun, colour, size, place, *_number(sum(map(fits, scene.objects)), dice))


def _category(kind: str, dice: Dice) -> str:
    """A hypernym of a kind; "object" fits everything and is rarely used."""
    names = [c.name for c in CATEGORIES.values() if kind in c.kinds]
    return dice.weighted(names, [0.15 if name == "object" else 1.0 for name in names])


def _number(count: int, dice: Dice) -> tuple[int, bool]:
    """A number, and whether it is exact, such that the phrase is true of `count` objects."""
    if count == 1:
        return 1, dice.chance(0.1)
    options = [(2, False, 0.25)]
    if count >= 3:
        options.append((3, False, 0.3))
    if count <= 5:
        options.append((count, True, 0.6))
    number, exact, _ = dice.weighted(options, [weight for *_, weight in options])
    return number, exact


def _setting(scene: Scene, dice: Dice) -> str:
    """The background, or a vaguer word for it."""
    return "outdoors" if scene.background != "room" and dice.chance(0.12) else scene.background
