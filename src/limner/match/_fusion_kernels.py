"""Compiled loops of fusion by rank. All release the GIL."""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True)


@_jit
def shared_ranks(indices, scores, ranks):  # type: ignore[no-untyped-def]
    """Ranks from 1 along each row of non-increasing scores; ties share their mean rank. -1 ends a row."""
    for r in range(indices.shape[0]):
        low = 0
        while low < indices.shape[1] and indices[r, low] >= 0:
            high = low + 1
            while high < indices.shape[1] and indices[r, high] >= 0 and scores[r, high] == scores[r, low]:
                high += 1
            ranks[r, low:high] = (low + high + 1) / 2
            low = high


# Sums of reciprocals are stored as two float64 numbers, high + low, to 30 digits, so that 1/3 + 1/6 equals 1/2.


@_jit
def _sum_of_two(a, b):  # type: ignore[no-untyped-def]
    """a + b exactly, as high + low (Knuth's two-sum)."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@_jit
def _product(a, b):  # type: ignore[no-untyped-def]
    """a b exactly, as high + low (Dekker 1971): each factor is split into halves of 26 bits."""
    high = a * b
    x, y = a * 134217729.0, b * 134217729.0
    a1, b1 = x - (x - a), y - (y - b)
    a2, b2 = a - a1, b - b1
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


@_jit
def _reciprocal(k, rank):  # type: ignore[no-untyped-def]
    """1 / (k + rank) as high + low; (0, 0) for a rank of inf."""
    if rank == np.inf:
        return 0.0, 0.0
    high, low = _sum_of_two(k, rank)
    guess = 1.0 / high
    product, remainder = _product(guess, high)
    return _sum_of_two(guess, ((1.0 - product) - remainder - guess * low) / high)


@_jit
def _reciprocals(k, ranks):  # type: ignore[no-untyped-def]
    """The sum of 1 / (k + rank) as high + low."""
    high, low = 0.0, 0.0
    for rank in ranks:
        term, term_error = _reciprocal(k, rank)
        high, error = _sum_of_two(high, term)
        high, low = _sum_of_two(high, error + (low + term_error))
    return high, low


@_jit
def _compared(u, v, sums, lows):  # type: ignore[no-untyped-def]
    """Positive if u is larger, negative if v is, 0 if they agree to 29 digits."""
    difference = (sums[u] - sums[v]) + (lows[u] - lows[v])
    return 0.0 if abs(difference) <= 1e-29 * sums[u] else difference


@_jit
def _settle(order, sums, lows, union):  # type: ignore[no-untyped-def]
    """Corrects the order of near-ties that float64 cannot resolve; equal sums get the same number."""
    for place in range(1, order.shape[0]):
        at = place
        while at > 0 and sums[order[at - 1]] - sums[order[at]] <= 1e-13 * sums[order[at - 1]]:
            difference = _compared(order[at], order[at - 1], sums, lows)
            if difference < 0 or (difference == 0 and union[order[at]] > union[order[at - 1]]):
                break
            order[at], order[at - 1] = order[at - 1], order[at]
            at -= 1
    for place in range(1, order.shape[0]):
        u, v = order[place - 1], order[place]
        if _compared(u, v, sums, lows) == 0:
            sums[v], lows[v] = sums[u], lows[u]


@_jit
def _by_points(points, medians, union):  # type: ignore[no-untyped-def]
    """Sorts by points, highest first, then by median rank, then by candidate."""
    order = np.argsort(union, kind="mergesort")
    order = order[np.argsort(medians[order], kind="mergesort")]
    return order[np.argsort(-points[order], kind="mergesort")]


@_jit
def _union(row, slots):  # type: ignore[no-untyped-def]
    """The candidates in any list of a row; `slots` gives the position of each."""
    union, size = np.empty(min(row.shape[0], slots.shape[0]), np.int64), 0
    for candidate in row:
        if candidate >= 0 and slots[candidate] < 0:
            slots[candidate] = size
            union[size] = candidate
            size += 1
    return union[:size]


@_jit
def _table(row, ranks, offsets, slots, size, n, k):  # type: ignore[no-untyped-def]
    """(candidates, systems) ranks, sorted along systems, so that the same ranks from different systems give equal sums.

    A candidate that is not in a list gets the mean of the ranks below the list (Borda), or no rank.
    """
    systems = offsets.shape[0] - 1
    table = np.empty((size, systems))
    for s in range(systems):
        length = 0
        while length < offsets[s + 1] - offsets[s] and row[offsets[s] + length] >= 0:
            length += 1
        table[:, s] = (length + 1 + n) / 2 if k < 0 else np.inf
        for c in range(offsets[s], offsets[s] + length):
            table[slots[row[c]], s] = ranks[c]
    for u in range(size):
        table[u] = np.sort(table[u])
    return table


@_jit
def _borda(table, union, n):  # type: ignore[no-untyped-def]
    """Order and scores by Borda count: n + 1 - rank, then the median rank."""
    systems = table.shape[1]
    sums, medians = np.zeros(table.shape[0]), np.zeros(table.shape[0])
    for u in range(table.shape[0]):
        for rank in table[u]:
            sums[u] += n + 1 - rank
        medians[u] = (table[u, (systems - 1) // 2] + table[u, systems // 2]) / 2
    return _by_points(sums, medians, union), sums + 0.25 * (1 - medians / (n + 1))


@_jit
def _by_reciprocals(table, union, k):  # type: ignore[no-untyped-def]
    """Order and scores by the sum of 1 / (k + rank)."""
    sums, lows = np.zeros(table.shape[0]), np.zeros(table.shape[0])
    for u in range(table.shape[0]):
        sums[u], lows[u] = _reciprocals(k, table[u])
    order = _by_points(sums, np.zeros(table.shape[0]), union)
    _settle(order, sums, lows, union)
    return order, sums


@_jit
def fuse(indices, ranks, offsets, n_candidates, n, k, best, points):  # type: ignore[no-untyped-def]
    """Fuses lists by rank: Borda points if k is below 0, else 1 / (k + rank).

    Args:
        indices: (queries, all lists side by side), best first; -1 pads a list.
        ranks: The rank of each, from 1.
        offsets: The columns of list s are `offsets[s]:offsets[s + 1]`.
        n_candidates: Number of named candidates.
        n: The size of the pool.
        k: The constant k, or a negative number for Borda.
        best: Output, the candidates, best first.
        points: Output, their scores.

    Returns:
        The length of the longest list.
    """
    slots = np.full(n_candidates, -1, np.int64)
    longest = 0
    for r in range(indices.shape[0]):
        union = _union(indices[r], slots)
        table = _table(indices[r], ranks[r], offsets, slots, union.shape[0], n, k)
        order, sums = _borda(table, union, n) if k < 0 else _by_reciprocals(table, union, k)
        depth = min(union.shape[0], best.shape[1])
        for place in range(depth):
            best[r, place], points[r, place] = union[order[place]], sums[order[place]]
        longest = max(longest, depth)
        slots[union] = -1
    return longest
