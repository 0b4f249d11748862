"""The queue of the tasks of a pass: every core gets the next one when it has done one, and results are in row order.

Ray's own strategies give each node the same number of waiting tasks, whatever its number of cores, and do not move
them again: of four cores on three nodes, one then does half of a pass. So tasks are bound to a node here, and only a
few at a time. If the node is lost, Ray runs them elsewhere.

The unit of work is a span of whole blocks that starts at a multiple of its size.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from limner.scores import Scores
from limner.scores.parallel_blocks import TILE_ROWS, Block

Task = Callable[[dict[str, object]], object]
"""Starts a task with these Ray options; returns the reference to its result."""
Room = Callable[[], dict[str | None, int]]
"""How many tasks each node may have at a time; None stands for whatever node Ray chooses."""

DEPTH = 2
"""Tasks per core that are handed out at a time: one runs, and one waits, so that no core waits for this process."""
LOOK = 1.0
"""Seconds after which nodes are counted again: some may have joined or left."""
PATIENCE = 5.0
"""Seconds to wait for a task, in addition to three times the longest so far, before another node gets it too."""
MANY = 64
"""With more tasks than this, all that are done are looked for at once."""


@dataclass(eq=False)
class SpanTasks:
    """The tasks that compute a span of rows.

    Args:
        tasks: They may run at the same time, on different nodes.
        join: Starts a task that joins their results; without it, all results are delivered.
    """

    tasks: Sequence[Task]
    join: Callable[[list[object]], object] | None = None
    results: list[object] = field(default_factory=list)
    left: int = 0

    def __post_init__(self) -> None:
        self.results, self.left = [None] * len(self.tasks), len(self.tasks)


@dataclass(eq=False)
class _Flight:
    span: SpanTasks
    number: int
    node: str | None
    since: float
    copied: bool = False


@dataclass(eq=False)
class TaskQueue:
    """The tasks of a pass on their way.

    Args:
        spans: What there is to do.
        room: How many tasks each node may have.
        ahead: How many spans may be started before the first of them is delivered.
    """

    spans: Iterable[SpanTasks]
    room: Room
    ahead: int
    _window: deque[SpanTasks] = field(default_factory=deque)
    _queue: deque[tuple[SpanTasks, int]] = field(default_factory=deque)
    _flying: dict[object, _Flight] = field(default_factory=dict)
    _load: Counter[str | None] = field(default_factory=Counter)
    _rooms: dict[str | None, int] = field(default_factory=dict)
    _proven: set[str | None] = field(default_factory=set)
    _looked: float = -LOOK
    _longest: float = 0.0

    def in_order(self) -> Generator[list[object], None, None]:
        """The results of every span, as references, in order; what is not needed any more is cancelled."""
        import ray

        coming = iter(self.spans)
        try:
            while self._hand_out(coming):
                if self._window[0].left:
                    self._wait()
                else:
                    yield self._window.popleft().results
        finally:
            for reference in self._flying if ray.is_initialized() else ():
                ray.cancel(reference)

    def _hand_out(self, coming: Iterator[SpanTasks]) -> bool:
        """Starts tasks while there is room for them; False if there is nothing left to wait for or deliver."""
        timestamp = time.monotonic()
        if timestamp - self._looked >= LOOK:
            self._looked, self._rooms = timestamp, self.room()
        while (node := self._freest()) is not _NOWHERE:
            if not self._queue and (len(self._window) >= self.ahead or not self._open(next(coming, None))):
                break
            self._start(*self._queue.popleft(), node, timestamp)
        return bool(self._window)

    def _open(self, span: SpanTasks | None) -> bool:
        if span is not None:
            self._window.append(span)
            self._queue.extend((span, number) for number in range(len(span.tasks)))
        return span is not None

    def _freest(self, *, other_than: object = None, share: float = 1.0, proven: bool = False) -> Any:
        """The node with the smallest share of its room taken, or `_NOWHERE` if all have more than `share`."""
        nodes = [node for node in self._rooms if not proven or (node in self._proven and node != other_than)]
        loads = [self._load[node] / self._rooms[node] for node in nodes]
        lowest = min(loads, default=share)
        return nodes[loads.index(lowest)] if lowest < share else _NOWHERE

    def _start(self, span: SpanTasks, number: int, node: str | None, timestamp: float, *, copied: bool = False) -> None:
        reference = span.tasks[number](on(node))
        self._flying[reference] = _Flight(span, number, node, timestamp, copied)
        self._load[node] += 1

    def _wait(self) -> None:
        """Waits for a task to end, but not for longer than `LOOK`."""
        import ray

        flying = list(self._flying)
        done, _ = ray.wait(flying, num_returns=1, timeout=LOOK, fetch_local=False)
        if done and len(flying) > MANY:
            done, _ = ray.wait(flying, num_returns=len(flying), timeout=0, fetch_local=False)
        timestamp = time.monotonic()
        for reference in done:
            self._ended(reference, self._flying.pop(reference), timestamp)
        self._copy(timestamp)

    def _ended(self, reference: object, flight: _Flight, timestamp: float) -> None:
        span, number = flight.span, flight.number
        if number < 0:  # the results were joined
            span.results, span.left = [reference], 0
            return
        self._load[flight.node] -= 1
        self._proven.add(flight.node)
        self._longest = max(self._longest, timestamp - flight.since)
        if span.results[number] is not None:  # another node was faster
            return
        span.results[number] = reference
        span.left -= 1
        if not span.left and span.join is not None:
            span.left = 1
            self._flying[span.join(span.results)] = _Flight(span, -1, None, timestamp, copied=True)

    def _copy(self, timestamp: float) -> None:
        """Gives tasks to a second node that take far longer than others, if there is one with nothing to do.

        A node whose cores other programs hold would otherwise keep its tasks for ever.
        """
        for flight in list(self._flying.values()):
            if timestamp - flight.since < PATIENCE + 3 * self._longest:
                return
            if flight.copied:
                continue
            node = self._freest(other_than=flight.node, share=1 / DEPTH, proven=True)
            if node is _NOWHERE:
                return
            flight.copied = True
            self._start(flight.span, flight.number, node, timestamp, copied=True)


_NOWHERE = object()


def task(function: Any, *arguments: object) -> Task:
    """A task that calls a remote function."""
    return lambda options: function.options(**options).remote(*arguments)


def on(node: str | None) -> dict[str, object]:
    """The options of a task that runs on a node, or elsewhere if it is lost."""
    if node is None:
        return {}
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}


def cores_of_nodes() -> dict[str | None, int]:
    """Room for `DEPTH` tasks per core on every node."""
    import ray

    cores = {node["NodeID"]: int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]}
    return {node: DEPTH * count for node, count in cores.items() if count > 0}


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
