"""Low-precision products of a block of rows, and what the bound of `rounding_bounds` tells with certainty.

Pairs that are still undecided, and every score that is returned, are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32, IntArray
from limner.scores.base import Best
from limner.scores.exact_products import Int64, Pairs, Products, chosen, listed_scores
from limner.scores.lowprecision.rounding_bounds import READ, Bits, Bounds, Keys, upward
from limner.scores.parallel_blocks import Block

Pools = tuple[Int64, Int64, Int64]
"""The pool of every row, and the columns of pool f: columns[indptr[f]:indptr[f + 1]], in ascending order."""
NO_POOLS: Pools = (np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))
SHARE = 64
"""At most one candidate in this many is computed again for each row; a block with more goes the float32 way."""
LEAST_ROOM, LEAST_COUNTED, ROOM = 256, 64, 8
"""But so many candidates of a row may be, for lists, and for counts; and for lists so many for each of their places, up
to an eighth of all."""
ROW_SHARE, MANY = 3, 1 / 3
"""For counts, at most one candidate in the first many is computed again; a row with more is counted in float32. A block
goes the float32 way if more than the second share of its rows are."""
LEFT = 64
"""At most so many pairs of each row may be left to the grid, on average."""


@dataclass(eq=False)
class ProductBlock:
    """Low-precision products of a block of rows, and the decisions that they allow with certainty.

    The products may be put in order, in place: `tops` is then the highest of every group of columns.

    Args:
        start: The query of the first row.
        scores: The float32 scores that the products approximate.
        bits: The products in bfloat16, a row per query.
        bounds: The error bounds.
    """

    start: int
    scores: Products
    bits: Bits
    bounds: Bounds
    tops: npt.NDArray[np.int16] | None = None

    @property
    def rows(self) -> Float32:
        """The query vectors."""
        return self.scores.query_vectors.matrix[self.start : self.start + len(self.bits)]

    @property
    def _factors(self) -> tuple[object, ...]:
        vectors = np.ascontiguousarray(self.rows), self.scores.candidate_vectors.matrix, self.scores.sum_ends
        return self.bits, vectors, (self.bounds.query, self.bounds.candidate, *self.bounds.close, np.float32(READ))

    def _room(self, k: int) -> int:
        """The maximum number of products in float32: a small part of the work."""
        rows, width = self.bits.shape
        return int(rows * max(width // SHARE, LEAST_ROOM, min(ROOM * k, width // 8)))

    def candidates(self, k: int, keys: Keys | None = None) -> Pairs | None:
        """Columns that may be among the k best of each row; None if there are too many."""
        if self.tops is not None:
            raise RuntimeError("the bits of these products are lost: they were put in order")
        from limner.scores.lowprecision.filter_kernels import GROUP, select

        (rows, width), room = self.bits.shape, self._room(k)
        keys = keys or Keys.plain(rows, width)
        indptr, columns = np.zeros(rows + 1, np.int64), np.empty(room, np.int64)
        shift = keys.shift.astype(np.float32) if keys.shift.any() else np.zeros(GROUP, np.float32)
        allowance = upward(keys.allowance) if keys.allowance.any() else np.zeros(rows, np.float32)
        key_factors = np.float32(keys.scale), shift, keys.shift, allowance
        count = select(*self._factors, key_factors, min(k, width), room, columns, indptr)
        return None if count < 0 else (indptr, columns[:count].copy())

    def keys(self, scale: float, shift: npt.NDArray[np.float64]) -> Keys:
        """The sort keys scale s - shift, with an allowance for rounding."""
        largest = scale * self.scores.bound + np.abs(shift).max()
        return Keys(scale, shift, np.full(len(self.bits), ROUNDED * largest))

    def tiles(self, *found: Pairs) -> tuple[Int64, Float32]:
        """(places, float32 scores): the columns that any row needs, and their scores for all rows."""
        places = np.unique(np.concatenate([columns for _, columns in found]))
        return places, self.scores.tiles(self.rows, places)

    def best(self, choose: Best) -> tuple[npt.NDArray[np.int32], Block] | None:
        """Gives the same result as `choose` on the float32 block; the bits may be lost."""
        if len(self.scores.sum_ends):
            return self._best_in_order(min(choose.k, self.bits.shape[1]))
        pairs = self.candidates(choose.k)
        return None if pairs is None else chosen(self.scores, self.start, self.rows, choose, [pairs])

    def _best_in_order(self, k: int) -> tuple[npt.NDArray[np.int32], Block] | None:
        from limner.scores.lowprecision.ordered_kernels import best_near

        indices, scores = np.zeros((len(self.bits), k), np.int32), np.zeros((len(self.bits), k), np.float32)
        _, *factors = self._factors
        return (indices, scores) if best_near(*self.put_in_order(), *factors, self._room(k), indices, scores) else None

    def best_shifted(self, choose: Best, shifted: Shifted) -> tuple[npt.NDArray[np.int32], Block] | None:
        """Gives the same result as `choose` on the shifted float32 block."""
        allowance = np.full(len(self.bits), shifted.rounding(self.scores.bound))
        searches = [self.candidates(choose.k, Keys(shifted.scale, shifted.shift, allowance))]
        if shifted.own:
            searches.append(self.candidates(shifted.own))
        decided = [each for each in searches if each is not None]
        if len(decided) < len(searches):
            return None
        return chosen(self.scores, self.start, self.rows, choose, decided, shifted.apply)

    def put_in_order(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
        """The products in order, and the highest of every group of columns; the bits are lost."""
        if self.tops is None:
            from limner.scores.lowprecision.filter_kernels import GROUP
            from limner.scores.lowprecision.ordered_kernels import put_in_order

            rows, width = self.bits.shape
            self.tops = np.empty((rows, -(-width // GROUP)), np.int16)
            put_in_order(self.bits.view(np.int16), self.tops)
        return self.bits.view(np.int16), self.tops

    def listed(self, indptr: Int64, columns: Int64) -> Float32:
        """The float32 score of every row and each column of its list."""
        return listed_scores(self.scores, self.rows, indptr, columns)

    def count_above(self, ranked: Ranked, pools: Pools = NO_POOLS) -> AboveCounts | None:
        """Counts the candidates above each positive; None if too many rows are left to float32.

        The bits are lost: ask for the best first.
        """
        from limner.scores.lowprecision.ordered_kernels import count_near

        rows, width = self.bits.shape
        counts, given_up = np.zeros(len(ranked.columns), np.int64), np.zeros(rows, np.bool_)
        owners = np.empty(rows * LEFT + width, np.int64)
        columns, room = np.empty_like(owners), max(width // ROW_SHARE, LEAST_COUNTED)
        positives = ranked.indptr, ranked.columns, ranked.scores, ranked.depths
        _, *factors = self._factors
        count = count_near(*self.put_in_order(), *factors, positives, pools, room, counts, owners, columns, given_up)
        if count < 0 or np.count_nonzero(given_up) > MANY * rows:
            return None
        return AboveCounts(counts, owners[:count].copy(), columns[:count].copy(), np.flatnonzero(given_up))


@dataclass(frozen=True, eq=False)
class Ranked:
    """Positives of a block whose ranks are asked for.

    Args:
        indptr: Those of row r are `indptr[r]:indptr[r + 1]`.
        columns: The column of each.
        scores: The score of each.
        depths: A rank beyond this may be counted as never found.
    """

    indptr: Int64
    columns: Int64
    scores: Float32
    depths: Int64


@dataclass(frozen=True, eq=False)
class AboveCounts:
    """What low-precision products tell about the ranks of the positives of a block.

    Args:
        counts: The number of candidates above each positive, without those of the pairs below; (2^63 - 1) // 4
            for one with more than its depth.
        whose: The positive of each pair that only float32 scores on the grid can compare, or that is a tie.
        columns: The candidate of each such pair.
        rows: Rows with too many such pairs: their counts are undefined, and their pairs are not listed.
    """

    counts: Int64
    whose: Int64
    columns: Int64
    rows: Int64


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
