"""Compiled loops of the corrections. All release the GIL.

Columns are processed in strips that stay in the L1 cache, and every inner loop can be vectorised: no calls, no
branches, and one number width.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from limner.core.paths import compiled
from limner.scores.block_kernels import best

_jit = compiled(nogil=True, fastmath={"contract"}, boundscheck=False)
_inlined = numba.njit(nogil=True, inline="always", fastmath={"contract"})
_F = np.float32

STRIP = 1024
"""Columns processed together: a few rows of this many numbers fit into the L1 cache."""
PIECE = 64
"""Number of values that are checked together before each one is checked separately, or summed together."""


def _add_to_exponent(context, x, n):  # type: ignore[no-untyped-def]
    """x 2**n for an integral float32 n: n is added to the exponent bits, in 32 bits, so that the loop vectorises."""

    def build(context, builder, signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(32)
        added = builder.shl(builder.fptosi(args[1], word), ir.Constant(word, 23))
        return builder.bitcast(builder.add(builder.bitcast(args[0], word), added), ir.FloatType())

    return types.float32(types.float32, types.float32), build


_times_power_of_two: Any = intrinsic(_add_to_exponent)


@_inlined
def exp32(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0 in float32, vectorised; the relative error is below 2e-6 for x >= -20. About 0 for x < -87.

    x = n ln 2 + f with |f| <= ln 2 / 2; exp f = 1 + f + f^2 q(f) with the minimax polynomial q of degree 3 (relative
    error 1.05e-7); 2^n by adding n to the exponent bits.
    """
    bounded = x if x > _F(-87.0) else _F(-87.0)
    n = np.rint(bounded * _F(1.44269504))
    f = bounded - n * _F(0.69314718)
    q = _F(8.312520387e-3) * f + _F(4.189015764e-2)
    q = q * f + _F(1.666711465e-1)
    q = q * f + _F(4.999923149e-1)
    return _times_power_of_two(q * (f * f) + (f + _F(1.0)), n)


@_inlined
def _minus_log_of_rest32(y):  # type: ignore[no-untyped-def]
    """-log(1 - y) for 0 <= y <= 1/2 in float32, error below 1.2e-7: y times a near-minimax polynomial of degree 7.

    It uses one formula for all y, so that equal scores stay equal.
    """
    p = _F(1.158614028) * y + _F(-1.036038986)
    p = p * y + _F(7.545884198e-1)
    p = p * y + _F(4.835805717e-2)
    p = p * y + _F(2.704770343e-1)
    p = p * y + _F(3.320068297e-1)
    p = p * y + _F(5.000321724e-1)
    return y * (p * y + _F(9.999998739e-1))


def exponential(x: Any) -> object:
    """exp(x) for x <= 0; compiled loops use the overload below, in the precision of x."""
    return math.exp(x)


def minus_log_of_rest(y: Any) -> object:
    """-log(1 - y) for 0 <= y <= 1/2; compiled loops use the overload below, in the precision of y."""
    return -math.log1p(-y)


@overload(exponential, inline="always")
def _exponential(x):  # type: ignore[no-untyped-def]
    return (lambda x: exp32(x)) if x == types.float32 else (lambda x: math.exp(x))


@overload(minus_log_of_rest, inline="always")
def _minus_log_of_rest(y):  # type: ignore[no-untyped-def]
    return (lambda y: _minus_log_of_rest32(y)) if y == types.float32 else (lambda y: -math.log1p(-y))


@_jit
def _any_above(row, bounds, low, high):  # type: ignore[no-untyped-def]
    """Whether any value of a segment is above its bound; unsigned indices let the loop vectorise."""
    exceeds = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        exceeds = np.uint32(exceeds | np.uint32(row[i] > bounds[i]))
    return exceeds > 0


@_jit
def _insert(value, best, c):  # type: ignore[no-untyped-def]
    at = best.shape[0] - 1
    while at > 0 and best[at - 1, c] < value:
        best[at, c] = best[at - 1, c]
        at -= 1
    best[at, c] = value


