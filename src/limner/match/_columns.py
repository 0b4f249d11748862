"""What a bank of queries thinks of each candidate, gathered while blocks of scores stream by.

Every statistic needs memory for a few rows of the matrix, and none depends on the number of threads: the k best of a
column are the same in any order, and sums of blocks are merged along a tree that depends on positions only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.scores import Block, Progress, Scores, number_type

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Sums = tuple[Float64, Int32, Float64]
"""Of every column: the highest value, the row that has it, and the sum of the others' exponentials relative to it."""


@dataclass(frozen=True, eq=False)
class LogSums:
    """log sum_j exp(beta s(j, t)) of every candidate t, held so that one query's own term can be taken out.

    The highest term is kept apart: the whole sum is exp(beta highest) (1 + rest), and without the query that gave the
    highest it is exp(beta highest) rest. The own term of any other query is at most the highest, so subtracting it
    loses no digits.
    """

    beta: float
    highest: Float64
    owner: Int32
    rest: Float64

    @property
    def whole(self) -> Float64:
        """The logarithm of the sum over all queries."""
        return np.asarray(self.beta * self.highest + np.log1p(self.rest))

    @property
    def without_owner(self) -> Float64:
        """The logarithm of the sum without the query that gave the highest term."""
        return np.asarray(self.beta * self.highest + np.log(np.maximum(self.rest, 1e-38)))


def loops(block: Any) -> Any:
    """The loops of the corrections for a block, by where it is: compiled ones for an array, torch's for a tensor."""
    if isinstance(block, np.ndarray):
        from limner.match import _loops

        return _loops
    from limner import _cuda

    return _cuda


def best(bank: Scores, k: int, *, progress: Progress | None = None) -> Block:
    """The k highest scores of every candidate over the bank: (k, candidates), highest first."""
    held = bank.fold(partial(_add_best, min(k, bank.shape[0])), _merge_best, progress=progress)
    return held if isinstance(held, np.ndarray) else loops(held).on_host(held)


def _add_best(k: int, held: Block | None, start: int, block: Block) -> Block:
    here = loops(block)
    return here.keep_best(block, here.lowest(k, block) if held is None else held)  # type: ignore[no-any-return]


def _merge_best(held: Block, other: Block) -> Block:
    merged = held.copy()  # what came from elsewhere may not be written to
    return loops(merged).keep_best(other, merged)  # type: ignore[no-any-return]


def mean_of_best(bank: Scores, k: int, *, progress: Progress | None = None) -> Float64:
    """The mean of the k highest scores of every candidate over the bank."""
    return np.asarray(best(bank, k, progress=progress).mean(axis=0, dtype=np.float64))


def log_sums(bank: Scores, beta: float, *, shift: Float64 | None = None, progress: Progress | None = None) -> LogSums:
    """`LogSums` of every candidate over the bank.

    Args:
        bank: Scores of the bank's queries.
        beta: Inverse temperature.
        shift: A number per candidate; each row is first normalised to sum 1 after adding it (one round of Sinkhorn).
        progress: Called as blocks are done.
    """
    scale = 1.0 if shift is not None else beta
    add = partial(_sums_of_block, beta, shift)
    return LogSums(scale, *bank.fold(add, partial(_merge_sums, scale), steady=True, progress=progress))


def _sums_of_block(beta: float, shift: Float64 | None, held: None, start: int, block: Block) -> Sums:
    if shift is not None:
        block, beta = normalised_rows(block, beta, shift), 1.0
    width = block.shape[1]
    highest, owner, rest = np.empty(width), np.empty(width, dtype=np.int32), np.empty(width)
    loops(block).add_columns(block, beta, highest, owner, rest)
    return highest, owner + np.int32(start), rest


def _merge_sums(scale: float, earlier: Sums, later: Sums) -> Sums:
    highest, owner, rest = earlier
    top = np.maximum(highest, later[0])
    new = later[0] > highest
    ours, theirs = np.exp(scale * (highest - top)), np.exp(scale * (later[0] - top))
    rest = np.where(new, (rest + 1.0) * ours + later[2], rest + (later[2] + 1.0) * theirs)
    return top, np.where(new, later[1], owner), rest


def normalised_rows(block: Block, beta: float, shift: Float64) -> Block:
    """beta s + shift, less the logarithm of the sum of its exponentials along the row; changes the block."""
    here, width = loops(block), block.shape[1]
    kind = number_type(block)
    here.shift(block, kind.type(beta), (-shift).astype(kind), np.zeros(len(block), dtype=kind))
    here.shift(block, kind.type(1), np.zeros(width, dtype=kind), row_log_sums(block, 1.0).astype(kind))
    return block


def row_log_sums(block: Block, beta: float) -> Float64:
    """log sum_t exp(beta s(i, t)) of every row of a block."""
    sums = np.empty(len(block))
    loops(block).add_rows(block, beta, sums)
    return sums


def shifted(block: Block, scale: float, columns: npt.NDArray[Any], rows: npt.NDArray[Any] | None = None) -> Block:
    """scale s(i, t) - columns(t) - rows(i), in place."""
    kind = number_type(block)
    own = np.zeros(len(block), dtype=kind) if rows is None else rows.astype(kind)
    loops(block).shift(block, kind.type(scale), columns.astype(kind), own)
    return block
