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
        if self.units is None:
            ordered, times = np.unique(self.values, return_counts=True)
            draws = drawn_counts(times, samples, rng)
        else:
            order = np.argsort(self.values, kind="stable")
            ordered, owner = self.values[order], self.units[order]
            per_unit = drawn_counts(np.ones(self.size, dtype=np.int64), samples, rng, width=len(ordered))
            draws = (drawn[:, owner] for drawn in per_unit)
        return np.concatenate([_medians(ordered, drawn) for drawn in draws])

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


def _medians(ordered: Vector, counts: Vector) -> Vector:
    """The median of each row, where `counts` says how often each of the ordered values was drawn."""
    cumulated = np.cumsum(counts, axis=1)
    total = cumulated[:, -1:]
    lower = (cumulated >= (total + 1) // 2).argmax(axis=1)
    upper = (cumulated >= total // 2 + 1).argmax(axis=1)
    return (ordered[lower] + ordered[upper]) / 2  # type: ignore[no-any-return]  # indexing of a float array
