"""Training KCCA on pairs of images and texts, and choosing its settings on a dev split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypedDict

import numpy as np

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.progress import Progress, ProgressLike, Stages, as_progress, progress_for
from limner.systems.classic.kcca import Directions, KernelPair, Matrix, Method, Spectrum, spectrum
from limner.systems.classic.kernel_model import (
    FeatureSource,
    WordSampling,
    documents_of,
    features_file,
    fit_images,
    image_features,
    image_kernel,
    refuse_few,
    text_kernel,
)
from limner.systems.classic.kernels import Kernel, raised
from limner.systems.classic.models import KccaModel, Space
from limner.systems.classic.selection import (
    DIAGONALS,
    KAPPAS,
    POWERS,
    TASKS,
    Dev,
    Setting,
    Trial,
    best,
    fifteen,
    trials,
)
from limner.systems.classic.visualwords import IMAGES as WORD_IMAGES
from limner.systems.classic.visualwords import POINTS as PAPER_POINTS
from limner.systems.hold_out import TrainedOn

PAPER: Mapping[str, object] = MappingProxyType(
    {"kappas": KAPPAS, "text_kappas": None, "diagonals": DIAGONALS, "powers": POWERS, "points": PAPER_POINTS}
)
"""Options of `train` for the ranking paper's systems: its grid, and its number of points for visual words."""
_SINGLE_FROM = 2000  # with at least this many training images, single precision is the default


