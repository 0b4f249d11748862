"""Exact results from low-precision products: filter with an error bound, verify with float32 tiles.

A block of products is computed in int8, several times faster than in float32 if the CPU has units for it.
The bound of `rounding_bounds` rules out nearly all candidates; the rest is computed again in float32.
Pairs that are still undecided, and every score that is returned, are read from the float32 tiles of `VectorScores`, or
computed pair by pair in the same order of summation, if it is known (`limner.scores.exact_products.sum_ends`).
Lists, counts and scores equal those in float32 bit for bit.

It is used where the CPU has int8 units and a short measurement finds them faster for these vectors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import local
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32
from limner.core.paths import is_compiled
from limner.core.progress import ProgressLike, as_progress
from limner.scores.base import LARGEST, Best
from limner.scores.exact_products import Pairs, Products
from limner.scores.lowprecision.int8_products import (
    MOST_DIMENSIONS,
    STEP,
    Columns,
    Int8,
    has_units,
    keeps_bound,
    product_share,
    seconds_of_float32,
    suited,
)
from limner.scores.lowprecision.product_block import ProductBlock, Shifted
from limner.scores.lowprecision.rounding_bounds import Bounds, Rounded
from limner.scores.parallel_blocks import TILE_COLUMNS, TILE_ROWS, Block, Result, counted, threads, usable_cores

Lists = tuple[npt.NDArray[np.int32], Block]
"""Columns and scores of the best of every row."""
Verified = Callable[[int, int | None], float]
"""See `Selective.verified`."""

LEAST = 1 << 32
"""A pass with fewer multiplications is too short to benefit."""
LOADING = 1.0
"""A pass must take so many seconds before the loops of the filter are loaded for it, which takes 0.2 to 0.4 seconds.

