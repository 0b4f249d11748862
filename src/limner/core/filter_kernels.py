"""Loops that keep only what the bounds of `limner.core.lowprecision` cannot rule out. All release the GIL."""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled
from limner.core.group_kernels import GROUP, LOWEST, highest, lowest_bit, number, place_in_order, reaching
from limner.core.kernels import best

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)

SMALLEST = np.float32(2.0**-100)  # a vector whose int8 scale would be smaller becomes 0


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
def scale_rows(vectors, words, codes, scales, lengths, rounded, residuals):  # type: ignore[no-untyped-def]
    """Rounds vectors to int8 multiples of a scale each, and computes the same lengths as `round_rows`.

    `words` are the bits of `vectors`; without the sign they are in the order of the numbers.
    """
    for r in range(vectors.shape[0]):
        highest = np.zeros(1, np.int32)
        for i in range(vectors.shape[1]):
            highest[0] = max(highest[0], words[r, i] & np.int32(0x7FFFFFFF))
        scale = np.float32(highest.view(np.float32)[0] / np.float32(127))
        scale = scale if scale >= SMALLEST else np.float32(0)
        inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
        for i in range(vectors.shape[1]):
            code = np.rint(vectors[r, i] * inverse)
            codes[r, i] = np.int8(min(max(code, np.float32(-127)), np.float32(127)))
        before, after, between = 0.0, 0.0, 0.0
        for i in range(vectors.shape[1]):
            x, y = np.float64(vectors[r, i]), np.float64(scale) * np.float64(codes[r, i])
            before += x * x
            after += y * y
            between += (x - y) * (x - y)
        scales[r], lengths[r], rounded[r], residuals[r] = scale, before, after, between


@_summing
def _product(x, y):  # type: ignore[no-untyped-def]
    """The dot product in float32; the bound holds for sums in any order."""
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return np.float64(total)


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
def _shift(lower, upper, scale, least, most, allowance):  # type: ignore[no-untyped-def]
    for i in range(lower.shape[0]):
        lower[i] = (scale * lower[i] - most[i]) - allowance
        upper[i] = (scale * upper[i] - least[i]) + allowance


@_jit
def _group(row, tail, g):  # type: ignore[no-untyped-def]
    """The address of a group of products; a last one that is not full is copied to `tail`, with the lowest numbers."""
    low = g * GROUP
    if low + GROUP <= row.shape[0]:
        return row.ctypes.data + 2 * low
    tail[:] = LOWEST
    for i in range(row.shape[0] - low):
        tail[i] = row[low + i]
    return tail.ctypes.data


@_jit
def _tops(row, tail, tops):  # type: ignore[no-untyped-def]
    """The highest product of every group."""
    whole, address = row.shape[0] // GROUP, row.ctypes.data
    for g in range(whole):
        tops[g] = highest(address + 2 * GROUP * g)
    if whole < tops.shape[0]:
        tops[whole] = highest(_group(row, tail, whole))


@_jit
def _threshold(least, eps):  # type: ignore[no-untyped-def]
    """The place of a number in the order of bfloat16 numbers; no x with x + eps |x| >= `least` is below it."""
    edge = np.float32(least - 1.02 * eps * abs(least))
    return place_in_order(np.nextafter(edge, np.float32(-np.inf)))  # also below -0.0, which is in order below 0.0


