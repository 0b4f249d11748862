"""Filter and verify on a GPU: bfloat16 tensor cores rule out candidates, and float32 tiles decide the rest.

The bound is that of `limner.core.lowprecision`, with the largest factors over all candidates; the passes are those of
`limner.scores.filtering`. Scores are read from products of one shape (`ROWS` by `COLUMNS`, padded with zeros), so that
a score depends only on its two vectors: `GridScores`. `device=` gives these with `LIMNER_LOW_PRECISION=always`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from limner.core import torch_kernels as _cuda
from limner.core.lowprecision import READ, Bounds, Rounded, accumulation, upward
from limner.scores.base import KINDS, LARGEST, Best, elsewhere
from limner.scores.device import TorchScores, full_precision
from limner.scores.filtering import ROUNDED, SHARE, Selective, Shifted, setting
from limner.scores.running import Block, Progress, Result, counted

ROWS, COLUMNS = 1024, 4096
"""The shape of every float32 product."""
CHUNK = 64
"""Values in a chunk; the maximum of a chunk is checked before its values."""
SPLIT = 3
"""Number of bfloat16 numbers that represent a float64 number with a relative error of 2^-24."""
Tensor = Any
Pairs = tuple[Tensor, Tensor]
"""Rows and columns, sorted by row."""


class GridScores(TorchScores):
    """Products of two tensors of vectors, in tiles of a fixed shape; see `TorchScores` for its arguments."""

    @property
    def block_rows(self) -> int:
        """The number of rows of a tile."""
        return ROWS

    def block(self, start: int, stop: int, out: Any = None) -> Tensor:
        """A tensor of scores, on the device."""
        if self.bound > LARGEST:
            return super().block(start, stop)
        return self.tiles(self.query_vectors[start:stop], self.candidate_vectors)

    def tiles(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Scores of up to `ROWS` query vectors and these candidate vectors, tile by tile."""
        torch = _cuda.torch_module()
        left, tile = _padded(rows, ROWS), torch.empty(ROWS, COLUMNS, device=rows.device)
        block = torch.empty(len(rows), len(columns), device=rows.device)
        with full_precision():
            for low in range(0, len(columns), COLUMNS):
                right = _padded(columns[low : low + COLUMNS], COLUMNS)
                torch.mm(left, right.T, out=tile)
                block[:, low : low + COLUMNS] = tile[: len(rows), : len(columns) - low]
        return block

    def pairs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Scores of single pairs, sorted by row."""
        torch = _cuda.torch_module()
        scores = torch.empty(len(rows), device=rows.device)
        starts = torch.arange(0, len(self.queries) + ROWS, ROWS, device=rows.device)
        ends = torch.searchsorted(rows, starts).tolist()
        for number, (low, high) in enumerate(pairwise(ends)):
            if high > low:
                first = number * ROWS
                places, at = columns[low:high].unique(return_inverse=True)
                block = self.tiles(self.query_vectors[first : first + ROWS], self.candidate_vectors[places])
                scores[low:high] = block[rows[low:high] - first, at]
        return scores

    def filter(self, workers: int | None) -> GPUFilter | None:
        """Low-precision filtering of these scores."""
        fits = self.bound < LARGEST / 2**20 and accumulation(self.query_vectors.shape[1]) < 0.125
        asked = setting() == "always" and not elsewhere(workers)
        return GPUFilter(self) if asked and fits and min(self.shape) > 0 else None

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: Progress | None = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`; finds the best with low-precision products."""
        if isinstance(consume, Selective) and (near := self.filter(workers)):
            return near.stream(consume, workers=workers, progress=progress)
        return super().stream(consume, workers=workers, progress=progress)

    def best_of_columns(self, k: int, *, progress: Progress | None = None) -> Any:
        """The k highest scores of every candidate, (k, candidates); None if too many pairs stay undecided."""
        torch, near = _cuda.torch_module(), self.T.filter(None)
        if near is None:
            return None
        parts = []
        for start in range(0, self.shape[1], ROWS):
            found = near.near(start, min(start + ROWS, self.shape[1])).candidates(k)
            if found is None:
                return None
            parts.append((found[0] + start, found[1]))
        candidates, queries = (torch.cat(each) for each in zip(*parts, strict=True))
        by_query = queries.sort(stable=True)
        owners = candidates[by_query.indices]
        values = self.pairs(by_query.values, owners)
        held, _ = _by_row(owners, values, self.shape[1])
        return _cuda.on_host(held.topk(k, dim=1).values.T.contiguous())


def _padded(vectors: Tensor, rows: int) -> Tensor:
    pad = _cuda.torch_module().nn.functional.pad
    return vectors if len(vectors) == rows else pad(vectors, (0, 0, 0, rows - len(vectors)))


