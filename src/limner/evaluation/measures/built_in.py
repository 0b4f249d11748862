"""The built-in measures: functions from the ranks of relevant candidates to one value per query, and their traits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.evaluation.measures.kinds import Composite, MeasureKind, Parameters
from limner.evaluation.placements import NEVER, Placements
from limner.stats.correlation import median


def total(p: Placements, values: FloatArray) -> FloatArray:
    """Sums the values of relevant candidates, query by query."""
    return np.bincount(p.query, weights=values, minlength=len(p.queries)).astype(np.float64)


def _share_within(p: Placements, cut: Any) -> FloatArray:
    """The probability that each positive is within its query's cut-off."""
    if p.untied:
        return np.asarray(p.above < cut, dtype=np.float64)
    return np.asarray(np.clip((cut - p.above) / p.tied, 0.0, 1.0))


def _weights(p: Placements, measure: Parameters) -> FloatArray:
    return _comparable(p, p.grades) if measure.option("graded") else np.ones(len(p.grades))


def _exponents(p: Placements, grades: FloatArray) -> IntArray:
    """For each query, the power of two just above its highest grade."""
    greatest = np.zeros(len(p.queries))
    np.maximum.at(greatest, p.query, grades)
    return np.frexp(greatest)[1].astype(np.int64)


def _comparable(p: Placements, grades: FloatArray) -> FloatArray:
    """Grades divided by a power of two: ratios stay exactly the same, and sums of huge grades are finite."""
    return np.asarray(np.ldexp(grades, -_exponents(p, grades)[p.query]))


def _ideal(p: Placements, weights: FloatArray, cut: IntArray) -> FloatArray:
    """The sum of the highest weights of each query, up to its cut-off."""
    best = weights if (weights == weights[:1]).all() else weights[np.lexsort((-weights, p.query))]
    return total(p, np.where(p.order < cut[p.query], best, 0.0))


def _any_within(p: Placements, cut: int) -> FloatArray:
    """The probability that at least one positive is within the cut-off: 1 - C(t - m, f) / C(t, f).

    Only the best placed group matters: m positives among t tied candidates, f of whose ranks are within the cut-off.
    """
    has = p.relevant > 0
    first = p.indptr[:-1][has]
    if p.untied:
        values = np.zeros(len(p.queries))
        values[has] = p.above[first] < cut
        return values
    tied, m = p.tied[first], p.group[1][first]
    free = np.clip(cut - p.above[first], 0, tied)
    missed = np.ones(len(first))
    for i in range(int(m.max(initial=0))):
        missed *= np.where(i < m, np.clip((tied - free - i) / np.maximum(tied - i, 1), 0, 1), 1.0)
    values = np.zeros(len(p.queries))
    values[has] = np.where(free > 0, 1 - missed, 0.0)  # positives that are never found do not share a rank
    return values


def hit(p: Placements, measure: Parameters) -> FloatArray:
    """Whether one of the first k is relevant (a probability, under ties); graded: the highest grade among them."""
    cut = int(measure.k or 0)
    if not measure.option("graded"):
        return _any_within(p, cut)
    values = np.zeros(len(p.queries))
    levels = np.unique(np.concatenate([[0.0], p.grades]))
    for level, step in zip(levels[1:], np.diff(levels), strict=True):
        values += step * _any_within(
            p.with_min_grade(level), cut
        )  # E[best grade] = sum of step * P(best grade >= level)
    return values


def recall(p: Placements, measure: Parameters) -> FloatArray:
    """The share of all relevant candidates that are within the first k; graded: the share of the sum of grades."""
    weights = _weights(p, measure)
    return total(p, weights * _share_within(p, int(measure.k or 0))) / total(p, weights)


def precision(p: Placements, measure: Parameters) -> FloatArray:
    """The share of relevant candidates among the first k, or the mean of their grades."""
    values = total(p, _weights(p, measure) * _share_within(p, int(measure.k or 0))) / int(measure.k or 1)
    return np.asarray(np.ldexp(values, _exponents(p, p.grades))) if measure.option("graded") else values


def judged(p: Placements, measure: Parameters) -> FloatArray:
    """The share of judged candidates among the first k, or among all if there are fewer than k."""
    return total(p, _share_within(p, int(measure.k or 0))) / np.minimum(p.pool, int(measure.k or 1))


def r_precision(p: Placements, measure: Parameters) -> FloatArray:
    """Precision among the first R, divided by the ideal value."""
    return _precision_at(p, measure, p.relevant)


def capped_r_precision(p: Placements, measure: Parameters) -> FloatArray:
    """R-precision with an upper limit on R."""
    return _precision_at(p, measure, np.minimum(p.relevant, measure.option("cap")))


def _precision_at(p: Placements, measure: Parameters, cut: IntArray) -> FloatArray:
    """The relevance found within the cut-off of each query, divided by the ideal value."""
    weights = _weights(p, measure)
    return total(p, weights * _share_within(p, cut[p.query])) / _ideal(p, weights, cut)


