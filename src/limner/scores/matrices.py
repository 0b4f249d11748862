"""A precomputed similarity matrix, and views of some queries and candidates of other scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import Array, Float32, IntArray, array, numbers, pieces, unmasked
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores.base import Scores, refuse_nan
from limner.scores.parallel_blocks import Block

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

    def workers(self, count: int | None) -> AbstractContextManager[Callable[..., Iterator[object]]]:
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
