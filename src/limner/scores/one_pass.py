"""Lists of corrected scores from the pass that gathers the statistics: a second product is saved.

While statistics are gathered, the `KEPT` best candidates of every query and the highest score h of every candidate are
kept. A correction of the form scale s - shift(candidate) can lift no other candidate c above scale min(m, h(c)) -
shift(c), where m is the lowest score kept for the query. If this is below the k-th best of those kept for all c, the
list is complete, and the scores that it needs are read from float32 tiles: lists and scores equal those of two passes
bit for bit. Other queries are computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32, FloatArray
from limner.core.progress import Progress
from limner.scores.base import TILE_ROWS, Best, Scores, elsewhere
from limner.scores.running import Block, counted
from limner.scores.shifted import Shifted
from limner.scores.vectors import VectorScores
from limner.scores.verifying import Pairs, chosen

KEPT = 128
"""Candidates that are kept for every query."""
LEAST_DIMENSIONS = 256
"""Below, a product takes hardly longer than finding so many candidates."""
LEAST_WIDTH = 32 * KEPT
MOST_BYTES = 1 << 28
FEW = 16
"""So many incomplete rows of a block are computed one by one; if there are more, the whole block is."""

Lists = tuple[npt.NDArray[np.int32], Block]


@dataclass(frozen=True, eq=False)
class RecordedScores(VectorScores):
    """Products of vectors that keep the best candidates of every query while their blocks are read.

    Args:
        kept: By first row: the columns and scores of the best, best first.
        highest: By first row: the highest score of every candidate.
    """

    kept: dict[int, Lists] = field(default_factory=dict)
    highest: dict[int, Float32] = field(default_factory=dict)

    @classmethod
    def of(cls, scores: Scores, k: int) -> RecordedScores | None:
        """These scores, if the pass that reads them can also give their k best corrected candidates; else None."""
        if type(scores) is not VectorScores or elsewhere(None) or k > KEPT // 4:
            return None
        fits = scores.shape[1] >= LEAST_WIDTH and 8 * KEPT * scores.shape[0] <= MOST_BYTES
        if not fits or scores.query_vectors.dim < LEAST_DIMENSIONS:
            return None
        return cls(scores.query_vectors, scores.candidate_vectors, scores.similarity)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Float32:
        """Like `VectorScores.block`; keeps the best of every row."""
        block = super().block(start, stop, out)
        if start not in self.kept:
            self.kept[start], self.highest[start] = Best(KEPT)(start, block), block.max(axis=0)
        return block

    def best_of_columns(self, k: int, *, progress: Progress | None = None) -> Float32 | None:
        """None: blocks have to be read."""
        return None

    def suffices(self, shifted: Shifted) -> bool:
        """Whether every block was read, and the scores that determine the value of a row were kept."""
        return len(self.kept) == -(-self.shape[0] // TILE_ROWS) and shifted.own <= KEPT

    def lists(self, choose: Best, shifted: Shifted, *, workers: int | None = None) -> Iterator[Lists]:
        """The best shifted scores of every block, in row order."""
        n, reach = self.shape[0], shifted.rounding(self.bound)
        others = _Others.of(np.max(list(self.highest.values()), axis=0).astype(np.float64), shifted)

        def work(start: int) -> Lists:
            indices, scores = self.kept[start]
            keys = shifted.scale * scores.astype(np.float64) - shifted.shift[indices]
            floor = np.partition(keys, -choose.k, axis=1)[:, -choose.k] - reach
            missing = np.flatnonzero(others.most(scores[:, -1].astype(np.float64)) + reach >= floor)
            if len(missing) > FEW:
                block = super(RecordedScores, self).block(start, min(start + TILE_ROWS, n))
                return choose(start, shifted.apply(block, np.arange(self.shape[1]), start))
            found = _pairs(indices, keys + reach >= floor[:, None])
            own = _pairs(indices, np.arange(KEPT) < np.full((len(indices), 1), shifted.own))
            rows = self.query_vectors.matrix[start : start + len(indices)]
            best = chosen(self, start, rows, choose, [found, own], shifted.apply)
            for row in missing.tolist():
                scores = self.tiles(rows[row : row + 1], slice(None))
                one = choose(start + row, shifted.apply(scores, np.arange(self.shape[1]), start + row))
                best[0][row], best[1][row] = one[0][0], one[1][0]
            return best

        with self.workers(workers) as work_on:
            yield from counted(work_on(work, range(0, n, TILE_ROWS)), TILE_ROWS, n, None)


@dataclass(frozen=True, eq=False)
class _Others:
    """The highest shifted score that a candidate can have if its score is at most m: scale min(m, h) - shift.

    Args:
        scale: The scale.
        heights: The highest scores h of candidates, in ascending order.
        below: For each position, the highest of scale h - shift of the candidates before it.
        shifts: For each position, the smallest shift of the candidates from there on.
    """

    scale: float
    heights: FloatArray
    below: FloatArray
    shifts: FloatArray

    @classmethod
    def of(cls, heights: FloatArray, shifted: Shifted) -> _Others:
        """The bound for candidates with these highest scores."""
        order = np.argsort(heights)
        heights, shift = heights[order], shifted.shift[order]
        below = np.maximum.accumulate(shifted.scale * heights - shift)
        shifts = np.minimum.accumulate(shift[::-1])[::-1]
        return cls(shifted.scale, heights, np.append(-np.inf, below), np.append(shifts, np.inf))

    def most(self, scores: FloatArray) -> FloatArray:
        """The bound for each of these m."""
        at = np.searchsorted(self.heights, scores, side="right")
        return np.maximum(self.below[at], self.scale * scores - self.shifts[at])


def _pairs(indices: npt.NDArray[np.int32], wanted: npt.NDArray[np.bool_]) -> Pairs:
    """The wanted columns of every row."""
    indptr = np.concatenate([[0], np.cumsum(wanted.sum(axis=1))])
    return indptr, indices[wanted].astype(np.int64)
