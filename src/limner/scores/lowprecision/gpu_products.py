"""bfloat16 products on a GPU, and a test whether their sums keep the bound of `rounding_bounds`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from limner.core.tensors import on_host, torch_module
from limner.scores.lowprecision.int8_products import TILED, all_within_bound, trial

if TYPE_CHECKING:
    from limner.core.tensors import Device, Tensor

UNITS = 8, 0
"""The compute capability of the first cards with bfloat16 units."""


def has_units(device: Device) -> bool:
    """Whether the device is a GPU with bfloat16 units."""
    return device.type == "cuda" and bool(torch_module().cuda.get_device_capability(device) >= UNITS)


def low_products(rows: Tensor, columns: Tensor) -> Tensor:
    """bfloat16 products of bfloat16 vectors."""
    with whole_sums():
        return rows @ columns.T


@contextmanager
def whole_sums() -> Iterator[None]:
    """Sums bfloat16 products entirely in float32, whatever the global setting of torch."""
    settings = torch_module().backends.cuda.matmul
    if not settings.allow_bf16_reduced_precision_reduction:
        yield
        return
    before = settings.allow_bf16_reduced_precision_reduction
    settings.allow_bf16_reduced_precision_reduction = False
    try:
        yield
    finally:
        settings.allow_bf16_reduced_precision_reduction = before


def keeps_bound(device: Device, dimensions: int) -> bool:
    """Whether sums on this device respect the error bound; tested once per device and number of dimensions."""
    return _tested(str(device), dimensions)


@cache
def _tested(device: str, dimensions: int) -> bool:
    torch = torch_module()
    rows, columns = (torch.as_tensor(each, device=device).bfloat16() for each in trial(dimensions))
    read = on_host(low_products(rows.repeat(TILED, 1), columns.repeat(TILED, 1)).float())
    exact = [on_host(each.float()) for each in (rows, columns)]
    return all_within_bound(read, *exact)
