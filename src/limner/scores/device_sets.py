"""Items with several vectors each on a torch device, usually a GPU: the scores of `limner.scores.set_scores`.

Items are padded to equal numbers of vectors by repeating their first one, which changes no maximum. Every product has
the same shape, `ROWS` query vectors by `COLUMNS` candidate vectors, so that a score depends only on its two items.
A few query vectors take products of fewer rows, `FEW`, if the device computes the same bits with that shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.tensors import full_precision, torch_module
from limner.scores.base import LARGEST, Scores
from limner.scores.device import sent_vectors
from limner.scores.parallel_blocks import WorkerMap
from limner.scores.set_scores import SetScores

ROWS, COLUMNS = 4096, 16384
"""Query and candidate vectors of every product; more for an item that has more."""
FEW = 256
"""Query vectors of a product for a few of them, where it gives the same bits."""
TOGETHER = 2
"""Tiles of queries in a block."""
Tensor = Any


@dataclass(frozen=True, eq=False)
class _Side:
    """The vectors of the items of one side.

    Args:
        ids: The items.
        vectors: All vectors, on the device.
        starts: Where those of each item begin, and where the last ones end.
        span: Vectors in a tile.
    """

    ids: Ids
    vectors: Tensor
    starts: IntArray
    span: int

    def tiles(self, items: IntArray) -> Iterator[_Tile]:
        """Items of about the same number of vectors together, as many as a tile has room for."""
        counts = np.diff(self.starts)[items]
        order, low = np.argsort(counts, kind="stable"), 0
        while low < len(order):
            # ascending: the last item of a tile has the most vectors, and all are padded to as many
            room = counts[order[low:]] * np.arange(1, len(order) - low + 1) <= self.span
            high = low + max(int(np.argmin(room)) if not room.all() else len(room), 1)
            yield self._tile(order[low:high], items[order[low:high]])
            low = high

    def _tile(self, places: IntArray, items: IntArray) -> _Tile:
        torch, counts = torch_module(), np.diff(self.starts)[items]
        place = np.arange(int(counts.max()))
        inside = place < counts[:, None]
        index = self.starts[items][:, None] + np.where(inside, place, 0)
        first = int(index[0, 0])
        contiguous = inside.all() and np.array_equal(index[:, 0], first + np.arange(len(items)) * len(place))
        at, mask = (torch.as_tensor(each, device=self.vectors.device) for each in (index, inside))
        return _Tile(places, items, at, mask, first if contiguous else None)


@dataclass(frozen=True, eq=False)
class _Tile:
    """Some items of one side, padded.

    Args:
        places: Their places among those that were asked for.
        items: Their places on their side.
        index: The places of their vectors, (items, most vectors).
        inside: Which of these are their own.
        first: Where their vectors begin, if they are one after another.
    """

    places: IntArray
    items: IntArray
    index: Tensor
    inside: Tensor
    first: int | None

    def of(self, vectors: Tensor) -> Tensor:
        """Their vectors."""
        if self.first is None:
            return vectors[self.index.flatten()]
        return vectors[self.first : self.first + self.index.numel()]


@dataclass(frozen=True, eq=False)
class TorchSetScores(Scores):
    """Scores of items with several vectors on a device.

    Args:
        rows: The queries.
        columns: The candidates.
        pooling: "max", "smooth" or "maxsim".
        gamma: Sharpness of the smooth maximum.
        turned: Whether the sum of "maxsim" runs over the vectors of the candidates.
        bound: An upper bound of all scores; inf if unknown.
    """

    rows: _Side
    columns: _Side
    pooling: str
    gamma: float
    turned: bool
    bound: float = np.inf

    @classmethod
    def sent(cls, scores: SetScores, *, device: str) -> TorchSetScores:
        """Copies the vectors of scores on the CPU to a device."""
        reach = scores.singles.bound if scores.pooling == "smooth" else scores.bound
        if reach > LARGEST:
            quantity = "sums of products" if scores.pooling == "maxsim" else "products"
            raise LimnerError(
                f"{quantity} of these vectors may reach {reach:.3g}, which single precision does not hold: divide all "
                "vectors by a constant"
            )
        rows, columns = (
            _Side(sets.ids, sent_vectors(sets.vectors, device), sets.starts, span)
            for sets, span in ((scores.query_sets, ROWS), (scores.candidate_sets, COLUMNS))
        )
        return cls(rows, columns, scores.pooling, scores.gamma, scores.turned, scores.bound)

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.rows.ids

    @property
    def candidates(self) -> Ids:  # type: ignore[override]
        """Ids of the candidates."""
        return self.columns.ids

    @property
    def T(self) -> TorchSetScores:
        """The transposed scores."""
        rows, columns = (
            _Side(side.ids, side.vectors, side.starts, span)
            for side, span in ((self.columns, ROWS), (self.rows, COLUMNS))
        )
        return TorchSetScores(rows, columns, self.pooling, self.gamma, not self.turned, self.bound)

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> Scores:
        """The scores of these queries and candidates only."""
        rows, columns = self._positions(queries, candidates)
        sides = _chosen(self.rows, rows), _chosen(self.columns, columns)
        return TorchSetScores(*sides, self.pooling, self.gamma, self.turned, self.bound)

    @property
    def block_rows(self) -> int:
        """Queries whose vectors fill some tiles."""
        each = len(self.rows.vectors) / max(len(self.rows.ids), 1)
        return max(1, int(TOGETHER * ROWS / max(each, 1)))

    @contextmanager
    def workers(self, count: int | None) -> Iterator[WorkerMap]:
        """Runs one block after the other: the device itself works in parallel."""
        yield map

    def block(self, start: int, stop: int, out: object = None) -> Tensor:
        """A tensor of scores, on the device."""
        torch = torch_module()
        block = torch.empty(stop - start, len(self.candidates), device=self.rows.vectors.device)
        for tile in self.rows.tiles(np.arange(start, stop)) if len(self.candidates) else ():
            block[torch.as_tensor(tile.places, device=block.device)] = self.scores_of(tile, self.all_items)
        return block

    def scores_of(self, queries: _Tile, items: _Items) -> Tensor:
        """The scores of some queries and candidates."""
        parts = []
        for tile in items.tiles:
            products = self._products(queries, tile).unflatten(0, queries.index.shape).unflatten(2, tile.index.shape)
            parts.append(self.pooled(products, queries, tile))
        return torch_module().cat(parts, dim=1)[:, items.order]

    def _products(self, queries: _Tile, items: _Tile) -> Tensor:
        left, right = queries.of(self.rows.vectors), items.of(self.columns.vectors)
        height = FEW if len(left) <= FEW and self.same_bits else ROWS
        return _shaped(left, right, height)

    @cached_property
    def same_bits(self) -> bool:
        """Whether products of `FEW` query vectors give the same bits as those of `ROWS`: tried with uneven numbers."""
        torch, rng = torch_module(), np.random.default_rng(0)
        size = ROWS + COLUMNS, self.rows.vectors.shape[1]
        drawn = np.ldexp(rng.standard_normal(size, dtype=np.float32), rng.integers(-6, 7, size, dtype=np.int32))
        vectors = torch.as_tensor(drawn, device=self.rows.vectors.device)
        left, right = vectors[:ROWS], vectors[ROWS:]
        return bool(torch.equal(_shaped(left[-FEW:], right, FEW), _shaped(left, right, ROWS)[-FEW:]))

    def pooled(self, products: Tensor, queries: _Tile, items: _Tile) -> Tensor:
        """Pools products of (queries, their vectors, items, their vectors)."""
        torch = torch_module()
        if self.pooling == "smooth":
            inside = queries.inside[:, :, None, None] & items.inside
            terms = torch.where(inside, self.gamma * products.double(), -np.inf)
            return (torch.logsumexp(terms, dim=(1, 3)) / self.gamma).float()
        if self.pooling == "max":
            return products.amax(dim=(1, 3))
        if self.turned:
            return _summed(products.amax(dim=1), items.inside, 2).float()
        return _summed(products.amax(dim=3), queries.inside[:, :, None], 1).float()

    @cached_property
    def all_items(self) -> _Items:
        """All candidates, in tiles."""
        tiles = list(self.columns.tiles(np.arange(len(self.candidates))))
        order = np.argsort(np.concatenate([tile.places for tile in tiles]), kind="stable")
        return _Items(tiles, torch_module().as_tensor(order, device=self.columns.vectors.device))


@dataclass(frozen=True, eq=False)
class _Items:
    """Candidates in tiles, and the order that gives their scores back in the order of the candidates."""

    tiles: list[_Tile]
    order: Tensor


def _summed(highest: Tensor, inside: Tensor, axis: int) -> Tensor:
    """The sum over the vectors that items have, in double precision."""
    return (highest * inside).sum(dim=axis, dtype=torch_module().float64)


def _shaped(left: Tensor, right: Tensor, height: int) -> Tensor:
    """Float32 products, computed with this many rows and `COLUMNS` columns."""
    with full_precision():
        return (_filled(left, height) @ _filled(right, COLUMNS).T)[: len(left), : len(right)]


def _filled(vectors: Tensor, rows: int) -> Tensor:
    """Vectors followed by rows of zeros, to the shape of every product."""
    pad = torch_module().nn.functional.pad
    return vectors if len(vectors) >= rows else pad(vectors, (0, 0, 0, rows - len(vectors)))


def _chosen(side: _Side, items: IntArray) -> _Side:
    """Some items of a side."""
    counts = np.diff(side.starts)[items]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.repeat(side.starts[items] - starts[:-1], counts) + np.arange(starts[-1])
    index = torch_module().as_tensor(rows, device=side.vectors.device)
    return _Side(side.ids[items], side.vectors[index], starts, side.span)
