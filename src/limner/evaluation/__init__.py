"""Evaluation: measures, protocols, comparisons with intervals and tests, tuning on dev, reports and tables."""

from typing import TYPE_CHECKING

from limner.evaluation.boards.board_reading import leaderboard
from limner.evaluation.callbacks import RetrievalMeter
from limner.evaluation.comparison import compare
from limner.evaluation.diagnostics.breakdown import breakdown
from limner.evaluation.diagnostics.modality_gap import modality_gap
from limner.evaluation.evaluate import evaluate
from limner.evaluation.slices import slices
from limner.evaluation.tuning import corrected, tune

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "RetrievalMeter",
    "breakdown",
    "compare",
    "corrected",
    "evaluate",
    "leaderboard",
    "modality_gap",
    "slices",
    "tune",
]
