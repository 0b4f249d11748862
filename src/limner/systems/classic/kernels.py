"""Kernels between images: histograms of visual words, spatial pyramids, and any feature matrix.

A kernel is created with its options, fitted to training images with `fit`, and then compares images: `kernel(a, b)`
gives (len(a), len(b)) similarities in float64. `a` and `b` are images (`Items`), or the output of `features`, which is
faster if images are compared more than once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.model_store import Content
from limner.core.options import checked
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.scores.parallel_blocks import counted, threads
from limner.systems.canonical import interruptible
from limner.systems.classic.visualwords import WORDS, VisualWords, WordHistograms

Matrix = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float32] | npt.NDArray[np.int32]
_ROWS = 64  # rows of a kernel block, so that they stay in the L2 cache


class FittedKernel(Protocol):
    """A kernel fitted to training items."""

    def __call__(self, a: Any, b: Any = None, /) -> Matrix:
        """Similarities of all pairs of a and b, or of a with itself if b is not given."""
        ...

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values and arrays."""
        ...


@runtime_checkable
class Kernel(Protocol):
    """A kernel with its options, before fitting."""

    def fit(self, items: Any, /) -> FittedKernel:
        """Learns the kernel's parameters from training items."""
        ...


@runtime_checkable
class Featured(Protocol):
    """A fitted kernel with a separate feature extraction step."""

    def features(self, items: object, /, *, progress: ProgressLike = None) -> Sized:
        """The features that the kernel compares."""
        ...


def intersections(
    a: Float32, b: Float32 | None = None, *, workers: int | None = None, progress: ProgressLike = None
) -> Matrix:
    """Histogram intersection: K(x, y) = sum_v min(x_v, y_v). Swain & Ballard 1991.

    Positive semi-definite for non-negative values (Barla, Odone & Verri 2003). Values are quantised to steps of about
    1e-9 of the largest sum, so that the sum is the same on every CPU, in any order.

    Args:
        a: One row per histogram.
        b: The histograms to compare with; `a` itself by default, which halves the work.
        workers: Threads; all cores by default.
        progress: Called with (rows done, rows in total).

    >>> a, b = np.array([[0.5, 0.5, 0.0]], dtype=np.float32), np.array([[0.2, 0.6, 0.2]], dtype=np.float32)
    >>> intersections(a, b).round(2)
    array([[0.7]])
    """
    progress = as_progress(progress)
    from limner.systems.classic import _loops

    rows = [np.ascontiguousarray(side, dtype=np.float64) for side in (a, b) if side is not None]
    step = _step(rows)
    rounded = [np.rint(side / step).astype(np.int32) for side in rows]
    return _in_blocks(_loops.intersections, rounded[0], None if b is None else rounded[1], workers, progress) * step


def _step(rows: Sequence[Matrix]) -> float:
    """The smallest power of two for which sums of rows fit into 32 bits, with a margin of one percent."""
    largest = max(float(side.sum(axis=1).max(initial=0.0)) for side in rows)
    return float(2.0 ** (np.frexp(1.01 * largest)[1] - 30))


def chi_squares(
    a: Float32, b: Float32 | None = None, *, workers: int | None = None, progress: ProgressLike = None
) -> Matrix:
    """Chi-squared distance: sum_v (x_v - y_v)^2 / (x_v + y_v), for non-negative values.

    Arguments as in `intersections`.

    >>> chi_squares(np.array([[1.0, 0.0]], dtype=np.float32), np.array([[0.5, 0.5]], dtype=np.float32)).round(3)
    array([[0.667]])
    """
    progress = as_progress(progress)
    from limner.systems.classic import _loops

    first = np.ascontiguousarray(a, dtype=np.float32)
    second = None if b is None else np.ascontiguousarray(b, dtype=np.float32)
    return _in_blocks(_loops.chi_squares, first, second, workers, progress)


