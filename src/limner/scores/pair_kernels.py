"""Float32 products of single pairs of vectors, summed in the order in which a matrix library sums those of a tile.

A matrix library adds the products of a pair one after another with fused multiply-adds, in parts of a few hundred
dimensions each, and then adds up the parts. `limner.scores.exact_products` finds the parts by comparing bits. Sixteen
pairs are computed side by side in the lanes of registers, because every addition waits for the one before it. All loops
release the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from limner.core.paths import compiled
from limner.scores.block_kernels import insert

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)

ROWS, FEW, LANES = 16, 4, 4
"""Pairs side by side, pairs of short lists side by side, and dimensions that are read at once."""

_ADDRESS, _NUMBER, _SIZE = types.uintp, types.float32, types.intp
_INT, _LONG = ir.IntType(32), ir.IntType(64)
_FOUR = ir.VectorType(ir.FloatType(), LANES)


_intrinsic: Any = intrinsic


@_intrinsic
def _added(context, x, y, total):  # type: ignore[no-untyped-def]
    """The product x y + total, rounded once."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.fma(*arguments)

    return _NUMBER(_NUMBER, _NUMBER, _NUMBER), generate


def _loaded(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type) -> ir.Value:
    loaded = builder.load(builder.inttoptr(address, ir.PointerType(kind)))
    loaded.align = 4
    return loaded


def _mixed(builder: ir.IRBuilder, one: ir.Value, second: ir.Value, order: list[int]) -> ir.Value:
    return builder.shuffle_vector(one, second, ir.Constant(ir.VectorType(_INT, len(order)), order))


