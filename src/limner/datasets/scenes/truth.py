"""Complete judgements: every meaning is evaluated on every scene, for all scenes at once.

The text of a caption is never used; `meaning.py` defines the semantics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from limner.core.arrays import IntArray
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.datasets.scenes.meaning import Entity, Meaning
from limner.datasets.scenes.scene import Scene
from limner.datasets.scenes.world import BACKGROUNDS, COLOURS, KINDS, PLACES, RELATIONS, SETTINGS, SIZES, kinds_of

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


def complete(images: Ids, scenes: Sequence[Scene], texts: Ids, meanings: Sequence[Meaning]) -> Judgements:
    """Judgements image -> text with every true pair, grade 1."""
    truth = SceneTruth(scenes)
    matching = {meaning: np.flatnonzero(truth.of(meaning)) for meaning in dict.fromkeys(meanings)}
    return _judgements(images, texts, [matching[m] for m in meanings], [], "complete")


def graded(images: Ids, scenes: Sequence[Scene], texts: Ids, meanings: Sequence[Meaning]) -> Judgements:
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
