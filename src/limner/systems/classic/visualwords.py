"""Visual words: descriptors quantised to a few hundred words, learned by k-means.

Descriptors and words are integers from 0 to 255 (as in Vedaldi & Fulkerson 2008), so that every product and sum below
is exact in single precision, in any order of summation. Histograms of the words in each cell of an image are computed
once, and saved in a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.collection import Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import replacing
from limner.core.ids import Ids
from limner.core.paths import damage_told, parse_json
from limner.core.progress import ProgressLike, as_progress
from limner.scores.parallel_blocks import counted, threads
from limner.systems.classic.descriptors import DESCRIPTORS, Pixels, Points, lab, pixels

if TYPE_CHECKING:
    from PIL.Image import Image

Whole = npt.NDArray[np.uint8]

WORDS = {"colour": 128, "texture": 256, "sift": 256}
"""Number of words per feature (Hodosh, Young & Hockenmaier 2013, section 3.3.1)."""
IMAGES, POINTS = 200, 1000
"""Words are learned from this many images, with this many points each."""
_AT_ONCE = 2048
_COLOUR_STEPS = 64  # bits per channel in the table that maps every colour to its word


def nearest_words(points: Whole, words: Whole) -> npt.NDArray[np.int64]:
    """The nearest word of every point by Euclidean distance; the first one if tied.

    >>> nearest_words(np.array([[9, 9], [1, 0]], dtype=np.uint8), np.array([[0, 0], [10, 10]], dtype=np.uint8)).tolist()
    [1, 0]
    """
    centres = words.astype(np.float32)
    # |x - c|^2 is minimal where x.c - |c|^2 / 2 is maximal: one product of (x, 1) with (c, -|c|^2 / 2).
    weights = np.concatenate([centres, -np.einsum("ij,ij->i", centres, centres)[:, None] / 2], axis=1).T
    nearest = np.empty(len(points), np.int64)
    for low in range(0, len(points), _AT_ONCE):
        block = np.ones((min(_AT_ONCE, len(points) - low), weights.shape[0]), np.float32)
        block[:, :-1] = points[low : low + _AT_ONCE]
        np.argmax(block @ weights, axis=1, out=nearest[low : low + _AT_ONCE])
    return nearest


def k_means(points: Whole, k: int, *, seed: int = 0, rounds: int = 30) -> Whole:
    """k words for integer points: Lloyd's algorithm initialised by k-means++, with rounded centres.

    A word that loses all its points moves to the point that is farthest from its word. Lloyd 1982; Arthur &
    Vassilvitskii 2007. The same points and seed give the same words everywhere.

    >>> k_means(np.array([[0], [1], [2], [200], [202]], dtype=np.uint8), 2).tolist()
    [[1], [201]]
    """
    if len(different := _few_different(points, k)):  # every point is its own word
        return different
    words, exact = _seeds(points, k, np.random.default_rng(seed)), points.astype(np.int64)
    for _ in range(rounds):
        nearest = nearest_words(points, words)
        moved = _means(exact, nearest, words)
        if np.array_equal(moved, words):
            break
        words = moved
    return words[np.lexsort(words.T[::-1])]


def _few_different(points: Whole, k: int) -> Whole:
    """All distinct points if there are at most k of them, otherwise none."""
    for some in (points[: 20 * k], points):  # a few points usually suffice
        different = np.unique(some, axis=0)
        if len(different) > k:
            return different[:0]
    return different


def _seeds(points: Whole, k: int, rng: np.random.Generator) -> Whole:
    """Initial points, drawn with probability proportional to the squared distance to earlier ones."""
    values = points.astype(np.float32)
    lengths = np.einsum("ij,ij->i", values, values)
    chosen = [int(rng.integers(len(points)))]
    squares = np.full(len(points), np.inf)
    for _ in range(k - 1):
        last = chosen[-1]
        np.minimum(squares, lengths + lengths[last] - 2 * (values @ values[last]), out=squares)
        summed = np.cumsum(squares)
        chosen.append(int(np.searchsorted(summed, rng.random() * summed[-1], side="right")))
    return points[chosen]


def _means(points: npt.NDArray[np.int64], nearest: npt.NDArray[np.int64], words: Whole) -> Whole:
    """The rounded mean of each word's points."""
    from scipy.sparse import csr_array

    members = csr_array(
        (np.ones(len(points), np.int64), nearest, np.arange(len(points) + 1)), (len(points), len(words))
    )
    counts = np.bincount(nearest, minlength=len(words))
    sums = members.T @ points
    moved: Whole = ((2 * sums + counts[:, None]) // np.maximum(2 * counts[:, None], 1)).astype(np.uint8)
    lost = np.flatnonzero(counts == 0)
    if len(lost):
        gaps = ((points - words[nearest]) ** 2).sum(axis=1)
        moved[lost] = points[np.argsort(-gaps, kind="stable")[: len(lost)]]
    return moved


@dataclass(frozen=True, eq=False)
class VisualWords:
    """The visual words of every feature, and the size to which images are scaled.

    Args:
        words: By feature ("colour", "texture", "sift"): one row of integers per word.
        side: The shorter side of images, in pixels; larger ones are downscaled.
    """

    words: dict[str, Whole]
    side: int

    def __post_init__(self) -> None:
        """Refuses words and sides that a damaged file may contain."""
        if not self.side >= 1:
            raise LimnerError(f"visual words of images with a side of {self.side} pixels: expected at least 1")
        for name, words in self.words.items():
            if name not in DESCRIPTORS:
                raise UnknownName("image feature", name, DESCRIPTORS)
            if words.ndim != 2 or not len(words) or words.dtype != np.uint8:
                raise LimnerError(
                    f"visual words of {name!r} have shape {words.shape} and type {words.dtype}: expected one row of "
                    "uint8 per word"
                )

    @classmethod
    def fit(
        cls,
        images: Items,
        *,
        sizes: dict[str, int] | None = None,
        side: int = 192,
        max_images: int = IMAGES,
        points: int = POINTS,
        seed: int = 0,
        workers: int | None = None,
        progress: ProgressLike = None,
    ) -> VisualWords:
        """Learns words from points of images.

        Args:
            images: The images; at most `max_images` of them are sampled.
            sizes: Number of words by feature, `WORDS` by default; a feature that is left out is not used.
            side: The shorter side of images, in pixels.
            max_images: Maximum number of images to learn from.
            points: Number of points per image; all if it has fewer.
            seed: Seed for the choice of images, points and initial words.
            workers: Threads; all cores by default.
            progress: Called with (images done, images in total).
        """
        progress = as_progress(progress)
        sizes = dict(WORDS) if sizes is None else dict(sizes)
        _refuse_unknown(sizes)
        if not len(images) or side < 32 or points < 1 or max_images < 1:
            raise LimnerError(
                f"visual words from {len(images)} images (max_images={max_images}, points={points}, side={side}): "
                "expected at least 1 image, 1 point and a side of 32 pixels"
            )
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.permutation(len(images))[:max_images])
        seeds = rng.integers(2**32, size=len(drawn))

        def work(place: int) -> list[Whole]:
            with images.opened(int(drawn[place])) as opened:
                image = pixels(opened, side=side)
            generator = np.random.default_rng(seeds[place])
            return [_some(DESCRIPTORS[name](image).values, points, generator) for name in sizes]

        with threads(workers) as run:
            sampled = list(counted(run(work, range(len(drawn))), 1, len(drawn), progress))
            joined = [np.concatenate(part) for part in zip(*sampled, strict=True)]
            fitted = run(lambda pair: k_means(pair[0], pair[1], seed=seed), zip(joined, sizes.values(), strict=True))
            return cls(dict(zip(sizes, fitted, strict=True)), side)

    def count(self, image: Image, grid: int) -> list[npt.NDArray[np.uint16]]:
        """Counts of each feature's words in each cell of a grid over one image: (cells, words) per feature."""
        image_pixels = pixels(image, side=self.side)
        return [self._count_one(name, image_pixels, grid) for name in self.words]

    def _count_one(self, name: str, image: Pixels, grid: int) -> npt.NDArray[np.uint16]:
        from limner.systems.classic import _loops

        counts = np.zeros((grid * grid, len(self.words[name])), np.uint16)
        if name == "colour":  # looked up in a table of all colours
            steps, (height, width) = (image >> 2).astype(np.int32), image.shape[:2]
            places = (steps[..., 0] * _COLOUR_STEPS + steps[..., 1]) * _COLOUR_STEPS + steps[..., 2]
            rows, columns = _every_pixel(height, width)
            _loops.count_words(self._table.take(places.ravel()), rows, columns, height, width, grid, counts)
        else:
            points: Points = DESCRIPTORS[name](image)
            nearest = nearest_words(points.values, self.words[name])
            _loops.count_words(nearest, points.rows, points.columns, *points.size, grid, counts)
        return counts

    @cached_property
    def _table(self) -> npt.NDArray[np.int64]:
        """The word of every colour, quantised to 64 steps per channel; each step is represented by its centre."""
        steps = np.indices((_COLOUR_STEPS,) * 3).reshape(3, -1).T
        return nearest_words(lab((steps * 4 + 2).astype(np.uint8)), self.words["colour"])


@lru_cache(maxsize=8)
def _every_pixel(height: int, width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Row and column of every pixel; collections have few sizes of images, and several threads only read them."""
    rows, columns = np.divmod(np.arange(height * width, dtype=np.int64), width)
    return rows, columns


def _refuse_unknown(sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        if name not in DESCRIPTORS:
            raise UnknownName("image feature", name, DESCRIPTORS)
        if size < 1:
            raise LimnerError(f"{size} words of the feature {name!r}: expected at least 1")
    if not sizes:
        raise LimnerError(f"no image feature: expected some of {', '.join(DESCRIPTORS)}")


def _some(values: Whole, points: int, rng: np.random.Generator) -> Whole:
    return values if len(values) <= points else values[rng.choice(len(values), points, replace=False)]


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
        tensors: dict[str, Array] = {f"counts.{name}": np.ascontiguousarray(c) for name, c in self.counts.items()}
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
