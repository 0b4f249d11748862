"""Filter and verify on a GPU: bfloat16 tensor cores rule out candidates, and float32 tiles decide the rest.

The bound is that of `rounding_bounds`, with the largest factors over all candidates; the passes are those of
`cpu_filter`. What is left is computed in tiles of one shape (`TILES` tiles of `ROWS` by `COLUMNS`). The
filter is used only where these have the bits of the scores' own blocks, so that lists and scores equal those in float32
bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from threading import local
from typing import Any, Protocol

import numpy as np

from limner.core.arrays import Array, Float32
from limner.core.progress import ProgressLike, as_progress
from limner.core.tensors import full_precision, on_host, torch_module
from limner.scores.base import LARGEST, Best
from limner.scores.lowprecision.cpu_filter import Attempts, ListRequest, Lists, Selective, ShiftedListRequest
from limner.scores.lowprecision.gpu_products import has_units, keeps_bound, low_products, whole_sums
from limner.scores.lowprecision.product_block import SHARE, Shifted
from limner.scores.lowprecision.rounding_bounds import READ, Bounds, Rounded, accumulation, upward
from limner.scores.parallel_blocks import Block, Result, counted

LEAST = 1 << 38
"""A pass with fewer multiplications is too short to benefit: as measured on an H200, where a fifth of it did not."""
ROWS, COLUMNS, TILES = 128, 512, 32
"""The shape of every product that verifies: a tile, and the number of tiles that are computed together."""
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


class TensorProducts(Protocol):
    """The interface that the filter needs; `TorchScores` implements it."""

    @property
    def query_vectors(self) -> Tensor:
        """Vectors of the queries."""

    @property
    def candidate_vectors(self) -> Tensor:
        """Vectors of the candidates."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, candidates)."""

    @property
    def bound(self) -> float:
        """An upper bound of all scores."""

    @property
    def block_rows(self) -> int:
        """The number of rows of every float32 product."""

    def block(self, start: int, stop: int) -> Tensor:
        """Scores from float32 products."""

    @property
    def T(self) -> TensorProducts:
        """The transposed scores."""


def gpu_filter_of(scores: TensorProducts, consume: Selective) -> GPUFilter | None:
    """A filter for lists of the best of these scores, if it saves time; None to use float32. Ranks are in float32."""
    vectors, (n, m) = scores.query_vectors, scores.shape
    shifted = consume.shifted.more == 0 if isinstance(consume, ShiftedListRequest) else isinstance(consume, ListRequest)
    fits = scores.bound < LARGEST / 2**20 and accumulation(vectors.shape[1]) < 0.125 and min(n, m) > 0
    if not (shifted and fits and saves_time(scores) and keeps_bound(vectors.device, vectors.shape[1])):
        return None
    return GPUFilter(scores) if same_bits(vectors.device, scores.block_rows, m, vectors.shape[1]) else None


def saves_time(scores: TensorProducts) -> bool:
    """Whether the device has bfloat16 units, and there is enough to multiply."""
    (n, m), vectors = scores.shape, scores.query_vectors
    return has_units(vectors.device) and n * m * int(vectors.shape[1]) >= LEAST


@cache
def same_bits(device: object, rows: int, columns: int, dimensions: int) -> bool:
    """Whether `tiles` have the bits of a product of this shape: tried with uneven numbers, once per shape."""
    torch = torch_module()
    generator = torch.Generator(device).manual_seed(0)

    def drawn(count: int) -> Tensor:
        size = torch.randint(-6, 7, (count, dimensions), generator=generator, device=device)
        mantissa: Tensor = torch.randn(count, dimensions, generator=generator, device=device)
        return mantissa * torch.exp2(size.float())

    left, right = drawn(rows), drawn(columns)
    with full_precision():
        product = left @ right.T
    for low in {0, max(rows - ROWS, 0)}:
        part = _padded(left[low : low + ROWS], ROWS).expand(TILES, -1, -1).contiguous()
        for first in range(0, columns, TILES * COLUMNS):
            side = _padded(right[first : first + TILES * COLUMNS], TILES * COLUMNS).unflatten(0, (TILES, COLUMNS))
            tiled = tiles(part, side).transpose(0, 1).flatten(1)[: rows - low, : columns - first]
            if not torch.equal(tiled, product[low : low + ROWS, first : first + TILES * COLUMNS]):
                return False
    return True


