"""One assignment on a dense cost matrix, solved by `lapx`, or by scipy if that is not installed."""

from __future__ import annotations

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError


def solve(costs: FloatArray) -> tuple[IntArray, IntArray]:
    """The assignment of lowest cost with as many pairs as possible; a cost of inf excludes a pair.

    Costs are float64: sums of float32 costs, rounded to float32, would order close assignments wrongly.
    """
    try:
        return _solved(costs)
    except ValueError:  # not every row can be assigned
        finite = np.isfinite(costs)
        if not finite.any():
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        low, high = float(costs[finite].min()), float(costs[finite].max())
        dear = cost_of_none(low, high, min(costs.shape))
        rows, columns = _solved(np.where(finite, costs - low, dear))
        allowed = finite[rows, columns]
        return rows[allowed], columns[allowed]


def cost_of_none(low: float, high: float, n: int) -> float:
    """The cost of leaving a row unassigned: higher than any gain, so that as few rows as possible are unassigned."""
    margin = max(1.0, 2.0**-20 * max(abs(low), abs(high)))  # adding 1 to large scores would be lost to rounding
    dear = (high - low + margin) * (n + 1)
    if not dear + abs(low) < np.inf:
        raise LimnerError(
            f"bijective: scores from {low:g} to {high:g} are too far apart to decide which queries stay "
            "unassigned: divide them by a constant"
        )
    return dear


def library(shape: tuple[int, ...]) -> str:
    """The library to use: `lapx` pads to a square matrix, which is slow if one side is much longer."""
    from importlib.util import find_spec

    return "lapx" if max(shape) <= 1.5 * min(shape) and find_spec("lap") is not None else "scipy"


def _solved(costs: FloatArray) -> tuple[IntArray, IntArray]:
    if library(costs.shape) == "lapx":
        import lap

        rows, columns = lap.lapjvs(costs, return_cost=False, prefer_float32=False)
        return rows, columns
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    return rows, columns
