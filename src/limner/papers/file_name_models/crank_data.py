"""What CRank is trained on: pairs of file name and caption, tokenised, and how negative pairs are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.ranking import Ranking
from limner.datasets.runs import read_run
from limner.datasets.wikipedia import image_names
from limner.encoders.opening import Source
from limner.papers.file_name_models.pair_classifiers import Judge
from limner.scores import Scores

Proposer = str | Path | Scores | Ranking | None


class CrankBatch(NamedTuple):
    """A batch of pairs, with the matching ones marked."""

    rows: IntArray
    columns: IntArray
    match: Tensor


@dataclass(frozen=True, eq=False)
class CrankData:
    """A collection, tokenised for a classifier.

    Args:
        names: File names, tokenised.
        captions: Texts, tokenised.
        features: One row per image, or None.
        rows: The image of each matching pair.
        columns: The text of each matching pair.
        proposed: For each image the negatives that the proposer ranks first, padded with -1; or None.
        hard: The share of negatives drawn from these.
    """

    names: Any
    captions: Any
    features: Tensor | None
    rows: IntArray
    columns: IntArray
    proposed: IntArray | None = None
    hard: float = 0.0

    @classmethod
    def of(cls, collection: Collection, judge: Judge, features: Source | None, device: torch.device) -> CrankData:
        """Reads a collection."""
        pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        if len(collection.texts) < 2 or not len(pairs.rows):
            raise LimnerError(f"{collection.name!r} has {len(pairs.rows)} pairs: expected some, and at least 2 texts")
        rows = None if features is None else as_tensor(features.vectors(collection.images), device)
        names, captions = judge.read(image_names(collection.images)), judge.read(collection.texts.values)
        return cls(names, captions, rows, pairs.rows, pairs.columns)

    def with_proposed(self, collection: Collection, proposer: Proposer, *, depth: int, share: float) -> CrankData:
        """Adds hard negatives from a proposer."""
        if proposer is None or not share:
            return self
        lists = proposer.top(depth + self._most_texts) if isinstance(proposer, Scores | Ranking) else read_run(proposer)
        row_of = {key: row for row, key in enumerate(lists.queries)}
        missing = [key for key in collection.images.ids if key not in row_of]
        if missing:
            raise LimnerError(
                f"the proposer has no ranking for {len(missing):,} of {len(collection.images):,} training images, e.g. "
                f"{missing[0]!r}: let it rank the captions of {collection.name!r}"
            )
        place = {key: column for column, key in enumerate(collection.texts.ids)}
        turned = np.array([place.get(key, -1) for key in lists.candidates] + [-1])
        columns = turned[lists.indices[[row_of[key] for key in collection.images.ids]]]
        flat = columns + len(self.captions) * np.arange(len(columns))[:, None]
        wrong = (columns >= 0) & ~np.isin(flat, self._keys)
        first = np.argsort(~wrong, axis=1, kind="stable")[:, :depth]
        left = np.where(np.take_along_axis(wrong, first, 1), np.take_along_axis(columns, first, 1), -1)
        return replace(self, proposed=left, hard=share)

    def negatives(self, images: IntArray, generator: np.random.Generator) -> IntArray:
        """A negative text for each image: random, or from the proposer."""
        drawn = self._random(images, generator)
        if self.proposed is not None:
            lists = self.proposed[images]
            lengths = (lists >= 0).sum(axis=1)
            chosen = lists[np.arange(len(lists)), (generator.random(len(lists)) * lengths).astype(np.int64)]
            is_hard = (generator.random(len(lists)) < self.hard) & (lengths > 0)
            drawn = np.where(is_hard, chosen, drawn)
        return drawn

    @property
    def _most_texts(self) -> int:
        """The largest number of texts per image."""
        return int(np.bincount(self.rows).max())

    def _random(self, images: IntArray, generator: np.random.Generator) -> IntArray:
        keys, width = self._keys, len(self.captions)
        drawn = generator.integers(0, width, len(images))
        for _ in range(100):
            pairs_drawn = images * width + drawn
            wrong = keys[np.searchsorted(keys, pairs_drawn).clip(max=len(keys) - 1)] == pairs_drawn
            if not wrong.any():
                break
            drawn[wrong] = generator.integers(0, width, int(wrong.sum()))
        return drawn

    @cached_property
    def _keys(self) -> IntArray:
        return np.sort(self.rows * len(self.captions) + self.columns)

    def judged(self, judge: Judge, rows: IntArray, columns: IntArray) -> Tensor:
        """Logits of pairs."""
        features = None
        if self.features is not None:
            features = self.features[torch.from_numpy(rows).to(self.features.device)]
        logits: Tensor = judge(self.names, rows, self.captions, columns, features)
        return logits


def as_tensor(rows: object, device: torch.device) -> Tensor:
    """Rows of numbers on a device, in single precision."""
    return torch.from_numpy(np.array(rows, dtype=np.float32)).to(device)
