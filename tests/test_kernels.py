"""Top-k selection by the compiled loop, beside a sort of the whole row."""

from __future__ import annotations

import numpy as np
import pytest

from limner.scores import block_kernels as kernels

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
    hard_rows = [
        normal, np.round(normal, 1), np.round(normal), np.zeros(WIDTH), np.full(WIDTH, -np.inf), np.sort(normal),
        -np.sort(-normal), np.where(normal > 1, np.inf, normal), np.where(normal < 1, -np.inf, normal),
        np.where(normal < 0, -np.inf, 0.0), np.where(np.arange(WIDTH) == 5, huge, normal),
        normal * np.finfo(dtype).tiny, np.where(normal > 0, huge, -huge), np.where(normal > 0, 0.0, -0.0),
        np.where(normal > 2, np.inf, -np.inf), np.arange(WIDTH) % 7,
    ]  # fmt: skip
    return np.array(hard_rows, dtype=dtype)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scattered", [False, True])
def test_ranks_within_pools_of_neighbours_and_of_scattered_columns(scattered, dtype):
    block = rows(dtype)
    pool = np.arange(WIDTH) % 4 if scattered else np.arange(WIDTH) * 4 // WIDTH
    columns = np.argsort(pool, kind="stable")
    indptr = np.searchsorted(pool[columns], np.arange(5))
    row_pools, place = np.arange(len(block)) % 4, 3
    counts = np.zeros((len(block), 3), np.int64)
    places = np.full(len(block), place)
    kernels.count_pool(block, np.arange(len(block) + 1), places, counts, row_pools, indptr, columns)
    for row, row_pool, row_counts in zip(block, row_pools, counts, strict=True):
        values = row[pool == row_pool]
        before = (values[:place] == values[place]).sum()
        assert row_counts.tolist() == [(values > values[place]).sum(), (values == values[place]).sum(), before]
