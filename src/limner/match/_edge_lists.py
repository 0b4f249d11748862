"""Lists of edges between bidders and items, gathered while the blocks of scores are computed.

The smaller side bids for the other. Queries bid along the rows of a block, candidates along its columns. Either way the
list of a bidder has the items with the highest score minus price, with ties in item order, and does not depend on the
size of a block or the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner.core.arrays import Array, FloatArray, IntArray
from limner.core.progress import SILENT, Progress
from limner.match import _path_kernels
from limner.scores import Scores
from limner.scores.lowprecision import ProductBlock, share_verified
from limner.scores.matrices import MatrixScores
from limner.scores.parallel_blocks import Block, on_host
from limner.scores.vectors import VectorScores


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges in bidder order: those of bidder i are `indptr[i]:indptr[i + 1]`."""

    indptr: IntArray
    items: Array
    worths: Array

    @property
    def bidders(self) -> Array:
        """The bidder of each edge."""
        return np.repeat(np.arange(len(self.indptr) - 1, dtype=np.int32), np.diff(self.indptr))

    @property
    def graph(self) -> tuple[IntArray, Array, Array]:
        """The input of the loops in `_path_kernels`."""
        return self.indptr, self.items, self.worths

    def __len__(self) -> int:
        return len(self.items)

    def without_items(self, assigned: Sequence[IntArray]) -> Edges:
        """All edges except those taken in earlier rounds: one array per round, with an item per bidder or -1."""
        if not assigned:
            return self
        bidders = self.bidders
        keep = np.ones(len(self), dtype=bool)
        for items in assigned:
            keep &= self.items != items[bidders]
        indptr = np.concatenate([[0], np.cumsum(keep)])[self.indptr]
        return Edges(indptr, self.items[keep], self.worths[keep])

    def with_edges(self, bidders: Array, items: Array, worths: Array) -> Edges:
        """Adds edges that are not among these; repeated ones are added once."""
        _, first = np.unique(bidders.astype(np.int64) * (int(items.max(initial=0)) + 1) + items, return_index=True)
        at = self.indptr[bidders[first] + 1]
        added = np.concatenate([[0], np.cumsum(np.bincount(bidders[first], minlength=len(self.indptr) - 1))])
        longer = np.insert(self.items, at, items[first]), np.insert(self.worths, at, worths[first])
        return Edges(self.indptr + added, *longer)


@dataclass(frozen=True, eq=False)
class EdgeRequest:
    """Which edges to look for: those with score minus price above the bidder's floor.

    Args:
        prices: Prices of the items; inf for an excluded item.
        floors: Floors of the bidders; inf for an excluded bidder.
    """

    prices: FloatArray
    floors: FloatArray


@dataclass(frozen=True, eq=False)
class BestEdges:
    """The best edges found: (bidders, k) items, with -1 for none; scores; scores minus prices."""

    items: Array
    worths: Array
    profits: Array

    @property
    def flat(self) -> tuple[Array, Array, Array]:
        """Bidders, items and scores of the edges, in bidder order."""
        listed = self.items >= 0
        bidders = np.repeat(np.arange(len(listed), dtype=np.int32), listed.sum(axis=1))
        return bidders, self.items[listed], self.worths[listed]

    @property
    def edges(self) -> Edges:
        """The edges by bidder."""
        indptr = np.concatenate([[0], np.cumsum((self.items >= 0).sum(axis=1))])
        return Edges(indptr, *self.flat[1:])


