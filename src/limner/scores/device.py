"""Products of two sets of vectors on a torch device, usually a GPU.

Ranks, lists and corrections are computed as on the CPU, block by block; the blocks are tensors with more rows, and
their loops are in `limner.scores.torch_kernels`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from limner.core.arrays import Float32
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.progress import ProgressLike
from limner.core.tensors import device_named, full_precision, torch_module
from limner.scores.base import LARGEST, Best, Scores, current_runner, refuse_overflow
from limner.scores.lowprecision import GPUFilter, ListRequest, Selective, gpu_filter_of, request_of
from limner.scores.parallel_blocks import TILE_ROWS, Block, Result, WorkerMap

if TYPE_CHECKING:
    from limner.core.tensors import Device, Tensor

BLOCK = 1 << 28
"""Numbers in a block on a GPU: a gigabyte of single precision."""
MOST_ROWS = 8192
STAGED, COPIES = 4096, 4
"""Rows that a thread copies to a GPU at once, and the number of threads."""


@dataclass(frozen=True, eq=False)
class TorchScores(Scores):
    """Products of two tensors of vectors, one row per item, on the device that holds them.

    Every product has the same shape (the last one is padded with zeros) and full single precision, so that a score does
    not depend on the position of its query.

    Args:
        queries: Ids of the queries.
        candidates: Ids of the candidates.
        query_vectors: A float32 tensor, with normalised rows for cosine similarity.
        candidate_vectors: Likewise, on the same device.
        similarity: "cosine" or "dot", for further queries.
        rows: Rows per block; by default chosen from the number of candidates.
    """

    queries: Ids
    candidates: Ids
    query_vectors: Tensor
    candidate_vectors: Tensor
    similarity: str = "cosine"
    rows: int | None = None

    @classmethod
    def sent(cls, queries: Embeddings, candidates: Embeddings, *, similarity: str, device: str) -> Self:
        """Copies two sets of vectors to a device."""
        rows, columns = sent_vectors(queries, device), sent_vectors(candidates, device)
        return cls.of(queries.ids, candidates.ids, rows, columns, similarity=similarity)

    @classmethod
    def of(cls, queries: Ids, candidates: Ids, rows: Tensor, columns: Tensor, *, similarity: str) -> Self:
        """Scores of two tensors on their device; refuses shapes that do not match."""
        if rows.ndim != 2 or columns.ndim != 2 or rows.shape[1] != columns.shape[1] or rows.device != columns.device:
            raise LimnerError(
                f"query vectors of shape {tuple(rows.shape)} on {rows.device}, candidate vectors of shape "
                f"{tuple(columns.shape)} on {columns.device}: expected rows of one length, on one device"
            )
        if len(queries) != len(rows) or len(candidates) != len(columns):
            raise LimnerError(
                f"{len(queries)} and {len(candidates)} ids for {len(rows)} and {len(columns)} vectors: expected one "
                "id for each"
            )
        vectors = _ready(rows, similarity, queries), _ready(columns, similarity, candidates)
        return cls(queries, candidates, *vectors, similarity)

    @property
    def T(self) -> Self:
        """The transposed scores."""
        return type(self)(
            self.candidates, self.queries, self.candidate_vectors, self.query_vectors, self.similarity, self.rows
        )

    def restrict(self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None) -> Self:
        """The vectors of these queries and candidates only."""
        rows, columns = self._positions(queries, candidates)
        vectors = self.query_vectors[rows], self.candidate_vectors[columns]
        return type(self)(self.queries[rows], self.candidates[columns], *vectors, self.similarity, self.rows)

    def with_queries(self, queries: Embeddings) -> Self:
        """Scores of other queries against the same candidates."""
        vectors = _ready(sent_vectors(queries, self.query_vectors.device), self.similarity, queries.ids)
        return type(self)(queries.ids, self.candidates, vectors, self.candidate_vectors, self.similarity, self.rows)

    @property
    def block_rows(self) -> int:
        """The number of rows of a block: about `BLOCK` numbers, at most `MOST_ROWS` rows."""
        if self.rows is not None:
            return self.rows
        if self.query_vectors.device.type == "cpu":
            return TILE_ROWS
        return int(np.clip(BLOCK // max(len(self.candidates), 1) // 256 * 256, 256, MOST_ROWS))

    @contextmanager
    def workers(self, count: int | None) -> Iterator[WorkerMap]:
        """Runs one block after the other: the device itself works in parallel."""
        yield map

    def block(self, start: int, stop: int, out: object = None) -> Any:
        """A tensor of scores, on the device."""
        torch = torch_module()
        rows = self.query_vectors[start:stop]
        if len(rows) < self.block_rows:
            rows = torch.nn.functional.pad(rows, (0, 0, 0, self.block_rows - len(rows)))
        with full_precision():
            block = (rows @ self.candidate_vectors.T)[: stop - start]
        if self.bound > LARGEST:
            refuse_overflow(self, block, start, self._lengths)
        return block

    def filter(self, workers: int | None, consume: Selective) -> GPUFilter | None:
        """Low-precision filtering of these scores, if it gives this consumer the same result faster.

        None on a cluster, where a runner sends the blocks to other processes.
        """
        return None if current_runner(workers) else gpu_filter_of(self, consume)

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: ProgressLike = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`; finds the best with low-precision products if that is faster."""
        request = request_of(consume)
        if request is not None and (by_filter := self.filter(workers, request)):
            return by_filter.stream(request, workers=workers, progress=progress)
        return super().stream(consume, workers=workers, progress=progress)

    def best_of_columns(self, k: int, *, progress: ProgressLike = None) -> Float32 | None:
        """The k highest scores of every candidate, with low-precision filtering; None if that saves no time."""
        by_filter = self.filter(None, ListRequest(Best(k)))
        return None if by_filter is None else by_filter.best_of_columns(k)

    @property
    def bound(self) -> float:
        """The product of the largest norms, with a margin for rounding."""
        return float(self._lengths[0] * self._lengths[1] * (1 + self.query_vectors.shape[1] * 2.0**-23))

    @cached_property
    def _lengths(self) -> tuple[float, float]:
        """Largest norms of the query and the candidate vectors; 1 if all are unit vectors."""
        if self.similarity == "cosine":
            return 1.0, 1.0
        return _longest(self.query_vectors), _longest(self.candidate_vectors)


