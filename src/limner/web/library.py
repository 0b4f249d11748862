"""The library of a server: collections and systems, loaded or trained on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError, UnknownName
from limner.scores import CORRECTIONS, correction
from limner.systems.held_out import HoldOut, hold_out, outside, part_of
from limner.systems.opening import SCORES, FoundSystem, OpenSystem, completed, features_of, find_system
from limner.web.indexes import ServedIndex
from limner.web.jobs import Job, Jobs, Pending

if TYPE_CHECKING:
    from limner.core.collection import Collection


@dataclass(frozen=True, eq=False)
class Loaded:
    """A collection, split so that training items are never searched or evaluated.

    Args:
        whole: The collection.
        systems: The systems; all are compared on the same part.
    """

    whole: Collection
    systems: Sequence[FoundSystem] = ()

    @cached_property
    def parts(self) -> HoldOut:
        """Divided by the rule of `limner.systems.held_out`; refused if there are too few images to train on."""
        return hold_out(self.whole, self.systems)

    @cached_property
    def held(self) -> Collection:
        """The items to search and evaluate; pages without a system can show them too."""
        try:
            return self.parts.held
        except LimnerError:
            if not any(system.is_trained_now for system in self.systems):
                raise
            return part_of(self.whole, None)

    @cached_property
    def seen(self) -> Collection:
        """The other items: the training split, or the rest."""
        return outside(self.whole, self.held) if self.parts.seen is None else self.parts.seen

    @property
    def divided(self) -> bool:
        """Whether there are images outside the searched part."""
        return len(self.held.images) < len(self.whole.images)


class Library:
    """Collections and systems by name.

    Args:
        collections: What to load, by display name: a spec for `limner.load`, or a collection.
        systems: Names of systems to train, files of saved models, or "module:thing"; by display name.
        matrices: Files of similarities (images by texts), by display name.
        features: Image vectors, or their file, for models that were trained on features.
        options: Options of the loader.
        corrections: Custom corrections, as "module:class", in addition to the registered ones.
        trust: Whether saved models may name custom code.
        indexes: Open indexes to search, by display name.
    """

    def __init__(
        self,
        collections: Mapping[str, str | Collection],
        systems: Mapping[str, str],
        *,
        matrices: Mapping[str, Path] | None = None,
        features: object = None,
        options: Mapping[str, Any] | None = None,
        corrections: Sequence[str] = (),
        trust: bool = False,
        indexes: Mapping[str, ServedIndex] | None = None,
    ) -> None:
        """Checks the arguments; nothing is loaded yet."""
        self.indexes = dict(indexes or {})
        if not collections and not indexes:
            raise LimnerError("nothing to show: name a collection, e.g. scenes, or an index")
        twice = [name for name in self.indexes if name in collections]
        if twice:
            raise LimnerError(
                f"a collection and an index have the same name {twice[0]!r}: rename the index with NAME=DIR"
            )
        self.collections, self.systems, self.matrices = dict(collections), dict(systems), dict(matrices or {})
        self.features, self.options, self.trust = features, dict(options or {}), trust
        self._corrections = tuple(corrections)
        for name in corrections:
            correction(name)
        self.jobs = Jobs()
        if features is not None:
            features_of(list(self.found.values()), features)  # refused if no system accepts features

    @cached_property
    def found(self) -> dict[str, FoundSystem]:
        """The systems by name."""
        found = {name: completed(find_system(each, trust=self.trust)) for name, each in self.systems.items()}
        named = {name: replace(each, name=name) for name, each in found.items()}
        return named | {name: FoundSystem(name, SCORES, file) for name, file in self.matrices.items()}

    @property
    def names(self) -> list[str]:
        """All systems, trained or given."""
        return [*self.systems, *self.matrices]

    def known(self, collection: str | None) -> str:
        """The name of a collection; the first by default."""
        if not self.collections:
            raise LimnerError("this page needs a collection, but only an index is served: name a collection too")
        if not collection:
            return next(iter(self.collections))
        if collection not in self.collections:
            raise UnknownName("collection", collection[:80], self.collections)
        return collection

    @property
    def searchable(self) -> list[str]:
        """Collections and indexes by name."""
        return [*self.indexes, *self.collections]

    def known_pool(self, name: str | None) -> str:
        """The name of a collection or an index; the first by default, indexes before collections."""
        if not name:
            return self.searchable[0]
        if name not in self.searchable:
            raise UnknownName("collection", name[:80], self.searchable)
        return name

    def splits(self, collection: str) -> list[str]:
        """The parts of a collection that can be searched in addition to the held-out part."""
        return ["all", *self.loaded(collection).whole.splits] if collection in self.collections else []

    def part(self, collection: str, split: str) -> Collection:
        """The searched part of a collection; "" for the held-out part."""
        loaded = self.loaded(collection)
        if split and split not in self.splits(collection):
            raise UnknownName("split", split[:80], self.splits(collection))
        return part_of(loaded.whole, split) if split else loaded.held

    def known_system(self, name: str) -> str:
        """The name of a system; an unknown name is refused."""
        if name not in self.names:
            raise UnknownName("system", name[:80], self.names)
        return name

    @property
    def corrections(self) -> list[str]:
        """All corrections available on the pages."""
        return [*CORRECTIONS, *self._corrections]

    def known_correction(self, name: str) -> str:
        """The name of a correction, or "" for none; others are refused, since a page must not name a module."""
        if name and name not in self.corrections:
            raise UnknownName("correction", name[:80], self.corrections)
        return name

    def loaded(self, name: str, *, patience: float | None = 5.0) -> Loaded:
        """A collection, loaded on first use."""
        given = self.collections[self.known(name)]

        def work(job: Job) -> Loaded:
            from limner.core.collection import Collection
            from limner.datasets import load

            whole = given if isinstance(given, Collection) else load(given, **self.options)
            return Loaded(whole, list(self.found.values()))

        found: Loaded = self.jobs.value(("collection", name), f"loading {name}", work, patience=patience)
        return found

    def system(self, collection: str, name: str, *, split: str = "", patience: float | None = 0.6) -> OpenSystem:
        """A system on a collection, loaded or trained on first use.

        Args:
            collection: The name of the collection.
            name: The name of the system.
            split: The part to search, "all" for everything; "" for the held-out part.
            patience: Seconds to wait; None to wait until it is done.
        """
        self.known_system(name)
        loaded, system = self.loaded(collection), self.found[name]
        found: OpenSystem = self.jobs.value(
            ("system", collection, name),
            f"{'training' if system.is_trained_now else 'loading'} {name}",
            lambda job: ready_system(system, loaded, job, features=self.features),
            patience=patience,
        )
        return self._on(found, split, collection, patience) if split else found

    def _on(self, system: OpenSystem, split: str, name: str, patience: float | None) -> OpenSystem:
        """A system on a part of a collection, encoded once."""
        part = self.part(name, split)
        given = self.features if self.found[system.name].takes_features else None
        found: OpenSystem = self.jobs.value(
            ("system", name, system.name, split),
            f"encoding {len(part.images):,} images with {system.name}",
            lambda job: system.on(part, features=given, progress=job.told),
            patience=patience,
        )
        return found

    def warm(self) -> None:
        """Loads all saved models in the background, so that the first visitor does not wait; nothing is trained."""
        for collection in self.collections:
            for name, system in self.found.items():
                if not system.is_trained_now:
                    with suppress(Pending, LimnerError):  # reported when it is requested
                        self.system(collection, name, patience=0.0)

    def prepared(self, collection: str, name: str) -> bool:
        """Whether a system is already trained."""
        return self.jobs.ready(("system", collection, name))


def ready_system(system: FoundSystem, loaded: Loaded, job: Job, *, features: object = None) -> OpenSystem:
    """A system on the searched part of a collection; features are passed to systems that accept them."""
    given = features if features is not None and system.takes_features else None
    return system.on(loaded.parts, features=given, stage=job.stage)
