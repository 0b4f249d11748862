"""Closed-form maps of image and text vectors into one space: regularised canonical correlation analysis.

With centred A (images) and B (texts), paired, and covariances C_aa, C_bb, C_ab (Hotelling 1936; ridge: Vinod 1976;
directions weighted by their correlation: Gong et al. 2014):

    M = L_a^-1 C_ab L_b^-T,  L_a L_a^T = C_aa + ridge mean(diag C_aa) I,  L_b likewise;  M = U S V^T
    image a -> (a - mean) L_a^-T U S,   text b -> (b - mean) L_b^-T V S

The solution takes no iterations and no random numbers: the same pairs always give the same maps, and the sign of each
direction, which a decomposition leaves undetermined, is fixed. `interruptible` runs a decomposition so that Ctrl-C can
interrupt it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.errors import LimnerError
from limner.core.reproducible_math import signs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from limner.core.collection import Collection

T = TypeVar("T")
LOOK = 0.2
"""Seconds between two checks for Ctrl-C."""


def interruptible(work: Callable[[], T]) -> T:
    """Runs a long call of compiled code, such as a decomposition, in a way that Ctrl-C can interrupt.

    Python handles signals only in the main thread, between two of its own instructions. So the call runs in a separate
    thread while the main thread waits. The call must release the GIL, as calls of numpy do and those of `scipy.linalg`
    do not. After an interrupt the call is abandoned and ends with the process.

    Args:
        work: The call. Outside the main thread it is simply called.

    >>> interruptible(lambda: 1 + 1)
    2
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised again below, where it belongs
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="limner work", daemon=True).start()
    while not ended.wait(LOOK):
        pass
    if errors:
        raise errors[0]
    return results[0]


Matrix = npt.NDArray[np.float64]
MOST_RIDGE = 1e6
"""Far beyond this, the smoothing leaves nothing of the covariance, and numbers overflow."""


@dataclass(frozen=True, eq=False)
class Side:
    """The affine map of one modality: (x - mean) @ weights."""

    mean: Matrix
    weights: Matrix

    def __post_init__(self) -> None:
        """Refuses what is no affine map, as a damaged file may hold."""
        if not (is_numeric(self.mean, 1) and is_numeric(self.weights, 2) and len(self.mean) == len(self.weights)):
            shapes = (getattr(part, "shape", type(part).__name__) for part in (self.mean, self.weights))
            raise LimnerError("a map with mean {} and weights {}: expected shapes (n,) and (n, m)".format(*shapes))

    def __call__(self, rows: Array | csr_array) -> Matrix:
        """Vectors in the joint space, from dense or sparse rows."""
        if rows.shape[1] != len(self.mean):
            raise LimnerError(
                f"vectors of {rows.shape[1]} dimensions for a map that was trained on {len(self.mean)}: use the "
                "encoder it was trained with, or train the model again"
            )
        return np.asarray(rows @ self.weights - self.mean @ self.weights, dtype=np.float64)


def is_numeric(array: object, ndim: int) -> bool:
    """Whether this is an array of real numbers with so many dimensions."""
    return isinstance(array, np.ndarray) and array.ndim == ndim and np.issubdtype(array.dtype, np.floating)


def pair_weights(collection: Collection) -> csr_array:
    """The grades of the relevant pairs, images by texts."""
    from scipy.sparse import csr_array

    pairs = collection.judgements.relevant.restrict(candidates=collection.texts.ids)
    return csr_array((pairs.grades, (pairs.rows, pairs.columns)), shape=(len(collection.images), len(collection.texts)))


def canonical_maps(
    images: Array, texts: csr_array | Array, pairs: csr_array, *, ridge: float, dimensions: int
) -> tuple[Side, Side]:
    """The maps of images and texts into the joint space.

    Args:
        images: Dense, one row per image.
        texts: Sparse or dense, one row per text.
        pairs: Sparse weights of the pairs, images by texts.
        ridge: Regularisation: this share of the mean variance is added to every variance.
        dimensions: Dimension of the joint space; lower if the rank of the data is lower.
    """
    shares = pairs / pairs.sum()
    of_image, of_text = (np.asarray(shares.sum(axis=axis)) for axis in (1, 0))
    centre, text_centre = of_image @ images.astype(np.float64), np.asarray(of_text @ texts)
    centred = images - centre
    image_covariance = centred.T @ (centred * of_image[:, None])
    text_within = _squares(texts, of_text) - np.outer(text_centre, text_centre)
    across = centred.T @ _dense(shares @ texts)
    weights, text_weights = _directions(
        _smooth(image_covariance, ridge, "images"), _smooth(text_within, ridge, "texts"), across, dimensions
    )
    return Side(centre, weights), Side(text_centre, text_weights)


def _squares(rows: csr_array | Array, weights: Matrix) -> Matrix:
    """Sums of weighted products of every two columns."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows.T @ (rows * weights[:, None]), dtype=np.float64)
    return _dense(rows.T @ rows.multiply(weights[:, None]))


def _dense(rows: csr_array | Array) -> Matrix:
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray(), dtype=np.float64)


def refuse_bad(collection: Collection, ridge: float, dimensions: int) -> None:
    """Refuses too few pairs to train on, and settings without a solution."""
    if len(collection.images) < 2 or not len(collection.judgements):
        raise LimnerError(
            f"{collection.name!r} has {len(collection.images)} images and {len(collection.judgements)} pairs to train "
            "on: expected at least 2 images with texts"
        )
    if not 0 < ridge <= MOST_RIDGE or dimensions < 1:
        raise LimnerError(
            f"ridge={ridge} and dimensions={dimensions}: expected a ridge above 0, at most {MOST_RIDGE:g}, and at "
            "least 1 dimension"
        )


def _smooth(covariance: Matrix, ridge: float, items: str) -> Matrix:
    mean = float(np.trace(covariance)) / len(covariance)
    if not mean > 1e-12:
        raise LimnerError(f"the {items} to train on are all identical: expected at least two that differ")
    return covariance + ridge * mean * np.eye(len(covariance))


def _directions(
    image_covariance: Matrix, text_within: Matrix, across: Matrix, dimensions: int
) -> tuple[Matrix, Matrix]:
    from scipy.linalg import solve_triangular

    # numpy's decompositions release the interpreter lock and scipy's do not, so only numpy's can be interrupted.
    lower, text_lower = (interruptible(partial(np.linalg.cholesky, each)) for each in (image_covariance, text_within))
    left = solve_triangular(lower, across, lower=True)
    whitened = solve_triangular(text_lower, left.T, lower=True)  # M transposed: texts by images
    squares, vectors = (
        part[..., -dimensions:] for part in interruptible(lambda: np.linalg.eigh(whitened @ whitened.T))
    )
    is_positive = squares > 1e-12
    vectors, correlations = vectors[:, is_positive][:, ::-1], np.sqrt(squares[is_positive][::-1])
    vectors = vectors * signs(vectors)
    text_weights = solve_triangular(text_lower.T, vectors * correlations, lower=False)
    weights = solve_triangular(lower.T, whitened.T @ vectors, lower=False)  # U S = M V
    return weights, text_weights
