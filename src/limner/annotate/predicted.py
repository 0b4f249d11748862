"""What is known of each unit before it is labelled, as predictions for the estimates.

A judge's score; and of a difference of two systems, which of them returns the pair. An estimate takes them times
factors that it learns from the answers (`limner.stats.power_tuning`), so predictions of no use cost next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Predicted:
    """What predicts units, for `limner.stats.stratified` and `sequential`.

    Args:
        columns: One row for each unit of the design; 0 where it does not matter.
        means: The mean of each column in each stratum, over the units that matter.
        extremes: The smallest and the largest there.
    """

    columns: FloatArray
    means: FloatArray
    extremes: tuple[FloatArray, FloatArray]

    @classmethod
    def of(
        cls, matter: IntArray, codes: IntArray, scores: FloatArray | None, signs: FloatArray | None
    ) -> Predicted | None:
        """The judge, and of a difference of pairs which system returns each; None if there is neither.

        Args:
            matter: The numbers of the units that matter.
            codes: The stratum of every unit.
            scores: What the judge says of every unit.
            signs: For each unit that matters, whether a match raises the number or lowers it, 1 or -1.
        """
        own = [] if signs is None else [signs]
        own += [] if scores is None else [scores[matter] * (1.0 if signs is None else signs)]
        if not own:
            return None
        here, size = codes[matter], np.bincount(codes[matter], minlength=int(codes.max()) + 1)
        every = np.zeros((len(codes), len(own)))
        every[matter] = np.column_stack(own)
        low, high = np.full((2, len(size), len(own)), [[[np.inf]], [[-np.inf]]])
        np.minimum.at(low, here, every[matter])
        np.maximum.at(high, here, every[matter])
        sums = np.column_stack([np.bincount(here, weights=column, minlength=len(size)) for column in own])
        held = size[:, None] > 0
        return cls(every, sums / np.maximum(size, 1)[:, None], (np.where(held, low, 0.0), np.where(held, high, 0.0)))
