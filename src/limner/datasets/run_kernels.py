"""The hot loops of reading run files: columns, plain decimal numbers, and the distinct words.

Distinct words are stored one after another in `word_bytes`, word w at starts[w]:starts[w + 1]. `slots` is a hash table
of their numbers with open addressing; its length is a power of two and at least twice the number of words. An entry has
the number of the word in its low half and other bits of the hash in its high half; -1 marks a free slot.

Compiled on first use and cached on disk. All loops release the GIL.
"""

from __future__ import annotations

import numba
import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)

# Inlined: a call between compiled functions counts references to each array, which costs more than a short loop.
_inlined = numba.njit(nogil=True, inline="always")


@_inlined
def _byte(text, at):  # type: ignore[no-untyped-def]
    """One byte of the text. The index is unsigned, so that numba compiles no check for negative indices."""
    return text[np.uintp(at)]


@_inlined
def _hashed(value, byte):  # type: ignore[no-untyped-def]
    """One step of the FNV-1a hash, whose initial value is 14695981039346656037."""
    return (value ^ np.uint64(byte)) * np.uint64(1099511628211)


@_inlined
def _slot(value, slots):  # type: ignore[no-untyped-def]
    return np.int64((value ^ (value >> np.uint64(32))) & np.uint64(slots.shape[0] - 1))


@_inlined
def _tag(value):  # type: ignore[no-untyped-def]
    return np.int64(value >> np.uint64(33))


@_inlined
def _equal_words(text, start, word_bytes, at, length):  # type: ignore[no-untyped-def]
    i = 0
    while i < length and _byte(text, start + i) == _byte(word_bytes, at + i):
        i += 1
    return i == length


@_jit
def number_words(text, spans, hashes, slots, starts, word_bytes, count, numbers):  # type: ignore[no-untyped-def]
    """Writes the number of the word in each span of the text; new words are added, and `count[0]` is their total.

    Each table is read in its own loop, so that many slow reads overlap.
    """
    mask = slots.shape[0] - 1
    begins = np.empty(spans.shape[0], np.int64)
    for i in range(spans.shape[0]):
        slot, tag = _slot(hashes[i], slots), _tag(hashes[i])
        while slots[slot] >= 0 and slots[slot] >> 32 != tag:
            slot = (slot + 1) & mask
        numbers[i] = slots[slot] & 0x7FFFFFFF if slots[slot] >= 0 else -1
    for i in range(spans.shape[0]):
        begins[i] = starts[max(numbers[i], 0)]
    for i in range(spans.shape[0]):
        begin, length, word = spans[i, 0], spans[i, 1] - spans[i, 0], numbers[i]
        if (
            word >= 0
            and starts[word + 1] - begins[i] == length
            and _equal_words(text, begin, word_bytes, begins[i], length)
        ):
            continue
        repeated = (
            i > 0
            and spans[i - 1, 1] - spans[i - 1, 0] == length
            and _equal_words(text, begin, text, spans[i - 1, 0], length)
        )
        numbers[i] = (
            numbers[i - 1] if repeated else _number(text, begin, length, hashes[i], slots, starts, word_bytes, count)
        )


@_jit
def _number(text, begin, length, value, slots, starts, word_bytes, count):  # type: ignore[no-untyped-def]
    """The number of one word; a new word is added."""
    slot, word = _slot(value, slots), count[0]
    while slots[slot] >= 0:
        stored = slots[slot] & 0x7FFFFFFF
        if starts[stored + 1] - starts[stored] == length and _equal_words(
            text, begin, word_bytes, starts[stored], length
        ):
            return stored
        slot = (slot + 1) & (slots.shape[0] - 1)
    slots[slot] = (_tag(value) << 32) | word
    starts[word + 1] = starts[word] + length
    for i in range(length):
        word_bytes[starts[word] + i] = text[begin + i]
    count[0] += 1
    return word


