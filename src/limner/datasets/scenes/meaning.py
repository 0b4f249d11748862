"""The meaning of a caption, independent of its wording, and the scenes it is true of.

A meaning has entities, a relation between two of them, and a setting.

Semantics. A meaning is true of a scene if the setting holds and there is a set of objects for every entity such that

- each object of the set fits the entity's description (kind, and colour, size, place where they are given);
- an *exact* entity ("two dogs", "one red ball") takes all objects of the scene that fit, and there are exactly
  `number` of them; any other entity ("a dog" 1, "some dogs" 2, "several dogs" 3) takes at least `number` of them;
- the sets of different entities share no object;
- every object of the first entity's set stands in the relation to every object of the second's.

A meaning does not exclude what it does not mention: "a dog" is true of a scene with three dogs, a cat and a car.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import (
    BACKGROUNDS,
    CATEGORIES,
    COLOURS,
    KINDS,
    PLACES,
    RELATIONS,
    SETTINGS,
    SIZES,
    kinds_of,
)

_KNOWN = {"noun": (*KINDS, *CATEGORIES), "colour": COLOURS, "size": SIZES, "place": PLACES}


@dataclass(frozen=True)
class Entity:
    """The meaning of a noun phrase: a description and a number.

    Args:
        noun: A kind or a category, such as "dog" or "animal".
        colour: One of `COLOURS`, or None if the text does not say.
        size: One of `SIZES`, or None.
        place: "air" or "water", or None.
        number: The count.
        exact: Whether there are exactly that many, rather than at least.

    >>> str(Entity("dog", colour="red", number=2, exact=True))
    '=2 red dog'
    """

    noun: str
    colour: str | None = None
    size: str | None = None
    place: str | None = None
    number: int = 1
    exact: bool = False

    def __post_init__(self) -> None:
        """Checks the words against the vocabulary."""
        for attribute, allowed in _KNOWN.items():
            value = getattr(self, attribute)
            if value not in allowed and (value is not None or attribute == "noun"):
                raise UnknownName(attribute, str(value), allowed, of="scenes")
        if self.number < 1:
            raise LimnerError(f"an entity needs a number of 1 or more; got {self.number}")

    def fits(self, item: SceneObject) -> bool:
        """Whether one object fits the description (ignoring the number)."""
        return (
            item.kind in kinds_of(self.noun)
            and self.colour in (None, item.colour)
            and self.size in (None, item.size)
            and self.place in (None, item.place)
        )

    def excludes(self, second_entity: Entity) -> bool:
        """Whether no object could fit both descriptions."""
        pairs = (self.colour, second_entity.colour), (self.size, second_entity.size), (self.place, second_entity.place)
        disjoint = set(kinds_of(self.noun)).isdisjoint(kinds_of(second_entity.noun))
        return disjoint or any(None not in pair and pair[0] != pair[1] for pair in pairs)

    @property
    def vague(self) -> bool:
        """Whether it describes little more than the noun: "a dog", "some toys"."""
        return not (self.colour or self.size or self.place or self.exact)

    def weaker(self) -> Iterator[Entity]:
        """Every entity with one detail removed: the colour, size, place or number."""
        if self.colour:
            yield replace(self, colour=None)
        if self.size:
            yield replace(self, size=None)
        if self.place:
            yield replace(self, place=None)
        if self.number > 1 or self.exact:
            yield replace(self, number=1, exact=False)

    def suits(self, count: int) -> bool:
        """Whether the number is correct if this many objects fit."""
        return count == self.number if self.exact else count >= self.number

    def __str__(self) -> str:
        """A formula: `=2` is exactly two, `>=1` at least one."""
        words = (f"{'=' if self.exact else '>='}{self.number}", self.size, self.colour, self.noun)
        return " ".join(w for w in words if w) + (f" in {self.place}" if self.place else "")


@dataclass(frozen=True)
class Meaning:
    """The meaning of a caption.

    Args:
        entities: One or more entities; no object may fit two of them.
        relation: One of `RELATIONS`, between the first entity and the second, or None.
        setting: A background or "outdoors", or None.

    >>> str(Meaning((Entity("cat"), Entity("table", colour="red")), "on", "room"))
    '>=1 cat on >=1 red table @ room'
    """

    entities: tuple[Entity, ...]
    relation: str | None = None
    setting: str | None = None

    def __post_init__(self) -> None:
        """Checks that the meaning is well defined."""
        if self.relation is not None and self.relation not in RELATIONS:
            raise UnknownName("relation", self.relation, RELATIONS, of="scenes")
        if self.setting is not None and self.setting not in SETTINGS:
            raise UnknownName("setting", self.setting, SETTINGS, of="scenes")
        if not self.entities or (self.relation and len(self.entities) != 2):
            expected = "two entities for a relation" if self.relation else "at least one entity"
            raise LimnerError(f"a meaning needs {expected}; got {len(self.entities)}")
        if not exclusive(self.entities):
            raise LimnerError(
                f"entities of one meaning must exclude each other, but an object could fit two of "
                f"[{', '.join(map(str, self.entities))}]: give them different kinds, colours or sizes"
            )
        if self.relation and all(e.number > 1 and not e.exact for e in self.entities):
            raise LimnerError(
                f"a relation between two groups of unknown number is not defined, got {self}: "
                "make one of them exact or a single object"
            )

    def true_of(self, scene: Scene) -> bool:
        """Whether this meaning is true of a scene; `SceneTruth` evaluates many at once."""
        sets = [[i for i, o in enumerate(scene.objects) if entity.fits(o)] for entity in self.entities]
        if self.setting and scene.background not in SETTINGS[self.setting]:
            return False
        if not all(entity.suits(len(rows)) for entity, rows in zip(self.entities, sets, strict=True)):
            return False
        return self.relation is None or self._related(scene, *sets)

    def _related(self, scene: Scene, subjects: list[int], objects: list[int]) -> bool:
        """Whether the relation holds between enough subjects and enough objects, for every pair of them."""
        holding = {(i, j) for i, relation, j in scene.relations if relation == self.relation}
        first, second = self.entities
        if second.exact or first.number == 1:
            return sum(sum((i, j) in holding for j in objects) >= second.number for i in subjects) >= first.number
        return sum(sum((i, j) in holding for i in subjects) >= first.number for j in objects) >= second.number

    def weaker(self) -> Iterator[Meaning]:
        """Every meaning with one detail removed: a colour, size, place, number, the relation or the setting."""
        if self.relation:
            yield replace(self, relation=None)
        if self.setting:
            yield replace(self, setting=None)
        for at, entity in enumerate(self.entities):
            for weakened in entity.weaker():
                entities = (*self.entities[:at], weakened, *self.entities[at + 1 :])
                if exclusive(entities):
                    yield replace(self, entities=entities)

    def as_dict(self) -> dict[str, object]:
        """The meaning as plain values, for JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Meaning:
        """A meaning from the plain values of `as_dict`."""
        return cls(tuple(Entity(**e) for e in values["entities"]), values["relation"], values["setting"])

    def __str__(self) -> str:
        """A formula."""
        joint = f" {self.relation} " if self.relation else " & "
        return joint.join(map(str, self.entities)) + (f" @ {self.setting}" if self.setting else "")


