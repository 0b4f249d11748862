"""Estimates the mean of a population from a designed sample, with a valid interval.

Every unit of the population has a value between known bounds; the values of the sampled units are known. Model
predictions can reduce the variance (the difference estimator, known as prediction-powered inference). With power
tuning, useless predictions cost almost nothing and inverted ones help too. No assumption is made about the values.

Cochran 1977; Särndal, Swensson & Wretman 1992; Angelopoulos et al. 2023 (*Prediction-powered inference*).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.inputs import Codes, Vector, columns, share, vector

Mode = Literal["fixed", "anytime"]
PRIOR = 1.0
"""The number of answers that the pooled variance counts for in each stratum's variance."""
KURTOSIS = 4.0
"""Kurtosis of values in `sum_of_means` before any is known: rare large values, which a small sample lacks."""
KURTOSIS_ANSWERS = 20
"""The number of answers that it counts for beside the kurtosis of the sample."""
PRIOR_ANSWERS = 0.25
"""The number of answers that a prior standard deviation counts for in `sum_of_means`."""
TUNED = 20
"""Answers needed for each tuned factor."""


@dataclass(frozen=True)
class Estimate:
    """The mean of a population, estimated from a sample.

    Args:
        value: The estimate.
        low: Lower end of the interval.
        high: Upper end.
        level: Coverage of the interval.
        variance: Variance of the estimate.
        n: Units in the sample.
        size: Units in the population.
        effect: Design effect: the ratio of the variance to that of a simple random sample of the same size.
        mode: "fixed" (valid for one look) or "anytime" (valid after every answer).
    """

    value: float
    low: float
    high: float
    level: float
    variance: float
    n: int
    size: int
    effect: float
    mode: Mode = "fixed"

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2

    def scaled(self, scale: float, shift: float = 0.0) -> Estimate:
        """The estimate of `scale * mean + shift`, for a positive scale."""
        value, low, high = (scale * x + shift for x in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high, variance=scale**2 * self.variance)


def stratified(
    values: npt.ArrayLike,
    strata: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    predictions: npt.ArrayLike | None = None,
    expected: npt.ArrayLike | None = None,
    tuned: bool = False,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
) -> Estimate:
    """The mean of a stratified population, each stratum sampled at random without replacement.

    `T = sum_h W_h (f_h + mean_h(y - f))`, `W_h = N_h / N`; f are the predictions (0 if there are none), `f_h` is their
    mean over the whole stratum. The variance is `sum_h W_h^2 (1 - n_h / N_h) s_h^2 / n_h` (Cochran 1977, 5.3), with
    `s_h^2` of the residuals shrunk a little towards that of the whole sample, since a few equal answers do not prove
    that the variance is 0: with the strata of a judge that is right in 99 of 100 cases, and 100 answers, intervals from
    the variances of the strata alone cover in 69% of studies and not in 95%. The interval is Wilson's for the effective
    number of independent hits and misses, with Student's t. A stratum without answers gets the mean of its neighbours.

    Args:
        values: One for each sampled unit.
        strata: The stratum of each, numbered from 0.
        sizes: Units of the population in each stratum.
        predictions: Predictions of each sampled unit, from a model that has not seen its value; several columns if
            several models predict.
        expected: The mean prediction in each stratum.
        tuned: Whether each column is multiplied by its own factor (`power_tuning`), so that useless predictions cost
            almost nothing and inverted ones are flipped.
        bounds: The smallest and the largest possible value.
        level: Coverage of the interval.

    >>> estimate = stratified([1, 0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1], [40, 60])
    >>> round(estimate.value, 2), estimate.low > 0, estimate.n, estimate.size
    (0.3, True, 8, 100)
    """
    y, size = vector(values), vector(sizes, "sizes")
    h = np.asarray(strata, dtype=np.intp)
    n = np.bincount(h, minlength=len(size)).astype(np.float64)
    if len(n) != len(size) or (n > size).any():
        raise LimnerError(f"got strata up to {int(h.max(initial=0))} and {len(size)} sizes: expected one size each")
    f, centres = columns(predictions, len(y), "predictions"), columns(expected, len(size), "expected")
    if f.shape[1] != centres.shape[1]:
        raise LimnerError(f"got {f.shape[1]} columns of predictions, {centres.shape[1]} of expected: expected as many")
    factors = power_tuning(y, f, h, size) if tuned else np.ones(f.shape[1])
    residual = y - f @ factors
    mean, variance, degrees = _by_stratum(residual, h, n, size, _floor(len(y)) * (bounds[1] - bounds[0]) ** 2)
    if tuned and factors.any():
        variance *= degrees / max(degrees - len(factors), 1)
    value = float((size / size.sum()) @ (centres @ factors + mean))
    low, high = _wilson(value, variance, degrees, bounds, level, _floor(len(y)))
    simple = float(np.var(y, ddof=1)) / len(y) * (1 - len(y) / size.sum()) if len(y) > 1 else 0.0
    effect = variance / simple if simple > 0 else float("nan")
    value = min(max(value, bounds[0]), bounds[1])
    return Estimate(value, low, high, level, variance, len(y), int(size.sum()), effect)


