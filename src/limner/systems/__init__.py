"""Systems: what `limner.train` can train, by name.

A system is a function `(collection, **options) -> model`; a model has `scores(collection) -> Scores`. Your own needs
no registration: name it as "module:function".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from limner.catalogue import resolve
from limner.errors import UnknownName

if TYPE_CHECKING:
    from limner.collection import Collection
    from limner.scores import Scores
    from limner.systems.histograms import HistogramModel

SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "histograms": "limner.systems.histograms:train",
        "colours": "limner.systems.histograms:train_colours",
    }
)
"""Everything `train` knows by name, and where it lives."""


@runtime_checkable
class Model(Protocol):
    """What training returns."""

    def scores(self, collection: Collection, /, **options: Any) -> Scores:
        """Similarity of every image and every text of a collection."""
        ...


def train(collection: Collection, system: str = "histograms", **options: Any) -> Model:
    """Trains a system on pairs of images and texts.

    Args:
        collection: What to learn from. Its training split is used where it has one, the whole otherwise.
        system: A key of `SYSTEMS`, or "module:function".
        options: Of the system; one it does not know is refused.

    Returns:
        A model; `model.scores(collection.test)` is what `limner.evaluate` takes.
    """
    trainer = resolve(system, SYSTEMS, what="system")
    _refuse_unknown(system, trainer, options)
    pairs = collection.train if "train" in collection.splits else collection
    return cast("Model", trainer(pairs, **options))


def load(path: str | Path) -> HistogramModel:
    """Reads a model that was saved with `model.save`."""
    from limner.systems.histograms import HistogramModel

    return HistogramModel.load(path)


def _refuse_unknown(system: str, trainer: Callable[..., Any], options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(trainer).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise UnknownName(f"option of {system!r}", option, known)
