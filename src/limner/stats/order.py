"""Ranks and medians without the import time of SciPy and the cost per call of NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from limner.stats.inputs import Vector


def mean_ranks(values: Vector) -> Vector:
    """Ranks from 1, ties sharing their mean rank: `scipy.stats.rankdata`, without its second of imports.

    >>> mean_ranks(np.array([3.0, 1.0, 3.0, 7.0])).tolist()
    [2.5, 1.0, 2.5, 4.0]
    """
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return np.asarray((last - (times - 1) / 2)[place], dtype=np.float64)


def median(values: npt.ArrayLike) -> float:
    """The median of one list of numbers, as `np.median` gives it, at a quarter of its cost per call.

    Resampling takes a median thousands of times.

    >>> median([3, 1, 2]), median([4.0, 1.0, 2.0, 3.0])
    (2.0, 2.5)
    """
    array = np.asarray(values, dtype=np.float64)
    half = len(array) // 2
    if array.ndim != 1 or not half or np.isnan(array.sum()):  # NaN, or infinities of both signs
        return float(np.median(array))
    if len(array) % 2:
        return float(np.partition(array, half)[half])
    parted = np.partition(array, (half - 1, half))
    return float((parted[half - 1] + parted[half]) / 2)
