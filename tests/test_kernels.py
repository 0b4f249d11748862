"""Top-k selection and counts by the compiled loops and by numpy, beside sorted rows and each other."""

from __future__ import annotations

import numpy as np
import pytest

from limner.scores import array_kernels, block_kernels

WIDTH = 700
WAYS = pytest.mark.parametrize("kernels", [block_kernels, array_kernels], ids=["compiled", "numpy"])


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


@WAYS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 10, block_kernels.FEW, block_kernels.FEW + 1, 100, 350, 699, 700])
def test_the_k_best_are_those_of_a_full_sort(k, dtype, kernels):
    block = rows(dtype)
    for each in (block, np.ascontiguousarray(block[:, : max(k, 33)])):
        indices, scores = np.zeros((len(each), k), dtype=np.int32), np.zeros((len(each), k), dtype=dtype)
        kernels.best(each, indices, scores)
        order, values = sorted_rows(each, k)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(scores, values)


@WAYS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scattered", [False, True])
def test_ranks_within_pools_of_neighbours_and_of_scattered_columns(scattered, dtype, kernels):
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


def blocks(dtype):
    """Hard rows, and wide rows in which groups of columns decide: few values, one group above all, most excluded."""
    rng = np.random.default_rng(7)
    wide = rng.standard_normal((9, 4_321))
    few_values, excluded = np.round(wide), np.where(rng.random(wide.shape) < 0.999, -np.inf, wide)
    peaks = np.where(np.arange(wide.shape[1]) % array_kernels.GROUPS == 3, 5.0, wide)
    every = [rows(dtype), wide, few_values, excluded, peaks, np.sort(wide), -np.sort(wide), np.zeros((3, 4_321))]
    return [np.array(block, dtype) for block in every]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 3, 10, 60, 700])
def test_numpy_and_the_compiled_loops_select_the_same_bits(k, dtype):
    for block in blocks(dtype):
        lists = []
        for kernels in (block_kernels, array_kernels):
            indices, scores = np.zeros((len(block), k), np.int32), np.zeros((len(block), k), dtype)
            kernels.best(block, indices, scores)
            lists.append((indices.tobytes(), scores.tobytes()))
        assert lists[0] == lists[1]


def test_numpy_leaves_rows_with_nan_to_the_compiled_loop():
    block = np.random.default_rng(5).standard_normal((6, 900)).astype(np.float32)
    block[1, 7] = block[3, :] = block[4, ::2] = np.nan
    lists = []
    for kernels in (block_kernels, array_kernels):
        indices, scores = np.zeros((len(block), 10), np.int32), np.zeros((len(block), 10), np.float32)
        kernels.best(block, indices, scores)
        lists.append((indices.tobytes(), scores.tobytes()))
    assert lists[0] == lists[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_and_the_compiled_loops_count_the_same(dtype):
    rng = np.random.default_rng(11)
    for block in blocks(dtype):
        sizes = rng.integers(0, 4, len(block))
        indptr, columns = np.concatenate([[0], np.cumsum(sizes)]), rng.integers(0, block.shape[1], sizes.sum())
        scores, low = block[np.repeat(np.arange(len(block)), sizes), columns], block.shape[1] // 3
        counts = []
        for kernels in (block_kernels, array_kernels):
            every, part = (np.zeros((len(columns), 3), np.int64) for _ in range(2))
            kernels.count_all(block, indptr, columns, every)
            kernels.count_against(block[:, low : 2 * low], indptr, scores, columns - low, part)
            counts.append((every.tolist(), part.tolist()))
        assert counts[0] == counts[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [[], [(2, 5)], [(4, 0), (3, 699)]])
def test_the_first_value_beyond_a_limit(wrong, dtype):
    for value in (np.nan, np.inf, 3.5, -3.5):
        block = np.clip(rows(dtype), -3, 3)
        block[1] = -np.inf
        for place in wrong:
            block[place] = value
        expected = min(wrong, default=(-1, -1))
        assert block_kernels.first_beyond(block, dtype(3)) == array_kernels.first_beyond(block, dtype(3)) == expected


def test_the_best_decide_the_ranks_of_positives_above_the_last_of_them():
    """Beside counts in the whole row: those that are not left, nor given up, are right."""
    rng = np.random.default_rng(13)
    for trial in range(40):
        block = rng.integers(0, 12, (7, 50)).astype(np.float32)
        k, pools = (0, 1, 5, 50)[trial % 4], rng.integers(0, 3, 50) if trial % 3 == 0 else np.zeros(0, np.int64)
        own_pools = rng.integers(0, 3, 7) if len(pools) else pools
        indices, best = np.zeros((7, k), np.int32), np.zeros((7, k), np.float32)
        array_kernels.best(block, indices, best)
        rows_of, columns = np.nonzero(rng.random(block.shape) < 0.08)
        scores, depths = block[rows_of, columns], rng.integers(1, 9, len(columns))
        requests = rng.integers(0, 4, len(columns)).astype(np.uint64)
        indptr = np.searchsorted(rows_of, np.arange(8))
        positives = indptr, columns, scores, depths, requests
        counts, needed, left = array_kernels.count_in_best(indices, best, positives, (own_pools, pools))
        for p, (row, column) in enumerate(zip(rows_of, columns, strict=True)):
            inside = pools == own_pools[row] if len(pools) else np.ones(50, bool)
            of_row = indptr[row], indptr[row + 1]
            tops = [
                max(scores[q] for q in range(*of_row) if requests[q] >> np.uint64(bit) & np.uint64(1))
                for bit in range(2)
                if requests[p] >> np.uint64(bit) & np.uint64(1)
            ]
            assert needed[p] == (array_kernels.NEVER if scores[p] in tops else depths[p])
            above, equal = inside & (block[row] > scores[p]), inside & (block[row] == scores[p])
            if p in left:
                assert not k or scores[p] <= best[row, -1]
                assert counts[p].tolist() == [0, 1, 0]
            elif counts[p, 0] == array_kernels.NEVER:
                assert needed[p] <= above.sum()
            else:
                assert counts[p].tolist() == [above.sum(), equal.sum(), equal[:column].sum()]