def lowest(k, block):  # type: ignore[no-untyped-def]
    """The initial state of the k best of every column."""
    return np.full((k, block.shape[1]), -np.inf, dtype=block.dtype)


@_jit
def keep_best(block, best):  # type: ignore[no-untyped-def]
    """Updates the k best of every column with a block; `best` is (k, columns), highest first."""
    lowest = best[best.shape[0] - 1]
    for r in range(block.shape[0]):
        row = block[r]
        for low in range(0, row.shape[0], PIECE):
            high = min(low + PIECE, row.shape[0])
            if _any_above(row, lowest, low, high):
                for c in range(low, high):
                    if row[c] > lowest[c]:
                        _insert(row[c], best, c)
    return best


@_jit
def _raise(row, place, top, second, owner):  # type: ignore[no-untyped-def]
    """Updates the two highest values, and the row of the highest."""
    for c in range(row.shape[0]):
        value = row[c]
        beaten = value if value < top[c] else top[c]
        second[c] = beaten if beaten > second[c] else second[c]
        owner[c] = place if value > top[c] else owner[c]
        top[c] = value if value > top[c] else top[c]


@_jit
def _add_exp(row, beta, base, part):  # type: ignore[no-untyped-def]
    for c in range(row.shape[0]):
        part[c] += exponential(beta * (row[c] - base[c]))


@_jit
def _add_strip(block, low, high, beta, top, second, owner, tail_sum):  # type: ignore[no-untyped-def]
    """Sums over all rows except the owner's, whose cell is masked during the sum."""
    base = np.empty(high - low, block.dtype)
    for c in range(high - low):
        block[owner[c], low + c] = -np.inf
        base[c] = second[c] if second[c] > -np.inf else 0.0
        tail_sum[c] = 0.0
    part = np.empty(high - low, block.dtype)  # eight rows in float32, then in float64: fast and precise
    for r in range(0, block.shape[0], 8):
        part[:] = 0
        for row_number in range(r, min(r + 8, block.shape[0])):
            _add_exp(block[row_number][low:high], beta, base, part)
        for c in range(high - low):
            tail_sum[c] += part[c]
    for c in range(high - low):
        block[owner[c], low + c] = top[c]
        tail_sum[c] = tail_sum[c] if second[c] > -np.inf else 0.0  # about 0


@_jit
def add_columns(block, beta, highest, owner, second, tail_sum):  # type: ignore[no-untyped-def]
    """For every column: the highest value, its row, the highest of the other rows, and their sum relative to it.

    The sum is that of exp(beta (value - second)) over all rows except the owner's: at least 1, or 0 if all of them are
    -inf. `beta` has the type of the block.
    """
    for low in range(0, block.shape[1], STRIP):
        high = min(low + STRIP, block.shape[1])
        top, next_best = np.full(high - low, -np.inf, block.dtype), np.full(high - low, -np.inf, block.dtype)
        owners = owner[low:high]
        owners[:] = 0
        for r in range(block.shape[0]):
            _raise(block[r][low:high], np.int32(r), top, next_best, owners)
        _add_strip(block, low, high, beta, top, next_best, owners, tail_sum[low:high])
        for c in range(high - low):
            highest[low + c], second[low + c] = top[c], next_best[c]


@_jit
def _exp_of(values, beta, top, part):  # type: ignore[no-untyped-def]
    for i in range(values.shape[0]):
        part[i] = exponential(beta * (values[i] - top))


@_jit
def _folded(part):  # type: ignore[no-untyped-def]
    """The sum of `PIECE` values in an order of its own: one that the compiler chose would change from run to run.

    Code that is compiled now and code read from the cache are not always vectorised in the same way.
    """
    for width in (32, 16, 8, 4, 2, 1):
        for i in range(width):
            part[i] += part[i + width]
    return part[0]


@_jit
def add_rows(block, beta, sums):  # type: ignore[no-untyped-def]
    """log sum of exp(beta value) along every row; 0 for a row that is all -inf. `beta` has the type of the block."""
    part = np.zeros(PIECE, block.dtype)
    for r in range(block.shape[0]):
        row = block[r]
        top = row.max()
        if top == -np.inf:
            sums[r] = 0.0
            continue
        total = 0.0
        for low in range(0, row.shape[0], PIECE):
            if low + PIECE > row.shape[0]:
                part[:] = 0
            _exp_of(row[low : low + PIECE], beta, top, part)
            total += _folded(part)
        sums[r] = np.float64(beta) * top + math.log(total)


