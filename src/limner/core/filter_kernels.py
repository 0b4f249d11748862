"""Loops that keep only what the bounds of `limner.core.lowprecision` cannot rule out. All release the GIL."""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled
from limner.core.kernels import best

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)


@_summing
def round_rows(vectors, words, bits, lengths, rounded, residuals):  # type: ignore[no-untyped-def]
    """Rounds vectors to bfloat16, and computes squared lengths before and after rounding and of the difference.

    `words` are the bits of `vectors`.
    """
    width = vectors.shape[1]
    kept = np.empty(width, np.uint32)
    values = kept.view(np.float32)
    for r in range(vectors.shape[0]):
        for i in range(width):
            word = words[r, i]
            near = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
            kept[i] = near if near & np.uint32(0x7F800000) else np.uint32(0)
            bits[r, i] = np.uint16(kept[i] >> np.uint32(16))
        before, after, between = 0.0, 0.0, 0.0
        for i in range(width):
            x, y = np.float64(vectors[r, i]), np.float64(values[i])
            before += x * x
            after += y * y
            between += (x - y) * (x - y)
        lengths[r], rounded[r], residuals[r] = before, after, between


@_summing
def _product(x, y):  # type: ignore[no-untyped-def]
    """The dot product in double precision: the products are exact, and the order of the sum does not matter."""
    total = 0.0
    for i in range(x.shape[0]):
        total += np.float64(x[i]) * np.float64(y[i])
    return total


@_jit
def _interval(near, words, values, query, candidate, eps, lower, upper):  # type: ignore[no-untyped-def]
    """Bounds of every score of a row; `words` and `values` are the same memory, as bits and as numbers."""
    a, b, tiny = query[0], query[1], query[2]
    for i in range(near.shape[0]):
        words[i] = np.uint32(near[i]) << np.uint32(16)
    for i in range(near.shape[0]):
        reach = eps * abs(values[i]) + ((a * candidate[0, i] + b * candidate[1, i]) + tiny)
        lower[i] = values[i] - reach
        upper[i] = values[i] + reach


@_jit
def _shift(lower, upper, scale, shift, allowance):  # type: ignore[no-untyped-def]
    for i in range(lower.shape[0]):
        lower[i] = (scale * lower[i] - shift[i]) - allowance
        upper[i] = (scale * upper[i] - shift[i]) + allowance


@_jit
def _collect(upper, least, places):  # type: ignore[no-untyped-def]
    """Collects the positions whose upper bound reaches `least`; returns their number, which may exceed the output."""
    count = 0
    for low in range(0, upper.shape[0], 64):
        high = min(low + 64, upper.shape[0])
        found = np.uint32(0)
        for i in range(np.uint64(low), np.uint64(high)):
            found = np.uint32(found | np.uint32(upper[i] >= least))
        if found:
            for i in range(low, high):
                if upper[i] >= least:
                    if count < places.shape[0]:
                        places[count] = i
                    count += 1
    return count


@_jit
def select(near, vectors, bounds, keys, k, room, columns, indptr):  # type: ignore[no-untyped-def]
    """Finds the columns that may be among the k best of each row: the bounds rule out all others.

    Args:
        near: bfloat16 products as bits, a row per query.
        vectors: The float32 vectors of the rows, and of the columns.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        keys: See `Keys`: scale (float32), shift (float32), shift (float64), allowance (float32, rounded up).
        k: Number of results; at most the number of columns.
        room: Products in double precision that may be computed in total.
        columns: Output, the columns of all rows one after another, in ascending order.
        indptr: Output, the columns of row r are `indptr[r]:indptr[r + 1]`.

    Returns:
        The number of columns found; -1 if `room` or the output is too small.
    """
    queries, candidates = vectors
    query, candidate, close_query, close_candidate, eps = bounds
    scale, shift, wide_shift, allowance = keys
    width, filled, spent = near.shape[1], 0, 0
    words, places = np.empty(width, np.uint32), np.empty(min(width, room), np.int64)
    values, plain = words.view(np.float32), scale == np.float32(1) and not allowance.any()
    lower, upper = np.empty((1, width), np.float32), np.empty(width, np.float32)
    indices, kept = np.zeros((1, k), np.int32), np.zeros((1, k), np.float32)
    exact, widths = np.empty(places.shape[0]), np.empty(places.shape[0])
    first, floor = np.zeros((1, k), np.int32), np.zeros((1, k), np.float64)
    indptr[0] = 0
    for r in range(near.shape[0]):
        _interval(near[r], words, values, query[r], candidate, eps, lower[0], upper)
        if not plain:
            _shift(lower[0], upper, scale, shift, allowance[r])
        best(lower, indices, kept)
        count = _collect(upper, kept[0, k - 1], places)
        spent += count
        if spent > room or count > places.shape[0]:
            return -1
        for n in range(count):
            c = places[n]
            product = _product(queries[r], candidates[c])
            widths[n] = scale * (close_query[r] * close_candidate[c] + query[r, 2]) + allowance[r]
            exact[n] = scale * product - wide_shift[c]
        least = (exact[:count] - widths[:count]).reshape(1, count)
        best(least, first, floor)
        for n in range(count):
            if exact[n] + widths[n] >= floor[0, k - 1]:
                if filled >= columns.shape[0]:
                    return -1
                columns[filled] = places[n]
                filled += 1
        indptr[r + 1] = filled
    return filled