def _in_blocks(
    loop: Callable[..., None], first: Rows, b: Rows | None, workers: int | None, progress: Progress
) -> Matrix:
    """Calls a compiled loop for blocks of rows, on threads; only the lower triangle if a is compared with itself."""
    second = first if b is None else b
    similarities = np.empty((len(first), len(second)))

    def work(low: int) -> None:
        high = min(low + _ROWS, len(first))
        compared = second[: high if b is None else len(second)]
        block = np.empty((high - low, len(compared)), first.dtype)
        loop(first[low:high], compared, block)
        similarities[low:high, : len(compared)] = block
        if b is None:
            similarities[:low, low:high] = block[:, :low].T

    with threads(workers) as run:
        for _ in counted(run(work, range(0, len(first), _ROWS)), _ROWS, len(first), progress):
            pass
    if b is None:
        for low in range(0, len(first), _ROWS):  # within a block, both halves were computed, and may differ in rounding
            part = similarities[low : low + _ROWS, low : low + _ROWS]
            part[:] = np.tril(part) + np.tril(part, -1).T
    return similarities


def raised(kernel: Matrix, power: float) -> Matrix:
    """A kernel to an element-wise power; integer powers use products, which every CPU rounds in the same way.

    >>> raised(np.array([[0.5, 3.0]]), 3.0).tolist()
    [[0.125, 27.0]]
    """
    if power == int(power) and 1 <= power <= 8:
        return np.asarray(reduce(np.multiply, [kernel] * int(power)))
    return np.asarray(kernel**power)


def pyramid_weights(levels: int) -> tuple[float, ...]:
    """Weights of the levels in the pyramid kernel, coarse to fine.

    K = I_L + sum_{l<L} (I_l - I_{l+1}) / 2^(L-l), written as a sum of intersections (Lazebnik, Schmid & Ponce 2006).
    No weight is negative, so the kernel is positive semi-definite.

    >>> pyramid_weights(3)
    (0.25, 0.25, 0.5)
    """
    last = levels - 1
    return tuple(2.0**-last if level == 0 else 2.0 ** (level - last - 1) for level in range(levels))


@dataclass(frozen=True)
class Pyramid:
    """The spatial pyramid kernel of Hodosh, Young & Hockenmaier 2013, section 3.3; with one level the histogram kernel.

    For each feature, with I_l the intersection of histograms summed over the 4^l cells of level l = 0, ..., L:

        K_f = I_L + sum_{l<L} (I_l - I_{l+1}) / 2^(L-l),    K = ((K_colour + K_texture + K_sift) / 3)^power

    Args:
        levels: 3 for the pyramid, 1 for plain histograms.
        power: p, the power to which the mean over features is raised.
        words: Number of visual words of each feature; a feature left out is not used.
        side: The shorter side of images, in pixels; larger ones are downscaled.
        images: Number of images that visual words are learned from.
        points: Number of points sampled from each.
        seed: Seed of this sample.
        workers: Threads; all cores by default.
    """

    levels: int = 3
    power: float = 1.0
    words: Mapping[str, int] = field(default_factory=lambda: MappingProxyType(WORDS))
    side: int = 192
    images: int = 200
    points: int = 1000
    seed: int = 0
    workers: int | None = None

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.levels not in (1, 2, 3):
            raise LimnerError(f"a pyramid of {self.levels} levels: expected 1, 2 or 3")
        if not self.power > 0:
            raise LimnerError(f"a kernel to the power of {self.power}: expected a power above 0 (2 or 3 are usual)")

    def fit(
        self,
        images: Items | WordHistograms,
        *,
        vocabulary: VisualWords | None = None,
        progress: ProgressLike = None,
    ) -> FittedPyramid:
        """Learns visual words from training images, unless a vocabulary is given or the histograms already have one."""
        if isinstance(images, WordHistograms):
            vocabulary = vocabulary or images.vocabulary or VisualWords({}, self.side)
        elif not isinstance(images, Items):
            raise LimnerError(
                "features that are plain vectors for a kernel of visual words: choose a kernel of features, "
                "images='linear', 'rbf' or 'chi2', or give histograms of visual words"
            )
        elif vocabulary is None:
            vocabulary = VisualWords.fit(
                images,
                sizes=dict(self.words),
                side=self.side,
                max_images=self.images,
                points=self.points,
                seed=self.seed,
                workers=self.workers,
                progress=progress,
            )
        return FittedPyramid(vocabulary, self.levels, self.power, self.workers)


