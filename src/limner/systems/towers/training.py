"""Training tower models on a collection: `limner.train(collection, "towers" | "pvse" | "pcme", **options)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.model_store import Content
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.tensors import device_named
from limner.encoders.opening import Source, source
from limner.evaluation.evaluate import evaluate
from limner.evaluation.measures import parse
from limner.scores import Scores
from limner.systems.hold_out import TrainedOn
from limner.systems.towers.branches import Unfrozen, Vectors, pixels_of, trainable, unfrozen_state
from limner.systems.towers.data import (
    Batches,
    Texts,
    TowersBatch,
    TrainingPairs,
    as_array,
    as_sets,
    images_seen,
    texts_seen,
)
from limner.systems.towers.distributed import Group, joined, seeded
from limner.systems.towers.fit import Fitted, fit, training_record
from limner.systems.towers.losses import warn_if_collapsed
from limner.systems.towers.models import Compared, Joint
from limner.systems.towers.settings import (
    VARIANTS,
    Inputs,
    Shape,
    Training,
    VariantSettings,
    built,
    continued,
    initial,
    split,
)
from limner.systems.towers.towers_model import TowersModel
from limner.systems.towers.vocabulary import Vocabulary

if TYPE_CHECKING:
    from limner.encoders.torch_encoders import TorchEncoder

MEASURES = parse("rsum R@1 R@5 R@10")
DIRECTIONS = ("i2t", "t2i")


TOWERS, PVSE, PCME = ((Inputs, Shape, *VARIANTS[variant], Training) for variant in ("towers", "pvse", "pcme"))
"""The settings of each variant, which are its options."""


def trained(
    variant: str,
    collection: Collection,
    *,
    dev: Collection | None,
    progress: ProgressLike,
    options: Content,
) -> TowersModel:
    """Trains a variant.

    Args:
        variant: "towers", "pvse" or "pcme".
        collection: The training collection.
        dev: Collection that selects the best epoch, by rsum; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Options of `TOWERS`, `PVSE` or `PCME`.
    """
    progress = as_progress(progress)
    start = _start(variant, options.get("init_from"))
    all_options = options if start is None else _as_begun(start, options)
    inputs, shape, training, *variant_settings = split(
        all_options, Inputs, Shape, Training, *VARIANTS[variant], owner=variant
    )
    plan = Plan(variant, inputs, shape, training, tuple(variant_settings), start)
    reading = TowerInputs.of(inputs, collection, progress) if start is None else TowerInputs.after(start, inputs)
    device = device_named(training.device)
    group = joined(device)
    task = TowersTask(plan, reading, collection, dev, device=device, group=group)
    fitted = fit(task, training, group=group, progress=progress)
    if group.main:
        with torch.inference_mode():
            images, texts = task.sides(next(task.batches(0, 0)))
        warn_if_collapsed(images[0], texts[0], loss=getattr(plan.own[0], "loss", variant))
    return _model(task, fitted)


@dataclass(frozen=True)
class Plan:
    """All settings of a run."""

    variant: str
    inputs: Inputs
    shape: Shape
    training: Training
    own: VariantSettings
    start: TowersModel | None = None

    def groups(self) -> dict[str, dict[str, object]]:
        """Plain values by group, as stored in a saved model; other objects are stored by name only."""
        settings_by_group: dict[str, Shape | Training] = {"shape": self.shape, "training": self.training}
        settings_by_group |= {type(each).__name__.lower(): each for each in self.own}
        plain_groups = {
            name: {k: plain(v) for k, v in asdict(each).items()} for name, each in settings_by_group.items()
        }
        inputs: dict[str, object] = {"min_count": self.inputs.min_count, "max_tokens": self.inputs.max_tokens}
        if self.start is not None:
            inputs["init_from"] = self.start.fingerprint
        if self.inputs.unfreeze:
            inputs["unfreeze"] = True
        return {"inputs": inputs, **plain_groups}


def plain(value: object) -> object:
    """A setting as stored in a saved model: a plain value, or the name of an object."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"


