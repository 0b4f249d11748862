"""Filter and verify on a GPU: bfloat16 tensor cores rule out candidates, and float32 tiles decide the rest.

The bound is that of `limner.core.lowprecision`, with the largest factors over all candidates; the passes are those of
`limner.scores.filtering`. Scores are read from products of one shape (`TILES` tiles of `ROWS` by `COLUMNS`), so that a
score depends only on its two vectors: `GridScores`. `device=` gives these with `LIMNER_LOW_PRECISION=always`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from threading import local
from typing import Any

import numpy as np

from limner.core import torch_kernels as _cuda
from limner.core.lowprecision import READ, Bounds, Rounded, accumulation, upward
from limner.core.progress import Progress
from limner.scores.base import KINDS, LARGEST, Best, elsewhere
from limner.scores.device import TorchScores, full_precision
from limner.scores.device_products import keeps_bound, low_products, whole_sums
from limner.scores.filtering import Attempts, Selective, setting
from limner.scores.near import SHARE
from limner.scores.running import Block, Result, counted
from limner.scores.shifted import BestShifted, Shifted

ROWS, COLUMNS, TILES = 128, 512, 32
"""The shape of every float32 product: a tile, and the number of tiles that are computed together."""
GROUPS = 8
"""Tiles above each other in a block of float32 scores."""
CHUNK = 64
"""Values in a chunk, evenly spaced in a row; the maximum of a chunk is checked before its values."""
SPLIT = 3
"""Number of bfloat16 numbers that represent a float64 number with a relative error of 2^-24."""
AT_ONCE, MOST = 1 << 30, 64
"""Low-precision products in a block, two gigabytes of bfloat16, and the largest number of tiles above each other."""
SMALL = 64
"""A GPU has at least this many bytes for every low-precision product of a block."""
BLOCKS = 2
"""Blocks at once on a GPU."""
PRODUCTS = 1 << 16
"""Pairs whose products are computed at once."""
ALIGNED = 8
"""Tensor cores are fast for vectors whose length is a multiple of this."""
Tensor = Any
Pairs = tuple[Tensor, Tensor]
"""Rows and columns, sorted by row."""


class GridScores(TorchScores):
    """Products of two tensors of vectors, in tiles of a fixed shape; see `TorchScores` for its arguments."""

    @property
    def block_rows(self) -> int:
        """The number of rows of a block: several tiles."""
        return GROUPS * ROWS

    def block(self, start: int, stop: int, out: object = None) -> Tensor:
        """A tensor of scores, on the device."""
        if self.bound > LARGEST:
            return super().block(start, stop)
        torch, width, span = _cuda.torch_module(), len(self.candidates), TILES * COLUMNS
        block = torch.empty(stop - start, width, device=self.query_vectors.device)
        for low in range(start, stop, ROWS):
            rows = _padded(self.query_vectors[low : min(low + ROWS, stop)], ROWS)
            left, here = rows.expand(TILES, -1, -1).contiguous(), slice(low - start, low - start + ROWS)
            for first in range(0, width, span):
                right = _padded(self.candidate_vectors[first : first + span], span).unflatten(0, (TILES, COLUMNS))
                found = tiles(left, right).transpose(0, 1)[: stop - low]
                wanted = block[here, first : first + span]
                if wanted.shape[1] == span:
                    wanted.unflatten(1, (TILES, COLUMNS)).copy_(found)
                else:
                    wanted.copy_(found.flatten(1)[:, : width - first])
        return block

    def pairs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Scores of single pairs, sorted by row."""
        torch, step = _cuda.torch_module(), MOST * ROWS
        starts = torch.arange(0, len(self.queries) + step, step, device=rows.device)
        ends = torch.searchsorted(rows, starts).tolist()
        parts = [self._pairs(rows[low:high], columns[low:high]) for low, high in pairwise(ends) if high > low]
        return torch.cat(parts) if parts else torch.empty(0, device=rows.device)

    def _pairs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The columns that a group of `ROWS` rows needs are put side by side and fill the tiles of that group."""
        torch, width = _cuda.torch_module(), len(self.candidates)
        keys, at = (rows // ROWS * width + columns).unique(return_inverse=True)
        groups = keys // width
        place = torch.arange(len(keys), device=rows.device) - torch.searchsorted(groups, groups)
        slot = place % COLUMNS
        tile = (slot == 0).cumsum(0) - 1
        count = -(-(int(tile[-1]) + 1) // TILES) * TILES
        group, column = (torch.zeros(count, n, dtype=torch.int64, device=rows.device) for n in (1, COLUMNS))
        group[tile, 0], column[tile, slot] = groups, keys % width
        row = (group * ROWS + torch.arange(ROWS, device=rows.device)).clamp(max=len(self.queries) - 1)
        found = [
            tiles(self.query_vectors[r], self.candidate_vectors[c])
            for r, c in zip(row.split(TILES), column.split(TILES), strict=True)
        ]
        return torch.cat(found)[tile[at], rows % ROWS, slot[at]]

    def filter(self, workers: int | None, consume: Selective) -> GPUFilter | None:
        """Low-precision filtering of these scores, for lists of the best; ranks are counted in float32."""
        fits = self.bound < LARGEST / 2**20 and accumulation(self.query_vectors.shape[1]) < 0.125
        shifted = consume.shifted.more == 0 if isinstance(consume, BestShifted) else isinstance(consume, Best)
        asked = setting() == "always" and not elsewhere(workers) and shifted
        if not (asked and fits and min(self.shape) > 0):
            return None
        d, device = self.query_vectors.shape[1], self.query_vectors.device
        lengths = (d, d + SPLIT + _empty(d)) if isinstance(consume, BestShifted) else (d,)
        return GPUFilter(self) if all(keeps_bound(device, length) for length in lengths) else None

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: Progress | None = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`; finds the best with low-precision products."""
        if isinstance(consume, Selective) and (near := self.filter(workers, consume)):
            return near.stream(consume, workers=workers, progress=progress)
        return super().stream(consume, workers=workers, progress=progress)

    def best_of_columns(self, k: int, *, progress: Progress | None = None) -> Any:
        """The k highest scores of every candidate, (k, candidates); None if too many pairs stay undecided."""
        if self.filter(None, Best(k)) is None:
            return None
        torch, _ = _cuda.torch_module(), self.rounded
        near = GPUFilter(self.T)
        parts = list(near.each(lambda block: block.candidates(k)))
        told = [part for part in parts if part is not None]
        if len(told) < len(parts):
            return None
        candidates = torch.cat([rows + start for start, (rows, _) in zip(near.starts, told, strict=True)])
        queries = torch.cat([columns for _, columns in told])
        by_query = queries.sort(stable=True)
        values = torch.empty(len(queries), device=queries.device)
        values[by_query.indices] = self.pairs(by_query.values, candidates[by_query.indices])
        held = _side_by_side(candidates, self.shape[1], (values, -np.inf))[0]
        return _cuda.on_host(held.topk(k, dim=1).values.T.contiguous())

    @property
    def T(self) -> GridScores:
        """The transposed scores, with the same vectors in bfloat16."""
        turned = super().T
        if "rounded" in self.__dict__:
            turned.__dict__["rounded"] = self.rounded[::-1]
        return turned

    @cached_property
    def rounded(self) -> tuple[RoundedTensor, RoundedTensor]:
        """Queries and candidates in bfloat16."""
        return RoundedTensor.of(self.query_vectors), RoundedTensor.of(self.candidate_vectors)