@dataclass(frozen=True, eq=False)
class FittedPyramid:
    """A pyramid kernel with its visual words; without words it compares histograms only."""

    vocabulary: VisualWords
    levels: int = 3
    power: float = 1.0
    workers: int | None = None

    def features(self, items: Items | WordHistograms, /, *, progress: ProgressLike = None) -> WordHistograms:
        """Computes the histograms of images; given histograms are returned unchanged."""
        if isinstance(items, WordHistograms):
            self._names(items)
            return items
        if not self.vocabulary.words:
            raise LimnerError(
                f"{len(items)} images for a kernel of histograms whose visual words are not known: give their "
                f"histograms with features="
            )
        return WordHistograms.of(items, self.vocabulary, workers=self.workers, progress=progress)

    def __call__(
        self, a: Items | WordHistograms, b: Items | WordHistograms | None = None, /, *, progress: ProgressLike = None
    ) -> Matrix:
        """Similarities of all pairs, between 0 and 1."""
        first = self.vectors(self.features(a))
        second = None if b is None else self.vectors(self.features(b))
        mean = np.minimum(intersections(first, second, workers=self.workers, progress=progress), 1.0)
        return raised(mean, self.power)

    def vectors(self, histograms: WordHistograms) -> Float32:
        """The concatenated histograms of all features and levels, scaled so that their intersection is the kernel."""
        weights = pyramid_weights(self.levels)
        parts, names = [], self._names(histograms)
        for name in names:
            for level, weight in enumerate(weights):
                shares = histograms.level(name, level) * np.float32(weight / len(names))
                parts.append(shares.reshape(len(histograms), math.prod(shares.shape[1:])))
        return np.concatenate(parts, axis=1)

    def _names(self, histograms: WordHistograms) -> list[str]:
        """The features to compare; refuses histograms of other words."""
        names = list(self.vocabulary.words or histograms.counts)
        if not names:
            raise LimnerError(f"histograms of {len(histograms)} images without a feature: expected at least one")
        for name in names:
            if name not in histograms.counts:
                raise UnknownName("feature", name, histograms.counts, of="these histograms")
            width = histograms.counts[name].shape[2]
            if self.vocabulary.words and width != len(self.vocabulary.words[name]):
                raise LimnerError(
                    f"histograms of {width} {name} words for a kernel of {len(self.vocabulary.words[name])}: expected "
                    "histograms of the words that the kernel was fitted with"
                )
        return names

    def state(self) -> dict[str, object]:
        """The words and the options."""
        words = {f"words.{name}": centres for name, centres in self.vocabulary.words.items()}
        about = {"levels": self.levels, "power": self.power, "side": self.vocabulary.side}
        return {"kernel": "pyramid", "features": list(self.vocabulary.words), **about, **words}

    @classmethod
    def from_state(cls, state: Content) -> FittedPyramid:
        """Restores a kernel from its state."""
        words = {name: np.asarray(state[f"words.{name}"]) for name in state["features"]}
        if len(words) != sum(name.startswith("words.") for name in state):
            raise LimnerError(f"a pyramid kernel with the features {list(words)}: expected those of its words")
        options = checked(Pyramid, {name: state[name] for name in ("levels", "power", "side")}, what="pyramid kernel")
        kernel = Pyramid(**options)
        return cls(VisualWords(words, kernel.side), kernel.levels, kernel.power)


KINDS = ("linear", "rbf", "chi2")


