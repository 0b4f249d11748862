"""Products of int8 vectors with AVX-512 VNNI or the dot products of Arm, and the layout of the vectors that they read.

Both add four neighbouring products of bytes to a sum in 32 bits: `vpdpbusd` 64 products per instruction, `sdot` 16. The
first multiplies unsigned by signed bytes. So candidates are stored there with 128 added to every number, and a query q
starts its sums at -128 sum(q). All sums are exact integers, and the results are the same.

A panel holds `WIDTH` candidates, four dimensions of each next to each other; a group holds `HEIGHT` queries likewise.
The sums of a panel and a group stay in registers: 24 of the 32, the others hold what is multiplied. Sums are scaled
and rounded to bfloat16 when they are stored. All functions release the GIL.
"""

from __future__ import annotations

import platform

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from limner.core.paths import compiled

_jit = compiled(nogil=True, fastmath=False, boundscheck=False)

ARM = platform.machine() in ("aarch64", "arm64")
LANES, ADDED = (4, 0) if ARM else (16, 128)
"""Numbers of 32 bits in a register; what is added to every number of a candidate."""
HEIGHT, VECTORS = 8, 3
WIDTH = LANES * VECTORS

_BYTE, _SHORT, _INT, _LONG, _FLOAT = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_SHORTS, _INTS, _FLOATS = (ir.VectorType(kind, LANES) for kind in (_SHORT, _INT, _FLOAT))
_BYTES = ir.VectorType(_BYTE, 4 * LANES)


