"""Fine-tuning of pretrained two-tower models: `limner.train(collection, "finetune", encoder="clip(model=DIR)")`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from limner.core.arrays import Float32, IntArray
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike
from limner.core.registry import takes
from limner.core.tensors import device_named
from limner.encoders.batching import padded
from limner.encoders.opening import EncodedVectors, source
from limner.encoders.torch_encoders import JointEncoder, Pixels, on_device, stacked
from limner.scores import Scores
from limner.scores.parallel_blocks import usable_cores
from limner.systems.hold_out import TrainedOn
from limner.systems.towers.data import PairIndex, as_array
from limner.systems.towers.distributed import Group, epoch_order, joined, seeded
from limner.systems.towers.finetuned_model import (
    KIND,
    LEARNING_RATES,
    EncoderInputs,
    FinetunedModel,
    TunedTowers,
    Tuning,
    place_on,
    tunable,
)
from limner.systems.towers.fit import Fitted, fit, training_record
from limner.systems.towers.losses import NEARLY, mean_cosine, warn_if_collapsed
from limner.systems.towers.models import Compared
from limner.systems.towers.settings import Margin, Training, continued, initial, split
from limner.systems.towers.training import plain, recall_names, recalls

PIXEL_MEMORY = 2 << 30
"""Bytes of preprocessed images that are kept in memory; the others are decoded again in every epoch."""
_AHEAD = 3  # batches that are decoded before the model asks for them


class RowBatches(Protocol):
    """The images or the texts of a collection as model input."""

    def batches(self, rows: Iterable[IntArray]) -> Iterator[object]:
        """A batch for each of these groups of rows, on the device."""


class VectorRows:
    """Vectors of a frozen encoder."""

    def __init__(self, vectors: Float32, device: torch.device) -> None:
        self.vectors = torch.from_numpy(vectors.copy()).to(device)

    def batches(self, rows: Iterable[IntArray]) -> Iterator[Tensor]:
        """The vectors of each group."""
        for each in rows:
            yield self.vectors[torch.from_numpy(each).to(self.vectors.device)]


class TokenRows:
    """Texts as tokens, padded to the longest of a batch."""

    def __init__(self, encoder: JointEncoder, texts: Sequence[str], device: torch.device) -> None:
        self.tokens, self.fill, self.device = encoder.tokens(list(texts)), encoder.fill, device

    def batches(self, rows: Iterable[IntArray]) -> Iterator[tuple[Tensor, Tensor]]:
        """Tokens and mask of each group."""
        for each in rows:
            matrix, filled = padded([self.tokens[row] for row in each], fill=self.fill)
            yield torch.from_numpy(matrix).to(self.device), torch.from_numpy(filled).to(self.device)


class PixelRows:
    """Preprocessed images, decoded on threads while the model processes earlier ones.

    Args:
        encoder: Provides the preprocessing.
        items: The images.
        device: Device of the batches.
        memory: Maximum number of bytes that are kept for the next epoch.
    """

    def __init__(
        self, encoder: JointEncoder, items: Items, device: torch.device, *, memory: int = PIXEL_MEMORY
    ) -> None:
        self.encoder, self.items, self.device, self.left = encoder, items, device, memory
        self.kept: dict[int, Pixels] = {}

    def batches(self, rows: Iterable[IntArray]) -> Iterator[object]:
        """The pixels of each group."""
        with ThreadPoolExecutor(usable_cores()) as pool:
            waiting: deque[list[tuple[int, Future[Pixels] | None]]] = deque()
            for each in rows:
                requests = [(row, None if row in self.kept else pool.submit(self._read, row)) for row in each.tolist()]
                waiting.append(requests)
                if len(waiting) >= _AHEAD:
                    yield self._batch(waiting.popleft())
            while waiting:
                yield self._batch(waiting.popleft())

    def _batch(self, requests: list[tuple[int, Future[Pixels] | None]]) -> object:
        pixels: Any = stacked([self._read_once(row, future) for row, future in requests])
        return on_device(pixels, self.device)

    def _read_once(self, row: int, future: Future[Pixels] | None) -> Pixels:
        if future is None:
            return self.kept[row]
        inputs = future.result()
        size = sum(part.nbytes for part in (inputs.values() if isinstance(inputs, dict) else (inputs,)))
        if row not in self.kept and size <= self.left:
            self.kept[row] = inputs
            self.left -= size
        return inputs

    def _read(self, row: int) -> Pixels:
        with self.items.opened(row, shortest=self.encoder.shortest) as image:
            return self.encoder.pixels(image)


DEFAULTS: dict[str, object] = {"epochs": 10, "schedule": "cosine"}
"""Settings of `Training` that differ here; the learning rate depends on the mode."""
_AT_ONCE = 64  # items of the dev collection that are encoded together


@takes(Tuning, Margin, Training)
def finetune(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> FinetunedModel:
    """Fine-tunes a pretrained model with a joint space for images and texts.

    Args:
        collection: The training collection.
        dev: Collection that selects the best epoch, by rsum; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Options of `Tuning`, `Margin` and `Training`.
    """
    start = initial(options.get("init_from"), FinetunedModel)
    if start is not None:
        options = continued(options, start.settings["tuning"], own_options=["encoder"])
    defaults = DEFAULTS | {"learning_rate": LEARNING_RATES.get(str(options.get("mode", "lora")), 1e-3)}
    tuning, margin, training = split(options, Tuning, Margin, Training, owner="finetune", defaults=defaults)
    plan = TuningPlan(_base(tuning, start), tuning, margin, training, start)
    device = device_named(training.device)
    group = joined(device)
    task = FinetuneTask(plan, collection, dev, device=device, group=group)
    alike = _alike(task)
    model = _model(task, fit(task, training, group=group, progress=progress))
    if group.main and not alike:
        warn_if_collapsed(*_first(task), loss=margin.loss)
    if group.main and tuning.export_dir is not None:
        model.export(tuning.export_dir)
    return model


def _first(task: FinetuneTask) -> tuple[Tensor, Tensor]:
    """Vectors of the first batch, encoded with the current weights."""
    task.module.eval()
    with torch.inference_mode():
        images, texts = task.sides(next(task.batches(0, 0)))
    return images[0], texts[0]


def _alike(task: FinetuneTask) -> bool:
    """Whether the embeddings are nearly equal already before training, so that training is not the cause."""
    return min(map(mean_cosine, _first(task))) >= NEARLY


@dataclass(frozen=True)
class TuningPlan:
    """All settings of a run, and the pretrained encoder."""

    base: EncodedVectors
    tuning: Tuning
    margin: Margin
    training: Training
    start: FinetunedModel | None = None

    def groups(self) -> dict[str, dict[str, object]]:
        """Plain values by group, as stored in a saved model."""
        margin, training = (
            {name: plain(value) for name, value in asdict(each).items()} for each in (self.margin, self.training)
        )
        return {"tuning": self.tuning.structure(), "margin": margin, "training": training}


class TuningBatch(NamedTuple):
    """This process's share of a batch, and the positives of the whole batch."""

    images: EncoderInputs
    texts: EncoderInputs
    positives: Tensor


