"""Passes over scores as Ray tasks: spans of whole blocks, results in row order, states merged along the same tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.cluster import ray_encoding
from limner.cluster.candidate_shards import CandidateShards
from limner.cluster.row_spans import RETRIES, RowSpans, blocks, remote
from limner.cluster.task_queue import Room, SpanTasks, TaskQueue, cores_of_nodes, task
from limner.cluster.transfer import Packed, Post
from limner.core.errors import LimnerError
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.scores import Scores
from limner.scores.parallel_blocks import TILE_COLUMNS, Block, Divisible, Result, State, merged
from limner.scores.vectors import VectorScores

if TYPE_CHECKING:
    from limner.core.collection import Items
    from limner.core.embeddings import Embeddings

WIDEST = 1 << 20
"""Maximum candidates per shard: a block of 256 rows then takes 1 GiB of a worker's memory."""
AHEAD = 4
"""RowSpans per core that may be started before the first of them is delivered."""


class Cluster:
    """A Ray cluster that this process has joined: see `connect`."""

    def __init__(self, shard: int | None = None, shared: Path | None = None) -> None:
        self.shard = shard
        self.post = Post(shared)

    @property
    def cores(self) -> int:
        """Number of cores currently available on all nodes."""
        import ray

        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            raise LimnerError("the Ray cluster has no CPU to work with: add a node ('ray start --address ...')")
        return cores

    def encode(
        self, encoder: object, items: Items, *, batch: int = 256, cpus: float = 1, gpus: float = 0
    ) -> Embeddings:
        """Vectors of all items, in their order: Ray Data maps batches over copies of the encoder.

        Args:
            encoder: An object with `encode(items)`, or with `encode_images` and `encode_texts`, as for an index.
                It is copied to every worker once.
            items: What to encode. Paths must be the same on every node.
            batch: Items per call; batches start at multiples of it on every worker, as in a loop over `items`.
            cpus: Cores that one copy of the encoder uses.
            gpus: GPUs that one copy uses.
        """
        with _errors_explained():
            return ray_encoding.encode(encoder, items, batch, cpus, gpus, cores=self.cores)

    def stream(
        self, scores: Scores, consume: Callable[[int, Block], Result], *, progress: ProgressLike = None
    ) -> Iterator[Result]:
        """Like `Scores.stream`, on the workers."""
        progress = as_progress(progress)
        import ray

        rows, width = scores.shape
        if (shards := self._shards(scores, consume)) is not None:
            spans = RowSpans.of(rows, shards.width, -(-self.cores // len(shards.shards)))  # each is a task per shard
            room = cores_of_nodes if shards.anywhere else self._by_shard
            with _errors_explained():
                for parts in _in_order(map(shards.tasks, spans), spans, room, AHEAD * self.cores, progress):
                    yield from shards.joined(ray.get(parts))
            return
        spans = RowSpans.of(rows, width, self.cores, step=scores.block_rows)
        packed = ray.put(self.post.pack((scores, consume)))
        tasks = (SpanTasks([task(remote(_consumed), packed, *span)]) for span in spans)
        with _errors_explained():
            for (reference,) in _in_order(tasks, spans, cores_of_nodes, AHEAD * self.cores, progress):
                yield from ray.get(reference)

    def fold(
        self,
        scores: Scores,
        add: Callable[[State | None, int, Block], State],
        merge: Callable[[State, State], State],
        *,
        steady: bool,
        progress: ProgressLike = None,
    ) -> State:
        """Like `Scores.fold`, on the workers; states are merged there too, and only the final one is returned."""
        progress = as_progress(progress)
        import ray

        spans = RowSpans.of(*scores.shape, self.cores, step=scores.block_rows)
        packed, packed_merge = (ray.put(self.post.pack(each)) for each in ((scores, add, merge, steady), merge))
        tasks = (SpanTasks([task(remote(_folded), packed, *span)]) for span in spans)
        with _errors_explained():
            started = _in_order(tasks, spans, cores_of_nodes, AHEAD * self.cores, progress)
            states = (state for (state,) in started)
            levels = (spans.level_of(start) for start, _ in spans)
            state = merged(
                zip(levels, states, strict=True),
                lambda earlier, later: remote(_joined).remote(packed_merge, earlier, later),
            )
            return ray.get(state)  # type: ignore[no-any-return]

    def _shards(self, scores: Scores, consume: object) -> CandidateShards | None:
        """The shards of the candidates for this pass, if needed and supported."""
        if not isinstance(scores, VectorScores) or not isinstance(consume, Divisible) or scores.may_overflow:
            return None
        width, fits = self.shard or self._widest(scores), self._fits(scores)
        if width >= scores.shape[1]:
            return None
        return CandidateShards.of(self.post, scores, consume, width, anywhere=fits)

    def _by_shard(self) -> dict[str | None, int]:
        """Room for tasks that Ray brings to the node with their shard."""
        return {None: AHEAD * self.cores}

    def _widest(self, scores: VectorScores) -> int:
        """Candidates per shard: all if both matrices fit into half of the object store, else an eighth of it."""
        if self._fits(scores):
            return min(scores.shape[1], WIDEST)
        columns = int(_smallest_store() / 8 / (4 * scores.candidate_vectors.dim)) // TILE_COLUMNS * TILE_COLUMNS
        return min(max(columns, TILE_COLUMNS), WIDEST)

    def _fits(self, scores: VectorScores) -> bool:
        """Whether both matrices fit into half of the object store of every node."""
        sizes = scores.query_vectors.matrix.nbytes, scores.candidate_vectors.matrix.nbytes
        return sum(sizes) <= _smallest_store() / 2

    def forget(self) -> None:
        """Releases all arrays that were sent."""
        self.post = Post(self.post.shared)


def _smallest_store() -> float:
    """Bytes of the smallest object store of a node."""
    import ray

    return float(min(node["Resources"].get("object_store_memory", 0) for node in ray.nodes() if node["Alive"]))


def _in_order(
    tasks: Iterable[SpanTasks], spans: Iterable[tuple[int, int]], room: Room, ahead: int, progress: Progress
) -> Iterator[list[Any]]:
    """The results of every span in order, as references, as soon as they are there."""
    spans = list(spans)
    with closing(TaskQueue(tasks, room, ahead).in_order()) as delivered:
        for (_, stop), results in zip(spans, delivered, strict=True):
            yield results
            progress(stop, spans[-1][1])


@contextmanager
def _errors_explained() -> Iterator[None]:
    """Explains a cluster failure; an error raised by a task is re-raised unchanged."""
    from ray.exceptions import RayError, RayTaskError

    try:
        yield
    except RayError as error:
        cause = error.cause if isinstance(error, RayTaskError) else None
        if isinstance(cause, Exception) and not isinstance(cause, RayError):
            raise cause from None
        module = re.escape(LimnerError.__module__)
        if refused := re.search(rf"{module}\.\w+: (.+)", str(error)):  # Ray Data keeps only the message
            raise LimnerError(refused[1]) from None
        raise LimnerError(
            f"the computation on the cluster failed ({str(cause or error).partition(chr(10))[0]}): a task "
            f"failed {RETRIES} times, a node "
            "lacks limner, or an array does not fit; see 'ray status', add memory, or split the candidates with shard="
        ) from error


# --- on the workers ---------------------------------------------------------------------------------------------


def _consumed(packed: Packed, start: int, stop: int) -> list[object]:
    scores, consume = packed.open()
    return [consume(low, block) for low, block in blocks(scores, start, stop)]


def _folded(packed: Packed, start: int, stop: int) -> object:
    scores, add, merge, steady = packed.open()
    if steady:
        return merged(((0, add(None, low, block)) for low, block in blocks(scores, start, stop)), merge)
    state = None
    for low, block in blocks(scores, start, stop):
        state = add(state, low, block)
    return state


def _joined(packed: Packed, earlier: object, later: object) -> object:
    return packed.open()(earlier, later)
