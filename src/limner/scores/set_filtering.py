r"""Exact lists of items with several vectors from low-precision products: filter with an error bound, then verify.

For a query vector a_i and an item c with the vectors b_j, let f_ij be the float32 score, s_ij the low-precision product
read as bfloat16, and E_ij the bound of `limner.core.lowprecision`: |f_ij - s_ij| <= eps |s_ij| + E_ij. Since
x + eps |x| and x - eps |x| grow with x, the best product m_i = max_j s_ij bounds the best score:

    |max_j f_ij - m_i| <= eps |m_i| + max_j E_ij

The bounds of the terms add up for the sum of late interaction, and hold for the best pair as they are; E_ij = a p + b m
+ t is at most the same with the largest (or, where the sum runs over them, added) factors of a query and an item.
The sum of float32 numbers in double precision, rounded to float32, moves by at most 2^-23 of what is added.

A candidate is verified if its upper bound reaches the k-th highest lower bound: its score is then computed from the
same float32 tiles as in `SetScores`. Lists and scores equal those in float32 bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import local
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Float32, FloatArray, IntArray
from limner.core.lowprecision import READ, SLACK, Bounds, Rounded
from limner.core.progress import Progress
from limner.scores.base import TILE_ROWS, Best
from limner.scores.filtering import SETTING, Attempts, filter_of
from limner.scores.formats import STEP, Columns, Format, torch_threads_kept
from limner.scores.running import Block, threads
from limner.scores.set_pieces import Pieces, item_ranges, owners_of
from limner.scores.vector_sets import VectorSets
from limner.scores.verifying import Products

WIDTH = 4096
"""Candidate vectors whose low-precision products with a tile of query vectors are in memory at once, about."""
TILE = 1024
"""Query vectors whose products with these are computed at once: each product waits for the interpreter's lock several
times, which many cores contend for, so that few large ones take less time than many small ones."""
BOUNDED = 1 << 23
"""Pairs of items whose bounds are in memory at once."""
PROBED = 4
"""Queries that are tried first."""
MOST_VERIFIED = 0.25
"""The share of all pairs that may be computed again; with more, the float32 way is taken."""
EXPECTED = 0.1
"""The share that is expected, for the choice of a format."""
SUMMED = 2.0**-22
"""How far rounding moves a sum, at most, in units of what is added."""
Keys = npt.NDArray[np.int16]
Found = tuple[npt.NDArray[np.int32], Block]


class Pooled(Protocol):
    """How the scores of vectors become scores of items."""

    @property
    def pooling(self) -> str:
        """Either "max" or "maxsim"."""

    @property
    def turned(self) -> bool:
        """Whether the sum of "maxsim" runs over the vectors of the candidates."""


class Sets(Pooled, Protocol):
    """The interface that a filter needs; `SetScores` implements it."""

    @property
    def query_sets(self) -> VectorSets:
        """Vectors of the queries."""

    @property
    def candidate_sets(self) -> VectorSets:
        """Vectors of the candidates."""

    @property
    def singles(self) -> Products:
        """Scores of single vectors."""

    @property
    def piece_columns(self) -> int:
        """The smallest number of candidates of a piece."""

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of queries start:stop and candidates low:high."""


def set_filter_of(scores: Sets) -> SetFilter | None:
    """A filter for these scores if `LIMNER_LOW_PRECISION` asks for one and it saves time; None to use float32.

    Unlike for single vectors it has to be asked for: it saves CPU time, but on 16 cores not time by the clock.
    """
    asked = os.environ.get(SETTING) and len(scores.candidate_sets)
    near = filter_of(scores.singles, lambda width, dimensions: EXPECTED) if asked else None
    return None if near is None else SetFilter(scores, near.form)


