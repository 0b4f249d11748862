"""Loops that keep only what the bounds of `rounding_bounds` cannot rule out. All release the GIL."""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled
from limner.scores.block_kernels import best
from limner.scores.pair_kernels import scores_of

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)

GROUP = 64
"""Columns of a group, whose highest product is found before any of them is looked at."""
SMALLEST = np.float32(2.0**-100)  # a vector whose int8 scale would be smaller becomes 0


@_summing
def scale_rows(vectors, words, codes, scales, lengths, rounded, residuals):  # type: ignore[no-untyped-def]
    """Rounds vectors to int8 multiples of a scale each; squared lengths before, after and of the difference.

    `words` are the bits of `vectors`; without the sign they are in the order of the numbers.
    """
    word = np.zeros(1, np.int32)
    number = word.view(np.float32)
    for r in range(vectors.shape[0]):
        highest = np.int32(0)  # not an item of an array, so that the loop vectorises
        for i in range(vectors.shape[1]):
            highest = np.int32(max(highest, np.int32(words[r, i] & np.int32(0x7FFFFFFF))))
        word[0] = highest
        scale = np.float32(number[0] / np.float32(127))
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


@_jit
def rotate_rows(vectors, blocks):  # type: ignore[no-untyped-def]
    """Walsh-Hadamard transforms of blocks of dimensions, (first, size) each, one after another, in place."""
    for r in range(vectors.shape[0]):
        for b in range(blocks.shape[0]):
            low, size = blocks[b]
            row = vectors[r, low : low + size]
            share = np.float32(1 / np.sqrt(np.float64(size)))
            for i in range(size):
                row[i] *= share
            half = 1
            while half < size:
                for start in range(0, size, 2 * half):
                    for i in range(start, start + half):
                        x, y = row[i], row[i + half]
                        row[i], row[i + half] = x + y, x - y
                half *= 2


@_summing
def product(x, y):  # type: ignore[no-untyped-def]
    """The dot product in float32; the bound holds for sums in any order."""
    total = np.float32(0)
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return np.float64(total)


@_jit
def _key(bits, shift, scale, eps):  # type: ignore[no-untyped-def]
    """The key of a bfloat16 product x: scale (x + eps |x|) - shift, in float32."""
    product = np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)
    return np.float32(scale * (product + eps * abs(product)) - shift)


@_jit
def _in_order(bits):  # type: ignore[no-untyped-def]
    """Whole numbers in the order of the float32 numbers with these bits; the same function leads back."""
    return np.int32(bits ^ np.int32((bits >> 31) & 0x7FFFFFFF))


@_jit
def _highest(row, shift, scale, eps):  # type: ignore[no-untyped-def]
    """The highest key of some products; found among whole numbers, so that the loop vectorises."""
    top = np.int32(-(2**31))
    for i in range(row.shape[0]):
        top = np.int32(max(top, _in_order(np.float32(_key(row[i], shift[i], scale, eps)).view(np.int32))))
    return np.int32(_in_order(top)).view(np.float32)


@_jit
def _largest(row):  # type: ignore[no-untyped-def]
    """The largest size of a product of a row."""
    size = np.uint16(0)
    for i in range(row.shape[0]):
        size = np.uint16(max(size, np.uint16(row[i] & np.uint16(0x7FFF))))
    return np.uint32(np.uint32(size) << np.uint32(16)).view(np.float32)


@_jit
def _group(row, shift, g):  # type: ignore[no-untyped-def]
    """The products and the shifts of a group; the shifts of one group stand for those of all."""
    low = g * GROUP
    part = row[low : low + GROUP]
    return part, shift[low : low + part.shape[0]] if shift.shape[0] > GROUP else shift[: part.shape[0]]


