"""Lists of corrected scores from the pass that gathers the statistics: a second product is saved.

A correction of the form scale s - shift(candidate) needs the shifts before it can be applied, but a sample of the
queries tells them roughly. While the statistics are gathered, the `KEPT` candidates with the highest s - e(candidate)
are kept for every query, where e is the estimate of shift / scale; m is the lowest of these values. Afterwards the
shifts are known. No candidate c that was not kept can exceed scale (m + e(c)) - shift(c). The few for which this
reaches the k-th best of those kept are scored again, and the list is complete: lists and scores equal those of two
passes bit for bit. The estimate is tried on another sample first, so that little time is lost where it is too rough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32, FloatArray, IntArray
from limner.scores.base import TILE_COLUMNS, TILE_ROWS, Best, Scores, elsewhere
from limner.scores.matrices import MatrixScores
from limner.scores.parallel_blocks import Block, counted, kernels, threads, usable_cores
from limner.scores.shifted_scores import ROUNDED, Shifted
from limner.scores.vectors import VectorScores

KEPT = 96
"""Candidates that are kept for every query."""
LEAST_DIMENSIONS = 256
"""Below, a product takes hardly longer than finding so many candidates."""
LEAST_WIDTH, LEAST_ROWS = 32 * KEPT, 24 * TILE_ROWS
MOST_BYTES = 1 << 28
AT_ONCE = 16
"""Rows whose estimated scores are in memory at once: they should stay in the cache."""
SHARE = 16
"""A row for which more than one candidate in this many would have to be scored again is computed as a whole."""
MOST, MOST_OF_BLOCK = 0.25, 0.75
"""The share of scores that may have to be computed again in the trial, and in a block."""

Shift = tuple[float, Array, int]
"""Scale, shifts and k of a correction; see `Correction.shift`."""
Lists = tuple[npt.NDArray[np.int32], Block]


@dataclass(frozen=True, eq=False)
class BestEstimated:
    """The candidates of a block of queries with the highest estimated scores.

    Args:
        places: Candidates of every row, best first.
        scores: Their scores.
        lowest: The lowest estimated score kept in each row.
        own: The best scores of every row, which determine the value of the row.
    """

    places: npt.NDArray[np.int32]
    scores: Float32
    lowest: Float32
    own: Float32


@dataclass(frozen=True, eq=False)
class RecordedScores(VectorScores):
    """Products of vectors that keep the best candidates of every query while their blocks are read.

    Args:
        estimate: The estimated shift / scale of every candidate.
        own: Number of best scores of each row to keep.
        kept: What was kept, by first row.
    """

    estimate: Float32 = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    own: int = 0
    kept: dict[int, BestEstimated] = field(default_factory=dict)

    @classmethod
    def of(cls, scores: Scores, k: int, shift: Callable[[Scores], Shift | None]) -> RecordedScores | None:
        """These scores, if the pass that reads them is likely to give their k best corrected candidates; else None.

        Args:
            scores: The scores.
            k: Length of the lists.
            shift: The shifts that a bank of queries gives.
        """
        if type(scores) is not VectorScores or elsewhere(None) or k > KEPT // 3:
            return None
        (n, width), d = scores.shape, scores.query_vectors.dim
        if n < LEAST_ROWS or width < LEAST_WIDTH or 8 * KEPT * n > MOST_BYTES or d < LEAST_DIMENSIONS:
            return None
        return cls._tried(scores, k, shift)

    @classmethod
    def _tried(cls, scores: VectorScores, k: int, shift: Callable[[Scores], Shift | None]) -> RecordedScores | None:
        """Estimates the shifts from two samples of the queries, and tries on a third how much that leaves to do.

        The lower of two estimates is taken: the one match of a candidate, which is in one sample at most, would make it
        an exception among all the candidates whose match is in neither.
        """
        rows = np.linspace(0, len(scores.queries) - 1, 3 * TILE_ROWS).astype(np.int64)
        samples = [scores.restrict(queries=scores.queries[rows[number::3]]) for number in range(3)]
        with threads(None) as work_on:
            (_, one), (_, two), (block, three) = [_sampled(each, shift, work_on) for each in samples]
            if one is None or two is None or three is None or one[2] > KEPT:
                return None
            estimate = (np.minimum(one[1], two[1]) / one[0]).astype(np.float32)
            trial = cls(samples[2].query_vectors, scores.candidate_vectors, scores.similarity, estimate, one[2])
            kept = _joined(work_on(trial._best_of, np.array_split(block, -(-len(block) // AT_ONCE))))
        counts = _Others.of(trial, Shifted(*three, lambda *given: given[0])).counts(kept, k)
        if _work(counts, scores.shape[1]) > MOST:
            return None
        return cls(scores.query_vectors, scores.candidate_vectors, scores.similarity, estimate, one[2])

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Float32:
        """Like `VectorScores.block`; keeps the best of every row."""
        block = super().block(start, stop, out)
        if start not in self.kept:
            self.kept[start] = self._best_of(block)
        return block

    def _best_of(self, block: Float32) -> BestEstimated:
        places = np.zeros((len(block), min(KEPT, block.shape[1])), dtype=np.int32)
        estimated = np.zeros(places.shape, dtype=np.float32)
        buffer, find = np.empty((AT_ONCE, block.shape[1]), dtype=np.float32), kernels(block).best
        for low in range(0, len(block), AT_ONCE):
            rows = slice(low, min(low + AT_ONCE, len(block)))
            shifted = np.subtract(block[rows], self.estimate, out=buffer[: rows.stop - low])
            find(shifted, places[rows], estimated[rows])
        own = Best(self.own)(0, block)[1] if self.own else np.zeros((len(block), 0), dtype=np.float32)
        scores = np.take_along_axis(block, places, axis=1)
        return BestEstimated(places, scores, estimated[:, -1].copy(), own)

    def best_of_columns(self, k: int, *, progress: object = None) -> None:
        """None: blocks have to be read."""

    def suffices(self, shifted: Shifted) -> bool:
        """Whether every block was read, and the scores that determine the value of a row were kept."""
        whole = len(self.kept) == -(-self.shape[0] // TILE_ROWS)
        return whole and shifted.listed is not None and shifted.own <= self.own

    def lists(self, choose: Best, shifted: Shifted, *, workers: int | None = None) -> Iterator[Lists]:
        """The best shifted scores of every block, in row order."""
        n, others = self.shape[0], _Others.of(self, shifted)

        def work(start: int) -> Lists:
            kept = self.kept[start]
            counts = others.counts(kept, choose.k)
            if _work(counts, self.shape[1]) > MOST_OF_BLOCK:
                block = super(RecordedScores, self).block(start, min(start + TILE_ROWS, n))
                return choose(start, shifted.apply(block, np.arange(self.shape[1]), start))
            many = counts > self.shape[1] // SHARE
            best, rows = _chosen(choose, shifted, start, kept), np.flatnonzero((counts > 0) & ~many)
            if len(rows):
                extended = self._extended(start, kept, rows, others, int(counts[rows].max()), choose.k)
                best[0][rows], best[1][rows] = _chosen(choose, shifted, start + rows, extended)
            self._put_whole(best, start, np.flatnonzero(many), choose, shifted)
            return best

        with self.workers(workers) as work_on:
            yield from counted(work_on(work, range(0, n, TILE_ROWS)), TILE_ROWS, n, None)

    def _extended(
        self, start: int, kept: BestEstimated, rows: IntArray, others: _Others, count: int, k: int
    ) -> BestEstimated:
        """What was kept of these rows of a block, with those of the most lifted candidates that may be among the best.

        Rows that have fewer of these than others repeat their first candidate.
        """
        places = np.sort(others.order[:count])
        scores = self.tiles(np.ascontiguousarray(self.query_vectors.matrix[start + rows]), places)
        own = BestEstimated(kept.places[rows], kept.scores[rows], kept.lowest[rows], kept.own[rows])
        row, column = np.nonzero(others.keys(scores, places) >= others.floors(own, k)[:, None])
        numbers = np.bincount(row, minlength=len(rows))
        at = np.arange(len(row)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        more = np.repeat(own.places[:, :1], numbers.max(), axis=1)
        theirs = np.repeat(own.scores[:, :1], numbers.max(), axis=1)
        more[row, at], theirs[row, at] = places[column], scores[row, column]
        return BestEstimated(np.hstack([own.places, more]), np.hstack([own.scores, theirs]), own.lowest, own.own)

    def _put_whole(self, best: Lists, start: int, rows: IntArray, choose: Best, shifted: Shifted) -> None:
        """Writes the best of these rows of a block, from all their scores."""
        scores = self.tiles(np.ascontiguousarray(self.query_vectors.matrix[start + rows]), slice(None))
        for row, own in zip(rows.tolist(), scores, strict=True):
            found = choose(0, shifted.apply(own[None], np.arange(self.shape[1]), start + row))
            best[0][row], best[1][row] = found[0][0], found[1][0]


def _sampled(
    sample: VectorScores, shift: Callable[[Scores], Shift | None], work_on: Callable[..., Iterator[Any]]
) -> tuple[Float32, Shift | None]:
    """The scores of a tile of queries, and the shifts that they give: ranges of candidates at the same time.

    A tile is one block of a pass, which would run on one core while the others wait.
    """
    (rows, width), columns = sample.shape, sample.candidates
    block = np.empty((rows, width), dtype=np.float32)
    step = TILE_COLUMNS * -(-width // (TILE_COLUMNS * usable_cores()))

    def work(low: int) -> Shift | None:
        high = min(low + step, width)
        block[:, low:high] = sample.piece(0, rows, low, high)
        return shift(MatrixScores(sample.queries, columns[low:high], block[:, low:high], checked=True))

    told = list(work_on(work, range(0, width, step)))
    found = [each for each in told if each is not None]
    if len(found) < len(told):
        return block, None
    return block, (found[0][0], np.concatenate([shifts for _, shifts, _ in found]), found[0][2])


def _joined(parts: Iterable[BestEstimated]) -> BestEstimated:
    """What was kept of several ranges of rows."""
    names = [each.name for each in fields(BestEstimated)]
    columns = zip(*([getattr(part, name) for name in names] for part in parts), strict=True)
    return BestEstimated(*map(np.concatenate, columns))


def _work(counts: IntArray, width: int) -> float:
    """How much of a block's scores are computed again, about, for so many more candidates of each row."""
    many = counts > width // SHARE
    few = np.where(many, 0, counts)
    return float((np.count_nonzero(few) * few.max() / width + 2 * np.count_nonzero(many)) / len(counts))


