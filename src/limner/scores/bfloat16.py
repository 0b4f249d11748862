"""bfloat16 products on the CPU: which units exist, how fast they are, and whether they respect the error bound."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import local
from types import ModuleType

import numpy as np

from limner.core.arrays import Float32
from limner.core.lowprecision import READ, Bits, Rounded, accumulation
from limner.scores.base import TILE_COLUMNS, TILE_ROWS
from limner.scores.running import threads

ProductOf = Callable[[Bits, Bits, Bits], None]
"""Computes bfloat16 products of the rows of two bfloat16 matrices; all three arrays hold raw bits."""
UNITS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Names of the CPU's bfloat16 units, as Linux lists them."""
_THREAD = local()


@cache
def has_units() -> bool:
    """Whether the CPU reports bfloat16 units; False if unknown."""
    try:
        listed = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    lines = (line.partition(":") for line in listed.splitlines())
    return any(UNITS & set(words.split()) for name, _, words in lines if name.strip().lower() in ("flags", "features"))


@cache
def gain(dimensions: int) -> float:
    """Time of a low-precision product relative to float32; inf if its sums violate the bound.

    Measured once per process and number of dimensions, on one thread.
    """
    _torch()
    with torch_threads_kept(), threads(1) as work_on:
        return float(next(iter(work_on(_measured_gain, [dimensions]))))


def _measured_gain(dimensions: int) -> float:
    if not keeps_bound(torch_products, dimensions):
        return float("inf")
    rng = np.random.default_rng(0)
    rows, columns = (
        rng.standard_normal((size, dimensions), dtype=np.float32) for size in (TILE_ROWS, 4 * TILE_COLUMNS)
    )
    low, high = Rounded.of(rows), Rounded.of(columns)
    out = np.empty((TILE_ROWS, len(columns)), dtype=np.uint16)
    work = [(lambda: torch_products(low.bits, high.bits, out)), (lambda: _float32_products(rows, columns))]
    taken = [[_seconds(each) for each in work] for _ in range(3)]
    fast, plain = np.min(taken, axis=0)
    return float(fast / plain)


@cache
def seconds_of_float32(dimensions: int) -> float:
    """Seconds per multiplication in float32, on one core."""
    rows, columns = np.ones((TILE_ROWS, dimensions), np.float32), np.ones((TILE_COLUMNS, dimensions), np.float32)
    with threads(1) as work_on:
        taken = list(work_on(lambda _: _seconds(lambda: _float32_products(rows, columns)), range(3)))
    return float(min(taken)) / (TILE_ROWS * TILE_COLUMNS * dimensions)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _float32_products(rows: Float32, columns: Float32) -> None:
    out = np.empty((TILE_ROWS, TILE_COLUMNS), dtype=np.float32)
    for low in range(0, len(columns), TILE_COLUMNS):
        np.matmul(rows, columns[low : low + TILE_COLUMNS].T, out=out)


def products() -> ProductOf:
    """The function that computes products: torch if the CPU has bfloat16 units, else an emulation."""
    return torch_products if has_units() and find_spec("torch") is not None else emulated_products


def emulated_products(rows: Bits, columns: Bits, out: Bits) -> None:
    """bfloat16 products of bfloat16 vectors, summed in float32 and rounded once; all arrays hold raw bits."""
    a, b = ((each.astype(np.uint32) << np.uint32(16)).view(np.float32) for each in (rows, columns))
    words = np.matmul(a, b.T).view(np.uint32)
    out[:] = (words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)


def torch_products(rows: Bits, columns: Bits, out: Bits) -> None:
    """Like `emulated_products`, but with torch on the CPU's bfloat16 units, on one thread."""
    torch = _torch()
    if not hasattr(_THREAD, "alone"):
        torch.set_num_threads(1)  # for this thread only
        _THREAD.alone = True
    a, b, c = (torch.from_numpy(each.view(np.int16)).view(torch.bfloat16) for each in (rows, columns, out))
    torch.mm(a, b.T, out=c)


def keeps_bound(products: ProductOf, dimensions: int) -> bool:
    """Tests whether sums on this CPU respect the error bound, with random, cancelling, growing and shrinking terms."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((96, dimensions)).astype(np.float32)
    rows[32:64] *= np.exp2(rng.integers(-20, 20, (32, dimensions)))
    rows[64:, 1::2] = -rows[64:, : dimensions - 1 : 2]
    columns = np.concatenate([rows, rng.standard_normal((96, dimensions)).astype(np.float32) + 1])
    columns[64:96, 1::2] = columns[64:96, : dimensions - 1 : 2] * np.float32(1 + 2**-7)
    one, other = Rounded.of(rows), Rounded.of(columns)
    out = np.empty((len(rows), len(columns)), dtype=np.uint16)
    products(one.bits, other.bits, out)
    read = (out.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    a, b = one.values.astype(np.float64), other.values.astype(np.float64)
    allowed = accumulation(dimensions) * (np.abs(a) @ np.abs(b).T) + READ * np.abs(read) + 2.0**-120
    return bool((np.abs(read - a @ b.T) <= allowed).all())


def _torch() -> ModuleType:
    from limner.core.torch_kernels import torch_module

    return torch_module()


@contextmanager
def torch_threads_kept() -> Iterator[None]:
    """Restores torch's number of threads afterwards, which limiting threads to one core would change."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(before)
