"""Served collections with their parts, and systems that are trained or loaded, to be opened on any of these."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from limner.core.cut_texts import collected
from limner.core.errors import LimnerError, UnknownName
from limner.encoders.contract import identity, scores_of_model
from limner.systems import SYSTEMS
from limner.systems.hold_out import Division, outside, part_of
from limner.systems.system_spec import OpenSystem, SystemSpec, divided
from limner.web.jobs import Job
from limner.web.kept_systems import NOTHING_KEPT, KeptSystems, Noted, data_key, model_key, system_key
from limner.web.search_request import ALL, HELD_OUT

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.web.jobs import Job


@dataclass(frozen=True, eq=False)
class Loaded:
    """A collection, divided so that training items are never evaluated.

    Args:
        whole: The collection.
        systems: The systems; all are compared on the same part.
    """

    whole: Collection
    systems: Sequence[SystemSpec] = ()
    _parts: dict[str, Collection] = field(default_factory=dict, repr=False)
    _keys: list[str | None] = field(default_factory=list, repr=False)
    _reading: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @cached_property
    def parts(self) -> Division:
        """Divided by the rule of `limner.systems.hold_out`; refused if there are too few images to train on."""
        return divided(self.whole, self.systems)

    @cached_property
    def evaluated(self) -> Collection:
        """The items to evaluate; pages without a system can show them too."""
        try:
            return self.parts.evaluated
        except LimnerError:
            if not any(system.is_trained_now for system in self.systems):
                raise
            return part_of(self.whole, None)

    @cached_property
    def training(self) -> Collection:
        """The other items: the training split, or the rest."""
        return outside(self.whole, self.evaluated) if self.parts.training is None else self.parts.training

    @property
    def divided(self) -> bool:
        """Whether there are images outside the evaluated part."""
        return len(self.evaluated.images) < len(self.whole.images)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of images of every part that can be searched."""
        held_out_size = {HELD_OUT: len(self.evaluated.images)} if self.divided else {}
        splits = {name: len(ids) for name, ids in self.whole.splits.items()}
        return {ALL: len(self.whole.images), **held_out_size, **splits}

    def part(self, name: str) -> Collection:
        """A part, computed once: `ALL`, a split, or `HELD_OUT` (also "")."""
        if name in ("", HELD_OUT):
            return self.evaluated
        if name not in self.sizes:
            raise UnknownName("split", name[:80], self.sizes)
        if name not in self._parts:
            self._parts[name] = part_of(self.whole, name)
        return self._parts[name]

    def data_key(self, job: Job) -> str | None:
        """See `limner.web.kept_systems.data_key`; read once."""
        with self._reading:
            if not self._keys:
                with job.stage(f"reading the images of {self.whole.name}") as progress:
                    self._keys.append(data_key(self.whole, progress))
            return self._keys[0]


@dataclass(frozen=True, eq=False)
class ReadySystem:
    """A system that is trained or loaded.

    Args:
        system: The system.
        loaded: The collection.
        kept: Where its vectors are kept.
        model: Its model; None if there are only scores.
        features: Image vectors, or their file, for a model that was trained on features.
        key: What it is made from; None if that cannot be told.
    """

    system: SystemSpec
    loaded: Loaded
    kept: KeptSystems
    model: object = None
    features: object = None
    key: str | None = None

    def on(self, split: str, job: Job) -> OpenSystem:
        """The system on a part of the collection; "all" are all images it has scores of."""
        part = self.loaded.part(split)
        parts = replace(self.loaded.parts, evaluated=part)
        if self.model is not None:
            training = parts.training if self.system.is_trained_now else None
            scores, notes = self._scores(part, job)
            notes = (*parts.notes, *self.system.notes, *notes)
            return OpenSystem(self.system.name, scores, part, self.model, training, notes)
        try:
            return self.system.on(parts, stage=job.stage)
        except LimnerError:
            held_out = self.system.on(self.loaded.parts, stage=job.stage)
            return held_out if split == ALL else held_out.on(part)  # refused, with the number of images it has

    def _scores(self, part: Collection, job: Job) -> Noted:
        def make() -> Noted:
            stage = job.stage(f"scoring {len(part.images):,} images with {self.system.name}")
            with collected() as cut, stage as progress:
                scores = scores_of_model(self.model, part, features=self.features, progress=progress)
            return scores, cut.notes

        return self.kept.scores(self.key, part, make)


def ready_system(
    system: SystemSpec, loaded: Loaded, job: Job, *, features: object = None, cache: KeptSystems = NOTHING_KEPT
) -> ReadySystem:
    """A system with its model, trained on the training items of a collection if none is kept."""
    own_features = features if features is not None and system.takes_features else None
    if system.has_only_scores:
        return ReadySystem(system, loaded, cache)
    parts = loaded.parts

    def trained() -> object:
        return system.trained(parts, features=own_features, stage=job.stage)

    if cache.folder is None:
        return ReadySystem(system, loaded, cache, trained(), own_features)
    if not system.is_trained_now:
        model = trained()
        key = model_key(identity(model), loaded.data_key(job), own_features)
        return ReadySystem(system, loaded, cache, model, own_features, key)
    key = system_key(recipe_of(system), loaded.data_key(job), parts, own_features)
    return ReadySystem(system, loaded, cache, cache.model(key, trained), own_features, key)


def recipe_of(system: SystemSpec) -> str | None:
    """What a system of limner that is trained now is made by: its name and its options.

    None if they do not tell: for own code, and for options that name files or encoders, which may change.
    """
    name, options = SYSTEMS.parsed(system.origin)
    if not SYSTEMS.find(name).__module__.startswith("limner."):
        return None
    identities = {key: identity(value) for key, value in system.options.items() if key != "cache"}
    if None in identities.values() or not all(isinstance(value, (bool, int, float)) for value in options.values()):
        return None
    return json.dumps([name, sorted(options.items()), sorted(identities.items())])
