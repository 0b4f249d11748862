"""Opens systems, for Python, the command line and the web page.

A system is given as a name of `limner.systems.SYSTEMS` (trained now: "towers", "towers(epochs=5)"), the folder of a
saved model, an encoder ("clip(model=DIR)", "module:thing" or an object), a scorer of image-text pairs
("blip-itm(model=DIR)"), a file of similarities (images by texts), the embeddings of images and texts, an index of
images, or a model object. Which items are evaluated follows one rule: `limner.systems.held_out`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core import model_store
from limner.core.cut_texts import noted
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.paths import read_array
from limner.core.progress import progress_for
from limner.core.registry import checked
from limner.encoders import ENCODERS, Encoder, SetEncoder, TwoSided, encoded, encoded_sets, encoder_named
from limner.encoders.contract import gives_sets, refuse_blank, set_similarity
from limner.scores import Progress, Scores
from limner.systems.held_out import HoldOut, dev_of, hold_out
from limner.systems.trained_on import TrainedOn

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.search import Index

Stage = Callable[[str], AbstractContextManager[Progress | None]]
"""Called with a description of the next step; returns a progress callback."""
KEPT = "system"
"""File name of a model that is stored inside the folder of its index."""
TRAINED, MODEL, ENCODER, SCORES, EMBEDDINGS, INDEX = "trained now", "model", "encoder", "scores", "embeddings", "index"


def quiet(what: str) -> AbstractContextManager[Progress | None]:
    """A stage without output."""
    return nullcontext()


@dataclass(frozen=True, eq=False)
class OpenSystem:
    """An open system, with its scores on the evaluated items.

    Args:
        name: Name in reports and pages.
        scores: Images by texts of `collection`.
        collection: The items to search and evaluate.
        model: Encodes further images and texts; None if there are only scores.
        seen: The training items, if it was trained now.
        notes: Remarks.
    """

    name: str
    scores: Scores
    collection: Collection
    model: Any = None
    seen: Collection | None = None
    notes: tuple[str, ...] = ()

    @property
    def encodes(self) -> bool:
        """Whether it can encode texts and images outside the collection."""
        return self.model is not None and hasattr(self.scores, "query_vectors")

    def encode(self, items: Items) -> Embeddings:
        """Images or texts in the joint space."""
        return encoded(self.model, items)

    def on(self, part: Collection, *, features: object = None, progress: Progress | None = None) -> OpenSystem:
        """The same model on another part of the collection. If trained on that part, only for search."""
        if self.model is None:
            raise LimnerError(
                f"{self.name} has scores of {len(self.collection.images):,} images only: search those, or choose a "
                "system with a model"
            )
        return replace(self, scores=scored(self.model, part, features, progress), collection=part)

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that the model does not know; empty if it has no fixed vocabulary."""
        return list(getattr(self.model, "unknown_words", lambda _: ())(text))