@_jit
def place_words(slots, starts, word_bytes, count):  # type: ignore[no-untyped-def]
    """Fills an enlarged, empty table with the existing words."""
    for word in range(count[0]):
        value = np.uint64(14695981039346656037)
        for i in range(starts[word], starts[word + 1]):
            value = _hashed(value, word_bytes[i])
        slot = _slot(value, slots)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.shape[0] - 1)
        slots[slot] = (_tag(value) << 32) | word


@_inlined
def _blank(byte):  # type: ignore[no-untyped-def]
    """Whether a byte is white space, as in C and Python: tab, line ends, feeds, space."""
    return byte <= 32 and (byte == 32 or 9 <= byte <= 13)


@_jit
def read_run_lines(text, powers, spans, hashes, scores, ranks):  # type: ignore[no-untyped-def]
    """Reads lines of `query Q0 candidate rank score tag`, separated by any white space; blank lines are skipped.

    Args:
        text: Bytes that end with a line break.
        powers: 1.0, 10.0, 100.0, ... up to 1e18.
        spans: Output, (3, lines, 2): where the query, the candidate and the score of each line begin and end.
        hashes: Output, (2, lines): hashes of query and candidate.
        scores: Output, the score if it is a plain decimal number with few digits, which is then exact.
        ranks: Output, the rank; NaN if it is not a plain number.

    Returns:
        The number of lines read, or -1 if a line does not have six columns; and whether all scores were plain.
    """
    at, line, all_plain = 0, 0, True
    while at < text.shape[0]:
        column = 0
        while _byte(text, at) != 10:
            if _blank(_byte(text, at)):
                at += 1
                continue
            start = at
            if column == 0 or column == 2:
                value = np.uint64(14695981039346656037)
                while not _blank(_byte(text, at)):
                    value = _hashed(value, _byte(text, at))
                    at += 1
                spans[column // 2, line, 0], spans[column // 2, line, 1] = start, at
                hashes[column // 2, line] = value
            elif column == 4:
                scores[line], at, plain = _decimal(text, start, powers)
                spans[2, line, 0], spans[2, line, 1] = start, at
                all_plain &= plain
            elif column == 3:
                ranks[line], at, plain = _decimal(text, start, powers)
                if not plain:
                    ranks[line] = np.nan
            else:
                while not _blank(_byte(text, at)):
                    at += 1
            column += 1
        at += 1
        if column == 6:
            line += 1
        elif column:
            return -1, False
    return line, all_plain


@_inlined
def _decimal(text, start, powers):  # type: ignore[no-untyped-def]
    """Parses (value, end, whether it is exact): an integer below 2**53 over a power of ten is rounded only once."""
    at = start + (text[start] == 45)
    integer, digits, fraction, after_point, plain = np.int64(0), 0, 0, 0, True
    while not _blank(_byte(text, at)):
        digit = np.int64(_byte(text, at)) - 48
        if 0 <= digit <= 9 and digits < 18:
            integer = 10 * integer + digit
            digits += 1
            fraction += after_point
        elif _byte(text, at) == 46 and not after_point:
            after_point = 1
        else:
            plain = False
        at += 1
    value = integer / powers[fraction]
    return -value if text[start] == 45 else value, at, plain and digits > 0 and integer < (1 << 53)


@_jit
def gather_words(text, spans, gathered, ends):  # type: ignore[no-untyped-def]
    """Copies the words of all spans one after another; word i ends at `ends[i + 1]`, and `ends[0]` stays 0."""
    at = 0
    for i in range(spans.shape[0]):
        for j in range(spans[i, 0], spans[i, 1]):
            gathered[at] = text[j]
            at += 1
        ends[i + 1] = at


@_jit
def measure_lists(rows, scores, lengths):  # type: ignore[no-untyped-def]
    """Counts the lines of each query, and checks that they are consecutive, with non-increasing scores."""
    ordered = True
    for i in range(rows.shape[0]):
        if i and rows[i] == rows[i - 1]:
            ordered &= scores[i] <= scores[i - 1]
        elif lengths[rows[i]]:
            ordered = False
        lengths[rows[i]] += 1
    return ordered
