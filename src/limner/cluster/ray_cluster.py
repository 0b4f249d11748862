"""Passes over scores as Ray tasks: spans of whole blocks, results in row order, states merged along the same tree.

Encoding is done by Ray Data: batches at fixed positions, mapped over copies of the encoder.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from limner.cluster.candidate_shards import CandidateShards
from limner.cluster.task_queue import (
    RETRIES,
    Room,
    RowSpans,
    SpanTasks,
    TaskQueue,
    blocks,
    cores_of_nodes,
    remote,
    task,
)
from limner.cluster.transfer import Packed, Post
from limner.core.arrays import Array
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.scores import Scores
from limner.scores.parallel_blocks import TILE_COLUMNS, Block, Divisible, Result, State, merged
from limner.scores.vectors import VectorScores

if TYPE_CHECKING:
    from limner.core.collection import Items
    from limner.core.embeddings import Embeddings

Batch = dict[str, Array]


class Encoding:
    """One copy of the encoder on a worker; takes start positions of batches and returns rows with their positions."""

    def __init__(self, sent: list[object], batch: int) -> None:
        import ray

        self.encoder, self.items = ray.get(sent[0])
        self.batch = batch

    def __call__(self, starts: Batch) -> Batch:
        """Encodes the batches that start at these positions."""
        parts = [self._encoded(int(start)) for start in starts["start"]]
        rows = [np.arange(start, start + len(part)) for start, part in zip(starts["start"], parts, strict=True)]
        return {"row": np.concatenate(rows), "vector": np.concatenate(parts)}

    def _encoded(self, start: int) -> npt.NDArray[np.float32]:
        from limner.encoders.contract import encoded

        return encoded(self.encoder, self.items[start : start + self.batch]).matrix


def encode(encoder: object, items: Items, batch: int, cpus: float, gpus: float, *, cores: int) -> Embeddings:
    """Like `Cluster.encode`, on a given number of cores."""
    import ray
    from ray.util.client import ray as client

    if batch < 1 or not len(items):
        raise LimnerError(f"encode got {len(items)} items in batches of {batch}: expected at least one of each")
    if client.is_connected():  # Ray Data needs a process on a node: a task that takes no core starts the others
        on_a_node = ray.remote(num_cpus=0)(_encoded)
        return Embeddings(items.ids, ray.get(on_a_node.remote(encoder, items, batch, cpus, gpus, cores)))
    return Embeddings(items.ids, _encoded(encoder, items, batch, cpus, gpus, cores))


def _encoded(
    encoder: object, items: Items, batch: int, cpus: float, gpus: float, cores: int
) -> npt.NDArray[np.float32]:
    """The rows of all items, by Ray Data."""
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised
    starts = [{"start": low} for low in range(0, len(items), batch)]
    copies = max(1, min(len(starts), int(cores / max(cpus, 1e-9))))
    sent = ray.put((encoder, items))  # kept until the end: a restarted copy needs it again
    encoded = ray.data.from_items(starts, override_num_blocks=len(starts)).map_batches(
        Encoding,
        # The reference is in a list, since a bare one would be fetched by the driver of the data set as well.
        fn_constructor_args=([sent], batch),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=copies),
        num_cpus=cpus,
        num_gpus=gpus,
    )
    return _gathered(encoded, len(items))


def _gathered(encoded: Any, count: int) -> npt.NDArray[np.float32]:
    """The rows in order of their positions; batches may arrive in any order."""
    matrix: npt.NDArray[np.float32] | None = None
    for part in encoded.iter_batches(batch_size=None, batch_format="numpy"):
        if matrix is None:
            matrix = np.empty((count, part["vector"].shape[1]), dtype=np.float32)
        matrix[part["row"]] = part["vector"]
    if matrix is None:
        raise LimnerError(f"the cluster returned nothing for {count} items")
    return matrix


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
            return encode(encoder, items, batch, cpus, gpus, cores=self.cores)

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
) -> Iterator[list[object]]:
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
