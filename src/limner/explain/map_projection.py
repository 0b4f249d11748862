"""Projections of embeddings onto two dimensions, cached between runs, with a measure of their trustworthiness."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32, FloatArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import replacing
from limner.core.paths import vectors_folder
from limner.core.progress import SILENT, Progress, ProgressLike, as_progress

ITERATIONS = 1000
"""Iterations of t-SNE at most."""
_COUNTING = threading.Lock()
METHODS = ("tsne", "pca")
NEIGHBOURS = 10
"""Neighbours that trustworthiness compares."""
MEASURED = 2000
"""Points that trustworthiness is measured on; a random choice where there are more."""
REDUCED = 50
"""Dimensions that t-SNE begins with; principal components where there are more."""
FEW = 10
"""Points below which t-SNE has no neighbourhoods to keep, and principal components are drawn."""


@dataclass(frozen=True, eq=False)
class MapProjection:
    """Points in two dimensions.

    Args:
        points: Positions between 0 and 1, with the same scale along both axes.
        method: "tsne", "pca", or the name of another method's class.
        trustworthiness: 0 to 1; None with too few points.
        neighbours: Number of neighbours that it compares.
        measured_on: Number of points that it was measured on.
    """

    points: FloatArray
    method: str
    trustworthiness: float | None
    neighbours: int
    measured_on: int

    def __str__(self) -> str:
        """The method and its trustworthiness."""
        name = {"tsne": "t-SNE", "pca": "PCA"}.get(self.method, self.method)
        if self.trustworthiness is None:
            return f"{name}; too few points to measure its trustworthiness"
        return (
            f"{name}; trustworthiness {self.trustworthiness:.2f} (of {self.neighbours} neighbours, on "
            f"{self.measured_on:,} points)"
        )


class Reducer(Protocol):
    """Reduces rows to points, such as `umap.UMAP()` or a class of scikit-learn."""

    def fit_transform(self, rows: Float32, /) -> npt.ArrayLike:
        """The points, one row for each row."""


def project(
    vectors: npt.ArrayLike, method: str | Reducer = "tsne", *, seed: int = 0, progress: ProgressLike = None
) -> MapProjection:
    """Projects rows of vectors; for named methods the positions are cached and reused in the next run.

    Args:
        vectors: One row per point.
        method: "tsne", "pca", or an object with `fit_transform`.
        seed: Seed of random numbers.
        progress: Called with (iterations done, iterations at most).

    >>> rows = np.random.default_rng(0).standard_normal((50, 8))
    >>> print(project(rows, "pca"))
    PCA; trustworthiness 0.7... (of 10 neighbours, on 50 points)
    """
    progress = as_progress(progress)
    if isinstance(method, str) and method not in METHODS:
        raise UnknownName("projection", method, METHODS)
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    if len(rows) < 3:
        raise LimnerError(f"{len(rows)} points: a map needs 3 or more")
    if isinstance(method, str):
        points = _cached_points(f"{method} {seed}", rows, lambda: _reduced(rows, method, seed, progress))
        name = method
    else:
        points, name = np.asarray(method.fit_transform(rows), dtype=np.float64), type(method).__name__
    if points.shape != (len(rows), 2) or not np.isfinite(points).all():
        raise LimnerError(f"{name} gave points of shape {points.shape}: expected ({len(rows)}, 2), finite numbers")
    progress.step("measuring how reliable the map is")
    return MapProjection(_fitted(points), name, *_trust(rows, points, seed))


def _reduced(rows: Array, method: str, seed: int, progress: Progress) -> FloatArray:
    from sklearn.decomposition import PCA

    if method == "pca" or len(rows) < FEW:
        positions = PCA(2, random_state=seed).fit_transform(rows) if rows.shape[1] > 1 else np.c_[rows, 0 * rows]
        return np.asarray(positions, dtype=np.float64)
    from sklearn.manifold import TSNE

    if rows.shape[1] > REDUCED:
        rows = PCA(min(REDUCED, len(rows)), random_state=seed).fit_transform(rows)
    perplexity = min(30.0, (len(rows) - 1) / 3)
    options = {"init": "pca" if rows.shape[1] > 1 else "random", "perplexity": perplexity, "random_state": seed}
    with _iterations(progress) as counted:
        tsne = TSNE(2, max_iter=ITERATIONS, verbose=2 if counted else 0, **options)
        return np.asarray(tsne.fit_transform(rows), dtype=np.float64)


@contextmanager
def _iterations(progress: Progress) -> Iterator[bool]:
    """Counts the iterations that scikit-learn prints in this thread: it has no callback. One thread at a time."""
    if progress is SILENT or not _COUNTING.acquire(blocking=False):
        yield False
        return
    progress(0, ITERATIONS)
    stdout, sys.stdout = sys.stdout, _Counted(sys.stdout, progress)
    try:
        yield True
    finally:
        sys.stdout = stdout
        _COUNTING.release()


class _Counted(io.TextIOBase):
    """Standard output for a while: lines of this thread are counted and not shown, those of others are passed on."""

    def __init__(self, passed_to: Any, progress: Progress) -> None:
        self._thread, self._passed_to, self._progress = threading.get_ident(), passed_to, progress

    def write(self, text: str) -> int:
        if threading.get_ident() != self._thread:
            return int(self._passed_to.write(text))
        if match := re.search(r"Iteration (\d+)", text):
            self._progress(int(match[1]), ITERATIONS)
        return len(text)

    def flush(self) -> None:
        self._passed_to.flush()


def _fitted(points: FloatArray) -> FloatArray:
    """The points in a square from 0 to 1, centred."""
    low, high = points.min(axis=0), points.max(axis=0)
    side = float((high - low).max()) or 1.0
    placed: FloatArray = np.clip((points - (low + high) / 2) / side + 0.5, 0.0, 1.0)
    return placed


def _trust(rows: Array, points: FloatArray, seed: int) -> tuple[float | None, int, int]:
    """The trustworthiness, the number of neighbours, and the number of points."""
    from sklearn.manifold import trustworthiness

    chosen = np.arange(len(rows))
    if len(rows) > MEASURED:
        chosen = np.sort(np.random.default_rng(seed).choice(len(rows), MEASURED, replace=False))
    neighbours = min(NEIGHBOURS, (len(chosen) - 1) // 2)
    if neighbours < 1:
        return None, 0, len(chosen)
    value = trustworthiness(rows[chosen], points[chosen], n_neighbors=neighbours, metric="cosine")
    return float(value), neighbours, len(chosen)


def _cached_points(settings: str, rows: Array, make: Callable[[], FloatArray]) -> FloatArray:
    """Positions from the cache, or computed and written to it; an unreadable file is computed again."""
    import sklearn

    folder = vectors_folder()
    if folder is None:
        return make()
    about = f"{settings} scikit-learn {sklearn.__version__} {rows.shape}".encode()
    file = folder.parent / "maps" / f"{hashlib.sha256(about + rows.tobytes()).hexdigest()[:40]}.npz"
    try:
        with np.load(file, allow_pickle=False) as archive:
            points: FloatArray = np.asarray(archive["points"], dtype=np.float64)
            if points.shape == (len(rows), 2):
                return points
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        pass
    points = make()
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with replacing(file) as draft, draft.open("wb") as out:
            np.savez(out, points=points)
    except (OSError, LimnerError):  # the map is drawn all the same
        pass
    return points