def sent_vectors(embeddings: Embeddings, device: str | Device) -> Tensor:
    """Vectors as a tensor on a device."""
    torch = torch_module()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the array is read-only, but the tensor is never written to
        tensor = torch.from_numpy(embeddings.matrix)
    place = device_named(device)
    return _staged(tensor, place) if place.type == "cuda" and len(tensor) > 2 * STAGED else tensor.to(place)


def _staged(tensor: Tensor, place: Device) -> Tensor:
    """Copies a matrix to a GPU by several threads, each through page-locked memory, which the GPU reads by itself."""
    torch = torch_module()
    staged: Tensor = torch.empty(tensor.shape, dtype=tensor.dtype, device=place)
    torch.cuda.current_stream(place).synchronize()

    def work(number: int) -> None:
        stream = torch.cuda.Stream(place)
        locked = torch.empty(STAGED, tensor.shape[1], dtype=tensor.dtype, pin_memory=True)
        with torch.cuda.stream(stream):
            for low in range(number * STAGED, len(tensor), COPIES * STAGED):
                rows = tensor[low : low + STAGED]
                locked[: len(rows)].copy_(rows)
                staged[low : low + STAGED].copy_(locked[: len(rows)], non_blocking=True)
                stream.synchronize()

    with ThreadPoolExecutor(COPIES) as pool:
        list(pool.map(work, range(COPIES)))
    return staged


def _longest(vectors: Tensor) -> float:
    torch = torch_module()
    lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    return float(lengths.max()) if len(lengths) else 0.0


def _ready(vectors: Tensor, similarity: str, ids: Ids) -> Tensor:
    """Converts vectors to single precision, normalised for cosine; refuses zero rows and values that are not finite."""
    torch = torch_module()
    lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    bad = (~torch.isfinite(lengths) | (lengths == 0)).nonzero()
    if len(bad):
        row = int(bad[0, 0])
        raise LimnerError(
            f"vector of {ids[row]!r} (row {row}) is all zeros or not finite: encode that item again or leave it out"
        )
    if similarity == "dot":
        _refuse_wide(vectors, ids)
        return vectors.float()
    parts = zip(
        torch.split(vectors, 8192), torch.split(lengths, 8192), strict=True
    )  # double precision needs more memory
    normalised: Tensor = torch.cat([(rows.double() / norms[:, None]).float() for rows, norms in parts])
    return normalised


def _refuse_wide(vectors: Tensor, ids: Ids) -> None:
    """Refuses values that overflow single precision."""
    wide = (vectors.abs().amax(dim=1) > LARGEST).nonzero()
    if len(wide):
        row = int(wide[0, 0])
        raise LimnerError(
            f"vector of {ids[row]!r} (row {row}) holds a number too large for single precision: divide all vectors by "
            "a constant"
        )
