"""compare: which system is better, by how much, and could it be luck?

Every pair of systems is compared query by query. The test follows the data: McNemar for hits and misses of independent
queries, Fisher's randomisation for everything else, and by image where several captions belong to one image. P-values
of one measure are corrected over all pairs of systems (Holm), so that comparing many systems makes no false winners.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.errors import LimnerError, UnknownName
from limner.files import write_text
from limner.judgements import FloatArray
from limner.measures import Measure
from limner.report import DIRECTIONS, Report, Result
from limner.stats import Interval, PairedTest

TESTS = ("auto", "mcnemar", "randomisation", "sign", "wilcoxon")


@dataclass(frozen=True)
class Difference:
    """One system minus another on one measure."""

    a: int
    b: int
    interval: Interval
    test: PairedTest
    p_adjusted: float
    effect: float

    @property
    def value(self) -> float:
        """The difference of the two numbers."""
        return self.interval.estimate

    def significant(self, level: float = 0.05) -> bool:
        """Whether the corrected p-value is below the level."""
        return self.p_adjusted < level


@dataclass(frozen=True)
class Line:
    """One measure of all systems: their numbers and every pairwise difference."""

    view: str
    direction: str
    measure: Measure
    values: tuple[float, ...]
    differences: tuple[Difference, ...]

    def beaten(self, system: int, level: float = 0.05) -> list[int]:
        """The systems that this one is significantly better than."""
        sign = self.measure.kind.better
        won = [
            (d.b if d.a == system else d.a)
            for d in self.differences
            if d.significant(level) and self._winner(d, sign) == system
        ]
        return sorted(won)

    @staticmethod
    def _winner(difference: Difference, sign: int) -> int:
        return difference.a if difference.value * sign > 0 else difference.b

    def between(self, a: int, b: int) -> Difference:
        """The difference of two systems; the first must come first in the comparison."""
        return next(d for d in self.differences if (d.a, d.b) == (a, b))


@dataclass(frozen=True)
class Comparison:
    """Two or more systems on the same queries. Prints as a table with significance marks."""

    systems: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    level: float = 0.05

    def line(self, measure: str | Measure, *, direction: str | None = None, view: str | None = None) -> Line:
        """The one line that fits."""
        wanted = str(Measure.parse(measure))
        found = [
            n
            for n in self.lines
            if str(n.measure) == wanted and direction in (None, n.direction) and view in (None, n.view)
        ]
        if len(found) != 1:
            raise LimnerError(
                f"{len(found)} lines fit {wanted} ({direction or 'any direction'}, {view or 'any view'}): "
                "name direction and view"
            )
        return found[0]

    @cached_property
    def agreement(self) -> tuple[list[str], FloatArray]:
        """Names of the measures, and Kendall's tau-b between the orders they put the systems in."""
        from limner.stats import correlation_matrix

        if len(self.systems) < 3:
            raise LimnerError(f"agreement of measures needs at least 3 systems, got {len(self.systems)}")
        varied = [n for n in self.lines if len(set(n.values)) > 1 and np.isfinite(n.values).all()]
        table = np.array([[v * n.measure.kind.better for v in n.values] for n in varied]).T
        return [f"{n.view} {n.direction} {n.measure}" for n in varied], correlation_matrix(table)

    def rows(self) -> list[dict[str, Any]]:
        """One flat record per measure and pair of systems: the form of the CSV file."""
        return [_row(self, line, d) for line in self.lines for d in line.differences]

    def save(self, path: str | Path) -> Path:
        """Writes the comparison by the file's ending: .json, .csv, .md or .tex."""
        from limner import tables

        writers: dict[str, Callable[[], str]] = {
            ".json": lambda: json.dumps(
                {"limner": "comparison", "systems": self.systems, "notes": self.notes, "rows": self.rows()}
            ),
            ".csv": lambda: tables.to_csv(self.rows()),
            ".md": lambda: tables.comparison_markdown(self),
            ".tex": lambda: tables.comparison_latex(self),
        }
        target = Path(path)
        if target.suffix.lower() not in writers:
            raise UnknownName("comparison file ending", target.suffix or target.name, writers)
        write_text(target, writers[target.suffix.lower()]())
        return target

    def __str__(self) -> str:
        from limner import tables

        return tables.comparison_text(self)


