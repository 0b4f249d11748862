"""Choosing the settings of KCCA on a dev split: every kappa, diagonal and power, and for each of them every n.

One solution gives all projections. Adding them one by one, most correlated first, gives the dot products, and so the
ranks, for every n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import ProgressLike, as_progress
from limner.core.reproducible_math import rounded_to_bits
from limner.systems.canonical import interruptible
from limner.systems.classic.kcca import Directions, KernelPair, Matrix

KAPPAS = (0.1, 0.5, 1.0, 5.0)
DIAGONALS = (1.0, 5.0, 15.0)
POWERS = (2.0, 3.0)
"""The grid for the ranking paper's systems (Hodosh et al. 2013, section 4.1.3): its kappas and powers. Its diagonal
factors are "in the range of (1, 15)"; both ends and one value between them are tried."""
DEPTHS = (1, 5, 10)
TASKS = ("i2t", "t2i")
"""Annotation (image queries) and search (text queries)."""


def sizes(smallest: int = 10, largest: int = 6000, count: int = 46) -> tuple[int, ...]:
    """Values of n, evenly spaced on a logarithmic scale; always including the smallest and the largest.

    >>> sizes(10, 6000)[:4], sizes(10, 6000)[-2:], len(sizes(10, 6000))
    ((10, 12, 13, 15), (5205, 6000), 46)
    """
    if not 1 <= smallest <= largest:
        raise LimnerError(f"sizes from {smallest} to {largest}: expected 1 or more, the smallest first")
    return tuple(int(n) for n in np.unique(np.rint(np.geomspace(smallest, largest, count)).astype(int)))


@dataclass(frozen=True, order=True)
class Setting:
    """The hyperparameters of one KCCA model.

    Args:
        kappa: Regularisation.
        n: Number of projections.
        diagonal: d, the factor of the diagonal of the text kernel.
        power: p, the power of the image kernel.
        text_kappa: Regularisation of the texts; kappa by default, as in the paper.
    """

    kappa: float
    n: int
    diagonal: float = 1.0
    power: float = 1.0
    text_kappa: float = 0.0

    def __post_init__(self) -> None:
        """Fills in the regularisation of the texts."""
        if not self.text_kappa:
            object.__setattr__(self, "text_kappa", self.kappa)

    @property
    def solution(self) -> tuple[float, ...]:
        """The key of the solution for this setting."""
        return self.kappa, self.text_kappa, self.diagonal, self.power


@dataclass(frozen=True)
class Trial:
    """The result of one setting on the dev split.

    Args:
        setting: The setting.
        recalls: By task: R@1, R@5, R@10.
        median: By task: the median rank of the first relevant item.
    """

    setting: Setting
    recalls: Mapping[str, tuple[float, ...]]
    median: Mapping[str, float]

    def merit(self, task: str, depth: int) -> tuple[float, ...]:
        """Sort key of trials: R@depth, then the sum of the recalls, then the median rank, then fewer projections."""
        recalls = self.recalls[task]
        return (recalls[DEPTHS.index(depth)], sum(recalls), -self.median[task], -float(self.setting.n))


@dataclass(frozen=True, eq=False)
class Dev:
    """The dev split: which texts are relevant to which images.

    Args:
        indptr: By task: positives of query q are `indptr[q]:indptr[q + 1]`.
        columns: By task: the positives.
    """

    indptr: Mapping[str, npt.NDArray[np.int64]]
    columns: Mapping[str, npt.NDArray[np.int64]]

    @classmethod
    def of(cls, collection: Collection) -> Dev:
        """The relevant pairs of a collection."""
        texts = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
        views = {"i2t": texts, "t2i": texts.T}
        return cls({t: v.indptr for t, v in views.items()}, {t: v.columns for t, v in views.items()})

    def ranks(self, task: str, products: Matrix, lengths: Matrix) -> npt.NDArray[np.float64]:
        """The rank of the first relevant candidate of each query that has one, by cosine similarity.

        Args:
            task: "i2t" or "t2i".
            products: Dot products of images (rows) and texts (columns).
            lengths: Norms of the candidates.
        """
        from limner.systems.classic import _loops

        of_texts = task == "t2i"
        best_ranks = np.empty(products.shape[of_texts])
        count = _loops.places_of_columns if of_texts else _loops.places
        count(products, lengths, self.indptr[task], self.columns[task], best_ranks)
        return best_ranks[np.diff(self.indptr[task]) > 0]


def trials(
    pair: KernelPair,
    dev: Dev,
    image_rows: Matrix,
    text_rows: Matrix,
    *,
    kappas: Sequence[float] = KAPPAS,
    text_kappas: Sequence[float] | None = None,
    ns: Sequence[int] | None = None,
    diagonals: Sequence[float] = (1.0,),
    power: float = 1.0,
    progress: ProgressLike = None,
) -> Iterator[tuple[Directions, list[Trial]]]:
    """Solves for every kappa and diagonal, and measures every n of each solution on the dev split.

    Args:
        pair: The two training kernels.
        dev: The relevant pairs.
        image_rows: Kernel rows of the dev images: similarities with every training image.
        text_rows: Kernel rows of the dev texts.
        kappas: Regularisations.
        text_kappas: Regularisations of the texts, combined with every kappa; the same as kappa by default.
        ns: Numbers of projections; by default `sizes` up to all projections.
        diagonals: Factors of the diagonal of the text kernel.
        power: The power of the image kernel; only recorded.
        progress: Called with (solutions done, solutions in total).

    Yields:
        A solution, and the results of its settings.
    """
    progress = as_progress(progress)
    images, texts = interruptible(lambda: (pair.x.coordinates(image_rows), pair.y.coordinates(text_rows)))
    plan = [
        Setting(kappa, 0, diagonal, power, text_kappa)
        for diagonal in diagonals
        for kappa in kappas
        for text_kappa in text_kappas or (kappa,)
    ]
    for done, setting in enumerate(plan, start=1):
        directions = pair.solve(setting.kappa, text_kappa=setting.text_kappa, diagonal=setting.diagonal)
        yield directions, interruptible(partial(_measured, directions, dev, images, texts, ns, setting))
        progress(done, len(plan))


def _measured(
    directions: Directions, dev: Dev, images: Matrix, texts: Matrix, ns: Sequence[int] | None, setting: Setting
) -> list[Trial]:
    """One trial for each n: dot products and norms are accumulated as projections are added."""
    kind = directions.x.dtype
    x = _steady(images[:, : len(directions.x)].astype(kind) @ directions.x)
    y = _steady(texts[:, : len(directions.y)].astype(kind) @ directions.y)
    products, block_products = np.zeros((2, len(x), len(y)), kind)
    squares_x, squares_y = np.zeros(len(x)), np.zeros(len(y))
    trials, low = [], 0
    for n in _direction_counts(ns, len(directions)):
        products += np.matmul(x[:, low:n], y[:, low:n].T, out=block_products)
        squares_x += np.einsum("ij,ij->i", x[:, low:n], x[:, low:n], dtype=np.float64)
        squares_y += np.einsum("ij,ij->i", y[:, low:n], y[:, low:n], dtype=np.float64)
        low = n
        ranks = {
            "i2t": dev.ranks("i2t", products, _length(squares_y)),
            "t2i": dev.ranks("t2i", products, _length(squares_x)),
        }
        trials.append(_trial(replace(setting, n=n), ranks))
    return trials


def _steady(projections: Matrix) -> Matrix:
    """Projections rounded to integers, so that every product and sum below is exact.

    So the ranks, and with them the chosen setting, are the same on every CPU, and identical texts tie.
    """
    if projections.dtype != np.float64:
        return projections
    return rounded_to_bits(projections, (52 - projections.shape[1].bit_length()) // 2)


def _direction_counts(ns: Sequence[int] | None, max_directions: int) -> list[int]:
    counts = sizes(min(10, max_directions), max_directions) if ns is None else ns
    return sorted({min(int(n), max_directions) for n in counts if n >= 1})


def _length(squares: Matrix) -> Matrix:
    """Euclidean norms; an item at the origin gets an infinite norm, so its cosine similarity is 0."""
    return np.asarray(np.sqrt(np.where(squares > 0, squares, np.inf)))


def _trial(setting: Setting, ranks: Mapping[str, npt.NDArray[np.float64]]) -> Trial:
    recalls = {
        task: tuple(float((task_ranks <= depth).mean()) for depth in DEPTHS) for task, task_ranks in ranks.items()
    }
    return Trial(setting, recalls, {task: float(np.median(positions)) for task, positions in ranks.items()})


def best(all_trials: Sequence[Trial]) -> Setting:
    """The one setting with the largest sum of recalls over both tasks."""
    return max(all_trials, key=lambda t: (sum(sum(r) for r in t.recalls.values()), -t.setting.n)).setting


def fifteen(all_trials: Sequence[Trial], task: str, *, each: int = 5) -> tuple[Setting, ...]:
    """Different settings to fuse: the `each` best by R@1, then the `each` best of the others by R@5, then by R@10.

    Hodosh, Young & Hockenmaier 2013, section 4.1.3.

    Args:
        all_trials: All trials.
        task: "i2t" or "t2i".
        each: How many for each of the three measures.
    """
    if task not in TASKS:
        raise UnknownName("task", task, TASKS)
    chosen: list[Setting] = []
    for depth in DEPTHS:
        left = [t for t in all_trials if t.setting not in chosen]
        chosen += [t.setting for t in sorted(left, key=lambda t: t.merit(task, depth), reverse=True)[:each]]
    return tuple(chosen)
