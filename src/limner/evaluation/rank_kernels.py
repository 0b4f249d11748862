"""Compiled loops that count the candidates above positives and locate positives in lists."""

from __future__ import annotations

import numpy as np

from limner.core.cache_dir import compiled
from limner.scores.block_kernels import NEVER, count_one

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)


@_jit
def count_against(block, indptr, scores, places, counts):  # type: ignore[no-untyped-def]
    """Like `count_all`, for a block that holds only a range of columns; the scores of the positives are given.

    `places` are relative to the range: below 0 for positives in earlier columns, beyond its width for later ones.
    """
    for r in range(block.shape[0]):
        row = np.ascontiguousarray(block[r])
        width = row.shape[0]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], _ = count_one(row, scores[p], 0)
            alone = counts[p, 1] == 1 and 0 <= places[p] < width
            if counts[p, 1] and not alone:
                for i in range(min(max(places[p], 0), width)):
                    counts[p, 2] += row[i] == scores[p]


@_jit
def _needed(scores, requests, depths, out):  # type: ignore[no-untyped-def]
    """The depths of a row's positives: none for the best of every request, and those with the same score."""
    out[:] = depths
    every = np.uint64(0)
    for p in range(scores.shape[0]):
        every |= requests[p]
    while every:
        bit, best = every & (~every + np.uint64(1)), -np.inf
        every &= ~bit
        for p in range(scores.shape[0]):
            if requests[p] & bit and scores[p] > best:
                best = scores[p]
        for p in range(scores.shape[0]):
            if requests[p] & bit and scores[p] == best:
                out[p] = NEVER


@_jit
def count_in_best(indices, best, positives, pools, counts, depths, ends, left):  # type: ignore[no-untyped-def]
    """Counts the candidates above and equal to the positives that are above the last of the best; most of them are.

    Args:
        indices: The best candidates of every row, (rows, k); k may be 0.
        best: Their scores. All candidates that are above the last are among them.
        positives: indptr (positives of row r are `indptr[r]:indptr[r + 1]`), their columns, scores and depths, and the
            requests (as bits) that depend on the best of them. Any other with so many candidates above it is given up.
        pools: The pool of every row, and of every column; empty if all columns count.
        counts: Output, (positives, 3): above, equal (itself included), equal before it; `NEVER` above if given up, and
            0, 1, 0 for those that are left.
        depths: Output, the depth of each positive; `NEVER` if it is needed in any case.
        ends: Output, indptr of the positives that have still to be counted.
        left: Output, the numbers of these.
    """
    (indptr, columns, scores, exact, requests), (own_pool, pool_of), k = positives, pools, indices.shape[1]
    ends[0] = filled = 0
    for r in range(indices.shape[0]):
        own_positives = slice(indptr[r], indptr[r + 1])
        _needed(scores[own_positives], requests[own_positives], exact[own_positives], depths[own_positives])
        for p in range(own_positives.start, own_positives.stop):
            n_above, equal, before = 0, 0, 0
            for n in range(k):
                if best[r, n] >= scores[p] and (not own_pool.shape[0] or pool_of[indices[r, n]] == own_pool[r]):
                    n_above += best[r, n] > scores[p]
                    equal += best[r, n] == scores[p]
                    before += best[r, n] == scores[p] and indices[r, n] < columns[p]
            if n_above >= depths[p]:
                n_above, equal, before = NEVER, 1, 0
            elif k == 0 or not scores[p] > best[r, k - 1]:
                n_above, equal, before = 0, 1, 0
                left[filled] = p
                filled += 1
            counts[p, 0], counts[p, 1], counts[p, 2] = n_above, equal, before
        ends[r + 1] = filled


@_jit
def locate(lists, indptr, columns, ranks):  # type: ignore[no-untyped-def]
    """The position of each positive in its row's list of candidate indices; -1 if it is not in the list."""
    for r in range(lists.shape[0]):
        row = lists[r]
        for p in range(indptr[r], indptr[r + 1]):
            ranks[p] = _first(row, columns[p])


@_jit
def filter_lists(lists, indptr, query_pools, candidate_pools, ranks, lengths):  # type: ignore[no-untyped-def]
    """Converts positions in lists to positions after filtering each list to its query's pool; counts what is left."""
    before = np.zeros(lists.shape[1], np.int64)
    for r in range(lists.shape[0]):
        for i in range(lists.shape[1]):
            before[i] = lengths[r]
            c = lists[r, i]
            lengths[r] += c >= 0 and candidate_pools[c] == query_pools[r]
        for p in range(indptr[r], indptr[r + 1]):
            if ranks[p] >= 0:
                ranks[p] = before[ranks[p]]


@_jit
def count_tied(lists, scores, indptr, places, query_pools, candidate_pools, before, tied):  # type: ignore[no-untyped-def]
    """Counts the candidates with the score of each positive in its row's list.

    Args:
        lists: Candidate indices, best first; -1 pads short lists.
        scores: Their scores.
        indptr: Positives of row r are `indptr[r]:indptr[r + 1]`.
        places: The position of each positive in its list; -1 if it is not in the list.
        query_pools: The pool of every row; empty if all candidates count.
        candidate_pools: The pool of every candidate.
        before: Output, those that are listed before the positive.
        tied: Output, all of them, the positive included; 1 if it is not in the list.
    """
    for r in range(lists.shape[0]):
        for p in range(indptr[r], indptr[r + 1]):
            place, before[p], tied[p] = places[p], 0, 1
            if place < 0:
                continue
            first = place
            while first > 0 and scores[r, first - 1] == scores[r, place]:
                first -= 1
            i = first
            while i < lists.shape[1] and lists[r, i] >= 0 and scores[r, i] == scores[r, place]:
                if i != place and (not query_pools.shape[0] or candidate_pools[lists[r, i]] == query_pools[r]):
                    before[p] += i < place
                    tied[p] += 1
                i += 1


@_jit
def _first(row, column):  # type: ignore[no-untyped-def]
    """The first position of a value, segment by segment: a loop with an early exit would not vectorise."""
    width = row.shape[0]
    for low in range(0, width, 128):
        high, is_listed = min(low + 128, width), False
        for i in range(low, high):
            is_listed |= row[i] == column
        if is_listed:
            for i in range(low, high):
                if row[i] == column:
                    return i
    return -1