@dataclass(frozen=True, eq=False)
class TowerInputs:
    """The inputs of a tower model: image features and tokenised texts.

    Args:
        features: Features of images.
        texts: Source of the text vectors; None with the GRU.
        vocabulary: The vocabulary of the GRU.
        max_tokens: Words per text.
        encoder: The image encoder, if it is trained too.
    """

    features: Source
    texts: Source | None
    vocabulary: Vocabulary | None
    max_tokens: int
    encoder: TorchEncoder | None = None

    @classmethod
    def of(cls, inputs: Inputs, collection: Collection, progress: Progress) -> TowerInputs:
        """The inputs specified by the settings, with a vocabulary of the collection's texts."""
        features = source(inputs.features)
        encoder = trainable(features) if inputs.unfreeze else None
        if isinstance(inputs.texts, str) and inputs.texts == "gru":
            vocabulary = Vocabulary.fit(collection.texts.values, min_count=inputs.min_count)
            return cls(features, None, vocabulary, inputs.max_tokens, encoder)
        if inputs.word_vectors is not None:
            raise LimnerError("word_vectors= only works with texts='gru': leave one of the two out")
        return cls(features, source(inputs.texts, option="texts"), None, inputs.max_tokens, encoder)

    @classmethod
    def after(cls, start: TowersModel, inputs: Inputs) -> TowerInputs:
        """The inputs of a trained model; features of other images may be given."""
        features = start.features if inputs.features is None else source(inputs.features)
        if features is None:
            raise LimnerError(
                f"the model {start.name!r} was trained on image vectors that are not available: give the "
                f"vectors of the new images with features="
            )
        encoder = trainable(features) if inputs.unfreeze else None
        return cls(features, start.texts, start.vocabulary, inputs.max_tokens, encoder)

    def see(self, images: Items) -> Tensor:
        """Images as model input: vectors, or pixels if the encoder is trained too."""
        if self.encoder is not None:
            return pixels_of(self.encoder, images)
        return _tensor(self.features, images)

    def read(self, collection: Collection) -> Texts:
        """The texts of a collection."""
        if self.vocabulary is not None:
            return self.vocabulary.tokens(collection.texts.values, max_tokens=self.max_tokens)
        if self.texts is None:
            raise LimnerError("no text encoder: expected texts='gru' or text vectors")
        return self.texts.vectors(collection.texts)


def _tensor(features: Source, images: Items) -> Tensor:
    return torch.from_numpy(np.array(features.vectors(images), dtype=np.float32))


class TowersTask:
    """The training task of towers: batches, their loss, and the measures on the dev collection."""

    module: Joint

    def __init__(
        self,
        plan: Plan,
        reading: TowerInputs,
        collection: Collection,
        dev: Collection | None,
        *,
        device: torch.device,
        group: Group,
    ) -> None:
        self.plan, self.reading, self.collection, self.dev, self.group = plan, reading, collection, dev, group
        self.pairs = TrainingPairs(collection, reading.see(collection.images), reading.read(collection), device=device)
        self.batches_of = Batches(self.pairs, plan.training.batch_size, plan.training.seed, group)
        self._held = None if dev is None else _DevSet.of(dev, reading, device)
        with seeded(plan.training.seed):
            self.module = self._built().to(device)

    @property
    def steps(self) -> int:
        """Number of batches in an epoch."""
        return self.batches_of.count

    @property
    def settings(self) -> dict[str, object]:
        """Settings that must be the same when a run is resumed: the model, the loss and the training data."""
        groups = {name: values for name, values in self.plan.groups().items() if name != "training"}
        flat = {name: value for values in groups.values() for name, value in values.items()}
        vocabulary_size = None if self.reading.vocabulary is None else len(self.reading.vocabulary)
        sizes = {"features": self._features, "vocabulary": vocabulary_size}
        return {"system": self.plan.variant, **flat, "pairs": len(self.pairs), **sizes}

    def batches(self, epoch: int, start: int) -> Iterator[TowersBatch]:
        """The batches of an epoch, starting with a given number."""
        return self.batches_of.epoch(epoch, start)

    def loss(self, batch: TowersBatch) -> Tensor:
        """The loss of the whole batch; this process encodes its share."""
        sides = (tuple(self.group.gather(tensor) for tensor in side) for side in self.sides(batch))
        images, texts = sides
        return self.module.objective(images, texts, batch.positives)

    def sides(self, batch: TowersBatch) -> tuple[Compared, Compared]:
        """Encodes this process's share of the images and texts of a batch."""
        return self.module.image_vectors(batch.images), self.module.text_vectors(batch.texts)

    def measure(self) -> dict[str, float]:
        """Recall and rsum on the dev collection, by limner's own evaluation."""
        return {} if self._held is None else self._held.measured(self.plan.variant, self.module)

    def _built(self) -> Joint:
        vocabulary = self.reading.vocabulary
        texts = len(vocabulary) if vocabulary is not None else int(self.pairs.text_values.shape[1])
        shape, vectors = self._sized_for_word_vectors()
        sizes = {"features": self._features, "texts": texts}
        reads, encoder = vocabulary is not None, self.reading.encoder
        module = built(self.plan.variant, shape, self.plan.own, **sizes, reads=reads, encoder=encoder)
        if self.plan.start is not None:
            _begin(module, self.plan.start)
            return module
        if isinstance(module.images, Unfrozen):
            module.images.head.standardise(_tensor(self.reading.features, self.collection.images))
        elif isinstance(module.images, Vectors):
            module.images.standardise(self.pairs.features.cpu())
        if isinstance(module.texts, Vectors):
            module.texts.standardise(self.pairs.text_values.cpu())
        if vocabulary is not None and vectors is not None:
            _copy_words(module.texts.table, vocabulary, vectors)  # type: ignore[arg-type]
        return module

    @property
    def _features(self) -> int:
        """Dimension of the image vectors, before the linear layer."""
        encoder = self.reading.encoder
        return int(self.pairs.features.shape[1]) if encoder is None else encoder.dim

    def _sized_for_word_vectors(self) -> tuple[Shape, Embeddings | None]:
        """The shape, with the dimension of the initial word vectors."""
        word_vectors = self.plan.inputs.word_vectors
        if word_vectors is None:
            return self.plan.shape, None
        vectors = word_vectors if isinstance(word_vectors, Embeddings) else Embeddings.load(word_vectors)
        self.plan = replace(self.plan, shape=replace(self.plan.shape, word_dim=vectors.dim))
        return self.plan.shape, vectors