def compare(
    reports: Sequence[Report], *, test: str = "auto", samples: int = 100_000, seed: int = 0, level: float = 0.05
) -> Comparison:
    """Compares systems on the queries they share.

    Args:
        reports: Two or more reports on the same collection.
        test: "auto" (by the data, see above), "mcnemar", "randomisation", "sign" or "wilcoxon".
        samples: Random swaps of the randomisation test.
        seed: The same seed gives the same p-values.
        level: What counts as significant after correction.

    Returns:
        A comparison with one line per measure that all reports have.
    """
    if len(reports) < 2:
        raise LimnerError(f"got {len(reports)} report to compare: expected two or more")
    if test not in TESTS:
        raise UnknownName("test", test, TESTS)
    keyed = [{r.key: r for r in report.results} for report in reports]
    shared = [key for key in keyed[0] if all(key in other for other in keyed[1:])]
    if not shared:
        raise LimnerError(
            "the reports share no measure (view, direction and measure must be equal): "
            "evaluate them with the same measures and protocol"
        )
    lines = tuple(_line([k[key] for k in keyed], test, samples, seed) for key in shared)
    return Comparison(_names(reports), lines, tuple(_notes(reports, keyed, shared)), level)


def _names(reports: Sequence[Report]) -> tuple[str, ...]:
    """System names, numbered where two are the same."""
    names = [r.system for r in reports]
    return tuple(n if names.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(names))


def _notes(
    reports: Sequence[Report], keyed: list[dict[tuple[str, str, str], Result]], shared: list[tuple[str, str, str]]
) -> list[str]:
    notes = []
    if len({r.collection for r in reports}) > 1:
        notes.append(
            f"the reports name different collections: {', '.join(dict.fromkeys(r.collection for r in reports))}"
        )
    alone = sum(len(k) for k in keyed) - len(shared) * len(keyed)
    if alone:
        notes.append(f"{alone} results that not all reports have are left out")
    return notes


def _line(results: Sequence[Result], test: str, samples: int, seed: int) -> Line:
    first = results[0]
    for other in results[1:]:
        if other.queries != first.queries:
            raise LimnerError(
                f"{' '.join(first.key)}: {len(first.queries)} queries in one report, {len(other.queries)} in another, "
                "or in another order: evaluate all systems on the same collection"
            )
    from limner.stats import holm

    pairs = [(a, b) for a, b in itertools.combinations(range(len(results)), 2) if _comparable(results[a], results[b])]
    tests = [_test(results[a], results[b], test, samples, seed) for a, b in pairs]
    adjusted = holm([t.p_value for t in tests]).tolist() if tests else []
    found = [
        Difference(a, b, _interval(results[a], results[b], seed), t, float(p), _effect(results[a], results[b]))
        for (a, b), t, p in zip(pairs, tests, adjusted, strict=True)
    ]
    return Line(first.view, first.direction, first.measure, tuple(r.value for r in results), tuple(found))


def _comparable(a: Result, b: Result) -> bool:
    return bool(len(a.values) and np.isfinite(a.values).all() and np.isfinite(b.values).all())


def _test(a: Result, b: Result, test: str, samples: int, seed: int) -> PairedTest:
    from limner import stats

    binary = set(np.unique(np.concatenate([a.values, b.values]))) <= {0.0, 1.0}
    if test == "auto":
        test = "mcnemar" if binary and a.clusters is None else "randomisation"
    if test == "randomisation" and a.statistic != "mean":
        return stats.randomisation_of(
            a.summarise, a.values, b.values, clusters=a.clusters, samples=min(samples, 2_000), seed=seed
        )
    if test == "randomisation":
        return stats.randomisation(a.values, b.values, clusters=a.clusters, samples=samples, seed=seed)
    return {"mcnemar": stats.mcnemar, "sign": stats.sign_test, "wilcoxon": stats.wilcoxon}[test](a.values, b.values)


def _interval(a: Result, b: Result, seed: int) -> Interval:
    from limner.stats import bootstrap_difference

    return bootstrap_difference(
        a.values, b.values, statistic=a.statistic, clusters=a.clusters, folds=a.folds, seed=seed
    )


def _effect(a: Result, b: Result) -> float:
    """Cohen's d of the paired differences; 0 where nothing differs."""
    difference = a.values - b.values
    spread = float(np.std(difference, ddof=1)) if len(difference) > 1 else 0.0
    return float(difference.mean() / spread) if spread > 0 else 0.0


def _row(comparison: Comparison, line: Line, d: Difference) -> dict[str, Any]:
    return {
        "view": line.view,
        "direction": line.direction,
        "measure": str(line.measure),
        "a": comparison.systems[d.a],
        "b": comparison.systems[d.b],
        "value_a": line.values[d.a],
        "value_b": line.values[d.b],
        "difference": d.value,
        "low": d.interval.low,
        "high": d.interval.high,
        "p": d.test.p_value,
        "p_holm": d.p_adjusted,
        "test": d.test.method,
        "effect": d.effect,
    }


def heading(view: str, direction: str) -> str:
    """`pairs, image -> text`."""
    return f"{view}, {DIRECTIONS.get(direction, direction)}"
