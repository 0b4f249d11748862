"""Sampling of units to label: draws without replacement, with known probabilities.

A population of units (pairs, or queries) is split into strata. The first units come from every stratum (`pilot`). After
that, each draw picks a stratum at random, with shares that may depend on earlier answers, and then one of its remaining
units uniformly. So two things hold at once:

- given the number of units from each stratum, they are a simple random sample of it: `limner.stats.stratified` gives an
  interval that is valid for one look;
- each draw had a known probability, given all draws before it: `limner.stats.sequential` gives an interval that is
  valid after every answer.

Further draws continue from earlier ones. Cochran 1977, *Sampling Techniques*; Neyman 1934 for the allocation;
Madow 1949 for systematic draws with given probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.stats.inputs import Vector, numbers, vector


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


def neyman(
    sizes: npt.ArrayLike, deviations: npt.ArrayLike, number: int, *, even_share: float = 0.5, costs: npt.ArrayLike = 1.0
) -> Vector:
    """The share of the labels for each stratum: `N_h S_h / sqrt(c_h)`, with a lower limit.

    The lower limit bounds the cost of wrong deviations: no weight exceeds `1 / even_share` times that of proportional
    allocation. A stratum never gets more labels than it has units.

    Args:
        sizes: Units in each stratum.
        deviations: Estimated standard deviation of the values in each.
        number: Labels to allocate.
        even_share: Share of the labels that is allocated by size alone.
        costs: Labels needed per unit of each stratum.

    Returns:
        One share per stratum; they sum to 1.

    >>> neyman([100, 100], [0.5, 0.0], 50).round(2)
    array([0.75, 0.25])
    >>> neyman([10, 90], [5.0, 0.1], 50).round(2)
    array([0.2, 0.8])
    """
    size, spread = vector(sizes, "sizes"), vector(deviations, "deviations")
    optimal = size * spread / np.sqrt(numbers(costs, "costs"))
    even = size / size.sum()
    best = optimal / optimal.sum() if optimal.sum() > 0 else even
    share = even_share * even + (1 - even_share) * best
    for _ in range(len(size)):  # exhausted strata pass their share on to the others
        full = share * number >= size
        open_share = share[~full].sum()
        if not full.any() or open_share == 0:
            break
        capped = size[full] / number
        share = np.where(full, size / number, share / open_share * max(1 - capped.sum(), 0.0))
    return np.asarray(share / share.sum())


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


def inclusion(scores: npt.ArrayLike, number: int) -> Vector:
    """Inclusion probabilities proportional to a score, at most 1 each, that sum to the number of draws.

    >>> inclusion([8, 1, 1], 2)
    array([1. , 0.5, 0.5])
    """
    values = vector(scores, "scores")
    if (values <= 0).any() or not 0 < number <= len(values):
        raise LimnerError(f"got {number} draws from {len(values)} scores, expected positive scores, and 1 draw to all")
    probabilities = np.zeros(len(values))
    while True:
        certain = probabilities >= 1
        probabilities[certain] = 1.0
        uncertain = values[~certain]
        if not len(uncertain):
            return probabilities
        probabilities[~certain] = (number - certain.sum()) * uncertain / uncertain.sum()
        if not (probabilities[~certain] > 1 + 1e-12).any():
            return np.minimum(probabilities, 1.0)


def systematic(probabilities: npt.ArrayLike, *, seed: int = 0) -> IntArray:
    """Draws units whose inclusion probabilities are exactly those given: random order, then equal steps (Madow 1949).

    >>> len(systematic([0.5, 0.5, 0.5, 0.5], seed=1))
    2
    """
    chances = vector(probabilities, "probabilities")
    if (chances <= 0).any() or (chances > 1).any():
        raise LimnerError("probabilities: expected numbers above 0, at most 1")
    random = np.random.default_rng(seed)
    order = random.permutation(len(chances))
    edges = np.cumsum(chances[order])
    ticks = np.arange(random.random(), edges[-1] - 1e-9, 1.0)
    return np.sort(order[np.searchsorted(edges, ticks, side="right").clip(max=len(chances) - 1)]).astype(np.int64)
