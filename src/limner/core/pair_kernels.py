"""Float32 products of single pairs of vectors, summed in the order in which a matrix library sums those of a tile.

A matrix library adds the products of a pair one after another with fused multiply-adds, in parts of a few hundred
dimensions each, and then adds up the parts. `limner.scores.tiles` finds the parts by comparing bits. Eight pairs are
computed side by side, because every addition waits for the one before it. All loops release the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from limner.core.cache_dir import compiled
from limner.core.kernels import insert

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)
_intrinsic: Any = intrinsic

_NUMBER = types.float32


@_intrinsic
def _added(context, x, y, total):  # type: ignore[no-untyped-def]
    """The product x y + total, rounded once."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        return builder.fma(*given)

    return _NUMBER(_NUMBER, _NUMBER, _NUMBER), generate


@_jit
def _eight(query, rows, ends):  # type: ignore[no-untyped-def]
    """The products of a vector and eight others."""
    (r0, r1, r2, r3, r4, r5, r6, r7), zero, start = rows, np.float32(0), np.uint64(0)
    t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = zero
    for end in ends:
        a = b = c = d = e = f = g = h = zero
        for i in range(start, np.uint64(end)):
            x = query[i]
            a, b, c, d = _added(x, r0[i], a), _added(x, r1[i], b), _added(x, r2[i], c), _added(x, r3[i], d)
            e, f, g, h = _added(x, r4[i], e), _added(x, r5[i], f), _added(x, r6[i], g), _added(x, r7[i], h)
        t0, t1, t2, t3, t4, t5, t6, t7 = t0 + a, t1 + b, t2 + c, t3 + d, t4 + e, t5 + f, t6 + g, t7 + h
        start = np.uint64(end)
    return t0, t1, t2, t3, t4, t5, t6, t7


@_jit
def scores_of(query, candidates, places, ends, out):  # type: ignore[no-untyped-def]
    """The scores of one query and the candidates at these places.

    Args:
        query: The vector of the query.
        candidates: Vectors, one per row.
        places: Rows of `candidates`.
        ends: Where each part of a sum ends; the last is the number of dimensions.
        out: Output, one score per place.
    """
    last = places.shape[0] - 1
    for low in range(0, last + 1, 8):
        p = places[low], places[min(low + 1, last)], places[min(low + 2, last)], places[min(low + 3, last)]
        q = (
            places[min(low + 4, last)],
            places[min(low + 5, last)],
            places[min(low + 6, last)],
            places[min(low + 7, last)],
        )
        rows = (
            candidates[p[0]], candidates[p[1]], candidates[p[2]], candidates[p[3]],
            candidates[q[0]], candidates[q[1]], candidates[q[2]], candidates[q[3]],
        )  # fmt: skip
        found = _eight(query, rows, ends)
        for n in range(min(8, last + 1 - low)):
            out[low + n] = found[n]


@_summing
def _four(query, rows):  # type: ignore[no-untyped-def]
    """The products of a vector and four others, summed in any order."""
    (r0, r1, r2, r3), zero = rows, np.float32(0)
    a = b = c = d = zero
    for i in range(query.shape[0]):
        x = query[i]
        a += x * r0[i]
        b += x * r1[i]
        c += x * r2[i]
        d += x * r3[i]
    return a, b, c, d


@_jit
def products_of(query, candidates, places, out):  # type: ignore[no-untyped-def]
    """Like `scores_of`, but each sum is computed in any order, which is faster."""
    last = places.shape[0] - 1
    for low in range(0, last + 1, 4):
        p, q, r = places[min(low + 1, last)], places[min(low + 2, last)], places[min(low + 3, last)]
        found = _four(query, (candidates[places[low]], candidates[p], candidates[q], candidates[r]))
        for n in range(min(4, last + 1 - low)):
            out[low + n] = found[n]


@_jit
def scores_of_lists(queries, candidates, indptr, columns, ends, out):  # type: ignore[no-untyped-def]
    """The scores of every query and the candidates in its list, `columns[indptr[r]:indptr[r + 1]]`."""
    for r in range(queries.shape[0]):
        low, high = indptr[r], indptr[r + 1]
        scores_of(queries[r], candidates, columns[low:high], ends, out[low:high])


@_jit
def best_of_lists(indptr, columns, scores, indices, kept):  # type: ignore[no-untyped-def]
    """The k best of every list, best first; equal scores keep the order of the list. No list is shorter than k."""
    k = indices.shape[1]
    for r in range(indices.shape[0]):
        for n in range(indptr[r], indptr[r + 1]):
            held = n - indptr[r]
            if held < k or scores[n] > kept[r, k - 1]:
                insert(scores[n], columns[n], kept[r], indices[r], held)
