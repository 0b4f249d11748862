"""The one contract of encoders: from items to vectors, by a trained system or by any object that encodes."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.progress import progress_for
from limner.scores import Progress


@runtime_checkable
class Encoder(Protocol):
    """An object that turns items into vectors, one row per item; it also says their length, as `dim`.

    Only `encode` is asked for: what has no `dim` works wherever nobody needs to know it beforehand.
    """

    def encode(self, items: Items, /) -> Any:
        """Vectors of images or texts: an array, or Embeddings."""
        ...


@runtime_checkable
class TwoSided(Protocol):
    """A system with one space for images and texts, as `limner.train` returns."""

    def encode_images(self, items: Items, /) -> Embeddings:
        """Images in the joint space."""
        ...

    def encode_texts(self, items: Items, /) -> Embeddings:
        """Texts in the joint space."""
        ...


def identity(system: Any, name: str | None = None) -> str | None:
    """Which model a system is, by its weights and options: the same for a copy, whatever device and precision it has.

    Args:
        system: What encodes; it says so itself, as `identity` or `fingerprint`.
        name: The "module:thing" that a person named, which stands for an object that says nothing.

    Returns:
        None where nothing is known.
    """
    if not isinstance(system, (Encoder, TwoSided)):
        return None
    try:
        found = getattr(system, "identity", None) or getattr(system, "fingerprint", None)
    except LimnerError:  # a model that was never saved cannot say
        found = None
    return str(found) if found else name if name and ":" in name else None


def digest(*parts: str | npt.NDArray[Any]) -> str:
    """A hash of texts and arrays, for the fingerprint of a model that holds them.

    >>> digest("ab", np.zeros(2)) == digest("ab", np.zeros(2)), digest("ab", "c") == digest("a", "bc")
    (True, False)
    """
    found = hashlib.blake2b(digest_size=8)
    for part in parts:
        told = f"{len(part)}" if isinstance(part, str) else f"{part.dtype} {part.shape}"
        held = part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes()
        found.update(f"{told}:".encode() + held)
    return found.hexdigest()


def encoded(system: Encoder | TwoSided, items: Items, *, progress: Progress | None = None) -> Embeddings:
    """Vectors of items.

    Args:
        system: An `Encoder` or a `TwoSided` system.
        items: Images or texts.
        progress: Handed on where the system takes it.
    """
    if isinstance(system, TwoSided):
        encode: Any = system.encode_images if items.kind == "image" else system.encode_texts
    elif isinstance(system, Encoder):
        encode = system.encode
    else:
        raise LimnerError(
            f"{type(system).__name__} encodes nothing: expected an object with encode(items), or with encode_images "
            "and encode_texts, such as a trained system"
        )
    made = encode(items, **progress_for(encode, progress))
    return made if isinstance(made, Embeddings) else Embeddings(items.ids, np.asarray(made))
