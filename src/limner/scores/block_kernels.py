"""Compiled loops over blocks of scores and lists of the best: ranks of positives and top-k selection.

The tie rule: candidates with equal scores keep candidate order (the lower index first). The counts say how many
candidates score higher, how many tie, and how many of the ties come first, so that any other rule can be derived.

Rows are made contiguous (which is free if they already are), because loops vectorise only then.
Compiled on first use and cached on disk. All loops release the GIL, so blocks can run in threads.
"""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)

FEW = 24  # up to this many best are inserted one by one; for more, a lower bound first rules out most values
GROUPS, BISECTIONS = 4, 12  # groups per best value, and steps, for that bound


@_jit
def count_one(values, score, place):  # type: ignore[no-untyped-def]  # numba infers the types
    """Counts the values above `score`, equal to it, and equal at a lower position."""
    higher, equal, before = np.uint32(0), np.uint32(0), 0  # 32 bits, like the scores: all SIMD lanes are used
    for i in range(values.shape[0]):
        higher = np.uint32(higher + np.uint32(values[i] > score))
        equal = np.uint32(equal + np.uint32(values[i] == score))
    if equal > 1:
        for i in range(place):
            before += values[i] == score
    return higher, equal, before


@_jit
def count_all(block, indptr, columns, counts):  # type: ignore[no-untyped-def]
    """Counts the candidates above and equal to every positive of a block, among the whole row.

    Args:
        block: Scores, one row per query.
        indptr: Positives of row r are `indptr[r]:indptr[r + 1]`.
        columns: The column of each positive.
        counts: Output, (positives, 3): above, equal (itself included), equal before it.
    """
    for r in range(block.shape[0]):
        row = np.ascontiguousarray(block[r])
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], counts[p, 2] = count_one(row, row[columns[p]], columns[p])


@_jit
def count_pool(block, indptr, places, counts, pools, pool_indptr, pool_columns):  # type: ignore[no-untyped-def]
    """Like `count_all`, but each row is ranked within its own pool of columns; `places` are positions in the pool."""
    for r in range(block.shape[0]):
        if indptr[r] == indptr[r + 1]:
            continue
        low, high = pool_indptr[pools[r]], pool_indptr[pools[r] + 1]
        first, size = pool_columns[low], high - low
        if pool_columns[high - 1] - first == size - 1:  # neighbours, as the folds of COCO are: nothing to copy
            values = np.ascontiguousarray(block[r])[first : first + size]
        else:
            values = np.empty(size, block.dtype)
            for i in range(size):
                values[i] = block[r, pool_columns[low + i]]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], counts[p, 2] = count_one(values, values[places[p]], places[p])


@_jit
def _any_above(row, low, high, threshold):  # type: ignore[no-untyped-def]
    """Whether any value of a segment is above `threshold`. No early exit, so that the loop vectorises.

    The index is unsigned for the same reason: a signed one might be negative and count from the end.
    """
    exceeds = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        exceeds = np.uint32(exceeds | np.uint32(row[i] > threshold))
    return exceeds > 0


@_jit
def insert(value, place, scores, indices, filled):  # type: ignore[no-untyped-def]
    """Inserts a value into the best so far, after equal ones."""
    at = min(filled, scores.shape[0] - 1)
    while at > 0 and scores[at - 1] < value:
        scores[at] = scores[at - 1]
        indices[at] = indices[at - 1]
        at -= 1
    scores[at] = value
    indices[at] = place


@_jit
def best(block, indices, scores):  # type: ignore[no-untyped-def]
    """The k best of every row, best first, equal scores in candidate order; k is the width of the outputs."""
    k = indices.shape[1]
    groups = np.empty(min(GROUPS * k, block.shape[1]), block.dtype)
    for r in range(block.shape[0]):
        row, best_scores, places = np.ascontiguousarray(block[r]), scores[r], indices[r]
        if k > FEW and _best_of_many(row, _lower_bound(row, k, groups), best_scores, places) == k:
            continue  # fewer are found in a row with NaN, which the loops below put into the list
        for c in range(k):
            insert(row[c], c, best_scores, places, c)
        for low in range(k, row.shape[0], 64):
            high = min(low + 64, row.shape[0])
            if _any_above(row, low, high, best_scores[k - 1]):
                for c in range(low, high):
                    if row[c] > best_scores[k - 1]:
                        insert(row[c], c, best_scores, places, k)


@_jit
def _best_of_many(row, bound, best_scores, places):  # type: ignore[no-untyped-def]
    """The k best of a row for large k: inserts only values that reach a bound; returns the number of entries."""
    k, filled = best_scores.shape[0], np.int64(0)
    for low in range(0, row.shape[0], 32):
        high = min(low + 32, row.shape[0])
        if filled < k:
            if _any_reaching(row, low, high, bound):
                for c in range(low, high):
                    if row[c] >= bound if filled < k else row[c] > best_scores[k - 1]:
                        _insert_by_bisection(row[c], c, best_scores, places, filled)
                        filled = min(filled + 1, k)
        elif _any_above(row, low, high, best_scores[k - 1]):
            for c in range(low, high):
                if row[c] > best_scores[k - 1]:
                    _insert_by_bisection(row[c], c, best_scores, places, k)
    return filled


