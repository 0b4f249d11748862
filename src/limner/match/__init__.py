"""match: correct hubs, assign one to one, fuse systems, re-rank in a cascade."""

from limner.match.assignment import BijectiveRanking, bijective
from limner.match.corrections import CORRECTIONS, CorrectedScores, Correction, Statistics, correct
from limner.match.fusion import borda, fuse, mean, reciprocal_rank
from limner.match.murty import best_totals, k_best, k_best_ranking
from limner.match.reranking import cascade

__all__ = [
    "CORRECTIONS",
    "BijectiveRanking",
    "CorrectedScores",
    "Correction",
    "Statistics",
    "best_totals",
    "bijective",
    "borda",
    "cascade",
    "correct",
    "fuse",
    "k_best",
    "k_best_ranking",
    "mean",
    "reciprocal_rank",
]
