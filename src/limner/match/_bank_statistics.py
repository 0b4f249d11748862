"""Statistics of each candidate over a bank of queries, gathered in one pass over blocks of scores.

Every statistic needs memory for only a few rows of the matrix, and none depends on the number of threads: the k best of
a column are the same in any order, and sums of blocks are merged in a tree that depends only on positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType

import numpy as np

from limner.core.arrays import Array, FloatArray, Int32, IntArray
from limner.core.progress import SILENT, Progress
from limner.scores import Scores
from limner.scores.correction import Limit
from limner.scores.parallel_blocks import Block, number_type, on_host

Sums = tuple[FloatArray, Int32, FloatArray, FloatArray, Array]
"""For every column: the highest value, its row, the highest of the other rows, and the sum of their exponentials
relative to it; for every row: its scores of a few candidates."""
NO_PLACES = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LogSums:
    """log sum_j exp(beta s(j, t)) of every candidate t, stored so that the term of one query can be removed.

    The highest term is stored separately from the sum of the others, which is relative to the highest of those, so
    neither can underflow. The term of any other query is at most the highest, so subtracting it loses no precision.

    Args:
        beta: Inverse temperature.
        highest: The highest score of each candidate; -inf if it has no score.
        owner: The query with the highest score.
        second: The highest score of the other queries.
        rest: The sum of the others' terms relative to that of `second`.
        seen: Scores of a few candidates, one row per query.
    """

    beta: float
    highest: FloatArray
    owner: Int32
    second: FloatArray
    rest: FloatArray
    seen: Array

    @property
    def log_total(self) -> FloatArray:
        """The logarithm of the sum over all queries, -inf for an empty sum."""
        tail = self.rest * np.exp(self.beta * (self.second - _finite(self.highest)))
        return np.asarray(self.beta * self.highest + np.log1p(tail))

    @property
    def without_owner(self) -> FloatArray:
        """The logarithm of the sum without the query with the highest term."""
        return np.asarray(self.beta * self.second + np.log(np.where(self.rest > 0, self.rest, 1.0)))


def _finite(values: FloatArray) -> FloatArray:
    """Replaces -inf by 0, so that differences are defined."""
    return np.where(values > -np.inf, values, 0.0)


def neutral(values: FloatArray) -> FloatArray:
    """Replaces -inf (a candidate without statistics) by the mean of the others; 0 if there are none.

    >>> neutral(np.array([1.0, -np.inf, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    finite = values > -np.inf
    return np.where(finite, values, values[finite].mean() if finite.any() else 0.0)


def loops(block: object) -> ModuleType:
    """The loops of the corrections: compiled loops for an array, torch for a tensor."""
    if isinstance(block, np.ndarray):
        from limner.match import _correction_kernels

        return _correction_kernels
    from limner.scores import torch_kernels as _cuda

    return _cuda


def best(bank: Scores, k: int, *, limit: Limit, progress: Progress = SILENT) -> Block:
    """The k highest scores of every candidate over the bank: (k, candidates), highest first."""
    k = min(k, bank.shape[0])
    by_columns = None if limit.reach else getattr(bank, "best_of_columns", None)
    best_scores: Block | None = by_columns and by_columns(k, progress=progress)
    if best_scores is not None:
        return best_scores
    state = bank.fold(partial(_add_best, k, limit), _merge_best, progress=progress)
    return on_host(state)


def _add_best(k: int, limit: Limit, state: Block | None, start: int, block: Block) -> Block:
    limit(block, start)
    kernels = loops(block)
    return kernels.keep_best(block, kernels.lowest(k, block) if state is None else state)  # type: ignore[no-any-return]


def _merge_best(state: Block, later: Block) -> Block:
    # Data from another process may be read-only; torch's loop does not write to it.
    merged = state.copy() if isinstance(state, np.ndarray) else state
    return loops(merged).keep_best(later, merged)  # type: ignore[no-any-return]


def mean_of_best(bank: Scores, k: int, *, limit: Limit, progress: Progress = SILENT) -> FloatArray:
    """The mean of the k highest scores of every candidate over the bank; of all its scores if there are fewer."""
    best_scores = best(bank, k, limit=limit, progress=progress).astype(np.float64)
    finite = best_scores > -np.inf
    count = finite.sum(axis=0)
    means = np.where(finite, best_scores, 0.0).sum(axis=0) / np.maximum(count, 1)
    return neutral(np.where(count > 0, means, -np.inf))


def means(bank: Scores, *, limit: Limit, progress: Progress = SILENT) -> FloatArray:
    """The mean score of every candidate over the bank."""
    total, count = bank.fold(partial(_totals, limit), _merge_totals, steady=True, progress=progress)
    return neutral(np.where(count > 0, total / np.maximum(count, 1), -np.inf))


def _totals(limit: Limit, state: None, start: int, block: Block) -> tuple[FloatArray, IntArray]:
    limit(block, start)
    rows = on_host(block).astype(np.float64)
    finite = rows > -np.inf
    return np.where(finite, rows, 0.0).sum(axis=0), finite.sum(axis=0)


def _merge_totals(
    earlier: tuple[FloatArray, IntArray], later: tuple[FloatArray, IntArray]
) -> tuple[FloatArray, IntArray]:
    return earlier[0] + later[0], earlier[1] + later[1]


def log_sums(
    bank: Scores,
    beta: float,
    *,
    limit: Limit,
    shift: FloatArray | None = None,
    stored_columns: IntArray = NO_PLACES,
    progress: Progress = SILENT,
) -> LogSums:
    """`LogSums` of every candidate over the bank.

    Args:
        bank: Scores of the bank's queries.
        beta: Inverse temperature.
        limit: The check that refuses invalid scores.
        shift: A number per candidate; it is added to each row, which is then normalised to sum 1 (one round of
            Sinkhorn).
        stored_columns: Candidates whose scores are stored, to recognise queries of the bank.
        progress: Called as blocks are finished.
    """
    scale = 1.0 if shift is not None else beta
    add = partial(_sums_of_block, beta, limit, shift, stored_columns)
    return LogSums(scale, *bank.fold(add, partial(_merge_sums, scale), steady=True, progress=progress))


def _sums_of_block(
    beta: float, limit: Limit, shift: FloatArray | None, stored_columns: IntArray, state: None, start: int, block: Block
) -> Sums:
    limit(block, start)
    stored = on_host(block[:, stored_columns])  # indexing columns makes a copy
    if shift is not None:
        block, beta = normalised_rows(block, beta, shift), 1.0
    width = block.shape[1]
    highest, owner, second, tail_sum = (
        np.empty(width),
        np.empty(width, dtype=np.int32),
        np.empty(width),
        np.empty(width),
    )
    loops(block).add_columns(block, number_type(block).type(beta), highest, owner, second, tail_sum)
    return highest, owner + np.int32(start), second, tail_sum, stored


def _merge_sums(scale: float, earlier: Sums, later: Sums) -> Sums:
    """Merges two states; the lower of the two maxima is added to the rest."""
    new = later[0] > earlier[0]
    top, beaten = np.where(new, later[0], earlier[0]), np.where(new, earlier[0], later[0])
    second = np.maximum(np.maximum(earlier[2], later[2]), beaten)
    base = _finite(second)
    tail_sum = np.exp(scale * (beaten - base))
    for _, _, their_second, their_rest, _ in (earlier, later):
        tail_sum += their_rest * np.exp(scale * (their_second - base))
    return top, np.where(new, later[1], earlier[1]), second, tail_sum, np.concatenate([earlier[4], later[4]])


def normalised_rows(block: Block, beta: float, shift: FloatArray) -> Block:
    """beta s + shift minus its log-sum-exp along the row; changes the block in place."""
    tops = np.empty(len(block))
    loops(block).tops(block, split(-shift, beta, number_type(block))[0], tops)
    block = shifted(block, beta, -shift, beta * tops)  # roughly the logarithm, subtracted first to keep precision
    return shifted(block, 1.0, np.zeros(block.shape[1]), row_log_sums(block, 1.0))


def row_log_sums(block: Block, beta: float) -> FloatArray:
    """log sum_t exp(beta s(i, t)) of every row of a block; 0 for a row of -inf, so that it is not changed."""
    sums = np.empty(len(block))
    loops(block).add_rows(block, number_type(block).type(beta), sums)
    return sums


def shifted(block: Block, scale: float, columns: FloatArray, rows: FloatArray | None = None) -> Block:
    """scale s(i, t) - columns(t) - rows(i), in place."""
    kind = number_type(block)
    row_values = np.zeros(len(block)) if rows is None else rows
    loops(block).shift(block, kind.type(scale), *split(columns, scale, kind), *split(row_values, scale, kind))
    return block


def split(values: FloatArray, scale: float, kind: np.dtype[np.floating]) -> tuple[Array, Array]:
    """Splits values into (high, low) with scale high + low = values, so that scale (s - high) - low keeps precision.

    s and high are about equal, so their difference is exact; scale s alone could round two different scores to the same
    number.
    """
    high = (values / scale).astype(kind)
    return high, (values - scale * high.astype(np.float64)).astype(kind)
