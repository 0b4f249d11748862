"""Scores from a matrix, from a function, and views of some queries and candidates of other scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from limner.core.arrays import Array, Float32, IntArray, array, numbers, pieces, unmasked
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores.base import Scores, refuse_nan
from limner.scores.inputs import Indexed, Scorer
from limner.scores.parallel_blocks import Block, WorkerMap

WHAT = "similarity matrix"


@dataclass(frozen=True, eq=False)
class MatrixScores(Scores):
    """A precomputed matrix, in memory or memory-mapped.

    Args:
        queries: Ids of the queries.
        candidates: Ids of the candidates.
        values: Any input of `limner.core.arrays.array`; a masked cell is an excluded pair, -inf.
        checked: Whether the values are known to be an array of numbers without NaN.
    """

    queries: Ids
    candidates: Ids
    values: Array
    checked: bool = False

    def __post_init__(self) -> None:
        """Checks the shape, and that no value is NaN."""
        if not self.checked:
            values = array(self.values, WHAT)
            object.__setattr__(self, "values", unmasked(numbers(values, WHAT), WHAT, fill=-np.inf))
        if self.values.shape != (len(self.queries), len(self.candidates)):
            raise LimnerError(
                f"similarity matrix of shape {self.values.shape} for {len(self.queries)} queries and "
                f"{len(self.candidates)} candidates: expected {(len(self.queries), len(self.candidates))}"
            )
        for start, rows in () if self.checked else pieces(self.values):
            refuse_nan(self, rows, start, "fix it or set it to -inf")

    @property
    def T(self) -> MatrixScores:
        """The transposed matrix."""
        return MatrixScores(self.candidates, self.queries, self.values.T, checked=True)

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> MatrixScores:
        """The cells of these queries and candidates."""
        rows, columns = self._positions(queries, candidates)
        values = self.values[np.ix_(rows, columns)]
        return MatrixScores(self.queries[rows], self.candidates[columns], values, checked=True)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """float32 for float16 and float32 values, and float64 for all others."""
        return np.dtype(np.float32 if self.values.dtype in (np.float16, np.float32) else np.float64)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """A copy of rows of the matrix, which the caller may change."""
        return np.array(self.values[start:stop], dtype=self.dtype, order="C")


@dataclass(frozen=True, eq=False)
class PartOfScores(Scores):
    """A view of some rows and columns of other scores.

    A part of corrected scores keeps the statistics of the whole; to gather new statistics, correct the part itself.
    """

    base: Scores
    rows: IntArray
    columns: IntArray

    @property
    def queries(self) -> Ids:  # type: ignore[override]  # a derived value where the base names an attribute
        """Ids of the queries."""
        return self.base.queries[self.rows]

    @property
    def candidates(self) -> Ids:  # type: ignore[override]
        """Ids of the candidates."""
        return self.base.candidates[self.columns]

    @property
    def T(self) -> PartOfScores:
        """The transposed scores."""
        return PartOfScores(self.base.T, self.columns, self.rows)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The same as for the underlying scores."""
        return self.base.dtype

    @property
    def bound(self) -> float:
        """The same as for the underlying scores."""
        return self.base.bound

    def prepare(self) -> None:
        """Prepares the underlying scores."""
        self.base.prepare()

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, candidates)."""
        return len(self.rows), len(self.columns)

    def workers(self, count: int | None) -> AbstractContextManager[WorkerMap]:
        """The same as for the underlying scores."""
        return self.base.workers(count)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Reads rows of the underlying scores in contiguous runs, then selects the columns."""
        rows = self.rows[start:stop]
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        parts = [self.base.block(int(run[0]), int(run[-1]) + 1)[:, self.columns] for run in runs if len(run)]
        if isinstance(parts[0], np.ndarray):
            return np.ascontiguousarray(np.concatenate(parts))
        from limner.core.tensors import torch_module

        return torch_module().cat(parts)


def _values(items: Indexed) -> Indexed:
    """The arguments of the function: the values of items, the vectors of embeddings, or the input itself."""
    return cast(Indexed, getattr(items, "values", None) if hasattr(items, "kind") else getattr(items, "matrix", items))


