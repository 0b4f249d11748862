"""A kind of measure: one function and its traits.

A kind defines everything about a measure: its summary over queries, whether higher is better, its bounds, how it is
printed, and its parts if it is a composite. No other code in limner depends on the name of a measure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError
from limner.core.registry import Registry
from limner.evaluation.placements import Placements
from limner.stats import Interval
from limner.stats.bootstrap import Part
from limner.stats.bounded import sum_interval
from limner.stats.correlation import median

MEASURES: Registry[MeasureKind] = Registry("measure", {})
"""All kinds of measures by name; `MEASURES.register("RBP")(kind)` adds one."""

Statistic = str | Callable[[FloatArray], float]
"""Summary over queries: "mean", "median", or a function."""

UNKNOWN = "unknown"
"""Placeholder for the summary of a measure that was read from a file and is not defined in this process."""

STATISTICS: Mapping[str, Callable[[FloatArray], np.floating | float]] = {"mean": np.mean, "median": median}
_CUTS = ("required", "optional", "none")
_NAME = r"[A-Za-z][\w-]*(?:@R)?"


class Parameters(Protocol):
    """The cut-off and options of a measure."""

    @property
    def k(self) -> int | None:
        """The cut-off; None without one."""

    def option(self, name: str) -> float:
        """The value of an option, or its default."""


@dataclass(frozen=True)
class Composite:
    """The parts of a measure that sums others over both directions; its value is `weight` times the sum of all parts.

    Args:
        parts: Measures, each a mean of values between the bounds; each counts once per direction.
        weight: Weight of each part; 100 for a sum of percentages.
        bounds: The minimum and maximum value of a query in each part.
    """

    parts: tuple[str, ...]
    weight: float = 1.0
    bounds: tuple[float, float] = (0.0, 1.0)

    def value(self, values: Iterable[float]) -> float:
        """The value, from the values of all parts."""
        return self.weight * math.fsum(values)

    def interval(self, parts: Sequence[Part]) -> Interval:
        """95% interval of the value, clustered by image."""
        return sum_interval(parts, bounds=self.bounds)

    def difference(self, parts: Sequence[Part]) -> Interval:
        """95% interval of the difference of two systems, from the differences of all parts."""
        low, high = self.bounds
        return sum_interval(parts, bounds=(low - high, high - low))


@dataclass(frozen=True)
class MeasureKind:
    """An entry of the measure table: a function and its traits.

    Args:
        name: Name, as written before the cut-off.
        compute: One value per query, from placements, cut-off and options; None for a composite.
        formula: The definition in one line.
        source: The publication that defines it.
        cut: Whether `@k` is "required", "optional" or "none".
        options: Names allowed in parentheses, each with its default: False for a flag (True if it is on by default), a
            whole number, or any number of 0 or above.
        alternatives: Options of which only one may be given.
        summary: How values become one number: "mean", "median" or a function.
        variants: Options that replace the summary, each with its summary.
        better: 1 if higher is better, -1 if lower is better.
        bounds: The minimum and maximum value of a query; None if unbounded. Means of bounded values get Wilson's
            interval, all others a bootstrap interval.
        percent: Whether tables show it in percent.
        decimals: Number of decimals in tables.
        rank: Whether the value of a query is the rank of its first relevant candidate.
        hit: Whether the value of a query is 1 if one of the first k is relevant, else 0.
        judged: Whether it uses all judged candidates, not only relevant ones.
        needs_total: Whether the value depends on the number of relevant candidates in the whole pool.
        sees: How much of a list it uses: the first "k", the first "R", or the whole "list".
        decided_by: The relevant candidates that decide the value, for studies with few labels: the "first" one, "each"
            of the first k with the same weight, or "all" in the pool.
        composite: The parts it sums over both directions; None for a plain measure.
        on_grades: Note for graded relevance; "" for none.
        judgements: How the names of the judgements it is defined on begin; "" for any judgements.
        is_foreign: Whether it comes from a file: its name may then be any text, which is displayed and never looked up.

    >>> MEASURES["MedR"].summary, MEASURES["MedR"].better, MEASURES["rsum"].composite.parts
    ('median', -1, ('R@1', 'R@5', 'R@10'))
    """

    name: str
    compute: Callable[[Placements, Parameters], FloatArray] | None
    formula: str
    source: str = ""
    cut: str = "none"
    options: Mapping[str, float] = field(default_factory=dict)
    alternatives: tuple[str, ...] = ()
    summary: Statistic = "mean"
    variants: Mapping[str, Statistic] = field(default_factory=dict)
    better: int = 1
    bounds: tuple[float, float] | None = (0.0, 1.0)
    percent: bool = True
    decimals: int = 1
    rank: bool = False
    hit: bool = False
    judged: bool = False
    needs_total: bool = True
    sees: str = "list"
    decided_by: str = "all"
    composite: Composite | None = None
    on_grades: Callable[[Parameters], str] | None = None
    judgements: str = ""
    is_foreign: bool = False

    def __post_init__(self) -> None:
        """Checks the traits."""
        checks = (
            (
                "name",
                self.is_foreign or bool(re.fullmatch(_NAME, self.name)),
                "letters, digits, - and _, a letter first",
            ),
            ("compute", callable(self.compute) or self.composite is not None, "a function of placements and a measure"),
            ("cut", self.cut in _CUTS, " or ".join(map(repr, _CUTS))),
            ("summary", all(_is_statistic(s) for s in (self.summary, *self.variants.values())), _STATISTICS_WRITTEN),
            ("better", self.better in (1, -1), "1 (higher is better) or -1 (lower is better)"),
            ("bounds", self.bounds is None or self.bounds[0] < self.bounds[1], "the lower one first, or None"),
            ("sees", self.sees in ("k", "R", "list"), "'k', 'R' or 'list'"),
            ("decided_by", self.decided_by in ("first", "each", "all"), "'first', 'each' or 'all'"),
            ("variants", set(self.variants) <= set(self.options), f"names of options ({', '.join(self.options)})"),
        )
        for trait, sound, expected in checks:
            if not sound:
                raise LimnerError(f"measure {self.name!r}: {trait} is {getattr(self, trait)!r}, expected {expected}")

    @property
    def written(self) -> str:
        """Its form in a list of measures: `R@k`, `MRR[@k]`, `MedR`."""
        return self.name + {"required": "@k", "optional": "[@k]", "none": ""}[self.cut]

    @classmethod
    def foreign(cls, name: str, traits: Mapping[str, object]) -> MeasureKind:
        """A measure from a file that is not defined in this process: traits only, no code.

        Args:
            name: The name in the file.
            traits: The traits in the file, which are not trusted.
        """
        summary, decimals, sees = (traits.get(trait) for trait in ("summary", "decimals", "sees"))
        return cls(
            name,
            _refuse_foreign,
            str(traits.get("formula", "")),
            str(traits.get("source", "")),
            summary=summary if isinstance(summary, str) and summary in STATISTICS else UNKNOWN,
            better=-1 if traits.get("better") == -1 else 1,
            bounds=_read_bounds(traits.get("bounds")),
            percent=traits.get("percent", False) is True,
            decimals=decimals if isinstance(decimals, int) and decimals in range(10) else 1,
            sees=sees if isinstance(sees, str) and sees in ("k", "R", "list") else "list",
            is_foreign=True,
        )


_STATISTICS_WRITTEN = "'mean', 'median' or a function of the values"
TRAITS = ("formula", "source", "better", "percent", "decimals", "sees")


def _is_statistic(statistic: Statistic) -> bool:
    return callable(statistic) or statistic in (*STATISTICS, UNKNOWN)


def _read_bounds(bounds: object) -> tuple[float, float] | None:
    """Bounds from a file, or None if they are invalid."""
    if not isinstance(bounds, list) or len(bounds) != 2 or not all(isinstance(end, (int, float)) for end in bounds):
        return None
    low, high = map(float, bounds)
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _refuse_foreign(placements: Placements, measure: Parameters) -> FloatArray:
    raise LimnerError(f"measure {measure} is known only from a report: give it as module:kind to compute it")