@_jit
def lay_out_columns(codes, panels, start):  # type: ignore[no-untyped-def]
    """Copies candidates into panels (panel, steps of four dimensions, candidate, dimension), from panel `start` on."""
    for p in range(-(-codes.shape[0] // WIDTH)):
        low = p * WIDTH
        for c in range(min(WIDTH, codes.shape[0] - low)):
            row, panel = codes[low + c], panels[start + p]
            for i in range(row.shape[0]):
                panel[i >> 2, c, i & 3] = np.uint8(np.int32(row[i]) + ADDED)


@_jit
def lay_out_rows(codes, groups, sums):  # type: ignore[no-untyped-def]
    """Copies queries into groups (group, steps of four dimensions, query, dimension), and finds where sums start."""
    for r in range(codes.shape[0]):
        row, group, total = codes[r], groups[r // HEIGHT], 0
        for i in range(row.shape[0]):
            group[i >> 2, r % HEIGHT, i & 3] = row[i]
            total += row[i]
        sums[r] = -ADDED * total


def _constant(number: int) -> ir.Constant:
    return ir.Constant(_LONG, number)


def _at(builder: ir.IRBuilder, address: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
    return builder.inttoptr(builder.add(address, _constant(offset)), ir.PointerType(kind))


def _load(builder: ir.IRBuilder, address: ir.Value, offset: int, kind: ir.Type, align: int) -> ir.Value:
    loaded = builder.load(_at(builder, address, offset, kind))
    loaded.align = align
    return loaded


def _spread(builder: ir.IRBuilder, number: ir.Value, kind: ir.Type) -> ir.Value:
    """A register with this number in every lane."""
    none = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(none, number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, none, ir.Constant(_INTS, [0] * LANES))


def _queries(builder: ir.IRBuilder, address: ir.Value) -> list[ir.Value]:
    """Four dimensions of each query of a group, in every lane of a register."""
    if not ARM:
        return [_spread(builder, _load(builder, address, 4 * r, _INT, 4), _INTS) for r in range(HEIGHT)]
    loaded = [_load(builder, address, 4 * r, _INTS, 4) for r in range(0, HEIGHT, LANES)]
    none = ir.Constant(_INTS, ir.Undefined)  # sdot itself reads one lane for all
    return [builder.shuffle_vector(each, none, ir.Constant(_INTS, [lane] * LANES))
            for each in loaded for lane in range(LANES)]  # fmt: skip


def _added(builder: ir.IRBuilder, sums: ir.Value, columns: ir.Value, row: ir.Value) -> ir.Value:
    """Sums with the products of four dimensions added."""
    name, kind = ("llvm.aarch64.neon.sdot.v4i32.v16i8", _BYTES) if ARM else ("llvm.x86.avx512.vpdpbusd.512", _INTS)
    called = ir.FunctionType(_INTS, [_INTS, kind, kind])
    add_products = cgutils.get_or_insert_function(builder.module, called, name)  # type: ignore[no-untyped-call]
    return builder.call(add_products, [sums, *(builder.bitcast(each, kind) for each in (columns, row))])


def _sums(
    builder: ir.IRBuilder, group: ir.Value, panel: ir.Value, starts: ir.Value, steps: ir.Value
) -> list[list[ir.Value]]:
    """The sums of a group and a panel, in registers."""
    first = [_spread(builder, _load(builder, starts, 4 * r, _INT, 4), _INTS) for r in range(HEIGHT)]
    before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(_LONG)
    sums = [[builder.phi(_INTS) for _ in range(VECTORS)] for _ in range(HEIGHT)]
    columns = builder.add(panel, builder.mul(step, _constant(4 * WIDTH)))
    rows = builder.add(group, builder.mul(step, _constant(4 * HEIGHT)))
    loaded = [_load(builder, columns, 4 * LANES * v, _INTS, 4 * LANES) for v in range(VECTORS)]
    added = [[_added(builder, sums[r][v], loaded[v], row) for v in range(VECTORS)]
             for r, row in enumerate(_queries(builder, rows))]  # fmt: skip
    following = builder.add(step, _constant(1))
    for phi, start, later in [
        (step, _constant(0), following),
        *((sums[r][v], first[r], added[r][v]) for r in range(HEIGHT) for v in range(VECTORS)),
    ]:
        phi.add_incoming(start, before)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
    builder.position_at_end(after)
    return added


def _rounded(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    """float32 numbers as the bits of the nearest bfloat16 numbers, ties to even."""
    words = builder.bitcast(numbers, _INTS)
    sixteen, one, half = (ir.Constant(_INTS, [number] * LANES) for number in (16, 1, 0x7FFF))
    odd = builder.and_(builder.lshr(words, sixteen), one)
    return builder.trunc(builder.lshr(builder.add(builder.add(words, half), odd), sixteen), _SHORTS)


@intrinsic
def _tile(context, group, panel, starts, steps, scales, out, stride):  # type: ignore[no-untyped-def]
    """Products of a group and a panel as bfloat16; all but `steps` and `stride` are addresses.

    `scales` holds the address of the scales of the queries, and that of the candidates.
    """
    address, number = types.uintp, types.intp
    pair = types.UniTuple(address, 2)  # type: ignore[no-untyped-call]
    signature = types.void(address, address, address, number, pair, address, number)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        group, panel, starts, steps, scales, out, stride = arguments
        sums = _sums(builder, group, panel, starts, steps)
        row_scales, column_scales = builder.extract_value(scales, 0), builder.extract_value(scales, 1)
        loaded = [_load(builder, column_scales, 4 * LANES * v, _FLOATS, 4) for v in range(VECTORS)]
        for r in range(HEIGHT):
            scale = _spread(builder, _load(builder, row_scales, 4 * r, _FLOAT, 4), _FLOATS)
            line = builder.add(out, builder.mul(stride, _constant(r)))
            for v in range(VECTORS):
                numbers = builder.fmul(builder.fmul(builder.sitofp(sums[r][v], _FLOATS), loaded[v]), scale)
                stored = builder.store(_rounded(builder, numbers), _at(builder, line, 2 * LANES * v, _SHORTS))
                stored.align = 2
        return context.get_dummy_value()

    return signature, generate


@_jit
def multiply(groups, sums, row_scales, panels, column_scales, edge, out):  # type: ignore[no-untyped-def]
    """Products of all groups and panels, rounded to bfloat16; only on a CPU that has the instruction.

    Args:
        groups: Queries, see `lay_out_rows`.
        sums: Where the sums of each query start.
        row_scales: Scales of the queries.
        panels: Candidates, see `lay_out_columns`; aligned to 64 bytes.
        column_scales: Scales of the candidates; as many as the panels hold.
        edge: Memory of `HEIGHT` by `WIDTH` bfloat16 numbers, for a panel or a group that is not full.
        out: Output, the bits of bfloat16 numbers, queries by candidates.
    """
    steps, (height, width) = groups.shape[1], out.shape
    scales = row_scales.ctypes.data, column_scales.ctypes.data
    for p in range(panels.shape[0]):
        panel, low = panels.ctypes.data + p * steps * 4 * WIDTH, p * WIDTH
        for g in range(groups.shape[0]):
            group, top = groups.ctypes.data + g * steps * 4 * HEIGHT, g * HEIGHT
            is_full = top + HEIGHT <= height and low + WIDTH <= width
            target, stride = (
                (out.ctypes.data + 2 * (top * width + low), 2 * width) if is_full else (edge.ctypes.data, 2 * WIDTH)
            )
            theirs = scales[0] + 4 * top, scales[1] + 4 * low
            starts = sums.ctypes.data + 4 * top
            _tile(group, panel, starts, steps, theirs, target, stride)  # type: ignore[call-arg]  # numba adds one
            if not is_full:
                for r in range(top, min(top + HEIGHT, height)):
                    for c in range(low, min(low + WIDTH, width)):
                        out[r, c] = edge[r - top, c - low]
