"""Compiled loops of fusion by rank. All release the interpreter lock."""

from __future__ import annotations

from typing import Any

import numpy as np

from limner.scratch import compiled

_jit: Any = compiled(nogil=True)


@_jit
def shared_ranks(indices, scores, ranks):  # type: ignore[no-untyped-def]
    """Ranks from 1 along each row, whose scores do not rise; equal scores share the mean of theirs. -1 ends a row."""
    for r in range(indices.shape[0]):
        low = 0
        while low < indices.shape[1] and indices[r, low] >= 0:
            high = low + 1
            while high < indices.shape[1] and indices[r, high] >= 0 and scores[r, high] == scores[r, low]:
                high += 1
            ranks[r, low:high] = (low + high + 1) / 2
            low = high


@_jit
def _by_points(points, medians, union):  # type: ignore[no-untyped-def]
    """Places in order of points, highest first, then of the median rank, then of the candidate."""
    order = np.argsort(union, kind="mergesort")
    order = order[np.argsort(medians[order], kind="mergesort")]
    return order[np.argsort(-points[order], kind="mergesort")]


@_jit
def fuse(indices, ranks, offsets, n_candidates, n, k, best, points):  # type: ignore[no-untyped-def]
    """Fuses lists by rank: Borda points where k is below 0, else 1 / (k + rank).

    Args:
        indices: (queries, all lists side by side), best first; -1 pads a list.
        ranks: The rank of each, from 1.
        offsets: The columns of list s are `offsets[s]:offsets[s + 1]`.
        n_candidates: How many candidates are named.
        n: The size of the pool.
        k: See above.
        best: Output, the candidates, best first.
        points: Output, their scores.

    Returns:
        The length of the longest list.
    """
    systems = offsets.shape[0] - 1
    slots = np.full(n_candidates, -1, np.int64)
    longest = 0
    for r in range(indices.shape[0]):
        union = np.empty(min(indices.shape[1], n_candidates), np.int64)
        size = 0
        for c in range(indices.shape[1]):
            candidate = indices[r, c]
            if candidate >= 0 and slots[candidate] < 0:
                slots[candidate] = size
                union[size] = candidate
                size += 1
        table = np.empty((size, systems))
        sums = np.zeros(size)
        for s in range(systems):
            length = 0
            while length < offsets[s + 1] - offsets[s] and indices[r, offsets[s] + length] >= 0:
                length += 1
            table[:, s] = (length + 1 + n) / 2 if k < 0 else np.inf
            for c in range(offsets[s], offsets[s] + length):
                table[slots[indices[r, c]], s] = ranks[r, c]
        medians = np.zeros(size)
        for u in range(size):
            own = np.sort(table[u])  # equal ranks from other systems must add up to an equal sum
            for rank in own:
                sums[u] += n + 1 - rank if k < 0 else 1 / (k + rank)
            if k < 0:
                medians[u] = (own[(systems - 1) // 2] + own[systems // 2]) / 2
        order = _by_points(sums, medians, union[:size])
        kept = min(size, best.shape[1])
        for place in range(kept):
            u = order[place]
            best[r, place] = union[u]
            points[r, place] = sums[u] + (0.25 * (1 - medians[u] / (n + 1)) if k < 0 else 0.0)
        longest = max(longest, kept)
        slots[union[:size]] = -1
    return longest
