"""Confidence intervals for means of bounded values, valid at 0 and at 100 percent too.

The interval is Wilson's (1927): all rates r compatible with the data, `(p - r)^2 <= z^2 r (1 - r) / n`. It never
collapses: 100 hits of 100 give `[0.963, 1]`. For independent hits and misses, n is their number. In all other cases
(captions of one image, folds, reciprocal ranks) n is the number of independent hits and misses with the same
variance, `p (1 - p) / variance` (the effective sample size of Kish 1965), and Student's t replaces z:

- The variance is that of the cluster totals around their expected values, so queries of a cluster count together.
  A mean over folds is a weighted mean; so is a sum of means that share clusters. A large cluster pulls the mean towards
  itself: each distance is divided by 1 - the share of its cluster (the jackknife). The degrees of freedom of t are the
  effective number of clusters, `1 / sum w^2` for shares w, minus the number of folds.
- A variance estimated from few hits is unreliable. With E effective clusters that contain the hits (or the misses, if
  they are fewer), `E = (sum t)^2 / (sum t^2)`, it is averaged, with weights E to 1, with the variance of clusters that
  succeed or fail as a whole. So equal values do not give certainty. For differences, E counts the clusters that differ;
  if none does, the interval assumes that one more cluster would. `caution` replaces the weight 1: ranks, whose largest
  values decide the mean, need more.
- Near 0 and 1, where the coverage of Wilson's interval is too low, its inner limit is replaced by the one-sided limit
  of Clopper and Pearson if that is wider, as Brown, Cai & DasGupta (2001) do with the Poisson limit.

`proofs/interval_coverage.py` and, for few and uneven clusters, `proofs/few_clusters.py` measure the coverage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.bootstrap import Interval, Part
from limner.stats.inputs import Codes, Vector, codes, joint_codes, share, vector

Bounds = tuple[float, float]


def mean_interval(
    values: npt.ArrayLike,
    *,
    clusters: npt.ArrayLike | None = None,
    folds: npt.ArrayLike | None = None,
    bounds: Bounds = (0.0, 1.0),
    caution: float = 1.0,
    level: float = 0.95,
) -> Interval:
    """The interval of a mean of values that lie between two bounds, such as hits and misses.

    Args:
        values: one number per query.
        clusters: a label per query; queries of a cluster count together.
        folds: a label per query; the mean is then the mean over folds.
        bounds: the smallest and the largest possible value; `(-1, 1)` for differences of shares. If 0 lies between
            them, it means no effect.
        caution: weight of the variance if whole clusters had the smallest or the largest value; more than 1 for values
            far below the upper bound with a few near it, such as ranks.
        level: the coverage of the interval.

    Returns:
        The estimate with its interval.

    >>> print(mean_interval([1] * 100))
    1 [0.963, 1]
    >>> print(mean_interval([1, 1, 1, 0, 0, 0, 1, 1], clusters=["a", "a", "a", "b", "b", "b", "c", "c"]))
    0.625 [0.0499, 0.9814]
    """
    n = len(vector(values))
    labels = np.arange(n) if clusters is None else codes(clusters, n, "clusters")
    interval = _interval([Part(values, labels, 1.0, folds)], bounds, level, caution)
    return replace(interval, unit="queries" if clusters is None else "clusters")


def sum_interval(
    parts: Iterable[Part | tuple[Any, ...]], *, bounds: Bounds = (0.0, 1.0), level: float = 0.95
) -> Interval:
    """The interval of a sum of means over several sets of queries that share clusters.

    `sum_j scale_j * mean(values_j)`: rsum, where an image and its captions succeed or fail together.

    Args:
        parts: the means to add, as for `bootstrap_sum`; scales are positive.
        bounds: the smallest and the largest value of a query.
        level: the coverage of the interval.

    Returns:
        The estimate with its interval.

    >>> images = Part([1, 0, 1, 1], ["a", "b", "c", "d"], scale=100)
    >>> texts = Part([1, 1, 0, 1, 0, 0], ["a", "a", "b", "c", "d", "d"], scale=100)
    >>> print(sum_interval([images, texts]))
    125 [23.61, 190.8]
    """
    every = [part if isinstance(part, Part) else Part(*part) for part in parts]
    if not every:
        raise LimnerError("got no parts, expected at least one set of values to add")
    return _interval(every, bounds, level)


@dataclass(frozen=True)
class _Units:
    """A weighted mean of values in 0..1, and its clusters.

    Args:
        mean: The weighted mean.
        weight: Weight of each cluster; they sum to 1.
        total: Contribution of each cluster to the mean.
        spread: Contribution of each cluster minus its expected value.
        queries: Effective number of queries if they were independent.
        folds: Number of folds.
        binary: Whether all values are 0 or 1.
        caution: Weight of the variance of clusters that succeed or fail as a whole.
        zero: The value that means no effect; None if there is none.
        distance: The weighted mean of distances from `zero`.
    """

    mean: float
    weight: Vector
    total: Vector
    spread: Vector
    queries: float
    folds: int
    binary: bool
    caution: float = 1.0
    zero: float | None = None
    distance: float = 0.0

    @property
    def n(self) -> int:
        """The number of clusters."""
        return len(self.weight)

    @property
    def independent(self) -> bool:
        """Whether every query is its own cluster and a hit or a miss; the variance then follows from the mean."""
        return self.binary and bool(np.isclose(self.queries, 1 / float((self.weight**2).sum())))

    @property
    def effective(self) -> float:
        """The number of independent hits and misses with the same variance."""
        lower, upper = 1 / float((self.weight**2).sum()), self.queries if self.binary else np.inf
        free = self.mean * (1 - self.mean)
        if self.independent or free <= 0:
            return lower
        carriers, largest = self._carried
        variance = (carriers * self._observed + self.caution * largest / lower) / (carriers + self.caution)
        return min(max(free / variance, lower), upper)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the variance: the effective number of clusters, minus one for each fold."""
        return min(max(1 / float((self.weight**2).sum()) - self.folds, 1.0), float(self.n - self.folds))

    @property
    def _observed(self) -> float:
        """The variance between clusters; without folds, the jackknife's, in which a large cluster counts for more."""
        if self.folds > 1 or self.n == 1:
            return float((self.spread**2).sum()) * self.n / max(self.n - self.folds, 1)
        return float(((self.spread / (1 - self.weight)) ** 2).sum()) * (self.n - 1) / self.n

    @property
    def _carried(self) -> tuple[float, float]:
        """The effective number of clusters behind the variance, and the variance if whole clusters hit or miss."""
        if self.zero is None:
            hits, misses = _carriers(self.total), _carriers(self.weight - self.total)
            return min(hits, misses), self.mean * (1 - self.mean)
        furthest = max(self.zero, 1 - self.zero)
        largest = max(furthest * self.distance, furthest**2 / (self.n + 1))
        return _carriers(np.abs(self.total - self.zero * self.weight)), largest


