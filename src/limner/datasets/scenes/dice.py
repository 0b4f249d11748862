"""The only source of randomness of the scenes, the same on every machine and with every version of numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.random import PCG64, SeedSequence

T = TypeVar("T")

_BLOCK = 128


class Dice:
    """Random choices from the raw bits of PCG64, seeded by a tuple of numbers.

    numpy guarantees the raw bits of a bit generator, but not the results of `Generator.choice` and similar methods, so
    the choices here use the bits directly.

    >>> dice = Dice(0, 7)
    >>> dice.integer(10) == Dice(0, 7).integer(10)
    True
    """

    def __init__(self, *key: int) -> None:
        """Starts the random stream of this key; different keys give independent streams."""
        self._bits = PCG64(SeedSequence(key))
        self._block: list[float] = []

    def fraction(self) -> float:
        """A number in [0, 1)."""
        if not self._block:
            self._block = ((self._bits.random_raw(_BLOCK) >> np.uint64(11)) * 2.0**-53).tolist()
        return self._block.pop()

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.fraction() < probability

    def integer(self, stop: int) -> int:
        """A random integer from 0 to stop - 1."""
        return int(self.fraction() * stop)

    def between(self, low: float, high: float) -> int:
        """A random integer from low to high, inclusive; low for an empty range."""
        first, last = round(low), round(high)
        return first + self.integer(last - first + 1) if last > first else first

    def choose(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.integer(len(options))]

    def weighted(self, options: Sequence[T], weights: Sequence[float]) -> T:
        """One of the options, with probability proportional to its weight."""
        left = self.fraction() * sum(weights)
        for option, weight in zip(options, weights, strict=True):
            left -= weight
            if left < 0:
                return option
        return options[-1]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All options in random order."""
        order = list(options)
        for last in range(len(order) - 1, 0, -1):
            swapped = self.integer(last + 1)
            order[last], order[swapped] = order[swapped], order[last]
        return order
