"""Training KCCA on pairs of images and texts, and choosing its settings on a dev split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limner.classic.kcca import Directions, Matrix, Method, Pair, Spectrum, spectrum
from limner.classic.models import KccaModel, Space
from limner.classic.pairs import (
    Documents,
    FeatureSource,
    documents_of,
    image_features,
    image_kernel,
    refuse_few,
    text_kernel,
)
from limner.classic.selection import KAPPAS, TASKS, Dev, Setting, Trial, best, fifteen, trials
from limner.collection import Collection
from limner.errors import LimnerError
from limner.scores import Progress

_SINGLE_FROM = 2000  # training images from which on single precision is used, where nothing is said


@dataclass(frozen=True, eq=False)
class Grid:
    """Settings that are tried.

    Args:
        kappas: Regularisations.
        diagonals: Factors of the diagonal of the texts' kernel.
        powers: Of the images' kernel.
        ns: Numbers of projections; 46 of them, evenly on a logarithmic scale, where left out.
    """

    kappas: Sequence[float] = KAPPAS
    diagonals: Sequence[float] = (1.0,)
    powers: Sequence[float] = (2.0,)
    ns: Sequence[int] | None = None

    def __post_init__(self) -> None:
        """Refuses an empty grid."""
        for name in ("kappas", "diagonals", "powers"):
            if not len(getattr(self, name)):
                raise LimnerError(f"no {name} to try: expected at least one")

    def __len__(self) -> int:
        return len(self.kappas) * len(self.diagonals) * len(self.powers)


@dataclass(frozen=True, eq=False)
class Rows:
    """Kernels of the training items with each other, and of the dev items with them, images before any power.

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
class Found:
    """What a search over a grid has found: all trials, and the solutions that are still among the chosen ones."""

    fuse: bool
    trials: list[Trial] = field(default_factory=list)
    _held: dict[tuple[float, float, float], tuple[Pair, Directions]] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, tuple[Setting, ...]]:
        """The chosen settings by task."""
        if self.fuse:
            return {task: fifteen(self.trials, task) for task in TASKS}
        one = best(self.trials)
        return dict.fromkeys(TASKS, (one,))

    def add(self, pair: Pair, found: Directions, measured: list[Trial]) -> None:
        """Takes a solution in, and lets go of those that no chosen setting needs: each is as large as a kernel."""
        self.trials += measured
        self._held[_solution(measured[0].setting)] = (pair, found)
        wanted = {_solution(s) for settings in self.settings.values() for s in settings}
        self._held = {key: held for key, held in self._held.items() if key in wanted}

    def spaces(self) -> tuple[Space, ...]:
        """The solutions of the chosen settings, each with as many projections as any of them needs."""
        chosen = [s for settings in self.settings.values() for s in settings]
        spaces = []
        for key, (pair, found) in self._held.items():
            largest = max((s for s in chosen if _solution(s) == key), key=lambda s: s.n)
            spaces.append(Space.of(pair, found, largest))
        return tuple(spaces)


def _solution(setting: Setting) -> tuple[float, float, float]:
    return setting.kappa, setting.diagonal, setting.power


def search(
    rows: Rows,
    dev: Dev,
    grid: Grid,
    *,
    fuse: bool = False,
    method: Method = "exact",
    rank: int | None = None,
    precision: str | None = None,
    progress: Progress | None = None,
) -> Found:
    """Tries every setting of a grid on the dev split.

    Args:
        rows: Kernels.
        dev: What is true on the dev split.
        grid: What is tried.
        fuse: Whether fifteen settings are kept for each task, or the one best for both.
        method: "exact", or "cholesky" for a low rank.
        rank: Of the Cholesky factors at most.
        precision: "double" or "single"; single from 2,000 training images on where nothing is said.
        progress: Called with (solutions done, solutions in all).
    """
    if rows.dev_images is None or rows.dev_texts is None:
        raise LimnerError("a search without dev rows: expected kernels of the dev items with the training items")
    found, done = Found(fuse), 0
    for power, pair in pairs_of(rows, grid.powers, method=method, rank=rank, precision=precision):
        options: dict[str, Any] = {"kappas": grid.kappas, "ns": grid.ns, "diagonals": grid.diagonals, "power": power}
        for directions, measured in trials(pair, dev, rows.dev_images**power, rows.dev_texts, **options):
            found.add(pair, directions, measured)
            done += 1
            if progress is not None:
                progress(done, len(grid))
    return found


