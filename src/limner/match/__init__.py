"""Matching: correct hubs, assign one to one, fuse systems, re-rank in a cascade."""

from typing import TYPE_CHECKING

from limner.match.assignment import bijective
from limner.match.fusion import FUSIONS, borda, fuse, mean, reciprocal_rank
from limner.match.murty import best_totals, k_best, k_best_ranking
from limner.match.reranking import SCORERS, cascade, scorer
from limner.scores.corrected import correct
from limner.scores.correction import CORRECTIONS, Correction, correction

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "CORRECTIONS",
    "FUSIONS",
    "SCORERS",
    "Correction",
    "best_totals",
    "bijective",
    "borda",
    "cascade",
    "correct",
    "correction",
    "fuse",
    "k_best",
    "k_best_ranking",
    "mean",
    "reciprocal_rank",
    "scorer",
]