def first_rank(p: Placements, measure: Parameters) -> FloatArray:
    """The expected rank of the first of m positives among t tied candidates: above + (t + 1) / (m + 1)."""
    first = p.indptr[:-1]
    lost = p.above[first] >= NEVER
    ranks = p.above[first] + (1.0 if p.untied else (p.tied[first] + 1) / (p.group[1][first] + 1))
    return np.where(lost, np.inf, ranks)


def reciprocal_rank(p: Placements, measure: Parameters) -> FloatArray:
    """The reciprocal rank of the first positive; 0 beyond the cut-off."""
    cut = NEVER if measure.k is None else measure.k
    first = p.indptr[:-1]
    n_above, tied, m = p.above[first], p.tied[first], p.group[1][first]
    values = np.where(n_above < min(cut, NEVER), 1.0 / (n_above + 1.0), 0.0)
    for q in np.flatnonzero((tied > 1) & (n_above < cut)):
        values[q] = _expected_reciprocal(int(n_above[q]), int(tied[q]), int(m[q]), cut)
    return values


def _expected_reciprocal(n_above: int, tied: int, m: int, cut: int) -> float:
    """Mean of 1 / rank of the first of m positives at random among `tied` ranks that begin after `above`."""
    j = np.arange(1, tied - m + 2)
    chance = np.cumprod(np.concatenate([[m / tied], (tied - m - j[:-1] + 1) / (tied - j[:-1])]))
    return float(np.sum(np.where(n_above + j <= cut, chance / (n_above + j), 0.0)))


def _average_precision(p: Placements, cut: IntArray) -> FloatArray:
    """Sum of rel_i P@i over the first `cut` ranks, divided by R."""
    limit = cut[p.query]
    before = p.order if p.untied else p.group[0]
    values = np.where(p.above < limit, (before + 1.0) / (p.above + 1.0), 0.0)
    open_ = (p.tied > 1) & (p.above < limit)
    if open_.any():
        m = p.group[1]
        values[open_] = _tied_precision(before[open_], m[open_], p.above[open_], p.tied[open_], limit[open_])
    return total(p, values) / p.relevant


def _tied_precision(before: IntArray, m: IntArray, n_above: IntArray, tied: IntArray, limit: IntArray) -> FloatArray:
    """(1/t) sum over j = 1..J of (b + 1 + (j - 1)(m - 1)/(t - 1)) / (a + j), computed with harmonic numbers."""
    from scipy.special import digamma

    places = np.minimum(limit - n_above, tied)
    harmonic = digamma(n_above + places + 1.0) - digamma(n_above + 1.0)
    rising = np.maximum(places - (n_above + 1.0) * harmonic, 0.0)  # a sum of (j - 1) / (a + j), after cancellation
    return np.asarray(((before + 1) * harmonic + (m - 1) / (tied - 1) * rising) / tied)


def average_precision(p: Placements, measure: Parameters) -> FloatArray:
    """Average precision up to the cut-off; "capped" divides by min(k, R) instead of R."""
    values = _average_precision(p, np.full(len(p.queries), NEVER if measure.k is None else measure.k))
    if measure.k is None or not measure.option("capped"):
        return values
    return np.asarray(values * p.relevant / np.minimum(p.relevant, measure.k))


def average_precision_at_r(p: Placements, measure: Parameters) -> FloatArray:
    """Average precision over the first R."""
    return _average_precision(p, p.relevant)


def ndcg(p: Placements, measure: Parameters) -> FloatArray:
    """Discounted gain divided by the ideal value."""
    cut = NEVER if measure.k is None else measure.k
    gains = _comparable(p, p.grades) if measure.option("linear") else _exponential(p)
    ideal = gains[np.lexsort((-gains, p.query))]
    best = total(p, np.where(p.order < cut, ideal / np.log2(p.order + 2.0), 0.0))
    return total(p, gains * at_rank(p, _discount, k=measure.k)) / best


def _exponential(p: Placements) -> FloatArray:
    """2^grade - 1; scaled down for huge grades, since only the ratio of gains counts."""
    greatest = np.zeros(len(p.queries))
    np.maximum.at(greatest, p.query, p.grades)
    halvings = np.maximum(np.floor(greatest) - 512, 0)[p.query]
    return np.asarray(np.exp2(p.grades - halvings) - np.exp2(-halvings))


