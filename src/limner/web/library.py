"""The library of a server: collections and systems, loaded or trained on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.annotate.store import Store
from limner.annotate.store.contents import add_collection
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import Progress
from limner.scores.correction import CORRECTIONS, correction
from limner.systems.opening import features_of, find_system
from limner.systems.system_files import ScoreFile
from limner.systems.system_spec import OpenSystem, SystemSpec
from limner.web.jobs import NOTICED, PATIENCE, Job, Jobs, Pending
from limner.web.kept_systems import KeptSystems
from limner.web.ready_system import Loaded, ReadySystem, ready_system
from limner.web.search_request import ALL, HELD_OUT
from limner.web.served_index import ServedIndex


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
        cache: Where trained systems and vectors are kept; None to keep nothing.
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
        cache: Path | None = None,
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
        self.jobs, self.kept = Jobs(), KeptSystems(cache)
        if features is not None:
            features_of(list(self.specs.values()), features)  # refused if no system accepts features

    @cached_property
    def specs(self) -> dict[str, SystemSpec]:
        """The systems by name."""
        specs = {name: find_system(each, trust=self.trust) for name, each in self.systems.items()}
        specs |= {name: find_system(ScoreFile(file)) for name, file in self.matrices.items()}
        return {name: replace(spec, name=name) for name, spec in specs.items()}

    @property
    def names(self) -> list[str]:
        """All systems, trained or given."""
        return [*self.systems, *self.matrices]

    def known_collection(self, collection: str | None) -> str:
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

    def splits(self, collection: str) -> Mapping[str, int]:
        """The parts of a collection that can be searched, everything first, with their numbers of images."""
        return self.loaded(collection).sizes if collection in self.collections else {}

    def part(self, collection: str, split: str) -> Collection:
        """A part of a collection; "" for the held-out part."""
        return self.loaded(collection).part(split)

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

    def loaded(self, name: str, *, patience: float | None = NOTICED) -> Loaded:
        """A collection, loaded on first use."""
        source = self.collections[self.known_collection(name)]

        def work(job: Job) -> Loaded:
            from limner.datasets import load

            collection = source if isinstance(source, Collection) else load(source, **self.options)
            return Loaded(collection, list(self.specs.values()))

        return self.jobs.value(("collection", name), f"loading {name}", work, patience=patience)

    def ready(self, collection: str, name: str, *, patience: float | None = PATIENCE) -> ReadySystem:
        """A system with its model, loaded or trained on first use."""
        self.known_system(name)
        loaded, system = self.loaded(collection), self.specs[name]
        return self.jobs.value(
            ("model", collection, name),
            f"{'training' if system.is_trained_now else 'loading'} {name}",
            lambda job: ready_system(system, loaded, job, features=self.features, cache=self.kept),
            patience=patience,
        )

    def system(self, collection: str, name: str, *, split: str = "", patience: float | None = PATIENCE) -> OpenSystem:
        """A system on a part of a collection.

        Args:
            collection: The name of the collection.
            name: The name of the system.
            split: The part to search, "all" for everything; "" for the held-out part.
            patience: Seconds to wait; None to wait until it is done.
        """
        ready = self.ready(collection, name, patience=patience)
        part = self.part(collection, split)
        return self.jobs.value(
            ("system", collection, name, split or HELD_OUT),
            f"scoring {len(part.images):,} images with {name}",
            lambda job: ready.on(split or HELD_OUT, job),
            patience=patience,
        )

    def unseen(self, opened: OpenSystem) -> frozenset[str]:
        """The images of an open system that it was not trained on, as far as that is recorded."""
        images, record = opened.collection.images.ids, self.specs[opened.name].trained_on
        if opened.training is not None:
            return frozenset(key for key in images if key not in opened.training.images.ids)
        saw = np.zeros(len(images), dtype=bool) if record is None else record.saw(opened.collection)
        return frozenset(key for key, in_training in zip(images, saw, strict=True) if not in_training)

    def record(self, name: str, store: Store, progress: Progress) -> None:
        """Adds the images and captions of a collection to a store, with what loads them.

        So `limner annotate serve STORE` opens the collection again.
        """
        source = self.collections[name]
        evaluated = self.loaded(name, patience=None).evaluated
        add_collection(store, evaluated, spec=source if isinstance(source, str) else name, progress=progress)
        if isinstance(source, str):
            split = (store.setting("loading") or {}).get("split")  # of a store that `limner annotate pool` made
            store.set("loading", {"options": self.options, "split": split})

    def warm(self) -> None:
        """Loads all saved models in the background, so that the first visitor does not wait; nothing is trained."""
        for collection in self.collections:
            for name, system in self.specs.items():
                if not system.is_trained_now:
                    with suppress(Pending, LimnerError):  # reported when it is requested
                        self.system(collection, name, split=ALL, patience=0.0)
