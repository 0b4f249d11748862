"""Sharded candidates, for when they do not fit on one node: pieces of rows are processed and joined exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limner.cluster.task_queue import SpanTasks, blocks, one_core, remote, task
from limner.cluster.transfer import Mapped, Packed, Post, opened, products
from limner.core.arrays import Array, Float32, IntArray
from limner.scores.parallel_blocks import TILE_COLUMNS, TILE_ROWS, Divisible
from limner.scores.vectors import VectorScores

JOINED_HERE = 16
"""The pieces of so many shards are joined in this process; those of more, which are more data, on a worker."""


@dataclass(frozen=True)
class CandidateShards:
    """A pass in pieces.

    Args:
        post: Sends the vectors.
        queries: The vectors of all queries.
        shards: (first candidate, vectors as an argument for a task) of every shard.
        divided: The consumer of the pieces, as an argument for a task.
        join: Joins the pieces of a block.
        width: Candidates per shard.
        anywhere: Whether every node can hold all shards, so that a task may run on any of them.
    """

    post: Post
    queries: Array
    shards: list[tuple[int, object]]
    divided: object
    join: Callable[[Sequence[object]], object]
    width: int
    anywhere: bool

    @classmethod
    def of(
        cls, post: Post, scores: VectorScores, consume: Divisible, width: int, *, anywhere: bool = False
    ) -> CandidateShards | None:
        """Splits the candidates; None if the pass needs whole rows."""
        import ray

        candidates = scores.candidate_vectors.matrix
        bounds = [(low, min(low + width, len(candidates))) for low in range(0, len(candidates), width)]
        shards = [(low, post.rows(candidates, low, high)) for low, high in bounds]
        queries = scores.query_vectors.matrix
        divided = consume.divided(lambda rows, columns: _score_pairs(queries, shards, width, rows, columns))
        if divided is None:
            return None
        return cls(post, queries, shards, ray.put(post.pack(divided)), divided.join, width, anywhere)

    def tasks(self, span: tuple[int, int]) -> SpanTasks:
        """The tasks that compute all pieces of a span of rows.

        Ray looks for a node with the arguments of a task, except those in a list, and keeps a worker for tasks with the
        same arguments: where it takes another it may wait for a tenth of a second. So the rows are in a list, and the
        shard is too if every node can hold all of them.
        """
        rows = [self.post.rows(self.queries, *span)]
        shards = [(low, [shard] if self.anywhere else shard) for low, shard in self.shards]
        parts = [task(remote(_consumed), self.divided, rows, shard, span[0], low) for low, shard in shards]
        if len(parts) <= JOINED_HERE:
            return SpanTasks(parts)
        return SpanTasks(parts, join=lambda pieces: remote(_joined).remote(self.divided, *pieces))

    def joined(self, parts: Sequence[Sequence[object]]) -> Iterator[Any]:
        """The results of every block of a span, from what its tasks returned."""
        return iter(parts[0]) if len(parts) < len(self.shards) else map(self.join, zip(*parts, strict=True))


def _score_pairs(
    queries: Array, shards: list[tuple[int, object]], width: int, rows: IntArray, columns: IntArray
) -> Float32:
    """Scores of single pairs, computed in the shards that contain the candidates."""
    import ray

    scores = np.empty(len(rows), dtype=np.float32)
    chosen = [np.flatnonzero(columns // width == number) for number in range(len(shards))]
    distinct = [np.unique(rows[pairs], return_inverse=True) for pairs in chosen]
    tasks = [
        remote(_paired).remote(queries[needed], shard, places, columns[pairs] - low)
        for pairs, (needed, places), (low, shard) in zip(chosen, distinct, shards, strict=True)
    ]
    for pairs, reference in zip(chosen, tasks, strict=True):
        scores[pairs] = ray.get(reference)
    return scores


# --- on the workers ---------------------------------------------------------------------------------------------


def pair_scores(queries: Array, candidates: Array, rows: IntArray, columns: IntArray) -> Float32:
    """Scores of single pairs, from whole tiles, since only these give exactly the same numbers as blocks.

    Queries that share a tile of candidates are grouped; a score does not depend on its position in the tile.
    """
    scores = np.empty(len(rows), dtype=np.float32)
    order = np.argsort(columns // TILE_COLUMNS, kind="stable")
    tiles = np.split(order, np.flatnonzero(np.diff(columns[order] // TILE_COLUMNS)) + 1)
    with one_core():
        for tile in tiles:
            for low in range(0, len(tile), TILE_ROWS):
                pairs = tile[low : low + TILE_ROWS]
                first = columns[pairs[0]] // TILE_COLUMNS * TILE_COLUMNS
                piece = products(queries[rows[pairs]], candidates[first : first + TILE_COLUMNS])
                scores[pairs] = piece.block(0, len(pairs))[np.arange(len(pairs)), columns[pairs] - first]
    return scores


def _paired(queries: Array, shard: Array | Mapped, rows: IntArray, columns: IntArray) -> Float32:
    return pair_scores(queries, opened(shard), rows, columns)


def _consumed(packed: Packed, rows: object, shard: object, start: int, low: int) -> list[object]:
    divided, piece = packed.open(), products(_fetched(rows), _fetched(shard))
    return [divided.piece(start + row, low, block) for row, block in blocks(piece, 0, piece.shape[0])]


def _joined(packed: Packed, *parts: list[object]) -> list[object]:
    divided = packed.open()
    return [divided.join(pieces) for pieces in zip(*parts, strict=True)]


def _fetched(argument: object) -> Array:
    """The array behind a task argument, which may be in a list."""
    import ray

    array: Any = argument[0] if isinstance(argument, list) else argument
    return opened(ray.get(array) if isinstance(array, ray.ObjectRef) else array)
