"""Compiled loops that check the lists of a ranking."""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)


@_jit
def first_fault(lists, scores, n_candidates):  # type: ignore[no-untyped-def]
    """Finds (row, place) of the first invalid entry of a ranking; (-1, -1) if all are valid.

    Invalid are: a candidate outside 0 to n - 1 (except -1, which pads the end of a list), a repeated candidate, and a
    score that is NaN or above the one before it. `scores` has no columns if only the order is known.
    """
    last_row = np.full(n_candidates, -1, np.int32)
    for r in range(lists.shape[0]):
        row = lists[r]
        length = row.shape[0]
        while length and row[length - 1] == -1:
            length -= 1
        for i in range(length):
            c = row[i]
            if c < 0 or c >= n_candidates or last_row[c] == r:
                return r, i
            last_row[c] = r
        if scores.shape[1] and length:
            place = _first_rise(scores[r, :length])
            if place >= 0:
                return r, place
    return -1, -1


@_jit
def _first_rise(scores):  # type: ignore[no-untyped-def]
    """The first place whose score is NaN or above the one before it; -1 if there is no such place."""
    falling = scores[0] == scores[0]
    for i in range(1, scores.shape[0]):
        falling &= scores[i] <= scores[i - 1]
    if falling:
        return -1
    for i in range(scores.shape[0]):
        if not scores[i] <= scores[max(i - 1, 0)]:
            return i
    return -1
