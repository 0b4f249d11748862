"""The few hot loops: counting where positives stand, choosing the best k, locating ids in lists.

THE tie rule lives here: candidates with equal scores keep candidate order (the lower index first), and the
counts say how many stand above, how many are equal, and how many equals come before, so that any other rule
can be derived from them.

Compiled on first use and cached on disk. All loops release the interpreter lock, so blocks run on threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

_jit: Any = numba.njit(cache=True, nogil=True, fastmath=False, boundscheck=False)


_EXACT = 1 << 22  # float32 counts exactly up to 2**24: longer rows are counted in pieces


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})  # type: ignore[untyped-decorator]
def _count_piece(values, score):  # type: ignore[no-untyped-def]  # numba infers the types
    """Above and equal within one piece; float32 sums fill the vector lanes that int64 sums would leave half empty."""
    above = np.float32(0)
    equal = np.float32(0)
    for i in range(values.shape[0]):
        above += np.float32(1) if values[i] > score else np.float32(0)
        equal += np.float32(1) if values[i] == score else np.float32(0)
    return np.int64(above), np.int64(equal)


@_jit
def _count(values, score, place):  # type: ignore[no-untyped-def]
    """How many of `values` are above `score`, equal to it, and equal at a lower place."""
    above, equal, before = 0, 0, 0
    for low in range(0, values.shape[0], _EXACT):
        more_above, more_equal = _count_piece(values[low : low + _EXACT], score)
        above += more_above
        equal += more_equal
    if equal > 1:
        for i in range(place):
            before += values[i] == score
    return above, equal, before


@_jit
def count_all(block, indptr, columns, counts):  # type: ignore[no-untyped-def]
    """Counts for every positive of every row of a block, against the whole row.

    Args:
        block: Scores, one row per query.
        indptr: Positives of row r are `indptr[r]:indptr[r + 1]`.
        columns: The column of each positive.
        counts: Output, (positives, 3): above, equal (itself included), equal before it.
    """
    for r in range(block.shape[0]):
        row = block[r]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], counts[p, 2] = _count(row, row[columns[p]], columns[p])


@_jit
def count_pool(block, indptr, places, counts, pools, pool_indptr, pool_columns):  # type: ignore[no-untyped-def]
    """As `count_all`, each row against its own pool of columns; `places` are places within the pool."""
    for r in range(block.shape[0]):
        if indptr[r] == indptr[r + 1]:
            continue
        low, high = pool_indptr[pools[r]], pool_indptr[pools[r] + 1]
        values = np.empty(high - low, block.dtype)
        for i in range(high - low):
            values[i] = block[r, pool_columns[low + i]]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], counts[p, 2] = _count(values, values[places[p]], places[p])


@_jit
def best(block, indices, scores):  # type: ignore[no-untyped-def]
    """The k best of every row, best first, equal scores in candidate order; k is the width of the outputs."""
    k = indices.shape[1]
    for r in range(block.shape[0]):
        row = block[r]
        held = 0
        for c in range(row.shape[0]):
            value = row[c]
            if held == k and not value > scores[r, k - 1]:
                continue
            at = held if held < k else k - 1
            while at > 0 and scores[r, at - 1] < value:
                scores[r, at] = scores[r, at - 1]
                indices[r, at] = indices[r, at - 1]
                at -= 1
            scores[r, at] = value
            indices[r, at] = c
            held += held < k


@_jit
def locate(lists, indptr, columns, found):  # type: ignore[no-untyped-def]
    """The place of each positive in its row's list of candidate indices, -1 where the list lacks it."""
    for r in range(lists.shape[0]):
        row = lists[r]
        for p in range(indptr[r], indptr[r + 1]):
            found[p] = -1
            for i in range(row.shape[0]):
                if row[i] == columns[p]:
                    found[p] = i
                    break


@_jit
def first_repeat(lists, n_candidates):  # type: ignore[no-untyped-def]
    """(row, place) of the first candidate that stands twice in one list, (-1, -1) where none does; -1 pads lists."""
    seen = np.full(n_candidates, -1, np.int64)
    for r in range(lists.shape[0]):
        for i in range(lists.shape[1]):
            c = lists[r, i]
            if c < 0:
                continue
            if seen[c] == r:
                return r, i
            seen[c] = r
    return -1, -1
