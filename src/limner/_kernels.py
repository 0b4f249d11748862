"""The few hot loops: counting where positives stand, choosing the best k, locating ids in lists.

THE tie rule lives here: candidates with equal scores keep candidate order (the lower index first), and the
counts say how many stand above, how many are equal, and how many equals come before, so that any other rule
can be derived from them.

Rows are made contiguous where they are not (it costs nothing where they are), since only then loops fill vector lanes.
Compiled on first use and cached on disk. All loops release the interpreter lock, so blocks run on threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

_jit: Any = numba.njit(cache=True, nogil=True, fastmath=False, boundscheck=False)

# Calls between compiled functions count references to every array they pass: more than a few bytes of work cost.
_inlined: Any = numba.njit(nogil=True, inline="always")


@_jit
def _count(values, score, place):  # type: ignore[no-untyped-def]  # numba infers the types
    """How many of `values` are above `score`, equal to it, and equal at a lower place."""
    above, equal, before = np.uint32(0), np.uint32(0), 0  # 32 bits as the scores have: all vector lanes are filled
    for i in range(values.shape[0]):
        above = np.uint32(above + np.uint32(values[i] > score))
        equal = np.uint32(equal + np.uint32(values[i] == score))
    if equal > 1:
        for i in range(place):
            before += values[i] == score
    return above, equal, before


@_jit
def count_all(block, indptr, columns, counts):  # type: ignore[no-untyped-def]
    """Counts for every positive of every row of a block, against the whole row.

    Args:
        block: Scores, one row per query.
        indptr: Positives of row r are `indptr[r]:indptr[r + 1]`.
        columns: The column of each positive.
        counts: Output, (positives, 3): above, equal (itself included), equal before it.
    """
    for r in range(block.shape[0]):
        row = np.ascontiguousarray(block[r])
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], counts[p, 2] = _count(row, row[columns[p]], columns[p])


@_jit
def count_against(block, indptr, scores, places, counts):  # type: ignore[no-untyped-def]
    """As `count_all`, where a block is a piece of its rows: positives have their scores with them.

    `places` are relative to the piece: below 0 for positives of earlier pieces, beyond its width for later ones.
    """
    for r in range(block.shape[0]):
        row = np.ascontiguousarray(block[r])
        width = row.shape[0]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], _ = _count(row, scores[p], 0)
            alone = counts[p, 1] == 1 and 0 <= places[p] < width
            if counts[p, 1] and not alone:
                for i in range(min(max(places[p], 0), width)):
                    counts[p, 2] += row[i] == scores[p]


@_jit
def count_pool(block, indptr, places, counts, pools, pool_indptr, pool_columns):  # type: ignore[no-untyped-def]
    """As `count_all`, each row against its own pool of columns; `places` are places within the pool."""
    for r in range(block.shape[0]):
        if indptr[r] == indptr[r + 1]:
            continue
        low, high = pool_indptr[pools[r]], pool_indptr[pools[r] + 1]
        values = np.empty(high - low, block.dtype)
        for i in range(high - low):
            values[i] = block[r, pool_columns[low + i]]
        for p in range(indptr[r], indptr[r + 1]):
            counts[p, 0], counts[p, 1], counts[p, 2] = _count(values, values[places[p]], places[p])


@_jit
def _any_above(row, low, high, least):  # type: ignore[no-untyped-def]
    """Whether any value of a stretch is above `least`; a loop that may stop anywhere would fill no vector lanes.

    Nor would one whose index might be negative, and so count from the end: unsigned ones are not.
    """
    found = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        found = np.uint32(found | np.uint32(row[i] > least))
    return found > 0


@_jit
def _insert(value, place, scores, indices, held):  # type: ignore[no-untyped-def]
    """Puts a value among the best so far, after those that equal it."""
    at = min(held, scores.shape[0] - 1)
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
    for r in range(block.shape[0]):
        row, kept, places = np.ascontiguousarray(block[r]), scores[r], indices[r]
        for c in range(k):
            _insert(row[c], c, kept, places, c)
        for low in range(k, row.shape[0], 64):
            high = min(low + 64, row.shape[0])
            if _any_above(row, low, high, kept[k - 1]):
                for c in range(low, high):
                    if row[c] > kept[k - 1]:
                        _insert(row[c], c, kept, places, k)


@_jit
def locate(lists, indptr, columns, found):  # type: ignore[no-untyped-def]
    """The place of each positive in its row's list of candidate indices, -1 where the list lacks it."""
    for r in range(lists.shape[0]):
        row = lists[r]
        for p in range(indptr[r], indptr[r + 1]):
            found[p] = _first(row, columns[p])


@_jit
def _first(row, wanted):  # type: ignore[no-untyped-def]
    """The first place of a value, by whole stretches: a loop that may stop anywhere fills no vector lanes."""
    width = row.shape[0]
    for low in range(0, width, 128):
        high, held = min(low + 128, width), False
        for i in range(low, high):
            held |= row[i] == wanted
        if held:
            for i in range(low, high):
                if row[i] == wanted:
                    return i
    return -1


