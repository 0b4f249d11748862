"""match: correct hubs, re-rank, assign one to one, fuse systems, search."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "best_totals": "murty",
    "bijective": "assign",
    "borda": "fusion",
    "cascade": "cascading",
    "corrected": "tuning",
    "fuse": "fusion",
    "index": "search",
    "k_best": "murty",
    "k_best_ranking": "murty",
    "mean": "fusion",
    "open_index": "search",
    "reciprocal_rank": "fusion",
    "tune": "tuning",
}
"""Names that are imported when they are first asked for, and where each lives."""


def __getattr__(name: str) -> Any:
    """Imports a name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'limner.match' has no attribute {name!r}")
    return getattr(importlib.import_module(f"limner.match.{_HOMES[name]}"), name)
