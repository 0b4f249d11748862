"""Is a model less certain about queries with more right answers?

This is Figure 3b of Chun et al. (2022). PCME predicts a variance for every image and text; the paper finds more
matching captions if it is large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.stats import Interval, spearman

SAMPLES = 1000


@dataclass(frozen=True)
class UncertaintyBin:
    """Queries of similar uncertainty: its range, their number, and their mean number of right answers."""

    low: float
    high: float
    queries: int
    positives: float


@dataclass(frozen=True, eq=False)
class Multiplicity:
    """Uncertainty against the number of right answers.

    Args:
        queries: Their ids.
        uncertainty: The uncertainty of each query.
        positives: The number of right answers of each query.
        rho: Spearman's rank correlation of the two; NaN if either does not vary.
        interval: Its 95% interval, by a bootstrap over queries; None if there is no correlation.
        bins: Ten groups of about equal size, from the most to the least certain.
    """

    queries: tuple[str, ...]
    uncertainty: FloatArray
    positives: FloatArray
    rho: float
    interval: Interval | None
    bins: tuple[UncertaintyBin, ...]

    def __str__(self) -> str:
        """A small table."""
        rows = [f"{'uncertainty':>21}  queries  right answers"]
        rows += [f"{b.low:9.3g} to {b.high:8.3g}  {b.queries:7,}  {b.positives:13.2f}" for b in self.bins]
        ends = f" ({self.interval.low:.3f} to {self.interval.high:.3f})" if self.interval else ""
        rows.append(f"Spearman's rho {self.rho:.3f}{ends}" if self.rho == self.rho else "rank correlation is undefined")
        return "\n".join(rows)


def multiplicity(
    uncertainty: Mapping[str, float], judgements: Judgements, *, bins: int = 10, seed: int = 0
) -> Multiplicity:
    """Compares a model's uncertainty about each query with the query's number of right answers.

    Args:
        uncertainty: Uncertainty by query; higher is less certain. PCME computes it with `model.uncertainty(items)`.
        judgements: Judgements query -> candidate. Queries without judged candidates are left out.
        bins: Number of groups in the table.
        seed: Seed of the bootstrap.

    >>> judged = Judgements.from_pairs([("a", 1), ("b", 1), ("b", 2), ("c", 1), ("c", 2), ("c", 3)])
    >>> round(multiplicity({"a": 0.1, "b": 0.2, "c": 0.9}, judged, bins=1).rho, 6)
    1.0
    """
    if bins < 1:
        raise LimnerError(f"bins={bins}: expected 1 or more")
    judged = np.diff(judgements.indptr) > 0
    rows = [row for row, query in enumerate(judgements.queries) if judged[row] and query in uncertainty]
    if len(rows) < 2:
        raise LimnerError(f"{len(rows)} queries have both an uncertainty and judgements: expected two or more")
    queries = tuple(judgements.queries[row] for row in rows)
    unsure = np.array([float(uncertainty[query]) for query in queries])
    if not np.isfinite(unsure).all():
        raise LimnerError(f"{int((~np.isfinite(unsure)).sum())} uncertainties are not finite: expected finite numbers")
    right = judgements.counts[rows].astype(np.float64)
    rho, interval = _correlated(unsure, right, seed)
    return Multiplicity(queries, unsure, right, rho, interval, _binned(unsure, right, bins))


def _correlated(unsure: FloatArray, right: FloatArray, seed: int) -> tuple[float, Interval | None]:
    if np.ptp(unsure) == 0 or np.ptp(right) == 0:
        return float("nan"), None
    draw, drawn = np.random.default_rng(seed), []
    for _ in range(SAMPLES):
        picked = draw.integers(len(unsure), size=len(unsure))
        if np.ptp(unsure[picked]) > 0 and np.ptp(right[picked]) > 0:
            drawn.append(spearman(unsure[picked], right[picked]))
    rho = spearman(unsure, right)
    if len(drawn) < SAMPLES // 2:
        return rho, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return rho, Interval(rho, float(low), float(high), 0.95, len(drawn), "percentile", "queries", len(unsure))


def _binned(unsure: FloatArray, right: FloatArray, bins: int) -> tuple[UncertaintyBin, ...]:
    parts = [part for part in np.array_split(np.argsort(unsure, kind="stable"), bins) if len(part)]
    return tuple(
        UncertaintyBin(float(unsure[p].min()), float(unsure[p].max()), len(p), float(right[p].mean())) for p in parts
    )
