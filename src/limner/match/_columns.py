"""What a bank of queries thinks of each candidate, gathered while blocks of scores stream by.

Every statistic needs memory for a few rows of the matrix, and none depends on the number of threads: the k best of a
column are the same in any order, and sums are merged block by block in row order.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock, local

import numpy as np
import numpy.typing as npt

from limner.match import _loops
from limner.scores import Block, Progress, Scores

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


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


def best(bank: Scores, k: int, *, progress: Progress | None = None) -> Block:
    """The k highest scores of every candidate over the bank: (k, candidates), highest first."""
    n, width = bank.shape
    memory, held, lock = local(), list[Block](), Lock()

    def consume(start: int, block: Block) -> None:
        if not hasattr(memory, "best"):
            memory.best = np.full((min(k, n), width), -np.inf, dtype=bank.dtype)
            with lock:
                held.append(memory.best)
        _loops.keep_best(block, memory.best)

    bank.map(consume, progress=progress)
    merged = np.full((min(k, n), width), -np.inf, dtype=bank.dtype)
    for part in held:
        _loops.keep_best(part, merged)
    return merged


def mean_of_best(bank: Scores, k: int, *, progress: Progress | None = None) -> Float64:
    """The mean of the k highest scores of every candidate over the bank."""
    return best(bank, k, progress=progress).mean(axis=0, dtype=np.float64)


def log_sums(bank: Scores, beta: float, *, shift: Float64 | None = None, progress: Progress | None = None) -> LogSums:
    """`LogSums` of every candidate over the bank.

    Args:
        bank: Scores of the bank's queries.
        beta: Inverse temperature.
        shift: A number per candidate; each row is first normalised to sum 1 after adding it (one round of Sinkhorn).
        progress: Called as blocks are done.
    """
    width = bank.shape[1]
    highest, owner, rest = np.full(width, -np.inf), np.full(width, -1, dtype=np.int32), np.zeros(width)
    scale = 1.0 if shift is not None else beta

    def consume(start: int, block: Block) -> tuple[int, Float64, Int32, Float64]:
        if shift is not None:
            block = normalised_rows(block, beta, shift)
        part = np.empty(width), np.empty(width, dtype=np.int32), np.empty(width)
        _loops.add_columns(block, scale, *part)
        return start, *part

    for start, block_highest, block_owner, block_rest in bank.stream(consume, progress=progress):
        top = np.maximum(highest, block_highest)
        new = block_highest > highest
        ours, theirs = np.exp(scale * (highest - top)), np.exp(scale * (block_highest - top))
        rest = np.where(new, (rest + 1.0) * ours + block_rest, rest + (block_rest + 1.0) * theirs)
        owner = np.where(new, start + block_owner, owner)
        highest = top
    return LogSums(scale, highest, owner, rest)


def normalised_rows(block: Block, beta: float, shift: Float64) -> Block:
    """beta s + shift, less the logarithm of the sum of its exponentials along the row."""
    shifted = beta * block + shift
    return np.asarray(shifted - row_log_sums(shifted, 1.0)[:, None])


def row_log_sums(block: Block, beta: float) -> Float64:
    """log sum_t exp(beta s(i, t)) of every row of a block."""
    sums = np.empty(len(block))
    _loops.add_rows(np.ascontiguousarray(block), beta, sums)
    return sums
