"""Float32 products of single pairs of vectors, summed in the order in which a matrix library sums those of a tile.

A matrix library adds the products of a pair one after another with fused multiply-adds, in parts of a few hundred
dimensions each, and then adds up the parts. `limner.scores.tiles` finds the parts by comparing bits. Eight pairs are
computed side by side in the lanes of registers, because every addition waits for the one before it. All loops release
the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from limner.core.cache_dir import compiled
from limner.core.kernels import insert

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)
_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"}, boundscheck=False)
_intrinsic: Any = intrinsic

ROWS, LANES = 8, 4
"""Pairs side by side, and dimensions that are read at once."""

_ADDRESS, _NUMBER, _SIZE = types.uintp, types.float32, types.intp
_INT, _LONG, _FLOATS = ir.IntType(32), ir.IntType(64), ir.VectorType(ir.FloatType(), LANES)


@_intrinsic
def _added(context, x, y, total):  # type: ignore[no-untyped-def]
    """The product x y + total, rounded once."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        return builder.fma(*given)

    return _NUMBER(_NUMBER, _NUMBER, _NUMBER), generate


def _loaded(builder: Any, address: Any, offset: Any) -> Any:
    loaded = builder.load(builder.inttoptr(builder.add(address, offset), ir.PointerType(_FLOATS)))
    loaded.align = 4
    return loaded


def _mixed(builder: Any, one: Any, other: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_INT, LANES), order))


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """The transpose of four rows."""
    for _ in range(2):  # each step interleaves two rows that are two apart
        pairs = [(rows[0], rows[2]), (rows[1], rows[3])]
        rows = [_mixed(builder, *pair, order) for pair in pairs for order in ([0, 4, 1, 5], [2, 6, 3, 7])]
    return rows


@_intrinsic
def _side_by_side(context, query, rows, steps, sums):  # type: ignore[no-untyped-def]
    """Sums of the products of a vector and eight others over some steps of four dimensions, at least one.

    All but `steps` are addresses. Every sum is computed one product after another: each lane holds another pair.
    """
    signature = types.void(_ADDRESS, types.UniTuple(_ADDRESS, ROWS), _SIZE, _ADDRESS)  # type: ignore[no-untyped-call]

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        query, rows, steps, target = given
        kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
        fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")  # type: ignore[no-untyped-call]
        before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.branch(loop)
        builder.position_at_end(loop)
        step, held = builder.phi(_LONG), [builder.phi(_FLOATS) for _ in range(0, ROWS, LANES)]
        offset = builder.mul(step, ir.Constant(_LONG, 4 * LANES))
        numbers, sums = _loaded(builder, query, offset), list(held)
        for part in range(len(sums)):
            places = (builder.extract_value(rows, part * LANES + n) for n in range(LANES))
            turned = _turned(builder, [_loaded(builder, place, offset) for place in places])
            for lane, column in enumerate(turned):
                every = _mixed(builder, numbers, numbers, [lane] * LANES)
                sums[part] = builder.call(fma, [every, column, sums[part]])
        following = builder.add(step, ir.Constant(_LONG, 1))
        for phi, start, later in [
            (step, ir.Constant(_LONG, 0), following),
            *((phi, ir.Constant(_FLOATS, [0.0] * LANES), last) for phi, last in zip(held, sums, strict=True)),
        ]:
            phi.add_incoming(start, before)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
        builder.position_at_end(after)
        for part, each in enumerate(sums):
            place = builder.add(target, ir.Constant(_LONG, 4 * LANES * part))
            builder.store(each, builder.inttoptr(place, ir.PointerType(_FLOATS))).align = 4
        return context.get_dummy_value()

    return signature, generate


@_jit
def _eight(query, candidates, places, ends, sums, out):  # type: ignore[no-untyped-def]
    """The products of a vector and eight candidates; `sums` is memory for eight numbers."""
    start, out[:] = np.int64(0), 0
    in_line = query.strides[0] == 4 and candidates.strides[1] == 4
    p, q, r, s, t, u, v, w = places
    first, stride = candidates.ctypes.data, candidates.strides[0]
    for end in ends:
        steps, skip = (end - start) // LANES if in_line else 0, first + 4 * start
        sums[:] = 0
        if steps:
            rows = (
                skip + stride * p, skip + stride * q, skip + stride * r, skip + stride * s,
                skip + stride * t, skip + stride * u, skip + stride * v, skip + stride * w,
            )  # fmt: skip
            _side_by_side(query.ctypes.data + 4 * start, rows, steps, sums.ctypes.data)
        for i in range(start + LANES * steps, end):
            for n in range(ROWS):
                sums[n] = _added(query[i], candidates[places[n], i], sums[n])
        for n in range(ROWS):
            out[n] += sums[n]
        start = end


@_jit
def scores_of(query, candidates, places, ends, out):  # type: ignore[no-untyped-def]
    """The scores of one query and the candidates at these places.

    Args:
        query: The vector of the query.
        candidates: Vectors, one per row.
        places: Rows of `candidates`.
        ends: Where each part of a sum ends; the last is the number of dimensions.
        out: Output, one score per place.
    """
    last, memory = places.shape[0] - 1, np.empty((2, ROWS), np.float32)
    for low in range(0, last + 1, ROWS):
        p, q, r = places[min(low + 1, last)], places[min(low + 2, last)], places[min(low + 3, last)]
        s, t, u = places[min(low + 4, last)], places[min(low + 5, last)], places[min(low + 6, last)]
        eight = places[low], p, q, r, s, t, u, places[min(low + 7, last)]
        _eight(query, candidates, eight, ends, memory[0], memory[1])
        for n in range(min(ROWS, last + 1 - low)):
            out[low + n] = memory[1, n]


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
    """Like `scores_of`, but each sum is computed in any order, which is faster."""
    last = places.shape[0] - 1
    for low in range(0, last + 1, 4):
        p, q, r = places[min(low + 1, last)], places[min(low + 2, last)], places[min(low + 3, last)]
        found = _four(query, (candidates[places[low]], candidates[p], candidates[q], candidates[r]))
        for n in range(min(4, last + 1 - low)):
            out[low + n] = found[n]


@_jit
def scores_of_lists(queries, candidates, indptr, columns, ends, out):  # type: ignore[no-untyped-def]
    """The scores of every query and the candidates in its list, `columns[indptr[r]:indptr[r + 1]]`."""
    for r in range(queries.shape[0]):
        low, high = indptr[r], indptr[r + 1]
        scores_of(queries[r], candidates, columns[low:high], ends, out[low:high])


@_jit
def best_of_lists(indptr, columns, scores, indices, kept):  # type: ignore[no-untyped-def]
    """The k best of every list, best first; equal scores keep the order of the list. No list is shorter than k."""
    k = indices.shape[1]
    for r in range(indices.shape[0]):
        for n in range(indptr[r], indptr[r + 1]):
            held = n - indptr[r]
            if held < k or scores[n] > kept[r, k - 1]:
                insert(scores[n], columns[n], kept[r], indices[r], held)