@dataclass(frozen=True, eq=False)
class FoundSystem:
    """A system that was found but is not open yet.

    Args:
        name: Name in reports and pages.
        kind: The kind of input; see the module docstring.
        given: What the user gave: a path, an object, or the name of a system to train.
        trust: Whether its files may name custom code.
        options: Training options of a system that is trained now.
        notes: Remarks.
    """

    name: str
    kind: str
    given: Any = field(repr=False)
    trust: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def is_trained_now(self) -> bool:
        """Whether it still has to be trained."""
        return self.kind == TRAINED

    @property
    def trained_on(self) -> TrainedOn | None:
        """The training items of a saved model, without loading the rest of it."""
        place = self._saved
        if place is not None:
            return TrainedOn.from_content(model_store.part(place, "trained_on")) if place.is_dir() else None
        record = getattr(self.given, "trained_on", None) if self.kind == MODEL else None
        return record if isinstance(record, TrainedOn) else None

    @property
    def is_unsure(self) -> bool:
        """Whether it is a saved model without a record of its training items."""
        return self._saved is not None and self.trained_on is None

    @property
    def _saved(self) -> Path | None:
        """The location of the saved model: its own folder, or the folder of an index."""
        if not isinstance(self.given, Path) or self.kind not in (MODEL, INDEX):
            return None
        place = self.given / KEPT if self.kind == INDEX else self.given
        return place if place.exists() else None

    @property
    def takes_features(self) -> bool:
        """Whether it accepts image features, as a model trained on features does. Loads a saved model."""
        if self.kind == TRAINED:
            return _takes(self._trainer)
        return self.kind == MODEL and _takes(getattr(self.model(), "scores", None))

    @property
    def _trainer(self) -> Callable[..., object]:
        from limner.systems import SYSTEMS

        return SYSTEMS.find(SYSTEMS.parsed(self.given)[0])

    def model(self) -> Any:
        """The object that scores or encodes: a saved model, an encoder or a given object."""
        if self.kind == MODEL and isinstance(self.given, Path):
            from limner.systems import load

            return load(self.given, trust=self.trust)
        if self.kind in (MODEL, ENCODER):
            return self.given
        raise LimnerError(f"{self.name} is {_WORDS[self.kind]}, which cannot encode: {_EXPECTED}")

    @noted
    def on(self, parts: HoldOut, *, features: object = None, stage: Stage = quiet) -> OpenSystem:
        """Opens it on a divided collection.

        Args:
            parts: See `limner.systems.held_out.hold_out`.
            features: Image vectors, or their file, for a model that was trained on features.
            stage: Reports the steps.
        """
        if features is not None and not self.takes_features:
            raise LimnerError(
                f"features for {self.name}, {_WORDS[self.kind]}: they are for a model trained on features; leave them "
                "out"
            )
        if self.kind in (SCORES, EMBEDDINGS, INDEX):
            with stage(f"reading {self.name}"):
                return OpenSystem(self.name, self._read(parts), parts.held, notes=parts.notes)
        model = self.trained(parts, features=features, stage=stage)
        with stage(f"scoring {len(parts.held.images):,} images with {self.name}") as progress:
            scores = scored(model, parts.held, features, progress)
        seen = parts.seen if self.is_trained_now else None
        return OpenSystem(self.name, scores, parts.held, model, seen, (*parts.notes, *self.notes))

    def trained(self, parts: HoldOut, *, features: object = None, stage: Stage = quiet) -> Any:
        """The model: trained now on the training items of a divided collection, or the one there is.

        Args:
            parts: See `limner.systems.held_out.hold_out`.
            features: Image vectors, or their file, to train on.
            stage: Reports the steps.
        """
        from limner.systems import train

        if not self.is_trained_now:
            return self.model()
        trainer = self._trainer
        seen = parts.whole if parts.seen is None else parts.seen
        options: dict[str, Any] = dict(self.options) if features is None else {**self.options, "features": features}
        with stage(f"training {self.name} on {len(seen.images):,} images") as progress:
            options |= progress_for(trainer, progress) | dev_of(trainer, parts.whole, parts.held)
            return train(seen, self.given, **options)

    def _read(self, parts: HoldOut) -> Scores:
        """Precomputed scores: from a file, from embeddings, or from an index and encoded texts."""
        if self.kind in (SCORES, EMBEDDINGS):
            return (_from_matrix if self.kind == SCORES else _from_embeddings)(self.given, parts)
        index = open_index_with_system(self.given, trust=self.trust)
        refuse_blank(parts.held.texts)
        if index.about.has_sets:
            from limner.search.sets import scores_of_items

            return scores_of_items(index.store, parts.held.images.ids, index.asked(parts.held.texts)[1])
        texts = encoded(index.system, parts.held.texts)  # type: ignore[arg-type]  # refused above if there is none
        images = Embeddings(index.ids, np.concatenate(list(index.store.vectors()))).subset(parts.held.images.ids)
        return Scores.from_embeddings(images, texts, similarity=index.about.similarity)


def _takes(function: Any) -> bool:
    """Whether a function accepts `features`, by name or through **options."""
    if function is None:
        return False
    known = inspect.signature(function).parameters
    return "features" in known or any(each.kind is each.VAR_KEYWORD for each in known.values())


def features_of(systems: Sequence[FoundSystem], features: object) -> list[object]:
    """The features for each of several systems: the given ones if it accepts features, otherwise None.

    Args:
        systems: The systems that are opened together.
        features: Vectors, their file, or an encoder; None for none. Refused if no system accepts features.
    """
    found = [None if features is None or not system.takes_features else features for system in systems]
    if features is not None and all(each is None for each in found):
        names = ", ".join(system.name for system in systems)
        raise LimnerError(f"features for {names}: they are for a model trained on features; leave them out")
    return found


