"""bfloat16 products on the CPU: with torch if the CPU has units for them, else emulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import local
from types import ModuleType

import numpy as np

from limner.core.arrays import Float32
from limner.core.lowprecision import Bits, Rounded
from limner.scores.formats import Columns, rounded_bits

ProductOf = Callable[[Bits, Bits, Bits], None]
"""Computes bfloat16 products of the rows of two bfloat16 matrices; all three arrays hold raw bits."""
UNITS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Names of the CPU's bfloat16 units, as Linux lists them."""
_THREAD = local()


@cache
def _listed() -> bool:
    """Whether Linux lists bfloat16 units."""
    try:
        listed = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    lines = (line.partition(":") for line in listed.splitlines())
    return any(UNITS & set(words.split()) for name, _, words in lines if name.strip().lower() in ("flags", "features"))


def emulated_products(rows: Bits, columns: Bits, out: Bits) -> None:
    """bfloat16 products of bfloat16 vectors, summed in float32 and rounded once; all arrays hold raw bits."""
    a, b = ((each.astype(np.uint32) << np.uint32(16)).view(np.float32) for each in (rows, columns))
    out[:] = rounded_bits(np.matmul(a, b.T))


def torch_products(rows: Bits, columns: Bits, out: Bits) -> None:
    """Like `emulated_products`, but with torch on the CPU's bfloat16 units, on one thread."""
    torch = _torch()
    if not hasattr(_THREAD, "alone"):
        torch.set_num_threads(1)  # for this thread only
        _THREAD.alone = True
    a, b, c = (torch.from_numpy(each.view(np.int16)).view(torch.bfloat16) for each in (rows, columns, out))
    torch.mm(a, b.T, out=c)


def _torch() -> ModuleType:
    from limner.core.torch_kernels import torch_module

    return torch_module()


@dataclass(frozen=True)
class Bfloat16:
    """The format bfloat16.

    Args:
        product: Computes the products.
    """

    product: ProductOf = torch_products
    name: str = "bfloat16"
    needs_torch: bool = True

    def has_units(self) -> bool:
        """Whether the CPU reports bfloat16 units, and torch is installed."""
        return _listed() and find_spec("torch") is not None

    def suited(self, *_: Float32) -> Bfloat16:
        """This format: every number has a scale of its own."""
        return self

    def round(self, vectors: Float32) -> Rounded:
        """Vectors in bfloat16."""
        return Rounded.bfloat16(vectors)

    def columns(self, count: int, dimensions: int) -> Columns:
        """Memory for so many candidates."""
        if self.product is torch_products:
            _torch()  # threads must not import it at the same time
        return _Rows(self.product, np.empty((count, dimensions), np.uint16))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Candidates one after another."""

    product: ProductOf
    codes: Bits

    def put(self, start: int, part: Rounded) -> None:
        """Stores candidates."""
        self.codes[start : start + len(part.codes)] = part.codes

    def multiply(self, rows: Rounded, out: Bits) -> None:
        """Products of all of them."""
        self.product(rows.codes, self.codes, out)  # type: ignore[arg-type]  # of this format
