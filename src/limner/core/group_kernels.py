"""Operations on a group of 64 bfloat16 numbers in memory: the highest, those that reach a threshold, a single one.

They are written for vector registers of any length; loops of numba would work on one number at a time. bfloat16 numbers
are compared as whole numbers of 16 bits in the same order: below 0, all bits but the sign are inverted.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_intrinsic: Any = intrinsic

GROUP = 64
HALF = GROUP // 2
LOWEST = 0xFFFF
"""The bits that are below all numbers in this order, -inf included."""

_BIT, _SHORT, _INT, _LONG, _FLOAT = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_SHORTS = ir.VectorType(_SHORT, HALF)


def _all(number: int) -> Any:
    return ir.Constant(_SHORTS, [number] * HALF)


def _in_order(builder: Any, bits: Any, fifteen: Any, below_sign: Any) -> Any:
    """Whole numbers in the order of the bfloat16 numbers; the same operation leads back."""
    return builder.xor(bits, builder.and_(builder.ashr(bits, fifteen), below_sign))


def _halves(builder: Any, address: Any) -> list[Any]:
    """Both halves of a group, in order."""
    found = []
    for half in range(2):
        place = builder.add(address, ir.Constant(_LONG, 2 * HALF * half))
        loaded = builder.load(builder.inttoptr(place, ir.PointerType(_SHORTS)))
        loaded.align = 2
        found.append(_in_order(builder, loaded, _all(15), _all(0x7FFF)))
    return found


@_intrinsic
def highest(context, address):  # type: ignore[no-untyped-def]
    """The bits of the highest number of the group at this address."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        one, other = _halves(builder, given[0])
        both = builder.select(builder.icmp_signed(">", one, other), one, other)
        kind = ir.FunctionType(_SHORT, [_SHORTS])
        name = f"llvm.vector.reduce.smax.v{HALF}i16"
        top = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [both])  # type: ignore[no-untyped-call]
        return _in_order(builder, top, ir.Constant(_SHORT, 15), ir.Constant(_SHORT, 0x7FFF))

    return types.uint16(types.uintp), generate


@_intrinsic
def reaching(context, address, threshold):  # type: ignore[no-untyped-def]
    """A bit for each number of the group at this address that is at least the threshold, which is a place in order."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        none = ir.Constant(_SHORTS, ir.Undefined)
        first = builder.insert_element(none, given[1], ir.Constant(_INT, 0))
        least = builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(_INT, HALF), [0] * HALF))
        low, high = (
            builder.zext(builder.bitcast(builder.icmp_signed(">=", half, least), _INT), _LONG)
            for half in _halves(builder, given[0])
        )
        return builder.or_(low, builder.shl(high, ir.Constant(_LONG, HALF)))

    return types.uint64(types.uintp, types.int16), generate


@_intrinsic
def place_in_order(context, number):  # type: ignore[no-untyped-def]
    """The place of a float32 number in the order of bfloat16 numbers: that of the next one that is not above it."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        word = builder.bitcast(given[0], _INT)
        ordered = _in_order(builder, word, ir.Constant(_INT, 31), ir.Constant(_INT, 0x7FFFFFFF))
        return builder.trunc(builder.ashr(ordered, ir.Constant(_INT, 16)), _SHORT)

    return types.int16(types.float32), generate


@_intrinsic
def number(context, address):  # type: ignore[no-untyped-def]
    """The bfloat16 number at this address, in float32."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        bits = builder.load(builder.inttoptr(given[0], ir.PointerType(_SHORT)))
        bits.align = 2
        return builder.bitcast(builder.shl(builder.zext(bits, _INT), ir.Constant(_INT, 16)), _FLOAT)

    return types.float32(types.uintp), generate


@_intrinsic
def lowest_bit(context, mask):  # type: ignore[no-untyped-def]
    """The position of the lowest bit that is set; at least one must be."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        return builder.cttz(given[0], ir.Constant(_BIT, 1))

    return types.int64(types.uint64), generate


@_intrinsic
def bits_set(context, mask):  # type: ignore[no-untyped-def]
    """The number of bits that are set."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        return builder.ctpop(given[0])

    return types.int64(types.uint64), generate
