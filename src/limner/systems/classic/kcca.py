"""Kernel canonical correlation analysis: maps two kernels over the same items into one space.

With centred kernels K_x and K_y of the training pairs, it finds the projections a and b with maximal correlation
(Hardoon, Szedmak & Shawe-Taylor 2004):

    max a'K_x K_y b   with   a'(K_x^2 + kappa K_x) a = 1,   b'(K_y^2 + kappa K_y) b = 1,
    (K_x + kappa I)^-1 K_y (K_y + kappa I)^-1 K_x a = lambda^2 a

With K_x = U D U' and K_y = V E V' this is the singular value decomposition of

    A = diag(s_x) U'V diag(s_y),   s = sqrt(d / (d + kappa)),   A = P diag(lambda) Q',
    a = U diag(1 / sqrt(d (d + kappa))) P,   b likewise with V, E and Q.

So each kernel is decomposed once (`spectrum`), each kappa takes one more decomposition (`KernelPair.solve`), and the
first n columns of a and b are the solution for every n. Multiplying the diagonal of a kernel whose diagonal is constant
adds the same number to every eigenvalue and leaves U unchanged, so it needs no new decomposition either. The sign of
each projection, which the decomposition leaves undetermined, is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.errors import LimnerError, UnknownName
from limner.core.reproducible_math import signs
from limner.systems.canonical import interruptible

Matrix = Array
Method = Literal["exact", "cholesky"]
_NOTHING = 1e-10  # eigenvalues below this share of the largest are rounding errors


def centred(kernel: Matrix) -> Matrix:
    """The centred kernel of the same items: H K H with H = I - 11'/n.

    >>> centred(np.array([[2.0, 0.0], [0.0, 2.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    means = kernel.mean(axis=0)
    return np.asarray(kernel - means - means[:, None] + means.mean())


def incomplete_cholesky(
    kernel: Matrix, *, rank: int | None = None, tolerance: float = 1e-6
) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """R with K ~ R R', column by column starting with the item with the largest residual: partial Gram-Schmidt.

        R[:, j] = (K[:, p] - R[:, :j] R[p, :j]') / sqrt(residual_p),   p = argmax residual,   residual = diag(K - R R')

    Fine & Scheinberg 2001; Hardoon, Szedmak & Shawe-Taylor 2004, section 4.2.

    Args:
        kernel: Positive semi-definite.
        rank: Maximum number of columns; the number of items by default.
        tolerance: Stops when no item has more than this share of the largest diagonal value unexplained.

    Returns:
        R, and the items that its columns correspond to, in that order.

    >>> factor, items = incomplete_cholesky(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> factor.tolist(), items.tolist()
    ([[2.0], [1.0]], [0])
    """
    size = len(kernel)
    max_rank = size if rank is None else min(rank, size)
    factor, pivots = np.zeros((size, max_rank)), np.zeros(max_rank, np.int64)
    residual = np.array(np.diagonal(kernel), dtype=np.float64)
    stop = tolerance * max(float(residual.max()), 0.0)
    for j in range(max_rank):
        p = int(residual.argmax())
        if residual[p] <= stop:
            return np.ascontiguousarray(factor[:, :j]), pivots[:j]
        column = (kernel[:, p] - factor[:, :j] @ factor[p, :j]) / np.sqrt(residual[p])
        factor[:, j], pivots[j] = column, p
        residual -= column**2
        residual[p] = 0.0
    return factor, pivots


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A centred kernel of the training items as U diag(values) U'.

    Args:
        vectors: U, items by directions, orthonormal and without the constant direction.
        values: Eigenvalues, in descending order; negative where the kernel is not positive semi-definite.
        means: Column means of the kernel before it was centred.
        diagonal: The diagonal value of the kernel; None if it varies.
    """

    vectors: Matrix
    values: npt.NDArray[np.float64]
    means: Matrix
    diagonal: float | None

    def coordinates(self, rows: Matrix) -> Matrix:
        """Coordinates of items along U from their kernel rows: similarities with every training item.

        Row means need not be subtracted, because U is orthogonal to constants.
        """
        return np.asarray((rows - self.means) @ self.vectors)

    def shifted(self, factor: float) -> npt.NDArray[np.float64]:
        """Eigenvalues of the kernel with its diagonal multiplied by `factor`, along the same directions."""
        if factor == 1:
            return self.values
        if self.diagonal is None:
            raise LimnerError(
                f"a diagonal times {factor:g} for a kernel with different values on its diagonal: expected a "
                "normalised kernel, or a factor of 1"
            )
        return self.values + (factor - 1) * self.diagonal


def spectrum(kernel: Matrix, *, method: Method = "exact", rank: int | None = None, tolerance: float = 1e-6) -> Spectrum:
    """Decomposes the kernel of the training items.

    Args:
        kernel: Items by items, symmetric.
        method: "exact" decomposes the kernel itself, "cholesky" its incomplete Cholesky factor, whose cost grows with
            the square of the rank.
        rank: Maximum number of leading eigenvectors to keep, or maximum rank of the Cholesky factor.
        tolerance: Tolerance of the Cholesky factor; see `incomplete_cholesky`.

    >>> spectrum(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])).values.round(6).tolist()
    [1.0, 1.0]
    """
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1] or len(kernel) < 3:
        raise LimnerError(f"a kernel of shape {kernel.shape}: expected items by items, at least 3 of them")
    if not np.isfinite(kernel).all():
        raise LimnerError(
            f"a kernel with {int((~np.isfinite(kernel)).sum())} values that are not finite: expected finite values only"
        )
    if rank is not None and rank < 1:
        raise LimnerError(f"rank={rank}: expected at least 1, or none for the whole kernel")
    means, diagonal = kernel.mean(axis=0), np.diagonal(kernel)
    constant = float(diagonal[0]) if np.ptp(diagonal) <= 1e-6 * abs(float(diagonal[0])) else None
    if method not in ("exact", "cholesky"):
        raise UnknownName("way to decompose a kernel", method, ("exact", "cholesky"))
    vectors, values = (
        _exact(kernel, rank)
        if method == "exact"
        else _from_factor(incomplete_cholesky(kernel, rank=rank, tolerance=tolerance)[0])
    )
    if not len(values) or not values[0] > 0:
        raise LimnerError(f"a kernel of {len(kernel)} items that are all identical: expected at least two that differ")
    return Spectrum(vectors, values, means, constant)


def _exact(kernel: Matrix, rank: int | None) -> tuple[Matrix, Matrix]:
    """The leading eigenvectors of the centred kernel without the constant one, which is shifted below all others."""
    centred_kernel = centred(kernel)
    centred_kernel = (centred_kernel + centred_kernel.T) / 2
    centred_kernel -= np.trace(centred_kernel) / len(
        centred_kernel
    )  # makes -trace the eigenvalue of the constant direction only
    values, vectors = interruptible(lambda: _eigh(centred_kernel))
    return np.ascontiguousarray(vectors[:, :0:-1][:, :rank]), values[:0:-1][:rank]


def _eigh(matrix: Matrix) -> tuple[Matrix, Matrix]:
    """The eigenvalues of a symmetric matrix, in ascending order, and its eigenvectors."""
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors


def _from_factor(factor: Matrix) -> tuple[Matrix, Matrix]:
    moved = factor - factor.mean(axis=0)
    values, turned = interruptible(lambda: _eigh(moved.T @ moved))
    is_positive = values > _NOTHING * max(float(values[-1]), 0.0) if len(values) else np.zeros(0, bool)
    values, turned = values[is_positive][::-1], turned[:, is_positive][:, ::-1]
    return np.asarray(moved @ (turned / np.sqrt(values))), values


@dataclass(frozen=True, eq=False)
class Directions:
    """The projections of one solution, in the coordinates of the two spectra, most correlated first.

    Args:
        correlations: lambda, in descending order.
        x: Coordinates of `KernelPair.x` by projections.
        y: Coordinates of `KernelPair.y` by projections.
    """

    correlations: Matrix
    x: Matrix
    y: Matrix

    def __len__(self) -> int:
        return len(self.correlations)


@dataclass(frozen=True, eq=False)
class KernelPair:
    """Two decomposed kernels of the same training items, in the same order.

    Args:
        x: The kernel of the images.
        y: The kernel of the texts.
        precision: Precision of the decompositions: "double", or "single", which takes half the time.
    """

    x: Spectrum
    y: Spectrum
    precision: str = "double"

    def __post_init__(self) -> None:
        """Refuses kernels of different items and unknown precisions."""
        if len(self.x.vectors) != len(self.y.vectors):
            raise LimnerError(
                f"kernels of {len(self.x.vectors)} and of {len(self.y.vectors)} items: expected the same pairs in both"
            )
        if self.precision not in ("double", "single"):
            raise UnknownName("precision", self.precision, ("double", "single"))

    @property
    def _type(self) -> type[np.floating]:
        return np.float64 if self.precision == "double" else np.float32

    @cached_property
    def _overlap(self) -> Matrix:
        """U'V, which is the same for all options."""
        one, text_vectors = self.x.vectors.T.astype(self._type), self.y.vectors.astype(self._type)
        return interruptible(lambda: np.asarray(one @ text_vectors))

    def solve(self, kappa: float, *, text_kappa: float | None = None, diagonal: float = 1.0) -> Directions:
        """All canonical projections for one kappa.

        Args:
            kappa: Regularisation; larger is smoother.
            text_kappa: Regularisation of the texts, if different.
            diagonal: d, the factor of the diagonal of the text kernel.
        """
        text_ridge = kappa if text_kappa is None else text_kappa
        if not kappa > 0 or not text_ridge > 0 or not diagonal >= 1:
            raise LimnerError(
                f"kappa={kappa}, text_kappa={text_kappa} and diagonal={diagonal}: expected kappa above 0 and a "
                "diagonal of 1 or more"
            )
        (rows, s_x, w_x), (columns, s_y, w_y) = (
            _scales(values, ridge, self._type)
            for values, ridge in ((self.x.values, kappa), (self.y.shifted(diagonal), text_ridge))
        )
        middle = self._overlap[:rows, :columns] * s_y
        middle *= s_x[:, None]
        correlations, left, right = interruptible(lambda: _singular(middle))
        directions = Directions(correlations, left, right)
        directions.x[:] *= w_x[:, None]
        directions.y[:] *= w_y[:, None]
        return directions


def _scales(values: Matrix, kappa: float, kind: type[np.floating]) -> tuple[int, Matrix, Matrix]:
    """The number of eigenvalues above the threshold and, for these, s and the weights of a (or b)."""
    count = int((values > _NOTHING * values[0]).sum())
    significant = values[:count]
    return (
        count,
        np.sqrt(significant / (significant + kappa)).astype(kind),
        (1 / np.sqrt(significant * (significant + kappa))).astype(kind),
    )


def _singular(middle: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Singular values and vectors, from the eigenvectors of the smaller of A A' and A'A."""
    if middle.shape[0] > middle.shape[1]:
        values, right, left = _singular(middle.T)
        return values, left, right
    squares, vectors = _eigh(middle @ middle.T)
    # Squaring halves the precision: smaller correlations are rounding errors.
    is_positive = squares > max(10 * np.finfo(middle.dtype).eps, _NOTHING) * squares[-1]
    values = np.sqrt(squares[is_positive][::-1])
    left = np.ascontiguousarray(vectors[:, is_positive][:, ::-1])
    left *= signs(left)
    return values, left, np.asarray((middle.T @ left) / values)
