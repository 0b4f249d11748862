"""The mean of the last of several values of a unit, when later values are expensive and each is seen in its own sample.

A unit has the values v_0, v_1, ..., v_L. v_0 is known for all units. The sample of step l has v_{l-1} and v_l. The mean
of v_l is `mean(v_l - b v_{l-1}) + b T_{l-1}`, with `T_{l-1}` the estimate of the step before and any factor b that does
not depend on the same units. With b = 1 the last value is a sum of changes. If values shrink from step to step, the
changes vary more than the values themselves, and the factor of a regression has a smaller variance.

Residuals are larger where v_{l-1} is large. A sample with a low mean of v_{l-1} thus has the smallest variance where
its estimate is worst, and its interval would miss. The residuals are therefore multiplied by
`T_{l-1} / mean(v_{l-1})`, if values are never negative.

Mickey 1959 (unbiased regression estimates); Royall & Cumberland 1981 (a variance that follows the predictor's mean);
Giles 2008 (multilevel Monte Carlo).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.estimators import Estimate, sum_of_means
from limner.stats.inputs import Codes, Vector, vector

FACTOR = 0.75
"""The factor before any answers. Any number is free of bias; measured ones are between 0.4 and 1."""
FACTOR_PRIOR = 0.1
"""The sum of squares that counts for it beside the sample's: ten units with values 0.1 from the mean."""
STRETCH = (0.5, 3.0)
"""Least and largest number by which residuals are multiplied."""
RESIDUAL_KURTOSIS = 6.0
"""Kurtosis of the residuals before any is known: the step before predicts most values well and a few badly."""


@dataclass(frozen=True)
class Chain:
    """What `chained_means` sums up.

    Args:
        values: For each sampled unit, in the scale of the last value; the sum of the means of all steps, plus `start`
            times the mean of v_0, is the estimate.
        weights: The weight of each step: the product of the factors of all later steps.
        start: The weight of v_0: the product of all factors.
    """

    values: Vector
    weights: Vector
    start: float


def chain(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    parts: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    start: float | None = None,
) -> Chain:
    """The values of each step with the factors of a regression, each computed without the unit that it is used for.

    With the factor from the other n - 1 units of the sample, and these n - 1 and one unit from the other N - n + 1, the
    estimate of a step has no bias for any n (Mickey 1959).

    Args:
        before: v_{l-1} of each unit in the sample of step l.
        after: v_l of each.
        parts: The step of each, from 0; a step may have no units.
        sizes: Units in the population of each step.
        start: The mean of v_0, by which residuals are adjusted; without it they are not.
    """
    u, v, size = vector(before, "before"), vector(after, "after"), vector(sizes, "sizes")
    h: Codes = np.asarray(parts, dtype=np.intp)
    if not len(u) == len(v) == len(h):
        raise LimnerError(f"got {len(u)} values before and {len(v)} after of {len(h)} units: expected one of each")
    values, factors, previous_mean = np.zeros(len(u)), np.ones(len(size)), start
    for step in range(len(size)):
        in_step = h == step
        if in_step.any():
            mean, residual, factors[step] = _one_step(u[in_step], v[in_step], float(size[step]))
            values[in_step] = mean + residual * _stretch(u[in_step], previous_mean)
            previous_mean = None if previous_mean is None else mean + factors[step] * previous_mean
    products = np.cumprod(factors[::-1])[::-1]
    weights = np.append(products[1:], 1.0)
    return Chain(values * weights[h], weights, float(products[0]))


def _one_step(u: Vector, v: Vector, size: float) -> tuple[float, Vector, float]:
    """The estimate of a step, the residuals around it, and the mean factor."""
    n = len(u)
    deviations, moved = u - u.mean(), v - v.mean()
    correction = n / max(n - 1, 1)
    cross, square = ((deviations * x).sum() - correction * deviations * x for x in (moved, deviations))
    factor = (cross + FACTOR * FACTOR_PRIOR) / (np.maximum(square, 0.0) + FACTOR_PRIOR)
    other_sum = (v.sum() - v) - factor * (u.sum() - u)
    mean = float((other_sum + (size - n + 1) * (v - factor * u)).mean()) / size
    residual = correction * (moved - factor * deviations)
    return mean, residual - residual.mean(), float(factor.mean())


def _stretch(u: Vector, mean: float | None) -> float:
    """By how much to multiply the residuals of a sample with these values before, whose mean should be this."""
    if mean is None or (u < 0).any() or not u.any():
        return 1.0
    return float(np.clip(mean / u.mean(), *STRETCH))


def chained_means(
    before: npt.ArrayLike,
    after: npt.ArrayLike,
    parts: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    start: float,
    prior: npt.ArrayLike = 0.0,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
) -> Estimate:
    """The mean of the last value, from independent random samples of each step without replacement.

    The estimate has no bias. The interval is that of `limner.stats.estimators.sum_of_means` for the residuals of the
    regressions, each computed without its own unit.

    Args:
        before: v_{l-1} of each unit in the sample of step l.
        after: v_l of each.
        parts: The step of each, from 0.
        sizes: Units in the population of each step.
        start: The mean of v_0.
        prior: A standard deviation of the residuals of each step that counts as a quarter of an answer.
        bounds: Bounds of the mean.
        level: Coverage of the interval.

    >>> estimate = chained_means([0.2, 0.8, 0.5, 0.9], [0.1, 0.4, 0.25, 0.45], [0, 0, 0, 0], [100], start=0.6)
    >>> round(estimate.value, 2), estimate.low < 0.3 < estimate.high
    (0.3, True)
    """
    chained = chain(before, after, parts, sizes, start=start)
    offset = chained.start * start
    before_labels = np.asarray(prior, dtype=np.float64) * np.abs(chained.weights)
    ends = bounds[0] - offset, bounds[1] - offset
    estimate = sum_of_means(
        chained.values, parts, sizes, prior=before_labels, kurtosis=RESIDUAL_KURTOSIS, bounds=ends, level=level
    )
    return estimate.scaled(1.0, offset)
