"""The hot loops of the text kernels: word sequences of a sentence, and sums over all pairs of sentences.

Sentences are concatenated in one array of word ids: sentence s is `words[starts[s]:starts[s + 1]]`, and document d is
sentences `documents[d]` to `documents[d + 1] - 1`. Compiled on first use and cached on disk; rows run on all cores.
"""

from __future__ import annotations

import numba
import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True)
_parallel = compiled(nogil=True, parallel=True)


@_jit
def previous(words, starts):  # type: ignore[no-untyped-def]  # numba infers the types
    """The previous position of the same word in its sentence, or 0."""
    previous_places = np.zeros(len(words), dtype=np.int32)
    for s in range(len(starts) - 1):
        for j in range(starts[s], starts[s + 1]):
            for i in range(j - 1, starts[s] - 1, -1):
                if words[i] == words[j]:
                    previous_places[j] = i - starts[s]
                    break
    return previous_places


@_jit
def count_sequences(starts, before, length):  # type: ignore[no-untyped-def]
    """The number of sequences of up to `length` words in each sentence; see `sequences`."""
    counts = np.zeros(len(starts) - 1, dtype=np.int64)
    for s in range(len(starts) - 1):
        n = starts[s + 1] - starts[s]
        counts[s] = n
        if length > 1:
            counts[s] += n * (n - 1) // 2
        if length > 2:
            for j in range(n):
                counts[s] += (j - before[starts[s] + j]) * (n - 1 - j)
    return counts


@_jit
def sequences(words, starts, before, weights, base, length, offsets, keys, values):  # type: ignore[no-untyped-def]
    """The sequences of 1 to 3 words of each sentence: a unique key for each, and the product of its weights.

    A sequence counts once for every span (i, k) that starts with its first word, ends with its last and contains the
    others in order between them. A middle word that occurs twice in one span counts once; `before` is used for this.
    """
    for s in range(len(starts) - 1):
        low, high, at = starts[s], starts[s + 1], offsets[s]
        for i in range(low, high):
            first, weight = np.int64(words[i] + 1), weights[words[i]]
            keys[at], values[at] = first, weight
            at += 1
            if length < 2:
                continue
            for j in range(i + 1, high):
                second, product = first * base + words[j] + 1, weight * weights[words[j]]
                keys[at], values[at] = second, product
                at += 1
                if length > 2 and before[j] <= i - low:
                    for k in range(j + 1, high):
                        keys[at], values[at] = second * base + words[k] + 1, product * weights[words[k]]
                        at += 1


@_jit
def different(words, starts, documents):  # type: ignore[no-untyped-def]
    """The distinct words of each document: each word's index among them, the words, and where each document starts."""
    local, distinct = np.zeros(len(words), dtype=np.int32), np.zeros(len(words), dtype=np.int32)
    edges = np.zeros(len(documents), dtype=np.int64)
    count = 0
    for d in range(len(documents) - 1):
        edges[d] = count
        for at in range(starts[documents[d]], starts[documents[d + 1]]):
            edge = edges[d]
            while edge < count and distinct[edge] != words[at]:
                edge += 1
            if edge == count:
                distinct[count] = words[at]
                count += 1
            local[at] = edge - edges[d]
    edges[-1] = count
    return local, distinct[:count].copy(), edges


@_jit
def _matches(d, e, one, second, table, out):  # type: ignore[no-untyped-def]
    """The match of every distinct word of one document with every distinct word of another, weights included."""
    words, edges, weights = one[4], one[5], one[6]
    words_, edges_, weights_ = second[4], second[5], second[6]
    vocabulary = len(table)
    for i in range(edges[d], edges[d + 1]):
        for j in range(edges_[e], edges_[e + 1]):
            value = weights[i] * weights_[j]
            if words[i] < vocabulary and words_[j] < vocabulary:
                value *= table[words[i], words_[j]]
            elif words[i] != words_[j]:
                value = 0.0
            out[i - edges[d], j - edges_[e]] = value


@_jit
def _documents(d, e, one, second, table, length, matches, match, sums):  # type: ignore[no-untyped-def]
    """The kernel of two documents whose words match partially: the sum over all pairs of their sentences.

    With S[j, j'] the match of word j of one sentence with word j' of the other, weights included, sequences of three
    are sum_jj' S[j, j'] L[j, j'] R[j, j']: L sums S over all words before both (from the previous occurrence of the
    same word), R over all after both. Sums over rectangles come from one table of cumulative sums, `sums`, so that a
    pair of sentences costs a few operations per pair of words.
    """
    starts, documents, before, local, plain = one[0], one[1], one[2], one[3], one[7]
    starts_, documents_, before_, local_, plain_ = second[0], second[1], second[2], second[3], second[7]
    _matches(d, e, one, second, table, matches)
    total = 0.0
    for s in range(documents[d], documents[d + 1]):
        a, n = starts[s], starts[s + 1] - starts[s]
        for t in range(documents_[e], documents_[e + 1]):
            b, m = starts_[t], starts_[t + 1] - starts_[t]
            for i in range(n):
                word, running = local[a + i], 0.0
                for j in range(m):
                    value = matches[word, local_[b + j]]
                    match[i, j] = value
                    running += value
                    sums[i + 1, j + 1] = sums[i, j + 1] + running
            total += sums[n, m]
            if length == 3 and plain[s] and plain_[t]:  # no repeated word: L covers everything before
                for i in range(n):
                    right = 1.0 + sums[n, m] - sums[i + 1, m]
                    for j in range(m):
                        total += match[i, j] * sums[i, j] * (right - sums[n, j + 1] + sums[i + 1, j + 1])
            elif length == 3:
                for i in range(n):
                    p, right = before[a + i], sums[n, m] - sums[i + 1, m]
                    for j in range(m):
                        q = before_[b + j]
                        left = sums[i, j] - sums[p, j] - sums[i, q] + sums[p, q]
                        total += match[i, j] * (sums[i, j] + left * (right - sums[n, j + 1] + sums[i + 1, j + 1]))
            elif length == 2:
                for i in range(n):
                    for j in range(m):
                        total += match[i, j] * sums[i, j]
    return total


