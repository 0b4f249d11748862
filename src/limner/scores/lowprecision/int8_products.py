"""int8 products on the CPU (AVX-512 VNNI, dot products of Arm): whether they are faster, and keep the error bound."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.scores.lowprecision.rounding_bounds import READ, Bits, Rotation, Rounded, accumulation
from limner.scores.parallel_blocks import TILE_COLUMNS, TILE_ROWS, threads

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

    if getattr(config, "CPU_NAME", None) or getattr(config, "CPU_FEATURES", None):
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
        sum(_lost(Int8(rotate).round(each[:: len(each) // SHOWN + 1])) for each in vectors) for rotate in (False, True)
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
    loops: ModuleType

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


STEP = 6144
"""Candidates are rounded this many at a time; a multiple of the layout's width."""
TILED = 8
"""A test repeats its vectors so many times: large products are computed by other loops than small ones."""


@cache
def product_share(dimensions: int) -> float:
    """Time of an int8 product relative to float32; inf if its sums violate the bound.

    Measured once per process and number of dimensions, on one thread.
    """
    if not keeps_bound(dimensions):
        return float("inf")
    with threads(1) as work_on:
        return float(next(iter(work_on(_measured_share, [dimensions]))))


def _measured_share(dimensions: int) -> float:
    rng = np.random.default_rng(0)
    rows, columns = (
        rng.standard_normal((size, dimensions), dtype=np.float32) for size in (TILE_ROWS, 4 * TILE_COLUMNS)
    )
    low, high = Int8().round(rows), stored(Int8(), columns)
    out = np.empty((TILE_ROWS, len(columns)), dtype=np.uint16)
    work = [(lambda: high.multiply(low, out)), (lambda: _float32_products(rows, columns))]
    seconds = [[_seconds(each) for each in work] for _ in range(3)]
    fast, plain = np.min(seconds, axis=0)
    return float(fast / plain)


def stored(form: Int8, vectors: Float32) -> Columns:
    """These vectors as candidates."""
    columns = form.columns(*vectors.shape)
    for start in range(0, len(vectors), STEP):
        columns.put(start, form.round(vectors[start : start + STEP]))
    return columns


@cache
def seconds_of_float32(dimensions: int) -> float:
    """Seconds per multiplication in float32, on one core."""
    rows, columns = np.ones((TILE_ROWS, dimensions), np.float32), np.ones((TILE_COLUMNS, dimensions), np.float32)
    with threads(1) as work_on:
        seconds = list(work_on(lambda _: _seconds(lambda: _float32_products(rows, columns)), range(3)))
    return float(min(seconds)) / (TILE_ROWS * TILE_COLUMNS * dimensions)


def _seconds(work: Callable[[], object]) -> float:
    """The time of one thread's work, without that of other programs on the same core."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _float32_products(rows: Float32, columns: Float32) -> None:
    out = np.empty((TILE_ROWS, TILE_COLUMNS), dtype=np.float32)
    for low in range(0, len(columns), TILE_COLUMNS):
        np.matmul(rows, columns[low : low + TILE_COLUMNS].T, out=out)


@cache
def keeps_bound(dimensions: int) -> bool:
    """Tests whether sums on this CPU respect the error bound, with the vectors of `trial`, in a product of full tiles.

    Tested once per process and number of dimensions, on one thread. Units read several dimensions at a time, and treat
    those that are left over apart: the number tested has to be the one that is used.
    """
    with threads(1) as work_on:
        return bool(next(iter(work_on(_tested, [dimensions]))))


def _tested(dimensions: int) -> bool:
    rows, columns = trial(dimensions)
    low, high = (np.tile(side, (TILED, 1)) for side in (rows, columns))
    out = np.empty((len(low), len(high)), dtype=np.uint16)
    stored(Int8(), high).multiply(Int8().round(low), out)
    read = (out.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return all_within_bound(read, Int8().round(rows).values, Int8().round(columns).values)


def trial(dimensions: int) -> tuple[Float32, Float32]:
    """Vectors whose products have random, cancelling, growing and shrinking terms."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((96, dimensions)).astype(np.float32)
    rows[32:64] *= np.exp2(rng.integers(-20, 20, (32, dimensions)))
    rows[64:, 1::2] = -rows[64:, : dimensions - 1 : 2]
    columns = np.concatenate([rows, rng.standard_normal((96, dimensions)).astype(np.float32) + 1])
    columns[64:96, 1::2] = columns[64:96, : dimensions - 1 : 2] * np.float32(1 + 2**-7)
    return rows, columns


def within_bound(read: Float32, rows: Float32, columns: Float32) -> bool:
    """Whether products of rounded vectors, as read, are as near to the exact ones as the bound says."""
    products, a, b = (each.astype(np.float64) for each in (read, rows, columns))
    allowed = accumulation(a.shape[1]) * (np.abs(a) @ np.abs(b).T) + READ * np.abs(products) + 2.0**-120
    return bool((np.abs(products - a @ b.T) <= allowed).all())


def all_within_bound(read: Float32, rows: Float32, columns: Float32) -> bool:
    """The same for products of vectors that are repeated `TILED` times on both sides."""
    parts = (part for band in np.split(read, TILED) for part in np.split(band, TILED, axis=1))
    return all(within_bound(part, rows, columns) for part in parts)
