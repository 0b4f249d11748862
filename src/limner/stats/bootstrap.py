"""Bootstrap confidence intervals of a mean over queries (Efron 1979; Efron & Tibshirani 1993).

The units are resampled with replacement and the statistic is recomputed many times; the interval covers the middle
`level` of the results. The unit is the query, or a cluster of queries that are not independent: the five captions of
one image succeed or fail together, so text-to-image values are resampled by image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.correlation import median
from limner.stats.inputs import Codes, Vector, codes, joint_codes, one_of, paired, share, vector, whole_number
from limner.stats.resampling import Function, Means, Median, Stratum

Statistic = Literal["mean", "median"] | Callable[[Vector], float]
Method = Literal["percentile", "bca"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval and the method behind it.

    Attributes:
        estimate: the statistic of the original data.
        low: lower end.
        high: upper end.
        level: the coverage of the interval, 0.95 by default.
        samples: number of resamples; 0 if the method does not resample.
        method: `percentile`, `bca` or `Wilson`.
        unit: the independent unit, `queries` or `clusters`.
        n: the number of units.
    """

    estimate: float
    low: float
    high: float
    level: float
    samples: int
    method: str
    unit: str
    n: int

    def __contains__(self, value: float) -> bool:
        """Whether a value lies inside the interval, including its ends."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """The estimate and its interval in four significant digits."""
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One mean in a sum of means that share clusters.

    Attributes:
        values: one value per query.
        clusters: the cluster of each query; the same label means the same cluster in every part.
        scale: factor of the mean (100 turns a share into points).
        folds: the fold of each query; a cluster lies in one fold.
    """

    values: npt.ArrayLike
    clusters: npt.ArrayLike
    scale: float = 1.0
    folds: npt.ArrayLike | None = None


def bootstrap(
    values: npt.ArrayLike,
    *,
    statistic: Statistic = "mean",
    clusters: npt.ArrayLike | None = None,
    folds: npt.ArrayLike | None = None,
    samples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Bootstrap interval of a statistic of per-query values.

    Percentile: the `(1 - level) / 2` and `(1 + level) / 2` quantiles of the resampled statistic (Efron 1979). BCa
    corrects them for bias `z0` and acceleration `a`, estimated by the jackknife (Efron 1987): it takes the quantile at
    `Phi(z0 + (z0 + z) / (1 - a (z0 + z)))` instead of `Phi(z)`.

    Args:
        values: one number per query.
        statistic: `mean`, `median`, or any function of a column of values.
        clusters: a label per query; whole clusters are resampled, but a mean is still a mean over queries.
        folds: a label per query; queries are drawn within their fold and the statistic is the mean over folds.
        samples: how many resamples.
        level: the share of resamples inside the interval.
        seed: the same seed gives the same interval.
        method: `percentile` or `bca`.

    Returns:
        The estimate with its interval.

    >>> hits = [1] * 30 + [0] * 70
    >>> bootstrap(hits).estimate, 0.3 in bootstrap(hits)
    (0.3, True)
    """
    column = vector(values)
    strata = _strata(column, statistic, _labels(clusters, column, "clusters"), _labels(folds, column, "folds"))
    return _interval(strata, samples, level, seed, method, _unit(clusters))


def bootstrap_sum(
    parts: Iterable[Part | tuple[Any, ...]],
    *,
    samples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Bootstrap interval of a sum of means over several sets of queries that share clusters.

    The statistic is `sum_j scale_j * mean(values_j)`, with clusters drawn once for all parts. This is the interval of
    rsum, where an image and its captions succeed or fail together. A cluster need not occur in every part. Parts are
    `Part` or `(values, clusters[, scale[, folds]])`.

    Args:
        parts: the means to add.
        samples: how many resamples.
        level: the share of resamples inside the interval.
        seed: the same seed gives the same interval.
        method: `percentile` or `bca`.

    Returns:
        The estimate with its interval.

    >>> images = Part([1, 0, 1, 1], ["a", "b", "c", "d"], scale=100)
    >>> texts = Part([1, 1, 0, 1, 0, 0], ["a", "a", "b", "c", "d", "d"], scale=100)
    >>> bootstrap_sum([images, texts]).estimate
    125.0
    """
    every = [part if isinstance(part, Part) else Part(*part) for part in parts]
    if not every:
        raise LimnerError("got no parts, expected at least one set of values to add")
    return _interval(_shared_strata(every), samples, level, seed, method, "clusters")


def bootstrap_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    statistic: Statistic = "mean",
    clusters: npt.ArrayLike | None = None,
    folds: npt.ArrayLike | None = None,
    samples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
    method: Method = "percentile",
) -> Interval:
    """Paired bootstrap interval of `statistic(a) - statistic(b)`, with both systems on the same resampled queries.

    Pairing removes the difficulty that a query has for both systems, so the interval is far narrower than two separate
    intervals (Efron & Tibshirani 1993, ch. 8). If the interval excludes 0, the difference is significant at that level.

    Args:
        a: one number per query of the first system.
        b: the same queries of the second.
        statistic: as in `bootstrap`.
        clusters: as in `bootstrap`.
        folds: as in `bootstrap`.
        samples: how many resamples.
        level: the share of resamples inside the interval.
        seed: the same seed gives the same interval.
        method: `percentile` or `bca`.

    Returns:
        The difference with its interval.

    >>> better, worse = [1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0]
    >>> bootstrap_difference(better, worse).estimate
    0.5
    """
    first, second = paired(a, b)
    cluster_codes, fold_codes = _labels(clusters, first, "clusters"), _labels(folds, first, "folds")
    if statistic == "mean":
        strata = _strata(first - second, "mean", cluster_codes, fold_codes)
    else:
        strata = _strata(np.column_stack([first, second]), _difference_of(statistic), cluster_codes, fold_codes)
    return _interval(strata, samples, level, seed, method, _unit(clusters))


