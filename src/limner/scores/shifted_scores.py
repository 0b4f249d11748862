"""Scores with a shift of each candidate, as many corrections make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32, IntArray
from limner.scores.parallel_blocks import Block

ROUNDED = 2.0**-18
"""How far rounding can move a shifted score, relative to its largest inputs.

This covers a dozen roundings of 2^-24 each, of numbers up to four times as large."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """How a row of scores s is transformed: scale s - shift(candidate) - a value of the row itself.

    Or to something that grows with it at least as fast, so that the best of a row are the same.

    Args:
        scale: 1 or 2, or another power of two.
        shift: One number per candidate.
        own: Number of best scores of the row that determine the value of the row; 0 for no such value.
        apply: Maps (scores, places of their candidates, query of the first row) to shifted scores, in float32; may
            change its input in place.
        more: How far rounding can move a transformed score beyond the rounding of the formula above; 0 if the formula
            is all, so that every row can be transformed by itself.
    """

    scale: float
    shift: npt.NDArray[np.float64]
    own: int
    apply: Callable[[Float32, IntArray, int], Block]
    more: float = 0.0

    def rounding(self, bound: float) -> float:
        """How far rounding can move a transformed score, if no score exceeds the bound."""
        return float(ROUNDED * (self.scale * bound + np.abs(self.shift).max()) + self.more)
