"""Sources of image and text vectors: a file, given vectors, or an encoder by name or as an object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.encoders import ENCODERS, Encoder, TwoSided, encoded, encoder_named
from limner.encoders.cache import remembering
from limner.encoders.contract import refuse_blank
from limner.encoders.image_descriptors import Histograms

if TYPE_CHECKING:
    from limner.scores import Progress

BUILT_IN = "histograms"
"""The image encoder that needs no download: colours and shapes."""


@dataclass(frozen=True, eq=False)
class Stored:
    """Vectors that are already computed.

    Args:
        embeddings: By id.
        path: The file they were read from, if any.
        others: The encoder that computed them, for further items.
    """

    embeddings: Embeddings
    path: str | None = None
    others: Encoded | None = None

    def vectors(self, items: Items, progress: Progress | None = None) -> Float32:
        """The vectors of these items; missing ones are encoded if the encoder is known."""
        if self.others is not None:
            return self._completed(items, self.others, progress)
        try:
            return self.embeddings.subset(items.ids).matrix
        except LimnerError as error:
            place = self.path or "the vectors given as features"
            raise LimnerError(
                f"{place}: {error}; give vectors for these {items.kind}s with features= (--features at the shell)"
            ) from error

    def about(self) -> dict[str, object]:
        """The description from which a saved model restores them."""
        return {"embeddings": self.path, **({} if self.others is None else self.others.about())}

    def _completed(self, items: Items, others: Encoded, progress: Progress | None) -> Float32:
        known = self.embeddings.ids.find(items.ids)
        if (known >= 0).all():
            return self.embeddings.matrix[known]
        encoded = others.vectors(items[np.flatnonzero(known < 0)], progress)
        if encoded.shape[1] != self.embeddings.dim:
            raise LimnerError(
                f"{others.name} computes vectors of {encoded.shape[1]} dimensions, those of {self.path} have "
                f"{self.embeddings.dim}: name the encoder that computed them"
            )
        rows = np.empty((len(items), self.embeddings.dim), dtype=np.float32)
        rows[known >= 0], rows[known < 0] = self.embeddings.matrix[known[known >= 0]], encoded
        return rows


@dataclass(frozen=True, eq=False)
class Encoded:
    """Vectors that an encoder computes on demand.

    Args:
        encoder: An object with `encode(items) -> array`, or with `encode_images` and `encode_texts`.
        name: Name under which it can be opened again; None for an object that was given.
        options: The options it was created with.
    """

    encoder: Any
    name: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    def vectors(self, items: Items, progress: Progress | None = None) -> Float32:
        """Encodes the items; earlier results are read from the cache."""
        refuse_blank(items)
        return encoded(self._cached, items, progress=progress).matrix

    @cached_property
    def _cached(self) -> Any:
        return remembering(self.encoder)

    def about(self) -> dict[str, object]:
        """The description from which a saved model restores it."""
        return {"encoder": self.name, **self.options}


Source = Stored | Encoded
VectorSource = str | Path | Mapping[str, Any] | Embeddings | Encoder | TwoSided
"""The values that an option such as `features` accepts: see `source`."""


def source(given: VectorSource | Source | None, *, what: str = "features", trusted: bool = True) -> Source:
    """The source of vectors that an option specifies.

    Args:
        given: None (the built-in histograms), `Embeddings`, their file, an encoder (a key of
            `limner.encoders.ENCODERS`, "module:thing", or an object), or one with its options:
            `{"encoder": "clip", "model": "folder"}` or "clip(model=folder)". A file with the encoder that computed it,
            `{"embeddings": "photos.npy", "encoder": "clip", "model": "folder"}`, can also encode further items.
        what: The option; used in messages only.
        trusted: Whether "module:thing" is allowed; False for values read from a file.
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
        name, options = ENCODERS.parsed(given)
        return Encoded(_encoder(name, options, what, trusted), name, options)
    if isinstance(given, Mapping) and "encoder" in given:
        options = {name: value for name, value in given.items() if name not in ("encoder", "embeddings")}
        made = Encoded(_encoder(given["encoder"], options, what, trusted), given["encoder"], options)
        file = given.get("embeddings")
        return made if file is None else Stored(Embeddings.load(file), str(Path(file).resolve()), made)
    if isinstance(given, (Encoder, TwoSided)):
        return Encoded(given)
    raise LimnerError(
        f"{what}={given!r} is {type(given).__name__}: expected Embeddings, their file, an encoder's name, "
        "{'encoder': name, ...} with its options, or an object with encode(items)"
    )


def load_source(about: object, *, what: str, trust: bool) -> Source | None:
    """The source of a saved model, or None if it was an object that cannot be restored.

    Args:
        about: The description of the source in the saved model.
        what: The option; used in messages only.
        trust: Whether the model may name a custom encoder as "module:thing".
    """
    if not isinstance(about, Mapping):
        raise LimnerError(f"{what} of a saved model are {about!r}: expected an encoder or a file of vectors by name")
    names = [about[name] for name in ("encoder", "embeddings") if name in about]
    if not names or not all(name is None or (isinstance(name, str) and name) for name in names):
        raise LimnerError(f"{what} of a saved model are {dict(about)!r}: expected the name of an encoder or of a file")
    path = about.get("embeddings")
    if about.get("encoder"):
        there = bool(path) and os.path.isfile(str(path))
        return source(about if there else {**about, "embeddings": None}, what=what, trusted=trust)
    return Stored(Embeddings.load(path), str(path)) if path and os.path.isfile(str(path)) else None


def _is_file(given: str) -> bool:
    return Path(given).suffix.lower() in (".npy", ".npz", ".safetensors", ".parquet")


def _encoder(name: str, options: Mapping[str, object], what: str, trusted: bool) -> object:
    made = encoder_named(name, options, trusted=trusted)
    if not isinstance(made, (Encoder, TwoSided)):
        raise LimnerError(f"{what}={name!r} has no encode(items): expected an encoder")
    return made