def exclusive(entities: tuple[Entity, ...]) -> bool:
    """Whether no object could fit two of the entities."""
    return all(a.excludes(b) for at, a in enumerate(entities) for b in entities[at + 1 :])


Mask = npt.NDArray[np.bool_]


class SceneTruth:
    """The objects and relations of many scenes as columns, and the evaluation of meanings on them.

    Args:
        scenes: The scenes.
    """

    def __init__(self, scenes: Sequence[Scene]) -> None:
        """Puts all objects of all scenes into one table."""
        objects = [o for scene in scenes for o in scene.objects]
        counts = [len(scene.objects) for scene in scenes]
        self.size = len(scenes)
        self._scene = np.repeat(np.arange(self.size), counts)
        self._columns = {
            "noun": _codes((o.kind for o in objects), tuple(KINDS)),
            "colour": _codes((o.colour for o in objects), COLOURS),
            "size": _codes((o.size for o in objects), SIZES),
            "place": _codes((o.place for o in objects), PLACES),
        }
        self._background = _codes((scene.background for scene in scenes), BACKGROUNDS)
        self._pairs = _related(scenes, np.cumsum([0, *counts]))
        self._fits = lru_cache(maxsize=None)(self._find_fits)
        self._suits = lru_cache(maxsize=None)(self._find_suits)

    def of(self, meaning: Meaning) -> Mask:
        """For every scene, whether the meaning is true of it."""
        true = np.ones(self.size, dtype=bool)
        if meaning.setting:
            true &= _among(SETTINGS[meaning.setting], BACKGROUNDS)[self._background]
        for entity in meaning.entities:
            true &= self._suits(entity)
        return true & self._in_relation(meaning) if meaning.relation and true.any() else true

    def _find_fits(self, *description: str | None) -> Mask:
        """For every object, whether it fits a description (noun, colour, size, place)."""
        noun, colour, size, place = description
        fits = _among(kinds_of(str(noun)), tuple(KINDS))[self._columns["noun"]]
        for name, value, names in (("colour", colour, COLOURS), ("size", size, SIZES), ("place", place, PLACES)):
            if value is not None:
                fits &= self._columns[name] == names.index(value)
        return fits

    def _find_suits(self, entity: Entity) -> Mask:
        """For every scene, whether the right number of objects fits the entity."""
        count = np.bincount(self._scene[self._fits(*_description(entity))], minlength=self.size)
        return count == entity.number if entity.exact else count >= entity.number

    def _in_relation(self, meaning: Meaning) -> Mask:
        """For every scene, whether the relation holds between enough subjects and objects, for every pair of them.

        Assumes that both numbers of objects are correct, so that "exactly n" and "at least n" are equivalent.
        """
        first, second = meaning.entities
        subjects, objects = self._pairs[str(meaning.relation)]
        in_relation = self._fits(*_description(first))[subjects] & self._fits(*_description(second))[objects]
        if second.exact or first.number == 1:
            return self._enough(subjects[in_relation], second.number, first.number)
        return self._enough(objects[in_relation], first.number, second.number)

    def _enough(self, object_rows: IntArray, partners: int, number: int) -> Mask:
        """For every scene, whether at least `number` things occur at least `partners` times."""
        often = np.bincount(object_rows, minlength=len(self._scene)) >= partners
        return np.bincount(self._scene[often], minlength=self.size) >= number