@_jit
def _any_reaching(row, low, high, threshold):  # type: ignore[no-untyped-def]
    """Whether any value of a segment is at least `threshold`; vectorises like `_any_above`."""
    reaches = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        reaches = np.uint32(reaches | np.uint32(row[i] >= threshold))
    return reaches > 0


@_jit
def _insert_by_bisection(value, place, scores, indices, filled):  # type: ignore[no-untyped-def]
    """Like `insert`, but faster if many entries move, because whole blocks are moved."""
    low, high = 0, filled
    while low < high:
        middle = (low + high) // 2
        if scores[middle] < value:
            high = middle
        else:
            low = middle + 1
    last = min(filled, scores.shape[0] - 1)
    for at in range(last, low, -1):
        scores[np.uint64(at)] = scores[np.uint64(at - 1)]
    for at in range(last, low, -1):
        indices[np.uint64(at)] = indices[np.uint64(at - 1)]
    scores[low] = value
    indices[low] = place


@_jit
def _lower_bound(row, k, groups):  # type: ignore[no-untyped-def]
    """A value that at least k entries of the row reach, and few others.

    If k groups of the row have a maximum of at least t, then k values are at least t. Bisection finds a high t.
    """
    n = groups.shape[0]
    for i in range(n):
        groups[i] = row[i]
    for low in range(n, row.shape[0] - n + 1, n):
        for i in range(np.uint64(n)):
            value = row[np.uint64(low) + i]
            groups[i] = value if value > groups[i] else groups[i]
    lowest, highest = groups[0], groups[0]  # a loop: numba's min and max take a second to compile
    for i in range(n):
        if not groups[i] >= lowest:
            lowest = groups[i]
            if lowest != lowest:
                return lowest
        if groups[i] > highest:
            highest = groups[i]
    for _ in range(BISECTIONS):
        middle = lowest / 2 + highest / 2
        if not lowest < middle < highest:
            break
        reached = np.uint32(0)
        for i in range(np.uint64(n)):
            reached = np.uint32(reached + np.uint32(groups[i] >= middle))
        if reached >= k:
            lowest = middle
        else:
            highest = middle
    return lowest


@_jit
def first_beyond(block, limit):  # type: ignore[no-untyped-def]
    """Finds (row, column) of the first value that is neither -inf nor within -limit to limit; (-1, -1) if none is."""
    for r in range(block.shape[0]):
        row, beyond = block[r], np.uint32(0)
        for i in range(np.uint64(0), np.uint64(row.shape[0])):
            size = abs(row[i]) if row[i] != -np.inf else limit
            beyond = np.uint32(beyond | np.uint32(not size <= limit))
        if beyond:
            for i in range(row.shape[0]):
                if row[i] != -np.inf and not abs(row[i]) <= limit:
                    return r, i
    return -1, -1


# Products are finite, and the order of -0.0 and 0.0 does not matter: these flags let the loops vectorise.
_highest = compiled(nogil=True, fastmath={"nnan", "nsz"}, boundscheck=False)


@_highest
def highest_of_columns(block, ends, first, pooled):  # type: ignore[no-untyped-def]
    """Raises `pooled` to the highest value of each range of columns.

    Args:
        block: Products, a row per vector.
        ends: Where the ranges end; each begins where the previous one ends.
        first: The column of `pooled` for the first range.
        pooled: Output, a row per vector and a column per item.
    """
    for r in range(block.shape[0]):
        low = 0
        for n in range(ends.shape[0]):
            top = pooled[r, first + n]
            for i in range(np.uint64(low), np.uint64(ends[n])):
                value = block[r, i]
                top = value if value > top else top
            pooled[r, first + n] = top
            low = ends[n]


@_highest
def highest_of_rows(block, owners, pooled):  # type: ignore[no-untyped-def]
    """Raises row `owners[r]` of `pooled` to row r of the block, column by column."""
    for r in range(block.shape[0]):
        row, highest = block[r], pooled[owners[r]]
        for i in range(row.shape[0]):
            highest[i] = row[i] if row[i] > highest[i] else highest[i]


@_jit
def add_rows_of_items(block, owners, sums):  # type: ignore[no-untyped-def]
    """Adds row r of a block to row `owners[r]` of the sums."""
    for r in range(block.shape[0]):
        row, totals = block[r], sums[owners[r]]
        for i in range(row.shape[0]):
            totals[i] += np.float64(row[i])


@_jit
def add_columns_of_items(block, owners, sums):  # type: ignore[no-untyped-def]
    """Adds column i of a block to column `owners[i]` of the sums."""
    for r in range(block.shape[0]):
        for i in range(block.shape[1]):
            sums[r, owners[i]] += np.float64(block[r, i])


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
