"""Resampling for the bootstrap: one class per kind of statistic, each for one stratum (a fold, or everything).

A *unit* is what is drawn with replacement: a query, or a cluster of queries such as all captions of one image.
Units with equal content are interchangeable, so drawing the count of each *distinct* content (one multinomial) has
exactly the same distribution as drawing units one by one. For hits and misses that is two numbers per resample instead
of 25,000, so intervals for every recall cost almost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError
from limner.stats.inputs import Codes, Vector

_CELLS = 4_000_000  # counts held at once: 32 MB
_CACHED = 32_768  # draws counted at once: they stay in the cache, and few calls are made for samples of few units
FEW_SHARE = 4
"""With fewer units than this for each distinct value, their columns are added one by one, not in a product."""


class Stratum(Protocol):
    """The interface of a statistic on one stratum."""

    @property
    def size(self) -> int:
        """How many units can be drawn."""

    def estimate(self) -> float:
        """The statistic of the original data."""

    def replicates(self, samples: int, rng: np.random.Generator) -> Vector:
        """The statistic of `samples` resamples."""

    def jackknife(self) -> Vector:
        """The statistic with each unit left out in turn."""


@dataclass(frozen=True, slots=True)
class Means:
    """A weighted sum of means that share their units: `sum_j scale_j * (sum_j total) / (sum_j count)`.

    The table has a row per unit; the first half of its columns are totals, the second half are counts.
    """

    table: Vector
    scales: Vector

    @property
    def size(self) -> int:
        """How many units can be drawn."""
        return len(self.table)

    def estimate(self) -> float:
        """The statistic of the original data."""
        return float(self._ratios(self.table.sum(axis=0)))

    def replicates(self, samples: int, rng: np.random.Generator) -> Vector:
        """The statistic of `samples` resamples."""
        rows, times = np.unique(self.table, axis=0, return_counts=True)
        return np.concatenate([self._ratios(drawn @ rows) for drawn in drawn_counts(times, samples, rng)])

    def jackknife(self) -> Vector:
        """The statistic with each unit left out in turn."""
        return self._ratios(self.table.sum(axis=0) - self.table)

    def _ratios(self, totals: Vector) -> Vector:
        sums, counts = np.split(totals, 2, axis=-1)
        if not (counts > 0).all():
            raise LimnerError(
                "a resample has no values for one of the means: too few clusters have any; "
                "use more clusters, or resample queries instead"
            )
        return (sums / counts) @ self.scales


@dataclass(frozen=True, slots=True)
class Median:
    """The median of the drawn values, from cumulative counts over the sorted values."""

    values: Vector
    units: Codes | None

    @property
    def size(self) -> int:
        """How many units can be drawn."""
        return len(self.values) if self.units is None else int(self.units.max()) + 1

    def estimate(self) -> float:
        """The statistic of the original data."""
        return float(np.median(self.values))

    def replicates(self, samples: int, rng: np.random.Generator) -> Vector:
        """The statistic of `samples` resamples."""
        distinct, codes, times = np.unique(self.values, return_inverse=True, return_counts=True)
        middle = int(np.searchsorted(np.cumsum(times), (len(codes) + 1) // 2))
        units = times if self.units is None else np.ones(self.size, dtype=np.int64)
        draws = drawn_counts(units, samples, rng, width=len(distinct))
        return np.concatenate([_medians(distinct, _Drawn(drawn, codes, self.units), middle) for drawn in draws])

    def jackknife(self) -> Vector:
        """Raises an error: the jackknife is inconsistent for the median."""
        raise LimnerError(
            "got method='bca' with statistic='median', expected 'percentile': BCa needs a jackknife, "
            "which is inconsistent for the median (Efron & Tibshirani 1993, ch. 11)"
        )


@dataclass(frozen=True, slots=True)
class Function:
    """Any function of the drawn rows, called once per resample."""

    rows: Vector
    units: Codes | None
    function: Callable[[Vector], float]

    @property
    def size(self) -> int:
        """How many units can be drawn."""
        return len(self.rows) if self.units is None else int(self.units.max()) + 1

    def estimate(self) -> float:
        """The statistic of the original data."""
        return self._call(np.arange(len(self.rows)))

    def replicates(self, samples: int, rng: np.random.Generator) -> Vector:
        """The statistic of `samples` resamples."""
        drawn = (rng.integers(0, self.size, size=self.size) for _ in range(samples))
        return np.array([self._call(members) for members in self._members(drawn)])

    def jackknife(self) -> Vector:
        """The statistic with each unit left out in turn."""
        everyone = np.arange(self.size)
        return np.array([self._call(members) for members in self._members(np.delete(everyone, i) for i in everyone)])

    def _members(self, drawn: Iterator[Codes]) -> Iterator[Codes]:
        """The row numbers of the drawn units."""
        if self.units is None:
            yield from drawn
            return
        order = np.argsort(self.units, kind="stable")
        sizes = np.bincount(self.units)
        starts = np.cumsum(sizes) - sizes
        for units in drawn:
            lengths = sizes[units]
            offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            yield order[np.repeat(starts[units], lengths) + offsets]

    def _call(self, members: Codes) -> float:
        value = float(self.function(self.rows[members]))
        if not np.isfinite(value):
            raise LimnerError(f"the statistic gave {value} on a resample, expected a finite number for every resample")
        return value


def drawn_counts(
    times: npt.NDArray[np.int64], samples: int, rng: np.random.Generator, *, width: int = 0
) -> Iterator[Vector]:
    """How often each distinct unit is drawn, in blocks of resamples (rows) by distinct units (columns).

    Args:
        times: how many units share each distinct content; their sum is the number of units and of draws.
        samples: how many resamples, over all blocks.
        rng: random generator.
        width: columns that the caller stores per resample, if more than there are distinct units.

    Yields:
        Blocks of float counts; every row adds up to the number of units.
    """
    block = max(1, _CELLS // max(len(times), width))
    for start in range(0, samples, block):
        yield _draw(times, min(block, samples - start), rng)


def _draw(times: npt.NDArray[np.int64], samples: int, rng: np.random.Generator) -> Vector:
    n = int(times.sum())
    if len(times) * 8 <= n:  # a binomial per distinct unit costs about as much as eight single draws
        return rng.multinomial(n, times / n, size=samples).astype(np.float64)
    kind = np.repeat(np.arange(len(times)), times)
    drawn = np.empty((samples, len(times)))
    some = max(1, _CACHED // n)
    for start in range(0, samples, some):  # the draws do not depend on how many rows are drawn at a time
        rows = drawn[start : start + some]
        units = kind[rng.integers(0, n, size=(len(rows), n))]
        if len(rows) > 1:
            units += len(times) * np.arange(len(rows))[:, None]
        rows[:] = np.bincount(units.ravel(), minlength=rows.size).reshape(rows.shape)
    return drawn


@dataclass(frozen=True, slots=True)
class _Drawn:
    """How often each distinct value is drawn, in resamples of units that share values.

    Args:
        draws: How often each unit is drawn, a row per resample; each distinct value if there are no units.
        codes: The number of the distinct value of every value.
        units: The unit of every value.
    """

    draws: Vector
    codes: Codes
    units: Codes | None

    def below(self, value: int) -> Vector:
        """Number of drawn values below a distinct value, per resample."""
        if self.units is None:
            return np.asarray(self.draws[:, :value].sum(axis=1))
        sizes = np.bincount(self.units[self.codes < value], minlength=self.draws.shape[1])
        return np.asarray(self.draws @ sizes.astype(np.float64))

    def up_to(self, first: int, last: int) -> Vector:
        """How many of the distinct values from the first to each one up to the last are drawn, per resample."""
        if self.units is None:
            return np.cumsum(self.draws[:, first : last + 1], axis=1)
        inside, width = np.flatnonzero((self.codes >= first) & (self.codes <= last)), last - first + 1
        if len(inside) < FEW_SHARE * width:
            inside = inside[np.argsort(self.codes[inside])]
            ends = np.cumsum(np.bincount(self.codes[inside] - first)) - 1
            return np.asarray(np.cumsum(self.draws[:, self.units[inside]], axis=1)[:, ends])
        places = self.units[inside] * width + self.codes[inside] - first
        table = np.bincount(places, minlength=self.draws.shape[1] * width).reshape(-1, width)
        return np.cumsum(self.draws @ table.astype(np.float64), axis=1)


def _medians(distinct: Vector, drawn: _Drawn, middle: int) -> Vector:
    """The median of each resample, from counts of the values around `middle` alone, where all medians are."""
    first, last, step, total = middle, middle, 1, drawn.below(len(distinct))
    lower_rank, upper_rank = (total + 1) // 2, total // 2 + 1
    while last + 1 < len(distinct) and (drawn.below(last + 1) < upper_rank).any():
        last, step = min(last + step, len(distinct) - 1), 2 * step
    step = 1
    while first and (drawn.below(first) >= lower_rank).any():
        first, step = max(first - step, 0), 2 * step
    cumulated = drawn.below(first)[:, None] + drawn.up_to(first, last)
    lower, upper = ((cumulated >= rank[:, None]).argmax(axis=1) for rank in (lower_rank, upper_rank))
    return np.asarray((distinct[first + lower] + distinct[first + upper]) / 2)
