"""Exact results from low-precision products: filter with an error bound, verify in float32.

`filter_of` and `gpu_filter_of` give a filter for scores on a CPU and on a GPU if one saves time, else None. A filter
streams the results of a `Selective` consumer: the same as from blocks of float32 scores, bit for bit. `request_of`
makes such a consumer of a plain one.
"""

from __future__ import annotations

from limner.scores.lowprecision.cpu_filter import (
    Filter,
    ListRequest,
    Selective,
    ShiftedListRequest,
    best_of_columns,
    filter_of,
    request_of,
    share_verified,
)
from limner.scores.lowprecision.gpu_filter import GPUFilter, gpu_filter_of
from limner.scores.lowprecision.product_block import NO_POOLS, ProductBlock, Ranked, Shifted

__all__ = [
    "NO_POOLS", "Filter", "GPUFilter", "ListRequest", "ProductBlock", "Ranked", "Selective", "Shifted",
    "ShiftedListRequest", "best_of_columns", "filter_of", "gpu_filter_of", "request_of", "share_verified",
]  # fmt: skip
