"""Systems that are trained or loaded, to be opened on any part of a collection."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from limner.core.cut_texts import collected
from limner.core.errors import LimnerError
from limner.encoders.contract import identity, scores_of_model
from limner.systems import SYSTEMS
from limner.systems.system_spec import OpenSystem, SystemSpec
from limner.web.jobs import Job
from limner.web.kept_systems import NOTHING_KEPT, KeptSystems, Noted, model_key, system_key
from limner.web.loaded_collection import Loaded
from limner.web.search_request import ALL

if TYPE_CHECKING:
    from limner.core.collection import Collection


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
    model: Any = None
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

    def trained() -> Any:
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