def power_tuning(
    values: npt.ArrayLike, predictions: npt.ArrayLike, strata: npt.ArrayLike, sizes: npt.ArrayLike
) -> Vector:
    """The factors lambda of the predictions that minimise the variance of a stratified difference estimate.

    One factor for each column, common to all strata: with `c_h = W_h^2 (1 - n_h / N_h) / n_h`, the solution of
    `sum_h c_h cov_h(f, f) lambda = sum_h c_h cov_h(f, y)` (the combined regression estimate of Cochran 1977, 7.10).
    Without strata this is the power tuning of PPI++ (Angelopoulos, Duchi & Zrnic 2023), with the variance of the
    labelled predictions. All factors are 0 if there are fewer than `TUNED` answers per factor.

    Args:
        values: One for each sampled unit.
        predictions: Predictions of each, one or several columns.
        strata: The stratum of each, numbered from 0.
        sizes: Units of the population in each stratum.

    >>> power_tuning([0, 1] * 40, [1, 0] * 40, [0] * 80, [800]).round(2)
    array([-1.])
    >>> power_tuning([0, 1], [0.1, 0.9], [0, 0], [50])
    array([0.])
    """
    y, size, h = vector(values), vector(sizes, "sizes"), np.asarray(strata, dtype=np.intp)
    f = columns(predictions, len(y), "predictions")
    n = np.bincount(h, minlength=len(size)).astype(np.float64)
    if len(y) - np.count_nonzero(n) < TUNED * f.shape[1]:
        return np.zeros(f.shape[1])
    table = np.column_stack([f, y])
    sums = np.zeros((len(size), table.shape[1]))
    np.add.at(sums, h, table)
    centred = table - (sums / np.maximum(n, 1)[:, None])[h]
    part = (size / size.sum()) ** 2 * (1 - n / size) / (np.maximum(n, 1) * np.maximum(n - 1, 1))
    product = centred.T @ (centred * part[h, None])
    return np.asarray(np.linalg.lstsq(product[:-1, :-1], product[:-1, -1], rcond=1e-9)[0])


def sum_of_means(
    values: npt.ArrayLike,
    parts: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    prior: npt.ArrayLike = 0.0,
    kurtosis: float = KURTOSIS,
    bounds: tuple[float, float] = (-1.0, 1.0),
    level: float = 0.95,
) -> Estimate:
    """The sum of the means of several populations, each sampled independently at random without replacement.

    The variance is `sum_h (1 - n_h / N_h) s_h^2 / n_h`. The interval uses Student's t with the degrees of freedom of
    Satterthwaite (1946), allowing for long tails: a variance estimate from n values of kurtosis k is as uncertain as
    one from `2 / (k - 1)` times as many normal values. The sample's kurtosis is shrunk towards `kurtosis`.
    A sample that lacks the few extreme values has a biased mean and too small a variance, so that intervals miss on one
    side. The interval is therefore longer on the side of the tail, by the shift of Johnson (1978): `skewness (1 + 2
    z^2) / 6` standard errors, at most z, where the skewness is that of the sum.

    Args:
        values: One for each sampled unit.
        parts: The population of each, numbered from 0.
        sizes: Units in each population.
        prior: A standard deviation for each population that counts as a quarter of an answer, so that a few equal
            answers do not give certainty.
        kurtosis: The kurtosis that counts for `KURTOSIS_ANSWERS` answers beside the sample's.
        bounds: Bounds of the sum.
        level: Coverage of the interval.

    >>> estimate = sum_of_means([0.2, 0.4, 0.3, -0.1, 0.0, -0.2], [0, 0, 0, 1, 1, 1], [100, 100])
    >>> round(estimate.value, 2), estimate.low < 0.2 < estimate.high
    (0.2, True)
    """
    from scipy.special import ndtri, stdtrit

    y, size, h = vector(values), vector(sizes, "sizes"), np.asarray(parts, dtype=np.intp)
    n = np.bincount(h, minlength=len(size)).astype(np.float64)
    if len(n) != len(size) or (n > size).any() or (n < 2).any():
        raise LimnerError(
            f"got {n.astype(int).tolist()} values for populations of {size.astype(int).tolist()}: expected "
            "at least 2 and at most the whole population"
        )
    mean = np.bincount(h, weights=y) / n
    square = np.bincount(h, weights=(y - mean[h]) ** 2)
    before = np.broadcast_to(np.asarray(prior, dtype=np.float64), size.shape) ** 2
    part = (1 - n / size) * (square + PRIOR_ANSWERS * before) / (n - 1 + PRIOR_ANSWERS * (before > 0)) / n
    variance, value = float(part.sum()), float(mean.sum())
    degrees = np.maximum((n - 1) * 2 / (_kurtosis(y - mean[h], h, n, kurtosis) - 1), np.minimum(n - 1, 3.0))
    freedom = variance**2 / float((part**2 / degrees).sum()) if variance > 0 else 1.0
    error, upper = float(np.sqrt(variance)), (1 + share(level, "level")) / 2
    half = float(stdtrit(max(freedom, 1.0), upper)) * error
    tail = _tail(y - mean[h], h, n, size, error, float(ndtri(upper)))
    ends = value, value - half + min(tail, 0.0), value + half + max(tail, 0.0)
    value, low, high = (float(np.clip(end, *bounds)) for end in ends)
    return Estimate(value, low, high, level, variance, len(y), int(size.sum()), float("nan"))


