"""The interface of encoders: a trained system, or any object or function that turns items into vectors."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from limner.core.arrays import Array, array
from limner.core.collection import Collection, Items
from limner.core.cut_texts import pass_on
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.images import NoImage
from limner.core.progress import Progress, ProgressLike, as_progress, progress_for
from limner.datasets import DATASETS, dataset
from limner.datasets.class_images import PROMPTS
from limner.encoders.batching import count_for_library
from limner.scores import Scores, VectorSets

_IMAGES = 64  # images passed to a plain function at once


@runtime_checkable
class Encoder(Protocol):
    """An object that turns items into vectors, one row per item; its `dim` is their dimension.

    Only `encode` is required: an object without `dim` works wherever the dimension is not needed in advance.
    """

    def encode(self, items: Items, /) -> object:
        """Vectors of images or texts: an array, or Embeddings."""
        ...


@runtime_checkable
class TwoSided(Protocol):
    """A system with a joint embedding space for images and texts, such as the result of `limner.train`."""

    def encode_images(self, items: Items, /) -> Embeddings:
        """Vectors of images in the joint space."""
        ...

    def encode_texts(self, items: Items, /) -> Embeddings:
        """Vectors of texts in the joint space."""
        ...


@runtime_checkable
class SetEncoder(Protocol):
    """An object that turns items into several vectors each, such as one per token or patch (late interaction).

    Its method may take `queries`, whether the items are queries, and `progress`. If the vectors are to be compared by
    their products as they are, it says so by `similarity = "dot"`; otherwise an index compares them by cosine.
    """

    def encode_sets(self, items: Items, /) -> object:
        """All vectors of images or texts: `VectorSets`, {id: vectors}, or one array of vectors per item."""
        ...


Encodes = Encoder | TwoSided | Callable[[list[Any]], object]
"""What `encoded` takes: an encoder, a system with two sides, or a function of a list of texts or of images."""


def gives_sets(system: object) -> bool:
    """Whether a system has several vectors for every item, and no single one."""
    return isinstance(system, SetEncoder) and not isinstance(system, (Encoder, TwoSided))


def set_similarity(system: object) -> str:
    """How the vectors of a system with several per item are compared: "dot" if it says so, else "cosine".

    >>> set_similarity(None)
    'cosine'
    """
    similarity = getattr(system, "similarity", None)
    return similarity if isinstance(similarity, str) else "cosine"


def identity(system: object, name: str | None = None) -> str | None:
    """The identity of a model, from its weights and options: the same for a copy on any device, in any precision.

    Args:
        system: The encoder, with `identity` or `fingerprint`.
        name: The "module:thing" name, used for an object without a fingerprint.

    Returns:
        The identity, or None if it is unknown.
    """
    if not isinstance(system, (Encoder, TwoSided, SetEncoder)):
        return None
    try:
        model_identity = getattr(system, "identity", None) or getattr(system, "fingerprint", None)
    except LimnerError:  # an unsaved model has no fingerprint
        model_identity = None
    return str(model_identity) if model_identity else name if name and ":" in name else None


def notes_of(system: object) -> tuple[str, ...]:
    """What every result of an encoder has to say, such as that it is the offline model.

    >>> notes_of(None)
    ()
    """
    notes = getattr(system, "notes", ())
    return tuple(map(str, notes)) if isinstance(notes, tuple) else ()


def digest(*parts: str | Array) -> str:
    """A hash of texts and arrays, for the fingerprint of a model.

    >>> digest("ab", np.zeros(2)) == digest("ab", np.zeros(2)), digest("ab", "c") == digest("a", "bc")
    (True, False)
    """
    hasher = hashlib.blake2b(digest_size=8)
    for part in parts:
        header = f"{len(part)}" if isinstance(part, str) else f"{part.dtype} {part.shape}"
        content = part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes()
        hasher.update(f"{header}:".encode() + content)
    return hasher.hexdigest()


def encoded(system: Encodes, items: object, *, progress: ProgressLike = None) -> Embeddings:
    """Encodes items.

    Args:
        system: An `Encoder`, a `TwoSided` system, a sentence-transformers model, or a function that takes a list of
            texts or a list of images and returns one vector for each.
        items: Images or texts: items, or anything `limner.Items.of` accepts.
        progress: Passed on if the system accepts it.
    """
    progress = as_progress(progress)
    for note in notes_of(system):
        pass_on(note)
    images_only = getattr(system, "kinds", None) == ("image",)
    checked_items = Items.of(items, kind="image" if images_only else None)
    if PROMPTS in checked_items.fields:
        return _mean_of_prompts(system, checked_items, progress)
    with _missing_listed(checked_items):
        if _is_function(system):
            return _from_function(system, checked_items, progress)
        encode = _encode(system, checked_items.kind)
        with nullcontext() if _is_built_in(system) else _with_failure_named(system, checked_items):
            vectors = encode(checked_items, **progress_for(encode, progress))
    return _rows(vectors, checked_items)


def _mean_of_prompts(system: Encodes, items: Items, progress: Progress) -> Embeddings:
    """Encodes classes with several prompts each: the mean of the unit vectors of its prompts."""
    prompts = [tuple(map(str, each)) or (text,) for each, text in zip(items.field(PROMPTS), items.values, strict=True)]
    distinct = list(dict.fromkeys(prompt for each in prompts for prompt in each))
    vectors = encoded(system, Items(Ids(range(len(distinct))), distinct, kind="text"), progress=progress)
    unit, row = vectors.normalised().matrix, {prompt: number for number, prompt in enumerate(distinct)}
    means = np.stack([unit[[row[prompt] for prompt in each]].mean(axis=0) for each in prompts])
    return Embeddings(items.ids, means)


def encoded_sets(system: object, items: object, *, queries: bool, progress: ProgressLike = None) -> VectorSets:
    """Encodes items with several vectors each.

    Args:
        system: A `SetEncoder`.
        items: Images or texts: items, or anything `limner.Items.of` accepts.
        queries: Whether they are queries; passed on if the system accepts it.
        progress: Likewise.

    >>> class Letters:
    ...     def encode_sets(self, items):
    ...         return [[[ord(letter), 1.0] for letter in text] for text in items.values]
    >>> encoded_sets(Letters(), ["ab", "c"], queries=True).starts.tolist()
    [0, 2, 3]
    """
    if not isinstance(system, SetEncoder) or inspect.isclass(system):
        name = system.__name__ if inspect.isclass(system) else type(system).__name__
        raise LimnerError(
            f"{name} has no encode_sets(items), but several vectors per item are needed: expected an encoder such as "
            "'multi-vector(model=DIR)', or an object with that method"
        )
    checked_items, encode = Items.of(items), system.encode_sets
    takes = "queries" in inspect.signature(encode).parameters
    with (
        _missing_listed(checked_items),
        nullcontext() if _is_built_in(system) else _with_failure_named(system, checked_items),
    ):
        vectors = encode(checked_items, **progress_for(encode, progress), **({"queries": queries} if takes else {}))
        sets = vectors if isinstance(vectors, VectorSets) else VectorSets.of(_by_id(vectors, checked_items))
    if list(sets.ids) != list(checked_items.ids):
        raise LimnerError(
            f"{type(system).__name__} gave vectors of {len(sets):,} items ({shown(sets.ids)}) for "
            f"{len(checked_items):,} ({shown(checked_items.ids)}): expected the same ids, in the same order"
        )
    return sets


def is_model(system: object) -> bool:
    """Whether `scores_of_model` takes it: an object with `scores(collection)`, or an encoder.

    >>> is_model("clip"), is_model(None)
    (False, False)
    """
    if isinstance(system, str):
        return False
    return callable(getattr(system, "scores", None)) or isinstance(system, (Encoder, TwoSided, SetEncoder))


def scores_of_model(
    model: Any, collection: Collection, *, features: object = None, progress: ProgressLike = None
) -> Scores:
    """The scores of a model on all images and texts of a collection: its own, or those of its vectors.

    Args:
        model: An object with `scores(collection)`, or an encoder of images and texts.
        collection: The images and texts.
        features: Image vectors, or their file, for a model that was trained on features.
        progress: Passed on if the model accepts it.
    """
    if callable(score := getattr(model, "scores", None)):
        options = {} if features is None else {"features": features}
        scores: Scores = score(collection, **progress_for(score, progress), **options)
        return scores
    refuse_blank(collection.texts, data_set=collection.name.partition("/")[0])
    if gives_sets(model):
        texts = encoded_sets(model, collection.texts, queries=True)
        images = encoded_sets(model, collection.images, queries=False, progress=progress)
        return Scores.from_sets(texts, images, similarity=set_similarity(model), pooling="maxsim").T
    sides = (encoded(model, items, progress=progress) for items in (collection.images, collection.texts))
    return Scores.from_embeddings(*sides)


def refuse_blank(texts: Items, *, data_set: str = "") -> None:
    """Refuses texts without a single word, such as those of a data set of which only the ids are known.

    Args:
        texts: The texts.
        data_set: Name of the data set: if limner knows it, the message says where to get its captions.

    >>> refuse_blank(Items(["t0", "t1"], ["", " "], kind="text"))
    Traceback (most recent call last):
    limner.core.errors.LimnerError: all 2 texts are empty, such as 't0': load the data set with its captions
    """
    if texts.kind == "text" and len(texts) and not any(text.strip() for text in texts.values):
        source = dataset(data_set).fetch if data_set in DATASETS else ""
        raise LimnerError(
            f"all {len(texts):,} texts are empty, such as {texts.ids[0]!r}: load the data set with its captions"
            f"{'. ' if source else ''}{source}"
        )


@contextmanager
def _missing_listed(items: Items) -> Iterator[None]:
    """Adds to the error about one missing image how many are missing, and which."""
    try:
        yield
    except NoImage as error:
        missing = [key for key, value in zip(items.ids, items.values, strict=True) if _is_missing(value)]
        if len(missing) < 2:
            raise
        count = f"{len(missing):,} of {len(items):,} images have no file ({shown(missing, most=10)})"
        raise NoImage(f"{count}; the first: {error}") from error


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, (str, Path)) and not Path(value).is_file())


def _by_id(sets: object, items: Items) -> Mapping[str, object]:
    """One array of vectors for every item."""
    if isinstance(sets, Mapping):
        return {str(key): vectors for key, vectors in sets.items()}
    listed: list[object] = list(sets)  # type: ignore[call-overload]  # what cannot be listed is told by the caller
    if len(listed) != len(items):
        raise LimnerError(
            f"the encoder gave {len(listed):,} sets of vectors for {len(items):,} items: expected one each"
        )
    return dict(zip(items.ids, listed, strict=True))


def _is_built_in(system: object) -> bool:
    return type(system).__module__.partition(".")[0] == "limner"


@contextmanager
def _with_failure_named(system: object, items: Items) -> Iterator[None]:
    """Turns an exception of a user-defined encoder into an error that names it and what it was given."""
    try:
        yield
    except (LimnerError, ImportError, OSError, MemoryError):
        raise
    except Exception as error:
        other_kind = "texts" if items.kind == "image" else "images"
        raise LimnerError(
            f"{type(system).__name__} failed on {len(items):,} {items.kind}s ({type(error).__name__}: {error}): if it "
            f"encodes only {other_kind}, give it {other_kind}; otherwise fix its encode method"
        ) from error


def _is_function(system: object) -> bool:
    """Whether the system accepts plain lists: a function, or a sentence-transformers model."""
    foreign = type(system).__module__.partition(".")[0] == "sentence_transformers"
    is_encoder = isinstance(system, (Encoder, TwoSided)) or inspect.isclass(system)
    return foreign or (callable(system) and not is_encoder)


def _from_function(system: Any, items: Items, progress: Progress) -> Embeddings:
    function = _with_named_errors(system.encode if hasattr(system, "encode") else system)
    if items.kind == "text":
        if hasattr(system, "encode"):
            count_for_library(system, items.values)
        return _rows(function(list(items.values)), items)
    parts = []
    for low in range(0, len(items), _IMAGES):
        rows = range(low, min(low + _IMAGES, len(items)))
        parts.append(array(function([items.open(row) for row in rows]), "what the encoder gave"))
        progress(rows.stop, len(items))
    return _rows(np.concatenate(parts), items)


def _with_named_errors(function: Callable[..., object]) -> Callable[..., object]:
    """Wraps a user-defined function, so that its exceptions become errors that name it."""

    def called(values: list[object]) -> object:
        try:
            return function(values)
        except LimnerError:
            raise
        except Exception as error:
            name = getattr(function, "__qualname__", type(function).__name__)
            raise LimnerError(
                f"{name} failed on a list of {len(values)} ({type(error).__name__}: {error}): expected a function "
                "that returns one vector for each text or image in a list"
            ) from error

    return called


def _rows(vectors: object, items: Items) -> Embeddings:
    return (
        vectors if isinstance(vectors, Embeddings) else Embeddings(items.ids, array(vectors, "what the encoder gave"))
    )


def _encode(system: object, kind: str) -> Callable[..., object]:
    """The method that encodes items of this kind."""
    if isinstance(system, TwoSided):
        return system.encode_images if kind == "image" else system.encode_texts
    if isinstance(system, Encoder) and not inspect.isclass(system) and not isinstance(system, str):
        return system.encode
    name = system.__name__ if inspect.isclass(system) else type(system).__name__
    if hasattr(system, "encode_sets"):
        raise LimnerError(
            f"{name} returns several vectors per item, but one is needed: use its encode_sets(items), or 'limner "
            "evaluate --model' and 'limner index --model' at the shell"
        )
    raise LimnerError(
        f"{name} cannot encode: expected a function of a list, an object with encode(items), or with encode_images "
        "and encode_texts, such as a trained system"
    )
