"""Whether limner filters with low-precision products in this process: as it decides, always or never."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _filter_module() -> Any:
    from limner.scores.lowprecision import cpu_filter

    return cpu_filter.saves_time


def filter_passes(mode: str) -> None:
    """Sets how later passes are computed.

    Args:
        mode: "auto": as limner decides; "always": every pass is filtered where the CPU has int8 units; "never".
    """
    from limner.scores.lowprecision import cpu_filter, int8_products

    decides = _filter_module()
    units = mode == "always" and int8_products.has_units()
    cpu_filter.saves_time = decides if mode == "auto" else lambda *pass_: units  # type: ignore[assignment]


def has_units(dimensions: int) -> bool:
    """Whether the CPU has int8 units; measures once in a process what limner decides by."""
    from limner.scores.lowprecision import int8_products

    if int8_products.has_units():
        int8_products.product_share(dimensions)
    return int8_products.has_units()