@_jit
def tops(block, high, highest):  # type: ignore[no-untyped-def]
    """The highest s(i, t) - high(t) of every row; 0 for a row that is all -inf."""
    for r in range(block.shape[0]):
        row, top = block[r], block[r, 0] - high[0]
        for c in range(row.shape[0]):
            value = row[c] - high[c]
            top = value if value > top else top
        highest[r] = top if top > -np.inf else 0.0


@_jit
def _shift_row(row, scale, high, low, own_high, own_low):  # type: ignore[no-untyped-def]
    for c in range(row.shape[0]):
        row[c] = scale * ((row[c] - high[c]) - own_high) - (low[c] + own_low)


@_jit
def shift(block, scale, high, low, own_high, own_low):  # type: ignore[no-untyped-def]
    """In place: scale (s(i, t) - high(t) - own_high(i)) - low(t) - own_low(i); all have the type of the block."""
    for r in range(block.shape[0]):
        _shift_row(block[r], scale, high, low, own_high[r], own_low[r])


@_jit
def _share_row(row, beta, high, low, half):  # type: ignore[no-untyped-def]
    for i in range(np.uint64(0), np.uint64(row.shape[0])):
        share = beta * (row[i] - high[i]) - low[i]
        row[i] = share + minus_log_of_rest(exponential(share if share < half else half))


@_jit
def share_of_others(block, beta, high, low, without_owner, owned_by, in_bank):  # type: ignore[no-untyped-def]
    """In place: beta s(i, t) - log sum over the bank, without query i itself, of exp(beta s(j, t)).

    With y = exp(beta s) / whole sum, the sum of the others is whole (1 - y). y is at most 1/2, except for the query
    with the highest term, for which the sum without it is stored.

    Args:
        block: Scores.
        beta: The inverse temperature, in the type of the block.
        high: log of the whole sum / beta, rounded to the block's type.
        low: The rounding error of the logarithm.
        without_owner: log of the sum without the highest term, in float64.
        owned_by: For every column, the row of the block with the highest term, or -1 if it is not in the block.
        in_bank: For every row, whether it belongs to the bank, so that its own term must be removed.
    """
    width, owned = block.shape[1], np.zeros(block.shape[1])
    half, zero = np.full(1, -math.log(2), block.dtype)[0], beta - beta
    for c in range(width):
        if owned_by[c] >= 0:
            owned[c] = np.float64(beta) * block[owned_by[c], c] - without_owner[c]
    for r in range(block.shape[0]):
        if in_bank[r]:
            _share_row(block[r], beta, high, low, half)
        else:
            _shift_row(block[r], beta, high, low, zero, zero)
    for c in range(width):
        if owned_by[c] >= 0:
            block[owned_by[c], c] = owned[c]


@_jit
def subtract_neighbourhoods(block, high, low, k):  # type: ignore[no-untyped-def]
    """In place: 2 (s(i, t) - high(t)) - low(t) - the mean of the k best of row i, row by row while in the cache.

    If a row has fewer than k values that are not -inf, the mean is over those; 0 if it has none.
    """
    indices, scores = np.zeros((1, k), np.int32), np.zeros((1, k), block.dtype)
    two, halves = np.full(1, 2, block.dtype)[0], np.zeros(2, block.dtype)
    for r in range(block.shape[0]):
        best(block[r : r + 1], indices, scores)
        neighbourhood, count = 0.0, 0
        for i in range(k):
            if scores[0, i] > -np.inf:
                neighbourhood += scores[0, i]
                count += 1
        neighbourhood /= max(count, 1)
        halves[0] = neighbourhood / 2  # in the precision of the block
        halves[1] = neighbourhood - 2 * np.float64(halves[0])
        _shift_row(block[r], two, high, low, halves[0], halves[1])
