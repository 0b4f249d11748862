"""Intervals that are valid after every answer: confidence sequences by betting.

A gambler bets against every value m that the mean could have; the bets are fair if m is the truth, so the capital stays
below 1 / alpha forever with probability 1 - alpha (Ville 1939). The confidence set holds every m for which the capital
never exceeded that. Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by betting*; weighted
draws without replacement: Shekhar et al. 2023, *Risk-limiting financial audits via weighted sampling*.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.estimators import Estimate, stratified
from limner.stats.inputs import Vector, share, vector

GRID = 401
"""Grid of candidate means."""
_MOST = 0.5  # fraction of the capital that a bet may lose


def confidence_sequence(
    draws: npt.ArrayLike,
    lows: npt.ArrayLike,
    highs: npt.ArrayLike,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
    grid: int = GRID,
) -> tuple[Vector, Vector]:
    """The interval after each draw, for draws whose conditional mean, given earlier draws, is the target mean.

    The hedged capital of Waudby-Smith & Ramdas (2024, section 4.4), `max(K+ / 2, K- / 2)`, with their predictable
    plug-in bets `sqrt(2 log(2 / alpha) / (v_{t-1} t log(1 + t)))`, truncated so that no draw can lose more than half.

    Args:
        draws: One number each.
        lows: The smallest possible value of each, known before the draw.
        highs: The largest possible value of each.
        bounds: Bounds of the mean itself.
        level: Coverage of the whole sequence.
        grid: Number of candidate means.

    Returns:
        The lower and the upper ends, one for each draw; never wider than before.

    >>> low, high = confidence_sequence([1, 0] * 100, [0] * 200, [1] * 200)
    >>> bool(low[-1] > 0.3), bool(high[-1] < 0.7)
    (True, True)
    """
    z, least, most = vector(draws, "draws"), vector(lows, "lows"), vector(highs, "highs")
    if ((z < least - 1e-9) | (z > most + 1e-9)).any():
        raise LimnerError("draws: got one outside its bounds, expected lows <= draws <= highs")
    alpha = 1 - share(level, "level")
    means = np.linspace(bounds[0], bounds[1], grid)
    up, down, never = np.zeros(grid), np.zeros(grid), np.zeros(grid, dtype=bool)
    total, square, seen = 0.5 * (least[0] + most[0]), (most[0] - least[0]) ** 2 / 4, 1.0
    ends = np.empty((2, len(z)))
    limit, step = np.log(2 / alpha), (bounds[1] - bounds[0]) / (grid - 1)
    for t, value in enumerate(z):
        bet = np.sqrt(2 * limit / (square / seen * (t + 1) * np.log(t + 2)))
        up += np.log1p(np.minimum(bet, _MOST / np.maximum(means - least[t], 1e-12)) * (value - means))
        down += np.log1p(-np.minimum(bet, _MOST / np.maximum(most[t] - means, 1e-12)) * (value - means))
        never |= np.maximum(up, down) >= limit
        total, seen = total + value, seen + 1
        square += (value - total / seen) ** 2
        kept = np.flatnonzero(~never)
        ends[:, t] = (means[kept[0]] - step, means[kept[-1]] + step) if len(kept) else ends[:, t - 1]
    clipped = np.clip(ends, *bounds)
    return np.maximum.accumulate(clipped[0]), np.minimum.accumulate(clipped[1])


def sequential(
    values: npt.ArrayLike,
    strata: npt.ArrayLike,
    sizes: npt.ArrayLike,
    *,
    shares: npt.ArrayLike,
    pilot: int = 0,
    frame: npt.ArrayLike | None = None,
    member: npt.ArrayLike | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    level: float = 0.95,
) -> Estimate:
    """The mean of a population from draws of `limner.stats.sampling.draw`, valid at any time.

    Each draw I at time t gives `z_t = (sum of seen y + sum of f over the unseen + (y_I - f_I) / q_t(I)) / N`, whose
    conditional mean is the population's: f is the mean answer of the stratum so far (without the draw itself), q_t
    the probability of the draw. `confidence_sequence` does the rest.

    Args:
        values: Values in the order of the draws.
        strata: The stratum of each.
        sizes: Units in each stratum of the target population.
        shares: How draws were shared among strata: one row, or one row for each draw.
        pilot: The number of first draws that were certain; they are taken as seen.
        frame: Units that could be drawn in each stratum, where they are more than those of `sizes`.
        member: Whether each draw is one of the units of the target population; all by default.
        bounds: The smallest and the largest value.
        level: Coverage of the interval, valid after every draw.
    """
    y, h = vector(values), np.asarray(strata, dtype=np.intp)
    size = vector(sizes, "sizes")
    whole = size if frame is None else vector(frame, "frame")
    own = np.ones(len(y), dtype=bool) if member is None else np.asarray(member, dtype=bool)
    split = np.broadcast_to(np.asarray(shares, dtype=np.float64), (len(y), len(size)))
    once = stratified(y[own], h[own], size, bounds=bounds, level=level) if own.any() else None
    low, high = bounds
    if len(y) > pilot:
        z = _martingale(y, h, own, size, whole, split, pilot, bounds)
        lows, highs = confidence_sequence(*z, bounds=bounds, level=level)
        low, high = float(lows[-1]), float(highs[-1])
    value = min(max(once.value if once else (low + high) / 2, low), high)
    variance, effect = (once.variance, once.effect) if once else (float("nan"), float("nan"))
    return Estimate(value, low, high, level, variance, int(own.sum()), int(size.sum()), effect, "anytime")


def _martingale(
    y: Vector,
    h: npt.NDArray[np.intp],
    own: npt.NDArray[np.bool_],
    size: Vector,
    whole: Vector,
    shares: Vector,
    pilot: int,
    bounds: tuple[float, float],
) -> tuple[Vector, Vector, Vector]:
    """The draws after the pilot as numbers with the right conditional mean, and their bounds."""
    left, unseen = whole.copy(), size.copy()
    sums, counts = np.zeros(len(size)), np.zeros(len(size))
    found = np.empty((3, len(y) - pilot))
    for t in range(len(y)):
        k = h[t]
        if t >= pilot:
            open_ = np.where(left > 0, np.maximum(shares[t], 1e-12), 0.0)
            chance = np.divide(open_ / open_.sum(), left, out=np.ones_like(left), where=left > 0)
            overall = (sums.sum() + (bounds[0] + bounds[1]) / 2) / (counts.sum() + 1)
            f = (sums + 2 * overall) / (counts + 2)
            base = sums.sum() + unseen @ f
            there = (left > 0) & (unseen > 0)
            ends = [((b - f) / chance)[there] for b in bounds]
            low, high = min(0.0, ends[0].min(initial=0.0)), max(0.0, ends[1].max(initial=0.0))
            moved = (y[t] - f[k]) / chance[k] if own[t] else 0.0
            found[:, t - pilot] = np.array([base + moved, base + low, base + high]) / size.sum()
        left[k] -= 1
        if own[t]:
            unseen[k] -= 1
            sums[k] += y[t]
            counts[k] += 1
    return found[0], found[1], found[2]
