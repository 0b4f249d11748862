"""Where the vectors of images and texts come from: a file, vectors at hand, or an encoder by name or as an object."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from limner.catalogue import resolve
from limner.collection import Items
from limner.embeddings import Embeddings
from limner.encoders.pictures import Histograms
from limner.errors import LimnerError

if TYPE_CHECKING:
    from limner.scores import Progress

Float32 = npt.NDArray[np.float32]
BUILT_IN = "histograms"
"""The encoder of images that needs nothing: colours and shapes."""


@dataclass(frozen=True, eq=False)
class Stored:
    """Vectors that are there already.

    Args:
        embeddings: By id.
        path: The file they came from, if they did.
    """

    embeddings: Embeddings
    path: str | None = None

    def vectors(self, items: Items, progress: Progress | None = None) -> Float32:
        """The vectors of these items."""
        try:
            return self.embeddings.subset(items.ids).matrix
        except LimnerError as error:
            place = self.path or "the vectors given as features"
            raise LimnerError(f"{place}: {error}; give vectors for these {items.kind}s with features=") from error

    def about(self) -> dict[str, Any]:
        """What a saved model needs to find them again."""
        return {"embeddings": self.path}


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors that an encoder makes when they are wanted.

    Args:
        encoder: An object with `encode(items) -> array`.
        name: By which it is found again; None for an object that was given.
    """

    encoder: Any
    name: str | None = None

    def vectors(self, items: Items, progress: Progress | None = None) -> Float32:
        """Encodes the items."""
        takes = "progress" in inspect.signature(self.encoder.encode).parameters
        given = self.encoder.encode(items, **({"progress": progress} if takes else {}))
        return cast("Float32", np.asarray(getattr(given, "matrix", given), dtype=np.float32))

    def about(self) -> dict[str, Any]:
        """What a saved model needs to find it again."""
        return {"encoder": self.name}


Source = Stored | Encoded


def source(given: Any, *, what: str = "features") -> Source:
    """The source that an option names.

    Args:
        given: None (the built-in histograms), `Embeddings`, the file of some, "module:thing" or an object with
            `encode(items)`.
        what: The option; used in messages only.
    """
    if given is None or given == BUILT_IN:
        return Encoded(Histograms(), BUILT_IN)
    if isinstance(given, (Stored, Encoded)):
        return given
    if isinstance(given, Embeddings):
        return Stored(given)
    if isinstance(given, Path) or (isinstance(given, str) and _is_file(given)):
        return Stored(Embeddings.load(given), str(Path(given).resolve()))
    if isinstance(given, str):
        return Encoded(_encoder(given, what), given)
    if hasattr(given, "encode"):
        return Encoded(given)
    raise LimnerError(
        f"{what}={given!r} is {type(given).__name__}: expected Embeddings, the file of some, an encoder's name, or an "
        "object with encode(items)"
    )


def found_again(about: Mapping[str, Any], *, what: str) -> Source | None:
    """The source of a saved model, or None where it was an object that only its maker has."""
    if about.get("encoder"):
        return source(about["encoder"], what=what)
    path = about.get("embeddings")
    return source(path, what=what) if path and Path(path).is_file() else None


def _is_file(given: str) -> bool:
    return Path(given).suffix.lower() in (".npy", ".npz", ".safetensors", ".parquet")


def _encoder(name: str, what: str) -> Any:
    thing = resolve(name, {BUILT_IN: "limner.encoders.pictures:Histograms"}, what=f"encoder for {what}")
    made = thing() if inspect.isclass(thing) else thing
    if not hasattr(made, "encode"):
        raise LimnerError(f"{what}={name!r} has no encode(items): expected an encoder")
    return made
