"""Operations on a group of 64 products, stored as bfloat16 numbers: the highest key, the keys that reach a threshold.

The key of a product x is scale (x + eps |x|) - shift, in float32. The operations are written for vector registers of
any length; loops of numba would work on few numbers at a time.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_intrinsic: Any = intrinsic

GROUP, LANES = 64, 16
LOWEST = 0xFF7F
"""The bits of the lowest finite number, which fills a group that is not full; -inf would become NaN."""

_BIT, _SHORT, _INT, _LONG, _FLOAT = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_SHORTS, _INTS, _FLOATS = (ir.VectorType(kind, LANES) for kind in (_SHORT, _INT, _FLOAT))
_ADDRESS, _NUMBER = types.uintp, types.float32


def _spread(builder: Any, number: Any) -> Any:
    """A register with this number in every lane."""
    none = ir.Constant(_FLOATS, ir.Undefined)
    one = builder.insert_element(none, number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, none, ir.Constant(_INTS, [0] * LANES))


def _load(builder: Any, address: Any, offset: int, kind: Any) -> Any:
    place = builder.add(address, ir.Constant(_LONG, offset))
    loaded = builder.load(builder.inttoptr(place, ir.PointerType(kind)))
    loaded.align = 2
    return loaded


def _call(builder: Any, name: str, kind: Any, given: list[Any], fast: tuple[str, ...] = ()) -> Any:
    called = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
    return builder.call(called, given, fastmath=fast)


def _keys(builder: Any, address: Any, shifts: Any, scale: Any, eps: Any) -> list[Any]:
    """The keys of a group, a register at a time."""
    scales, widths, found = _spread(builder, scale), _spread(builder, eps), []
    for low in range(0, GROUP, LANES):
        words = builder.zext(_load(builder, address, 2 * low, _SHORTS), _INTS)
        numbers = builder.bitcast(builder.shl(words, ir.Constant(_INTS, [16] * LANES)), _FLOATS)
        size = _call(builder, f"llvm.fabs.v{LANES}f32", ir.FunctionType(_FLOATS, [_FLOATS]), [numbers])
        scaled = builder.fmul(scales, builder.fadd(numbers, builder.fmul(widths, size)))
        found.append(builder.fsub(scaled, _load(builder, shifts, 4 * low, _FLOATS)))
    return found


@_intrinsic
def highest(context, address, shifts, scale, eps):  # type: ignore[no-untyped-def]
    """The highest key of the group of products at one address with the shifts at another."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        top, *others = _keys(builder, *given)
        for keys in others:
            top = builder.select(builder.fcmp_ordered(">", keys, top), keys, top)
        kind = ir.FunctionType(_FLOAT, [_FLOATS])
        return _call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", kind, [top], ("nnan", "nsz"))

    return types.float32(_ADDRESS, _ADDRESS, _NUMBER, _NUMBER), generate


@_intrinsic
def reaching(context, address, shifts, scale, eps, threshold):  # type: ignore[no-untyped-def]
    """A bit for each key of the group that is at least the threshold."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        least, mask = _spread(builder, given[4]), ir.Constant(_LONG, 0)
        for part, keys in enumerate(_keys(builder, *given[:4])):
            bits = builder.bitcast(builder.fcmp_ordered(">=", keys, least), _SHORT)
            mask = builder.or_(mask, builder.shl(builder.zext(bits, _LONG), ir.Constant(_LONG, LANES * part)))
        return mask

    return types.uint64(_ADDRESS, _ADDRESS, _NUMBER, _NUMBER, _NUMBER), generate


@_intrinsic
def number(context, address):  # type: ignore[no-untyped-def]
    """The bfloat16 number at this address, in float32."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        bits = builder.zext(_load(builder, given[0], 0, _SHORT), _INT)
        return builder.bitcast(builder.shl(bits, ir.Constant(_INT, 16)), _FLOAT)

    return _NUMBER(_ADDRESS), generate


@_intrinsic
def bits_of(context, value):  # type: ignore[no-untyped-def]
    """The bits of a float32 number, as a whole number."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        return builder.bitcast(given[0], _INT)

    return types.int32(_NUMBER), generate


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


@_intrinsic
def in_order(context, address, target):  # type: ignore[no-untyped-def]
    """Stores a group as whole numbers of 16 bits in the order of the products, both zeros as 0; returns the highest."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        kind = ir.VectorType(_SHORT, GROUP)
        size, last = (ir.Constant(kind, [number] * GROUP) for number in (0x7FFF, 15))
        bits = _load(builder, given[0], 0, kind)
        sign = builder.ashr(bits, last)
        whole = builder.sub(builder.xor(builder.and_(bits, size), sign), sign)
        stored = builder.store(whole, builder.inttoptr(given[1], ir.PointerType(kind)))
        stored.align = 2
        return _call(builder, f"llvm.vector.reduce.smax.v{GROUP}i16", ir.FunctionType(_SHORT, [kind]), [whole])

    return types.int16(_ADDRESS, _ADDRESS), generate


@_intrinsic
def highest_key(context, address):  # type: ignore[no-untyped-def]
    """The highest number of a group that is in order."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        kind = ir.VectorType(_SHORT, GROUP)
        keys = _load(builder, given[0], 0, kind)
        return _call(builder, f"llvm.vector.reduce.smax.v{GROUP}i16", ir.FunctionType(_SHORT, [kind]), [keys])

    return types.int16(_ADDRESS), generate


@_intrinsic
def not_below(context, address, least):  # type: ignore[no-untyped-def]
    """A bit for each number of a group in order that is at least this one."""

    def generate(context, builder, signature, given):  # type: ignore[no-untyped-def]
        kind = ir.VectorType(_SHORT, GROUP)
        none = ir.Constant(kind, ir.Undefined)
        one = builder.insert_element(none, given[1], ir.Constant(_INT, 0))
        every = builder.shuffle_vector(one, none, ir.Constant(ir.VectorType(_INT, GROUP), [0] * GROUP))
        return builder.bitcast(builder.icmp_signed(">=", _load(builder, given[0], 0, kind), every), _LONG)

    return types.uint64(_ADDRESS, types.int16), generate
