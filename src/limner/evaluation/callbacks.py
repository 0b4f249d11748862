"""Retrieval measures in a training loop: `RetrievalMeter`, and callbacks for the Hugging Face Trainer and Lightning.

Vectors of a validation set are collected on the CPU as they are computed; `compute` then ranks all texts and images at
once, so that the numbers equal those of `limner.evaluate` and are not means over batches, which depend on the batch
size. The libraries are imported only when a callback is created.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from limner.core.arrays import Float32, array
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.evaluation.evaluate import evaluate
from limner.evaluation.measures import parse
from limner.evaluation.reports.report import Report
from limner.scores import Scores

MEASURES = "R@1 R@5 R@10"
Batch = Mapping[str, Any]
"""The arguments of `RetrievalMeter.update`: image_vectors, text_vectors, and images and owners where needed."""


def trainer_callback(
    feed: Callable[[Any], Iterable[Batch]],
    *,
    measures: str = MEASURES,
    similarity: str = "cosine",
    prefix: str = "eval_",
) -> Any:
    """A callback for the Hugging Face Trainer: retrieval measures after every evaluation.

    The values are added to the metrics of the evaluation, so that `metric_for_best_model="eval_t2i R@1"` finds them,
    and to the log. Only the main process measures; with several processes, `feed` must iterate over all data there.

    Args:
        feed: Called with the model in evaluation mode; yields batches of vectors as arguments of
            `RetrievalMeter.update`. Run it without gradients.
        measures: The measures.
        similarity: "cosine" or "dot".
        prefix: Prefix of the names of the values.

    Returns:
        A `transformers.TrainerCallback`, with the meter as `meter`.
    """
    base: Any = _library("transformers").TrainerCallback

    class RetrievalCallback(base):  # type: ignore[misc]  # the library is known only now
        """Measures retrieval when the Trainer evaluates."""

        def __init__(self) -> None:
            self.meter = RetrievalMeter(measures, similarity=similarity)

        def on_evaluate(self, args: Any, state: Any, control: object, **given: Any) -> None:
            """Adds the values to the metrics of the evaluation and to the log."""
            if not state.is_world_process_zero:
                return
            model = given["model"]
            was_training = model.training
            model.eval()
            try:
                metrics = {f"{prefix}{name}": value for name, value in measured(self.meter, feed(model)).items()}
            finally:
                model.train(was_training)
            given.get("metrics", {}).update(metrics)
            state.log_history.append({**metrics, "epoch": state.epoch, "step": state.global_step})

    return RetrievalCallback()


def lightning_callback(
    read: Callable[[Any, Any], Batch] | None = None,
    *,
    measures: str = MEASURES,
    similarity: str = "cosine",
    prefix: str = "val_",
) -> Any:
    """A callback for Lightning: retrieval measures at the end of every validation.

    Args:
        read: Called with (what validation_step returned, the batch); gives the arguments of `RetrievalMeter.update`. By
            default validation_step returns them as a dict.
        measures: The measures.
        similarity: "cosine" or "dot".
        prefix: Prefix of the names of the values, which are logged with `log_dict`.

    Returns:
        A Lightning `Callback`, with the meter as `meter`.
    """
    base: Any = _library("lightning.pytorch", "pytorch_lightning").Callback

    class RetrievalCallback(base):  # type: ignore[misc]  # the library is known only now
        """Measures retrieval when Lightning validates."""

        def __init__(self) -> None:
            super().__init__()
            self.meter = RetrievalMeter(measures, similarity=similarity)

        def on_validation_epoch_start(self, trainer: Any, module: Any) -> None:
            """Resets the meter; refuses several processes, each of which sees only its share of the data."""
            if trainer.world_size > 1:
                raise LimnerError(
                    f"a retrieval meter in {trainer.world_size} processes: each sees only its share of the validation "
                    "set; validate on one device"
                )
            self.meter.reset()

        def on_validation_batch_end(
            self, trainer: object, module: object, outputs: object, batch: object, index: int, dataloader_idx: int = 0
        ) -> None:
            """Adds the vectors of a batch."""
            self.meter.update(**_batch(outputs if read is None else read(outputs, batch)))

        def on_validation_epoch_end(self, trainer: Any, module: Any) -> None:
            """Logs the values, except in the sanity check, which sees only a few batches."""
            if not trainer.sanity_checking:
                module.log_dict({f"{prefix}{name}": value for name, value in self.meter.compute().items()})

    return RetrievalCallback()


def measured(meter: RetrievalMeter, batches: Iterable[Batch]) -> dict[str, float]:
    """Collects a validation set in batches and computes the values.

    >>> batches = [{"image_vectors": [[1.0, 0.0]], "text_vectors": [[1.0, 0.1]]}]
    >>> measured(RetrievalMeter("R@1"), batches)
    {'i2t R@1': 1.0, 't2i R@1': 1.0}
    """
    meter.reset()
    for batch in batches:
        meter.update(**_batch(batch))
    return meter.compute()


def _batch(batch: object) -> dict[str, Any]:
    names = ("image_vectors", "text_vectors", "images", "owners")
    if not isinstance(batch, Mapping) or not {"image_vectors", "text_vectors"} <= set(batch) <= set(names):
        received = sorted(map(str, batch)) if isinstance(batch, Mapping) else type(batch).__name__
        raise LimnerError(f"a batch of vectors: got {received}, expected a dict of image_vectors and text_vectors, and "
                          "of images and owners where texts and images do not come in pairs")  # fmt: skip
    return dict(batch)


def _library(*names: str) -> ModuleType:
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise LimnerError(
        f"this callback needs {' or '.join(names)}, which is not installed: pip install {names[0].split('.')[0]}"
    )


class RetrievalMeter:
    """Collects vectors of images and texts and measures retrieval in both directions.

    Args:
        measures: The measures.
        similarity: "cosine" or "dot".

    >>> meter = RetrievalMeter("R@1")
    >>> meter.update([[1.0, 0.0]], [[0.9, 0.1], [0.1, 0.9]], images=["a"], owners=["a", "b"])
    >>> meter.update([[0.0, 1.0]], [[0.2, 0.8]], images=["b"], owners=["b"])
    >>> meter.compute()
    {'i2t R@1': 1.0, 't2i R@1': 1.0}
    """

    def __init__(self, measures: str = "R@1 R@5 R@10", *, similarity: str = "cosine") -> None:
        parse(measures)
        self.measures, self.similarity = measures, similarity
        self.reset()

    def reset(self) -> None:
        """Discards all vectors: call it before each validation."""
        self._images: dict[str, Float32] = {}
        self._texts: list[Float32] = []
        self._owners: list[str] = []

    def update(
        self,
        image_vectors: Any,
        text_vectors: object,
        *,
        images: Sequence[object] | None = None,
        owners: Sequence[object] | None = None,
    ) -> None:
        """Adds a batch.

        Args:
            image_vectors: One row per image: an array, a list, or a tensor on any device.
            text_vectors: One row per text.
            images: The id of each image; a repeated image is kept once. Without ids, every row is a new image.
            owners: The id of the image that each text belongs to. Without them, text n belongs to image n of the batch.
        """
        image_rows, texts = (
            _rows(vectors, kind) for vectors, kind in ((image_vectors, "image"), (text_vectors, "text"))
        )
        names = [f"image-{len(self._images) + n}" for n in range(len(image_rows))] if images is None else _ids(images)
        belong = list(names) if owners is None else _ids(owners)
        for noun, listed, rows in (("image", names, image_rows), ("text", belong, texts)):
            if len(listed) != len(rows):
                raise LimnerError(
                    f"got {len(rows)} {noun} vectors and {len(listed)} ids for them: expected one id each"
                )
        for name, row in zip(names, image_rows, strict=True):
            self._images.setdefault(name, row)
        self._texts += list(texts)
        self._owners += belong

    def report(self, name: str = "model") -> Report:
        """A report on all collected vectors, as from `limner.evaluate`, with intervals and values per query."""
        lost = [owner for owner in dict.fromkeys(self._owners) if owner not in self._images]
        if not self._texts or lost:
            problem = (
                f"texts belong to images that were not given, such as {lost[0]!r}" if lost else "nothing was added"
            )
            raise LimnerError(f"{problem}: call update with all images and texts of the validation set first")
        texts, names = Ids(f"text-{n}" for n in range(len(self._texts))), Ids(self._images)
        pairs = Judgements.from_pairs(zip(self._owners, texts, strict=True), queries=names, candidates=texts)
        images = Items(names, [None] * len(names))
        truth = Collection("validation", images, Items(texts, [""] * len(texts), kind="text"), pairs)
        sides = Embeddings(images.ids, np.stack(list(self._images.values()))), Embeddings(texts, np.stack(self._texts))
        scores = Scores.from_embeddings(*sides, similarity=self.similarity)
        return evaluate({"i2t": scores, "t2i": scores.T}, truth, measures=self.measures, name=name, keep=0)

    def compute(self) -> dict[str, float]:
        """The results by direction and measure, for a logger."""
        return {f"{r.direction} {r.measure}": r.value for r in self.report().results}


def _rows(vectors: object, noun: str) -> Float32:
    rows = array(vectors, f"{noun} vectors")
    if rows.ndim != 2:
        raise LimnerError(f"{noun} vectors: got shape {rows.shape}, expected a row per {noun}")
    return np.array(rows, dtype=np.float32)  # a copy, because the batch may be overwritten


def _ids(ids: Sequence[object]) -> list[str]:
    return [str(each.item() if hasattr(each, "item") else each) for each in ids]