@dataclass(frozen=True)
class Features:
    """A kernel between rows of any feature matrix.

        linear  x . y / (|x| |y|)
        rbf     exp(-gamma |x - y|^2)
        chi2    exp(-gamma sum_v (x_v - y_v)^2 / (x_v + y_v)), for non-negative features (Zhang et al. 2007)

    Args:
        kind: "linear", "rbf" or "chi2".
        gamma: 1 / the mean distance of training items by default.
        power: p, the power to which the kernel is raised.
    """

    kind: str = "rbf"
    gamma: float | None = None
    power: float = 1.0

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.kind not in KINDS:
            raise UnknownName("kernel of features", self.kind, KINDS)
        if self.gamma is not None and not self.gamma > 0:
            raise LimnerError(f"gamma={self.gamma}: expected a number above 0, or None to estimate it from the data")

    def fit(self, items: object, /) -> FittedFeatures:
        """Estimates gamma from the distances of the training items."""
        kernel = FittedFeatures(self.kind, self.gamma or 1.0, self.power)
        if self.kind == "linear" or self.gamma is not None:
            return kernel
        rows = kernel.features(items)
        mean = float(kernel.distances(rows[:: max(len(rows) // 2000, 1)]).mean())
        if not mean > 0:
            raise LimnerError(f"{len(rows)} rows of features are all equal: expected at least two that differ")
        return FittedFeatures(self.kind, 1.0 / mean, self.power)


@dataclass(frozen=True)
class FittedFeatures:
    """A kernel between rows of features with its gamma.

    >>> FittedFeatures("rbf", 0.5)(np.array([[0.0, 0.0], [1.0, 1.0]])).round(3).tolist()
    [[1.0, 0.368], [0.368, 1.0]]
    """

    kind: str
    gamma: float = 1.0
    power: float = 1.0

    def features(self, items: object, /, *, progress: ProgressLike = None) -> Float32:
        """The matrix itself."""
        if isinstance(items, Items):
            raise LimnerError(
                f"a kernel of features for {len(items)} images without features: give features= (-O features at the "
                "shell), Embeddings or a file with their ids"
            )
        rows = items.matrix if isinstance(items, Embeddings) else np.asarray(items)
        if rows.ndim != 2 or not np.issubdtype(rows.dtype, np.number):
            raise LimnerError(
                f"features of shape {rows.shape} and type {rows.dtype}: expected one row of numbers per item"
            )
        if self.kind == "chi2" and rows.size and rows.min() < 0:
            raise LimnerError(
                f"the smallest feature is {rows.min():g}: chi2 needs features of at least 0; use rbf or linear"
            )
        return np.ascontiguousarray(rows, dtype=np.float32)

    def distances(self, a: Float32, b: Float32 | None = None) -> Matrix:
        """Squared Euclidean or chi-squared distances."""
        if self.kind == "chi2":
            return chi_squares(a, b)
        x = a.astype(np.float64)
        y = x if b is None else b.astype(np.float64)
        squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * interruptible(lambda: x @ y.T)
        return np.asarray(np.maximum(squares, 0.0))

    def __call__(self, a: object, b: object = None, /) -> Matrix:
        """Similarities of all pairs."""
        first = self.features(a)
        second = None if b is None else self.features(b)
        if self.kind == "linear":
            x, y = _unit(first), _unit(first if second is None else second)
            mean = interruptible(lambda: x @ y.T)
        else:
            mean = np.exp(-self.gamma * self.distances(first, second))
        if second is None:
            np.fill_diagonal(mean, 1.0)
        return raised(np.asarray(mean), self.power)

    def state(self) -> dict[str, object]:
        """The options and gamma."""
        return {"kernel": "features", "kind": self.kind, "gamma": self.gamma, "power": self.power}

    @classmethod
    def from_state(cls, state: Content) -> FittedFeatures:
        """Restores a kernel from its state."""
        options = {name: state[name] for name in ("kind", "gamma", "power")}
        kernel = Features(**checked(Features, options, what="kernel of features"))
        if kernel.gamma is None:
            raise LimnerError("a fitted kernel of features without gamma: expected a number above 0")
        return cls(kernel.kind, kernel.gamma, kernel.power)


def _unit(rows: Float32) -> Matrix:
    values = rows.astype(np.float64)
    lengths = np.sqrt((values**2).sum(axis=1, keepdims=True))
    return np.asarray(values / np.where(lengths > 0, lengths, 1.0))