def _carriers(totals: Vector) -> float:
    """The effective number of clusters behind a total."""
    square = float((totals**2).sum())
    return float(totals.sum()) ** 2 / square if square > 0 else 0.0


def _interval(parts: list[Part], bounds: Bounds, level: float, caution: float = 1.0) -> Interval:
    level, (low, high) = share(level, "level"), bounds
    if not caution > 0:
        raise LimnerError(f"caution: got {caution}, expected a positive number")
    if not low < high:
        raise LimnerError(f"bounds: got {bounds}, expected the lower one first, as in (0, 1)")
    columns = [vector(part.values, f"part {i}") for i, part in enumerate(parts)]
    zero = -low / (high - low) if low < 0 < high else None
    units = _units(parts, [_scaled(column, low, high) for column in columns], caution, zero)
    scale = sum(part.scale for part in parts)
    lower, upper = (scale * (low + (high - low) * end) for end in _wilson(units, level))
    estimate = sum(part.scale * _mean(c, _folds(part, c)) for part, c in zip(parts, columns, strict=True))
    return Interval(estimate, min(lower, estimate), max(upper, estimate), level, 0, "Wilson", "clusters", units.n)


def _mean(values: Vector, folds: Codes) -> float:
    """The mean over folds of the means within folds, with reproducible rounding."""
    return float(np.mean([values[folds == fold].mean() for fold in range(int(folds.max()) + 1)]))


