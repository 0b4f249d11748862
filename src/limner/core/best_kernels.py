"""The k best of every row from low-precision products in order, with exact scores; see `limner.core.count_kernels`.

The k groups of columns with the highest products each have a candidate that is at least as high as the lowest of these
products. The scores of these k candidates, computed in float32, rule out nearly all others by the bound. All functions
release the GIL.
"""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled
from limner.core.count_kernels import bounded, limits_of
from limner.core.group_kernels import GROUP
from limner.core.kernels import best, insert
from limner.core.pair_kernels import scores_of

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)


@_jit
def _highest(row, tops, kept, places):  # type: ignore[no-untyped-def]
    """The column of the highest product of each of the k groups with the highest ones."""
    k = places.shape[0]
    for g in range(tops.shape[0]):
        if g < k or tops[g] > kept[k - 1]:
            insert(tops[g], g, kept, places, min(g, k))
    for n in range(k):
        low = places[n] * GROUP
        part, at = row[low : low + GROUP], 0
        for i in range(part.shape[0]):
            at = i if part[i] == kept[n] else at
        places[n] = low + at


@_jit
def _listed(row, tops, least, places):  # type: ignore[no-untyped-def]
    """Lists the columns whose products are not below a limit; returns their number."""
    count = np.int64(0)
    for g in range(tops.shape[0]):
        if tops[g] >= least:
            part = row[g * GROUP : (g + 1) * GROUP]
            for i in range(part.shape[0]):
                places[count] = g * GROUP + i
                count += np.int64(part[i] >= least)
    return count


@_jit
def _row(row, tops, vectors, closeness, reach, memory, indices, scores):  # type: ignore[no-untyped-def]
    """The k best of a row, or of all its columns if there are no more; returns how many were computed in float32."""
    (places, least, most, kept, eps, number, word), k, count = memory, indices.shape[0], row.shape[0]
    if tops.shape[0] >= k:
        _highest(row, tops, kept, places[:k])
        bounded(vectors, closeness, places[:k], least, most)
        limit, _ = limits_of(np.float64(least[:k].min()), reach, eps, number, word)
        count = _listed(row, tops, limit, places)
    else:
        for n in range(count):
            places[n] = n
    bounded(vectors, closeness, places[:count], least, most)
    best(least[:count].reshape(1, count), indices.reshape(1, k), scores.reshape(1, k))
    floor, left = scores[k - 1], 0
    for n in range(count):
        if most[n] >= floor:
            places[left] = places[n]
            left += 1
    scores_of(vectors[0], vectors[1], places[:left], vectors[2], least)
    for n in range(left):
        if n < k or least[n] > scores[k - 1]:
            insert(least[n], places[n], scores, indices, min(n, k))
    return count


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
    (queries, candidates, ends), (query, candidate, close_query, close_candidate, eps) = vectors, bounds
    width, number, factors = keys.shape[1], np.empty(1, np.float32), (candidate[0].max(), candidate[1].max())
    places, least, most = np.empty(width + 1, np.int64), np.empty(width, np.float32), np.empty(width, np.float32)
    memory = places, least, most, np.empty(indices.shape[1], np.int16), np.float64(eps), number, number.view(np.int32)
    for r in range(keys.shape[0]):
        reach = (np.float64(query[r, 0]) * factors[0] + np.float64(query[r, 1]) * factors[1]) + query[r, 2]
        told, closeness = (queries[r], candidates, ends), (close_query[r], close_candidate, query[r, 2])
        room -= _row(keys[r], tops[r], told, closeness, reach, memory, indices[r], scores[r])
        if room < 0:
            return False
    return True