class FinetuneTask:
    """The training task of fine-tuning: batches, their loss, and the measures on the dev collection."""

    module: nn.Module
    decoupled = True

    def __init__(
        self, plan: TuningPlan, collection: Collection, dev: Collection | None, *, device: torch.device, group: Group
    ) -> None:
        self.plan, self.collection, self.dev, self.group = plan, collection, dev, group
        with seeded(plan.training.seed):
            self.towers = TunedTowers(tunable(plan.base.encoder), plan.tuning, plan.margin.function())
        if plan.start is not None:
            self.towers.load_state_dict(plan.start.module.state_dict())
        self.module = place_on(self.towers, device)
        self.pairs = PairIndex(collection, device=device)
        self._sides = self._read(collection.images), self._read(collection.texts)
        self._held = None if dev is None else (self._read(dev.images), self._read(dev.texts))
        self.size = min(plan.training.batch_size, len(self.pairs) - len(self.pairs) % group.size)

    @property
    def steps(self) -> int:
        """Number of batches in an epoch; an incomplete last batch is dropped."""
        return len(self.pairs) // self.size

    @property
    def settings(self) -> dict[str, object]:
        """Settings that must be the same when a run is resumed: pretrained model, trained weights, loss and pairs."""
        groups = self.plan.groups()
        start = None if self.plan.start is None else self.plan.start.fingerprint
        identity = {"system": KIND, **groups["tuning"], **groups["margin"], "init_from": start}
        return {**identity, "encoder": self.towers.encoder.identity, "pairs": len(self.pairs)}

    def batches(self, epoch: int, start: int) -> Iterator[TuningBatch]:
        """The batches of an epoch, starting with a given number; their order depends only on seed and epoch."""
        order = epoch_order(len(self.pairs), seed=self.plan.training.seed, epoch=epoch)
        drawn = order[: self.steps * self.size].reshape(self.steps, self.size)[start:]
        share = self.group.share(self.size)
        sides = [self.pairs.image_of[drawn], self.pairs.text_of[drawn]]
        read = (side.batches(list(rows[:, share])) for side, rows in zip(self._sides, sides, strict=True))
        for rows, columns, images, texts in zip(*sides, *read, strict=True):
            sides_on_device = (torch.from_numpy(each).to(self.pairs.device) for each in (rows, columns))
            yield TuningBatch(images, texts, self.pairs.positives(*sides_on_device))

    def loss(self, batch: TuningBatch) -> Tensor:
        """The loss of the whole batch; this process encodes its share."""
        images, texts = (tuple(self.group.gather(tensor) for tensor in side) for side in self.sides(batch))
        return self.towers.objective(images, texts, batch.positives)

    def sides(self, batch: TuningBatch) -> tuple[Compared, Compared]:
        """Encodes this process's share of the images and texts of a batch."""
        return self.towers.image_vectors(batch.images), self.towers.text_vectors(batch.texts)

    def measure(self) -> dict[str, float]:
        """Recall and rsum on the dev collection, by limner's own evaluation."""
        if self.dev is None or self._held is None:
            return {}
        encode = self.towers.image_vectors, self.towers.text_vectors
        items = self.dev.images, self.dev.texts
        embeddings = [_encoded(*each) for each in zip(self._held, encode, items, strict=True)]
        return recalls(Scores.from_embeddings(*embeddings), self.dev)

    def _read(self, items: Items) -> RowBatches:
        """Items as input for the module."""
        encoder, device = self.towers.encoder, self.pairs.device
        if self.towers.mode == "frozen":
            return VectorRows(self.plan.base.vectors(items), device)
        if items.kind == "image":
            return PixelRows(encoder, items, device)
        return TokenRows(encoder, items.values, device)


