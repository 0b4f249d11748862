"""RetrievalMeter: retrieval measures in a training loop, batch by batch.

Vectors of a validation set are collected on the CPU as they are computed; `compute` then ranks all texts and images at
once, so that the numbers equal those of `limner.evaluate` and are not means over batches, which depend on the batch
size.
"""

from __future__ import annotations

from collections.abc import Sequence
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
