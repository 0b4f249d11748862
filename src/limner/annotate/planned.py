"""What a plan tells before anything is labelled: the sample, labels and hours, and the intervals to expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from limner.annotate.store.designs import LEVEL


@dataclass(frozen=True)
class Planned:
    """The plan for one direction.

    Args:
        design: The design's id in the store.
        direction: "i2t" or "t2i".
        unit: The sampling unit: pairs, queries with all their unjudged pairs, or queries up to a level.
        queries: Number of queries in the collection.
        units: Number of units in the sampling frame.
        strata: Number of units in each stratum.
        drawn: Number of units drawn so far, including this draw.
        labels: Number of pairs to label in this draw.
        hours: Estimated working hours.
        expected: Expected half-width in points, by system and measure.
        without_judge: Number of units that the same intervals would need without the judge; None without a judge.
        notes: What else to know before labelling: measures that would need far fewer labels alone, a judge not used.
    """

    design: int
    direction: str
    unit: str
    queries: int
    units: int
    strata: tuple[int, ...]
    drawn: int
    labels: int
    hours: float
    expected: Mapping[str, float]
    without_judge: int | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A few lines."""
        many = {"query": "queries with all their open pairs", LEVEL: "queries down to a level"}.get(self.unit, "pairs")
        lines = [
            f"{self.direction}: {self.drawn:,} of {self.units:,} open {many} drawn, strata of {list(self.strata)}",
            f"  labels to give now: {self.labels:,} (about {self.hours:.1f} hours of one person)",
        ]
        lines += [f"  {name}: +- {half:.1f} points expected" for name, half in self.expected.items()]
        if self.without_judge is not None:
            lines.append(f"  without the judge, the same intervals would need about {self.without_judge:,} units")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])
