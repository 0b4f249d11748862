"""Views of some queries and candidates of other scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import Float32, IntArray
from limner.core.ids import Ids
from limner.scores.base import KINDS, Scores
from limner.scores.parallel_blocks import Block


@KINDS.register("part")
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

    def workers(self, wanted: int | None) -> AbstractContextManager[Callable[..., Iterator[object]]]:
        """The same as for the underlying scores."""
        return self.base.workers(wanted)

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Reads rows of the underlying scores in contiguous runs, then selects the columns."""
        wanted = self.rows[start:stop]
        runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1)
        parts = [self.base.block(int(run[0]), int(run[-1]) + 1)[:, self.columns] for run in runs if len(run)]
        if isinstance(parts[0], np.ndarray):
            return np.ascontiguousarray(np.concatenate(parts))
        from limner.core.torch_device import torch_module

        return torch_module().cat(parts)
