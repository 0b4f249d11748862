"""The k best of every row from low-precision products in order, with exact scores; see `count_kernels`.

The candidate with the highest product of each of the groups of columns with the highest ones is scored first: of k
groups, or of so many more as are scored in the same time. The k-th highest of these scores rules out nearly all others
by the bound. All functions release the GIL.
"""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled
from limner.scores.lowprecision.count_kernels import largest_factors, limits_of, many_reach
from limner.scores.lowprecision.filter_kernels import GROUP
from limner.scores.pair_kernels import ROWS, scores_of

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)

HIGHEST = 2**15 - 1
"""The highest key."""


@_jit
def _kth(tops, k):  # type: ignore[no-untyped-def]
    """The k-th highest of some numbers, by bisection; k is at most their number."""
    low, high = np.int64(tops.min()), np.int64(tops.max())
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
    least = _kth(tops, k)
    equal = k - (many_reach(tops, np.int16(least + 1)) if least < HIGHEST else 0)
    for g in range(tops.shape[0]):
        if tops[g] > least or (tops[g] == least and equal > 0):
            equal -= tops[g] == least
            first[filled] = g
            filled += 1
    for n in range(k):  # apart from the loop above: what is far away in memory is then read at the same time
        top, c = tops[first[n]], first[n] * GROUP
        while row[c] < top:
            c += 1
        first[n] = c


@_jit
def _others(row, tops, least, first, places):  # type: ignore[no-untyped-def]
    """Lists the other columns whose products are not below a limit; returns their number."""
    count, n = 0, 0
    for g in range(tops.shape[0]):
        if tops[g] < least:
            continue
        for c in range(g * GROUP, min((g + 1) * GROUP, row.shape[0])):
            if row[c] >= least:
                while n < first.shape[0] and first[n] < c:
                    n += 1
                if n == first.shape[0] or first[n] != c:
                    places[count] = c
                    count += 1
    return count


@_jit
def _row(row, tops, vectors, reach, memory, indices, scores):  # type: ignore[no-untyped-def]
    """The k best of a row; returns how many were scored."""
    (places, found, first, known, eps), (query, candidates, ends), k = memory, vectors, indices.shape[0]
    held, count = 0, row.shape[0]
    if tops.shape[0] >= k:
        _highest(row, tops, first)
        scores_of(query, candidates, first, ends, known)
        _keep(first, known, 0, indices, scores)
        held, (limit, _) = first.shape[0], limits_of(np.float64(scores[k - 1]), reach, eps)
        count = _others(row, tops, limit, first, places)
    else:
        for n in range(count):
            places[n] = n
    others = places[:count]
    scores_of(query, candidates, others, ends, found)
    _keep(others, found, held, indices, scores)
    return held + count


@_jit
def _keep(columns, found, held, indices, scores):  # type: ignore[no-untyped-def]
    """Puts columns among the k best so far, of which there are `held`; of equal scores the first columns are kept."""
    k = indices.shape[0]
    for n in range(columns.shape[0]):
        value, column, at = found[n], columns[n], min(held + n, k)
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
    held = min(-(-k // ROWS) * ROWS, max(k, tops.shape[1]))
    places, found = np.empty(width + 1, np.int64), np.empty(width, np.float32)
    memory = places, found, np.empty(held, np.int64), np.empty(held, np.float32), np.float64(eps)
    for r in range(keys.shape[0]):
        reach = (np.float64(query[r, 0]) * factors[0] + np.float64(query[r, 1]) * factors[1]) + query[r, 2]
        room -= _row(keys[r], tops[r], (queries[r], candidates, ends), reach, memory, indices[r], scores[r])
        if room < 0:
            return False
    return True