What an earlier pass or the program has loaded is used anyway."""
COMPILING = 45.0
"""A pass must take so many seconds before the loops are compiled for it, which takes about 20 seconds on one core."""
LOOPS = "limner.scores.lowprecision.filter_kernels"
COMPILED = "limner.scores.lowprecision.ordered_kernels"
"""The loops that take longest to compile; they are in the cache if all are."""
GAIN = 0.6
"""The low-precision product and what is verified may take at most this share of the time of the float32 product."""
PROBED = 32
"""Rows at the start and in the middle that are tried first: of all blocks that run at once none should be in vain."""


def filter_of(scores: Products, verified: Verified) -> Filter | None:
    """A filter for these scores if one applies and saves time; None to use float32.

    Args:
        scores: The scores.
        verified: The work beside the low-precision products; see `Selective.verified`.
    """
    if not (fits(scores) and saves_time(scores, verified)):
        return None
    return Filter(scores, suited(scores.query_vectors.matrix, scores.candidate_vectors.matrix))


def fits(scores: Products) -> bool:
    """Whether the bounds are valid: nothing overflows, and sums are not too long."""
    longest = max(scores.query_vectors.max_norm, scores.candidate_vectors.max_norm, scores.bound)
    return longest < LARGEST / 2**20 and scores.query_vectors.dim <= MOST_DIMENSIONS and min(scores.shape) > 0


def saves_time(scores: Products, verified: Verified) -> bool:
    """Whether int8 products take less time than float32 ones, with what has to be verified, on this CPU."""
    (n, m), d = scores.shape, _rounded_up(scores.query_vectors.dim)
    if n * m * d < LEAST or n < TILE_ROWS or m < TILE_COLUMNS:
        return False
    if LOOPS not in sys.modules and _too_short(n * m * d * seconds_of_float32(d) / usable_cores()):
        return False
    if not has_units():
        return False
    verification = verified(m, scores.query_vectors.dim if len(scores.sum_ends) else None)
    if verification > GAIN:  # nothing has to be measured
        return False
    return product_share(d) + verification <= GAIN and keeps_bound(scores.query_vectors.dim)


def _too_short(seconds: float) -> bool:
    """Whether a pass of so many seconds is too short to load the loops, or to compile them if nobody has."""
    return seconds < LOADING or (seconds < COMPILING and not is_compiled(COMPILED))


def _rounded_up(dimensions: int) -> int:
    return -(-dimensions // 64) * 64


@dataclass
class Attempts:
    """Whether to keep filtering in this pass: it stops if too many candidates remain after filtering."""

    tried: int = 0
    failed: int = 0

    @property
    def go_on(self) -> bool:
        """Whether the next block is filtered."""
        return self.failed < 2 or 2 * self.failed <= self.tried

    def took(self, *worked: bool) -> None:
        """Records whether filtering each of these rows or blocks gave a result."""
        self.tried, self.failed = self.tried + len(worked), self.failed + worked.count(False)


@dataclass(eq=False)
class Filter:
    """Filter and verify for products of vectors; it keeps the rounded candidates and the memory of its threads.

    Args:
        scores: The scores to search.
        form: How vectors are rounded.
    """

    scores: Products
    form: Int8
    _attempts: Attempts = field(default_factory=Attempts)
    _own: local = field(default_factory=local)
    _candidates: tuple[Columns, Rounded] | None = None

    def stream(
        self, consume: Selective, *, workers: int | None = None, progress: ProgressLike = None
    ) -> Iterator[object]:
        """Like `Scores.stream` for a `Selective` consumer; blocks with too many undecided pairs are read in float32."""

        def plain(start: int, stop: int) -> object:
            if not hasattr(self._own, "block"):
                self._own.block = self.scores.memory()
            return consume(start, self.scores.block(start, stop, self._own.block))

        return self.answers(consume.from_products, plain, workers=workers, progress=progress)

    def answers(
        self,
        ask: Callable[[ProductBlock], Result | None],
        otherwise: Callable[[int, int], Result],
        *,
        workers: int | None = None,
        progress: ProgressLike = None,
    ) -> Iterator[Result]:
        """The results of every block, in row order; `otherwise(start, stop)` replaces a result of None."""
        progress = as_progress(progress)
        n = self.scores.shape[0]

        def worked(start: int) -> bool:
            return ask(self.products(start, min(start + PROBED, n))) is not None

        def work(start: int) -> Result:
            stop, result = min(start + TILE_ROWS, n), None
            if self._attempts.go_on:
                block = self.products(start, stop)
                result = ask(block)
                self._attempts.took(result is not None)
            return otherwise(start, stop) if result is None else result

        with threads(workers) as work_on:
            self._candidates = self._stored(work_on)
            self._attempts.took(*work_on(worked, (0, n // 2)))
            yield from counted(work_on(work, range(0, n, TILE_ROWS)), TILE_ROWS, n, progress)

    def products(self, start: int, stop: int) -> ProductBlock:
        """Low-precision products of some rows."""
        rows = self.form.round(self.scores.query_vectors.matrix[start:stop])
        if not hasattr(self._own, "bits"):
            self._own.bits = np.empty(TILE_ROWS * self.scores.shape[1], dtype=np.uint16)
        bits = self._own.bits[: (stop - start) * self.scores.shape[1]].reshape(stop - start, -1)
        if self._candidates is None:
            self._candidates = self._stored(map)
        columns, lengths = self._candidates
        columns.multiply(rows, bits)
        return ProductBlock(start, self.scores, bits, Bounds.of(rows, lengths))

    def _stored(self, work_on: Callable[..., Iterator[object]]) -> tuple[Columns, Rounded]:
        """The candidates in the layout of the format, and their lengths."""
        matrix = self.scores.candidate_vectors.matrix
        columns = self.form.columns(*matrix.shape)

        def work(start: int) -> list[Float32]:
            part = self.form.round(matrix[start : start + STEP])
            columns.put(start, part)
            return [part.length, part.rounded, part.residual]

        parts = list(work_on(work, range(0, len(matrix), STEP)))
        lengths = (np.concatenate(each) for each in zip(*parts, strict=True))
        return columns, Rounded(np.empty((0, matrix.shape[1]), np.int8), *lengths)


class TooOpen(Exception):
    """The bounds leave too many pairs undecided."""


def best_of_columns(scores: Products, transposed: Products, k: int, *, progress: ProgressLike = None) -> Block | None:
    """The k highest scores of every candidate over all queries, (k, candidates), highest first; None if not used.

    The queries are found from the low-precision products of the transposed scores, for which the same bounds hold; the
    scores are those of this direction.

    Args:
        scores: The scores, with `pairs`.
        transposed: Their other direction.
        k: Number of scores per candidate; at most the number of queries.
        progress: Called with (candidates done, candidates in total).
    """
    by_filter = filter_of(transposed, ListRequest(Best(k)).verified)
    if by_filter is None:
        return None

    def otherwise(start: int, stop: int) -> Pairs:
        raise TooOpen

    try:
        parts = list(by_filter.answers(lambda block: block.candidates(k), otherwise, progress=progress))
    except TooOpen:
        return None
    counts = np.concatenate([np.diff(indptr) for indptr, _ in parts])
    queries, candidates = np.concatenate([columns for _, columns in parts]), np.repeat(np.arange(len(counts)), counts)
    values = scores.pairs(queries, candidates)
    order = np.lexsort((-values, candidates))
    first = np.cumsum(counts) - counts
    return np.ascontiguousarray(values[order[first + np.arange(k)[:, None]]])


VERIFIED = TILE_ROWS // 4
"""Columns of a block that take as long as verifying one candidate for each of its rows in tiles, about."""
VERIFIED_ALONE, LONG = 40, 512
"""The same for pairs that are verified one by one, with vectors of so many dimensions or more. With shorter vectors it
is less, also since finding the best of float32 scores takes part of the time then (`benchmarks/match.py --only long`).
"""


@runtime_checkable
class Selective(Protocol):
    """A consumer of blocks that can also answer from low-precision products."""

    def from_products(self, block: Any) -> object:
        """The result for the block of these rows; None if the bounds leave too many pairs undecided."""

    def __call__(self, start: int, block: Block) -> object:
        """The same from a block of scores."""

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """The work beside the low-precision products, as a share of the float32 product.

        Args:
            width: Number of candidates.
            dimensions: Of the vectors, if pairs can be verified one by one; None if only tiles can be computed.
        """


def request_of(consume: object) -> Selective | None:
    """The consumer as one that answers from low-precision products; None if it cannot."""
    if isinstance(consume, Best):
        return ListRequest(consume)
    return consume if isinstance(consume, Selective) else None


def share_verified(k: int, width: int, dimensions: int | None = None) -> float:
    """The work of verifying lists of k, as a share of the float32 product; see `Selective.verified`.

    Every row computes a few candidates again, in float32: as long as so many columns of a block.

    >>> share_verified(100, 10_000, 256), share_verified(100, 10_000)
    (0.2, 0.64)
    """
    each = VERIFIED if dimensions is None else VERIFIED_ALONE * min(dimensions / LONG, 1.0)
    return min(1.0, each * k / max(width, 1))


class ListBlock(Protocol):
    """A block of low-precision products, on a CPU or a GPU, that gives lists of the best."""

    def best(self, choose: Best) -> Lists | None:
        """The same result as `choose` on the float32 block; None if too many pairs are undecided."""

    def best_shifted(self, choose: Best, shifted: Shifted) -> Lists | None:
        """The same for shifted scores."""


@dataclass(frozen=True)
class ListRequest:
    """The best of every row."""

    best: Best

    def from_products(self, block: ListBlock) -> Lists | None:
        """The k best of every row."""
        return block.best(self.best)

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """A few candidates of every row."""
        return share_verified(self.best.k, width, dimensions)

    def __call__(self, start: int, block: Block) -> Lists:
        """The same from a block of scores."""
        return self.best(start, block)


@dataclass(frozen=True)
class ShiftedListRequest:
    """The best of every row of shifted scores: a score less a value of its row and one of its column, as in CSLS."""

    best: Best
    shifted: Shifted

    def from_products(self, block: ListBlock) -> Lists | None:
        """The k best of every row."""
        return block.best_shifted(self.best, self.shifted)

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """A tile reads the best of all its rows, and the `own` best that determine the value of a row."""
        return share_verified(self.best.k, width) + share_verified(self.shifted.own, width)

    def __call__(self, start: int, block: Block) -> Lists:
        """The same from a block of scores."""
        return self.best(start, self.shifted.apply(block, np.arange(block.shape[1]), start))