def _joined(builder: ir.IRBuilder, parts: list[ir.Value]) -> ir.Value:
    """Short registers one after another in a long one."""
    while len(parts) > 1:
        order = list(range(2 * parts[0].type.count))
        parts = [_mixed(builder, *pair, order) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _turned(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """The transposes of blocks of four by four numbers, which lie side by side in four registers."""
    width = rows[0].type.count
    blocks = range(0, width, LANES)
    low, high = ([at + n + offset for at in blocks for n in half for offset in (0, width)] for half in ((0, 1), (2, 3)))
    for _ in range(2):  # each step interleaves two rows that are two apart
        pairs = [(rows[0], rows[2]), (rows[1], rows[3])]
        rows = [_mixed(builder, *pair, order) for pair in pairs for order in (low, high)]
    return rows


def _addresses(builder: ir.IRBuilder, rows: ir.Value, count: int) -> list[ir.Value]:
    """The addresses of candidates; see `_side_by_side`."""
    first, stride, places, last = (builder.extract_value(rows, n) for n in range(4))
    addresses = []
    for n in range(count):
        number = ir.Constant(_LONG, n)
        at = builder.select(builder.icmp_signed("<", number, last), number, last)
        place = _loaded(builder, builder.add(places, builder.mul(at, ir.Constant(_LONG, 8))), _LONG)
        addresses.append(builder.add(first, builder.mul(stride, place)))
    return addresses


def _side_by_side(count: int) -> Any:
    """An operation that adds the products of a vector and `count` others to sums: dimensions in steps of four.

    It takes the address of the vector; a tuple for the others: the address of the first candidate, the distance to the
    next in bytes, the address of the places of candidates, and the last of these to read, which is repeated; the number
    of steps, at least one; and the address of the sums. Every sum is computed one product after another: each lane
    holds another pair.
    """
    floats = ir.VectorType(ir.FloatType(), count)

    @_intrinsic
    def add_products(context, query, rows, steps, sums):  # type: ignore[no-untyped-def]
        """Adds the products to the sums."""
        signature = types.void(_ADDRESS, types.UniTuple(_ADDRESS, 4), _SIZE, _ADDRESS)  # type: ignore[no-untyped-call]

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            query, rows, steps, target = arguments
            kind = ir.FunctionType(floats, [floats] * 3)
            fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{count}f32")  # type: ignore[no-untyped-call]
            vectors, first = _addresses(builder, rows, count), _loaded(builder, target, floats)
            before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
            builder.branch(loop)
            builder.position_at_end(loop)
            step, sums = builder.phi(_LONG), builder.phi(floats)
            offset, added = builder.mul(step, ir.Constant(_LONG, 4 * LANES)), sums
            loaded = [_loaded(builder, builder.add(vector, offset), _FOUR) for vector in vectors]
            blocks = [_joined(builder, loaded[n::LANES]) for n in range(LANES)]
            numbers = _loaded(builder, builder.add(query, offset), _FOUR)
            for lane, column in enumerate(_turned(builder, blocks)):
                added = builder.call(fma, [_mixed(builder, numbers, numbers, [lane] * count), column, added])
            following = builder.add(step, ir.Constant(_LONG, 1))
            for phi, start, later in ((step, ir.Constant(_LONG, 0), following), (sums, first, added)):
                phi.add_incoming(start, before)
                phi.add_incoming(later, loop)
            builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
            builder.position_at_end(after)
            builder.store(added, builder.inttoptr(target, ir.PointerType(floats))).align = 4
            return context.get_dummy_value()

        return signature, generate

    return add_products


_few_side_by_side, _many_side_by_side = _side_by_side(FEW), _side_by_side(ROWS)


@_jit
def scores_of(query, candidates, places, ends, out):  # type: ignore[no-untyped-def]
    """The scores of one query and the candidates at these places.

    Args:
        query: The vector of the query.
        candidates: Vectors, one per row.
        places: Rows of `candidates`, one after another in memory.
        ends: Where each part of a sum ends; the last is the number of dimensions.
        out: Output, one score per place; it may be longer.
    """
    sums, count = np.empty(ROWS, np.float32), places.shape[0]
    in_line = query.strides[0] == 4 and candidates.strides[1] == 4
    out[:count] = 0
    for low in range(0, count, ROWS):
        batch, start = min(ROWS, count - low), np.int64(0)
        for part in range(ends.shape[0]):
            end, skip = ends[part], 4 * start
            steps = (end - start) // LANES if in_line else 0
            sums[:] = 0
            if steps:
                vector, stride, listed = query.ctypes.data + skip, candidates.strides[0], places.ctypes.data + 8 * low
                rows = candidates.ctypes.data + skip, np.uintp(stride), listed, np.uintp(batch - 1)
                if batch <= FEW:
                    _few_side_by_side(vector, rows, steps, sums.ctypes.data)
                else:
                    _many_side_by_side(vector, rows, steps, sums.ctypes.data)
            for i in range(start + LANES * steps, end):
                for n in range(batch):
                    sums[n] = _added(query[i], candidates[places[low + n], i], sums[n])
            for n in range(batch):
                out[low + n] += sums[n]
            start = end


@_summing
def _four(query, rows):  # type: ignore[no-untyped-def]
    """The products of a vector and four others, summed in any order."""
    (r0, r1, r2, r3), zero = rows, np.float32(0)
    a = b = c = d = zero
    for i in range(query.shape[0]):
        x = query[i]
        a += x * r0[i]
        b += x * r1[i]
        c += x * r2[i]
        d += x * r3[i]
    return a, b, c, d


@_jit
def products_of(query, candidates, places, out):  # type: ignore[no-untyped-def]
    """Like `scores_of`, but each sum is computed in any order."""
    last = places.shape[0] - 1
    for low in range(0, last + 1, 4):
        p, q, r = places[min(low + 1, last)], places[min(low + 2, last)], places[min(low + 3, last)]
        sums = _four(query, (candidates[places[low]], candidates[p], candidates[q], candidates[r]))
        for n in range(min(4, last + 1 - low)):
            out[low + n] = sums[n]


@_jit
def scores_of_lists(queries, candidates, indptr, columns, ends, out):  # type: ignore[no-untyped-def]
    """The scores of every query and the candidates in its list, `columns[indptr[r]:indptr[r + 1]]`."""
    for r in range(queries.shape[0]):
        low, high = indptr[r], indptr[r + 1]
        scores_of(queries[r], candidates, columns[low:high], ends, out[low:high])


@_jit
def best_of_lists(indptr, columns, scores, indices, best_scores):  # type: ignore[no-untyped-def]
    """The k best of every list, best first; equal scores keep the order of the list. No list is shorter than k."""
    k = indices.shape[1]
    for r in range(indices.shape[0]):
        for n in range(indptr[r], indptr[r + 1]):
            filled = n - indptr[r]
            if filled < k or scores[n] > best_scores[r, k - 1]:
                insert(scores[n], columns[n], best_scores[r], indices[r], filled)