def at_rank(p: Placements, weight: Callable[[FloatArray], FloatArray], *, k: int | None = None) -> FloatArray:
    """For each relevant candidate, the mean of `weight(rank)` over its possible ranks; 0 beyond the cut-off.

    If candidates are tied, any of them may come first: the mean is over all ranks of the tied block.

    Args:
        p: Placements of relevant candidates.
        weight: Weight of a candidate at rank 1, 2, 3, ...
        k: The cut-off; None for the whole list.

    Returns:
        One value per relevant candidate, for `total`.
    """
    cut = NEVER if k is None else min(k, NEVER)
    is_inside = p.above < cut
    values = np.zeros(len(p.above))
    values[is_inside] = weight((p.above[is_inside] + 1).astype(np.float64))
    open_ = (p.tied > 1) & is_inside
    if open_.any():
        first, last = p.above[open_], np.minimum(p.above[open_] + p.tied[open_], cut)
        running = np.concatenate([[0.0], np.cumsum(weight(np.arange(1, int(last.max()) + 1).astype(np.float64)))])
        values[open_] = (running[last] - running[first]) / p.tied[open_]
    return values


def _discount(rank: FloatArray) -> FloatArray:
    return np.asarray(1.0 / np.log2(rank + 1.0))


def floored_median(ranks: FloatArray) -> float:
    """floor(median of 0-based ranks) + 1."""
    return float(np.floor(median(ranks - 1)) + 1)


GAIN = (
    "nDCG takes the gain 2^grade - 1, as ranx's ndcg_burges; nDCG(linear) takes the grade itself, as trec_eval and "
    "ranx's ndcg"
)
_BINARY = {"min_grade": 0.0}
_GRADED = {"min_grade": 0.0, "graded": False}
_FIELD = "Hodosh, Young & Hockenmaier 2013"

_VAN_RIJSBERGEN = "van Rijsbergen 1979"

_HIT = MeasureKind(
    "R", hit, "1 if any of the first k is relevant, else 0", _FIELD, "required", _GRADED,
    hit=True, decided_by="first", sees="k", needs_total=False,
)  # fmt: skip

BUILT_IN = (
    _HIT,
    replace(_HIT, name="S", formula="as R@k, on people's judgements"),
    MeasureKind("Recall", recall, "relevant in the first k / R", _VAN_RIJSBERGEN, "required", _GRADED, sees="k"),
    MeasureKind(
        "P",
        precision,
        "relevant in the first k / k",
        _VAN_RIJSBERGEN,
        "required",
        _GRADED,
        sees="k",
        decided_by="each",
        needs_total=False,
    ),
    MeasureKind(
        "MedR",
        first_rank,
        "median of rank_1; (floor): floor(median of rank_1 - 1) + 1, as the VSE++ code prints it",
        _FIELD,
        options={"min_grade": 0.0, "floor": False},
        summary="median",
        variants={"floor": floored_median},
        better=-1,
        bounds=None,
        percent=False,
        rank=True,
        needs_total=False,
    ),
    MeasureKind(
        "MeanR",
        first_rank,
        "mean of rank_1",
        "Faghri et al. 2018",
        options=_BINARY,
        better=-1,
        bounds=None,
        percent=False,
        rank=True,
        needs_total=False,
    ),
    MeasureKind(
        "MRR",
        reciprocal_rank,
        "mean of 1 / rank_1, 0 beyond k",
        "Voorhees 1999",
        "optional",
        _BINARY,
        decided_by="first",
    ),
    MeasureKind(
        "nDCG",
        ndcg,
        "DCG / ideal DCG, discount log2(rank + 1), gain 2^grade - 1; (linear): gain grade",
        "Burges et al. 2005; Järvelin & Kekäläinen 2002",
        "optional",
        {"exponential": True, "linear": False},
        alternatives=("linear", "exponential"),
        on_grades=lambda measure: "" if measure.option("linear") else GAIN,
    ),
    MeasureKind(
        "MAP",
        average_precision,
        "(1/R) sum of rel_i P@i (i <= k); (capped): divided by min(k, R), as CIRCO does",
        "Buckley & Voorhees 2000; Baldrati et al. 2023",
        "optional",
        {"min_grade": 0.0, "capped": False},
    ),
    MeasureKind(
        "mAP@R",
        average_precision_at_r,
        "(1/R) sum of rel_i P@i over i <= R",
        "Musgrave et al. 2020; Chun et al. 2022",
        options=_BINARY,
        sees="R",
    ),
    MeasureKind(
        "RP",
        r_precision,
        "relevant in the first R / R; (graded): their grades / all grades",
        "Buckley & Voorhees 2000",
        options=_GRADED,
        sees="R",
    ),
    MeasureKind(
        "PMRP",
        capped_r_precision,
        "RP with R = min(R, 50), on plausible matches",
        "Musgrave et al. 2020; Chun et al. 2021",
        options={**_GRADED, "cap": 50},
        sees="R",
        judgements="plausible",
    ),
    MeasureKind(
        "Judged",
        judged,
        "judged candidates, relevant or not, among the first k / k",
        "Sakai & Kando 2008",
        "required",
        judged=True,
        sees="k",
    ),
    MeasureKind(
        "rsum",
        None,
        "100 (R@1 + R@5 + R@10), both directions added",
        "Faghri et al. 2018",
        bounds=None,
        percent=False,
        composite=Composite(("R@1", "R@5", "R@10"), 100.0),
    ),
)
