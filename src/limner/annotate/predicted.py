"""Predictions for each unit before it is labelled, for use in the estimates.

They are a judge's score and, for a difference between two systems, which of them returns the pair. An estimate
multiplies them by factors learned from the answers (`limner.stats.power_tuning`), so useless predictions cost almost
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Predicted:
    """Predictors of units, for `limner.stats.stratified` and `sequential`.

    Args:
        columns: One row for each unit of the design; 0 for irrelevant units.
        means: The mean of each column in each stratum, over the relevant units.
        corners: Extreme predictions that enclose all others of the stratum.
    """

    columns: FloatArray
    means: FloatArray
    corners: FloatArray

    @classmethod
    def of(
        cls, matter: IntArray, codes: IntArray, scores: FloatArray | None, signs: FloatArray | None
    ) -> Predicted | None:
        """The judge's scores and, for a difference over pairs, which system returns each; None if there is neither.

        Args:
            matter: The ids of the relevant units.
            codes: The stratum of every unit.
            scores: The judge's score of every unit.
            signs: For each relevant unit, whether a match increases or decreases the difference, 1 or -1.
        """
        if scores is None and signs is None:
            return None
        side = np.ones(len(matter)) if signs is None else signs
        own = [] if signs is None else [side]
        own += [] if scores is None else [side * scores[matter]]
        found, here = np.column_stack(own), codes[matter]
        strata, order = int(codes.max()) + 1, np.abs(found[:, -1])
        every = np.zeros((len(codes), len(own)))
        every[matter] = found
        means, corners = np.zeros((strata, len(own))), np.zeros((strata, 4, len(own)))
        for h in np.unique(here).tolist():
            mine = [np.flatnonzero((here == h) & (side == sign)) for sign in (1.0, -1.0)]
            ends = [part[end(order[part])] for part in mine if len(part) for end in (np.argmin, np.argmax)]
            means[h], corners[h] = found[here == h].mean(axis=0), found[np.resize(ends, 4)]
        return cls(every, means, corners)