STRUCTURE = ("word_dim", "hidden_dim", "embedding_dim", "cell", "pooling", "heads")
"""Settings that determine the weights: an initial model fixes them."""


def _start(variant: str, model: object) -> TowersModel | None:
    """The trained model to start from, if there is one."""
    start = initial(model, TowersModel)
    if start is not None and start.variant != variant:
        raise LimnerError(
            f"init_from= is a model of kind {start.variant!r}: expected {variant!r}, the variant to train"
        )
    return start


def _as_begun(start: TowersModel, options: Mapping[str, object]) -> dict[str, object]:
    """The options with the structure of the initial model; refuses a different structure."""
    groups = [values for name, values in start.settings.items() if name != "training"]
    fixed = {name: value for values in groups for name, value in values.items() if name in STRUCTURE}
    inputs = start.settings["inputs"]
    if inputs.get("unfreeze") and not options.get("unfreeze", True):
        raise LimnerError("unfreeze=False with init_from=: that model has its own image encoder; leave it out")
    inherited = {"max_tokens": inputs["max_tokens"], "unfreeze": bool(inputs.get("unfreeze"))}
    return {**inherited, **continued(options, fixed, own_options=["texts"])}


def _begin(module: nn.Module, start: TowersModel) -> None:
    state = start.module.state_dict()
    if isinstance(module.images, Unfrozen) and not isinstance(start.module.images, Unfrozen):
        state = unfrozen_state(module, state)
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise LimnerError(
            f"the weights of {start.name!r} do not fit these vectors of images and texts ({error}): give features of "
            "the kind that it was trained on"
        ) from error


def _copy_words(table: nn.Embedding, vocabulary: Vocabulary, vectors: Embeddings) -> None:
    """Initialises words with their given vectors; words without one keep their random vectors."""
    positions = vectors.ids.find(vocabulary.words)
    rows = torch.from_numpy((positions >= 0).nonzero()[0] + 1)
    with torch.no_grad():
        table.weight[rows] = torch.from_numpy(vectors.matrix[positions[positions >= 0]])


@dataclass(frozen=True, eq=False)
class _DevSet:
    """The dev collection, prepared for evaluation after every epoch."""

    collection: Collection
    features: Tensor
    texts: Texts

    @classmethod
    def of(cls, collection: Collection, reading: TowerInputs, device: torch.device) -> _DevSet:
        rows = reading.see(collection.images)
        return cls(collection, rows.to(device) if rows.ndim == 2 else rows, reading.read(collection))

    def measured(self, variant: str, module: Joint) -> dict[str, float]:
        images, texts = images_seen(module, self.features)[0], texts_seen(module, self.texts)[0]
        ids = self.collection.images.ids, self.collection.texts.ids
        if variant == "pvse":
            scores = Scores.from_sets(as_sets(ids[0], images), as_sets(ids[1], texts))
        else:
            scores = Scores.from_embeddings(Embeddings(ids[0], as_array(images)), Embeddings(ids[1], as_array(texts)))
        return recalls(scores, self.collection)


def recalls(scores: Scores, collection: Collection) -> dict[str, float]:
    """rsum, and R@1, R@5 and R@10 of both directions in percent."""
    report = evaluate(scores, collection, direction="i2t", measures=MEASURES)
    view = collection.judgements.name
    percentages = {str(measure): report.value(measure, view=view) for measure in MEASURES if measure.kind.composite}
    for direction in DIRECTIONS:
        for measure in (each for each in MEASURES if not each.kind.composite):
            percentages[f"{direction} {measure}"] = 100 * report.value(measure, direction=direction, view=view)
    return percentages


def recall_names() -> list[str]:
    """The keys of `recalls`: a composite measure covers both directions, any other is named after its direction."""
    composite = [str(measure) for measure in MEASURES if measure.kind.composite]
    return composite + [
        f"{direction} {measure}" for direction in DIRECTIONS for measure in MEASURES if not measure.kind.composite
    ]


def _model(task: TowersTask, fitted: Fitted) -> TowersModel:
    plan, collection = task.plan, task.collection
    about = {**training_record(collection, task.dev, fitted, recall_names()), "pairs": len(task.pairs)}
    record = TrainedOn.of(collection)
    if plan.start is not None:
        about["start"] = {"name": plan.start.name, "fingerprint": plan.start.fingerprint}
        record = record.joined(plan.start.trained_on)
    reading, name = task.reading, plan.inputs.name or plan.variant
    sources = reading.features, reading.vocabulary, reading.texts
    return TowersModel(plan.variant, name, task.module, *sources, plan.groups(), about, record)