@dataclass(frozen=True, eq=False)
class Market:
    """Scores from the point of view of the smaller side, which bids for the other."""

    scores: Scores

    @property
    def by_rows(self) -> bool:
        """Whether the queries bid."""
        return self.scores.shape[0] <= self.scores.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(bidders, items)."""
        n, m = self.scores.shape
        return (n, m) if self.by_rows else (m, n)

    def best(self, k: int, *, progress: Progress = SILENT) -> BestEdges:
        """The k best edges of every bidder, ignoring prices."""
        if not self.by_rows:
            return self.find(
                [EdgeRequest(np.zeros(self.shape[1]), np.full(self.shape[0], -np.inf))], k, progress=progress
            )[0]
        top = self.scores.top(min(k, self.shape[1]), progress=progress)
        worths = np.asarray(top.scores)
        return BestEdges(np.where(np.isneginf(worths), -1, top.indices), np.array(worths), worths.astype(np.float64))

    def find(
        self, requests: Sequence[EdgeRequest], k: int, *, hidden: Edges | None = None, progress: Progress = SILENT
    ) -> list[BestEdges]:
        """The k best edges of every bidder that are not hidden, for several requests in one pass."""
        k = max(1, min(k, self.shape[1]))
        cells = self._cells(hidden)
        if not self.by_rows:
            return self.scores.fold(_Columns(requests, k, cells), _merged, progress=progress)
        bidders = np.flatnonzero(np.any([w.floors < np.inf for w in requests], axis=0))
        part = self._only(bidders)
        if part is None:
            return _stacked(self.scores.stream(_Rows(requests, k, cells), progress=progress))
        questions = [EdgeRequest(w.prices, w.floors[bidders]) for w in requests]
        lists = _stacked(part.stream(_Rows(questions, k, cells.only(bidders)), progress=progress))
        return [_spread(f, bidders, self.shape[0]) for f in lists]

    def _cells(self, edges: Edges | None) -> _Cells:
        """Edges as cells of the scores, by row."""
        if edges is None:
            return _Cells(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
        bidders, items = edges.bidders, edges.items
        if self.by_rows:
            return _Cells(bidders, items)
        order = np.argsort(items, kind="stable")
        return _Cells(items[order], bidders[order])

    def _only(self, rows: IntArray) -> Scores | None:
        """Scores of a few queries only, if that is cheaper than reading all blocks; else None."""
        if not 0 < len(rows) <= self.shape[0] // 4:
            return None
        ids = self.scores.queries[rows]
        if isinstance(self.scores, VectorScores):
            return replace(self.scores, query_vectors=self.scores.query_vectors.subset(ids))
        if isinstance(self.scores, MatrixScores):
            return MatrixScores(ids, self.scores.candidates, self.scores.values[rows], checked=True)
        return None

    def ends(self) -> tuple[float, float]:
        """The lowest and the highest finite score; (0, 0) if there is none."""
        ends = np.array(self.scores.map(_ends))
        low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
        return (low, high) if low <= high else (0.0, 0.0)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of the scores, in row order."""

    rows: Array
    columns: Array

    def hide(self, block: Block, start: int) -> None:
        """Sets these cells of a block to -inf."""
        low, high = np.searchsorted(self.rows, [start, start + len(block)])
        block[self.rows[low:high] - start, self.columns[low:high]] = -np.inf

    def between(self, start: int, stop: int) -> _Cells:
        """The cells of rows start:stop, with rows numbered from 0."""
        low, high = np.searchsorted(self.rows, [start, stop])
        return _Cells(self.rows[low:high] - start, self.columns[low:high])

    def of_columns(self, columns: IntArray) -> _Cells:
        """The cells of these columns, which are in ascending order, with columns renumbered from 0."""
        place = np.minimum(np.searchsorted(columns, self.columns), len(columns) - 1)
        inside = columns[place] == self.columns
        return _Cells(self.rows[inside], place[inside])

    def only(self, rows: IntArray) -> _Cells:
        """The cells of these rows, with rows renumbered from 0."""
        place = np.searchsorted(rows, self.rows)
        inside = rows[np.minimum(place, len(rows) - 1)] == self.rows
        return _Cells(place[inside], self.columns[inside])