@dataclass(frozen=True, eq=False)
class KccaGrid:
    """The hyperparameter grid.

    Args:
        kappas: Regularisations.
        text_kappas: Regularisations of the texts, combined with every kappa; the same as kappa by default, as in the
            paper.
        diagonals: Factors of the diagonal of the text kernel.
        powers: Powers of the image kernel.
        ns: Numbers of projections; by default 46 values, evenly spaced on a logarithmic scale.
    """

    kappas: Sequence[float] = KAPPAS
    diagonals: Sequence[float] = (1.0,)
    powers: Sequence[float] = (2.0,)
    ns: Sequence[int] | None = None
    text_kappas: Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Refuses an empty grid."""
        for name in ("kappas", "diagonals", "powers"):
            if not len(getattr(self, name)):
                raise LimnerError(f"the grid has no {name}: expected at least one")

    def __len__(self) -> int:
        return len(self.kappas) * len(self.text_kappas or (0,)) * len(self.diagonals) * len(self.powers)


class Solving(TypedDict):
    """How kernels are decomposed: see `pairs_of`."""

    method: Method
    rank: int | None
    precision: str | None


@dataclass(frozen=True, eq=False)
class Rows:
    """Kernels between training items, and between dev and training items; the image kernel before any power.

    Args:
        images: Training images with each other.
        texts: Training documents with each other.
        dev_images: Dev images by training images; None without a dev split.
        dev_texts: Dev texts by training documents.
    """

    images: Matrix
    texts: Matrix
    dev_images: Matrix | None = None
    dev_texts: Matrix | None = None


@dataclass(eq=False)
class GridSearch:
    """The state of a grid search: all trials, and the solutions of the settings that are currently chosen."""

    fuse: bool
    trials: list[Trial] = field(default_factory=list)
    _held: dict[tuple[float, ...], tuple[KernelPair, Directions]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, tuple[Setting, ...]]:
        """The chosen settings by task."""
        if self.fuse:
            return {task: fifteen(self.trials, task) for task in TASKS}
        one = best(self.trials)
        return dict.fromkeys(TASKS, (one,))

    def add(self, pair: KernelPair, directions: Directions, measured: list[Trial]) -> None:
        """Adds a solution, and drops solutions that no chosen setting needs, since each is as large as a kernel."""
        self.trials += measured
        self._held[measured[0].setting.solution] = (pair, directions)
        solutions = {s.solution for settings in self.settings.values() for s in settings}
        self._held = {key: solution for key, solution in self._held.items() if key in solutions}

    def spaces(self) -> tuple[Space, ...]:
        """The solutions of the chosen settings, each with the largest number of projections that a setting needs."""
        chosen = [s for settings in self.settings.values() for s in settings]
        spaces = []
        for key, (pair, directions) in self._held.items():
            largest = max((s for s in chosen if s.solution == key), key=lambda s: s.n)
            spaces.append(Space.of(pair, directions, largest))
        return tuple(spaces)


def search(
    rows: Rows,
    dev: Dev,
    grid: KccaGrid,
    *,
    fuse: bool = False,
    method: Method = "exact",
    rank: int | None = None,
    precision: str | None = None,
    progress: ProgressLike = None,
) -> GridSearch:
    """Tries every setting of a grid on the dev split.

    Args:
        rows: Kernels.
        dev: The relevant pairs of the dev split.
        grid: The grid.
        fuse: Whether to keep fifteen settings per task, or the one that is best for both tasks.
        method: "exact", or "cholesky" for a low rank.
        rank: Maximum rank of each kernel (leading eigenvectors), or of the Cholesky factors.
        precision: "double" or "single"; by default single from 2,000 training images.
        progress: Called with (work done, work in total): a decomposed kernel or a solution counts as one.
    """
    progress = as_progress(progress)
    if rows.dev_images is None or rows.dev_texts is None:
        raise LimnerError("a grid search needs the kernels between dev and training items")
    grid_search = GridSearch(fuse)
    count_done = _counting(progress, 1 + len(grid.powers) + len(grid))
    for power, pair in pairs_of(rows, grid.powers, method=method, rank=rank, precision=precision, progress=count_done):
        for directions, measured in trials(
            pair,
            dev,
            raised(rows.dev_images, power),
            rows.dev_texts,
            kappas=grid.kappas,
            text_kappas=grid.text_kappas,
            ns=grid.ns,
            diagonals=grid.diagonals,
            power=power,
        ):
            grid_search.add(pair, directions, measured)
            count_done(1)
    return grid_search


def _counting(progress: Progress, total: int) -> Callable[[int], None]:
    """Reports progress in decomposed kernels and solutions, which take about the same time."""
    done = 0

    def count(steps: int) -> None:
        nonlocal done
        done += steps
        progress(done, total)

    count(0)
    return count


def pairs_of(
    rows: Rows,
    powers: Sequence[float],
    *,
    method: Method = "exact",
    rank: int | None = None,
    precision: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[float, KernelPair]]:
    """The two decomposed kernels for every power; the text kernel is decomposed once."""
    precise = precision or ("single" if len(rows.images) >= _SINGLE_FROM else "double")
    texts: Spectrum = spectrum(rows.texts, method=method, rank=rank)
    progress(1)
    for power in powers:
        images = spectrum(raised(rows.images, power), method=method, rank=rank)
        progress(1)
        yield power, KernelPair(images, texts, precise)


def train(
    collection: Collection,
    *,
    dev: Collection | None = None,
    images: str | Kernel = "histogram",
    texts: str | Kernel = "bow",
    weights: str | None = None,
    features: FeatureSource = None,
    kappas: Sequence[float] = (0.1, 0.03, 0.5),
    text_kappas: Sequence[float] | None = (5.0, 1.0, 20.0),
    diagonals: Sequence[float] = (1.0,),
    powers: Sequence[float] = (1.0, 2.0),
    dimensions: Sequence[int] | int | None = None,
    fuse: bool = False,
    method: Method = "exact",
    rank: int | None = None,
    precision: str | None = None,
    side: int = 192,
    points: int = 250,
    seed: int = 0,
    name: str = "kcca",
    workers: int | None = None,
    progress: ProgressLike = None,
) -> KccaModel:
    """KCCA of images and texts (Hodosh, Young & Hockenmaier 2013; `limner.systems.classic.kcca` has the formulas).

    Args:
        collection: The training collection: images, each with one or more texts.
        dev: Split on which settings are chosen; without it, the first kappa, diagonal and power and the largest number
            of dimensions are used.
        images: The image kernel: "pyramid" or "histogram" of visual words, "linear", "rbf" or "chi2" of features, or
            a kernel.
        texts: The text kernel: "bow", "trigrams", "tagrank", "chunks", or a kernel.
        weights: Word weights for a named text kernel: "idf", "root idf" (by default) or "none".
        features: Precomputed features of all images by id; an `Embeddings`, `Histograms`, or a file of
            either.
        kappas: Regularisations to try.
        text_kappas: Regularisations of the texts, combined with every kappa; None for the same as kappa, as in the
            paper.
        diagonals: Factors of the diagonal of the text kernel to try.
        powers: Powers of the image kernel to try.
        dimensions: Numbers of projections to try; by default 46 values up to all projections.
        fuse: Whether to fuse fifteen settings per task by Borda count, as in the paper; there is no joint space then.
        method: "exact", or "cholesky" (partial Gram-Schmidt) for collections too large to decompose.
        rank: Maximum rank of each kernel (leading eigenvectors), or of the Cholesky factors; no limit by default.
        precision: "double" or "single"; by default single from 2,000 training images.
        side: The shorter side of images in pixels.
        points: Number of points sampled from each of 200 images to learn visual words.
        seed: Seed of this sample.
        name: Name of the system in reports.
        workers: Threads; all cores by default.
        progress: Called with (work done, work in total), counted in images.
    """
    progress = as_progress(progress)
    refuse_few(collection)
    if fuse and dev is None:
        raise LimnerError("fuse=True needs a dev split to choose fifteen models on: give dev=, or leave fuse out")
    sampling: WordSampling = {"side": side, "points": points, "seed": seed, "workers": workers}
    kernels = image_kernel(images, features=features is not None, **sampling), text_kernel(texts, weights)
    ns = (dimensions,) if isinstance(dimensions, int) else dimensions
    grid = KccaGrid(kappas, diagonals, powers, ns, text_kappas)
    solving: Solving = {"method": method, "rank": rank, "precision": precision}
    return _learned(collection, dev, kernels, features, grid, fuse, solving, name, progress)


def _learned(
    collection: Collection,
    dev: Collection | None,
    kernels: tuple[Kernel, Kernel],
    features: FeatureSource,
    grid: KccaGrid,
    fuse: bool,
    solving: Solving,
    name: str,
    progress: Progress,
) -> KccaModel:
    """Fits and computes the kernels, and solves for every setting, or only for the first one without a dev split."""
    stages = _stages(progress, collection, dev, features, grid)
    if (start := stages["texts"]) is not None:
        start(0, 1)  # so that the amount of work is known from the first second on
    documents = documents_of(collection)
    words = kernels[1].fit(documents, **progress_for(kernels[1].fit, stages["texts"]))
    kernel = fit_images(kernels[0], collection, features, progress=stages["words"])
    training_features = image_features(kernel, collection.images, features, progress=stages["images"])
    rows = Rows(kernel(training_features), words(documents))
    if dev is None:
        spaces, settings = _alone(rows, grid, solving, _counting(stages["solutions"], 3))
    else:
        dev_features = image_features(kernel, dev.images, features, progress=stages["dev"])
        rows = replace(
            rows,
            dev_images=kernel(dev_features, training_features),
            dev_texts=words([[t] for t in dev.texts.values], documents),
        )
        grid_search = search(rows, Dev.of(dev), grid, fuse=fuse, progress=stages["solutions"], **solving)
        spaces, settings = grid_search.spaces(), grid_search.settings
    record, file = TrainedOn.of(collection), features_file(features)
    return KccaModel(
        name, kernel, words, training_features, documents, spaces, settings, trained_on=record, features_file=file
    )


def _stages(
    progress: Progress, collection: Collection, dev: Collection | None, features: FeatureSource, grid: KccaGrid
) -> Stages:
    """The cost of the stages, in images: five documents count as one, a decomposed kernel or a solution as ten."""
    images = {"images": len(collection.images), "dev": 0 if dev is None else len(dev.images)}
    if features is not None:
        images = dict.fromkeys(images, 0)
    words = 0 if features is not None else min(2 * WORD_IMAGES, len(collection.images))
    texts, solutions = -(-len(collection.images) // 5), 10 * (1 + len(grid.powers) + len(grid))
    return Stages(progress, texts=texts, words=words, **images, solutions=solutions)


def _alone(
    rows: Rows, grid: KccaGrid, solving: Solving, count_done: Callable[[int], None]
) -> tuple[tuple[Space, ...], dict[str, tuple[Setting, ...]]]:
    """The solution for the first setting of a grid, without a dev split."""
    power, pair = next(pairs_of(rows, grid.powers, progress=count_done, **solving))
    text_kappa = (grid.text_kappas or grid.kappas)[0]
    solved = pair.solve(grid.kappas[0], text_kappa=text_kappa, diagonal=grid.diagonals[0])
    count_done(1)
    n = len(solved) if grid.ns is None else min(int(np.max(grid.ns)), len(solved))
    setting = Setting(grid.kappas[0], n, grid.diagonals[0], power, text_kappa)
    return (Space.of(pair, solved, setting),), dict.fromkeys(TASKS, (setting,))
