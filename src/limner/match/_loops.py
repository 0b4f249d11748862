"""Compiled loops of the corrections. All release the interpreter lock.

Columns are walked in strips that stay in the nearest cache, and every inner loop is one the compiler can give vector
lanes: no calls, no branches, one width of numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from limner._kernels import best
from limner.scratch import compiled

_jit: Any = compiled(nogil=True, fastmath={"contract"}, boundscheck=False)
_summing: Any = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)
_inlined: Any = numba.njit(nogil=True, inline="always", fastmath={"contract"})
_F = np.float32

STRIP = 1024
"""Columns walked together: a few rows of so many numbers fit the nearest cache."""
PIECE = 64
"""Values looked at together before any of them is looked at alone."""


def _add_to_exponent(context, x, n):  # type: ignore[no-untyped-def]
    """x 2**n for a whole float32 n: n is added to the exponent bits, in 32 bits so that vector lanes stay full."""

    def build(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(32)
        added = builder.shl(builder.fptosi(args[1], word), ir.Constant(word, 23))
        return builder.bitcast(builder.add(builder.bitcast(args[0], word), added), ir.FloatType())

    return types.float32(types.float32, types.float32), build


_times_power_of_two: Any = intrinsic(_add_to_exponent)


@_inlined
def exp32(x):  # type: ignore[no-untyped-def]
    """exp of x <= 0 in float32, relative error below 2e-6 from -20 on, next to 0 below -87; the loop around vectorises.

    x = n ln 2 + f with |f| <= ln 2 / 2; exp f = 1 + f + f^2 q(f) with the q of degree 3 whose largest relative error is
    the least (1.05e-7); 2^n by adding n to the exponent bits.
    """
    bounded = x if x > _F(-87.0) else _F(-87.0)
    n = np.rint(bounded * _F(1.44269504))
    f = bounded - n * _F(0.69314718)
    q = _F(8.312520387e-3) * f + _F(4.189015764e-2)
    q = q * f + _F(1.666711465e-1)
    q = q * f + _F(4.999923149e-1)
    return _times_power_of_two(q * (f * f) + (f + _F(1.0)), n)


@_inlined
def _near_exp32(x):  # type: ignore[no-untyped-def]
    """As `exp32` with a q of degree 2, relative error below 6e-6: for what is added to something far larger."""
    bounded = x if x > _F(-87.0) else _F(-87.0)
    n = np.rint(bounded * _F(1.44269504))
    f = bounded - n * _F(0.69314718)
    q = _F(4.127767146e-2) * f + _F(1.675353164e-1)
    q = q * f + _F(5.000511808e-1)
    return _times_power_of_two(q * (f * f) + (f + _F(1.0)), n)


@_jit
def _any_above(row, bounds, low, high):  # type: ignore[no-untyped-def]
    """Whether any value of a stretch is above its bound; unsigned places are never negative, so lanes are filled."""
    found = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        found = np.uint32(found | np.uint32(row[i] > bounds[i]))
    return found > 0


@_jit
def _insert(value, best, c):  # type: ignore[no-untyped-def]
    at = best.shape[0] - 1
    while at > 0 and best[at - 1, c] < value:
        best[at, c] = best[at - 1, c]
        at -= 1
    best[at, c] = value


def lowest(k, block):  # type: ignore[no-untyped-def]
    """The k best of every column before anything was seen."""
    return np.full((k, block.shape[1]), -np.inf, dtype=block.dtype)


@_jit
def keep_best(block, best):  # type: ignore[no-untyped-def]
    """Puts the values of a block into the k best of every column; `best` is (k, columns), highest first."""
    least = best[best.shape[0] - 1]
    for r in range(block.shape[0]):
        row = block[r]
        for low in range(0, row.shape[0], PIECE):
            high = min(low + PIECE, row.shape[0])
            if _any_above(row, least, low, high):
                for c in range(low, high):
                    if row[c] > least[c]:
                        _insert(row[c], best, c)
    return best


@_jit
def _raise(row, place, top, owner):  # type: ignore[no-untyped-def]
    """Raises the highest so far, and notes who did."""
    for c in range(row.shape[0]):
        owner[c] = place if row[c] > top[c] else owner[c]
        top[c] = row[c] if row[c] > top[c] else top[c]


@_jit
def _add_exp(row, beta, top, part):  # type: ignore[no-untyped-def]
    for c in range(row.shape[0]):
        part[c] += exp32(beta * _F(row[c] - top[c]))


@_jit
def _add_strip(block, low, high, beta, top, owner, rest):  # type: ignore[no-untyped-def]
    """Sums over all rows but the owner's, whose cell is blanked meanwhile."""
    for c in range(high - low):
        block[owner[c], low + c] = -np.inf
        rest[c] = 0.0
    part = np.empty(high - low, np.float32)  # eight rows in float32, then on in float64: lanes stay full, digits too
    for r in range(0, block.shape[0], 8):
        part[:] = 0
        for here in range(r, min(r + 8, block.shape[0])):
            _add_exp(block[here][low:high], beta, top, part)
        for c in range(high - low):
            rest[c] += part[c]
    for c in range(high - low):
        block[owner[c], low + c] = top[c]