@_jit
def first_fault(lists, scores, n_candidates):  # type: ignore[no-untyped-def]
    """(row, place) of the first entry that cannot stand in a ranking, (-1, -1) where all can.

    Faults: a candidate outside 0 to n - 1 (-1 pads the end of a list), one that the list held before, a score that is
    NaN or above the one before it. `scores` has no columns where only an order is known.
    """
    seen = np.full(n_candidates, -1, np.int32)
    for r in range(lists.shape[0]):
        row = lists[r]
        length = row.shape[0]
        while length and row[length - 1] == -1:
            length -= 1
        for i in range(length):
            c = row[i]
            if c < 0 or c >= n_candidates or seen[c] == r:
                return r, i
            seen[c] = r
        if scores.shape[1] and length:
            place = _first_rise(scores[r, :length])
            if place >= 0:
                return r, place
    return -1, -1


@_jit
def _first_rise(scores):  # type: ignore[no-untyped-def]
    """The first place whose score is NaN or above the one before it, -1 where there is none."""
    falling = scores[0] == scores[0]
    for i in range(1, scores.shape[0]):
        falling &= scores[i] <= scores[i - 1]
    if falling:
        return -1
    for i in range(scores.shape[0]):
        if not scores[i] <= scores[max(i - 1, 0)]:
            return i
    return -1


# --- words of a text file -----------------------------------------------------------------------------------------
# Distinct words are kept one after another in `held`, word w at starts[w]:starts[w + 1]; `slots` is a table of their
# numbers by hash, open addressing, a power of two long and at least twice as long as there may be words.


@_inlined
def _hash(text, start, stop):  # type: ignore[no-untyped-def]
    """FNV-1a, its high half folded into the low one, which picks the slot."""
    value = np.uint64(14695981039346656037)
    for i in range(start, stop):
        value = (value ^ np.uint64(text[i])) * np.uint64(1099511628211)
    return np.int64((value ^ (value >> np.uint64(32))) & np.uint64(0x7FFFFFFF))


@_inlined
def _same(text, start, held, at, length):  # type: ignore[no-untyped-def]
    i = 0
    while i < length and text[start + i] == held[at + i]:
        i += 1
    return i == length


@_jit
def number_words(text, spans, slots, starts, held, count, numbers):  # type: ignore[no-untyped-def]
    """The number of the word in each span of the text; a new word is added, and `count[0]` says how many there are.

    Hashes come first and the table is read in a loop of its own, so that many slow reads are under way at once.
    """
    mask = slots.shape[0] - 1
    first = np.empty(spans.shape[0], np.int64)
    for i in range(spans.shape[0]):
        first[i] = _hash(text, spans[i, 0], spans[i, 1]) & mask
    for i in range(spans.shape[0]):
        numbers[i] = slots[first[i]]
    for i in range(spans.shape[0]):
        begin, length, slot = spans[i, 0], spans[i, 1] - spans[i, 0], first[i]
        word = numbers[i] if numbers[i] >= 0 else slots[slot]
        while word >= 0:
            at = starts[word]
            if starts[word + 1] - at == length and _same(text, begin, held, at, length):
                break
            slot = (slot + 1) & mask
            word = slots[slot]
        if word < 0:
            word = count[0]
            slots[slot] = word
            starts[word + 1] = starts[word] + length
            for j in range(length):
                held[starts[word] + j] = text[begin + j]
            count[0] += 1
        numbers[i] = word


@_jit
def place_words(slots, starts, held, count):  # type: ignore[no-untyped-def]
    """Fills an empty table with the words there are, after it has grown."""
    mask = slots.shape[0] - 1
    for word in range(count[0]):
        slot = _hash(held, starts[word], starts[word + 1]) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = word


@_inlined
def _blank(byte):  # type: ignore[no-untyped-def]
    """White space as C and Python's bytes have it: tab, line ends, feeds, space."""
    return byte == 32 or 9 <= byte <= 13


@_jit
def split_lines(text, wanted, spans):  # type: ignore[no-untyped-def]
    """Finds the words of each line, any white space between them; blank lines are skipped.

    Args:
        text: Bytes, the last one a line's end.
        wanted: For each column of a line the place in `spans` where its word goes, -1 for a column not wanted.
        spans: Output, (wanted columns, lines, 2): where each word begins and ends.

    Returns:
        How many lines were read; -1 where one has another number of columns.
    """
    at, line, n_columns = 0, 0, wanted.shape[0]
    while at < text.shape[0]:
        column = 0
        while text[at] != 10:
            if _blank(text[at]):
                at += 1
                continue
            start = at
            while not _blank(text[at]):
                at += 1
            if column < n_columns and wanted[column] >= 0:
                spans[wanted[column], line, 0] = start
                spans[wanted[column], line, 1] = at
            column += 1
        at += 1
        if column == n_columns:
            line += 1
        elif column:
            return -1
    return line


@_jit
def gather_words(text, spans, gathered, ends):  # type: ignore[no-untyped-def]
    """Copies the words of all spans one after another; word i ends at `ends[i + 1]`, and `ends[0]` stays 0."""
    at = 0
    for i in range(spans.shape[0]):
        for j in range(spans[i, 0], spans[i, 1]):
            gathered[at] = text[j]
            at += 1
        ends[i + 1] = at