def _chosen(choose: Best, shifted: Shifted, rows: int | IntArray, kept: BestEstimated) -> Lists:
    """The best shifted scores of lists: of equal ones the first candidates; a candidate may be in a list twice.

    Args:
        choose: Finds the best.
        shifted: The correction.
        rows: The query of the first row, or of every row.
        kept: The lists.
    """
    assert shifted.listed is not None
    order = np.argsort(kept.places, axis=1, kind="stable")
    places, scores = np.take_along_axis(kept.places, order, axis=1), np.take_along_axis(kept.scores, order, axis=1)
    queries = np.arange(rows, rows + len(places)) if isinstance(rows, int) else rows
    values = shifted.listed(scores, places, queries, kept.own)
    values[:, 1:][places[:, 1:] == places[:, :-1]] = -np.inf
    best, found = choose(0, values)
    return np.take_along_axis(places, best, axis=1), found


@dataclass(frozen=True, eq=False)
class _Others:
    """How far the shifts lift each candidate above its estimate: scale e - shift.

    Args:
        shifted: The correction.
        order: Candidates, the most lifted first.
        lifts: How far they are lifted, in the same order.
        reach: How far rounding can move a shifted score.
        slack: How far rounding can move the bound.
    """

    shifted: Shifted
    order: IntArray
    lifts: FloatArray
    reach: float
    slack: float

    @classmethod
    def of(cls, scores: RecordedScores, shifted: Shifted) -> _Others:
        """The lifts of these shifts."""
        estimate = scores.estimate.astype(np.float64)
        lifts = shifted.scale * estimate - shifted.shift
        order = np.argsort(-lifts, kind="stable")
        slack = shifted.scale * ROUNDED * (scores.bound + np.abs(estimate).max())
        return cls(shifted, order, lifts[order], shifted.rounding(scores.bound), float(slack))

    def keys(self, scores: Float32, places: Array) -> FloatArray:
        """The shifted scores of these candidates, apart from the value of the row."""
        return np.asarray(self.shifted.scale * scores.astype(np.float64) - self.shifted.shift[places])

    def floors(self, kept: BestEstimated, k: int) -> FloatArray:
        """What a key has to reach to be among the k best of each row, whatever the rounding."""
        return np.asarray(np.partition(self.keys(kept.scores, kept.places), -k, axis=1)[:, -k] - 2 * self.reach)

    def counts(self, kept: BestEstimated, k: int) -> IntArray:
        """How many of the most lifted candidates may be among the k best of each row, beside those kept."""
        least = self.floors(kept, k) - self.slack - self.shifted.scale * kept.lowest.astype(np.float64)
        return np.searchsorted(-self.lifts, -least, side="right")
