"""The modality gap: images and texts form separate clusters in an embedding space (Liang et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limner.core.arrays import Array, FloatArray
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError

RIDGE = 1e-3
"""Regularisation of the within-modality covariance, as a share of its mean variance, so that it is invertible."""


@dataclass(frozen=True)
class ModalityGap:
    """The gap between images and texts in an embedding space.

    Args:
        distance: ||mean of the unit image vectors - mean of the unit text vectors||, from 0 to 2.
        separability: Balanced accuracy of a linear classifier of images against texts, on held-out vectors; about 0.5
            if the two cannot be told apart, 1 if they are linearly separable.
        images: Number of image vectors.
        texts: Number of text vectors.
    """

    distance: float
    separability: float
    images: int
    texts: int


def modality_gap(images: object, texts: object) -> ModalityGap:
    """Measures the modality gap of image and text embeddings.

    The distance is ||1/n sum x_i/||x_i|| - 1/m sum y_j/||y_j|| ||, the length of the gap of Liang et al. 2022, "Mind
    the gap". Separability is measured with Fisher's linear discriminant, w = S^-1 (mx - my), where S is the covariance
    within modalities and the threshold is halfway between the means. It is fitted to every second vector and tested on
    the others, then the other way round.

    Args:
        images: Embeddings or an array, one row per image; four or more rows.
        texts: Embeddings or an array, one row per text, with the same dimension.

    >>> gap = modality_gap([[1, 0.1], [1, -0.1], [1, 0.2], [1, 0]], [[0.1, 1], [0, 1], [-0.1, 1], [0.2, 1]])
    >>> round(gap.distance, 2), gap.separability
    (1.33, 1.0)
    """
    first, second = _unit(images, "images"), _unit(texts, "texts")
    if first.shape[1] != second.shape[1]:
        raise LimnerError(
            f"images of {first.shape[1]} dimensions and texts of {second.shape[1]}: expected the same; encode both "
            "with the same model"
        )
    distance = float(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)))
    return ModalityGap(distance, _separability(first, second), len(first), len(second))


def _unit(vectors: object, noun: str) -> FloatArray:
    """Normalised vectors; `Embeddings` refuses zero vectors."""
    rows = np.asarray(Embeddings.of(vectors), dtype=np.float64)
    if len(rows) < 4:
        raise LimnerError(f"{len(rows)} vectors of {noun}: expected four or more; encode more items")
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _separability(first: FloatArray, second: FloatArray) -> float:
    """Balanced accuracy over both halves; a vector on the boundary counts half."""
    right = []
    for half in (0, 1):
        plane, threshold = _discriminant(first[half::2], second[half::2])
        sides = (first[1 - half :: 2] @ plane - threshold, threshold - second[1 - half :: 2] @ plane)
        right.append([((side > 0) + 0.5 * (side == 0)) for side in sides])
    return float(np.mean([np.concatenate(side).mean() for side in zip(*right, strict=True)]))


def _discriminant(first: FloatArray, second: FloatArray) -> tuple[Array, float]:
    means = first.mean(axis=0), second.mean(axis=0)
    centred = np.concatenate([first - means[0], second - means[1]])
    covariance = centred.T @ centred / len(centred)
    ridge = RIDGE * max(float(np.trace(covariance)) / len(covariance), np.finfo(np.float64).eps)
    plane = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), means[0] - means[1])
    return plane, float(plane @ (means[0] + means[1]) / 2)
