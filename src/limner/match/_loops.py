"""Compiled loops of the corrections. All release the interpreter lock."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_jit: Any = numba.njit(cache=True, nogil=True, fastmath={"contract"})
_F = np.float32


@intrinsic  # type: ignore[untyped-decorator]
def _bits_as_float(context, bits):  # type: ignore[no-untyped-def]
    """The float32 with these 32 bits; a plain reinterpretation, which numba has no word for."""

    def build(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), build


@_jit
def exp32(x):  # type: ignore[no-untyped-def]
    """exp of x <= 0 in float32, relative error below 2e-7, 0 below -87; written so that the loop around it vectorises.

    x = n ln 2 + f; exp f by the polynomial of Cephes' expf, 2^n by setting exponent bits.
    """
    low = _F(-87.0)
    bounded = x if x > low else low
    n = np.floor(bounded * _F(1.44269504) + _F(0.5))
    f = bounded - n * _F(0.693359375) + n * _F(2.12194440e-4)
    p = _F(1.9875691500e-4)
    p = p * f + _F(1.3981999507e-3)
    p = p * f + _F(8.3334519073e-3)
    p = p * f + _F(4.1665795894e-2)
    p = p * f + _F(1.6666665459e-1)
    p = p * f + _F(5.0000001201e-1)
    p = p * f * f + f + _F(1.0)
    return p * _bits_as_float(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@_jit
def keep_best(block, best):  # type: ignore[no-untyped-def]
    """Puts the values of a block into the k best of every column; `best` is (k, columns), highest first."""
    k = best.shape[0]
    least = best[k - 1]
    for r in range(block.shape[0]):
        row = block[r]
        for c in range(row.shape[0]):
            if row[c] > least[c]:
                at = k - 1
                while at > 0 and best[at - 1, c] < row[c]:
                    best[at, c] = best[at - 1, c]
                    at -= 1
                best[at, c] = row[c]


@_jit
def add_columns(block, beta, highest, owner, rest):  # type: ignore[no-untyped-def]
    """Of every column: the highest value, its row, and the sum of exp(beta (value - highest)) over all other rows."""
    width = block.shape[1]
    top = block[0].copy()
    owner[:] = 0
    for r in range(1, block.shape[0]):
        row = block[r]
        for c in range(width):
            if row[c] > top[c]:
                top[c] = row[c]
                owner[c] = r
    rest[:] = 0.0
    part = np.empty(width, np.float32)  # eight rows in float32, then on in float64: vector lanes stay full, digits too
    for low in range(0, block.shape[0], 8):
        part[:] = 0
        for r in range(low, min(low + 8, block.shape[0])):
            row = block[r]
            for c in range(width):
                part[c] += exp32(_F(beta) * _F(row[c] - top[c])) if owner[c] != r else _F(0.0)
        for c in range(width):
            rest[c] += part[c]
    for c in range(width):
        highest[c] = top[c]


@_jit
def add_rows(block, beta, sums):  # type: ignore[no-untyped-def]
    """log sum of exp(beta value) along every row."""
    for r in range(block.shape[0]):
        row = block[r]
        top = row.max()
        total = 0.0
        for low in range(0, row.shape[0], 64):
            part = _F(0.0)
            for c in range(low, min(low + 64, row.shape[0])):
                part += exp32(_F(beta) * _F(row[c] - top))
            total += part
        sums[r] = beta * top + math.log(total)


@_jit
def share_of_others(block, beta, whole, without_owner, owner, first):  # type: ignore[no-untyped-def]
    """In place: beta s(i, t) - log sum over j != i of exp(beta s(j, t)); row r of the block is query `first` + r.

    With y = exp(beta s) / whole sum, the others' sum is whole (1 - y). For y < 0.01 four terms of log(1 - y) are exact
    to float32; since the y of a column add up to 1, at most a hundred rows of a column take the slower branch.
    """
    width = block.shape[1]
    owned = np.zeros(width)
    for c in range(width):
        if 0 <= owner[c] - first < block.shape[0]:
            owned[c] = beta * block[owner[c] - first, c] - without_owner[c]
    for r in range(block.shape[0]):
        row = block[r]
        for c in range(width):
            share = beta * row[c] - whole[c]
            y = exp32(_F(min(share, 0.0)))
            row[c] = share + y * (_F(1.0) + y * (_F(0.5) + y * (_F(1.0 / 3.0) + y * _F(0.25))))
            if y >= _F(0.01):
                row[c] = share - math.log1p(-min(y, 0.9999999))
    for c in range(width):
        if 0 <= owner[c] - first < block.shape[0]:
            block[owner[c] - first, c] = owned[c]
