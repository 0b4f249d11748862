"""Closed-form maps of image and text vectors into one space: regularised canonical correlation analysis.

With centred A (images) and B (texts), paired, and covariances C_aa, C_bb, C_ab (Hotelling 1936; ridge: Vinod 1976;
directions weighted by their correlation: Gong et al. 2014):

    M = L_a^-1 C_ab L_b^-T,  L_a L_a^T = C_aa + ridge mean(diag C_aa) I,  L_b likewise;  M = U S V^T
    image a -> (a - mean) L_a^-T U S,   text b -> (b - mean) L_b^-T V S

The solution takes no iterations and no random numbers: the same pairs always give the same maps, and the sign of each
direction, which a decomposition leaves undetermined, is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.errors import LimnerError
from limner.core.interrupts import interruptible
from limner.core.portable import signs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """The affine map of one modality: (x - mean) @ weights."""

    mean: Matrix
    weights: Matrix

    def __call__(self, rows: Array | csr_array) -> Matrix:
        """Vectors in the joint space, from dense or sparse rows."""
        return np.asarray(rows @ self.weights - self.mean @ self.weights, dtype=np.float64)


def canonical_maps(
    images: Array, texts: csr_array, pairs: csr_array, *, ridge: float, dimensions: int
) -> tuple[Side, Side]:
    """The maps of images and texts into the joint space.

    Args:
        images: Dense, one row per image.
        texts: Sparse, one row per text.
        pairs: Sparse weights of the pairs, images by texts.
        ridge: Regularisation: this share of the mean variance is added to every variance.
        dimensions: Dimension of the joint space; lower if the rank of the data is lower.
    """
    shares = pairs / pairs.sum()
    of_image, of_text = (np.asarray(shares.sum(axis=axis)) for axis in (1, 0))
    centre, text_centre = of_image @ images.astype(np.float64), np.asarray(of_text @ texts)
    centred = images - centre
    within = centred.T @ (centred * of_image[:, None])
    text_within = (texts.T @ texts.multiply(of_text[:, None])).toarray() - np.outer(text_centre, text_centre)
    across = centred.T @ (shares @ texts).toarray()
    weights, text_weights = _directions(
        _smooth(within, ridge, "images"), _smooth(text_within, ridge, "texts"), across, dimensions
    )
    return Side(centre, weights), Side(text_centre, text_weights)


def _smooth(covariance: Matrix, ridge: float, what: str) -> Matrix:
    mean = float(np.trace(covariance)) / len(covariance)
    if not mean > 1e-12:
        raise LimnerError(f"the {what} to train on are all identical: expected at least two that differ")
    return covariance + ridge * mean * np.eye(len(covariance))


def _directions(within: Matrix, text_within: Matrix, across: Matrix, dimensions: int) -> tuple[Matrix, Matrix]:
    from scipy.linalg import solve_triangular

    # numpy's decompositions release the interpreter lock and scipy's do not, so only numpy's can be interrupted.
    lower, text_lower = (interruptible(partial(np.linalg.cholesky, each)) for each in (within, text_within))
    left = solve_triangular(lower, across, lower=True)
    whitened = solve_triangular(text_lower, left.T, lower=True)  # M transposed: texts by images
    squares, vectors = (
        part[..., -dimensions:] for part in interruptible(lambda: np.linalg.eigh(whitened @ whitened.T))
    )
    kept = squares > 1e-12
    vectors, correlations = vectors[:, kept][:, ::-1], np.sqrt(squares[kept][::-1])
    vectors = vectors * signs(vectors)
    text_weights = solve_triangular(text_lower.T, vectors * correlations, lower=False)
    weights = solve_triangular(lower.T, whitened.T @ vectors, lower=False)  # U S = M V
    return weights, text_weights
