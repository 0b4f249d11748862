"""Top-k selection by the compiled loop, beside a sort of the whole row."""

from __future__ import annotations

import numpy as np
import pytest

from limner.core import kernels

WIDTH = 700


def sorted_rows(block, k):
    """The oracle: every row sorted by falling score, equal scores in candidate order."""
    order = np.stack([np.lexsort((np.arange(len(row)), -row)) for row in block])[:, :k]
    return order, np.take_along_axis(block, order, axis=1)


def rows(dtype):
    """Rows that are hard to select from: ties, infinities, one value, sorted, outliers, tiny and huge numbers."""
    rng = np.random.default_rng(3)
    normal = rng.standard_normal(WIDTH)
    huge = np.finfo(dtype).max
    made = [
        normal, np.round(normal, 1), np.round(normal), np.zeros(WIDTH), np.full(WIDTH, -np.inf), np.sort(normal),
        -np.sort(-normal), np.where(normal > 1, np.inf, normal), np.where(normal < 1, -np.inf, normal),
        np.where(normal < 0, -np.inf, 0.0), np.where(np.arange(WIDTH) == 5, huge, normal),
        normal * np.finfo(dtype).tiny, np.where(normal > 0, huge, -huge), np.where(normal > 0, 0.0, -0.0),
        np.where(normal > 2, np.inf, -np.inf), np.arange(WIDTH) % 7,
    ]  # fmt: skip
    return np.array(made, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 10, kernels.FEW, kernels.FEW + 1, 100, 350, 699, 700])
def test_the_k_best_are_those_of_a_full_sort(k, dtype):
    block = rows(dtype)
    for each in (block, np.ascontiguousarray(block[:, : max(k, 33)])):
        indices, scores = np.zeros((len(each), k), dtype=np.int32), np.zeros((len(each), k), dtype=dtype)
        kernels.best(each, indices, scores)
        order, values = sorted_rows(each, k)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(scores, values)
