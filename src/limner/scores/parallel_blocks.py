"""Computes blocks of scores in whole tiles and in parallel, and merges their results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, reduce
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32
from limner.core.progress import Progress

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

    from limner.core.tensors import Tensor

TILE_ROWS, TILE_COLUMNS = 256, 1024
"""Every product of vectors is computed in tiles of this shape, so that equal vectors always get equal scores."""
Block = npt.NDArray[np.floating]
Result = TypeVar("Result")
State = TypeVar("State")
Row = TypeVar("Row")


PairScores = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], Block]
"""Scores of single pairs (rows, columns), identical to those in blocks."""


@runtime_checkable
class Divisible(Protocol):
    """A consumer that can also take rows in pieces, if all candidates do not fit into one block."""

    def divided(self, score: PairScores) -> PieceConsumer | None:
        """The consumer of pieces; None if it needs whole rows."""


class WorkerMap(Protocol):
    """A `map`, in threads or not, whose results are in the order of the rows."""

    def __call__(self, function: Callable[[Row], Result], rows: Iterable[Row], /) -> Iterator[Result]:
        """The results of the function for each element."""


class PieceConsumer(Protocol):
    """The consumer of pieces that a `Divisible` one gives."""

    def piece(self, start: int, column: int, block: Block) -> object:
        """The part of the result from a piece whose first row and column these are."""

    def join(self, parts: Sequence[object], /) -> object:
        """The result for rows from the parts of all their pieces."""


def usable_cores() -> int:
    """Number of CPU cores this process may use (a container or a batch system may allow fewer than exist)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def merged(parts: Iterable[tuple[int, State]], merge: Callable[[State, State], State]) -> State:
    """Merges the (level, state) pairs of neighbouring rows like a binary counter: two of a level form one of the next.

    A state of level n covers 2**n blocks, starting at a multiple of 2**n, so that the rounding is always the same. The
    remaining states are merged from the right.

    >>> merged([(0, "a"), (0, "b"), (0, "c"), (0, "d"), (0, "e")], "({}{})".format)
    '(((ab)(cd))e)'
    >>> merged([(1, "(ab)"), (1, "(cd)"), (0, "e")], "({}{})".format)
    '(((ab)(cd))e)'
    """
    pending: list[tuple[int, State]] = []
    for level, state in parts:
        while pending and pending[-1][0] == level:
            state, level = merge(pending.pop()[1], state), level + 1
        pending.append((level, state))
    return reduce(lambda later, earlier: merge(earlier, later), (state for _, state in reversed(pending)))


def evenly(workers: int | None, blocks: int) -> int:
    """The fewest threads that need as many rounds for so many blocks as all of them, one per core by default.

    Each thread has memory of its own: 16 threads compute 20 blocks in two rounds, and so do 10.

    >>> evenly(16, 20), evenly(16, 33), evenly(16, 5), evenly(2, 20), evenly(4, 0)
    (10, 11, 5, 2, 1)
    """
    limit = workers or usable_cores()
    return -(-blocks // -(-blocks // limit)) if blocks else 1


def fill(block: Float32, rows: Float32, columns: Float32) -> None:
    """Products of at most `TILE_ROWS` rows, from whole tiles: edges are padded with zeros."""
    rows, width = padded(rows, TILE_ROWS), len(columns)
    tiled_width = width - width % TILE_COLUMNS
    for low in range(0, tiled_width, TILE_COLUMNS):
        np.matmul(rows, columns[low : low + TILE_COLUMNS].T, out=block[:, low : low + TILE_COLUMNS])
    if tiled_width < width:
        block[:, tiled_width:] = np.matmul(rows, padded(columns[tiled_width:], TILE_COLUMNS).T)[
            :, : width - tiled_width
        ]


def padded(matrix: Float32, rows: int) -> Float32:
    """A matrix with rows of zeros below, up to this number of rows."""
    if len(matrix) == rows:
        return matrix
    padded = np.zeros((rows, matrix.shape[1]), dtype=np.float32)
    padded[: len(matrix)] = matrix
    return padded


@contextmanager
def threads(workers: int | None) -> Iterator[WorkerMap]:
    """A `map` in threads; matrix products inside use one core each."""
    with one_thread_per_product(), ThreadPoolExecutor(workers or usable_cores()) as pool:
        yield lambda function, rows: pool.map(_in_context(function), rows)


def _in_context(function: Callable[..., Result]) -> Callable[..., Result]:
    """A function for threads that sees the context variables of this one."""
    context = copy_context()
    return lambda *each: context.copy().run(function, *each)


def counted(results: Iterable[Result], step: int, rows: int, progress: Progress) -> Iterator[Result]:
    """Yields the results, which cover `step` rows each, and reports progress."""
    for number, result in enumerate(results, start=1):
        progress(min(number * step, rows), rows)
        yield result


@contextmanager
def one_thread_per_product() -> Iterator[None]:
    """Limits matrix products to one core: blocks already run in threads, and one thread always rounds the same way."""
    with _matrix_libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


@cache
def _matrix_libraries(with_scipy: bool) -> ThreadpoolController:
    """The libraries loaded now; scipy brings a BLAS of its own, which is loaded with `scipy.linalg`."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def on_host(block: object) -> Array:
    """A block as a numpy array."""
    return block if isinstance(block, np.ndarray) else np.asarray(kernels(block).on_host(block))


COMPILED = "limner.scores.block_kernels"
MANY = 1 << 32
"""A pass over so many scores loads the compiled loops: in a shorter one they save less than loading them takes."""


def load_loops(scores: int) -> None:
    """Loads the compiled loops if a pass over so many scores gains by them."""
    if scores >= MANY:
        import_module(COMPILED)


def kernels(block: object) -> ModuleType:
    """The loops for a block: torch for a tensor; for an array compiled loops where they are loaded, else numpy."""
    if isinstance(block, np.ndarray):
        if COMPILED in sys.modules:
            from limner.scores import block_kernels as _compiled  # waits for a thread that is loading it

            return _compiled
        from limner.scores import array_kernels as _arrays

        return _arrays
    from limner.scores import torch_kernels as _cuda

    return _cuda


def number_type(block: Block | Tensor) -> np.dtype[np.floating]:
    """The numpy type of the numbers in a block."""
    return np.dtype(block.dtype if isinstance(block, np.ndarray) else str(block.dtype).removeprefix("torch."))
