"""Blocks of scores: what they are, how many are computed at once, and how what was found in them is put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Float32 = npt.NDArray[np.float32]
Block = npt.NDArray[np.floating[Any]]
Result = TypeVar("Result")
State = TypeVar("State")
Progress = Callable[[int, int], None]
"""Called with (rows done, rows in total) as a pass goes on."""


PairScores = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], Block]
"""Scores of single pairs (rows, columns), the very numbers that blocks hold."""


@runtime_checkable
class Divisible(Protocol):
    """A consumer that can also take its rows in pieces, where there are too many candidates for one block."""

    def divided(self, score: PairScores) -> Any:
        """What takes the pieces: `piece(start, first column, block)` returns a part, `join(parts)` what a row would."""


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


@contextmanager
def threads(workers: int | None) -> Iterator[Callable[..., Iterator[Any]]]:
    """Something like `map` that works on threads, whose products take one core each."""
    with _one_thread_per_product(), ThreadPoolExecutor(workers or usable_cores()) as pool:
        yield pool.map


def counted(results: Iterable[Result], step: int, rows: int, progress: Progress | None) -> Iterator[Result]:
    """Passes results of `step` rows each through, and says how far it is."""
    for number, result in enumerate(results, start=1):
        if progress is not None:
            progress(min(number * step, rows), rows)
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


def on_host(block: Any) -> npt.NDArray[Any]:
    """A block as an array, wherever it was computed."""
    return block if isinstance(block, np.ndarray) else np.asarray(kernels(block).on_host(block))


def kernels(block: Any) -> Any:
    """The loops for a block, by where it is: compiled ones for an array, those of torch for a tensor."""
    if isinstance(block, np.ndarray):
        from limner.core import kernels as _kernels

        return _kernels
    from limner.core import torch_kernels as _cuda

    return _cuda


def number_type(block: Any) -> np.dtype[Any]:
    """The type of a block's numbers, as numpy calls it."""
    return np.dtype(block.dtype if isinstance(block, np.ndarray) else str(block.dtype).removeprefix("torch."))
