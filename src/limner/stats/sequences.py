"""Intervals that are valid after every answer: confidence sequences by betting.

A gambler bets against every value m that the mean could have. If m is the true mean, the bets are fair, and the capital
stays below 1 / alpha forever with probability 1 - alpha (Ville 1939). The confidence set holds every m for which the
capital never exceeded that. Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by betting*;
weighted draws without replacement: Shekhar et al. 2023, *Risk-limiting financial audits via weighted sampling*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.estimators import Estimate, stratified
from limner.stats.inputs import Codes, Vector, columns, numbers, share, vector

Bools = npt.NDArray[np.bool_]

GRID = 401
"""Grid of candidate means."""
_LOSS = (0.5, 0.75)  # fraction of the capital that a bet may lose: usual and maximum
_RIDGE = 20.0  # ridge penalty: a slope of 0 counts as this many answers
_CHUNK = 64  # draws per step; excluded means are dropped after each step


def confidence_sequence(
    draws: npt.ArrayLike,
    lows: npt.ArrayLike,
    highs: npt.ArrayLike,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
    grid: int = GRID,
    span: float = np.inf,
) -> tuple[Vector, Vector]:
    """The interval after each draw; the conditional mean of a draw, given earlier ones, must be the target mean.

    The hedged capital of Waudby-Smith & Ramdas (2024, section 4.4), `max(K+ / 2, K- / 2)`, with their predictable
    plug-in bets `sqrt(2 log(2 / alpha) / (v_{t-1} t log(1 + t)))`, truncated so that no draw can lose more than half of
    the capital, or somewhat more if draws may be further apart than `span`.

    Args:
        draws: One number per draw.
        lows: The smallest possible value of each, known before the draw.
        highs: The largest possible value of each.
        bounds: Bounds of the mean itself.
        level: Coverage of the whole sequence.
        grid: Number of candidate means.
        span: The usual maximum distance between two draws.

    Returns:
        The lower and the upper ends, one for each draw; never wider than before.

    >>> low, high = confidence_sequence([1, 0] * 100, [0] * 200, [1] * 200)
    >>> bool(low[-1] > 0.3), bool(high[-1] < 0.7)
    (True, True)
    """
    z, smallest, largest = vector(draws, "draws"), vector(lows, "lows"), vector(highs, "highs")
    if ((z < smallest - 1e-9) | (z > largest + 1e-9)).any():
        raise LimnerError("draws: got one outside its bounds, expected lows <= draws <= highs")
    limit = float(np.log(2 / (1 - share(level, "level"))))
    means, step = np.linspace(bounds[0], bounds[1], grid), (bounds[1] - bounds[0]) / (grid - 1)
    bets = _bets(z, (largest[0] - smallest[0]) / 2, (smallest[0] + largest[0]) / 2, limit)
    loss = np.clip(_LOSS[0] * (largest - smallest) / span, *_LOSS)
    ends, capital = np.full((2, len(z)), np.nan), np.zeros((2, grid))
    for start in range(0, len(z), _CHUNK):
        part = slice(start, start + _CHUNK)
        inputs = [each[part, None] for each in (z, smallest, largest, bets, loss)]
        grown = np.asarray(capital[:, None] + _growth(*inputs, means=means))
        plausible = ~np.logical_or.accumulate((grown >= limit).any(axis=0), axis=0)
        first, last = plausible.argmax(axis=1), len(means) - 1 - plausible[:, ::-1].argmax(axis=1)
        ends[:, part] = np.where(plausible.any(axis=1), [means[first] - step, means[last] + step], np.nan)
        means, capital = means[plausible[-1]], grown[:, -1, plausible[-1]]
        if not len(means):
            break  # every mean is excluded: keep the last interval
    clipped = np.clip(ends, *bounds)
    return np.fmax.accumulate(clipped[0]), np.fmin.accumulate(clipped[1])


def _bets(z: Vector, spread: float, middle: float, limit: float) -> Vector:
    """The bet on each draw, from the variance of the draws before it and one pseudo-draw."""
    counts = np.arange(1, len(z) + 1) + 1.0
    squared_errors = (z - (middle + np.cumsum(z)) / counts) ** 2
    square = spread**2 + np.concatenate([[0.0], np.cumsum(squared_errors)[:-1]])
    return np.asarray(np.sqrt(2 * limit / (square * np.log(counts))))


def _growth(z: Vector, smallest: Vector, largest: Vector, bets: Vector, loss: Vector, *, means: Vector) -> Vector:
    """The growth of the log of both capitals after each draw, for each mean: (2, draws, means)."""
    up = np.log1p(np.minimum(bets, loss / np.maximum(means - smallest, 1e-12)) * (z - means))
    down = np.log1p(-np.minimum(bets, loss / np.maximum(largest - means, 1e-12)) * (z - means))
    return np.cumsum([up, down], axis=1)


def sequential(
    values: npt.ArrayLike,
    strata: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    shares: npt.ArrayLike,
    pilot: int = 0,
    frame: npt.ArrayLike | None = None,
    member: npt.ArrayLike | None = None,
    predictions: npt.ArrayLike | None = None,
    expected: npt.ArrayLike | None = None,
    corners: npt.ArrayLike | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
) -> Estimate:
    """The mean of a population from draws of `limner.stats.sampling.draw`, with an interval that is valid at any time.

    Each draw I at time t gives `z_t = (sum of seen y + sum of f over the unseen + (y_I - f_I) / q_t(I)) / N`, whose
    conditional mean is the population mean: q_t is the probability of the draw, and f may be any value known before it.
    Here f is the mean answer of the stratum so far, plus `lambda_t` times the unit's prediction minus the stratum's
    mean prediction. `lambda_t` is a ridge regression on the answers so far, so useless predictions soon count for
    nothing. `confidence_sequence` does the rest.

    Args:
        values: Values in the order of the draws.
        strata: The stratum of each.
        sizes: Units in each stratum of the target population.
        shares: How draws were shared among strata: one row, or one row per draw.
        pilot: The number of first draws that were certain; they count as seen.
        frame: Units that could be drawn in each stratum, if more than `sizes`.
        member: Whether each draw is one of the units of the target population; all by default.
        predictions: Predictions of each draw, one or several columns; as in `stratified`.
        expected: The mean prediction in each stratum of the target population.
        corners: Predictions whose convex hull contains all others of the stratum, (strata, corners, columns): the
            smallest and the largest for one column.
        bounds: The smallest and the largest value.
        level: Coverage of the interval, valid after every draw.
    """
    y, h = vector(values), np.asarray(strata, dtype=np.intp)
    size = vector(sizes, "sizes")
    frames = size if frame is None else vector(frame, "frame")
    in_target = np.ones(len(y), dtype=bool) if member is None else np.asarray(member, dtype=bool)
    split = np.broadcast_to(np.asarray(shares, dtype=np.float64), (len(y), len(size)))
    f, means = columns(predictions, len(y), "predictions"), columns(expected, len(size), "expected")
    reach = (means[:, None] if corners is None else numbers(corners, "corners")) - means[:, None]
    low, high = bounds
    if len(y) > pilot:
        state = _State.before_each_draw(y, h, in_target, f - means[h], reach, len(size), bounds)
        z = _martingale(state, y, h, in_target, size, frames, split, pilot, bounds)
        span = 1.25 * (high - low) * frames.sum() / size.sum()  # somewhat higher than without strata and predictions
        lows, highs = confidence_sequence(*z, bounds=bounds, level=level, span=span)
        low, high = float(lows[-1]), float(highs[-1])
    options = {"predictions": f[in_target], "expected": means, "tuned": True, "bounds": bounds, "level": level}
    once = stratified(y[in_target], h[in_target], size, **options) if in_target.any() else None
    value = min(max(once.value if once else (low + high) / 2, low), high)
    variance, effect = (once.variance, once.effect) if once else (float("nan"), float("nan"))
    return Estimate(value, low, high, level, variance, int(in_target.sum()), int(size.sum()), effect, "anytime")


@dataclass(frozen=True)
class _State:
    """What is known before each draw.

    Args:
        drawn: Number of draws from each stratum so far, (draws, strata).
        counts: Number of these that are in the target population.
        sums: The sum of their values.
        middle: Value assumed for each stratum's units, without predictions.
        above: What predictions add to that for each draw.
        rest: The same, summed over all unseen units.
        low: The lowest value that predictions may add in each stratum.
        high: The highest value that they may add.
    """

    drawn: Vector
    counts: Vector
    sums: Vector
    middle: Vector
    above: Vector
    rest: Vector
    low: Vector
    high: Vector

    @classmethod
    def before_each_draw(
        cls, y: Vector, h: Codes, in_target: Bools, x: Vector, reach: Vector, strata: int, bounds: tuple[float, float]
    ) -> _State:
        one_hot = np.zeros((len(y), strata))
        one_hot[np.arange(len(y)), h] = 1.0
        target_draws, x = one_hot * in_target[:, None], x * in_target[:, None]
        drawn, counts, sums = (_before(each) for each in (one_hot, target_draws, target_draws * y[:, None]))
        overall = (sums.sum(axis=1) + (bounds[0] + bounds[1]) / 2) / (counts.sum(axis=1) + 1)
        plain = (sums + 2 * overall[:, None]) / (counts + 2)
        slope = _slopes((y - plain[np.arange(len(y)), h]) * in_target, x, reach)
        prediction_sums = _before(target_draws[:, :, None] * x[:, None, :])
        lifted = (prediction_sums * slope[:, None]).sum(axis=2)
        ends = np.einsum("tk,sck->tsc", slope, reach)
        low, high = ends.min(axis=2), ends.max(axis=2)
        return cls(
            drawn, counts, sums, plain - lifted / (counts + 2), (slope * x).sum(axis=1), -lifted.sum(axis=1), low, high
        )


def _before(each: Vector) -> Vector:
    """For each row, the sum of all rows before it."""
    return np.asarray(np.cumsum(each, axis=0) - each)


def _slopes(residual: Vector, x: Vector, reach: Vector) -> Vector:
    """Ridge regression of earlier residuals on the predictions, for each draw: (draws, columns)."""
    if not x.shape[1]:
        return np.zeros(x.shape)
    wide = np.maximum((np.ptp(reach, axis=1).max(axis=0) / 2) ** 2 / 3, 1e-12)  # the variance of a uniform distribution
    square, product = _before(x[:, :, None] * x[:, None, :]), _before(x * residual[:, None])
    return np.asarray(np.linalg.solve(square + _RIDGE * np.diag(wide), product[:, :, None])[:, :, 0])


def _martingale(
    state: _State,
    y: Vector,
    h: Codes,
    in_target: Bools,
    size: Vector,
    frames: Vector,
    shares: Vector,
    pilot: int,
    bounds: tuple[float, float],
) -> tuple[Vector, Vector, Vector]:
    """The draws after the pilot as numbers whose conditional mean is the population mean, and their bounds."""
    left, unseen = frames - state.drawn, size - state.counts
    open_ = np.where(left > 0, np.maximum(shares, 1e-12), 0.0)
    chance = np.divide(open_ / open_.sum(axis=1, keepdims=True), left, out=np.ones_like(left), where=left > 0)
    base = state.sums.sum(axis=1) + (unseen * state.middle).sum(axis=1) + state.rest
    is_open = (left > 0) & (unseen > 0)
    low = np.where(is_open, (bounds[0] - state.middle - state.high) / chance, 0.0).min(axis=1)
    high = np.where(is_open, (bounds[1] - state.middle - state.low) / chance, 0.0).max(axis=1)
    current = np.arange(len(y)), h
    moved = np.where(in_target, (y - state.middle[current] - state.above) / chance[current], 0.0)
    shifted = (base + each for each in (moved, np.minimum(low, 0.0), np.maximum(high, 0.0)))
    z, lows, highs = (each[pilot:] / size.sum() for each in shifted)
    return z, lows, highs
