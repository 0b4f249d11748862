"""Histograms of visual words per image cell: computed once, saved in a file, compared by kernels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.collection import Items
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.ids import Ids
from limner.core.paths import damage_told, parse_json
from limner.core.progress import ProgressLike, as_progress
from limner.scores.parallel_blocks import counted, threads
from limner.systems.classic.visualwords import VisualWords

GRID = 4
"""Cells along each side, at the finest level of a three-level pyramid."""
_FORMAT = "limner histograms 1"


@dataclass(frozen=True, eq=False)
class WordHistograms:
    """Counts of each visual word in each of the 4 x 4 cells of each image.

    Args:
        ids: Ids of the images.
        counts: By feature: (images, 16 cells, words), 16-bit integers.
        vocabulary: The visual words, if known; they are needed to compare new images.

    >>> h = WordHistograms(["a"], {"colour": np.eye(16, dtype=np.uint16)[None]})
    >>> h.level("colour", 1).shape, float(h.level("colour", 0).sum())
    ((1, 4, 16), 1.0)
    """

    ids: Ids
    counts: Mapping[str, npt.NDArray[np.uint16]]
    vocabulary: VisualWords | None = None

    def __post_init__(self) -> None:
        """Checks the shapes."""
        object.__setattr__(self, "ids", Ids(self.ids, what="image"))
        for name, counts in self.counts.items():
            if counts.ndim != 3 or counts.shape[:2] != (len(self.ids), GRID * GRID) or counts.dtype != np.uint16:
                raise LimnerError(
                    f"histograms of {name!r} have shape {counts.shape} and type {counts.dtype}: expected "
                    f"({len(self.ids)}, {GRID * GRID}, words) of uint16"
                )

    @classmethod
    def of(
        cls, images: Items, vocabulary: VisualWords, *, workers: int | None = None, progress: ProgressLike = None
    ) -> WordHistograms:
        """Counts visual words in images.

        Args:
            images: The images.
            vocabulary: The visual words.
            workers: Threads; all cores by default.
            progress: Called with (images done, images in total).
        """
        progress = as_progress(progress)
        sizes = {name: len(words) for name, words in vocabulary.words.items()}
        counts = {name: np.zeros((len(images), GRID * GRID, size), np.uint16) for name, size in sizes.items()}

        def work(row: int) -> None:
            with images.opened(row) as image:
                word_counts = vocabulary.count(image, GRID)
            for name, feature_counts in zip(counts, word_counts, strict=True):
                counts[name][row] = feature_counts

        with threads(workers) as run:
            for _ in counted(run(work, range(len(images))), 1, len(images), progress):
                pass
        return cls(images.ids, counts, vocabulary)

    def level(self, name: str, level: int) -> npt.NDArray[np.float32]:
        """Frequencies of a feature's words in the 4 ** level cells of a level: (images, cells, words), summing to 1."""
        side = 2**level
        if side > GRID:
            raise LimnerError(f"level {level} of a pyramid: expected 0, 1 or 2")
        counts = self.counts[name]
        step = GRID // side
        split = counts.reshape(len(counts), side, step, side, step, counts.shape[2])
        cells = split.sum(axis=(2, 4), dtype=np.float32).reshape(len(counts), side * side, counts.shape[2])
        totals = cells.sum(axis=(1, 2), keepdims=True)
        return np.asarray(cells / np.maximum(totals, 1), dtype=np.float32)

    def subset(self, ids: Iterable[object]) -> WordHistograms:
        """The histograms of these images, in this order."""
        image_ids = Ids(ids, what="image")
        rows = self.ids.positions(image_ids)
        return WordHistograms(image_ids, {name: counts[rows] for name, counts in self.counts.items()}, self.vocabulary)

    def __len__(self) -> int:
        return len(self.ids)

    def save(self, path: str | Path, *, vocabulary: VisualWords | None = None) -> Path:
        """Writes a safetensors file, with the vocabulary if there is one."""
        from safetensors.numpy import save_file

        vocabulary = vocabulary or self.vocabulary
        tensors: dict[str, Any] = {f"counts.{name}": np.ascontiguousarray(c) for name, c in self.counts.items()}
        about = {"limner": _FORMAT, "ids": json.dumps(list(self.ids)), "features": json.dumps(list(self.counts))}
        if vocabulary is not None:
            tensors |= {f"words.{name}": np.ascontiguousarray(w) for name, w in vocabulary.words.items()}
            about["side"] = str(vocabulary.side)
        target = Path(path)
        with replacing(target) as file:
            save_file(tensors, file, about)
        return target

    @classmethod
    def load(cls, path: str | Path) -> tuple[WordHistograms, VisualWords | None]:
        """Reads a file written by `save`: the histograms, and the vocabulary if there is one."""
        tensors, about = _read(Path(path))
        with damage_told(path, what="file of histograms"):
            names: Sequence[str] = parse_json(about["features"], where=f"histograms {path}")
            ids = Ids(parse_json(about["ids"], where=f"histograms {path}"), what="image")
            counts = {name: tensors[f"counts.{name}"] for name in names}
            vocabulary = None
            if "side" in about:
                vocabulary = VisualWords({name: tensors[f"words.{name}"] for name in names}, int(about["side"]))
            return cls(ids, counts, vocabulary), vocabulary


def _read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    from safetensors import safe_open

    if not path.is_file():
        raise LimnerError(f"no file of histograms {path}: write one with histograms.save({str(path)!r})")
    with damage_told(path, what="file of histograms"), safe_open(path, framework="numpy") as archive:
        about = archive.metadata() or {}
        if about.get("limner") != _FORMAT:
            raise LimnerError(f"{path} holds {about.get('limner', 'something else')!r}: expected {_FORMAT!r}")
        return {name: archive.get_tensor(name) for name in archive.keys()}, about  # noqa: SIM118  # it is no dict
