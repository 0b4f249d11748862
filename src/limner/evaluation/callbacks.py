"""Callbacks with `RetrievalMeter` for the Hugging Face Trainer and for Lightning.

Retrieval is measured on the whole validation set at once, as `limner.evaluate` does, and not as a mean over batches.
The libraries are imported only when a callback is created.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from limner.core.errors import LimnerError
from limner.evaluation.meter import RetrievalMeter

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