def exact_pairs(scores: TensorProducts, rows: Tensor, columns: Tensor) -> Tensor:
    """Scores of single pairs, sorted by row, from tiles."""
    torch, step = torch_module(), MOST * ROWS
    starts = torch.arange(0, scores.shape[0] + step, step, device=rows.device)
    ends = torch.searchsorted(rows, starts).tolist()
    parts = [_pairs(scores, rows[low:high], columns[low:high]) for low, high in pairwise(ends) if high > low]
    return torch.cat(parts) if parts else torch.empty(0, device=rows.device)


def _pairs(scores: TensorProducts, rows: Tensor, columns: Tensor) -> Tensor:
    """The columns that a group of `ROWS` rows needs are put side by side and fill the tiles of that group."""
    torch, (height, width) = torch_module(), scores.shape
    keys, at = (rows // ROWS * width + columns).unique(return_inverse=True)
    groups = keys // width
    place = torch.arange(len(keys), device=rows.device) - torch.searchsorted(groups, groups)
    slot = place % COLUMNS
    tile = (slot == 0).cumsum(0) - 1
    count = -(-(int(tile[-1]) + 1) // TILES) * TILES
    group, column = (torch.zeros(count, n, dtype=torch.int64, device=rows.device) for n in (1, COLUMNS))
    group[tile, 0], column[tile, slot] = groups, keys % width
    row = (group * ROWS + torch.arange(ROWS, device=rows.device)).clamp(max=height - 1)
    tiled = [
        tiles(scores.query_vectors[r], scores.candidate_vectors[c])
        for r, c in zip(row.split(TILES), column.split(TILES), strict=True)
    ]
    return torch.cat(tiled)[tile[at], rows % ROWS, slot[at]]


def tiles(rows: Tensor, columns: Tensor) -> Tensor:
    """The float32 products of `TILES` tiles: (tiles, `ROWS`, d) and (tiles, `COLUMNS`, d) to (tiles, rows, columns)."""
    with full_precision():
        return torch_module().bmm(rows, columns.transpose(1, 2))


def _empty(dimensions: int) -> int:
    """Columns of zeros behind those of a shift, so that the length of all is `ALIGNED`."""
    return -(dimensions + SPLIT) % ALIGNED


def _padded(vectors: Tensor, rows: int) -> Tensor:
    pad = torch_module().nn.functional.pad
    return vectors if len(vectors) == rows else pad(vectors, (0, 0, 0, rows - len(vectors)))


def _side_by_side(rows: Tensor, count: int, *given: tuple[Tensor, float]) -> list[Tensor]:
    """For sorted rows: the values of each row side by side, (count, most); shorter rows end with the fill value."""
    torch = torch_module()
    ends = torch.searchsorted(rows, torch.arange(count + 1, device=rows.device))
    place = torch.arange(len(rows), device=rows.device) - ends[rows]
    shape, filled = (count, max(int(ends.diff().max()), 1)), []
    for values, fill in given:
        table = torch.full(shape, fill, dtype=values.dtype, device=values.device)
        table[rows, place] = values
        filled.append(table)
    return filled


@dataclass(frozen=True, eq=False)
class RoundedTensor:
    """Vectors in bfloat16 on the device, padded with zeros to whole chunks, and their lengths (without bits)."""

    near: Tensor
    lengths: Rounded

    @classmethod
    def of(cls, vectors: Tensor) -> RoundedTensor:
        """Rounds to nearest, ties to even; numbers below 2^-126 become 0."""
        torch, parts, lengths = torch_module(), [], []
        for rows in vectors.split(8192):
            rounded = rows.bfloat16()
            rounded = torch.where(rounded.abs() < 2.0**-126, torch.zeros_like(rounded), rounded)
            wide = rows.double(), rounded.double(), rows.double() - rounded.double()
            lengths.append(torch.stack([torch.linalg.vector_norm(each, dim=1) for each in wide]))
            parts.append(rounded)
        exact = 1 + (vectors.shape[1] + 4) * 2.0**-52
        bounds = (upward(each) for each in on_host(torch.cat(lengths, dim=1)) * exact)
        padded = _padded(torch.cat(parts), -(-len(vectors) // CHUNK) * CHUNK)
        return cls(padded, Rounded(np.empty((0, vectors.shape[1]), np.int8), *bounds))


@dataclass(frozen=True, eq=False)
class GPUFilter:
    """Filter and verify for scores on a GPU. What does not depend on the block is computed once per pass.

    Args:
        scores: The scores to search.
        shared: The rounded vectors of queries and candidates, if a pass before has rounded them.
    """

    scores: TensorProducts
    shared: tuple[RoundedTensor, RoundedTensor] | None = None
    _sides: dict[Shifted, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)

    @cached_property
    def rounded(self) -> tuple[RoundedTensor, RoundedTensor]:
        """Queries and candidates in bfloat16."""
        if self.shared is not None:
            return self.shared
        return RoundedTensor.of(self.scores.query_vectors), RoundedTensor.of(self.scores.candidate_vectors)

    @property
    def starts(self) -> range:
        """The first row of every block; a block has as many rows as `AT_ONCE` allows, in whole tiles."""
        (n, width), device = self.scores.shape, self.scores.query_vectors.device
        memory_limit = AT_ONCE if device.type == "cpu" else torch_module().cuda.mem_get_info(device)[1] // SMALL
        return range(0, n, ROWS * max(1, min(min(AT_ONCE, memory_limit) // max(width, 1) // ROWS, MOST)))

    def products(self, start: int) -> GPUProductBlock:
        """The low-precision products of a block of rows."""
        return GPUProductBlock(start, min(start + self.starts.step, self.scores.shape[0]), self)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of all rows."""
        queries, candidates = self.rounded
        return Bounds.of(queries.lengths, candidates.lengths)

    @cached_property
    def close(self) -> tuple[Tensor, Tensor, Tensor]:
        """Twice the factors that bound the error of a sum in float32: one for the tile, one for the sum itself."""
        rows, columns = self.bounds.close
        return self.sent(2 * rows), self.sent(columns), self.sent(2 * self.bounds.query[:, 2].astype(np.float64))

    @cached_property
    def plain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and columns in bfloat16, and the bound E of every row, maximised over all candidates and rounded up."""
        queries, candidates = self.rounded
        return queries.near, candidates.near, self._reach(1.0, 0.0)

    def shifted(self, shifted: Shifted) -> tuple[Tensor, Tensor, Tensor]:
        """The same for shifted scores; computed once per pass."""
        if shifted not in self._sides:
            self._sides[shifted] = self._shifted(shifted)
        return self._sides[shifted]

    def _shifted(self, shifted: Shifted) -> tuple[Tensor, Tensor, Tensor]:
        """A shift is subtracted by `SPLIT` extra columns, padded for tensor cores."""
        torch, (queries, candidates) = torch_module(), self.rounded
        remainder, parts = self.sent(shifted.shift), []
        for _ in range(SPLIT):
            parts.append(remainder.bfloat16())
            remainder = remainder - parts[-1].double()
        empty = _empty(candidates.near.shape[1])
        right = torch.nn.functional.pad(
            torch.stack(parts, dim=1), (0, empty, 0, len(candidates.near) - len(candidates.lengths.length))
        )
        left = torch.nn.functional.pad(queries.near.new_full((len(queries.near), SPLIT), -1), (0, empty))
        summed = accumulation(candidates.near.shape[1] + SPLIT)
        longer_sums = (summed - accumulation(candidates.near.shape[1])) * self.scores.bound * 1.1
        over = (summed * 1.02 + 2.0**-20) * float(np.abs(shifted.shift).max()) + self.rounding(shifted)
        reach = self._reach(shifted.scale, shifted.scale * longer_sums + over)
        return (
            torch.cat([queries.near * shifted.scale, left], dim=1),
            torch.cat([candidates.near, right], dim=1),
            reach,
        )

    def _reach(self, scale: float, extra: float) -> Tensor:
        """The bound E of every row (see `Bounds`), times a scale, plus a further error; rounded up."""
        query, candidate = self.bounds.query.astype(np.float64), self.bounds.candidate.max(axis=1).astype(np.float64)
        reach = query[:, 0] * candidate[0] + query[:, 1] * candidate[1] + query[:, 2]
        return self.sent(upward((scale * reach + extra) * (1 + 2.0**-12)))

    def rounding(self, shifted: Shifted) -> float:
        """How far rounding can move a shifted score."""
        return shifted.rounding(self.scores.bound)

    def sent(self, values: object) -> Tensor:
        """Values on the device."""
        device = self.scores.query_vectors.device
        return torch_module().as_tensor(np.ascontiguousarray(values), device=device)

    def best_of_columns(self, k: int) -> Float32 | None:
        """The k highest scores of every candidate, (k, candidates); None if too many pairs stay undecided."""
        torch, (queries, candidates) = torch_module(), self.rounded
        turned = GPUFilter(self.scores.T, (candidates, queries))
        parts = list(turned.each(lambda block: block.candidates(k)))
        decided = [part for part in parts if part is not None]
        if len(decided) < len(parts):
            return None
        columns = torch.cat([rows + start for start, (rows, _) in zip(turned.starts, decided, strict=True)])
        rows = torch.cat([queries for _, queries in decided])
        by_query = rows.sort(stable=True)
        values = torch.empty(len(rows), device=rows.device)
        values[by_query.indices] = exact_pairs(self.scores, by_query.values, columns[by_query.indices])
        scores_by_column = _side_by_side(columns, self.scores.shape[1], (values, -np.inf))[0]
        return on_host(scores_by_column.topk(k, dim=1).values.T.contiguous())

    def stream(self, consume: Selective, *, workers: int | None = None, progress: ProgressLike = None) -> Iterator[Any]:
        """Like `Scores.stream` for a `Selective` consumer; blocks with too many undecided pairs are read in float32."""
        progress = as_progress(progress)
        n, attempts = self.scores.shape[0], Attempts()

        def work(products: GPUProductBlock) -> list[tuple[int, object]]:
            result = consume.from_products(products) if attempts.go_on else None
            attempts.took(result is not None)
            if result is not None:
                return [(products.stop, result)]
            step = self.scores.block_rows
            ends = [(low, min(low + step, products.stop)) for low in range(products.start, products.stop, step)]
            return [(high, consume(low, self.scores.block(low, high))) for low, high in ends]

        for results in self.each(work, getattr(consume, "shifted", None)):
            for stop, result in results:
                yield from counted([result], stop, n, progress)

    def each(self, ask: Callable[[GPUProductBlock], Result], shifted: Shifted | None = None) -> Iterator[Result]:
        """The results of every block, in order. On a GPU, one block computes while another waits for the host."""
        torch, device, thread_state = torch_module(), self.scores.query_vectors.device, local()
        _ = self.plain, self.close, shifted and self.shifted(shifted)
        with whole_sums(), full_precision():
            if device.type == "cpu":
                yield from map(ask, map(self.products, self.starts))
                return
            main = torch.cuda.current_stream(device)

            def begin() -> None:
                thread_state.stream = torch.cuda.Stream(device)
                thread_state.stream.wait_stream(main)

            def work(start: int) -> Result:
                with torch.cuda.device(device), torch.cuda.stream(thread_state.stream):
                    answer = ask(self.products(start))
                    thread_state.stream.synchronize()
                    return answer

            pool = ThreadPoolExecutor(BLOCKS, initializer=begin)
            try:
                yield from pool.map(work, self.starts)
            finally:
                pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class GPUProductBlock:
    """Some rows and all columns in bfloat16, and the decisions that their products allow with certainty."""

    start: int
    stop: int
    filter: GPUFilter

    @property
    def scores(self) -> TensorProducts:
        """The scores."""
        return self.filter.scores

    def best(self, choose: Best) -> Lists | None:
        """Gives the same result as `choose` on the float32 block."""
        pairs = self.candidates(choose.k)
        return None if pairs is None else self._chosen(choose, *pairs)

    def best_shifted(self, choose: Best, shifted: Shifted) -> Lists | None:
        """Gives the same result as `choose` on the shifted float32 block."""
        searches = [self.candidates(choose.k, shifted)]
        if shifted.own and searches[0] is not None:
            searches.append(self.candidates(shifted.own))
        decided = [pairs for pairs in searches if pairs is not None]
        if len(decided) < len(searches):
            return None
        width = self.scores.shape[1]
        keys = torch_module().cat([rows * width + columns for rows, columns in decided]).unique()
        return self._chosen(choose, keys // width, keys % width, apply=shifted.apply)

    def _chosen(
        self, choose: Best, rows: Tensor, columns: Tensor, apply: Callable[[Tensor, Array, int], Block] | None = None
    ) -> Lists:
        """The choice among the pairs of every row; equal scores keep candidate order, because the pairs are sorted."""
        scores = exact_pairs(self.scores, rows + self.start, columns)
        table, places = _side_by_side(rows, self.stop - self.start, (scores, -np.inf), (columns, 0))
        host = on_host(places)
        indices, best_scores = choose(self.start, table if apply is None else apply(table, host, self.start))
        return np.take_along_axis(host, indices, axis=1).astype(np.int32), best_scores

    def candidates(self, k: int, shifted: Shifted | None = None) -> Pairs | None:
        """Pairs that may be among the k best of their row; None if there are too many.

        The score of a product p is at most `READ` |p| (the rounding to bfloat16) and the reach of its row (the bound E)
        away from p. The maxima of the k best chunks are k products. So a pair is out if the most that its score can be
        is below the least that any of theirs can be.
        """
        left, right, reach = self.filter.plain if shifted is None else self.filter.shifted(shifted)
        width, reach = self.scores.shape[1], reach[self.start : self.stop, None]
        k, chunks = min(k, width), len(right) // CHUNK
        if chunks <= k:
            return None
        products: Tensor = low_products(left[self.start : self.stop], right)
        products[:, width:] = -np.inf
        body = products.unflatten(1, (CHUNK, chunks))
        tops = body.amax(dim=1).float()
        lowest_kept = tops.topk(k, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
        floor = lowest_kept - READ * lowest_kept.abs() - reach
        rows, chunk = (tops + READ * tops.abs() + reach >= floor).nonzero(as_tuple=True)
        inside = body[rows, :, chunk].float()
        entry, at = (inside + READ * inside.abs() + reach[rows] >= floor[rows]).nonzero(as_tuple=True)
        if len(entry) > len(tops) * max(width // SHARE, 256):
            return None
        keys = (rows[entry] * width + at * chunks + chunk[entry]).sort().values
        return self._closer(keys // width, keys % width, k, shifted)

    def _closer(self, rows: Tensor, columns: Tensor, k: int, shifted: Shifted | None) -> Pairs:
        """The pairs that are still undecided after products in float32, by the bound of a sum in any order."""
        torch = torch_module()
        queries, candidates = self.scores.query_vectors[self.start : self.stop], self.scores.candidate_vectors
        parts = zip(rows.split(PRODUCTS), columns.split(PRODUCTS), strict=True)
        products = torch.cat([(queries[r] * candidates[c]).sum(dim=1) for r, c in parts]).double()
        close_rows, close_columns, tiny = self.filter.close
        reach = close_rows[self.start :][rows] * close_columns[columns] + tiny[self.start :][rows]
        if shifted is not None:
            products = shifted.scale * products - self.filter.sent(shifted.shift)[columns]
            reach = shifted.scale * reach + self.filter.rounding(shifted)
        by_row = _side_by_side(rows, self.stop - self.start, (products - reach, -np.inf))[0]
        chosen = (products + reach >= by_row.topk(k, dim=1).values[:, -1][rows]).nonzero()[:, 0]
        return rows[chosen], columns[chosen]
