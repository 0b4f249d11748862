"""Items with several vectors each: the best pair of vectors, a smooth maximum over all pairs, or late interaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from limner.core.arrays import Float32, IntArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.progress import ProgressLike, as_progress
from limner.scores.base import LARGEST, SIMILARITIES, Scores
from limner.scores.exact_products import SMALL, Products
from limner.scores.parallel_blocks import TILE_COLUMNS, TILE_ROWS, Block, Result
from limner.scores.vector_sets import VectorSets
from limner.scores.vectors import VectorScores, in_pieces

POOLINGS = ("max", "smooth", "maxsim")


@dataclass(frozen=True, eq=False)
class SetScores(Scores):
    """The highest score of a pair of vectors, or (1 / gamma) log sum exp(gamma s) over all pairs, or late interaction.

    Multiple-instance scores: Song & Soleymani 2019. Late interaction, "maxsim": the sum over the query's vectors of the
    highest score with any vector of the candidate, sum_i max_j s(q_i, c_j) (Khattab & Zaharia 2020; for pages of
    documents Faysse et al. 2024). The products of all pairs of vectors are computed in pieces of `CHUNK` candidate
    vectors, so that memory grows with the number of items, not of vectors ("smooth" needs whole rows of vectors).

    >>> one = VectorSets.of({"q": np.array([[1.0, 0.0], [0.0, 1.0]])})
    >>> two = VectorSets.of({"c": np.array([[0.6, 0.8]])})
    >>> round(float(SetScores.of(one, two).matrix()[0, 0]), 3)
    0.8
    >>> round(float(SetScores.of(one, two, pooling="maxsim").matrix()[0, 0]), 3)
    1.4

    Args:
        query_sets: Vectors of the queries.
        candidate_sets: Vectors of the candidates.
        pooling: One of `POOLINGS`.
        gamma: Sharpness of the smooth maximum.
        turned: Whether the sum of "maxsim" runs over the vectors of the candidates, as in transposed scores. The score
            of a pair is then the same in both directions.
    """

    query_sets: VectorSets
    candidate_sets: VectorSets
    pooling: str = "max"
    gamma: float = 10.0
    turned: bool = False

    @classmethod
    def of(
        cls,
        queries: VectorSets,
        candidates: VectorSets,
        *,
        similarity: str = "cosine",
        pooling: str = "max",
        gamma: float = 10.0,
    ) -> SetScores:
        """Checks the options, and normalises the vectors for cosine similarity."""
        for setting, value, choices in (("similarity", similarity, SIMILARITIES), ("pooling", pooling, POOLINGS)):
            if value not in choices:
                raise UnknownName(setting, value, choices)
        if not gamma > 0:
            raise LimnerError(f"gamma is {gamma!r}: expected a number above 0")
        if queries.vectors.dim != candidates.vectors.dim:
            raise LimnerError(
                f"query vectors have {queries.vectors.dim} dimensions, candidate vectors "
                f"{candidates.vectors.dim}: expected the same"
            )
        if similarity == "cosine":
            queries, candidates = queries.normalised(), candidates.normalised()
        return cls(queries, candidates, pooling, gamma)

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.query_sets.ids

    @property
    def candidates(self) -> Ids:  # type: ignore[override]
        """Ids of the candidates."""
        return self.candidate_sets.ids

    @property
    def T(self) -> SetScores:
        """The transposed scores."""
        return SetScores(self.candidate_sets, self.query_sets, self.pooling, self.gamma, not self.turned)

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> SetScores:
        """The vectors of these queries and candidates only."""
        rows = self.query_sets if queries is None else self.query_sets.subset(queries)
        columns = self.candidate_sets if candidates is None else self.candidate_sets.subset(candidates)
        return SetScores(rows, columns, self.pooling, self.gamma, self.turned)

    @property
    def bound(self) -> float:
        """The bound for a pair of vectors, times the number of vectors summed over; inf for a smooth maximum."""
        if self.pooling == "smooth":
            return np.inf
        summed = self.candidate_sets if self.turned else self.query_sets
        return self.singles.bound * (int(np.diff(summed.starts).max()) if self.pooling == "maxsim" else 1)

    @property
    def singles(self) -> VectorScores:
        """Scores of single vectors."""
        return VectorScores(self.query_sets.vectors, self.candidate_sets.vectors)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Products of single vectors, pooled over the vectors of each candidate and then of each query."""
        return self._smooth(start, stop) if self.pooling == "smooth" else self.piece(start, stop, 0, self.shape[1])

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: ProgressLike = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`; divides rows into pieces if that is faster."""
        progress = as_progress(progress)
        undivided = self.pooling == "smooth" or not len(self.candidates)
        pieces = None if undivided else in_pieces(self, consume, workers=workers, progress=progress)
        return super().stream(consume, workers=workers, progress=progress) if pieces is None else pieces

    @property
    def piece_columns(self) -> int:
        """The smallest number of candidates of a piece: about `CHUNK` vectors."""
        return max(1, CHUNK * len(self.candidates) // len(self.candidate_sets.vectors))

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of queries start:stop and candidates low:high, equal to those in blocks; not for "smooth"."""
        rows, columns = self.query_sets.starts[start : stop + 1], self.candidate_sets.starts[low : high + 1]
        singles: Singles = self.singles
        if rows[-1] - rows[0] <= FEW and not self.singles.may_overflow:
            singles = FewRows(self.singles)
        with np.errstate(over="ignore"):  # refused below
            pooled = Pieces(singles, rows, columns).pooled(self.pooling, turned=self.turned)
        if self.bound > LARGEST and not np.isfinite(pooled).all():
            row, column = (int(at) for at in np.argwhere(~np.isfinite(pooled))[0])
            raise LimnerError(
                f"the score of query {self.queries[start + row]!r} and candidate {self.candidates[low + column]!r}, a "
                "sum of products, overflows single precision: normalise the vectors (similarity='cosine'), or divide "
                "them by a constant"
            )
        return pooled

    def _smooth(self, start: int, stop: int) -> Block:
        low, high = int(self.query_sets.starts[start]), int(self.query_sets.starts[stop])
        rows = [self.singles.block(r, min(r + TILE_ROWS, high)) for r in range(low, high, TILE_ROWS)]
        pooled = np.concatenate([self._pooled(r, self.candidate_sets.starts[:-1], axis=1) for r in rows])
        return np.ascontiguousarray(self._pooled(pooled, self.query_sets.starts[start:stop] - low, axis=0))

    def _pooled(self, block: Block, starts: IntArray, *, axis: int) -> Block:
        """The smooth maximum along one axis, over the segments that begin at `starts`."""
        highest = np.maximum.reduceat(block, starts, axis=axis)
        lengths = np.diff(starts, append=block.shape[axis])
        terms = np.exp(self.gamma * (block - np.repeat(highest, lengths, axis=axis)))
        sums = np.add.reduceat(terms, starts, axis=axis, dtype=np.float64)
        return np.asarray(highest + np.log(sums) / self.gamma, dtype=np.float32)


CHUNK = 4 * TILE_COLUMNS
"""Number of candidate vectors whose products with a tile of query vectors are in memory at once."""


FEW = SMALL[-1][0]
"""Number of query vectors for which smaller tiles compute fewer products."""


class Singles(Protocol):
    """Scores of single vectors."""

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of up to `TILE_ROWS` query vectors start:stop and candidate vectors low:high."""


@dataclass(frozen=True, eq=False)
class FewRows:
    """Scores of single vectors for a few query vectors, from smaller tiles that round like the whole one."""

    singles: Products

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of query vectors start:stop and candidate vectors low:high, equal to those in blocks."""
        return self.singles.tiles(self.singles.query_vectors.matrix[start:stop], slice(low, high))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Products of the vectors of some queries with those of all candidates, in pieces that are pooled one by one.

    Args:
        singles: Scores of single vectors.
        rows: Where the vectors of each query begin, and where the last ones end.
        columns: Where the vectors of each candidate begin, and where the last ones end.
    """

    singles: Singles
    rows: IntArray
    columns: IntArray

    def pooled(self, pooling: str, *, turned: bool) -> Float32:
        """The scores of all queries and candidates: "max", or "maxsim" with the sum over query or candidate vectors."""
        if pooling == "max":
            return self.highest()
        return self.sums_over_columns() if turned else self.sums_over_rows()

    def highest(self) -> Float32:
        """The best pair of vectors."""
        from limner.scores import block_kernels

        best = np.full((len(self.rows) - 1, len(self.columns) - 1), -np.inf, dtype=np.float32)
        for owners, pooled in self._by_rows():
            block_kernels.highest_of_rows(pooled, owners, best)
        return best

    def sums_over_rows(self) -> Float32:
        """The sum over query vectors of their best candidate vector."""
        from limner.scores import block_kernels

        sums = np.zeros((len(self.rows) - 1, len(self.columns) - 1))
        for owners, pooled in self._by_rows():
            block_kernels.add_rows_of_items(pooled, owners, sums)
        return sums.astype(np.float32)

    def sums_over_columns(self) -> Float32:
        """The sum over candidate vectors of their best query vector."""
        from limner.scores import block_kernels

        sums = np.zeros((len(self.rows) - 1, len(self.columns) - 1))
        for low, high in self._chunks():
            best = np.full((len(sums), high - low), -np.inf, dtype=np.float32)
            for start, stop in self._tiles():
                piece = self.singles.piece(start, stop, low, high)
                block_kernels.highest_of_rows(piece, owners_of(self.rows, start, stop), best)
            block_kernels.add_columns_of_items(best, owners_of(self.columns, low, high), sums)
        return sums.astype(np.float32)

    def _by_rows(self) -> Iterator[tuple[IntArray, Float32]]:
        """Yields (owners, best score with each candidate) for each tile of query vectors."""
        from limner.scores import block_kernels

        for start, stop in self._tiles():
            pooled = np.full((stop - start, len(self.columns) - 1), -np.inf, dtype=np.float32)
            for low, high in self._chunks():
                first, last = (int(at) for at in owners_of(self.columns, low, high)[[0, -1]])
                ends = np.minimum(self.columns[first + 1 : last + 2], high) - low
                block_kernels.highest_of_columns(self.singles.piece(start, stop, low, high), ends, first, pooled)
            yield owners_of(self.rows, start, stop), pooled

    def _tiles(self) -> Iterator[tuple[int, int]]:
        low, high = int(self.rows[0]), int(self.rows[-1])
        return ((r, min(r + TILE_ROWS, high)) for r in range(low, high, TILE_ROWS))

    def _chunks(self) -> Iterator[tuple[int, int]]:
        low, high = int(self.columns[0]), int(self.columns[-1])
        return ((c, min(c + CHUNK, high)) for c in range(low, high, CHUNK))


def item_ranges(starts: IntArray, width: int, *, max_items: int | None = None) -> list[tuple[int, int]]:
    """Ranges of items with at most `width` vectors together, and of at most so many items; at least one item each.

    >>> item_ranges(np.array([0, 2, 3, 9, 10]), 3), item_ranges(np.array([0, 2, 3, 9, 10]), 3, max_items=1)
    ([(0, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (2, 3), (3, 4)])
    """
    ranges, first = [], 0
    while first < len(starts) - 1:
        last = max(int(np.searchsorted(starts, starts[first] + width, side="right")) - 1, first + 1)
        last = last if max_items is None else min(last, first + max_items)
        ranges.append((first, last))
        first = last
    return ranges


def owners_of(starts: IntArray, low: int, high: int) -> IntArray:
    """The item that each vector of a range belongs to."""
    return np.searchsorted(starts, np.arange(low, high), side="right") - 1
