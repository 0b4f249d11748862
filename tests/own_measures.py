"""Measures that somebody else wrote: what "own_measures:RBP" names in the tests."""

import numpy as np

from limner.evaluation.measures import Composite, MeasureKind, at_rank, total


def rank_biased_precision(placements, measure):
    """(1 - p) times the sum of p^(rank - 1) over relevant candidates."""
    p = measure.option("p")
    return (1 - p) * total(placements, at_rank(placements, lambda rank: p ** (rank - 1), k=measure.k))


RBP = MeasureKind(
    "RBP",
    rank_biased_precision,
    "(1 - p) sum of p^(rank - 1) over relevant candidates",
    "Moffat & Zobel 2008",
    cut="optional",
    options={"p": 0.8},
)


def average_precision(placements, measure):
    """A stand-in with values between 0 and 1: 1 / R if the first is relevant."""
    first = np.minimum.reduceat(placements.above, placements.indptr[:-1])
    return (first == 0) / placements.relevant


MedAP = MeasureKind("MedAP", average_precision, "median over queries", summary="median")
WorstRank = MeasureKind(
    "WorstRank",
    lambda placements, measure: np.maximum.reduceat(placements.above, placements.indptr[:-1]) + 1.0,
    "the greatest rank of a relevant candidate, at its 90th percentile",
    summary=lambda values: float(np.quantile(values, 0.9)),
    better=-1,
    bounds=None,
    percent=False,
    decimals=2,
)
Hits = MeasureKind(
    "Hits",
    average_precision,
    "R@1 + R@2 of both directions, averaged",
    percent=True,
    bounds=None,
    composite=Composite(("R@1", "R@2"), 0.25),
)
nonsense = 3
Clash = MeasureKind("R", average_precision, "not the R@k of limner")
Broken = MeasureKind("Broken", lambda placements, measure: np.zeros(1), "one value too few")