@dataclass(frozen=True, eq=False)
class _Rows:
    """The best edges of every row of a block, for each request."""

    requests: Sequence[EdgeRequest]
    k: int
    hidden: _Cells

    def __call__(self, start: int, block: object) -> list[BestEdges]:
        block, rows = on_host(block), slice(start, start + len(block))
        self.hidden.hide(block, start)
        lists = [_empty_lists(len(block), self.k, block.dtype) for _ in self.requests]
        for w, f in zip(self.requests, lists, strict=True):
            _path_kernels.collect_rows(block, w.prices, w.floors[rows], f.items, f.worths, f.profits)
        return lists

    def verified(self, width: int, dimensions: int | None = None) -> float:
        """A tile reads the candidates that any of its rows needs, for every list."""
        return len(self.requests) * share_verified(self.k, width)

    def from_products(self, products: object) -> list[BestEdges] | None:
        """The same from low-precision products; each row keeps one more edge per hidden cell."""
        if not isinstance(products, ProductBlock) or not all(np.isfinite(w.prices).all() for w in self.requests):
            return None
        hidden = self.hidden.between(products.start, products.start + len(products.bits))
        k = self.k + int(np.bincount(hidden.rows, minlength=1).max())
        proposals = [products.candidates(k, products.keys(1.0, w.prices.astype(np.float64))) for w in self.requests]
        usable = [each for each in proposals if each is not None]
        if len(usable) < len(proposals):
            return None
        places, scores = products.tiles(*usable)
        questions = [EdgeRequest(w.prices[places], w.floors[products.start :][: len(scores)]) for w in self.requests]
        lists = _Rows(questions, self.k, hidden.of_columns(places))(0, scores)
        return [replace(f, items=np.where(f.items < 0, -1, places[f.items]).astype(np.int32)) for f in lists]


@dataclass(frozen=True, eq=False)
class _Columns:
    """The best edges of every column so far, for each request."""

    requests: Sequence[EdgeRequest]
    k: int
    hidden: _Cells

    def __call__(self, lists: list[BestEdges] | None, start: int, block: object) -> list[BestEdges]:
        block, rows = on_host(block), slice(start, start + len(block))
        self.hidden.hide(block, start)
        lists = lists or [_empty_lists(block.shape[1], self.k, block.dtype) for _ in self.requests]
        for w, f in zip(self.requests, lists, strict=True):
            _path_kernels.collect_columns(block, start, w.prices[rows], w.floors, f.items, f.worths, f.profits)
        return lists


def _ends(start: int, block: object) -> tuple[float, float]:
    block = on_host(block)
    finite = block[np.isfinite(block)]
    return float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))


def _empty_lists(n: int, k: int, dtype: np.dtype[np.floating]) -> BestEdges:
    return BestEdges(np.full((n, k), -1, dtype=np.int32), np.zeros((n, k), dtype=dtype), np.full((n, k), -np.inf))


def _spread(edges: BestEdges, bidders: IntArray, n: int) -> BestEdges:
    """Expands the results of some bidders to rows for all bidders."""
    expanded = _empty_lists(n, edges.items.shape[1], edges.worths.dtype)
    expanded.items[bidders], expanded.worths[bidders], expanded.profits[bidders] = (
        edges.items,
        edges.worths,
        edges.profits,
    )
    return expanded


def _stacked(parts: Iterable[list[BestEdges]]) -> list[BestEdges]:
    """The results of blocks of rows, concatenated."""
    return [BestEdges(*map(np.concatenate, zip(*map(_arrays, each), strict=True))) for each in zip(*parts, strict=True)]


def _merged(some: list[BestEdges], later: list[BestEdges]) -> list[BestEdges]:
    """Merges the best edges of two workers; ties are in item order."""
    return [_merged_pair(a, b) for a, b in zip(some, later, strict=True)]


def _merged_pair(a: BestEdges, b: BestEdges) -> BestEdges:
    items, worths, profits = (np.concatenate(pair, axis=1) for pair in zip(_arrays(a), _arrays(b), strict=True))
    order = np.lexsort((items, -profits), axis=1)[:, : a.items.shape[1]]
    return BestEdges(*(np.take_along_axis(array, order, axis=1) for array in (items, worths, profits)))


def _arrays(edges: BestEdges) -> tuple[Array, Array, Array]:
    return edges.items, edges.worths, edges.profits