@dataclass(frozen=True, eq=False)
class WithFeatures:
    """A model that was trained on image features, together with the features of the images to encode.

    Args:
        model: The model; everything except image encoding is delegated to it.
        features: Vectors of the images, their file, or the encoder that computes them.
    """

    model: Any
    features: Any

    def __post_init__(self) -> None:
        """Refuses a model that computes its own features."""
        if not _takes(getattr(self.model, "encode_images", None)):
            raise LimnerError(
                f"features for a {type(self.model).__name__}: they are for a model with one space for images and texts "
                "that was trained on features; leave them out"
            )

    def encode_images(self, items: Items, /, *, progress: Progress | None = None) -> Embeddings:
        """Images in the joint space, encoded from their features."""
        encode = self.model.encode_images
        found: Embeddings = encode(items, features=self.features, **progress_for(encode, progress))
        return found

    def encode_texts(self, items: Items, /, *, progress: Progress | None = None) -> Embeddings:
        """Texts in the joint space."""
        encode = self.model.encode_texts
        found: Embeddings = encode(items, **progress_for(encode, progress))
        return found

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # pickle looks these up before there is a model
            raise AttributeError(name)
        return getattr(self.model, name)


_WORDS = {
    TRAINED: "a system that is not trained yet",
    SCORES: "a file of scores",
    EMBEDDINGS: "two sets of embeddings",
    INDEX: "an index",
    ENCODER: "an encoder",
    MODEL: "a model",
}
_EXPECTED = "expected a saved model, an encoder of 'limner list encoders', or module:thing with encode(items)"


def find_system(given: object, *, trust: bool = False, said: bool = True) -> FoundSystem:
    """Finds the system behind a name, a path or an object, without loading it.

    Args:
        given: The system; see the module docstring.
        trust: Whether files may name custom code.
        said: Whether the user gave the name; False for a name read from a file, which must not be "module:thing".
    """
    from limner.systems import SYSTEMS

    if not isinstance(given, (str, Path)):
        return _of_object(given, trust)
    name = str(given)
    if SYSTEMS.names(name):
        return FoundSystem(name, TRAINED, name, trust)
    if Path(name).exists():
        return FoundSystem(name, _kind(Path(name)), Path(name), trust)
    if ENCODERS.names(name):
        return FoundSystem(name, ENCODER, encoder_named(name, {}), trust)
    from limner.match import SCORERS  # imports compiled loops, so only if the name may be a scorer

    if SCORERS.names(name):
        return FoundSystem(name, MODEL, _pair_scorer(name), trust)
    if ":" not in name:
        known = sorted({*SYSTEMS, *ENCODERS, *SCORERS})
        raise UnknownName("system, saved model or file", name, known)
    kind, options = SYSTEMS.parsed(name)
    thing: object = SYSTEMS.find(kind, trusted=said or trust)
    if inspect.isfunction(thing):
        return FoundSystem(name, TRAINED, name, trust)
    made = thing(**checked(thing, options, what=f"system {kind!r}")) if inspect.isclass(thing) else thing
    return replace(_of_object(made, trust), name=name)


def completed(found: FoundSystem, *, cache: str | Path | None = None) -> FoundSystem:
    """A system that scores images with texts: an encoder of one of them is joined with a simple one of the other.

    The system "aligned" is then trained; see `limner.systems.aligned`. Everything else is returned unchanged.

    Args:
        found: A system.
        cache: Cache folder for vectors; by default the one shared by all commands.
    """
    kinds: tuple[str, ...] = getattr(found.given, "kinds", ()) if found.kind == ENCODER else ()
    if len(kinds) != 1:
        return found
    side, others = ("images", "texts are bags of words") if kinds[0] == "image" else ("texts", "images are histograms")
    note = f"{found.name} encodes {side} only: {others}, and both are mapped into one space fitted on training items"
    options = {side: found.given, "cache": cache}
    return replace(found, kind=TRAINED, given="aligned", options=options, notes=(*found.notes, note))


def _pair_scorer(name: str) -> object:
    """A pair scorer that scores every image-text pair of a collection."""
    from limner.match import scorer

    made = scorer(name)
    if not hasattr(made, "queries"):  # the inputs that it reads for the images of a collection
        raise LimnerError(
            f"{name} scores pairs of texts: as a system, name a scorer that reads images, such as "
            "'blip-itm(model=DIR)', or re-rank with it ('limner match rerank')"
        )
    return made