@_jit
def _grouped(candidate):  # type: ignore[no-untyped-def]
    """The largest factors of every group of candidates."""
    groups = -(-candidate.shape[1] // GROUP)
    factors = np.empty((2, groups), np.float32)
    for g in range(groups):
        low, high = g * GROUP, min((g + 1) * GROUP, candidate.shape[1])
        factors[0, g], factors[1, g] = candidate[0, low:high].max(), candidate[1, low:high].max()
    return factors


@_jit
def _floor(row, keys, tops, first, vectors, bound):  # type: ignore[no-untyped-def]
    """A key that k candidates of a row reach: the lowest of one candidate each from k groups, by its float32 product.

    It is the group's candidate with the highest key by its low-precision product. Any other would be as correct.
    """
    (scale, shifts, eps), (query, candidates, _), floor = keys, vectors, np.inf
    close_query, close_candidate, tiny, wide_shift, allowance = bound
    for g in first:
        products, shift = _group(row, shifts, g)
        i = 0
        while i < products.shape[0] - 1 and _key(products[i], shift[i], scale, -eps) < tops[g]:
            i += 1
        c = g * GROUP + i
        exact = scale * product(query, candidates[c]) - wide_shift[c]
        floor = min(floor, exact - (2 * scale * (close_query * close_candidate[c] + tiny) + allowance))
    return np.nextafter(np.float32(floor), np.float32(-np.inf))


@_jit
def _collect(row, vectors, bounds, keys, factors, k, memory):  # type: ignore[no-untyped-def]
    """Collects the columns of a row that may be among its k best by their bounds; returns their number.

    The least keys (with -eps) of a group, with the largest factors of the group, bound the group from below: one of its
    candidates is at least as high. One candidate each of the k groups with the highest of these bounds is computed in
    float32: the lowest of them rules out most other candidates.

    Args:
        row: Products of the row.
        vectors: The float32 vector of the row, those of the columns, and the ends of sums; see `_scored`.
        bounds: Factors of the row, of the columns, both of the second bound; and eps.
        keys: scale, shift (float32), shift (float64), and allowance of the row; see `select`.
        factors: See `_grouped`.
        k: Number of results.
        memory: Arrays to work with: for the groups, and for as many as there are columns.
    """
    scale, shifts, wide_shift, allowance = keys
    query, candidate, close_query, close_candidate, eps = bounds
    tops, low, places, lower, upper = memory
    count, floor = 0, np.float32(-np.inf)
    a, b, tiny = query[0], query[1], query[2]
    for g in range(tops.shape[0]):
        tops[g] = _highest(*_group(row, shifts, g), scale, -eps)
        low[0, g] = (tops[g] - scale * ((a * factors[0, g] + b * factors[1, g]) + tiny)) - allowance
    if tops.shape[0] >= k:
        first, first_bounds = np.zeros((1, k), np.int32), np.zeros((1, k), np.float32)
        best(low, first, first_bounds)
        close = close_query, close_candidate, tiny, wide_shift, allowance
        floor = max(first_bounds[0, k - 1], _floor(row, (scale, shifts, eps), tops, first[0], vectors, close))
    spread = np.float32(2.0 + 2.0**-9) * (scale * eps * _largest(row))  # between the least and the highest keys
    for g in range(tops.shape[0]):
        reach = (a * factors[0, g] + b * factors[1, g]) + tiny
        threshold = (floor - allowance) - scale * reach
        threshold -= np.float32(2.0**-20) * ((abs(floor) + allowance) + scale * reach)  # the rounding of this threshold
        threshold = threshold if floor > -np.inf else floor
        if tops[g] >= threshold - (spread + np.float32(2.0**-20) * abs(threshold)):
            products, shift = _group(row, shifts, g)
            for i in range(products.shape[0]):
                if _key(products[i], shift[i], scale, eps) >= threshold:
                    places[count] = g * GROUP + i
                    count += 1
    for n in range(count):  # apart from the loop above: what is far away in memory is then read at the same time
        c = places[n]
        value = np.uint32(np.uint32(row[c]) << np.uint32(16)).view(np.float32)
        error = eps * abs(value) + ((a * candidate[0, c] + b * candidate[1, c]) + tiny)
        moved = np.float32(wide_shift[c])
        lower[n] = (scale * (value - error) - moved) - allowance
        upper[n] = (scale * (value + error) - moved) + allowance
    return _reaching(lower[:count], upper, floor, k, places)


@_jit
def _reaching(lower, upper, floor, k, places):  # type: ignore[no-untyped-def]
    """Keeps the places whose upper bound reaches the floor, or the k-th highest lower bound; returns their number."""
    indices, best_lower, count = np.zeros((1, k), np.int32), np.zeros((1, k), lower.dtype), 0
    if lower.shape[0] >= k:
        best(lower.reshape(1, lower.shape[0]), indices, best_lower)
        floor = max(floor, best_lower[0, k - 1])
    for i in range(lower.shape[0]):
        if upper[i] >= floor:
            places[count] = places[i]
            count += 1
    return count


@_jit
def _scored(vectors, places, closeness, products, reaches):  # type: ignore[no-untyped-def]
    """The float32 products of a row with some candidates, and how far each may be from the score.

    Args:
        vectors: The vector of the row, those of the columns, and where the parts of sums end. With these ends the
            products are the scores themselves; without any, the second bound holds for them.
        places: Candidates.
        closeness: Factors of the second bound: of the row, of the columns, and what is added.
        products: Output, in float32.
        reaches: Output.
    """
    (query, candidates, ends), (close_query, close_candidate, tiny) = vectors, closeness
    if ends.shape[0]:
        scores_of(query, candidates, places, ends, products)
        reaches[: places.shape[0]] = 0.0
        return
    for n in range(places.shape[0]):
        products[n] = product(query, candidates[places[n]])
        reaches[n] = 2 * (close_query * close_candidate[places[n]] + tiny)


@_jit
def select(products, vectors, bounds, keys, k, room, columns, indptr):  # type: ignore[no-untyped-def]
    """Finds the columns that may be among the k best of each row: the bounds rule out all others.

    Args:
        products: bfloat16 products as bits, a row per query.
        vectors: The float32 vectors of the rows, and of the columns, and the ends of sums; see `_scored`.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        keys: See `Keys`: scale (float32), shift (float32, for all candidates, or one group of zeros for all), shift
            (float64), allowance (float32, rounded up).
        k: Number of results; at most the number of columns.
        room: Products in float32 that may be computed in total.
        columns: Output, the columns of all rows one after another, in ascending order.
        indptr: Output, the columns of row r are `indptr[r]:indptr[r + 1]`.

    Returns:
        The number of columns found; -1 if `room` or the output is too small.
    """
    queries, candidates, ends = vectors
    query, candidate, close_query, close_candidate, eps = bounds
    scale, shift, wide_shift, allowance = keys
    factors, filled, spent, width = _grouped(candidate), 0, 0, products.shape[1]
    places, lower, upper = np.empty(width, np.int64), np.empty(width, np.float32), np.empty(width, np.float32)
    tops, low = np.empty(factors.shape[1], np.float32), np.empty((1, factors.shape[1]), np.float32)
    indptr[0] = 0
    for r in range(products.shape[0]):
        row_bounds, key = (
            (query[r], candidate, close_query[r], close_candidate, eps),
            (scale, shift, wide_shift, allowance[r]),
        )
        memory = tops, low, places, lower, upper
        count = _collect(products[r], (queries[r], candidates, ends), row_bounds, key, factors, k, memory)
        spent += count
        if spent > room or count < k:
            return -1
        lowest, highest = np.empty(count), np.empty(count)
        _scored(
            (queries[r], candidates, ends),
            places[:count],
            (close_query[r], close_candidate, query[r, 2]),
            lower,
            highest,
        )
        for n in range(count):
            exact, reach = scale * np.float64(lower[n]) - wide_shift[places[n]], scale * highest[n] + allowance[r]
            lowest[n], highest[n] = exact - reach, exact + reach
        count = _reaching(lowest, highest, -np.inf, k, places)
        if filled + count > columns.shape[0]:
            return -1
        for n in range(count):
            columns[filled + n] = places[n]
        filled += count
        indptr[r + 1] = filled
    return filled
