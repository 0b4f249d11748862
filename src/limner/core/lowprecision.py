r"""Vectors in bfloat16 with rigorous bounds, and the loops that keep only what the bounds cannot rule out.

A vector x is also held as x', every number rounded to bfloat16 (numbers below 2^-126 become 0), together with the
lengths |x|, |x'| and |x - x'|, computed in double precision and rounded up. With a query a and a candidate b, let s be
the exact product, f the float32 score of today's grid and s' the low-precision product as it is read, in bfloat16:

    |f - s'| <= eps |s'| + E,    E = |a| (|b - b'| + g |b|) + (|a - a'| + g |a'|) |b'| + t

Where the terms come from (Cauchy-Schwarz, and Higham 2002, section 3.1, for sums in any order):

- a.b - a'.b' = a.(b - b') + (a - a').b', so it is at most |a| |b - b'| + |a - a'| |b'|: what rounding took away.
- The low-precision unit adds up d products in float32 with an error of at most g |a'| |b'|, where
  g = d 2^-22 / (1 - d 2^-22). That allows four times the error of rounding to nearest in every step, since some units
  cut off instead. `limner.scores.filtering` puts a unit to the test before it is used.
- f itself is within d 2^-24 / (1 - d 2^-24) |a| |b| of s, which is less than g |a| |b|.
- Rounding the sum to bfloat16 changes it by at most 2^-8 of it: eps = 2^-8 + 2^-14 covers this, written in terms of s'.
- t = 2^-125 (d + sqrt(d) (|a| + max |b|)) covers numbers below 2^-126 that a unit takes as 0, on either way.

The bounds themselves are computed in float32: the factors are rounded up by 2^-16 and eps is larger than it need be,
which is more than their own rounding can lose.

What the first bound leaves undecided is computed in double precision, pair by pair, and compared by the second bound,
|f - s| <= d 2^-24 / (1 - d 2^-24) |a| |b| + t. What that leaves undecided, and every score that is returned, is read
from the grid itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.cache_dir import compiled
from limner.core.kernels import best

_jit: Any = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing: Any = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint16]

READ = 2.0**-8 + 2.0**-14
"""eps: what reading a product in bfloat16 may change, relative to it."""
SLACK = 1 + 2.0**-16
"""Bounds computed in float32 are larger by this than their own rounding can lose."""


def accumulation(dimensions: int, unit: float = 2.0**-22) -> float:
    """The relative error of a sum of so many products, each step with at most `unit`, in whatever order.

    >>> accumulation(1024) < 2.5e-4
    True
    """
    share = dimensions * unit
    return share / (1 - share)


@dataclass(frozen=True, eq=False)
class Rounded:
    """Vectors in bfloat16, and the exact lengths that bound what rounding changed.

    Args:
        bits: bfloat16 numbers as their 16 bits, one row per vector.
        length: At least |x| of every vector.
        rounded: At least |x'|, of what is left after rounding.
        residual: At least |x - x'|, of what rounding took away.

    >>> exact = Rounded.of(np.array([[1.0, 0.5, -2.0]], dtype=np.float32))
    >>> float(exact.residual[0]) < 1e-44, np.array_equal(exact.values, [[1.0, 0.5, -2.0]])
    (True, True)
    """

    bits: Bits
    length: Float32
    rounded: Float32
    residual: Float32

    @classmethod
    def of(cls, vectors: Float32) -> Rounded:
        """Rounds to nearest, ties to even; what bfloat16 holds with fewer digits (below 2^-126) becomes 0."""
        given = np.ascontiguousarray(vectors, dtype=np.float32)
        bits, squares = np.empty(given.shape, np.uint16), np.empty((3, len(given)))
        round_rows(given, given.view(np.uint32), bits, *squares)
        exact = 1 + (given.shape[1] + 4) * 2.0**-52  # the sums of squares round too
        return cls(bits, *(upward(np.sqrt(each * exact)) for each in squares))

    @property
    def values(self) -> Float32:
        """The rounded vectors as float32."""
        return (self.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

    def __getitem__(self, rows: slice) -> Rounded:
        return Rounded(self.bits[rows], self.length[rows], self.rounded[rows], self.residual[rows])


def upward(values: Float64) -> Float32:
    """float32 numbers that are not below these."""
    return np.nextafter(values.astype(np.float32), np.float32(np.inf))


@dataclass(frozen=True, eq=False)
class Bounds:
    """The factors of E for a block of queries against all candidates: E = a p + b m + t, see above.

    Args:
        query: (queries, 3) of float32: a = |a|, b = |a - a'| + g |a'|, and t.
        candidate: (2, candidates) of float32: p = |b - b'| + g |b|, m = |b'|.
        close: (queries,) and (candidates,) of float64, whose product plus t bounds |f - s|.
    """

    query: Float32
    candidate: Float32
    close: tuple[Float64, Float64]

    @classmethod
    def of(cls, queries: Rounded, candidates: Rounded) -> Bounds:
        """The factors, rounded up."""
        d = queries.bits.shape[1]
        g, a, b = accumulation(d), queries.length.astype(np.float64), candidates.length.astype(np.float64)
        tiny = 2.0**-125 * (d + np.sqrt(d) * (a + b.max(initial=0.0)))
        query = np.stack([a, queries.residual + g * queries.rounded.astype(np.float64), tiny], axis=1)
        candidate = np.stack([candidates.residual + g * b, candidates.rounded.astype(np.float64)])
        close = accumulation(d, 2.0**-24) * (1 + 2.0**-10) * a, b
        return cls(upward(query * SLACK), upward(candidate), close)


@dataclass(frozen=True, eq=False)
class Keys:
    """What is ranked: scale s - shift(candidate), with an allowance for how it is rounded.

    Args:
        scale: A power of two.
        shift: One number per candidate; all 0 for scores themselves.
        allowance: One number per query: how far rounding can move what is ranked.
    """

    scale: float
    shift: Float64
    allowance: Float64

    @classmethod
    def plain(cls, queries: int, candidates: int) -> Keys:
        """The scores themselves."""
        return cls(1.0, np.zeros(candidates), np.zeros(queries))


@_summing
def round_rows(vectors, words, bits, lengths, rounded, residuals):  # type: ignore[no-untyped-def]
    """Numbers to bfloat16, and the squared lengths before, after, and of the difference.

    `words` are the bits of `vectors`.
    """
    width = vectors.shape[1]
    kept = np.empty(width, np.uint32)
    values = kept.view(np.float32)
    for r in range(vectors.shape[0]):
        for i in range(width):
            word = words[r, i]
            near = (word + np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
            kept[i] = near if near & np.uint32(0x7F800000) else np.uint32(0)
            bits[r, i] = np.uint16(kept[i] >> np.uint32(16))
        before, after, between = 0.0, 0.0, 0.0
        for i in range(width):
            x, y = np.float64(vectors[r, i]), np.float64(values[i])
            before += x * x
            after += y * y
            between += (x - y) * (x - y)
        lengths[r], rounded[r], residuals[r] = before, after, between


@_summing
def _product(x, y):  # type: ignore[no-untyped-def]
    """In double precision: exact products, and a sum in any order."""
    total = 0.0
    for i in range(x.shape[0]):
        total += np.float64(x[i]) * np.float64(y[i])
    return total


@_jit
def _interval(near, words, values, query, candidate, eps, lower, upper):  # type: ignore[no-untyped-def]
    """Bounds of every score of a row: `words` and `values` are one piece of memory, as bits and as numbers."""
    a, b, tiny = query[0], query[1], query[2]
    for i in range(near.shape[0]):
        words[i] = np.uint32(near[i]) << np.uint32(16)
    for i in range(near.shape[0]):
        reach = eps * abs(values[i]) + ((a * candidate[0, i] + b * candidate[1, i]) + tiny)
        lower[i] = values[i] - reach
        upper[i] = values[i] + reach


@_jit
def _shift(lower, upper, scale, shift, allowance):  # type: ignore[no-untyped-def]
    for i in range(lower.shape[0]):
        lower[i] = (scale * lower[i] - shift[i]) - allowance
        upper[i] = (scale * upper[i] - shift[i]) + allowance


@_jit
def _collect(upper, least, places):  # type: ignore[no-untyped-def]
    """Places whose upper bound reaches `least`; how many, which may be more than there is room for."""
    count = 0
    for low in range(0, upper.shape[0], 64):
        high = min(low + 64, upper.shape[0])
        found = np.uint32(0)
        for i in range(np.uint64(low), np.uint64(high)):
            found = np.uint32(found | np.uint32(upper[i] >= least))
        if found:
            for i in range(low, high):
                if upper[i] >= least:
                    if count < places.shape[0]:
                        places[count] = i
                    count += 1
    return count


@_jit
def select(near, vectors, bounds, keys, k, room, columns, indptr):  # type: ignore[no-untyped-def]
    """Columns that may be among the k best of every row: all others are ruled out by the bounds.

    Args:
        near: bfloat16 products as bits, a row per query.
        vectors: The float32 vectors of the rows, and of the columns.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        keys: See `Keys`: scale (float32), shift (float32), shift (float64), allowance (float32, rounded up).
        k: How many are wanted; at most the number of columns.
        room: Products in double precision that may be computed in all.
        columns: Output, the columns of all rows one after another, in rising order.
        indptr: Output, those of row r are `indptr[r]:indptr[r + 1]`.

    Returns:
        How many there are; -1 where `room` or the output is too small.
    """
    queries, candidates = vectors
    query, candidate, close_query, close_candidate, eps = bounds
    scale, shift, wide_shift, allowance = keys
    width, filled, spent = near.shape[1], 0, 0
    words, places = np.empty(width, np.uint32), np.empty(min(width, room), np.int64)
    values, plain = words.view(np.float32), scale == np.float32(1) and not allowance.any()
    lower, upper = np.empty((1, width), np.float32), np.empty(width, np.float32)
    indices, kept = np.zeros((1, k), np.int32), np.zeros((1, k), np.float32)
    exact, widths = np.empty(places.shape[0]), np.empty(places.shape[0])
    first, floor = np.zeros((1, k), np.int32), np.zeros((1, k), np.float64)
    indptr[0] = 0
    for r in range(near.shape[0]):
        _interval(near[r], words, values, query[r], candidate, eps, lower[0], upper)
        if not plain:
            _shift(lower[0], upper, scale, shift, allowance[r])
        best(lower, indices, kept)
        count = _collect(upper, kept[0, k - 1], places)
        spent += count
        if spent > room or count > places.shape[0]:
            return -1
        for n in range(count):
            c = places[n]
            product = _product(queries[r], candidates[c])
            widths[n] = scale * (close_query[r] * close_candidate[c] + query[r, 2]) + allowance[r]
            exact[n] = scale * product - wide_shift[c]
        least = (exact[:count] - widths[:count]).reshape(1, count)
        best(least, first, floor)
        for n in range(count):
            if exact[n] + widths[n] >= floor[0, k - 1]:
                if filled >= columns.shape[0]:
                    return -1
                columns[filled] = places[n]
                filled += 1
        indptr[r + 1] = filled
    return filled


@_jit
def _tell(near_lower, near_upper, sure, doubtful):  # type: ignore[no-untyped-def]
    """How many are above for sure, and how many reach at least as far."""
    above, reached = np.uint32(0), np.uint32(0)
    for i in range(near_lower.shape[0]):
        above = np.uint32(above + np.uint32(near_lower[i] > sure))
        reached = np.uint32(reached + np.uint32(near_upper[i] >= doubtful))
    return above, reached


@_jit
def count_near(near, vectors, bounds, indptr, positives, cut, room, above, whose, columns):  # type: ignore[no-untyped-def]
    """How many stand above every positive for sure, and the pairs that only the grid can tell.

    Args:
        near: bfloat16 products as bits, a row per query.
        vectors: The float32 vectors of the rows, and of the columns.
        bounds: Factors, see `Bounds`: of queries, of candidates, both of the second bound; and eps.
        indptr: Positives of row r are `indptr[r]:indptr[r + 1]`.
        positives: The column of each positive.
        cut: The pool of every row, empty where all columns count; indptr and columns of the pools, in rising order.
        room: Products in double precision that may be computed in all.
        above: Output, one number per positive.
        whose: Output, the positive of each pair that is left.
        columns: Output, the column of each pair that is left; the positive's own is not among them.

    Returns:
        How many pairs are left; -1 where `room` or the output is too small.
    """
    queries, candidates = vectors
    query, candidate, close_query, close_candidate, eps = bounds
    pools, pool_indptr, pool_columns = cut
    width, filled, spent = near.shape[1], 0, 0
    words, places = np.empty(width, np.uint32), np.empty(min(width, room), np.int64)
    values, lower, upper = words.view(np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    cut_lower, cut_upper = np.empty(width, np.float32), np.empty(width, np.float32)
    for r in range(near.shape[0]):
        if indptr[r] == indptr[r + 1]:
            continue
        _interval(near[r], words, values, query[r], candidate, eps, lower, upper)
        low, size, seen_lower, seen_upper = 0, width, lower, upper
        if pools.shape[0]:
            low = pool_indptr[pools[r]]
            size = pool_indptr[pools[r] + 1] - low
            for i in range(size):
                cut_lower[i], cut_upper[i] = lower[pool_columns[low + i]], upper[pool_columns[low + i]]
            seen_lower, seen_upper = cut_lower[:size], cut_upper[:size]
        for p in range(indptr[r], indptr[r + 1]):
            own = _product(queries[r], candidates[positives[p]])
            reach = close_query[r] * close_candidate[positives[p]] + query[r, 2]
            margin = 2.0**-22 * (abs(own) + reach)  # the comparisons below are in float32
            sure, doubtful = np.float32(own + reach + margin), np.float32(own - reach - margin)
            higher, reached = _tell(seen_lower, seen_upper, sure, doubtful)
            above[p] = higher
            spent += reached - higher + 1
            if spent > room:
                return -1
            count = _between(seen_lower, seen_upper, sure, doubtful, places)
            for n in range(count):
                c = pool_columns[low + places[n]] if pools.shape[0] else places[n]
                if c == positives[p]:
                    continue
                product = _product(queries[r], candidates[c])
                theirs = close_query[r] * close_candidate[c] + query[r, 2]
                if product - theirs > own + reach:
                    above[p] += 1
                elif product + theirs >= own - reach:
                    if filled >= columns.shape[0]:
                        return -1
                    whose[filled], columns[filled] = p, c
                    filled += 1
    return filled


@_jit
def _between(lower, upper, sure, doubtful, places):  # type: ignore[no-untyped-def]
    """Places that are neither above for sure nor below for sure; there is room for all of them."""
    count = 0
    for low in range(0, upper.shape[0], 64):
        high = min(low + 64, upper.shape[0])
        found = np.uint32(0)
        for i in range(np.uint64(low), np.uint64(high)):
            found = np.uint32(found | (np.uint32(upper[i] >= doubtful) & np.uint32(lower[i] <= sure)))
        if found:
            for i in range(low, high):
                if upper[i] >= doubtful and lower[i] <= sure:
                    places[count] = i
                    count += 1
    return count
