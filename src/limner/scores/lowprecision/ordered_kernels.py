"""Ranks and lists from low-precision products that were put in order.

Products are compared as whole numbers of 16 bits in the order of the bfloat16 numbers, their keys: the score of a
positive and the bound of `rounding_bounds` give two such numbers; a product above the higher one is certainly above the
positive, one below the lower one is certainly below. A positive with more candidates certainly above it than anything
depends on is given up. What lies near the others is computed again in float32, once for all positives of the row.

For lists, the candidate with the highest product of each of the groups of columns with the highest ones is scored
first: of k groups, or of so many more as are scored in the same time. The k-th highest of these scores rules out nearly
all others by the bound. All functions release the GIL.
"""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled
from limner.scores.array_kernels import NEVER
from limner.scores.lowprecision.filter_kernels import GROUP
from limner.scores.pair_kernels import ROWS, products_of, scores_of

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_ordering = compiled(nogil=True, fastmath={"nnan", "nsz"}, boundscheck=False)

LOWEST = np.int16(-(2**15))
"""Below the keys of all numbers."""
LONGEST = 2**15
"""How many keys are counted in 16 bits."""


@_jit
def put_in_order(products, tops):  # type: ignore[no-untyped-def]
    """Replaces the bits of products by their keys, and finds the highest of every group of columns.

    Args:
        products: bfloat16 products as bits, a row per query; changed in place.
        tops: Output, (rows, groups).
    """
    for r in range(products.shape[0]):
        for g in range(tops.shape[1]):
            keys, top = products[r, g * GROUP : (g + 1) * GROUP], LOWEST
            for i in range(keys.shape[0]):
                sign = keys[i] >> 15
                keys[i] = ((keys[i] & 0x7FFF) ^ sign) - sign
                top = np.int16(max(top, keys[i]))
            tops[r, g] = top


@_jit
def _bits(number):  # type: ignore[no-untyped-def]
    """The bits of a float32 number."""
    return np.float32(number).view(np.int32)


@_jit
def _limit(value, up):  # type: ignore[no-untyped-def]
    """The lowest key that is not below a value, or the highest that is not above it."""
    number = np.float32(value)
    if up and number < value:
        number = np.nextafter(number, np.float32(np.inf))
    if not up and number > value:
        number = np.nextafter(number, np.float32(-np.inf))
    bits = _bits(number)
    size = np.int64(bits & np.int32(0x7FFFFFFF))
    size = -size if bits < 0 else size
    return np.int16((size + 0xFFFF) >> 16 if up else size >> 16)


@_jit
def limits_of(score, reach, eps):  # type: ignore[no-untyped-def]
    """What a product must reach to be near a positive with this score, and what it must exceed to be above it."""
    highest, lowest = score + reach, score - reach
    highest += 2.0**-40 * abs(highest)
    lowest -= 2.0**-40 * abs(lowest)
    upper = highest / (1 - eps) if highest > 0 else highest / (1 + eps)
    lower = lowest / (1 + eps) if lowest > 0 else lowest / (1 - eps)
    return _limit(lower, False), _limit(upper, True)


@_ordering
def largest_factors(candidate):  # type: ignore[no-untyped-def]
    """The largest factor of all columns, of both kinds; no factor is NaN, so that the loop vectorises."""
    one = second = np.float32(0)
    for i in range(candidate.shape[1]):
        one = max(one, candidate[0, i])
        second = max(second, candidate[1, i])
    return np.float64(one), np.float64(second)


@_jit
def _all_limits(bounds, indptr, scores):  # type: ignore[no-untyped-def]
    """The limits of all positives, with the largest factors of the columns; see `limits_of`."""
    query, candidate, _, _, eps = bounds
    limits, factors = np.empty((scores.shape[0], 2), np.int16), largest_factors(candidate)
    for r in range(indptr.shape[0] - 1):
        reach = (query[r, 0] * factors[0] + query[r, 1] * factors[1]) + query[r, 2]
        for p in range(indptr[r], indptr[r + 1]):
            limits[p, 0], limits[p, 1] = limits_of(np.float64(scores[p]), reach, np.float64(eps))
    return limits


