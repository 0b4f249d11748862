"""Similarities computed by a function: kernels return blocks, pair scorers return one number per pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limner.core.arrays import Float32, array
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.scores.base import Scores, refuse_nan
from limner.scores.inputs import Scorer
from limner.scores.parallel_blocks import Block


def _values(items: object) -> Any:
    """The arguments of the function: the values of items, the vectors of embeddings, or the input itself."""
    return getattr(items, "values", None) if hasattr(items, "kind") else getattr(items, "matrix", items)


def _picked(items: Any, positions: Any) -> object:
    return items[positions] if hasattr(items, "shape") or hasattr(items, "kind") else [items[int(i)] for i in positions]


@dataclass(frozen=True, eq=False)
class KernelScores(Scores):
    """Blocks of `kernel(query items, candidate items)`, in double precision."""

    queries: Ids
    candidates: Ids
    kernel: Callable[..., object]
    query_items: Any
    candidate_items: Any
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
    query_items: Any
    candidate_items: Any
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
    def workers(self, count: int | None) -> Iterator[Callable[..., Iterator[object]]]:
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
