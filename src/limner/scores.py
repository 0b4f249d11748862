"""Scores: lazy similarity between queries and candidates. Rows are queries, higher is better.

A `Scores` is read in blocks of rows and never held whole unless asked. Blocks come from products on a fixed grid
of tiles, each computed by one thread, so that a result does not depend on the size of a block or the number of
threads, and equal vectors get equal scores wherever they stand.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial, reduce
from pathlib import Path
from threading import get_ident, local
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

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
State = TypeVar("State")
Progress = Callable[[int, int], None]
"""Called with (rows done, rows in all) as a pass goes on."""

TILE_ROWS, TILE_COLUMNS = 256, 1024


class Runner(Protocol):
    """Who computes the blocks of a pass, where it is not the threads of this process: see `limner.cluster`."""

    def stream(
        self, scores: Scores, consume: Callable[[int, Block], Result], *, progress: Progress | None
    ) -> Iterator[Result]:
        """As `Scores.stream`; the scores are prepared."""

    def fold(
        self,
        scores: Scores,
        add: Callable[[State | None, int, Block], State],
        merge: Callable[[State, State], State],
        *,
        steady: bool,
        progress: Progress | None,
    ) -> State:
        """As `Scores.fold`; the scores are prepared."""


PairScores = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], Block]
"""Scores of single pairs (rows, columns), the very numbers that blocks hold."""


@runtime_checkable
class Divisible(Protocol):
    """A consumer that can also take its rows in pieces, where there are too many candidates for one block."""

    def divided(self, score: PairScores) -> Any:
        """What takes the pieces: `piece(start, first column, block)` returns a part, `join(parts)` what a row would."""


RUNNER: ContextVar[Runner | None] = ContextVar("RUNNER", default=None)
"""Where passes run in this context; None for threads of this process."""


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

        The block's memory is used again afterwards: `consume` may change it, and must copy what it keeps. It may run
        elsewhere (on a cluster), so that all it has to say is in what it returns.
        """
        self.prepare()
        if runner := _elsewhere(workers):
            yield from runner.stream(self, consume, progress=progress)
            return
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

    def fold(
        self,
        add: Callable[[State | None, int, Block], State],
        merge: Callable[[State, State], State],
        *,
        steady: bool = False,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> State:
        """Adds every block to a state, and merges the states of several workers into one.

        Args:
            add: Takes a state (None at first) and a block, and returns the state, which may be the same, changed.
            merge: Takes the states of earlier and of later rows, and returns one.
            steady: For states whose rounding depends on the order of work, such as sums: every block has a state of its
                own, and neighbours are merged two by two along a tree that depends on the positions of rows only.
            workers: Threads; all cores by default.
            progress: Called as blocks are done.
        """
        self.prepare()
        if runner := _elsewhere(workers):
            return runner.fold(self, add, merge, steady=steady, progress=progress)
        if steady:
            parts = self.stream(partial(add, None), workers=workers, progress=progress)
            return merged(((0, part) for part in parts), merge)
        states: dict[int, State] = {}

        def consume(start: int, block: Block) -> None:
            states[get_ident()] = add(states.get(get_ident()), start, block)

        self.map(consume, workers=workers, progress=progress)
        return reduce(merge, states.values())

    def top(self, k: int, *, workers: int | None = None, progress: Progress | None = None) -> Ranking:
        """The k best candidates of every query, exactly; equal scores keep candidate order."""
        if k < 1:
            raise LimnerError(f"top({k}): expected at least 1")
        parts = self.map(Best(k), workers=workers, progress=progress)
        return Best(k).ranking(self, parts)

    def ranking(self) -> Ranking:
        """Every candidate of every query in order. Holds the whole matrix: meant for small pools and run files."""
        matrix = self.matrix()
        order = np.argsort(-matrix, axis=1, kind="stable")
        return Ranking(self.queries, self.candidates, order, np.take_along_axis(matrix, order, axis=1), self.shape[1])

    def matrix(self) -> Block:
        """The whole matrix, held in memory."""
        whole = np.empty(self.shape, dtype=self.dtype)
        for start, block in self.stream(_copied):
            whole[start : start + len(block)] = block
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


@dataclass(frozen=True)
class Best:
    """The k best of every row of a block, exactly, in candidate order where equal: (indices, scores)."""

    k: int

    def __call__(self, start: int, block: Block) -> tuple[npt.NDArray[np.int32], Block]:
        """Chooses."""
        from limner._kernels import best

        indices = np.zeros((len(block), min(self.k, block.shape[1])), dtype=np.int32)
        scores = np.zeros(indices.shape, dtype=block.dtype)
        best(block, indices, scores)
        return indices, scores

    def ranking(self, source: Scores, parts: Iterable[tuple[npt.NDArray[np.int32], Block]]) -> Ranking:
        """The parts of all blocks in one ranking."""
        none = self(0, np.empty((0, source.shape[1]), dtype=source.dtype))
        indices, scores = (np.concatenate(each) for each in zip(none, *parts, strict=True))
        return Ranking(source.queries, source.candidates, indices, scores, source.shape[1])

    def divided(self, score: PairScores) -> Best:
        """The best of a row are among the best of its pieces."""
        return self

    def piece(self, start: int, low: int, block: Block) -> tuple[npt.NDArray[np.int32], Block]:
        """The best of some columns."""
        indices, scores = self(start, block)
        return indices + np.int32(low), scores

    def join(self, parts: Sequence[tuple[npt.NDArray[np.int32], Block]]) -> tuple[npt.NDArray[np.int32], Block]:
        """The best of all columns: pieces stand in candidate order, so that equal scores keep it."""
        indices, scores = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        places, kept = self(0, scores)
        return np.take_along_axis(indices, places, axis=1), kept


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


def merged(parts: Iterable[tuple[int, State]], merge: Callable[[State, State], State]) -> State:
    """Merges (level, state) of neighbouring rows as a binary counter carries: two of one level make one of the next.

    A state of level n stands for 2**n blocks from a multiple of 2**n on, so that whoever merged those before, the
    rounding is the same. What is left over at the end is merged from the right.

    >>> merged([(0, "a"), (0, "b"), (0, "c"), (0, "d"), (0, "e")], "({}{})".format)
    '(((ab)(cd))e)'
    >>> merged([(1, "(ab)"), (1, "(cd)"), (0, "e")], "({}{})".format)
    '(((ab)(cd))e)'
    """
    held: list[tuple[int, State]] = []
    for level, state in parts:
        while held and held[-1][0] == level:
            state, level = merge(held.pop()[1], state), level + 1
        held.append((level, state))
    return reduce(lambda later, earlier: merge(earlier, later), (state for _, state in reversed(held)))


def _elsewhere(workers: int | None) -> Runner | None:
    runner = RUNNER.get()
    if runner is not None and workers is not None:
        raise LimnerError(f"workers={workers} on a cluster: the cluster says how many work at once; leave it out")
    return runner


def _copied(start: int, block: Block) -> tuple[int, Block]:
    return start, block.copy()


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
