"""The unit of work on a cluster: a span of whole blocks that starts at a multiple of its size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from limner.scores import Scores
from limner.scores.parallel_blocks import TILE_ROWS, Block

MOST_SCORES = 1 << 29
"""Maximum scores per task: about ten seconds of work for one core, which is lost if a worker dies."""
RETRIES = 10
"""Retries of a task whose worker died."""


@dataclass(frozen=True)
class RowSpans:
    """Rows split into spans of 2**level blocks, which start at multiples of their size."""

    rows: int
    level: int
    step: int = TILE_ROWS

    @classmethod
    def of(cls, rows: int, width: int, workers: int, *, step: int = TILE_ROWS) -> RowSpans:
        """RowSpans that are large enough to be worth a task and small enough to balance the load.

        >>> RowSpans.of(100_000, 100_000, 16).size
        1024
        """
        level, blocks = 0, -(-rows // step)
        while blocks >> (level + 1) >= 4 * workers and (step << (level + 1)) * width <= MOST_SCORES:
            level += 1
        return cls(rows, level, step)

    @property
    def size(self) -> int:
        """Number of rows in a full span."""
        return self.step << self.level

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((low, min(low + self.size, self.rows)) for low in range(0, self.rows, self.size))

    def level_of(self, start: int) -> int:
        """The level of the span that starts here; an incomplete last span is merged after all others."""
        return self.level if start + self.size <= self.rows else -1


@cache
def remote(function: Callable[..., object]) -> Any:
    """A function as a Ray task on one core, which is tried again if its worker dies; Ray publishes no types."""
    import ray

    return ray.remote(num_cpus=1, max_retries=RETRIES)(function)


def blocks(scores: Scores, start: int, stop: int) -> Iterator[tuple[int, Block]]:
    """(first row, block) of every block of a span; the blocks share one buffer."""
    memory, step = scores.memory(), scores.block_rows
    with one_core():
        for low in range(start, stop, step):
            yield low, scores.block(low, min(low + step, stop), memory)


@contextmanager
def one_core() -> Iterator[None]:
    """Limits the linear algebra library to one thread, since a task has one core."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> Any:
    """The matrix libraries of this process; looking for them takes longer than a small task."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
