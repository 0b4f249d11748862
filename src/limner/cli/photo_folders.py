"""Folders of photographs as indexes: made in the cache on first use, and brought up to date before each use."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress, tell
from limner.cli.inputs import as_features, tell_unopened
from limner.core.errors import LimnerError, count

if TYPE_CHECKING:
    from limner.core.collection import Items
    from limner.search import Index
    from limner.search.photo_index import PhotoIndex

NOTICED = 3.0
"""Seconds that loading a model may take before a hint says how to save them."""


@dataclass(frozen=True)
class PhotoFolder:
    """A folder of photographs that is ready to be searched.

    Args:
        folder: The folder as the user named it.
        index: Its index, with the model that encodes queries if one is needed.
        path: The folder of the index.
        model_name: The model.
        left_out: Files that are not in the index, each with the reason.
    """

    folder: str
    index: Index
    path: Path
    model_name: str
    left_out: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """What a search of the folder says besides its hits."""
        return {"folder": self.folder, "model": self.model_name, "left out": dict(self.left_out)}


def is_photo_folder(path: str) -> bool:
    """Whether a path is a folder of images and no index."""
    from limner.datasets.image_folder import has_images

    folder = Path(path)
    return folder.is_dir() and not (folder / "items.lance").is_dir() and has_images(folder)


def open_photo_folder(
    path: str, model_name: str | None, *, encodes: bool = True, features: str | None = None, trust: bool = False
) -> PhotoFolder:
    """The index of a folder of photographs, up to date.

    Args:
        path: The folder.
        model_name: The model.
        encodes: Whether queries will be encoded; otherwise the model is opened for new photographs only.
        features: As for `limner index`.
        trust: Whether the model may name custom code.
    """
    from limner.search.photo_index import PhotoIndex
    from limner.search.store import require_store
    from limner.systems.opening import find_model

    require_store()
    if model_name is None:
        raise typer.BadParameter(f"{path} is a folder of photographs: name a model with --model")
    target = PhotoIndex.of(path, model_name)
    model = None
    if encodes or target.changes().to_encode:
        tell(f"model: {model_name}")
        model = find_model(model_name, features=as_features(features), trust=trust)
        _refuse_unfit(model, model_name)
        if not target.is_of(model):
            tell(f"the model {model_name} has changed since the photographs were encoded: they are encoded again")
            target.discard()
    index = _up_to_date(target, model)
    return PhotoFolder(path, index, target.path, model_name, target.left_out())


def _up_to_date(target: PhotoIndex, model: Any) -> Index:
    """The index after a refresh, if the folder has changed; tells what is left out."""
    changes = target.changes()
    if not str(changes):
        index = target.open(model=model)
        if left_out := target.left_out():
            tell(f"note: {count(len(left_out), 'file')} of the folder left out: --json says which, and why")
        return index
    number = len(changes.to_encode)
    with progress(f"encoding {number:,} photographs" if number else "removing photographs", "photographs") as step:
        index = target.refresh(model, progress=step)
    left_out = target.left_out()
    tell_unopened({name: f"{name}: {reason}" for name, reason in left_out.items()}, len(index) + len(left_out))
    return index


def _refuse_unfit(model: Any, name: str) -> None:
    """Refuses a model that cannot encode images, before anything is encoded."""
    kinds = getattr(model, "kinds", ("image",))
    if "image" not in kinds:
        raise LimnerError(f"{name} encodes {' and '.join(kinds)}s: to search photographs, name an encoder of images")


def tell_loading(index: Index, queries: Items, place: str) -> None:
    """Loads the model of an index with the first query, and says how to save the time if it was long.

    Args:
        index: The index.
        queries: The queries.
        place: What the user searches, as `limner serve` takes it.
    """
    from limner.core.cut_texts import collected

    began = monotonic()
    with collected(), suppress(LimnerError), progress("loading the model"):  # the search itself says what is wrong
        index.read_queries(queries[[0]])
    seconds = monotonic() - began
    if seconds > NOTICED:
        tell(f"loading the model took {seconds:.0f} s: 'limner serve {place}' loads it once, and then answers at once")
