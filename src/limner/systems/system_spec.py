"""Systems before and after they are opened: what a name stands for, and scores on a collection."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from limner.core import model_store
from limner.core.cut_texts import cut_ids, noted
from limner.core.display_names import display_name
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.progress import SILENT, Progress, ProgressLike, progress_for
from limner.core.ranking import Ranking
from limner.encoders.cache import Cached, remembering
from limner.encoders.contract import encoded, gives_sets, scores_of_model
from limner.encoders.named_models import commit_name
from limner.evaluation.inputs import directions
from limner.scores import Scores
from limner.systems import SYSTEMS, load, train
from limner.systems.hold_out import Division, TrainedOn, dev_of, part_of, trained_and_evaluated

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.evaluation.inputs import Source


def accepts(function: object, parameter: str) -> bool:
    """Whether a function accepts a parameter, by name or through **options.

    >>> accepts(lambda features: 1, "features"), accepts(lambda: 1, "features"), accepts(None, "features")
    (True, False, False)
    """
    if not callable(function):
        return False
    parameters = inspect.signature(function).parameters
    return parameter in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def with_features(model: object, features: object) -> Any:
    """A model that encodes images from these features; the model itself without features."""
    return model if features is None else FeatureModel(model, features)


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """A model that was trained on image features, together with the features of the images to encode.

    Args:
        model: The model; everything except image encoding is delegated to it.
        features: Vectors of the images, their file, or the encoder that computes them.
    """

    model: Any
    features: object

    def __post_init__(self) -> None:
        """Refuses a model that computes its own features."""
        if not accepts(getattr(self.model, "encode_images", None), "features"):
            raise LimnerError(
                f"features for a {type(self.model).__name__}: they are for a model with one space for images and texts "
                "that was trained on features; leave them out"
            )

    def encode_images(self, items: Items, /, *, progress: ProgressLike = None) -> Embeddings:
        """Images in the joint space, encoded from their features."""
        encode = self.model.encode_images
        embeddings: Embeddings = encode(items, features=self.features, **progress_for(encode, progress))
        return embeddings

    def encode_texts(self, items: Items, /, *, progress: ProgressLike = None) -> Embeddings:
        """Texts in the joint space."""
        encode = self.model.encode_texts
        embeddings: Embeddings = encode(items, **progress_for(encode, progress))
        return embeddings

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # pickle looks these up before there is a model
            raise AttributeError(name)
        return getattr(self.model, name)


Stage = Callable[[str], AbstractContextManager[Progress]]
"""Called with a description of the next step; returns a progress callback."""
TRAINED, MODEL, ENCODER, FILES, INDEX = "trained now", "model", "encoder", "files", "index"
_WORDS = {
    TRAINED: "a system that is not trained yet",
    FILES: "files of scores or embeddings",
    INDEX: "an index",
    ENCODER: "an encoder",
    MODEL: "a model",
}
_EXPECTED = "expected a saved model, an encoder of 'limner list encoders', or module:thing with encode(items)"


def quiet(description: str) -> AbstractContextManager[Progress]:
    """A stage without output."""
    return nullcontext(SILENT)


@dataclass(frozen=True, eq=False)
class OpenSystem:
    """An open system, with its scores on the evaluated items.

    Args:
        name: Name in reports and pages.
        source: Scores, images by texts of `collection`; or rankings by direction.
        collection: The items to search and evaluate.
        model: Encodes further images and texts; None if there are only scores.
        training: The training items, if it was trained now.
        notes: Remarks.
        cut: The ids of texts of the collection that the model cuts, as far as it was asked for their scores.
        commit: The name and the commit of the model of the hub that it is or uses; None for another one.
    """

    name: str
    source: Scores | Mapping[str, Ranking]
    collection: Collection
    model: Any = None
    training: Collection | None = None
    notes: tuple[str, ...] = ()
    cut: frozenset[str] = frozenset()
    commit: str | None = None

    @property
    def scores(self) -> Scores:
        """Images by texts of the collection; refused if there are only rankings."""
        if isinstance(self.source, Scores):
            return self.source
        raise LimnerError(f"{self.name} is a run, without the scores of all pairs: give a system with scores")

    @property
    def by_direction(self) -> Mapping[str, Source]:
        """The scores or rankings of "i2t" and "t2i"; images and texts may share ids."""
        is_scores = isinstance(self.source, Scores)
        return directions(self.source, self.collection, "i2t" if is_scores else None)

    @property
    def encodes(self) -> bool:
        """Whether it can encode texts and images outside the collection."""
        return self.model is not None and hasattr(self.source, "query_vectors")

    def encode(self, items: Items) -> Embeddings:
        """Images or texts in the joint space."""
        return encoded(self.model, items)

    def on(self, part: Collection, *, features: object = None, progress: ProgressLike = None) -> OpenSystem:
        """The same model on another part of the collection. If trained on that part, only for search."""
        if self.model is None:
            raise LimnerError(
                f"{self.name} has scores of {len(self.collection.images):,} images only: search those, or choose a "
                "system with a model"
            )
        scores = scores_of_model(self.model, part, features=features, progress=progress)
        return replace(self, source=scores, collection=part)

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that the model does not know; empty if it has no fixed vocabulary."""
        return list(getattr(self.model, "unknown_words", lambda _: ())(text))


