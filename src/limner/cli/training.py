"""Opens a system on a collection, with progress on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from limner.cli.console import progress
from limner.cli.options import word
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.scores import Scores
    from limner.systems.held_out import HoldOut
    from limner.systems.opening import FoundSystem, OpenSystem

ALIGNED = "aligned"
"""The system that joins an encoder of images and one of texts."""
SYSTEM = (
    "a saved model, a name of 'limner systems' (trained now), an encoder such as 'clip(model=DIR)', an index, a matrix "
    "of scores, or module:thing."
)


def known_systems(given: Any) -> Any:
    """Refuses names of systems that there are not, when the command line is read: before anything is loaded."""
    from limner.systems import SYSTEMS
    from limner.systems.opening import find_system

    for name in [given] if isinstance(given, str) else given or ():
        if not SYSTEMS.names(name) and ":" not in name and not Path(name).exists() and not _is_encoder(name):
            find_system(name)
    return given


def known_encoder(given: str) -> str:
    """Refuses the name of an encoder that there is not, when the command line is read."""
    from limner.encoders import ENCODERS

    if not _is_encoder(given) and ":" not in given and not Path(given).exists():
        ENCODERS.find(given)
    return given


def _is_encoder(name: str) -> bool:
    from limner.encoders import ENCODERS

    return ENCODERS.names(name)


def system_word(about: str, **more: Any) -> Any:
    """An option that names a system, which must be known."""
    return word(about, callback=known_systems, **more)


Features = Annotated[
    str | None,
    word(
        "Vectors of these images, for a model that was trained on a file of features.",
        metavar="FILE",
        show_default="those that the model was trained on",
    ),
]


def trained(
    name: str, whole: Collection, split: str | None, *, features: str | None = None, trust: bool = False
) -> tuple[Scores, Collection, list[str]]:
    """Opens a system on the items it may be evaluated on.

    Returns:
        The scores, the evaluated part, and notes.
    """
    found = opened_on(name, whole, split, features=features, trust=trust)
    return found.scores, found.collection, list(found.notes)


def encoded_by(
    name: str, whole: Collection, split: str | None, *, cache: Path | None = None, trust: bool = False
) -> tuple[Scores, Collection, list[str]]:
    """Scores of an encoder with cached vectors, so that the next run does not encode the same items again.

    Args:
        name: An encoder such as 'clip(model=DIR)', or a saved model. An encoder of images or texts alone is joined with
            a simple one of the other ('aligned').
        whole: The collection.
        split: The split to evaluate.
        cache: The cache folder for vectors; by default the one shared by all commands.
        trust: Whether files may name custom code.
    """
    from limner.encoders.cache import Cached, remembering
    from limner.systems.held_out import hold_out
    from limner.systems.opening import ENCODER, MODEL

    found = _encoder_found(name, cache, trust=trust)
    if found.kind not in (ENCODER, MODEL) and found.given != ALIGNED:
        raise LimnerError(
            f"--encoder {name}: expected an encoder of 'limner encoders', such as 'clip(model=DIR)', or a saved model; "
            "a system that is trained now is given with --system"
        )
    if found.kind == ENCODER and hasattr(found.given, "encode_sets"):
        if cache is not None:
            raise LimnerError(
                f"--cache with {name}, which has several vectors per item, and only one is cached; leave it out"
            )
    elif found.kind == ENCODER:
        kept = remembering(found.given) if cache is None else Cached(found.given, cache)
        found = replace(found, given=kept)
    elif cache is not None and found.given != ALIGNED:
        raise LimnerError(f"--cache with {name}, a saved model: only vectors of encoders are cached; leave it out")
    opened = found.on(hold_out(whole, [found], split), stage=progress)
    return opened.scores, opened.collection, list(opened.notes)


def _encoder_found(name: str, cache: Path | None, *, trust: bool) -> FoundSystem:
    """The encoder of that name, even if a system has the same; of one kind of items, or two of them, to be joined."""
    from limner.encoders import ENCODERS
    from limner.encoders.deferred import opened
    from limner.systems import SYSTEMS
    from limner.systems.opening import ENCODER, TRAINED, FoundSystem, completed, find_system

    if ENCODERS.names(name):
        return completed(FoundSystem(name, ENCODER, opened(name, {}, cache), trust), cache=cache)
    if name.partition("(")[0].strip() == ALIGNED and not Path(name).exists():
        _, options = SYSTEMS.parsed(name)
        given = options if cache is None else {**options, "cache": cache}
        return FoundSystem(name, TRAINED, ALIGNED, trust, given)
    return completed(find_system(name, trust=trust), cache=cache)


def opened_on(
    name: str, whole: Collection, split: str | None, *, features: str | None = None, trust: bool = False
) -> OpenSystem:
    """Opens a system on the items it may be evaluated on."""
    from limner.systems.opening import open_system

    given = None if features is None else as_features(features)
    return open_system(name, whole, split=split, features=given, trust=trust, stage=progress)


def encoded_sides(
    name: str, whole: Collection, split: str | None, *, trust: bool = False
) -> tuple[list[Embeddings], Collection, list[str]]:
    """Vectors of images and texts by a system with one space for both; a name of 'limner systems' is trained first.

    Returns:
        The vectors of images and of texts, the encoded part, which the system was not trained on, and notes.
    """
    from limner.systems.held_out import hold_out
    from limner.systems.opening import completed, find_system

    found = completed(find_system(name, trust=trust))
    parts = hold_out(whole, [found], split)
    sides = (parts.held.images, parts.held.texts)
    return encoded_by_model(name, found.trained(parts, stage=progress), sides), parts.held, list(parts.notes)


def encoded_by_model(name: str, model: Any, sides: Sequence[Items]) -> list[Embeddings]:
    """Vectors of images and texts by a model or encoder with one space for both, with progress."""
    from limner.encoders import encoded
    from limner.encoders.contract import refuse_blank

    found = []
    for items in sides:
        refuse_blank(items)
        with progress(f"encoding {len(items):,} {items.kind}s with {name}") as told:
            found.append(encoded(model, items, progress=told))
    return found


TrainOn = Annotated[
    str | None,
    word(
        "The COLLECTION on which a name of 'limner systems' is trained.",
        metavar="COLLECTION",
        show_default="scenes, if the queries are of scenes",
    ),
]


def training_parts(found: FoundSystem, source: str, train_on: str | None, held: Collection) -> HoldOut:
    """The collection on which a system is trained now, and what is evaluated: items that are in no collection.

    Args:
        found: The system.
        source: What is evaluated; for scenes, the built-in collection serves if none is named.
        train_on: The collection, as the user named it.
        held: What is evaluated.
    """
    from limner.cli.options import load
    from limner.systems.held_out import HoldOut

    if not found.is_trained_now:
        if train_on is not None:
            raise LimnerError(f"--train-on with {found.name}, which is not trained now: leave it out")
        return HoldOut(held, None, held)
    if train_on is None and source != "scenes":
        raise LimnerError(f"{found.name} is trained now: give --train-on COLLECTION, or a model that is trained")
    whole = load(train_on or source, None)
    return HoldOut(whole, whole.train if "train" in whole.splits else whole, held)


def as_features(words: str) -> Path | str:
    """A file of vectors, or the encoder that computes them."""
    from limner.search.items import VECTOR_ENDINGS

    return Path(words) if Path(words).suffix.lower() in VECTOR_ENDINGS else words


def with_features(model: object, features: str | None) -> Any:
    """A model that encodes images from these features; the model itself without features."""
    from limner.systems.opening import WithFeatures

    return model if features is None else WithFeatures(model, as_features(features))


def opened_together(
    names: list[str], whole: Collection, split: str | None, *, features: str | None = None, trust: bool = False
) -> tuple[list[OpenSystem], Collection, list[str]]:
    """Opens several systems on items that none of them was trained on.

    Returns:
        The systems, the evaluated part, and notes.
    """
    from limner.systems.held_out import hold_out
    from limner.systems.opening import completed, features_of, find_system

    listed = [completed(find_system(name, trust=trust)) for name in names]
    parts = hold_out(whole, listed, split)
    given = None if features is None else as_features(features)
    takes = features_of(listed, given)
    systems = [found.on(parts, features=f, stage=progress) for found, f in zip(listed, takes, strict=True)]
    return systems, parts.held, list(parts.notes)
