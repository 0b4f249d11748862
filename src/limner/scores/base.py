"""The base class of scores: lazy similarity between queries and candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from threading import get_ident, local
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32, IntArray
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.core.registry import Registry
from limner.core.tensors import read_array
from limner.scores.inputs import Scorer, as_scorer, ids_of, indexed, labels
from limner.scores.parallel_blocks import (
    TILE_ROWS,
    Block,
    PairScores,
    Result,
    State,
    WorkerMap,
    counted,
    evenly,
    kernels,
    merged,
    number_type,
    on_host,
    threads,
)
from limner.scores.vector_sets import VectorSets

SIMILARITIES = ("cosine", "dot")
LARGEST = float(np.finfo(np.float32).max)


class Scores(ABC):
    """Similarity between queries and candidates, read in blocks of rows."""

    queries: Ids
    candidates: Ids

    @property
    @abstractmethod
    def T(self) -> Scores:
        """The transposed scores: candidates become queries."""

    @abstractmethod
    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Scores of queries start:stop against all candidates, writable; `out` may be used as a buffer."""

    def prepare(self) -> None:  # noqa: B027  # most scores have nothing to prepare
        """Prepares a pass: called once, before threads start. Does nothing by default."""

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, candidates)."""
        return len(self.queries), len(self.candidates)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The dtype of the blocks: that of the input, so that rounding creates no new ties."""
        return np.dtype(np.float32)

    @property
    def bound(self) -> float:
        """An upper bound of all absolute scores, except -inf; inf if unknown."""
        return np.inf

    @property
    def block_rows(self) -> int:
        """Number of rows per block in a pass; the last block may have fewer."""
        return TILE_ROWS

    def memory(self) -> Float32 | None:
        """A reusable buffer for one worker's blocks; None if they allocate their own."""
        return None

    def workers(self, count: int | None) -> AbstractContextManager[WorkerMap]:
        """A `map` that runs a pass in threads; at most one per core by default."""
        return threads(evenly(count, -(-len(self.queries) // self.block_rows)))

    def stream(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: ProgressLike = None
    ) -> Iterator[Result]:
        """Calls `consume(start, block)` for every block of rows, in threads, and yields the results in row order.

        The buffer is reused afterwards: `consume` may change it, and must copy what it keeps. It may run
        current_runner (on a cluster), so all results must be in its return value.
        """
        progress = as_progress(progress)
        self.prepare()
        if runner := current_runner(workers):
            yield from runner.stream(self, consume, progress=progress)
            return
        n, step = self.shape[0], self.block_rows
        memory = local()

        def work(start: int) -> Result:
            if not hasattr(memory, "block"):
                memory.block = self.memory()
            return consume(start, self.block(start, min(start + step, n), memory.block))

        with self.workers(workers) as work_on:
            yield from counted(work_on(work, range(0, n, step)), step, n, progress)

    def map(
        self, consume: Callable[[int, Block], Result], *, workers: int | None = None, progress: ProgressLike = None
    ) -> list[Result]:
        """Like `stream`, with all results at once."""
        return list(self.stream(consume, workers=workers, progress=progress))

    def fold(
        self,
        add: Callable[[State | None, int, Block], State],
        merge: Callable[[State, State], State],
        *,
        steady: bool = False,
        workers: int | None = None,
        progress: ProgressLike = None,
    ) -> State:
        """Adds every block to a state, and merges the states of several workers into one.

        Args:
            add: Takes a state (None at first) and a block, and returns the new state; it may change the state in place.
            merge: Merges the states of earlier and later rows.
            steady: For states whose rounding depends on the order of work, such as sums: every block has its own state,
                and neighbours are merged pairwise in a tree that depends only on the row positions.
            workers: Threads; all cores by default.
            progress: Called as blocks are finished.
        """
        progress = as_progress(progress)
        self.prepare()
        if runner := current_runner(workers):
            return runner.fold(self, add, merge, steady=steady, progress=progress)
        if steady:
            parts = self.stream(partial(add, None), workers=workers, progress=progress)
            return merged(((0, part) for part in parts), merge)
        states: dict[int, State] = {}

        def consume(start: int, block: Block) -> None:
            states[get_ident()] = add(states.get(get_ident()), start, block)

        self.map(consume, workers=workers, progress=progress)
        return reduce(merge, states.values())

    def top(self, k: int, *, workers: int | None = None, progress: ProgressLike = None) -> Ranking:
        """The exact k best candidates of every query; equal scores keep candidate order."""
        if k < 1:
            raise LimnerError(f"top({k}): expected at least 1")
        parts = self.map(Best(k), workers=workers, progress=progress)
        return Best(k).ranking(self, parts)

    def ranking(self) -> Ranking:
        """All candidates of every query in order. Needs the whole matrix in memory: for small pools and run files."""
        matrix = self.matrix()
        order = np.argsort(-matrix, axis=1, kind="stable")
        return Ranking(self.queries, self.candidates, order, np.take_along_axis(matrix, order, axis=1), self.shape[1])

    def matrix(self) -> Block:
        """The whole matrix, in memory."""
        full = np.empty(self.shape, dtype=self.dtype)
        for start, block in self.stream(_copied):
            full[start : start + len(block)] = block
        return full

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> Scores:
        """The scores of these queries and candidates only, in this order."""
        return KINDS["part"](self, *self._positions(queries, candidates))

    def _positions(
        self, queries: Iterable[object] | None, candidates: Iterable[object] | None
    ) -> tuple[IntArray, IntArray]:
        rows = np.arange(len(self.queries)) if queries is None else self.queries.positions(list(queries))
        columns = np.arange(len(self.candidates)) if candidates is None else self.candidates.positions(list(candidates))
        return rows, columns

    def correct(self, method: object, **options: object) -> Scores:
        """Scores corrected for hubs: `scores.correct("csls", k=10)`; see `limner.match.correct`."""
        return KINDS["corrected"](self, method, **options)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """The whole matrix, for numpy and libraries built on it."""
        return np.asarray(self.matrix(), dtype=dtype)

    @staticmethod
    def from_embeddings(
        queries: object, candidates: object, *, similarity: str = "cosine", device: str | None = None
    ) -> Scores:
        """Cosine or dot product between two sets of vectors; the matrix is never stored.

        Args:
            queries: Vectors of the queries: Embeddings, or any rows of numbers, with the ids "0", "1", ...
            candidates: Vectors of the candidates, in the same space.
            similarity: "cosine" or "dot".
            device: Where the products are computed: None for the CPU, "cuda" for a GPU (needs torch).
        """
        queries, candidates = Embeddings.of(queries), Embeddings.of(candidates)
        if queries.dim != candidates.dim:
            raise LimnerError(
                f"query vectors have {queries.dim} dimensions, candidate vectors {candidates.dim}: expected the same; "
                "both must come from the same embedding space"
            )
        if similarity not in SIMILARITIES:
            raise UnknownName("similarity", similarity, SIMILARITIES)
        if device is not None:
            return KINDS["sent"](queries, candidates, similarity=similarity, device=device)
        if similarity == "cosine":
            queries, candidates = queries.normalised(), candidates.normalised()
        return KINDS["vectors"](queries, candidates, similarity)

    @staticmethod
    def from_tensors(
        queries: object,
        candidates: object,
        query_ids: Iterable[object],
        candidate_ids: Iterable[object],
        *,
        similarity: str = "cosine",
    ) -> Scores:
        """Cosine or dot product between two torch tensors of vectors, computed on their device."""
        if similarity not in SIMILARITIES:
            raise UnknownName("similarity", similarity, SIMILARITIES)
        ids = Ids(query_ids, what="query"), Ids(candidate_ids, what="candidate")
        return KINDS["tensors"](*ids, queries, candidates, similarity=similarity)

    @staticmethod
    def from_sets(
        queries: VectorSets | Mapping[str, object],
        candidates: VectorSets | Mapping[str, object],
        *,
        similarity: str = "cosine",
        pooling: str = "max",
        gamma: float = 10.0,
        device: str | None = None,
    ) -> Scores:
        """Items with several vectors each: the best pair, a smooth maximum over all pairs, or late interaction.

        Args:
            queries: {id: vectors of the item}, or `VectorSets`.
            candidates: Likewise.
            similarity: "cosine" or "dot", between single vectors.
            pooling: "max"; "smooth": (1 / gamma) log sum exp(gamma s) over the pairs of vectors; or "maxsim": the sum
                over the query's vectors of the best vector of the candidate (ColBERT, ColPali).
            gamma: Sharpness of the smooth maximum.
            device: Where the products are computed: None for the CPU, "cuda" for a GPU (needs torch).
        """
        sides = [s if isinstance(s, VectorSets) else VectorSets.of(s) for s in (queries, candidates)]
        scores = KINDS["sets"](*sides, similarity=similarity, pooling=pooling, gamma=gamma)
        return scores if device is None else KINDS["sent sets"](scores, device=device)

    @staticmethod
    def from_kernel(
        kernel: Callable[..., object],
        query_items: object,
        candidate_items: object,
        *,
        queries: Iterable[object] | None = None,
        candidates: Iterable[object] | None = None,
    ) -> Scores:
        """Scores from any function of two lists of items that returns a block of similarities.

        Args:
            kernel: `kernel(a, b)` returns an array, len(a) by len(b).
            query_items: Items, an array or a list; the kernel gets slices of it.
            candidate_items: Likewise.
            queries: Ids, if the items have none; numbers by default.
            candidates: Likewise.
        """
        items = indexed(query_items), indexed(candidate_items)
        ids = ids_of(items[0], queries, "query"), ids_of(items[1], candidates, "candidate")
        return KINDS["kernel"](*ids, kernel, *items)

    @staticmethod
    def from_scorer(
        scorer: Scorer | Callable[..., object],
        query_items: object,
        candidate_items: object,
        *,
        queries: Iterable[object] | None = None,
        candidates: Iterable[object] | None = None,
        batch: int = 1024,
    ) -> Scores:
        """Scores every pair with a pair scorer: meant for small pools.

        Args:
            scorer: An object with `score_pairs(queries, candidates)`, or a function that takes two lists of equal
                length and returns one number per pair.
            query_items: Items, an array or a list.
            candidate_items: Likewise.
            queries: Ids, if the items have none; numbers by default.
            candidates: Likewise.
            batch: Number of pairs per call of the scorer.
        """
        items = indexed(query_items), indexed(candidate_items)
        ids = ids_of(items[0], queries, "query"), ids_of(items[1], candidates, "candidate")
        return KINDS["scorer"](*ids, as_scorer(scorer), *items, batch)

    @staticmethod
    def from_matrix(
        matrix: object, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> Scores:
        """Scores from a similarity matrix, queries by candidates, where higher is better.

        Args:
            matrix: An array (a memory-mapped file stays on disk), a list of rows, a torch tensor, a pandas or polars
                table, or a scipy sparse matrix, whose missing cells are 0. A score of -inf or a masked cell excludes a
                pair: it comes last.
            queries: Ids of the rows; by default the labels of a pandas table.
            candidates: Ids of the columns; likewise.
        """
        queries, candidates = labels(matrix, queries, candidates)
        return KINDS["matrix"](Ids(queries, what="query"), Ids(candidates, what="candidate"), matrix)

    @staticmethod
    def load(path: str | Path, queries: Iterable[object], candidates: Iterable[object]) -> Scores:
        """Scores from the similarity matrix in an npy file, memory-mapped."""
        return Scores.from_matrix(read_array(path, what="similarity matrix"), queries, candidates)


class Runner(Protocol):
    """Runs the blocks of a pass outside this process: see `limner.cluster`."""

    def stream(
        self, scores: Scores, consume: Callable[[int, Block], Result], *, progress: Progress
    ) -> Iterator[Result]:
        """Like `Scores.stream`, for scores that are already prepared."""

    def fold(
        self,
        scores: Scores,
        add: Callable[[State | None, int, Block], State],
        merge: Callable[[State, State], State],
        *,
        steady: bool,
        progress: Progress,
    ) -> State:
        """Like `Scores.fold`, for scores that are already prepared."""


RUNNER: ContextVar[Runner | None] = ContextVar("RUNNER", default=None)
"""The runner of passes in this context; None for threads of this process."""


def current_runner(workers: int | None) -> Runner | None:
    """The runner of this context, if there is one."""
    runner = RUNNER.get()
    if runner is not None and workers is not None:
        raise LimnerError(f"workers={workers} on a cluster: the cluster sets the number of workers; leave it out")
    return runner


KINDS: Registry[Callable[..., Scores]] = Registry(
    "kind of scores",
    {
        "corrected": "limner.scores.corrected:correct",
        "kernel": "limner.scores.matrices:KernelScores",
        "matrix": "limner.scores.matrices:MatrixScores",
        "part": "limner.scores.matrices:PartOfScores",
        "scorer": "limner.scores.matrices:ScorerScores",
        "sent sets": "limner.scores.device_sets:TorchSetScores.sent",
        "sent": "limner.scores.device:TorchScores.sent",
        "sets": "limner.scores.set_scores:SetScores.of",
        "tensors": "limner.scores.device:TorchScores.of",
        "vectors": "limner.scores.vectors:VectorScores",
    },
)
"""The constructor of every kind of scores, which a base class cannot import."""


@dataclass(frozen=True)
class Best:
    """Finds the k best of every row of a block, exactly, with ties in candidate order: (indices, scores)."""

    k: int

    def __call__(self, start: int, block: Block) -> tuple[npt.NDArray[np.int32], Block]:
        """Finds the best of a block."""
        indices = np.zeros((len(block), min(self.k, block.shape[1])), dtype=np.int32)
        scores = np.zeros(indices.shape, dtype=number_type(block))
        kernels(block).best(block, indices, scores)
        return indices, scores

    def ranking(self, source: Scores, parts: Iterable[tuple[npt.NDArray[np.int32], Block]]) -> Ranking:
        """Joins the results of all blocks into one ranking."""
        none = self(0, np.empty((0, source.shape[1]), dtype=source.dtype))
        indices, scores = (np.concatenate(each) for each in zip(none, *parts, strict=True))
        return Ranking(source.queries, source.candidates, indices, scores, source.shape[1])

    def divided(self, score: PairScores) -> Best:
        """The same for pieces of rows: the best of a row are among the best of its pieces."""
        return self

    def piece(self, start: int, low: int, block: Block) -> tuple[npt.NDArray[np.int32], Block]:
        """The best of some columns."""
        indices, scores = self(start, block)
        return indices + np.int32(low), scores

    def join(self, parts: Sequence[tuple[npt.NDArray[np.int32], Block]]) -> tuple[npt.NDArray[np.int32], Block]:
        """The best of all columns; pieces come in candidate order, so ties keep that order."""
        indices, scores = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        places, best_scores = self(0, scores)
        return np.take_along_axis(indices, places, axis=1), best_scores


def _copied(start: int, block: Block) -> tuple[int, Block]:
    return start, np.array(on_host(block))


def refuse_nan(scores: Scores, block: Block, start: int, mend: str) -> None:
    """Refuses a block with NaN, which cannot be ordered, and names the pair."""
    if np.isnan(block).any():
        row, column = (int(at) for at in np.argwhere(np.isnan(block))[0])
        raise LimnerError(
            f"the similarity of query {scores.queries[start + row]!r} and candidate {scores.candidates[column]!r} is "
            f"NaN (row {start + row}, column {column}): its place in the order is undefined; {mend}"
        )


def refuse_overflow(scores: Scores, block: object, start: int, lengths: tuple[float, float]) -> None:
    """Refuses products of vectors that single precision cannot hold, and names the pair.

    Args:
        scores: The scores, for the ids in the message.
        block: The products.
        start: The query of its first row.
        lengths: Lengths of the longest query vector and the longest candidate vector.
    """
    finite = np.isfinite(on_host(block))
    if not finite.all():
        row, column = (int(at) for at in np.argwhere(~finite)[0])
        raise LimnerError(
            f"the product of query {scores.queries[start + row]!r} and candidate {scores.candidates[column]!r} (row "
            f"{start + row}, column {column}) overflows single precision: the longest vectors have lengths of "
            f"{lengths[0]:.3g} and {lengths[1]:.3g}; normalise them (similarity='cosine'), divide them by a constant, "
            "or give the products in double precision to Scores.from_matrix"
        )