def _difference_of(statistic: Statistic) -> Callable[[Vector], float]:
    """The statistic of the first column minus that of the second."""
    of = _function(statistic)
    return lambda rows: float(of(rows[:, 0])) - float(of(rows[:, 1]))


def _function(statistic: Statistic) -> Callable[[Vector], float]:
    if callable(statistic):
        return statistic
    one_of(statistic, ("mean", "median"), "statistic")
    return median if statistic == "median" else np.mean


def _labels(labels: npt.ArrayLike | None, column: Vector, name: str) -> Codes | None:
    return None if labels is None else codes(labels, len(column), name)


def _unit(clusters: object) -> str:
    return "queries" if clusters is None else "clusters"


def _strata(rows: Vector, statistic: Statistic, clusters: Codes | None, folds: Codes | None) -> list[Stratum]:
    """One stratum per fold, each with its own units."""
    if folds is None:
        return [_stratum(rows, statistic, clusters)]
    if clusters is not None:
        _refuse_split_clusters(clusters, folds)
    picks = [np.flatnonzero(folds == fold) for fold in range(int(folds.max()) + 1)]
    return [_stratum(rows[pick], statistic, None if clusters is None else _renumber(clusters[pick])) for pick in picks]


def _stratum(rows: Vector, statistic: Statistic, clusters: Codes | None) -> Stratum:
    of = _function(statistic)
    if statistic == "mean":
        totals = rows if clusters is None else np.bincount(clusters, weights=rows)
        counts = np.ones(len(rows)) if clusters is None else np.bincount(clusters)
        return Means(np.column_stack([totals, counts]), np.ones(1))
    if statistic == "median":
        return Median(rows, clusters)
    return Function(rows, clusters, of)


def _renumber(labels: Codes) -> Codes:
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def _refuse_split_clusters(clusters: Codes, folds: Codes) -> None:
    homes = np.bincount(np.unique(np.column_stack([clusters, folds]), axis=0)[:, 0])
    if (homes > 1).any():
        raise LimnerError(
            f"got {(homes > 1).sum()} clusters that lie in more than one fold, expected each in one; "
            "resample queries instead, or choose folds that keep clusters together"
        )


def _shared_strata(parts: Sequence[Part]) -> list[Stratum]:
    """One stratum per fold, whose units are the clusters of all parts together."""
    columns = [vector(part.values, f"part {i}") for i, part in enumerate(parts)]
    clusters = joint_codes([part.clusters for part in parts], columns, "clusters")
    folds = joint_codes([_folds_of(part) for part in parts], columns, "folds")
    _refuse_split_clusters(np.concatenate(clusters), np.concatenate(folds))
    n = 1 + max(int(part.max()) for part in clusters)
    totals = [np.bincount(by, weights=column, minlength=n) for by, column in zip(clusters, columns, strict=True)]
    counts = [np.bincount(by, minlength=n) for by in clusters]
    table = np.column_stack([*totals, *counts]).astype(np.float64)
    home = np.empty(n, dtype=np.intp)
    home[np.concatenate(clusters)] = np.concatenate(folds)
    scales = vector([part.scale for part in parts], "scales")
    return [Means(table[home == fold], scales) for fold in range(int(home.max()) + 1)]


def _folds_of(part: Part) -> npt.ArrayLike:
    return np.zeros(len(np.asarray(part.values)), dtype=np.int64) if part.folds is None else part.folds


def _interval(strata: Sequence[Stratum], samples: int, level: float, seed: int, method: str, unit: str) -> Interval:
    one_of(method, ("percentile", "bca"), "method")
    samples, seed, level = (
        whole_number(samples, "samples", minimum=1),
        whole_number(seed, "seed", minimum=0),
        share(level, "level"),
    )
    rng = np.random.default_rng(seed)
    estimate = float(np.mean([stratum.estimate() for stratum in strata]))
    draws = np.mean([stratum.replicates(samples, rng) for stratum in strata], axis=0)
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "bca":
        ends = _bca_ends(ends, estimate, draws, [stratum.jackknife() for stratum in strata])
    low, high = (float(end) for end in np.quantile(draws, ends))
    return Interval(estimate, low, high, level, samples, method, unit, sum(stratum.size for stratum in strata))


def _bca_ends(ends: Vector, estimate: float, draws: Vector, jackknives: Sequence[Vector]) -> Vector:
    """The quantiles that BCa uses instead of `ends` (Efron 1987; several strata: Efron & Tibshirani 1993)."""
    from scipy.special import ndtr, ndtri

    share_below = (np.mean(draws < estimate) + np.mean(draws <= estimate)) / 2  # ties count half
    z0 = ndtri(share_below)
    if not np.isfinite(z0):
        raise LimnerError(
            f"BCa is undefined: all {len(draws)} resamples lie on one side of the estimate; use method='percentile'"
        )
    shifted = z0 + ndtri(ends)
    moved: Vector = ndtr(z0 + shifted / (1 - _acceleration(jackknives) * shifted))
    return moved


def _acceleration(jackknives: Sequence[Vector]) -> float:
    influence = np.concatenate([(len(left) - 1) * (left.mean() - left) / len(left) for left in jackknives])
    square = float((influence**2).sum())
    return float((influence**3).sum()) / (6 * square**1.5) if square > 0 else 0.0