@_jit
def add_columns(block, beta, highest, owner, rest):  # type: ignore[no-untyped-def]
    """Of every column: the highest value, its row, and the sum of exp(beta (value - highest)) over all other rows."""
    for low in range(0, block.shape[1], STRIP):
        high = min(low + STRIP, block.shape[1])
        top, whose = block[0][low:high].copy(), owner[low:high]
        whose[:] = 0
        for r in range(1, block.shape[0]):
            _raise(block[r][low:high], np.int32(r), top, whose)
        _add_strip(block, low, high, _F(beta), top, whose, rest[low:high])
        for c in range(high - low):
            highest[low + c] = top[c]


@_summing
def _sum_of_exp(values, beta, top):  # type: ignore[no-untyped-def]
    total = _F(0)
    for i in range(values.shape[0]):
        total += exp32(beta * _F(values[i] - top))
    return total


@_jit
def add_rows(block, beta, sums):  # type: ignore[no-untyped-def]
    """log sum of exp(beta value) along every row."""
    for r in range(block.shape[0]):
        row = block[r]
        top = row.max()
        total = 0.0
        for low in range(0, row.shape[0], 64):
            total += _sum_of_exp(row[low : low + 64], _F(beta), top)
        sums[r] = beta * top + math.log(total)


@_jit
def _any_large(row, beta, whole, low, high):  # type: ignore[no-untyped-def]
    """Whether any term is 0.003 of its sum or more."""
    found = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        found = np.uint32(found | np.uint32(beta * row[i] - whole[i] > _F(-5.8)))
    return found > 0


@_jit
def _share_of_small(row, beta, whole, low, high):  # type: ignore[no-untyped-def]
    for i in range(np.uint64(low), np.uint64(high)):
        share = beta * row[i] - whole[i]
        y = _near_exp32(_F(share))
        row[i] = share + y * (_F(1.0) + y * _F(0.5))


@_jit
def _share_of_any(row, beta, whole, low, high):  # type: ignore[no-untyped-def]
    for i in range(low, high):
        share = beta * row[i] - whole[i]
        row[i] = share - math.log1p(-min(math.exp(min(share, 0.0)), 0.9999999))


@_jit
def share_of_others(block, beta, whole, without_owner, owner, first):  # type: ignore[no-untyped-def]
    """In place: beta s(i, t) - log sum over j != i of exp(beta s(j, t)); row r of the block is query `first` + r.

    With y = exp(beta s) / whole sum, the others' sum is whole (1 - y). For y < 0.003 two terms of log(1 - y), with y
    to four digits, are exact to float32; since the y of a column add up to 1, few rows of a column take the slower way.
    """
    width = block.shape[1]
    owned = np.zeros(width)
    for c in range(width):
        if 0 <= owner[c] - first < block.shape[0]:
            owned[c] = beta * block[owner[c] - first, c] - without_owner[c]
    for r in range(block.shape[0]):
        row = block[r]
        for low in range(0, width, PIECE):
            high = min(low + PIECE, width)
            if _any_large(row, beta, whole, low, high):
                _share_of_any(row, beta, whole, low, high)
            else:
                _share_of_small(row, beta, whole, low, high)
    for c in range(width):
        if 0 <= owner[c] - first < block.shape[0]:
            block[owner[c] - first, c] = owned[c]


@_jit
def _shift_row(row, scale, columns, own):  # type: ignore[no-untyped-def]
    for c in range(row.shape[0]):
        row[c] = scale * row[c] - columns[c] - own


@_jit
def shift(block, scale, columns, rows):  # type: ignore[no-untyped-def]
    """In place: scale s(i, t) - columns(t) - rows(i)."""
    for r in range(block.shape[0]):
        _shift_row(block[r], scale, columns, rows[r])


@_jit
def subtract_neighbourhoods(block, near, k):  # type: ignore[no-untyped-def]
    """In place: 2 s(i, t) - near(t) - the mean of the k best of row i, row by row while it is in the cache."""
    indices, scores = np.zeros((1, k), np.int32), np.zeros((1, k), block.dtype)
    two = np.full(1, 2, block.dtype)[0]
    for r in range(block.shape[0]):
        best(block[r : r + 1], indices, scores)
        own = 0.0
        for i in range(k):
            own += scores[0, i]
        scores[0, 0] = own / k  # in the block's own precision
        _shift_row(block[r], two, near, scores[0, 0])
