"""The loops of `block_kernels` in numpy, with the same results: for passes too short to load or compile the others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, IntArray

Pools = tuple[IntArray, IntArray]
"""The pool of every row, and of every column; both empty if all columns count."""

NEVER = (2**63 - 1) // 4
"""The depth of a positive whose rank is needed in any case, and the count of one that is given up."""
AT_ONCE = 1 << 20
"""Number of values searched at a time, which should stay in the cache."""
GROUPS = 256
"""Columns are searched in so many groups, or more."""
PER_BEST = 16
"""Groups for each of the best."""


def best(block: Array, indices: Array, scores: Array) -> None:
    """The k best of every row, best first, equal scores in candidate order; k is the width of the outputs."""
    k, step = indices.shape[1], max(1, AT_ONCE // max(block.shape[1], 1))
    for low in range(0, len(block) if k else 0, step):
        part = slice(low, low + step)
        if (bound := _reached(block[part], k)) is None:  # only the compiled loop says where NaN comes in the order
            from limner.scores.block_kernels import best as compiled_best

            compiled_best(block[part], indices[part], scores[part])
        else:
            indices[part], scores[part] = _best(block[part], bound, k)


def _reached(block: Array, k: int) -> Array | None:
    """A value that at least k of every row reach, and few others; None for a block with NaN.

    The highest values of groups are values of different columns, so that their k-th highest is such a value.
    """
    width = block.shape[1]
    groups = min(max(GROUPS, PER_BEST * k), width)
    whole = width - width % groups
    tops = block[:, :whole].reshape(len(block), -1, groups).max(axis=1)
    if whole < width:
        np.maximum(tops[:, : width - whole], block[:, whole:], out=tops[:, : width - whole])
    return None if np.isnan(tops).any() else np.asarray(np.partition(tops, groups - k, axis=1)[:, groups - k])


def _best(block: Array, bound: Array, k: int) -> tuple[IntArray, Array]:
    reached, width = block >= bound[:, None], block.shape[1]
    for r, row in enumerate(reached):
        if np.count_nonzero(row) > PER_BEST * k + GROUPS:
            row[:] = block[r] > bound[r]  # fewer than k groups hold such values
            equal = np.flatnonzero(block[r] == bound[r])
            row[equal[: max(k - np.count_nonzero(row), 0)]] = True
    rows, columns = np.divmod(np.flatnonzero(reached), width)
    values, starts = block[rows, columns], np.searchsorted(rows, np.arange(len(block)))
    places = np.lexsort((-values, rows))[starts[:, None] + np.arange(k)]
    return columns[places], values[places]


def count_one(values: Array, score: float, place: int) -> tuple[int, int, int]:
    """Counts the values above `score`, equal to it, and equal at a lower position."""
    equal = int(np.count_nonzero(values == score))
    before = int(np.count_nonzero(values[:place] == score)) if equal > 1 else 0
    return int(np.count_nonzero(values > score)), equal, before


def count_all(block: Array, indptr: IntArray, columns: IntArray, counts: IntArray) -> None:
    """Counts the candidates above and equal to every positive of a block; see `block_kernels.count_all`."""
    for row, low, high in zip(block, indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        for p in range(low, high):
            counts[p] = count_one(row, row[columns[p]], columns[p])


def count_pool(
    block: Array,
    indptr: IntArray,
    places: IntArray,
    counts: IntArray,
    pools: IntArray,
    pool_indptr: IntArray,
    pool_columns: IntArray,
) -> None:
    """Like `count_all`, but each row is ranked within its own pool of columns; `places` are positions in the pool."""
    for r in np.flatnonzero(np.diff(indptr)):
        columns = pool_columns[pool_indptr[pools[r]] : pool_indptr[pools[r] + 1]]
        adjacent = columns[-1] - columns[0] == len(columns) - 1
        values = block[r, columns[0] : columns[-1] + 1] if adjacent else block[r, columns]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p] = count_one(values, values[places[p]], places[p])


def count_against(block: Array, indptr: IntArray, scores: Array, places: IntArray, counts: IntArray) -> None:
    """Like `count_all`, for a range of columns and positives with known scores; see `block_kernels.count_against`."""
    for row, low, high in zip(block, indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        for p in range(low, high):
            equal = np.count_nonzero(row == scores[p])
            alone = equal == 1 and 0 <= places[p] < len(row)
            before = np.count_nonzero(row[: max(places[p], 0)] == scores[p]) if equal and not alone else 0
            counts[p] = np.count_nonzero(row > scores[p]), equal, before


def first_beyond(block: Array, limit: float) -> tuple[int, int]:
    """Finds (row, column) of the first value that is neither -inf nor within -limit to limit; (-1, -1) if none is."""
    for r, row in enumerate(block):
        beyond = ~(np.abs(row) <= limit) & (row != -np.inf)
        if beyond.any():
            return r, int(beyond.argmax())
    return -1, -1


def count_in_best(
    indices: npt.NDArray[np.integer],
    best: Array,
    positives: tuple[IntArray, IntArray, Array, IntArray, npt.NDArray[np.uint64]],
    pools: Pools,
) -> tuple[IntArray, IntArray, IntArray]:
    """Counts the candidates above and equal to the positives that are above the last of the best; most of them are.

    Args:
        indices: The best candidates of every row, (rows, k); k may be 0.
        best: Their scores. All candidates that are above the last are among them.
        positives: indptr (positives of row r are `indptr[r]:indptr[r + 1]`), their columns, scores and depths, and the
            requests (as bits) that depend on the best of them. Any other with so many candidates above it is given up.
        pools: The pools, if rows are ranked within them.

    Returns:
        The counts, (positives, 3): above, equal (itself included), equal before it; `NEVER` above if given up, and 0,
        1, 0 for those that are left. The depth of each positive; `NEVER` if it is needed in any case. The numbers of
        those that are left.
    """
    (indptr, columns, scores, depths, requests), (own_pool, pool_of) = positives, pools
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    needed, listed, own_scores = _needed(rows, scores, depths, requests), best[rows], scores[:, None]
    inside = listed >= own_scores
    if len(own_pool):
        inside &= pool_of[indices[rows]] == own_pool[rows, None]
    equal = inside & (listed == own_scores)
    counts = np.empty((len(scores), 3), np.int64)
    counts[:, 0] = (inside & (listed > own_scores)).sum(axis=1)
    counts[:, 1] = equal.sum(axis=1)
    counts[:, 2] = (equal & (indices[rows] < columns[:, None])).sum(axis=1)
    given_up = counts[:, 0] >= needed
    left = ~given_up if not best.shape[1] else ~given_up & ~(scores > listed[:, -1])
    counts[left], counts[given_up] = (0, 1, 0), (NEVER, 1, 0)
    return counts, needed, np.flatnonzero(left)


def _needed(rows: IntArray, scores: Array, depths: IntArray, requests: npt.NDArray[np.uint64]) -> IntArray:
    """The depths of positives: none for the best of every request in a row, and those with the same score."""
    needed = depths.copy()
    for number in range(int(requests.max(initial=0)).bit_length()):
        chosen = np.flatnonzero(requests >> np.uint64(number) & np.uint64(1))
        highest = np.full(int(rows.max(initial=-1)) + 1, -np.inf, scores.dtype)
        np.fmax.at(highest, rows[chosen], scores[chosen])
        needed[chosen[scores[chosen] == highest[rows[chosen]]]] = NEVER
    return needed