def _by_row(rows: Tensor, values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The values of each row side by side, padded with -inf, and the position of each value."""
    torch = _cuda.torch_module()
    order = rows.sort(stable=True)
    many = torch.bincount(rows, minlength=count)
    place = torch.arange(len(rows), device=rows.device) - (many.cumsum(0) - many)[order.values]
    held = torch.full((count, max(int(many.max()), 1)), -np.inf, dtype=values.dtype, device=values.device)
    held[order.values, place] = values[order.indices]
    return held, place


def rounded(vectors: Tensor) -> tuple[Tensor, Rounded]:
    """Vectors in bfloat16, on the device, and their lengths (see `Rounded`, here without bits)."""
    torch, parts, lengths = _cuda.torch_module(), [], []
    for rows in vectors.split(8192):
        near = rows.bfloat16()
        near = torch.where(near.abs() < 2.0**-126, torch.zeros_like(near), near)
        wide = rows.double(), near.double(), rows.double() - near.double()
        lengths.append(torch.stack([torch.linalg.vector_norm(each, dim=1) for each in wide]))
        parts.append(near)
    exact = 1 + (vectors.shape[1] + 4) * 2.0**-52
    found = (upward(each) for each in _cuda.on_host(torch.cat(lengths, dim=1)) * exact)
    return torch.cat(parts), Rounded(np.empty((0, vectors.shape[1]), np.uint16), *found)


@dataclass(frozen=True, eq=False)
class GPUFilter:
    """Filter and verify for scores on a GPU."""

    scores: GridScores

    @cached_property
    def columns(self) -> tuple[Tensor, Rounded]:
        """The candidates in bfloat16; the last chunk is padded with zeros."""
        near, lengths = rounded(self.scores.candidate_vectors)
        return _padded(near, -(-len(near) // CHUNK) * CHUNK), lengths

    def near(self, start: int, stop: int) -> GPUNear:
        """The low-precision products of some rows."""
        near, lengths = rounded(self.scores.query_vectors[start:stop])
        return GPUNear(start, self.scores, near, self.columns[0], Bounds.of(lengths, self.columns[1]))

    def stream(self, consume: Any, *, workers: int | None = None, progress: Progress | None = None) -> Iterator[object]:
        """Like `Scores.stream` for a `Selective` consumer; blocks with too many undecided pairs are read in float32."""
        n = self.scores.shape[0]

        def work(start: int) -> Any:
            stop = min(start + ROWS, n)
            found = consume.from_near(self.near(start, stop))
            return consume(start, self.scores.block(start, stop)) if found is None else found

        yield from counted(map(work, range(0, n, ROWS)), ROWS, n, progress)


@dataclass(frozen=True, eq=False)
class GPUNear:
    """Some rows and all columns in bfloat16, and the decisions that their products allow with certainty."""

    start: int
    scores: GridScores
    rows: Tensor
    columns: Tensor
    bounds: Bounds

    @property
    def vectors(self) -> Tensor:
        """The query vectors."""
        return self.scores.query_vectors[self.start : self.start + len(self.rows)]

    def best(self, choose: Best) -> tuple[Any, Any] | None:
        """Gives the same result as `choose` on the float32 block."""
        return self._chosen(choose, self.candidates(choose.k))

    def best_shifted(self, choose: Best, shifted: Shifted) -> tuple[object, object] | None:
        """Gives the same result as `choose` on the shifted float32 block."""
        found = [self.candidates(choose.k, shifted)]
        if shifted.own:
            found.append(self.candidates(shifted.own))
        return self._chosen(choose, *found, apply=shifted.apply)

    def above(self, *_: object) -> None:
        """Always None: ranks are counted in float32 on a GPU."""

    def _chosen(self, choose: Best, *found: Pairs | None, apply: Any = None) -> tuple[object, object] | None:
        told = [pairs[1] for pairs in found if pairs is not None]
        if len(told) < len(found):
            return None
        places = _cuda.torch_module().cat(told).unique()
        block, host = self.scores.tiles(self.vectors, self.scores.candidate_vectors[places]), _cuda.on_host(places)
        indices, kept = choose(self.start, block if apply is None else apply(block, host))
        return host[indices].astype(np.int32), kept

    def candidates(self, k: int, shifted: Shifted | None = None) -> Pairs | None:
        """Pairs that may be among the k best of their row; None if there are too many."""
        width = self.scores.shape[1]
        k, chunks = min(k, width), self.columns.shape[0] // CHUNK
        if chunks <= k:
            return None
        products = self._products(shifted)
        products[:, width:] = -np.inf
        body = products.unflatten(1, (chunks, CHUNK))
        tops, reach = body.amax(dim=2).float(), self._reach(shifted)[:, None]
        least = tops.topk(k, dim=1).values[:, -1:]
        floor = least - READ * least.abs() - reach
        rows, which = (tops + READ * tops.abs() + reach >= floor).nonzero(as_tuple=True)
        inside = body[rows, which].float()
        near, at = (inside + READ * inside.abs() + reach[rows] >= floor[rows]).nonzero(as_tuple=True)
        rows, columns = rows[near], which[near] * CHUNK + at
        if len(rows) > len(self.rows) * max(width // SHARE, 256):
            return None
        return self._closer(rows, columns, k, shifted)

    def _closer(self, rows: Tensor, columns: Tensor, k: int, shifted: Shifted | None) -> Pairs:
        """The pairs that are still undecided after products in double precision."""
        torch = _cuda.torch_module()
        ours, theirs = self.vectors, self.scores.candidate_vectors
        parts = zip(rows.split(65_536), columns.split(65_536), strict=True)
        exact = torch.cat([(ours[r].double() * theirs[c].double()).sum(dim=1) for r, c in parts])
        close_rows, close_columns, tiny = (self._sent(x) for x in (*self.bounds.close, self.bounds.query[:, 2]))
        reach = close_rows[rows] * close_columns[columns] + tiny[rows]
        if shifted is not None:
            exact = shifted.scale * exact - self._sent(shifted.shift)[columns]
            reach = shifted.scale * reach + self._rounding(shifted)
        held, _ = _by_row(rows, exact - reach, len(self.rows))
        kept = exact + reach >= held.topk(k, dim=1).values[:, -1][rows]
        return rows[kept], columns[kept]

    def _products(self, shifted: Shifted | None) -> Tensor:
        """Products in bfloat16; a shift is subtracted by `SPLIT` extra columns."""
        torch = _cuda.torch_module()
        if shifted is None:
            return low_products(self.rows, self.columns)
        rest, parts = self._sent(shifted.shift), []
        for _ in range(SPLIT):
            parts.append(rest.bfloat16())
            rest = rest - parts[-1].double()
        pad = torch.zeros(len(self.columns) - len(rest), SPLIT, dtype=torch.bfloat16, device=rest.device)
        right = torch.cat([self.columns, torch.cat([torch.stack(parts, dim=1), pad])], dim=1)
        left = torch.cat([self.rows * shifted.scale, -torch.ones_like(self.rows[:, :1]).expand(-1, SPLIT)], dim=1)
        return low_products(left, right)

    def _reach(self, shifted: Shifted | None) -> Tensor:
        """The bound E of every row, maximised over all candidates and rounded up."""
        query, candidate = self.bounds.query.astype(np.float64), self.bounds.candidate.max(axis=1).astype(np.float64)
        reach = query[:, 0] * candidate[0] + query[:, 1] * candidate[1] + query[:, 2]
        if shifted is not None:
            largest = float(np.abs(shifted.shift).max())
            summed = (accumulation(self.rows.shape[1] + SPLIT) * 1.02 + 2.0**-20) * largest
            more = (
                (accumulation(self.rows.shape[1] + SPLIT) - accumulation(self.rows.shape[1])) * self.scores.bound * 1.1
            )
            reach = shifted.scale * (reach + more) + summed + self._rounding(shifted)
        return self._sent(upward(reach * (1 + 2.0**-12)))

    def _rounding(self, shifted: Shifted) -> float:
        return float(ROUNDED * (shifted.scale * self.scores.bound + np.abs(shifted.shift).max()))

    def _sent(self, values: object) -> Tensor:
        return _cuda.torch_module().as_tensor(np.ascontiguousarray(values), device=self.rows.device)


def low_products(rows: Tensor, columns: Tensor) -> Tensor:
    """bfloat16 products of bfloat16 vectors; on the CPU, in float32 and then rounded, for tests."""
    if rows.device.type == "cpu":
        return (rows.float() @ columns.float().T).bfloat16()
    with _whole_sums():
        return rows @ columns.T


@contextmanager
def _whole_sums() -> Iterator[None]:
    """Sums bfloat16 products entirely in float32, whatever the global setting of torch."""
    settings = _cuda.torch_module().backends.cuda.matmul
    before = settings.allow_bf16_reduced_precision_reduction
    settings.allow_bf16_reduced_precision_reduction = False
    try:
        yield
    finally:
        settings.allow_bf16_reduced_precision_reduction = before


def _kind() -> type[TorchScores]:
    """`GridScores` with its filter, if requested; on a GPU it is not chosen automatically."""
    return GridScores if setting() == "always" else TorchScores


@KINDS.register("tensors")
def of_tensors(*given: Any, **options: Any) -> TorchScores:
    """Like `TorchScores.of`."""
    return _kind().of(*given, **options)


@KINDS.register("sent")
def sent(*given: Any, **options: Any) -> TorchScores:
    """Like `TorchScores.sent`."""
    return _kind().sent(*given, **options)