@_parallel
def lexical_rows(low, high, one, second, table, length, longest, triangle, out):  # type: ignore[no-untyped-def]
    """Rows `low` to `high - 1` of the kernel of documents with partial matches; from the diagonal on if `triangle`.

    `longest` holds the maximum number of distinct words of a document and the maximum length of a sentence.
    """
    for d in numba.prange(low, high):
        matches = np.zeros((longest[0], longest[0]))
        match = np.zeros((longest[1], longest[1]))
        sums = np.zeros((longest[1] + 1, longest[1] + 1))
        for e in range(d if triangle else 0, len(second[1]) - 1):
            out[d, e] = _documents(d, e, one, second, table, length, matches, match, sums)


@_parallel
def lexical_selves(one, table, length, longest, out):  # type: ignore[no-untyped-def]
    """The kernel of each document with itself."""
    for d in numba.prange(len(out)):
        matches = np.zeros((longest[0], longest[0]))
        match = np.zeros((longest[1], longest[1]))
        sums = np.zeros((longest[1] + 1, longest[1] + 1))
        out[d] = _documents(d, d, one, one, table, length, matches, match, sums)


@_jit
def _tag_rank(a, b, one, second, scales):  # type: ignore[no-untyped-def]
    """The tag rank kernel of two sentences whose words are sorted.

    chi2(x, y) = sum x + sum y - sum over common words of 4 x y / (x + y), since (x - y)^2 / (x + y) is x where y is 0.
    """
    words, starts, _, absolute, relative, totals = one
    words_, starts_, _, absolute_, relative_, totals_ = second
    far, nearness = totals[a, 0] + totals_[b, 0], totals[a, 1] + totals_[b, 1]
    i, j = starts[a], starts_[b]
    while i < starts[a + 1] and j < starts_[b + 1]:
        if words[i] < words_[j]:
            i += 1
        elif words[i] > words_[j]:
            j += 1
        else:
            far -= 4.0 * absolute[i] * absolute_[j] / (absolute[i] + absolute_[j])
            offset_sum = relative[i] + relative_[j]
            if offset_sum > 0.0:
                nearness -= 4.0 * relative[i] * relative_[j] / offset_sum
            i += 1
            j += 1
    return 0.5 * np.exp(-nearness * scales[1]) + 0.5 * np.exp(-far * scales[0])


@_jit
def _tag_rank_documents(d, e, one, second, scales):  # type: ignore[no-untyped-def]
    total = 0.0
    for s in range(one[2][d], one[2][d + 1]):
        for t in range(second[2][e], second[2][e + 1]):
            total += _tag_rank(s, t, one, second, scales)
    pairs = (one[2][d + 1] - one[2][d]) * (second[2][e + 1] - second[2][e])
    return total / max(pairs, 1)


@_parallel
def tag_rank_rows(low, high, one, second, scales, triangle, out):  # type: ignore[no-untyped-def]
    """Rows `low` to `high - 1` of the tag rank kernel of documents; from the diagonal on if `triangle`."""
    for d in numba.prange(low, high):
        for e in range(d if triangle else 0, len(second[2]) - 1):
            out[d, e] = _tag_rank_documents(d, e, one, second, scales)


@_parallel
def tag_rank_selves(one, scales, out):  # type: ignore[no-untyped-def]
    """The tag rank kernel of each document with itself."""
    for d in numba.prange(len(out)):
        out[d] = _tag_rank_documents(d, d, one, one, scales)


@_jit
def expect(sources, source_starts, targets, target_starts, share, jumps, model, new, new_jumps):  # type: ignore[no-untyped-def]
    """One expectation step of IBM model 1 (`model` 1) or 2: expected counts of translations and positions.

    Pair s aligns target words with source words or with the empty word, index 0 of `share` and position 0 of `jumps`
    (length of source, length of target, position in target, position in source).
    """
    for s in range(len(source_starts) - 1):
        a, z = source_starts[s], source_starts[s + 1]
        b, y = target_starts[s], target_starts[s + 1]
        m, n = z - a, y - b
        for j in range(n):
            f = targets[b + j]
            total = 0.0
            for i in range(m + 1):
                e = 0 if i == 0 else sources[a + i - 1] + 1
                total += share[e, f] * (jumps[m, n, j, i] if model == 2 else 1.0)
            if total == 0.0:
                continue
            for i in range(m + 1):
                e = 0 if i == 0 else sources[a + i - 1] + 1
                part = share[e, f] * (jumps[m, n, j, i] if model == 2 else 1.0) / total
                new[e, f] += part
                new_jumps[m, n, j, i] += part
