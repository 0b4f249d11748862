"""Sampling of units to label: draws without replacement, with known probabilities.

A population of units (pairs, or queries) is split into strata. The first units come from every stratum (`pilot`). After
that, each draw picks a stratum at random, with shares that may depend on earlier answers, and then one of its remaining
units uniformly. So two things hold at once:

- given the number of units from each stratum, they are a simple random sample of it: `limner.stats.stratified` gives an
  interval that is valid for one look;
- each draw had a known probability, given all draws before it: `limner.stats.sequential` gives an interval that is
  valid after every answer.

Further draws continue from earlier ones. Cochran 1977, *Sampling Techniques*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.stats.inputs import Vector, vector


@dataclass(frozen=True)
class Drawn:
    """Units in the order they were drawn.

    Args:
        units: Their numbers.
        probabilities: The probability of each unit at its turn, given all draws before it; 1 in the pilot.
    """

    units: IntArray
    probabilities: Vector

    def __len__(self) -> int:
        return len(self.units)


def strata_of(scores: npt.ArrayLike, number: int) -> IntArray:
    """Splits units by score into strata of about equal size, numbered from the lowest; equal scores stay together.

    >>> strata_of([0.9, 0.1, 0.2, 0.8], 2)
    array([1, 0, 0, 1])
    """
    values = vector(scores, "scores")
    if number < 1:
        raise LimnerError(f"got {number} strata, expected 1 or more")
    edges = np.quantile(values, np.arange(1, number) / number, method="lower") if number > 1 else np.empty(0)
    return np.unique(np.searchsorted(np.unique(edges), values, side="left"), return_inverse=True)[1].astype(np.int64)


def draw(
    strata: npt.ArrayLike,
    number: int,
    *,
    shares: npt.ArrayLike | None = None,
    pilot: int = 0,
    before: Sequence[int] | IntArray = (),
    seed: int = 0,
) -> Drawn:
    """Draws units without replacement, continuing after earlier draws.

    Args:
        strata: The stratum of every unit, numbered from 0.
        number: Number of draws; all remaining units if there are fewer.
        shares: How the draws after the pilot are shared among strata; by size by default.
        pilot: Units drawn from every stratum first, counting earlier draws.
        before: Units drawn before.
        seed: Seed of the draws.

    >>> found = draw([0, 0, 0, 1, 1, 1], 4, pilot=1)
    >>> len(set(found.units.tolist())), found.probabilities[:2].tolist()
    (4, [1.0, 1.0])
    """
    codes = np.asarray(strata, dtype=np.int64)
    random = np.random.default_rng(seed)
    drawn = np.zeros(len(codes), dtype=bool)
    drawn[np.asarray(before, dtype=np.int64)] = True
    size = np.bincount(codes)
    share = size / size.sum() if shares is None else vector(shares, "shares")
    queues = [random.permutation(np.flatnonzero((codes == h) & ~drawn)) for h in range(len(size))]
    left = np.array([len(queue) for queue in queues], dtype=np.int64)
    pilots = np.minimum(np.maximum(pilot - (size - left), 0), left)
    picks, chances = (
        [np.repeat(np.arange(len(size)), pilots)[:number]],
        [np.ones(min(int(pilots.sum()), number))],
    )
    left -= np.bincount(picks[0], minlength=len(size))
    remaining = min(number - len(picks[0]), int(left.sum()))
    while remaining:
        open_ = np.where(left > 0, np.maximum(share, 1e-12), 0.0)
        chosen, chance = _until_one_is_empty(open_ / open_.sum(), left, random.random(remaining))
        picks.append(chosen)
        chances.append(chance)
        left = left - np.bincount(chosen, minlength=len(size))
        remaining -= len(chosen)
    order = np.concatenate(picks)
    units = np.empty(len(order), dtype=np.int64)
    for h, queue in enumerate(queues):
        units[order == h] = queue[: int((order == h).sum())]
    return Drawn(units, np.concatenate(chances))


def _until_one_is_empty(shares: Vector, left: IntArray, random: Vector) -> tuple[IntArray, Vector]:
    """The strata of the draws, until one stratum is exhausted, and the probability of each draw."""
    available = np.flatnonzero(shares > 0)
    chosen = available[np.searchsorted(np.cumsum(shares[available]), random, side="right").clip(max=len(available) - 1)]
    before = np.zeros(len(chosen), dtype=np.int64)
    for h in available:
        in_stratum = chosen == h
        before[in_stratum] = np.arange(int(in_stratum.sum()))
    over = np.flatnonzero(before >= left[chosen])
    stop = int(over[0]) if len(over) else len(chosen)
    return chosen[:stop], shares[chosen[:stop]] / (left[chosen[:stop]] - before[:stop])