@_jit
def _tell(near_lower, near_upper, sure, doubtful):  # type: ignore[no-untyped-def]
    """Counts the candidates that are certainly above, and those that may be."""
    above, reached = np.uint32(0), np.uint32(0)
    for i in range(near_lower.shape[0]):
        above = np.uint32(above + np.uint32(near_lower[i] > sure))
        reached = np.uint32(reached + np.uint32(near_upper[i] >= doubtful))
    return above, reached


@_jit
def _taken(values, places, taken):  # type: ignore[no-untyped-def]
    for i in range(places.shape[0]):
        taken[i] = values[places[i]]
    return taken[: places.shape[0]]


@_jit
def count_near(near, vectors, bounds, indptr, positives, cut, room, above, whose, columns):  # type: ignore[no-untyped-def]
    """Counts the candidates certainly above each positive, and lists the pairs that only float32 scores can decide.

    Args:
        near: bfloat16 products as bits, a row per query.
        vectors: The float32 vectors of the rows, and of the columns.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        indptr: Positives of row r are `indptr[r]:indptr[r + 1]`.
        positives: The column of each positive.
        cut: The pool of each row as indptr and sorted columns; empty if all columns count.
        room: Products in double precision that may be computed in total.
        above: Output, one number per positive.
        whose: Output, the positive of each pair that is left.
        columns: Output, the column of each pair that is left; never that of the positive itself.

    Returns:
        The number of pairs left; -1 if `room` or the output is too small.
    """
    queries, candidates = vectors
    query, candidate, close_query, close_candidate, eps = bounds
    pools, pool_indptr, pool_columns = cut
    width, filled, spent = near.shape[1], 0, 0
    words, places = np.empty(width, np.uint32), np.empty(min(width, room), np.int64)
    values, lower, upper = words.view(np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    cut_lower, cut_upper = np.empty(width, np.float32), np.empty(width, np.float32)
    for r in range(near.shape[0]):
        if indptr[r] == indptr[r + 1]:
            continue
        _interval(near[r], words, values, query[r], candidate, eps, lower, upper)
        low, seen_lower, seen_upper = 0, lower, upper
        if pools.shape[0]:
            low, high = pool_indptr[pools[r]], pool_indptr[pools[r] + 1]
            seen_lower = _taken(lower, pool_columns[low:high], cut_lower)
            seen_upper = _taken(upper, pool_columns[low:high], cut_upper)
        for p in range(indptr[r], indptr[r + 1]):
            own = _product(queries[r], candidates[positives[p]])
            reach = close_query[r] * close_candidate[positives[p]] + query[r, 2]
            margin = 2.0**-22 * (abs(own) + reach)  # the comparisons below are in float32
            sure, doubtful = np.float32(own + reach + margin), np.float32(own - reach - margin)
            higher, reached = _tell(seen_lower, seen_upper, sure, doubtful)
            above[p] = higher
            spent += reached - higher + 1
            if spent > room:
                return -1
            count = _between(seen_lower, seen_upper, sure, doubtful, places)
            for n in range(count):
                c = pool_columns[low + places[n]] if pools.shape[0] else places[n]
                if c == positives[p]:
                    continue
                product = _product(queries[r], candidates[c])
                theirs = close_query[r] * close_candidate[c] + query[r, 2]
                if product - theirs > own + reach:
                    above[p] += 1
                elif product + theirs >= own - reach:
                    if filled >= columns.shape[0]:
                        return -1
                    whose[filled], columns[filled] = p, c
                    filled += 1
    return filled


@_jit
def _between(lower, upper, sure, doubtful, places):  # type: ignore[no-untyped-def]
    """Positions that are neither certainly above nor certainly below; the output is large enough for all of them."""
    count = 0
    for low in range(0, upper.shape[0], 64):
        high = min(low + 64, upper.shape[0])
        found = np.uint32(0)
        for i in range(np.uint64(low), np.uint64(high)):
            found = np.uint32(found | (np.uint32(upper[i] >= doubtful) & np.uint32(lower[i] <= sure)))
        if found:
            for i in range(low, high):
                if upper[i] >= doubtful and lower[i] <= sure:
                    places[count] = i
                    count += 1
    return count