def tiles(rows: Tensor, columns: Tensor) -> Tensor:
    """The float32 products of `TILES` tiles: (tiles, `ROWS`, d) and (tiles, `COLUMNS`, d) to (tiles, rows, columns)."""
    with full_precision():
        return _cuda.torch_module().bmm(rows, columns.transpose(1, 2))


def _empty(dimensions: int) -> int:
    """Columns of zeros behind those of a shift, so that the length of all is `ALIGNED`."""
    return -(dimensions + SPLIT) % ALIGNED


def _padded(vectors: Tensor, rows: int) -> Tensor:
    pad = _cuda.torch_module().nn.functional.pad
    return vectors if len(vectors) == rows else pad(vectors, (0, 0, 0, rows - len(vectors)))


def _side_by_side(rows: Tensor, count: int, *given: tuple[Tensor, float]) -> list[Tensor]:
    """For sorted rows: the values of each row side by side, (count, most); shorter rows end with the fill value."""
    torch = _cuda.torch_module()
    ends = torch.searchsorted(rows, torch.arange(count + 1, device=rows.device))
    place = torch.arange(len(rows), device=rows.device) - ends[rows]
    shape, found = (count, max(int(ends.diff().max()), 1)), []
    for values, fill in given:
        held = torch.full(shape, fill, dtype=values.dtype, device=values.device)
        held[rows, place] = values
        found.append(held)
    return found


