"""Evaluation: measures, protocols, comparisons with intervals and tests, tuning on dev, reports and tables."""

from typing import TYPE_CHECKING

from limner.evaluation.boards.board import Board
from limner.evaluation.boards.board_reading import leaderboard
from limner.evaluation.comparison import Comparison, compare
from limner.evaluation.diagnostics.breakdown import Breakdown, breakdown
from limner.evaluation.diagnostics.modality_gap import ModalityGap, modality_gap
from limner.evaluation.evaluate import evaluate
from limner.evaluation.hubs import Hubs
from limner.evaluation.measures import Measure
from limner.evaluation.meter import RetrievalMeter
from limner.evaluation.reports.report import Report
from limner.evaluation.slices import Slice, Slices, slices
from limner.evaluation.tuning import corrected, tune

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "Board",
    "Breakdown",
    "Comparison",
    "Hubs",
    "Measure",
    "ModalityGap",
    "Report",
    "RetrievalMeter",
    "Slice",
    "Slices",
    "breakdown",
    "compare",
    "corrected",
    "evaluate",
    "leaderboard",
    "modality_gap",
    "slices",
    "tune",
]