@_jit
def _pooled(row, pool, keys, tops):  # type: ignore[no-untyped-def]
    """Copies the keys of some columns, and finds the highest of every group."""
    first, size = np.uint64(pool[0]), pool.shape[0]
    if pool[size - 1] - pool[0] == size - 1:  # neighbours, as the folds of COCO are
        for i in range(np.uint64(size)):  # a loop, which is vectorised; a slice would be copied one by one
            keys[i] = row[first + i]
    else:
        for i in range(size):
            keys[i] = row[pool[i]]
    groups = -(-size // GROUP)
    for g in range(groups):
        part, top = keys[g * GROUP : min((g + 1) * GROUP, size)], LOWEST
        for i in range(part.shape[0]):
            top = np.int16(max(top, part[i]))
        tops[g] = top


@_jit
def many_reach(keys, threshold):  # type: ignore[no-untyped-def]
    """How many keys are at least this one."""
    total = np.int64(0)
    for low in range(0, keys.shape[0], LONGEST):
        part, count = keys[low : low + LONGEST], np.uint16(0)  # 16 bits, like the keys: all SIMD lanes are used
        for i in range(part.shape[0]):
            count = np.uint16(count + np.uint16(part[i] >= threshold))
        total += np.int64(count)
    return total


@_jit
def _count_above(keys, tops, limit, depth):  # type: ignore[no-untyped-def]
    """The number of keys above a limit; counting ends when it has reached the depth."""
    count, threshold = np.int64(0), np.int16(limit + 1)
    for g in range(tops.shape[0]):
        if tops[g] >= threshold:
            count += many_reach(keys[g * GROUP : (g + 1) * GROUP], threshold)
            if count >= depth:
                break
    return count


@_jit
def _mark(keys, tops, limits, marks, marked):  # type: ignore[no-untyped-def]
    """Marks the keys near a positive, and their groups; returns whether there are any."""
    (lowest, highest), some = limits, False
    for g in range(tops.shape[0]):
        if tops[g] >= lowest:
            part, marks_of_group, inside = keys[g * GROUP : (g + 1) * GROUP], marks[g * GROUP :], False
            for i in range(part.shape[0]):
                in_range = (part[i] >= lowest) & (part[i] <= highest)
                marks_of_group[i] |= in_range
                inside |= in_range
            marked[g] |= inside
            some |= inside
    return some


@_jit
def _listed(marks, marked, places):  # type: ignore[no-untyped-def]
    """Lists what is marked, and removes the marks; returns the number."""
    filled = np.int64(0)
    for g in range(marked.shape[0]):
        if marked[g]:
            for c in range(g * GROUP, (g + 1) * GROUP):
                if marks[c]:
                    places[filled] = c
                    filled += 1
                    marks[c] = False
            marked[g] = False
    return filled


@_jit
def bounded(vectors, closeness, columns, lowest, highest):  # type: ignore[no-untyped-def]
    """Bounds of the scores of a row and some columns.

    With the ends of sums these are the scores; without, they are from products in float32, summed in any order.
    """
    (query, candidates, ends), (close_query, close_candidate, tiny) = vectors, closeness
    if ends.shape[0]:
        scores_of(query, candidates, columns, ends, lowest)
        for n in range(columns.shape[0]):  # a loop: numba takes three seconds to compile the copy of a slice
            highest[n] = lowest[n]
        return
    products_of(query, candidates, columns, lowest)
    for n in range(columns.shape[0]):
        exact, reach = np.float64(lowest[n]), 2 * (close_query * close_candidate[columns[n]] + tiny)
        reach += 2.0**-22 * (abs(exact) + reach)  # the bounds are rounded to float32
        lowest[n], highest[n] = exact - reach, exact + reach


@_jit
def _compare(positive_pair, limits, listed, bounds, columns, filled):  # type: ignore[no-untyped-def]
    """Compares a positive with the candidates that are near it; returns how many are above, and how many are left.

    Args:
        positive_pair: The column of the positive, and its score.
        limits: What a product must reach to be near the positive, and what it must not exceed.
        listed: The keys of candidates that are near any positive of the row, and their columns.
        bounds: The least and the highest score of each of them.
        columns: Output, the columns of those that are equal, or that only scores on the grid can compare; the positive
            itself is left out.
        filled: How many columns are there already.
    """
    (positive, score), (keys, places), (lowest, highest) = positive_pair, listed, bounds
    low, high, higher, close, first = np.int32(limits[0]), np.int32(limits[1]), np.uint32(0), np.uint32(0), filled
    for n in range(keys.shape[0]):
        in_range = np.uint32(keys[n] >= low) & np.uint32(keys[n] <= high)
        higher = np.uint32(higher + (in_range & np.uint32(lowest[n] > score)))
        close = np.uint32(close + (in_range & np.uint32(highest[n] >= score)))
    if close > np.uint32(higher + 1):  # the positive itself is near, and not above
        for n in range(keys.shape[0]):
            if low <= keys[n] <= high and lowest[n] <= score <= highest[n] and places[n] != positive:
                columns[filled] = places[n]
                filled += 1
    return np.int64(higher), filled - first


@_jit
def _find(row, tops, positives, memory, counts, has_near):  # type: ignore[no-untyped-def]
    """Counts what is certainly above the positives of a row, and lists what is near any of them; returns the number.

    Args:
        row: Keys of the row.
        tops: The highest of every group.
        positives: Two limits of each positive, and its depth.
        memory: A mark for each key, in whole groups, and for each group; and places.
        counts: Output, what is certainly above each positive; `NEVER` for those that are given up.
        has_near: Output, whether anything is near each positive.
    """
    (limits, depths), (marks, marked, places), some = positives, memory, False
    for p in range(limits.shape[0]):
        counts[p] = _count_above(row, tops, limits[p, 1], depths[p])
        has_near[p] = False
        if counts[p] >= depths[p]:
            counts[p] = NEVER
        else:
            has_near[p] = _mark(row, tops, (limits[p, 0], limits[p, 1]), marks, marked)
            some |= has_near[p]
    return _listed(marks, marked[: tops.shape[0]], places) if some else 0


@_jit
def count_near(keys, tops, vectors, bounds, positives, cut, room, counts, owners, columns, given_up):  # type: ignore[no-untyped-def]
    """Counts the candidates above each positive, and lists those that are equal, or that only the grid can compare.

    A row with more than `room` candidates near its positives is given up.

    Args:
        keys: Products of a block in order, see `put_in_order`.
        tops: The highest of every group.
        vectors: The float32 vectors of the rows, and of the columns, and the ends of sums, see `scores_of`.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        positives: indptr (the positives of row r are `indptr[r]:indptr[r + 1]`), their columns, scores and depths. One
            with so many candidates certainly above it is given up.
        cut: The pool of each row, and of each pool indptr and sorted columns; empty if all columns count.
        room: Products in float32 that may be computed for each row.
        counts: Output, one number per positive; `NEVER` if it is given up, undefined in rows that are given up.
        owners: Output, the positive of each pair that is left.
        columns: Output, the column of each pair that is left; never that of the positive itself.
        given_up: Output, whether each row is given up; False before.

    Returns:
        The number of pairs left; -1 if there are more than the output can hold.
    """
    (queries, candidates, sums), (query, _, close_query, close_candidate, _), width = vectors, bounds, keys.shape[1]
    indptr, places_of, scores, depths = positives
    limits, filled, has_near = _all_limits(bounds, indptr, scores), 0, np.zeros(scores.shape[0], np.bool_)
    places, groups_of_all = np.empty(width + 1, np.int64), tops.shape[1]
    memory = np.zeros(groups_of_all * GROUP, np.bool_), np.zeros(groups_of_all, np.bool_), places
    pooled, pooled_tops = np.empty(width, np.int16), np.empty(groups_of_all, np.int16)
    listed, lowest, highest = np.empty(width, np.int32), np.empty(width, np.float32), np.empty(width, np.float32)
    for r in range(keys.shape[0]):
        span, row, groups, pool = slice(indptr[r], indptr[r + 1]), keys[r], tops[r], columns[:0]
        if span.start == span.stop:
            continue
        if cut[0].shape[0]:
            pool = cut[2][cut[1][cut[0][r]] : cut[1][cut[0][r] + 1]]
            _pooled(row, pool, pooled, pooled_tops)
            row, groups = pooled[: pool.shape[0]], pooled_tops[: -(-pool.shape[0] // GROUP)]
        count = _find(row, groups, (limits[span], depths[span]), memory, counts[span], has_near[span])
        given_up[r] = count > room
        if given_up[r] or not count:
            continue
        for n in range(count):
            listed[n] = row[places[n]]
            places[n] = pool[places[n]] if pool.shape[0] else places[n]
        row_vectors, closeness = (queries[r], candidates, sums), (close_query[r], close_candidate, query[r, 2])
        bounded(row_vectors, closeness, places[:count], lowest, highest)
        theirs, score_bounds = (listed[:count], places[:count]), (lowest, highest)
        for p in range(span.start, span.stop):
            if has_near[p]:
                if filled + count > owners.shape[0]:
                    return -1
                pair = limits[p, 0], limits[p, 1]
                higher, equal = _compare((places_of[p], scores[p]), pair, theirs, score_bounds, columns, filled)
                counts[p] += higher
                for n in range(equal):
                    owners[filled + n] = p
                filled += equal
    return filled


HIGHEST = 2**15 - 1
"""The highest key."""


@_jit
def _kth(tops, k):  # type: ignore[no-untyped-def]
    """The k-th highest of some numbers, by bisection; k is at most their number."""
    low = high = np.int64(tops[0])
    for g in range(tops.shape[0]):  # a loop: numba's min and max take a second to compile
        low, high = min(low, np.int64(tops[g])), max(high, np.int64(tops[g]))
    while low < high:
        middle = (low + high + 1) >> 1
        if many_reach(tops, np.int16(middle)) >= k:
            low = middle
        else:
            high = middle - 1
    return np.int16(low)


@_jit
def _highest(row, tops, first):  # type: ignore[no-untyped-def]
    """The column of the highest product of each of the groups with the highest ones, in ascending order."""
    k, filled = first.shape[0], 0
    threshold = _kth(tops, k)
    equal = k - (many_reach(tops, np.int16(threshold + 1)) if threshold < HIGHEST else 0)
    for g in range(tops.shape[0]):
        if tops[g] > threshold or (tops[g] == threshold and equal > 0):
            equal -= tops[g] == threshold
            first[filled] = g
            filled += 1
    for n in range(k):  # apart from the loop above: what is far away in memory is then read at the same time
        top, c = tops[first[n]], first[n] * GROUP
        while row[c] < top:
            c += 1
        first[n] = c


@_jit
def _remaining_columns(row, tops, threshold, first, places):  # type: ignore[no-untyped-def]
    """Lists the other columns whose products are not below a limit; returns their number."""
    count, n = 0, 0
    for g in range(tops.shape[0]):
        if tops[g] < threshold:
            continue
        for c in range(g * GROUP, min((g + 1) * GROUP, row.shape[0])):
            if row[c] >= threshold:
                while n < first.shape[0] and first[n] < c:
                    n += 1
                if n == first.shape[0] or first[n] != c:
                    places[count] = c
                    count += 1
    return count


@_jit
def _row(row, tops, vectors, reach, memory, indices, scores):  # type: ignore[no-untyped-def]
    """The k best of a row; returns how many were scored."""
    (places, values, first, first_scores, eps), (query, candidates, ends), k = memory, vectors, indices.shape[0]
    filled, count = 0, row.shape[0]
    if tops.shape[0] >= k:
        _highest(row, tops, first)
        scores_of(query, candidates, first, ends, first_scores)
        _keep(first, first_scores, 0, indices, scores)
        filled, (limit, _) = first.shape[0], limits_of(np.float64(scores[k - 1]), reach, eps)
        count = _remaining_columns(row, tops, limit, first, places)
    else:
        for n in range(count):
            places[n] = n
    remaining = places[:count]
    scores_of(query, candidates, remaining, ends, values)
    _keep(remaining, values, filled, indices, scores)
    return filled + count


@_jit
def _keep(columns, values, filled, indices, scores):  # type: ignore[no-untyped-def]
    """Puts columns among the k best so far, of which there are `filled`; of equal scores the first columns are kept."""
    k = indices.shape[0]
    for n in range(columns.shape[0]):
        value, column, at = values[n], columns[n], min(filled + n, k)
        if at == k:
            at -= 1
            if not (value > scores[at] or (value == scores[at] and column < indices[at])):
                continue
        while at > 0 and (scores[at - 1] < value or (scores[at - 1] == value and indices[at - 1] > column)):
            scores[at], indices[at] = scores[at - 1], indices[at - 1]
            at -= 1
        scores[at], indices[at] = value, column


@_jit
def best_near(keys, tops, vectors, bounds, room, indices, scores):  # type: ignore[no-untyped-def]
    """The k best of every row, best first, equal scores in candidate order.

    Args:
        keys: Products of a block in order, see `put_in_order`.
        tops: The highest of every group of columns.
        vectors: The float32 vectors of the rows, and of the columns, and the ends of sums, see `scores_of`.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        room: Products in float32 that may be computed in total.
        indices: Output, (rows, k); k is at most the number of columns.
        scores: Output, (rows, k).

    Returns:
        Whether there was room.
    """
    (queries, candidates, ends), (query, candidate, _, _, eps), k = vectors, bounds, indices.shape[1]
    width, factors = keys.shape[1], largest_factors(candidate)
    first_width = min(-(-k // ROWS) * ROWS, max(k, tops.shape[1]))
    places, values = np.empty(width + 1, np.int64), np.empty(width, np.float32)
    memory = places, values, np.empty(first_width, np.int64), np.empty(first_width, np.float32), np.float64(eps)
    for r in range(keys.shape[0]):
        reach = (np.float64(query[r, 0]) * factors[0] + np.float64(query[r, 1]) * factors[1]) + query[r, 2]
        room -= _row(keys[r], tops[r], (queries[r], candidates, ends), reach, memory, indices[r], scores[r])
        if room < 0:
            return False
    return True
