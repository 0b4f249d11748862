"""A matrix of similarities that is there already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.errors import LimnerError
from limner.ids import Ids
from limner.scores.base import Scores
from limner.scores.running import Block, Float32


@dataclass(frozen=True, eq=False)
class MatrixScores(Scores):
    """A matrix that is there already (in memory or mapped from a file)."""

    queries: Ids
    candidates: Ids
    values: npt.NDArray[Any]
    checked: bool = False

    def __post_init__(self) -> None:
        """Checks the shape, and that every value has a place in an order."""
        if self.values.shape != (len(self.queries), len(self.candidates)):
            raise LimnerError(
                f"similarity matrix of shape {self.values.shape} for {len(self.queries)} queries and "
                f"{len(self.candidates)} candidates: expected {(len(self.queries), len(self.candidates))}"
            )
        if not np.issubdtype(self.values.dtype, np.number) or np.iscomplexobj(self.values):
            raise LimnerError(f"similarity matrix of type {self.values.dtype}: expected real numbers")
        for row in range(0 if not self.checked else len(self.values), len(self.values)):
            if np.isnan(self.values[row]).any():
                column = int(np.isnan(self.values[row]).argmax())
                raise LimnerError(
                    f"similarity of query {self.queries[row]!r} and candidate {self.candidates[column]!r} is NaN "
                    f"(row {row}, column {column}): its place in the order is undefined; mend it or set it to -inf"
                )

    @property
    def T(self) -> MatrixScores:
        """The other direction: the transposed matrix."""
        return MatrixScores(self.candidates, self.queries, self.values.T, checked=True)

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> MatrixScores:
        """The cells of these queries and candidates."""
        rows, columns = self._positions(queries, candidates)
        values = self.values[np.ix_(rows, columns)]
        return MatrixScores(self.queries[rows], self.candidates[columns], values, checked=True)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 for float16 and float32 values, float64 for all others."""
        return np.dtype(np.float32 if self.values.dtype in (np.float16, np.float32) else np.float64)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Rows of the matrix, copied: whoever reads a block may change it."""
        return np.array(self.values[start:stop], dtype=self.dtype, order="C")
