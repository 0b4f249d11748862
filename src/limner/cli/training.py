"""Opens a system on a collection, with progress on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from limner.cli.console import progress
from limner.cli.options import word

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Scores
    from limner.systems.opening import OpenSystem

SYSTEM = (
    "a saved model, a name of 'limner systems' (trained now), an encoder such as 'clip(model=DIR)', an index, a matrix "
    "of scores, or module:thing."
)
Features = Annotated[
    str | None,
    word(
        "Vectors of these images, for a model that was trained on a file of features.",
        metavar="FILE",
        show_default="those the model was trained on",
    ),
]


def trained(
    name: str, whole: Collection, split: str | None, *, features: str | None = None, trust: bool = False
) -> tuple[Scores, Collection, list[str]]:
    """Opens a system on the items it may be evaluated on.

    Returns:
        The scores, the part they are for, and notes.
    """
    found = opened_on(name, whole, split, features=features, trust=trust)
    return found.scores, found.collection, list(found.notes)


def opened_on(
    name: str, whole: Collection, split: str | None, *, features: str | None = None, trust: bool = False
) -> OpenSystem:
    """Opens a system on the items it may be evaluated on."""
    from limner.systems.opening import open_system

    given = None if features is None else as_features(features)
    return open_system(name, whole, split=split, features=given, trust=trust, stage=progress)


def as_features(words: str) -> Path | str:
    """A file of vectors, or the encoder that makes them."""
    return Path(words) if Path(words).suffix.lower() in (".npy", ".npz", ".safetensors", ".parquet") else words


def opened_together(
    names: list[str], whole: Collection, split: str | None, *, features: str | None = None, trust: bool = False
) -> tuple[list[OpenSystem], Collection, list[str]]:
    """Opens several systems on items that none of them was trained on.

    Returns:
        The systems, the part they are for, and notes.
    """
    from limner.systems.held_out import hold_out
    from limner.systems.opening import find_system

    listed = [find_system(name, trust=trust) for name in names]
    parts = hold_out(whole, listed, split)
    given = None if features is None else as_features(features)
    takes = [given if found.takes_features else None for found in listed]
    systems = [found.on(parts, features=f, stage=progress) for found, f in zip(listed, takes, strict=True)]
    return systems, parts.held, list(parts.notes)