def complete_judgements(images: Ids, scenes: Sequence[Scene], texts: Ids, meanings: Sequence[Meaning]) -> Judgements:
    """Judgements image -> text with every true pair, grade 1."""
    truth = SceneTruth(scenes)
    matching = {meaning: np.flatnonzero(truth.of(meaning)) for meaning in dict.fromkeys(meanings)}
    return _judgements(images, texts, [matching[m] for m in meanings], [], "complete")


def graded_judgements(images: Ids, scenes: Sequence[Scene], texts: Ids, meanings: Sequence[Meaning]) -> Judgements:
    """Judgements image -> text with grade 1 for a true pair and 0.5 if exactly one detail of the text is wrong."""
    truth = SceneTruth(scenes)
    of = lru_cache(maxsize=None)(truth.of)
    full, half = [], []
    for meaning in meanings:
        true, nearly = of(meaning), np.zeros(truth.size, dtype=bool)
        for weaker in meaning.weaker():
            nearly |= of(weaker)
        full.append(np.flatnonzero(true))
        half.append(np.flatnonzero(nearly & ~true))
    return _judgements(images, texts, full, half, "graded")


def _judgements(images: Ids, texts: Ids, full: list[IntArray], half: list[IntArray], name: str) -> Judgements:
    """Judgements from the images with grade 1 and with grade 0.5 of each text."""
    lists = full + half
    rows = np.concatenate([*lists, np.zeros(0, dtype=np.int64)]).astype(np.int64)
    columns = np.repeat([*range(len(full)), *range(len(half))], [len(f) for f in lists]).astype(np.int64)
    grades = np.repeat([1.0, 0.5], [sum(map(len, full)), sum(map(len, half))])
    return Judgements(images, texts, rows, columns, grades, name)


def _description(entity: Entity) -> tuple[str | None, ...]:
    return entity.noun, entity.colour, entity.size, entity.place


def _among(chosen: Sequence[str], names: Sequence[str]) -> Mask:
    """For every name, whether it is among the chosen ones."""
    return np.array([name in chosen for name in names])


def _codes(values: Iterable[str], names: Sequence[str]) -> IntArray:
    number = {name: at for at, name in enumerate(names)}
    return np.fromiter((number[value] for value in values), dtype=np.int64)


def _related(scenes: Sequence[Scene], starts: IntArray) -> dict[str, tuple[IntArray, IntArray]]:
    """For every relation, the table rows of the pairs of objects for which it holds."""
    pairs: dict[str, list[tuple[int, int]]] = {relation: [] for relation in RELATIONS}
    for scene, start in zip(scenes, starts.tolist(), strict=False):
        for subject, relation, object_number in scene.relations:
            pairs[relation].append((start + subject, start + object_number))
    table = {relation: np.array(rows, dtype=np.int64).reshape(-1, 2) for relation, rows in pairs.items()}
    return {relation: (rows[:, 0], rows[:, 1]) for relation, rows in table.items()}
