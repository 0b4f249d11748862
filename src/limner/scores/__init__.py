"""Scores: lazy similarity between queries and candidates. Rows are queries, higher is better.

A `Scores` is read in blocks of rows; the whole matrix is in memory only if you request it. Blocks are computed
as products on a fixed grid of tiles, each by one thread, so that results do not depend on the block size or the number
of threads, and equal vectors always get equal scores.
"""

from __future__ import annotations

from limner.core.arrays import Float32
from limner.scores import device, device_sets, pairs, set_scores  # noqa: F401  # they register their scores
from limner.scores.base import LARGEST, RUNNER, TILE_COLUMNS, TILE_ROWS, Best, Runner, Scores
from limner.scores.corrected import CorrectedScores, correct
from limner.scores.correction import CORRECTIONS, Correction, Statistics, correction
from limner.scores.inputs import Scorer
from limner.scores.matrices import MatrixScores
from limner.scores.parallel_blocks import (
    Block,
    Divisible,
    PairScores,
    Result,
    State,
    kernels,
    merged,
    number_type,
    on_host,
    usable_cores,
)
from limner.scores.vector_sets import VectorSets
from limner.scores.vectors import VectorScores

__all__ = [
    "CORRECTIONS", "LARGEST", "RUNNER", "TILE_COLUMNS", "TILE_ROWS", "Best", "Block", "CorrectedScores", "Correction",
    "Divisible", "Float32", "MatrixScores", "PairScores", "Result", "Runner", "Scorer", "Scores", "State",
    "Statistics", "VectorScores", "VectorSets", "correct", "correction", "kernels", "merged", "number_type", "on_host",
    "usable_cores",
]  # fmt: skip