def pairs_of(
    rows: Rows,
    powers: Sequence[float],
    *,
    method: Method = "exact",
    rank: int | None = None,
    precision: str | None = None,
) -> Iterator[tuple[float, Pair]]:
    """The two decomposed kernels for every power; that of the texts is decomposed once."""
    precise = precision or ("single" if len(rows.images) >= _SINGLE_FROM else "double")
    texts: Spectrum = spectrum(rows.texts, method=method, rank=rank)
    for power in powers:
        yield power, Pair(spectrum(rows.images**power, method=method, rank=rank), texts, precise)


def train(
    collection: Collection,
    *,
    dev: Collection | None = None,
    images: Any = "histogram",
    texts: Any = "bow",
    weights: str | None = None,
    features: FeatureSource = None,
    kappas: Sequence[float] = KAPPAS,
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
    progress: Progress | None = None,
) -> KccaModel:
    """KCCA of pictures and texts (Hodosh, Young & Hockenmaier 2013; `limner.classic.kcca` has the formulas).

    Args:
        collection: What to learn from: images, each with one or more texts.
        dev: Where settings are chosen; without it, the first kappa, diagonal and power and the most dimensions are
            taken.
        images: The image kernel: "pyramid" or "histogram" of visual words, "linear", "rbf" or "chi2" of features, or
            a kernel.
        texts: The text kernel: "bow", "trigrams", "tagrank", or a kernel.
        weights: Of words, for a text kernel by name: "idf", "root idf" (where left out) or "none".
        features: Of all images by id, in place of the pictures; an `Embeddings`, `Histograms`, or a file of either.
        kappas: Regularisations to try.
        diagonals: Factors of the diagonal of the texts' kernel to try.
        powers: Of the images' kernel, to try.
        dimensions: Numbers of projections to try; 46 of them up to as many as there are where left out.
        fuse: Fuse fifteen settings for each task by Borda count, as the paper does; there is no joint space then.
        method: "exact", or "cholesky" (partial Gram-Schmidt) for more items than can be decomposed.
        rank: Of the Cholesky factors at most.
        precision: "double" or "single"; single from 2,000 training images on where nothing is said.
        side: The shorter side of pictures in pixels.
        points: Points of each of 200 pictures that visual words are learned from.
        seed: Draws those.
        name: What reports call the system.
        workers: Threads; all cores by default.
        progress: Called with (pictures done, pictures in all).
    """
    refuse_few(collection)
    if fuse and dev is None:
        raise LimnerError("fuse=True needs a dev split to choose fifteen models on: give dev=, or leave fuse out")
    documents = documents_of(collection)
    options = {"side": side, "points": points, "seed": seed, "workers": workers}
    unfitted = image_kernel(images, options, features=features is not None), text_kernel(texts, weights)
    grid = Grid(kappas, diagonals, powers, (dimensions,) if isinstance(dimensions, int) else dimensions)
    solving: dict[str, Any] = {"method": method, "rank": rank, "precision": precision}
    kernel, words = _fitted(unfitted[0], collection, features), unfitted[1].fit(documents)
    held = image_features(kernel, collection.images, features, progress=progress)
    rows = Rows(kernel(held), words(documents))
    if dev is None:
        spaces, settings = _alone(rows, grid, solving)
    else:
        rows = _with_dev(rows, dev, kernel, held, features, words, documents)
        found = search(rows, Dev.of(dev), grid, fuse=fuse, **solving)
        spaces, settings = found.spaces(), found.settings
    return KccaModel(name, kernel, words, held, documents, spaces, settings)


def _fitted(kernel: Any, collection: Collection, features: FeatureSource) -> Any:
    """An image kernel fitted to training pictures, or to their features."""
    return kernel.fit(collection.images if features is None else image_features(kernel, collection.images, features))


def _with_dev(
    rows: Rows,
    dev: Collection,
    kernel: Any,
    held: Any,
    features: FeatureSource,
    words: Any,
    documents: Documents,
) -> Rows:
    images = kernel(image_features(kernel, dev.images, features), held)
    return Rows(rows.images, rows.texts, images, words([[text] for text in dev.texts.values], documents))


def _alone(
    rows: Rows, grid: Grid, solving: Mapping[str, Any]
) -> tuple[tuple[Space, ...], dict[str, tuple[Setting, ...]]]:
    """The first setting of a grid, where there is nothing to choose by."""
    power, pair = next(pairs_of(rows, grid.powers, **solving))
    solved = pair.solve(grid.kappas[0], diagonal=grid.diagonals[0])
    n = len(solved) if grid.ns is None else min(int(np.max(grid.ns)), len(solved))
    setting = Setting(grid.kappas[0], n, grid.diagonals[0], power)
    return (Space.of(pair, solved, setting),), dict.fromkeys(TASKS, (setting,))