def _encoded(side: RowBatches, encode: Callable[[object], Compared], items: Items) -> Embeddings:
    rows = np.split(np.arange(len(items)), range(_AT_ONCE, len(items), _AT_ONCE))
    with torch.inference_mode():
        parts = [as_array(encode(batch)[0]) for batch in side.batches(rows)]
    return Embeddings(items.ids, np.concatenate(parts))


def _base(tuning: Tuning, start: FinetunedModel | None) -> EncodedVectors:
    """The pretrained encoder."""
    if start is not None:
        return start.base
    if tuning.encoder is None:
        raise LimnerError("'finetune' needs a pretrained model: give encoder='clip(model=DIR)' or init_from=")
    pretrained = source(tuning.encoder, option="encoder")
    if not isinstance(pretrained, EncodedVectors):
        raise LimnerError(f"encoder={tuning.encoder!r} is a file of vectors: expected a pretrained model")
    tunable(pretrained.encoder)
    return pretrained


def _model(task: FinetuneTask, fitted: Fitted) -> FinetunedModel:
    plan, collection = task.plan, task.collection
    about = {**training_record(collection, task.dev, fitted, recall_names()), "pairs": len(task.pairs)}
    record = TrainedOn.of(collection)
    if plan.start is not None:
        about["start"] = {"name": plan.start.name, "fingerprint": plan.start.fingerprint}
        record = record.joined(plan.start.trained_on)
    return FinetunedModel(plan.tuning.name or "finetune", task.towers, plan.base, plan.groups(), about, record)
