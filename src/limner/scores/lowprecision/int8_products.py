"""int8 products on the CPU: compiled for AVX-512 VNNI and for the dot products of Arm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.scores.lowprecision.rotation import Rotation
from limner.scores.lowprecision.rounding_bounds import Bits, Rounded

LINE = 64
"""Bytes of a register, to which its memory is aligned."""
SHOWN = 64
"""Up to so many vectors of each side show whether rotation helps."""
CLEARLY = 0.9
"""It has to leave at most this share of what rounding takes away."""
MOST_DIMENSIONS = 2**31 // (2 * 128**2)
"""Sums of this many products fit into 32 bits."""


DOT_PRODUCTS = ("neoverse-", "cortex-a76", "cortex-a77", "cortex-a78", "cortex-x", "apple-m", "ampere1", "grace")
"""How the names of Arm's CPUs with dot products begin: the compiler does not list this feature."""


@cache
def has_units() -> bool:
    """Whether compiled code may use AVX-512 VNNI or dot products: the CPU has them, and numba compiles for this CPU."""
    from llvmlite.binding import get_host_cpu_features, get_host_cpu_name
    from numba import config

    from limner.scores.lowprecision.int8_kernels import ARM

    options: Any = config
    if options.CPU_NAME or options.CPU_FEATURES:
        return False
    if ARM:
        return str(get_host_cpu_name()).startswith(DOT_PRODUCTS)
    try:
        features = get_host_cpu_features()
    except RuntimeError:
        return False
    return all(features.get(name) for name in ("avx512vnni", "avx512bw", "avx512vl"))


class Columns(Protocol):
    """Rounded candidates in the layout that the product reads."""

    def put(self, start: int, part: Rounded) -> None:
        """Stores the candidates from `start` on, which is a multiple of the layout's width."""

    def multiply(self, rows: Rounded, out: Bits) -> None:
        """Products of some queries and all candidates, as the bits of bfloat16 numbers."""


@dataclass(frozen=True)
class Int8:
    """How vectors are rounded: to whole multiples of a scale, which every vector has of its own.

    Args:
        rotated: Whether vectors are rotated before they are rounded, which changes nothing of the products' time.
    """

    rotated: bool = False

    def round(self, vectors: Float32) -> Rounded:
        """The vectors in int8."""
        return Rounded.int8(vectors, rotation=Rotation(vectors.shape[1]) if self.rotated else None)

    def columns(self, count: int, dimensions: int) -> Columns:
        """Memory for so many candidates, in the layout that the product reads."""
        return Panels.of(count, dimensions)


def suited(*vectors: Float32) -> Int8:
    """With vectors rotated if a sample loses clearly less by rounding then."""
    plain, rotated = (
        sum(_lost(Int8(way).round(each[:: len(each) // SHOWN + 1])) for each in vectors) for way in (False, True)
    )
    return Int8(rotated < CLEARLY * plain)


def _lost(rounded: Rounded) -> float:
    """What rounding takes away, as a share of the length, on average."""
    shares = rounded.residual / np.maximum(rounded.length, np.float32(1e-30))
    return float(shares.sum() / max(len(shares), 1))


@dataclass(frozen=True, eq=False)
class Panels:
    """Rounded candidates in the layout of `int8_kernels`."""

    panels: npt.NDArray[np.uint8]
    scale: Float32
    loops: Any

    @classmethod
    def of(cls, count: int, dimensions: int) -> Panels:
        """Memory for so many candidates."""
        from limner.scores.lowprecision import int8_kernels as loops

        number, steps = -(-count // loops.WIDTH), -(-dimensions // 4)
        memory = np.full(number * steps * loops.WIDTH * 4 + LINE, 128, np.uint8)
        panels = memory[-memory.ctypes.data % LINE :][: len(memory) - LINE].reshape(number, steps, loops.WIDTH, 4)
        return cls(panels, np.zeros(number * loops.WIDTH, np.float32), loops)

    def put(self, start: int, part: Rounded) -> None:
        """Stores candidates."""
        self.loops.lay_out_columns(part.codes, self.panels, start // self.loops.WIDTH)
        self.scale[start : start + len(part.codes)] = part.scale

    def multiply(self, rows: Rounded, out: Bits) -> None:
        """Products of all of them."""
        height = self.loops.HEIGHT
        number = -(-len(rows.codes) // height)
        groups, sums = np.zeros((number, self.panels.shape[1], height, 4), np.int8), np.zeros(number * height, np.int32)
        scale = np.zeros(number * height, np.float32)
        scale[: len(rows.codes)] = rows.scale
        self.loops.lay_out_rows(rows.codes, groups, sums)
        edge = np.empty((height, self.loops.WIDTH), np.uint16)
        self.loops.multiply(groups, sums, scale, self.panels, self.scale, edge, out)
