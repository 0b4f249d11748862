"""Compiled loops for kernels and for the choice of settings. All release the interpreter lock.

Rows are compared four at a time over strips of columns that stay in the L1 cache, in inner loops without calls or
branches, so that they vectorise.
"""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled

_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz", "nnan", "ninf"}, boundscheck=False)
_jit = compiled(nogil=True, fastmath=False, boundscheck=False, error_model="numpy")
_F, _I = np.float32, np.int32
STRIP = 2048
"""Columns per strip."""


@_jit
def intersections(a, b, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[i, j] = sum_v min(a[i, v], b[j, v]) for 32-bit integers, so that the sum does not depend on the order."""
    rows, b_rows, width = a.shape[0], b.shape[0], a.shape[1]
    out[:] = 0
    for low in range(0, width, STRIP):
        high = min(low + STRIP, width)
        for j in range(0, b_rows - b_rows % 4, 4):
            b0, b1, b2, b3 = b[j, low:high], b[j + 1, low:high], b[j + 2, low:high], b[j + 3, low:high]
            for i in range(rows):
                x = a[i, low:high]
                s0, s1, s2, s3 = _I(0), _I(0), _I(0), _I(0)
                for v in range(np.uint64(high - low)):
                    s0 = _I(s0 + (x[v] if x[v] < b0[v] else b0[v]))
                    s1 = _I(s1 + (x[v] if x[v] < b1[v] else b1[v]))
                    s2 = _I(s2 + (x[v] if x[v] < b2[v] else b2[v]))
                    s3 = _I(s3 + (x[v] if x[v] < b3[v] else b3[v]))
                out[i, j] += s0
                out[i, j + 1] += s1
                out[i, j + 2] += s2
                out[i, j + 3] += s3
        for j in range(b_rows - b_rows % 4, b_rows):
            b0 = b[j, low:high]
            for i in range(rows):
                x = a[i, low:high]
                s0 = _I(0)
                for v in range(np.uint64(high - low)):
                    s0 = _I(s0 + (x[v] if x[v] < b0[v] else b0[v]))
                out[i, j] += s0


@_summing
def chi_squares(a, b, out):  # type: ignore[no-untyped-def]
    """out[i, j] = sum_v (a[i, v] - b[j, v])^2 / (a[i, v] + b[j, v]), where 0 / 0 is 0."""
    for i in range(a.shape[0]):
        x = a[i]
        for j in range(b.shape[0]):
            y = b[j]
            total = _F(0.0)
            for v in range(np.uint64(x.shape[0])):
                gap, pair_sum = x[v] - y[v], x[v] + y[v]
                total += gap * gap / (pair_sum + _F(1e-30))
            out[i, j] = total


@_jit
def places(products, lengths, indptr, columns, out):  # type: ignore[no-untyped-def]
    """The rank of each query's best positive among all candidates by cosine, from 1; ties share the mean rank.

    Args:
        products: Dot products, queries by candidates. The query norm does not affect the order, so it is not needed.
        lengths: Norms of the candidates.
        indptr: Positives of query q are `indptr[q]:indptr[q + 1]`.
        columns: The column of each positive.
        out: One rank per query.
    """
    values = np.empty(products.shape[1], np.float64)
    for q in range(products.shape[0]):
        row = products[q]
        for c in range(np.uint64(values.shape[0])):
            values[c] = row[c] / lengths[c]
        best = -np.inf
        for p in range(indptr[q], indptr[q + 1]):
            best = max(best, values[columns[p]])
        higher, equal = 0, 0
        for c in range(np.uint64(values.shape[0])):
            higher += values[c] > best
            equal += values[c] == best
        out[q] = higher + (equal + 1) / 2


@_jit
def places_of_columns(products, lengths, indptr, columns, out):  # type: ignore[no-untyped-def]
    """Like `places`, for queries that are the columns of the products: `lengths` are norms of the rows."""
    width = products.shape[1]
    best, higher, equal = np.full(width, -np.inf), np.zeros(width), np.zeros(width)
    for q in range(width):
        for p in range(indptr[q], indptr[q + 1]):
            best[q] = max(best[q], products[columns[p], q] / lengths[columns[p]])
    for c in range(products.shape[0]):
        row, length = products[c], lengths[c]
        for q in range(np.uint64(width)):
            value = row[q] / length
            higher[q] += value > best[q]
            equal[q] += value == best[q]
    for q in range(np.uint64(width)):  # a loop: an expression of arrays takes seconds to compile
        out[q] = higher[q] + (equal[q] + 1) / 2