@dataclass(frozen=True, eq=False)
class RoundedTensor:
    """Vectors in bfloat16 on the device, padded with zeros to whole chunks, and their lengths (without bits)."""

    near: Tensor
    lengths: Rounded

    @classmethod
    def of(cls, vectors: Tensor) -> RoundedTensor:
        """Rounds like `Rounded.bfloat16`."""
        torch, parts, lengths = _cuda.torch_module(), [], []
        for rows in vectors.split(8192):
            near = rows.bfloat16()
            near = torch.where(near.abs() < 2.0**-126, torch.zeros_like(near), near)
            wide = rows.double(), near.double(), rows.double() - near.double()
            lengths.append(torch.stack([torch.linalg.vector_norm(each, dim=1) for each in wide]))
            parts.append(near)
        exact = 1 + (vectors.shape[1] + 4) * 2.0**-52
        found = (upward(each) for each in _cuda.on_host(torch.cat(lengths, dim=1)) * exact)
        padded = _padded(torch.cat(parts), -(-len(vectors) // CHUNK) * CHUNK)
        return cls(padded, Rounded(np.empty((0, vectors.shape[1]), np.uint16), *found))


@dataclass(frozen=True, eq=False)
class GPUFilter:
    """Filter and verify for scores on a GPU. What does not depend on the block is computed once per pass."""

    scores: GridScores
    _sides: dict[Shifted, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    @property
    def starts(self) -> range:
        """The first row of every block; a block has as many rows as `AT_ONCE` allows, in whole tiles."""
        (n, width), device = self.scores.shape, self.scores.query_vectors.device
        whole = AT_ONCE if device.type == "cpu" else _cuda.torch_module().cuda.mem_get_info(device)[1] // SMALL
        return range(0, n, ROWS * max(1, min(min(AT_ONCE, whole) // max(width, 1) // ROWS, MOST)))

    def near(self, start: int) -> GPUNear:
        """The low-precision products of a block of rows."""
        return GPUNear(start, min(start + self.starts.step, self.scores.shape[0]), self)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of all rows."""
        queries, candidates = self.scores.rounded
        return Bounds.of(queries.lengths, candidates.lengths)

    @cached_property
    def close(self) -> tuple[Tensor, Tensor, Tensor]:
        """Twice the factors that bound the error of a sum in float32: one for the tile, one for the sum itself."""
        rows, columns = self.bounds.close
        return self.sent(2 * rows), self.sent(columns), self.sent(2 * self.bounds.query[:, 2].astype(np.float64))

    @cached_property
    def plain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and columns in bfloat16, and the bound E of every row, maximised over all candidates and rounded up."""
        queries, candidates = self.scores.rounded
        return queries.near, candidates.near, self._reach(1.0, 0.0)

    def shifted(self, shifted: Shifted) -> tuple[Tensor, Tensor, Tensor]:
        """The same for shifted scores; computed once per pass."""
        if shifted not in self._sides:
            self._sides[shifted] = self._shifted(shifted)
        return self._sides[shifted]

    def _shifted(self, shifted: Shifted) -> tuple[Tensor, Tensor, Tensor]:
        """A shift is subtracted by `SPLIT` extra columns, padded for tensor cores."""
        torch, (queries, candidates) = _cuda.torch_module(), self.scores.rounded
        rest, parts = self.sent(shifted.shift), []
        for _ in range(SPLIT):
            parts.append(rest.bfloat16())
            rest = rest - parts[-1].double()
        empty = _empty(candidates.near.shape[1])
        right = torch.nn.functional.pad(
            torch.stack(parts, dim=1), (0, empty, 0, len(candidates.near) - len(candidates.lengths.length))
        )
        left = torch.nn.functional.pad(queries.near.new_full((len(queries.near), SPLIT), -1), (0, empty))
        summed = accumulation(candidates.near.shape[1] + SPLIT)
        more = (summed - accumulation(candidates.near.shape[1])) * self.scores.bound * 1.1
        over = (summed * 1.02 + 2.0**-20) * float(np.abs(shifted.shift).max()) + self.rounding(shifted)
        reach = self._reach(shifted.scale, shifted.scale * more + over)
        return (
            torch.cat([queries.near * shifted.scale, left], dim=1),
            torch.cat([candidates.near, right], dim=1),
            reach,
        )

    def _reach(self, scale: float, more: float) -> Tensor:
        query, candidate = self.bounds.query.astype(np.float64), self.bounds.candidate.max(axis=1).astype(np.float64)
        reach = query[:, 0] * candidate[0] + query[:, 1] * candidate[1] + query[:, 2]
        return self.sent(upward((scale * reach + more) * (1 + 2.0**-12)))

    def rounding(self, shifted: Shifted) -> float:
        """How far rounding can move a shifted score."""
        return shifted.rounding(self.scores.bound)

    def sent(self, values: object) -> Tensor:
        """Values on the device."""
        device = self.scores.query_vectors.device
        return _cuda.torch_module().as_tensor(np.ascontiguousarray(values), device=device)

    def stream(self, consume: Any, *, workers: int | None = None, progress: Progress | None = None) -> Iterator[object]:
        """Like `Scores.stream` for a `Selective` consumer; blocks with too many undecided pairs are read in float32."""
        n, attempts = self.scores.shape[0], Attempts()

        def work(near: GPUNear) -> list[tuple[int, object]]:
            found = consume.from_near(near) if attempts.go_on else None
            attempts.took(found is not None)
            if found is not None:
                return [(near.stop, found)]
            step = self.scores.block_rows
            ends = [(low, min(low + step, near.stop)) for low in range(near.start, near.stop, step)]
            return [(high, consume(low, self.scores.block(low, high))) for low, high in ends]

        for found in self.each(work, getattr(consume, "shifted", None)):
            for stop, result in found:
                yield from counted([result], stop, n, progress)

    def each(self, ask: Callable[[GPUNear], Result], shifted: Shifted | None = None) -> Iterator[Result]:
        """The results of every block, in order. On a GPU, one block computes while another waits for the host."""
        torch, device, own = _cuda.torch_module(), self.scores.query_vectors.device, local()
        _ = self.plain, self.close, shifted and self.shifted(shifted)
        with whole_sums(), full_precision():
            if device.type == "cpu":
                yield from map(ask, map(self.near, self.starts))
                return
            main = torch.cuda.current_stream(device)

            def begin() -> None:
                own.stream = torch.cuda.Stream(device)
                own.stream.wait_stream(main)

            def work(start: int) -> Result:
                with torch.cuda.device(device), torch.cuda.stream(own.stream):
                    found = ask(self.near(start))
                    own.stream.synchronize()
                    return found

            pool = ThreadPoolExecutor(BLOCKS, initializer=begin)
            try:
                yield from pool.map(work, self.starts)
            finally:
                pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class GPUNear:
    """Some rows and all columns in bfloat16, and the decisions that their products allow with certainty."""

    start: int
    stop: int
    filter: GPUFilter

    @property
    def scores(self) -> GridScores:
        """The scores."""
        return self.filter.scores

    def best(self, choose: Best) -> tuple[Any, Any] | None:
        """Gives the same result as `choose` on the float32 block."""
        found = self.candidates(choose.k)
        return None if found is None else self._chosen(choose, *found)

    def best_shifted(self, choose: Best, shifted: Shifted) -> tuple[object, object] | None:
        """Gives the same result as `choose` on the shifted float32 block."""
        found = [self.candidates(choose.k, shifted)]
        if shifted.own and found[0] is not None:
            found.append(self.candidates(shifted.own))
        told = [pairs for pairs in found if pairs is not None]
        if len(told) < len(found):
            return None
        width = self.scores.shape[1]
        keys = _cuda.torch_module().cat([rows * width + columns for rows, columns in told]).unique()
        return self._chosen(choose, keys // width, keys % width, apply=shifted.apply)

    def _chosen(self, choose: Best, rows: Tensor, columns: Tensor, apply: Any = None) -> tuple[object, object]:
        """The choice among the pairs of every row; equal scores keep candidate order, because the pairs are sorted."""
        scores = self.scores.pairs(rows + self.start, columns)
        held, places = _side_by_side(rows, self.stop - self.start, (scores, -np.inf), (columns, 0))
        host = _cuda.on_host(places)
        indices, kept = choose(self.start, held if apply is None else apply(held, host, self.start))
        return np.take_along_axis(host, indices, axis=1).astype(np.int32), kept

    def candidates(self, k: int, shifted: Shifted | None = None) -> Pairs | None:
        """Pairs that may be among the k best of their row; None if there are too many."""
        left, right, reach = self.filter.plain if shifted is None else self.filter.shifted(shifted)
        width, reach = self.scores.shape[1], reach[self.start : self.stop, None]
        k, chunks = min(k, width), len(right) // CHUNK
        if chunks <= k:
            return None
        products = low_products(left[self.start : self.stop], right)
        products[:, width:] = -np.inf
        body = products.unflatten(1, (CHUNK, chunks))
        tops = body.amax(dim=1).float()
        least = tops.topk(k, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
        floor = least - READ * least.abs() - reach
        rows, which = (tops + READ * tops.abs() + reach >= floor).nonzero(as_tuple=True)
        inside = body[rows, :, which].float()
        near, at = (inside + READ * inside.abs() + reach[rows] >= floor[rows]).nonzero(as_tuple=True)
        if len(near) > len(tops) * max(width // SHARE, 256):
            return None
        keys = (rows[near] * width + at * chunks + which[near]).sort().values
        return self._closer(keys // width, keys % width, k, shifted)

    def _closer(self, rows: Tensor, columns: Tensor, k: int, shifted: Shifted | None) -> Pairs:
        """The pairs that are still undecided after products in float32, by the bound of a sum in any order."""
        torch = _cuda.torch_module()
        ours, theirs = self.scores.query_vectors[self.start : self.stop], self.scores.candidate_vectors
        parts = zip(rows.split(PRODUCTS), columns.split(PRODUCTS), strict=True)
        near = torch.cat([(ours[r] * theirs[c]).sum(dim=1) for r, c in parts]).double()
        close_rows, close_columns, tiny = self.filter.close
        reach = close_rows[self.start :][rows] * close_columns[columns] + tiny[self.start :][rows]
        if shifted is not None:
            near = shifted.scale * near - self.filter.sent(shifted.shift)[columns]
            reach = shifted.scale * reach + self.filter.rounding(shifted)
        held = _side_by_side(rows, self.stop - self.start, (near - reach, -np.inf))[0]
        kept = (near + reach >= held.topk(k, dim=1).values[:, -1][rows]).nonzero()[:, 0]
        return rows[kept], columns[kept]


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
