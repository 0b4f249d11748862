"""Scores: lazy similarity between queries and candidates. Rows are queries, higher is better.

A `Scores` is read in blocks of rows; the whole matrix is in memory only if you request it. Blocks are computed
as products on a fixed grid of tiles, each by one thread, so that results do not depend on the block size or the number
of threads, and equal vectors always get equal scores.
"""

from __future__ import annotations

from limner.scores.base import Scores
from limner.scores.inputs import Scorer
from limner.scores.vector_sets import VectorSets

__all__ = [
    "Scorer",
    "Scores",
    "VectorSets",
]
