"""Recall curves: R@k for every k, from the rank of each query's first relevant candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result

DEPTH = 100
"""The largest k of a curve."""


def first_ranks(report: Report) -> dict[tuple[str, str], Result]:
    """The results whose values are ranks of first relevant candidates, without options, by view and direction."""
    found: dict[tuple[str, str], Result] = {}
    for r in report.results:
        if r.measure.kind.rank and not dict(r.measure.options).get("min_grade") and len(r.values):
            found.setdefault((r.view, r.direction), r)
    return found


def depth(report: Report, direction: str, ranks: Sequence[Result]) -> int:
    """The largest k of a curve: at most 100, the depth of the lists, and the number of candidates."""
    top = report.top.get(direction)
    values = np.concatenate([r.values for r in ranks])
    finite = values[np.isfinite(values)]
    deepest = (
        int(finite.max(initial=1))
        if len(finite) < len(values) or top is None
        else top.n_candidates or int(finite.max(initial=1))
    )
    return max(1, min(DEPTH, deepest))


def recall_curve(report: Report, ranks: Result, limit: int) -> dict[int, Result]:
    """R@k for every k up to the limit: as measured if available, else from the first ranks."""
    measured = {r.measure: r for r in report.results if (r.view, r.direction) == (ranks.view, ranks.direction)}
    return {k: measured.get(Measure("R", k)) or _recall_at(ranks, k) for k in range(1, limit + 1)}


def _recall_at(ranks: Result, k: int) -> Result:
    values = (ranks.values <= k).astype(np.float64)
    return replace(ranks, measure=Measure("R", k), values=values, possible=None)
