"""Folders of photographs as indexes: made in the cache on first use, and brought up to date before each use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import typer

from limner.cli.console import progress, tell
from limner.cli.inputs import as_features, tell_unopened
from limner.core.cut_texts import collected
from limner.core.errors import LimnerError, count

if TYPE_CHECKING:
    from limner.core.collection import Items
    from limner.search import Index
    from limner.search.photo_index import PhotoIndex

NOTICED = 3.0
"""Seconds that loading a model may take before a hint says how to save them."""


@dataclass(frozen=True)
class PhotoModel:
    """The model for photographs.

    Args:
        name: As `--model` takes it.
        open: Opens it.
        line: What is told about it, in a line.
    """

    name: str
    open: Callable[[], object]
    line: str


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


def photo_model(name: str | None, *, place: str = "", yes: bool = False, trust: bool = False) -> PhotoModel:
    """The model of that name; without a name, the default model for photographs.

    Args:
        name: The name; None for the default.
        place: The folder of photographs; nobody is asked for a download again if the offline model has encoded them.
        yes: Whether the user has agreed to a download.
        trust: Whether the model may name custom code.
    """
    if name is not None:
        return PhotoModel(name, lambda: _opened_model(name, trust=trust), name)
    from limner.encoders.default_encoder import CLIP, MEGABYTES, OFFLINE, default_model

    default = default_model(consent=_consent(place, yes=yes))
    if default.name == OFFLINE.name:
        line = f"offline, which is much worse than a CLIP (--model NAME, or --yes to download one of {MEGABYTES} MB)"
    else:
        line = CLIP + (f" ({default.megabytes} MB to download)" if default.megabytes else "")
    return PhotoModel(default.name, lambda: _opened_model(default.name), line)


def _opened_model(name: str, *, trust: bool = False) -> object:
    """The model of that name. An encoder of limner is opened without what trained systems import."""
    from limner.encoders import ENCODERS

    if ENCODERS.names(name):
        from limner.encoders.opening import open_encoder

        return open_encoder(name, {})
    from limner.systems.opening import find_model

    return find_model(name, trust=trust)


def _consent(place: str, *, yes: bool) -> Callable[[str], bool] | None:
    """How to ask for a download; None without a terminal to ask on."""
    from limner.encoders.default_encoder import OFFLINE
    from limner.search.photo_index import PhotoIndex

    if yes:
        return lambda question: True
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        return None
    if place and PhotoIndex.of(place, OFFLINE.name).exists:
        return None
    return lambda question: typer.confirm(question, err=True)


def open_photo_folder(
    path: str,
    model_name: str | None,
    *,
    encodes: bool = True,
    query_kinds: Collection[str] = (),
    yes: bool = False,
    features: str | None = None,
    trust: bool = False,
) -> PhotoFolder:
    """The index of a folder of photographs, up to date.

    Args:
        path: The folder.
        model_name: The model; None for the default.
        yes: Whether the user has agreed to a download.
        encodes: Whether queries will be encoded; otherwise the model is opened for new photographs only.
        query_kinds: What the queries are: "text", "image".
        features: As for `limner index`.
        trust: Whether the model may name custom code.
    """
    from limner.search.photo_index import PhotoIndex
    from limner.search.store import require_store

    require_store()
    chosen = photo_model(model_name, place=path, yes=yes, trust=trust)
    target = PhotoIndex.of(path, chosen.name)
    model = None
    if encodes or target.changes().to_encode:
        tell(f"model: {chosen.line}")
        model = _with_features(chosen.open(), features)
        _refuse_unfit(model, chosen.name, query_kinds)
        if not target.is_of(model):
            tell(f"the model {chosen.name} has changed since the photographs were encoded: they are encoded again")
            target.discard()
    index = _up_to_date(target, model)
    return PhotoFolder(path, index, target.path, chosen.name, target.left_out())


def _with_features(model: object, features: str | None) -> object:
    if features is None:
        return model
    from limner.systems.system_spec import with_features

    return with_features(model, as_features(features))


def _up_to_date(target: PhotoIndex, model: object) -> Index:
    """The index after a refresh, if the folder has changed; tells what is left out."""
    changes = target.changes()
    if not str(changes):
        index = target.open(model=model)
        if left_out := target.left_out():
            tell(f"note: {count(len(left_out), 'file')} of the folder left out: --json says which, and why")
        return index
    number = len(changes.to_encode)
    step_name = f"encoding {number:,} photographs" if number else "removing photographs"
    with collected(), progress(step_name, "photographs") as step:  # the hits have the notes of the model
        index = target.refresh(model, progress=step)
    left_out = target.left_out()
    tell_unopened({name: f"{name}: {reason}" for name, reason in left_out.items()}, len(index) + len(left_out))
    return index


def _refuse_unfit(model: object, name: str, query_kinds: Collection[str]) -> None:
    """Refuses a model that cannot encode images, or the queries, before anything is encoded."""
    kinds = getattr(model, "kinds", ("image", "text"))
    if "image" not in kinds:
        raise LimnerError(f"{name} encodes {' and '.join(kinds)}s: to search photographs, name an encoder of images")
    if "text" in query_kinds and "text" not in kinds:
        raise LimnerError(
            f"{name} encodes images alone: search with --image FILE, or name a model of images and texts, such as "
            "'offline' or a CLIP"
        )


def tell_loading(index: Index, queries: Items, place: str) -> None:
    """Loads the model of an index with the first query, and says how to save the time if it was long.

    Args:
        index: The index.
        queries: The queries.
        place: What the user searches, as `limner serve` takes it.
    """
    began = monotonic()
    with collected(), suppress(LimnerError), progress("loading the model"):  # the search itself says what is wrong
        index.read_queries(queries[[0]])
    seconds = monotonic() - began
    if seconds > NOTICED:
        tell(f"loading the model took {seconds:.0f} s: 'limner serve {place}' loads it once, and then answers at once")
