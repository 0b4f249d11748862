"""What a server shows: collections and systems, each loaded or trained when a page first asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.core.errors import LimnerError, UnknownName
from limner.scores import CORRECTIONS, correction
from limner.systems import SYSTEMS
from limner.systems.held_out import TEST_SHARE, dev_of, drawn, outside
from limner.web.jobs import Job, Jobs

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.scores import Scores


@dataclass(frozen=True, eq=False)
class Loaded:
    """A collection as the pages need it: what is learned from is never what is searched and measured."""

    whole: Collection

    @cached_property
    def held(self) -> Collection:
        """What is searched and measured: the test split, what is no training split, or a part drawn with a fixed seed.

        A collection too small to be divided is searched whole, and nothing can be trained on it.
        """
        if "test" in self.whole.splits:
            return self.whole.test
        rest = outside(self.whole, self.whole.train) if "train" in self.whole.splits else None
        if rest is not None and len(rest.images):
            return rest
        return self.whole if len(self.whole.images) < 2 * TEST_SHARE else drawn(self.whole)[1]

    @cached_property
    def seen(self) -> Collection:
        """What systems learn from: the training split, or the rest; refused where there is no rest."""
        if "train" in self.whole.splits and not set(self.whole.splits["train"]) & set(self.held.images.ids):
            return self.whole.train
        if not self.divided:
            raise LimnerError(
                f"{self.whole.name!r} has {len(self.whole.images)} images: expected at least {2 * TEST_SHARE} to train "
                "on, and some that are not in the test split"
            )
        return outside(self.whole, self.held)

    @property
    def divided(self) -> bool:
        """Whether there are images beside those that are searched."""
        return len(self.held.images) < len(self.whole.images)


@dataclass(frozen=True, eq=False)
class Ready:
    """A system and its view of what is searched.

    Args:
        name: What pages call it.
        scores: Images by texts of the part that is searched.
        model: What encodes live queries; None where there are only scores.
    """

    name: str
    scores: Scores
    model: Any = None

    @property
    def encodes(self) -> bool:
        """Whether it takes words and pictures that are not in the collection: it has one vector for each thing."""
        return self.model is not None and hasattr(self.scores, "query_vectors")

    def texts(self, items: Items) -> Embeddings:
        """Texts in the joint space."""
        return _encoded(self.model, items)

    def images(self, items: Items) -> Embeddings:
        """Images in the joint space."""
        return _encoded(self.model, items)


class Library:
    """Collections and systems by name.

    Args:
        collections: What to load, by the name that pages use: a spec for `limner.load`, or a collection.
        systems: Names of systems to train, files of saved models, or "module:thing"; by the name that pages use.
        matrices: Files of similarities (images by texts), by the name that pages use.
        options: Options of the loader.
        corrections: Corrections of one's own, as "module:class", beside those that are registered.
        trust: Whether files of models may name code of their own.
    """

    def __init__(
        self,
        collections: Mapping[str, str | Collection],
        systems: Mapping[str, str],
        *,
        matrices: Mapping[str, Path] | None = None,
        options: Mapping[str, Any] | None = None,
        corrections: Sequence[str] = (),
        trust: bool = False,
    ) -> None:
        """Loads nothing yet, but refuses what can be seen to be wrong."""
        if not collections:
            raise LimnerError("nothing to show: name a collection, e.g. scenes")
        self.collections, self.systems, self.matrices = dict(collections), dict(systems), dict(matrices or {})
        self.options, self.trust = dict(options or {}), trust
        self._corrections = tuple(corrections)
        for name in corrections:
            correction(name)
        self.jobs = Jobs()

    @property
    def names(self) -> list[str]:
        """Every system, trained and given."""
        return [*self.systems, *self.matrices]

    def known(self, collection: str | None) -> str:
        """The name of a collection; the first where none is asked for."""
        if not collection:
            return next(iter(self.collections))
        if collection not in self.collections:
            raise UnknownName("collection", collection[:80], self.collections)
        return collection

    def known_system(self, name: str) -> str:
        """The name of a system, refused where there is none of that name."""
        if name not in self.names:
            raise UnknownName("system", name[:80], self.names)
        return name

    @property
    def corrections(self) -> list[str]:
        """Every correction that pages offer."""
        return [*CORRECTIONS, *self._corrections]

    def known_correction(self, name: str) -> str:
        """The name of a correction, or "" for none; refused where it is not offered: a page may name no module."""
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
            return Loaded(whole)

        found: Loaded = self.jobs.value(("collection", name), f"loading {name}", work, patience=patience)
        return found

    def system(self, collection: str, name: str, *, patience: float | None = 0.6) -> Ready:
        """A system on a collection, trained on first use."""
        self.known_system(name)
        held = self.loaded(collection)
        make = self._scored if name in self.matrices else self._trained
        given = name in self.matrices or self.systems[name] not in SYSTEMS
        verb = "reading" if given else f"training on {len(held.seen.images):,} images:"
        found: Ready = self.jobs.value(
            ("system", collection, name), f"{verb} {name}", lambda job: make(held, name, job), patience=patience
        )
        return found

    def prepared(self, collection: str, name: str) -> bool:
        """Whether a system is trained already."""
        return self.jobs.ready(("system", collection, name))

    def _trained(self, loaded: Loaded, name: str, job: Job) -> Ready:
        model = model_named(self.systems[name], loaded, job, trust=self.trust)
        if hasattr(model, "scores"):
            return Ready(name, model.scores(loaded.held, **_told(model.scores, job)), model)
        from limner.scores import Scores

        sides = (_encoded(model, items) for items in (loaded.held.images, loaded.held.texts))
        return Ready(name, Scores.from_embeddings(*sides), model)

    def _scored(self, loaded: Loaded, name: str, job: Job) -> Ready:
        from limner.scores import Scores

        held = loaded.held
        scores = Scores.load(self.matrices[name], held.images.ids, held.texts.ids)
        return Ready(name, scores)


def model_named(name: str, loaded: Loaded, job: Job, *, trust: bool = False) -> Any:
    """A model: trained on what may be seen, read from its file, or an object of one's own that encodes."""
    from limner.systems import load, train

    if name not in SYSTEMS and Path(name).exists():
        return load(name, trust=trust)
    thing: Any = SYSTEMS.find(name)
    if name in SYSTEMS:
        return train(loaded.seen, name, **_told(thing, job), **dev_of(thing, loaded.whole, loaded.held))
    return thing() if inspect.isclass(thing) else thing


def _told(function: Callable[..., Any], job: Job) -> dict[str, Any]:
    return {"progress": job.told} if "progress" in inspect.signature(function).parameters else {}


def _encoded(model: Any, items: Items) -> Embeddings:
    from limner.search.encode import encoded

    return encoded(model, items)
