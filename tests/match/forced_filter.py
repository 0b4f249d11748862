"""The low-precision filter on any CPU: every pass is filtered, with products that are emulated without units."""

from dataclasses import dataclass

import numpy as np

from limner.scores import vectors
from limner.scores.lowprecision import cpu_filter, int8_products
from limner.scores.lowprecision.int8_products import Int8

EXACT = 2**24 // 127**2
"""Sums of this many products are exact in float32."""


def rounded_bits(numbers):
    """The bits of the nearest bfloat16 numbers, ties to even."""
    words = np.ascontiguousarray(numbers).view(np.uint32)
    return ((words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


class EmulatedColumns:
    """Candidates one after another, whose products are computed in floating point: the same numbers, more slowly."""

    def __init__(self, count, dimensions):
        self.codes, self.scale = np.empty((count, dimensions), np.int8), np.empty(count, np.float32)

    def put(self, start, part):
        self.codes[start : start + len(part.codes)] = part.codes
        self.scale[start : start + len(part.codes)] = part.scale

    def multiply(self, rows, out):
        kind = np.float32 if self.codes.shape[1] <= EXACT else np.float64
        sums = np.matmul(rows.codes.astype(kind), self.codes.astype(kind).T).astype(np.float32)
        out[:] = rounded_bits((sums * self.scale) * rows.scale[:, None])


@dataclass(frozen=True)
class Emulated(Int8):
    """The format without units."""

    def columns(self, count, dimensions):
        return EmulatedColumns(count, dimensions)


def emulated(*vectors):
    """As `int8_products.suited`."""
    return Emulated(int8_products.suited(*vectors).rotated)


PLAIN, ROTATED = Emulated(False), Emulated(True)
FORMATS = [PLAIN, ROTATED, *([Int8(False), Int8(True)] if int8_products.has_units() else [])]


def force(patch, form=None):
    """Every pass goes through the filter, with this format or the one that suits the vectors."""
    patch.setattr(vectors, "FILTERED", 0)
    patch.setattr(cpu_filter, "saves_time", lambda *given: True)
    patch.setattr(cpu_filter, "suited", emulated if form is None else lambda *sides: form)


def disable_filter(patch):
    """No pass goes through the filter."""
    patch.setattr(cpu_filter, "saves_time", lambda *given: False)