@dataclass(frozen=True, eq=False)
class SetFilter:
    """Filter and verify for items with several vectors.

    Args:
        scores: The scores to search.
        form: The format of the low-precision products.
    """

    scores: Sets
    form: Format
    _attempts: Attempts = field(default_factory=Attempts)
    _own: local = field(default_factory=local)

    def stream(self, choose: Best, *, workers: int | None = None, progress: Progress | None = None) -> Iterator[Found]:
        """The best of every query, some queries at a time; those with too many undecided pairs are read in float32."""
        n = len(self.scores.query_sets)
        with torch_threads_kept(), threads(workers) as work_on:
            self.__dict__["_stored"] = self._laid_out(work_on)
            for start, stop in self._groups():
                found = self._best(start, stop, choose, work_on) if self._attempts.go_on else None
                self._attempts.took(*[found is not None] * (1 if start else 2))  # the first few decide for all
                yield self._plain(start, stop, choose, work_on) if found is None else found
                if progress is not None:
                    progress(stop, n)

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Ranges of queries: few at first, then as many as there is memory for their bounds."""
        n, start = len(self.scores.query_sets), 0
        while start < n:
            most = int(np.clip(BOUNDED // len(self.scores.candidate_sets), 1, TILE_ROWS))
            stop = min(start + (most if start else min(most, PROBED)), n)
            yield start, stop
            start = stop

    def _plain(self, start: int, stop: int, choose: Best, work_on: Callable[..., Iterator[Any]]) -> Found:
        width, step = len(self.scores.candidate_sets), self.scores.piece_columns

        def work(low: int) -> Found:
            return choose.piece(start, low, self.scores.piece(start, stop, low, min(low + step, width)))

        return choose.join(list(work_on(work, range(0, width, step))))

    def _best(self, start: int, stop: int, choose: Best, work_on: Callable[..., Iterator[Any]]) -> Found | None:
        """The best of some queries; None if more than `MOST_VERIFIED` of all pairs are undecided."""
        rows = self._rows(start, stop)
        parts = list(work_on(lambda chunk: self._bounded(rows, chunk), self._stored[0]))
        lower, upper = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        k = min(choose.k, lower.shape[1])
        floor = np.partition(lower, lower.shape[1] - k, axis=1)[:, -k] if k else np.full(len(lower), np.inf)
        open_ = upper >= floor[:, None]
        if np.count_nonzero(open_) > MOST_VERIFIED * open_.size + k * len(open_):
            return None

        def work(row: int) -> Found:
            columns = np.flatnonzero(open_[row])
            indices, kept = choose(start + row, self._verified(start + row, columns))
            return columns[indices].astype(np.int32), kept

        indices, kept = zip(*work_on(work, range(stop - start)), strict=True)
        return np.concatenate(indices), np.concatenate(kept)

    def _verified(self, query: int, columns: IntArray) -> Float32:
        """The float32 scores of a query and some candidates, one row."""
        starts, lengths = self.scores.candidate_sets.starts, np.diff(self.scores.candidate_sets.starts)[columns]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(starts[columns] - ends[:-1], lengths) + np.arange(ends[-1])
        pieces = Pieces(_Gathered(self.scores.singles, places), self.scores.query_sets.starts[query : query + 2], ends)
        return pieces.pooled(self.scores.pooling, turned=self.scores.turned)

    def _bounded(self, rows: _Rows, chunk: _Chunk) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the scores of some queries and the items of a chunk."""
        middle, size = self._pooled(rows, chunk)
        reach = (READ * size + rows.factors @ chunk.factors) * SLACK
        reach += SUMMED * (size + reach)
        return middle - reach, middle + reach

    def _pooled(self, rows: _Rows, chunk: _Chunk) -> tuple[FloatArray, FloatArray]:
        """The low-precision scores, and what they would be if all terms had the same sign."""
        from limner.core import pooling

        middle, size = np.zeros((2, rows.count, len(chunk.ends)))
        if self.scores.pooling == "max":
            best = _lowest(middle.shape)
            for owners, highest in self._by_items(rows, chunk):
                pooling.highest_of_rows(highest, owners, best)
            values = _numbers(best).astype(np.float64)
            return values, np.abs(values)
        if not self.scores.turned:
            for owners, highest in self._by_items(rows, chunk):
                pooling.add_rows_of_items(_numbers(highest), owners, middle)
                pooling.add_rows_of_items(np.abs(_numbers(highest)), owners, size)
            return middle, size
        best = _lowest((rows.count, chunk.width))
        for owners, part in rows.tiles:
            pooling.highest_of_rows(self._keys(part, chunk), owners, best)
        pooling.add_columns_of_items(_numbers(best), chunk.owners, middle)
        pooling.add_columns_of_items(np.abs(_numbers(best)), chunk.owners, size)
        return middle, size

    def _by_items(self, rows: _Rows, chunk: _Chunk) -> Iterator[tuple[IntArray, Keys]]:
        """Yields (owners, the best with each item) for each tile of query vectors."""
        from limner.core import pooling

        for owners, part in rows.tiles:
            highest = _lowest((len(part.codes), len(chunk.ends)))
            pooling.highest_of_columns(self._keys(part, chunk), chunk.ends, 0, highest)
            yield owners, highest

    def _keys(self, part: Rounded, chunk: _Chunk) -> Keys:
        """The low-precision products of a tile of query vectors, as keys that sort like the numbers."""
        from limner.core import pooling

        wanted = len(part.codes) * chunk.width
        if not hasattr(self._own, "bits") or len(self._own.bits) < wanted:
            self._own.bits = np.empty(max(wanted, TILE * WIDTH), dtype=np.uint16)
        bits = self._own.bits[:wanted].reshape(-1, chunk.width)
        chunk.columns.multiply(part, bits)
        keys: Keys = bits.view(np.int16)
        pooling.make_sortable(keys)
        return keys

    @cached_property
    def _stored(self) -> tuple[list[_Chunk], Rounded]:
        """The candidates in the layout of the format, whole items together, and the lengths of all vectors."""
        return self._laid_out(map)

    def _laid_out(self, work_on: Callable[..., Iterator[Any]]) -> tuple[list[_Chunk], Rounded]:
        starts = self.scores.candidate_sets.starts

        def work(items: tuple[int, int]) -> tuple[_Chunk, Rounded]:
            first, last = items
            vectors = self.scores.singles.candidate_vectors.matrix[starts[first] : starts[last]]
            columns, lengths = _laid_out(self.form, vectors)
            here = starts[first : last + 1] - starts[first]
            return _Chunk(columns, int(here[-1]), here[1:], item_factors(self.scores, lengths, here)), lengths

        chunks, parts = zip(*work_on(work, item_ranges(starts, WIDTH)), strict=True)
        return list(chunks), _joined(parts)

    def _rows(self, start: int, stop: int) -> _Rows:
        """The vectors of some queries, rounded."""
        starts = self.scores.query_sets.starts[start : stop + 1]
        matrix = self.scores.singles.query_vectors.matrix
        tiles, factors = [], []
        for low in range(int(starts[0]), int(starts[-1]), TILE):
            high = min(low + TILE, int(starts[-1]))
            part = self.form.round(matrix[low:high])
            tiles.append((owners_of(starts, low, high), part))
            factors.append(Bounds.of(part, self._stored[1]).query)
        return _Rows(stop - start, tiles, query_factors(self.scores, np.concatenate(factors), starts - starts[0]))