@_jit
def _grouped(candidate, shift):  # type: ignore[no-untyped-def]
    """The largest factors of every group of candidates, and the least and the greatest shift."""
    groups = -(-shift.shape[0] // GROUP)
    factors, least, most = np.empty((2, groups), np.float32), np.empty(groups, np.float32), np.empty(groups, np.float32)
    for g in range(groups):
        low, high = g * GROUP, min((g + 1) * GROUP, shift.shape[0])
        factors[0, g], factors[1, g] = candidate[0, low:high].max(), candidate[1, low:high].max()
        least[g], most[g] = shift[low:high].min(), shift[low:high].max()
    return factors, least, most


@_jit
def _floor(row, vectors, bound, keys, groups, first, tail):  # type: ignore[no-untyped-def]
    """A key that k candidates of a row reach: the lowest of one candidate each from k groups, by its float32 product.

    The group's candidate with the highest key by its low-precision product is taken. Any other would be as correct.
    """
    (query, candidates), (close_query, close_candidate, tiny) = vectors, bound
    (scale, shift, wide_shift, allowance), floor = keys, np.inf
    for j in range(first.shape[0]):
        start, address, place, top = first[j] * GROUP, _group(row, tail, first[j]), 0, np.float32(-np.inf)
        for i in range(min(GROUP, row.shape[0] - start)):
            key = scale * number(address + 2 * i) - shift[start + i]
            if key > top:
                place, top = i, key
        c = start + place
        exact = scale * _product(query, candidates[c]) - wide_shift[c]
        floor = min(floor, exact - (2 * scale * (close_query * close_candidate[c] + tiny) + allowance))
    return np.nextafter(np.float32(floor), np.float32(-np.inf))


@_jit
def _collect(row, vectors, bounds, keys, groups, k, memory):  # type: ignore[no-untyped-def]
    """Collects the columns of a row that may be among its k best by their bounds; returns their number.

    The highest product of a group, with the largest factors of the group, gives bounds of the group: one of its
    candidates reaches the lower one, and none exceeds the upper one. One candidate each of the k groups with the
    highest lower bounds is computed in float32: the lowest of these rules out most groups, and most candidates of the
    others.

    Args:
        row: Products of the row.
        vectors: The float32 vector of the row, and those of the columns.
        bounds: Factors of the row, of the columns, both of the second bound; and eps.
        keys: scale, shift (float32), shift (float64), and allowance of the row.
        groups: See `_grouped`.
        k: Number of results.
        memory: Arrays to work with; columns, and lower and upper bounds, of as many as there are columns.
    """
    (scale, shift, _, allowance), (factors, least, most) = keys, groups
    query, candidate, close_query, close_candidate, eps = bounds
    tops, words, tail, places, lower, upper = memory
    low, high = np.empty((1, tops.shape[0]), np.float32), np.empty(tops.shape[0], np.float32)
    values, count, floor = words.view(np.float32), 0, np.float32(-np.inf)
    _tops(row, tail, tops)
    _interval(tops, words, values, query, factors, eps, low[0], high)
    _shift(low[0], high, scale, least, most, allowance)
    a, b, tiny = query[0], query[1], query[2]
    if tops.shape[0] >= k:
        first, kept = np.zeros((1, k), np.int32), np.zeros((1, k), np.float32)
        best(low, first, kept)
        floor = max(
            kept[0, k - 1], _floor(row, vectors, (close_query, close_candidate, tiny), keys, groups, first[0], tail)
        )
    for g in range(tops.shape[0]):
        if high[g] >= floor:
            start, reach = g * GROUP, (a * factors[0, g] + b * factors[1, g]) + tiny
            above = np.float64(floor) + np.float64(least[g]) - np.float64(allowance)
            above -= 2.0**-22 * (abs(above) + abs(np.float64(least[g])))
            address = _group(row, tail, g)
            mask = reaching(address, _threshold(above / np.float64(scale) - np.float64(reach), np.float64(eps)))
            while mask:
                i = lowest_bit(mask)
                mask &= mask - np.uint64(1)
                places[count], lower[count] = start + i, number(address + 2 * i)
                count += 1
    for n in range(count):  # apart from the loop above: what is far away in memory is then read at the same time
        value, c = lower[n], places[n]
        own = eps * abs(value) + ((a * candidate[0, c] + b * candidate[1, c]) + tiny)
        lower[n] = (scale * (value - own) - shift[c]) - allowance
        upper[n] = (scale * (value + own) - shift[c]) + allowance
    return _reaching(lower[:count], upper, floor, k, places)


@_jit
def _reaching(lower, upper, floor, k, places):  # type: ignore[no-untyped-def]
    """Keeps the places whose upper bound reaches the floor, or the k-th highest lower bound; returns their number."""
    indices, kept, count = np.zeros((1, k), np.int32), np.zeros((1, k), lower.dtype), 0
    if lower.shape[0] >= k:
        best(lower.reshape(1, lower.shape[0]), indices, kept)
        floor = max(floor, kept[0, k - 1])
    for i in range(lower.shape[0]):
        if upper[i] >= floor:
            places[count] = places[i]
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
        room: Products in float32 that may be computed in total.
        columns: Output, the columns of all rows one after another, in ascending order.
        indptr: Output, the columns of row r are `indptr[r]:indptr[r + 1]`.

    Returns:
        The number of columns found; -1 if `room` or the output is too small.
    """
    queries, candidates = vectors
    query, candidate, close_query, close_candidate, eps = bounds
    scale, shift, wide_shift, allowance = keys
    groups, filled, spent, width = _grouped(candidate, shift), 0, 0, near.shape[1]
    places, lower, upper = np.empty(width, np.int64), np.empty(width, np.float32), np.empty(width, np.float32)
    number_of_groups = groups[1].shape[0]
    tops, words, tail = (
        np.empty(number_of_groups, np.uint16),
        np.empty(number_of_groups, np.uint32),
        np.empty(GROUP, np.uint16),
    )
    indptr[0] = 0
    for r in range(near.shape[0]):
        own = query[r], candidate, close_query[r], close_candidate, eps
        key = scale, shift, wide_shift, allowance[r]
        memory = tops, words, tail, places, lower, upper
        count = _collect(near[r], (queries[r], candidates), own, key, groups, k, memory)
        spent += count
        if spent > room:
            return -1
        least, most = np.empty(count), np.empty(count)
        for n in range(count):
            least[n], most[n] = wide_shift[places[n]], 2 * (close_query[r] * close_candidate[places[n]] + query[r, 2])
        for n in range(count):
            exact = scale * _product(queries[r], candidates[places[n]]) - least[n]
            reach = scale * most[n] + allowance[r]
            least[n], most[n] = exact - reach, exact + reach
        count = _reaching(least, most, -np.inf, k, places)
        if filled + count > columns.shape[0]:
            return -1
        for n in range(count):
            columns[filled + n] = places[n]
        filled += count
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