class ScoreSource(Protocol):
    """Precomputed scores, such as files or an index."""

    def scores(self, parts: Division) -> Scores | Mapping[str, Ranking]:
        """Those of the evaluated items."""
        ...


@dataclass(frozen=True, eq=False)
class SystemSpec:
    """A system that is named but not open yet.

    Args:
        name: Name in reports and pages.
        kind: One of the five kinds of this module.
        origin: What it is opened from: a path, an object, files, or the name of a system to train.
        trust: Whether its files may name custom code.
        options: Training options of a system that is trained now.
        notes: Remarks.
        cache: Cache folder for the vectors of an encoder; by default the one shared by all commands.
    """

    name: str
    kind: str
    origin: Any = field(repr=False)
    trust: bool = False
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    cache: Path | None = None

    @property
    def is_trained_now(self) -> bool:
        """Whether it still has to be trained."""
        return self.kind == TRAINED

    @property
    def has_only_scores(self) -> bool:
        """Whether there is no model for further items."""
        return self.kind in (FILES, INDEX)

    @property
    def trained_on(self) -> TrainedOn | None:
        """The training items of a saved model, without loading the rest of it."""
        path = self._model_path
        if path is not None:
            return TrainedOn.from_content(model_store.part(path, "trained_on")) if path.is_dir() else None
        record = getattr(self.origin, "trained_on", None) if self.kind == MODEL else None
        return record if isinstance(record, TrainedOn) else None

    @property
    def is_unsure(self) -> bool:
        """Whether it is a saved model without a record of its training items."""
        return self._model_path is not None and self.trained_on is None

    @property
    def _model_path(self) -> Path | None:
        """The location of the saved model: its own folder, or the folder of an index."""
        path = getattr(self.origin, "model_path", None) if self.kind == INDEX else self.origin
        return path if isinstance(path, Path) and self.kind in (MODEL, INDEX) and path.exists() else None

    @property
    def takes_features(self) -> bool:
        """Whether it accepts image features, as a model trained on features does. Loads a saved model."""
        if self.kind == TRAINED:
            return accepts(self._trainer, "features")
        return self.kind == MODEL and accepts(getattr(self.model(), "scores", None), "features")

    @property
    def commit(self) -> str | None:
        """The name and the commit of the model of the hub that it is or uses; None for another one."""
        return next(filter(None, map(commit_name, (self.origin, *self.options.values()))), None)

    @property
    def _trainer(self) -> Callable[..., object]:
        return SYSTEMS.find(SYSTEMS.parsed(self.origin)[0])

    def model(self) -> Any:
        """The object that scores or encodes: a saved model, an encoder or an object."""
        if self.kind == MODEL and isinstance(self.origin, Path):
            return load(self.origin, trust=self.trust)
        if self.kind in (MODEL, ENCODER):
            return self.origin
        raise LimnerError(f"{self.name} is {_WORDS[self.kind]}, which cannot encode: {_EXPECTED}")

    @noted
    def on(self, parts: Division, *, features: object = None, stage: Stage = quiet) -> OpenSystem:
        """Opens it on a divided collection.

        Args:
            parts: See `divided`.
            features: Image vectors, or their file, for a model that was trained on features.
            stage: Reports the steps.
        """
        if features is not None and not self.takes_features:
            raise LimnerError(
                f"features for {self.name}, {_WORDS[self.kind]}: they are for a model trained on features; leave them "
                "out"
            )
        if self.has_only_scores:
            with stage(f"reading {display_name(self.name)}"):
                return OpenSystem(self.name, self._read(parts), parts.evaluated, notes=(*parts.notes, *self.notes))
        model = self.trained(parts, features=features, stage=stage)
        with stage(f"scoring {len(parts.evaluated.images):,} images with {display_name(self.name)}") as progress:
            scorer = self._with_cache(model)
            scores = scores_of_model(scorer, parts.evaluated, features=features, progress=progress)
        training = parts.training if self.is_trained_now else None
        notes, cut = (*parts.notes, *self.notes), cut_ids(parts.evaluated.texts)
        return OpenSystem(self.name, scores, parts.evaluated, model, training, notes, cut, self.commit)

    def trained(self, parts: Division, *, features: object = None, stage: Stage = quiet) -> Any:
        """The model: trained now on the training items of a divided collection, or the one there is.

        Args:
            parts: See `divided`.
            features: Image vectors, or their file, to train on.
            stage: Reports the steps.
        """
        if not self.is_trained_now:
            return self.model()
        trainer = self._trainer
        training = parts.collection if parts.training is None else parts.training
        options: dict[str, Any] = dict(self.options) | ({} if features is None else {"features": features})
        if self.cache is not None:
            options["cache"] = self.cache
        with stage(f"training {display_name(self.name)} on {len(training.images):,} images") as progress:
            options |= progress_for(trainer, progress) | dev_of(trainer, parts)
            return train(training, self.origin, **options)

    def _with_cache(self, model: object) -> object:
        """The model, or an encoder that reads vectors it has computed before."""
        if self.kind != ENCODER or gives_sets(model):
            return model
        return remembering(model) if self.cache is None else Cached(model, self.cache)

    def _read(self, parts: Division) -> Scores | Mapping[str, Ranking]:
        """Precomputed scores."""
        if isinstance(self.origin, Scores):
            return self.origin.restrict(queries=parts.evaluated.images.ids, candidates=parts.evaluated.texts.ids)
        source: ScoreSource = self.origin
        return source.scores(parts)


def divided(collection: Collection, systems: Iterable[SystemSpec], split: str | None = None) -> Division:
    """A collection, divided into training items and items for search and evaluation that no system was trained on.

    Args:
        collection: The whole collection.
        systems: The systems that are opened on it.
        split: The split to evaluate; "all" for everything. By default the test split if there is one.
    """
    specs = list(systems)
    if any(spec.is_trained_now for spec in specs):
        parts = trained_and_evaluated(collection, split)
    else:
        parts = Division(collection, None, part_of(collection, split))
    for spec in specs:
        if spec.trained_on is not None:
            parts = parts.excluding(spec.name, spec.trained_on)
        elif spec.is_unsure and (split == "all" or not collection.splits):
            parts = parts.with_note(
                f"{spec.name} has no record of its training items: it may have been trained on these images"
            )
    return parts
