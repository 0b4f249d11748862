"""Scores: lazy similarity between queries and candidates. Rows are queries, higher is better.

A `Scores` is read in blocks of rows and never held whole unless asked. Blocks come from products on a fixed grid
of tiles, each computed by one thread, so that a result does not depend on the size of a block or the number of
threads, and equal vectors get equal scores wherever they stand.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from limner.embeddings import Embeddings
from limner.errors import LimnerError, UnknownName
from limner.ids import Ids
from limner.ranking import Ranking

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Float32 = npt.NDArray[np.float32]
Block = npt.NDArray[np.floating[Any]]
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with (rows done, rows in all) as a pass goes on."""

TILE_ROWS, TILE_COLUMNS = 256, 1024


class Scores(ABC):
    """Similarity between queries and candidates, read in blocks of rows."""

    queries: Ids
    candidates: Ids

    @property
    @abstractmethod
    def T(self) -> Scores:
        """The other direction: candidates become queries."""

    @abstractmethod
    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Scores of the queries start:stop against all candidates, the caller's to change; `out` may be used as memory."""

    def prepare(self) -> None:
        """What must be known before the first block, done once, before threads start. Nothing by default."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, candidates)."""
        return len(self.queries), len(self.candidates)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the blocks: what the scores were given as, so that rounding makes no ties that were not there."""
        return np.dtype(np.float32)

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: Progress | None = None
    ) -> Iterator[Result]:
        """Calls `consume(start, block)` for every block of rows, on threads, and yields the results in row order.

        The block's memory is used again afterwards: `consume` may change it, and must copy what it keeps.
        """
        self.prepare()
        n, width = self.shape
        memory = local()

        def work(start: int) -> Result:
            if not hasattr(memory, "block"):
                memory.block = np.empty((TILE_ROWS, -(-width // TILE_COLUMNS) * TILE_COLUMNS), dtype=np.float32)
            return consume(start, self.block(start, min(start + TILE_ROWS, n), memory.block))

        with _one_thread_per_product(), ThreadPoolExecutor(workers or usable_cores()) as pool:
            yield from _counted(pool.map(work, range(0, n, TILE_ROWS)), n, progress)

    def map(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: Progress | None = None
    ) -> list[Result]:
        """As `stream`, all results at once."""
        return list(self.stream(consume, workers=workers, progress=progress))

    def top(self, k: int, *, workers: int | None = None, progress: Progress | None = None) -> Ranking:
        """The k best candidates of every query, exactly; equal scores keep candidate order."""
        from limner._kernels import best

        n, width = self.shape
        if k < 1:
            raise LimnerError(f"top({k}): expected at least 1")
        indices = np.zeros((n, min(k, width)), dtype=np.int32)
        scores = np.zeros(indices.shape, dtype=self.dtype)

        def consume(start: int, block: Block) -> None:
            best(block, indices[start : start + len(block)], scores[start : start + len(block)])

        self.map(consume, workers=workers, progress=progress)
        return Ranking(self.queries, self.candidates, indices, scores, width)

    def ranking(self) -> Ranking:
        """Every candidate of every query in order. Holds the whole matrix: meant for small pools and run files."""
        matrix = self.matrix()
        order = np.argsort(-matrix, axis=1, kind="stable")
        return Ranking(self.queries, self.candidates, order, np.take_along_axis(matrix, order, axis=1), self.shape[1])

    def matrix(self) -> Block:
        """The whole matrix, held in memory."""
        whole = np.empty(self.shape, dtype=self.dtype)

        def consume(start: int, block: Block) -> None:
            whole[start : start + len(block)] = block

        self.map(consume)
        return whole

    def correct(self, how: Any, **options: Any) -> Scores:
        """Scores corrected for hubs: `scores.correct("csls", k=10)`; see `limner.match.correct`."""
        from limner.match.correct import correct

        return correct(self, how, **options)

    @staticmethod
    def from_embeddings(queries: Embeddings, candidates: Embeddings, *, similarity: str = "cosine") -> Scores:
        """Cosine or dot product between two sets of vectors; the matrix is never held."""
        if queries.dim != candidates.dim:
            raise LimnerError(
                f"query vectors have {queries.dim} dimensions, candidate vectors {candidates.dim}: expected the same; "
                "both sides must come from one joint space"
            )
        if similarity not in ("cosine", "dot"):
            raise UnknownName("similarity", similarity, ("cosine", "dot"))
        if similarity == "cosine":
            queries, candidates = queries.normalised(), candidates.normalised()
        return VectorScores(queries, candidates)

    @staticmethod
    def from_matrix(matrix: npt.NDArray[Any], queries: Iterable[object], candidates: Iterable[object]) -> Scores:
        """A matrix of similarities, queries by candidates, higher is better."""
        return MatrixScores(Ids(queries, what="query"), Ids(candidates, what="candidate"), matrix)

    @staticmethod
    def load(path: str | Path, queries: Iterable[object], candidates: Iterable[object]) -> Scores:
        """A matrix of similarities from an npy file, memory-mapped."""
        try:
            matrix = np.load(path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise LimnerError(f"no similarity matrix {path}: expected an .npy file, queries by candidates") from None
        except ValueError as error:
            raise LimnerError(f"{path} is no npy file of numbers: {error}") from error
        return Scores.from_matrix(matrix, queries, candidates)


@dataclass(frozen=True, eq=False)
class VectorScores(Scores):
    """Products of two sets of vectors, tile by tile."""

    query_vectors: Embeddings
    candidate_vectors: Embeddings

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.query_vectors.ids

    @property
    def candidates(self) -> Ids:  # type: ignore[override]
        """Ids of the candidates."""
        return self.candidate_vectors.ids

    @property
    def T(self) -> VectorScores:
        """The other direction."""
        return VectorScores(self.candidate_vectors, self.query_vectors)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Float32:
        """Products of whole tiles: edges are padded with zeros, so that every product has the same shape."""
        width = len(self.candidates)
        if out is None:
            out = np.empty((TILE_ROWS, -(-width // TILE_COLUMNS) * TILE_COLUMNS), dtype=np.float32)
        rows = _padded(self.query_vectors.matrix[start:stop], TILE_ROWS)
        for low in range(0, width, TILE_COLUMNS):
            columns = _padded(self.candidate_vectors.matrix[low : low + TILE_COLUMNS], TILE_COLUMNS)
            np.matmul(rows, columns.T, out=out[:TILE_ROWS, low : low + TILE_COLUMNS])
        return out[: stop - start, :width]


@dataclass(frozen=True, eq=False)
class MatrixScores(Scores):
    """A matrix that is there already (in memory or mapped from a file)."""

    queries: Ids
    candidates: Ids
    values: npt.NDArray[Any]
    checked: bool = False

    def __post_init__(self) -> None:
        """Checks the shape, and that every value has a place in an order."""
        if self.values.shape != (len(self.queries), len(self.candidates)):
            raise LimnerError(
                f"similarity matrix of shape {self.values.shape} for {len(self.queries)} queries and "
                f"{len(self.candidates)} candidates: expected {(len(self.queries), len(self.candidates))}"
            )
        if not np.issubdtype(self.values.dtype, np.number) or np.iscomplexobj(self.values):
            raise LimnerError(f"similarity matrix of type {self.values.dtype}: expected real numbers")
        for row in range(0 if not self.checked else len(self.values), len(self.values)):
            if np.isnan(self.values[row]).any():
                column = int(np.isnan(self.values[row]).argmax())
                raise LimnerError(
                    f"similarity of query {self.queries[row]!r} and candidate {self.candidates[column]!r} is NaN "
                    f"(row {row}, column {column}): its place in the order is undefined; mend it or set it to -inf"
                )

    @property
    def T(self) -> MatrixScores:
        """The other direction: the transposed matrix."""
        return MatrixScores(self.candidates, self.queries, self.values.T, checked=True)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 for float16 and float32 values, float64 for all others."""
        return np.dtype(np.float32 if self.values.dtype in (np.float16, np.float32) else np.float64)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Rows of the matrix, copied: whoever reads a block may change it."""
        return np.array(self.values[start:stop], dtype=self.dtype, order="C")


def usable_cores() -> int:
    """Cores this process may run on (a container or a batch system may allow fewer than there are)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _padded(matrix: Float32, rows: int) -> Float32:
    if len(matrix) == rows:
        return matrix
    padded = np.zeros((rows, matrix.shape[1]), dtype=np.float32)
    padded[: len(matrix)] = matrix
    return padded


def _counted(results: Iterable[Result], rows: int, progress: Progress | None) -> Iterator[Result]:
    for number, result in enumerate(results, start=1):
        if progress is not None:
            progress(min(number * TILE_ROWS, rows), rows)
        yield result


@contextmanager
def _one_thread_per_product() -> Iterator[None]:
    """Blocks run on threads of their own, so the matrix library must not start more of them inside."""
    with _matrix_libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _matrix_libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