def _scaled(values: Vector, low: float, high: float) -> Vector:
    outside = values[(values < low) | (values > high)]
    if outside.size:
        raise LimnerError(f"got {outside[0]:g}, expected values between {low:g} and {high:g}; or use `bootstrap`")
    return (values - low) / (high - low)


def _units(parts: list[Part], columns: list[Vector], caution: float, zero: float | None) -> _Units:
    clusters = joint_codes([part.clusters for part in parts], columns, "clusters")
    scales = vector([part.scale for part in parts], "scales")
    if (scales <= 0).any():
        raise LimnerError(f"scales: got {scales.min():g}, expected positive numbers")
    folds = [_folds(part, column) for part, column in zip(parts, columns, strict=True)]
    weights = [s / scales.sum() * _weights(f) for s, f in zip(scales, folds, strict=True)]
    beyond = [c - _fold_means(c, f) for c, f in zip(columns, folds, strict=True)]
    owner, weight, value = np.concatenate(clusters), np.concatenate(weights), np.concatenate(columns)
    summed = (np.bincount(owner, weights=each) for each in (weight, weight * value, weight * np.concatenate(beyond)))
    by_weight, by_total, by_spread = (each.astype(np.float64) for each in summed)
    n_folds = max(int(f.max()) + 1 for f in folds)
    mean = min(max(float((weight * value).sum()), 0.0), 1.0)
    binary = bool(np.isin(value, (0.0, 1.0)).all())
    distance = float((weight * np.abs(value - (zero or 0.0))).sum())
    queries = 1 / float((weight**2).sum())
    return _Units(mean, by_weight, by_total, by_spread, queries, n_folds, binary, caution, zero, distance)


def _folds(part: Part, column: Vector) -> Codes:
    if part.folds is None:
        return np.zeros(len(column), dtype=np.intp)
    return codes(part.folds, len(column), "folds")


def _weights(folds: Codes) -> Vector:
    """Weight of each query in the mean over folds."""
    sizes = np.bincount(folds)
    return 1.0 / (len(sizes) * sizes[folds])


def _fold_means(values: Vector, folds: Codes) -> Vector:
    means: Vector = (np.bincount(folds, weights=values) / np.bincount(folds))[folds]
    return means


def _wilson(units: _Units, level: float) -> tuple[float, float]:
    """The ends of the interval for a mean in 0..1."""
    from scipy.special import betaincinv, ndtri, stdtrit

    if not units.independent and units.n <= units.folds:
        return 0.0, 1.0  # one cluster gives no estimate of the variance between clusters
    t = float(ndtri((1 + level) / 2) if units.independent else stdtrit(units.degrees, (1 + level) / 2))
    p, n = units.mean, units.effective
    middle, half = p + t**2 / (2 * n), t * np.sqrt(p * (1 - p) / n + t**2 / (4 * n**2))
    low, high = (float(middle - half) / (1 + t**2 / n), float(middle + half) / (1 + t**2 / n))
    hits, misses = p * n, (1 - p) * n
    inner = float(betaincinv(hits, misses + 1, 1 - level)) if hits > 0 else 0.0
    outer = float(betaincinv(hits + 1, misses, level)) if misses > 0 else 1.0
    return max(min(low, inner, p), 0.0), min(max(high, outer, p), 1.0)