def query_factors(how: Pooled, factors: Float32, starts: IntArray) -> FloatArray:
    """The factors a, b and t of E for every query, (queries, 3): of all its vectors, or the largest."""
    pool = np.add if how.pooling == "maxsim" and not how.turned else np.maximum
    pooled: FloatArray = pool.reduceat(factors.astype(np.float64), starts[:-1], axis=0)
    return pooled


def item_factors(how: Pooled, lengths: Rounded, starts: IntArray) -> FloatArray:
    """The factors p and m of E for every candidate, and that of t, (3, items): of all its vectors, or the largest."""
    summed, counts = how.pooling == "maxsim" and how.turned, np.diff(starts).astype(np.float64)
    pool = np.add if summed else np.maximum
    pooled = pool.reduceat(lengths.factors[0].astype(np.float64), starts[:-1], axis=1)
    return np.concatenate([pooled, counts[None] if summed else np.ones((1, len(counts)))])


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rounded vectors of some queries.

    Args:
        count: Number of queries.
        tiles: For each tile of vectors, the query of each and the vectors.
        factors: (queries, 3): the factors a, b and t of E.
    """

    count: int
    tiles: list[tuple[IntArray, Rounded]]
    factors: FloatArray


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The rounded vectors of some candidates.

    Args:
        columns: The vectors in the layout of the format.
        width: Number of vectors.
        ends: Where the vectors of each item end.
        factors: (3, items): the factors p and m of E, and that of t.
    """

    columns: Columns
    width: int
    ends: IntArray
    factors: FloatArray

    @property
    def owners(self) -> IntArray:
        """The item of each vector."""
        return np.searchsorted(self.ends, np.arange(self.width), side="right")


@dataclass(frozen=True, eq=False)
class _Gathered:
    """Scores of single vectors, with the candidate vectors at some places only."""

    singles: Products
    places: IntArray

    def piece(self, start: int, stop: int, low: int, high: int) -> Float32:
        """Scores of up to `TILE_ROWS` query vectors and the candidate vectors low:high of these."""
        return self.singles.tiles(self.singles.query_vectors.matrix[start:stop], self.places[low:high])


def _laid_out(form: Format, vectors: Float32) -> tuple[Columns, Rounded]:
    columns, parts = form.columns(*vectors.shape), []
    for start in range(0, len(vectors), STEP):
        part = form.round(vectors[start : start + STEP])
        columns.put(start, part)
        parts.append(part)
    return columns, _joined(parts)


def _joined(parts: Sequence[Rounded]) -> Rounded:
    """The lengths of several parts, without the numbers."""
    lengths = (np.concatenate([getattr(p, name) for p in parts]) for name in ("length", "rounded", "residual"))
    return Rounded(parts[0].codes[:0], *lengths)


def _lowest(shape: tuple[int, ...]) -> Keys:
    return np.full(shape, np.iinfo(np.int16).min, np.int16)


def _numbers(keys: Keys) -> Float32:
    """The numbers of keys that sort like them; see `limner.core.pooling.make_sortable`."""
    bits = keys ^ ((keys >> 15) & np.int16(0x7FFF))
    return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