def open_system(
    given: object,
    collection: Collection,
    *,
    split: str | None = None,
    features: object = None,
    trust: bool = False,
    stage: Stage = quiet,
) -> OpenSystem:
    """Opens a system on the items it may be evaluated on.

    Args:
        given: A name of `limner.systems.SYSTEMS`, a saved model, an encoder, a file of scores, two sets of embeddings
            (images, texts), an index of images, or an object.
        collection: The collection.
        split: The split to evaluate; "all" for everything. By default the test split if there is one.
        features: Image vectors, or their file, for a model that was trained on features.
        trust: Whether files may name custom code.
        stage: Called with a description of the next step; returns a progress callback.

    Returns:
        Its scores, the evaluated items (never its training items), and its model for further items.
    """
    found = completed(find_system(given, trust=trust))
    return found.on(hold_out(collection, [found], split), features=features, stage=stage)


def open_index_with_system(path: str | Path, *, trust: bool = False) -> Index:
    """An index with the saved model or encoder that built it; refused if the index names none."""
    from limner.search import open_index

    index = open_index(str(path))
    name = index.about.system
    if name is None:
        raise LimnerError(f"the index {path} does not name a query encoder: give vectors, or name a system")
    kept = Path(path) / name
    index.system = find_system(kept if kept.exists() else name, trust=trust, said=False).model()
    index.refuse_other(index.system, name)
    return index


def _kind(path: Path) -> str:
    if path.suffix.lower() == ".npy":
        return SCORES
    return INDEX if (path / "items.lance").is_dir() else MODEL


def _of_object(given: object, trust: bool) -> FoundSystem:
    name = str(getattr(given, "name", type(given).__name__))
    if isinstance(given, Scores):
        return FoundSystem("scores", SCORES, given, trust)
    if isinstance(given, Sequence) and len(given) == 2:
        return FoundSystem("embeddings", EMBEDDINGS, tuple(given), trust)
    if hasattr(given, "scores"):
        return FoundSystem(name, MODEL, given, trust)
    if isinstance(given, (Encoder, TwoSided, SetEncoder)):
        return FoundSystem(name, ENCODER, given, trust)
    raise LimnerError(
        f"a system that is {type(given).__name__}: expected a name, a path, a model with scores(collection), an "
        "encoder, Scores, or (embeddings of images, embeddings of texts)"
    )


def scored(model: Any, held: Collection, features: object, progress: Progress | None) -> Scores:
    """The scores of a model on the images and texts of a collection."""
    if hasattr(model, "scores"):
        options = {} if features is None else {"features": features}
        scores: Scores = model.scores(held, **progress_for(model.scores, progress), **options)
        return scores
    refuse_blank(held.texts)
    if gives_sets(model):
        texts = encoded_sets(model, held.texts, queries=True)
        images = encoded_sets(model, held.images, queries=False, progress=progress)
        return Scores.from_sets(texts, images, similarity=set_similarity(model), pooling="maxsim").T
    return Scores.from_embeddings(*(encoded(model, items, progress=progress) for items in (held.images, held.texts)))


def _from_matrix(given: Any, parts: HoldOut) -> Scores:
    """Scores of the evaluated part: by id if they have ids, else a matrix of that part or of the whole collection."""
    held, whole = parts.held, parts.whole
    if isinstance(given, Scores):
        return given.restrict(queries=held.images.ids, candidates=held.texts.ids)
    shape = read_array(given, what="similarity matrix").shape
    for part in (held, whole):
        if shape == (len(part.images), len(part.texts)):
            scores = Scores.load(given, part.images.ids, part.texts.ids)
            return scores if part is held else scores.restrict(queries=held.images.ids, candidates=held.texts.ids)
    wanted = (len(held.images), len(held.texts))
    raise LimnerError(f"{given} is a matrix of {shape}, expected {wanted}, images by texts of {held.name!r}")


def _from_embeddings(given: Sequence[Any], parts: HoldOut) -> Scores:
    sides = [each if isinstance(each, Embeddings) else Embeddings.load(each) for each in given]
    wanted = (parts.held.images.ids, parts.held.texts.ids)
    return Scores.from_embeddings(*(side.subset(ids) for side, ids in zip(sides, wanted, strict=True)))