def _picked(items: Indexed, positions: IntArray) -> Indexed:
    if hasattr(items, "shape") or hasattr(items, "kind"):
        return cast(Indexed, items[positions])
    return [items[int(i)] for i in positions]


@dataclass(frozen=True, eq=False)
class KernelScores(Scores):
    """Blocks of `kernel(query items, candidate items)`, in double precision."""

    queries: Ids
    candidates: Ids
    kernel: Callable[..., object]
    query_items: Indexed
    candidate_items: Indexed
    turned: bool = False

    @property
    def T(self) -> KernelScores:
        """The transposed scores; the kernel still gets the original queries first."""
        return KernelScores(
            self.candidates, self.queries, self.kernel, self.candidate_items, self.query_items, not self.turned
        )

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> KernelScores:
        """The scores of these items only; the kernel is not called for any others."""
        rows, columns = self._positions(queries, candidates)
        items = _picked(_values(self.query_items), rows), _picked(_values(self.candidate_items), columns)
        return KernelScores(self.queries[rows], self.candidates[columns], self.kernel, *items, self.turned)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """float64."""
        return np.dtype(np.float64)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """The kernel's output for these rows, checked."""
        rows, columns = _values(self.query_items)[start:stop], _values(self.candidate_items)
        answer = self.kernel(columns, rows) if self.turned else self.kernel(rows, columns)
        values = np.array(array(answer, "the kernel's answer"), dtype=np.float64)
        expected = (len(self.candidates), stop - start) if self.turned else (stop - start, len(self.candidates))
        if values.shape != expected:
            raise LimnerError(
                f"the kernel gave an array of shape {values.shape}: expected {expected}, a number per pair"
            )
        block = np.ascontiguousarray(values.T if self.turned else values)
        refuse_nan(self, block, start, "fix the function, or return -inf for an excluded pair")
        return block


@dataclass(frozen=True, eq=False)
class ScorerScores(Scores):
    """Every pair scored by a pair scorer, batch by batch, in double precision."""

    queries: Ids
    candidates: Ids
    scorer: Scorer
    query_items: Indexed
    candidate_items: Indexed
    batch: int = 1024
    turned: bool = False

    @property
    def T(self) -> ScorerScores:
        """The transposed scores; the scorer still gets the original queries first."""
        return replace(
            self,
            queries=self.candidates,
            candidates=self.queries,
            query_items=self.candidate_items,
            candidate_items=self.query_items,
            turned=not self.turned,
        )

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> ScorerScores:
        """The scores of these items only; no other pairs are scored."""
        rows, columns = self._positions(queries, candidates)
        items = _picked(_values(self.query_items), rows), _picked(_values(self.candidate_items), columns)
        ids = self.queries[rows], self.candidates[columns]
        return replace(self, queries=ids[0], candidates=ids[1], query_items=items[0], candidate_items=items[1])

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """float64."""
        return np.dtype(np.float64)

    @contextmanager
    def workers(self, count: int | None) -> Iterator[WorkerMap]:
        """One block at a time: a scorer need not be thread-safe."""
        yield map

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """The scorer's output for these rows, checked."""
        rows, columns = _values(self.query_items), _values(self.candidate_items)
        width = len(self.candidates)
        scores = np.empty((stop - start) * width)
        for low in range(0, len(scores), self.batch):
            pairs = [divmod(p, width) for p in range(low, min(low + self.batch, len(scores)))]
            sides = [rows[start + r] for r, _ in pairs], [columns[c] for _, c in pairs]
            pair_scores = self.scorer.score_pairs(*(reversed(sides) if self.turned else sides))
            answer = np.asarray(array(pair_scores, "score_pairs"), dtype=np.float64)
            if answer.shape != (len(pairs),):
                raise LimnerError(
                    f"score_pairs gave an array of shape {answer.shape} for {len(pairs)} pairs: expected "
                    "one number each"
                )
            scores[low : low + len(pairs)] = answer
        block = scores.reshape(stop - start, width)
        refuse_nan(self, block, start, "fix the function, or return -inf for an excluded pair")
        return block
