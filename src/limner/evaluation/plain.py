"""Numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: object) -> Any:
    """The same data with only JSON types; JSON has no infinity, which is the rank of a candidate that is never found.

    >>> plain({"ranks": [1.0, float("inf")], "score": float("-inf")})
    {'ranks': [1.0, None], 'score': '-inf'}
    """
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if value == math.inf else str(value)