def _kurtosis(deviations: Vector, h: Codes, n: Vector, expected: float) -> Vector:
    """The kurtosis of each population: of the sample and the expected one, weighted by their answers; at least 3."""
    square, fourth = (np.bincount(h, weights=deviations**power).astype(np.float64) for power in (2, 4))
    sample_kurtosis = np.divide(n * fourth, square**2, out=np.full_like(square, expected), where=square**2 > 0)
    return np.maximum((n * sample_kurtosis + KURTOSIS_ANSWERS * expected) / (n + KURTOSIS_ANSWERS), 3.0)


def _tail(deviations: Vector, h: Codes, n: Vector, size: Vector, error: float, z: float) -> float:
    """The extra length of the interval of a sum of means, with the sign of the skewness (Johnson 1978)."""
    if error <= 0:
        return 0.0
    third = np.bincount(h, weights=deviations**3) * n / np.maximum((n - 1) * (n - 2), 1)
    skewness = float((third * (1 - n / size) * (1 - 2 * n / size) / n**2).sum()) / error**3
    return float(np.clip(skewness * (1 + 2 * z**2) / 6, -z, z)) * error


def _floor(n: int) -> float:
    """The variance of n equal answers and one that differs."""
    return (n + 1) / (n + 2) ** 2


def _by_stratum(residual: Vector, h: Codes, n: Vector, size: Vector, smallest: float) -> tuple[Vector, float, float]:
    """The mean residual of each stratum, the variance of their weighted mean, and its degrees of freedom."""
    sums = np.bincount(h, weights=residual, minlength=len(size))
    mean = np.divide(sums, n, out=np.zeros_like(sums), where=n > 0)
    if (n == 0).any():
        mean = np.interp(np.arange(len(n)), np.flatnonzero(n > 0), mean[n > 0])
    square = np.bincount(h, weights=(residual - mean[h]) ** 2, minlength=len(size))
    degrees = np.maximum(n - 1, 0)
    weight = size / size.sum()
    pooled = max(float(np.sum(weight[h] / n[h] * (residual - weight @ mean) ** 2)), smallest)
    spread = (square + PRIOR * pooled) / (degrees + PRIOR)
    if len(size) == 1:
        spread = np.maximum(square / np.maximum(degrees, 1), smallest)
    used = np.maximum(n, 1)
    part = weight**2 * (1 - np.minimum(n / np.maximum(size, 1), 1)) * spread / used
    variance = float(part.sum())
    freedom = variance**2 / float((part**2 / np.maximum(degrees, 1)).sum()) if variance > 0 else float(len(residual))
    return mean, variance, freedom


def _wilson(
    value: float, variance: float, degrees: float, bounds: tuple[float, float], level: float, smallest: float
) -> tuple[float, float]:
    """Wilson's interval of a mean between bounds, for the effective sample size."""
    from scipy.special import stdtrit

    low, high = bounds
    p = min(max((value - low) / (high - low), 0.0), 1.0)
    spread = variance / (high - low) ** 2
    if spread <= 0:
        return min(value, high), max(value, low)
    t = float(stdtrit(max(degrees, 1.0), (1 + share(level, "level")) / 2))
    n = max(p * (1 - p), smallest) / spread
    middle, half = p + t**2 / (2 * n), t * np.sqrt(p * (1 - p) / n + t**2 / (4 * n**2))
    ends = (float(middle - half) / (1 + t**2 / n), float(middle + half) / (1 + t**2 / n))
    return tuple(low + (high - low) * min(max(e, 0.0), 1.0) for e in ends)  # type: ignore[return-value]  # two of them
