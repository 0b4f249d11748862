"""The meaning of a caption, independent of its wording: entities, a relation between two of them, a setting.

Semantics. A meaning is true of a scene if the setting holds and there is a set of objects for every entity such that

- each object of the set fits the entity's description (kind, and colour, size, place where they are given);
- an *exact* entity ("two dogs", "one red ball") takes all objects of the scene that fit, and there are exactly
  `number` of them; any other entity ("a dog" 1, "some dogs" 2, "several dogs" 3) takes at least `number` of them;
- the sets of different entities share no object;
- every object of the first entity's set stands in the relation to every object of the second's.

A meaning does not exclude what it does not mention: "a dog" is true of a scene with three dogs, a cat and a car.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from limner.core.errors import LimnerError, UnknownName
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import CATEGORIES, COLOURS, KINDS, PLACES, RELATIONS, SETTINGS, SIZES, kinds_of

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
