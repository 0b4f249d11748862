"""Comparison of systems: which one is better, by how much, and is the difference significant?

Every pair of systems is compared query by query. The test depends on the data: McNemar's test for hits and misses of
independent queries, Fisher's randomisation test for everything else. Tests are clustered by image if several captions
belong to one. P-values are corrected by Holm's method: over all comparisons of the table, since readers look for marks
in all of it; or, with `family="line"`, over the pairs of systems of each line. Both are stored, and the table says
which one it shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.collection import Collection
from limner.core.cut_texts import is_cut_note
from limner.core.display_names import display_names
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import ProgressLike, counting
from limner.core.registry import Registry
from limner.evaluation.label_estimates import EstimatedDifference, estimated_differences
from limner.evaluation.measures import Measure
from limner.evaluation.results import (
    ALONE,
    Evaluated,
    Result,
    comparable,
    effect_size,
    paired,
    paired_test,
    without_interval,
    written,
)
from limner.evaluation.tables import FORMATS, TableReport
from limner.stats import Interval, holm
from limner.stats.correlation import correlation_matrix
from limner.stats.paired import PairedTest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ESTIMATES_LOST = (
    "the reports have estimated numbers, which this table does not compare: give the store too (labels=store, or "
    "--estimate STORE)"
)
TESTS = ("auto", "mcnemar", "randomisation", "sign", "wilcoxon")
FAMILIES = ("table", "line")

COMPARISON_FORMATS: Registry[Callable[..., str | bytes]] = Registry(
    "comparison file ending",
    {
        **FORMATS,
        ".pdf": "limner.evaluation.reports.figures:comparison_pdf",
        ".svg": "limner.evaluation.reports.figures:comparison_svg",
        ".png": "limner.evaluation.reports.figures:comparison_png",
    },
)
"""File formats of a comparison, by file extension: `(comparison, **options) -> str or bytes`."""


_FIGURE: Registry[Callable[..., Figure]] = Registry(
    "figure", {"comparison": "limner.evaluation.reports.figures:comparison_figure"}
)


@dataclass(frozen=True)
class Difference:
    """One system minus another on one measure.

    Args:
        a: Index of the first system.
        b: Index of the second.
        value: The difference of the two numbers.
        interval: Its 95% interval; None if there are too few queries.
        test: The paired test.
        p_line: Its p-value, corrected over the pairs of systems of the line.
        p_table: Its p-value, corrected over all comparisons of the table.
        effect: Cohen's d of the paired differences.
        family: Which of the two is used: "table" or "line".
    """

    a: int
    b: int
    value: float
    interval: Interval | None
    test: PairedTest
    p_line: float
    p_table: float
    effect: float
    family: str = "table"

    @property
    def p_adjusted(self) -> float:
        """The corrected p-value of the chosen family."""
        return self.p_table if self.family == "table" else self.p_line

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
        """The difference of two systems, in the order of the comparison."""
        return next(d for d in self.differences if (d.a, d.b) == (a, b))


@dataclass(frozen=True)
class Comparison(TableReport):
    """Two or more systems on the same queries. Prints as a table with significance marks.

    Args:
        systems: Their names.
        lines: One for each measure that all reports have.
        notes: Notes for readers.
        level: The significance level, after correction.
        family: The family for the correction of p-values: "table" or "line".
        estimated: Differences estimated for complete judgements, from labels of a designed sample.
    """

    kind = "comparison"
    formats = COMPARISON_FORMATS
    systems: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    level: float = 0.05
    family: str = "table"
    estimated: tuple[EstimatedDifference, ...] = ()

    @property
    def corrected(self) -> str:
        """The family over which p-values are corrected, as text for the table footer."""
        if self.family == "table":
            every = sum(len(line.differences) for line in self.lines)
            return f"corrected over all {every} comparisons of the table (Holm)"
        pairs = max((len(line.differences) for line in self.lines), default=0)
        over = f"the {pairs} pairs" if pairs > 1 else "the pair"
        return (
            f"corrected over {over} of systems within each line, not over the lines (Holm): some marks may "
            f"be false positives"
        )

    def line(self, measure: str | Measure, *, direction: str | None = None, view: str | None = None) -> Line:
        """The only matching line."""
        name = written(measure, self.lines)
        matches = [
            n
            for n in self.lines
            if str(n.measure) == name and direction in (None, n.direction) and view in (None, n.view)
        ]
        if len(matches) != 1:
            raise LimnerError(
                f"{len(matches)} lines match {name} ({direction or 'any direction'}, {view or 'any view'}): "
                "choose a direction and a view"
            )
        return matches[0]

    @cached_property
    def agreement(self) -> tuple[list[str], FloatArray]:
        """Names of the measures, and Kendall's tau-b between their rankings of the systems."""
        if len(self.systems) < 3:
            raise LimnerError(f"agreement of measures needs at least 3 systems, got {len(self.systems)}")
        varied = [n for n in self.lines if len(set(n.values)) > 1 and np.isfinite(n.values).all()]
        table = np.array([[v * n.measure.kind.better for v in n.values] for n in varied]).T
        return [f"{n.view} {n.direction} {n.measure}" for n in varied], correlation_matrix(table)

    def rows(self) -> list[dict[str, object]]:
        """One flat record per measure and pair of systems, as in the CSV file."""
        tested = [_row(self, line, d) for line in self.lines for d in line.differences]
        return [*tested, *(each.row(self.systems) for each in self.estimated)]

    def describe(self) -> dict[str, object]:
        """The whole comparison as plain values."""
        return {
            "systems": list(self.systems),
            "level": self.level,
            "family": self.family,
            "notes": list(self.notes),
            "rows": self.rows(),
        }

    def figure(self, *, width: str | float = "column") -> Figure:
        """The differences with their intervals, as a matplotlib `Figure`; filled marks are significant.

        Args:
            width: "column" (3.35 inches), "page" (7 inches), or a number of inches.
        """
        drawn: Figure = _FIGURE["comparison"](self, width=width)
        return drawn


def compare(
    reports: Sequence[Evaluated],
    *,
    test: str = "auto",
    family: str = "table",
    allow_different: bool = False,
    samples: int = 100_000,
    seed: int = 0,
    level: float = 0.05,
    labels: object | None = None,
    collection: Collection | None = None,
    mode: str = "fixed",
    progress: ProgressLike = None,
) -> Comparison:
    """Compares systems on the queries they share.

    Args:
        reports: Two or more reports on the same collection, measured with the same settings.
        test: "auto" (depends on the data, see above), "mcnemar" (for hits and misses; other lines by randomisation),
            "randomisation", "sign" or "wilcoxon".
        family: The family for the correction of p-values: "table" (all lines and pairs of systems) or "line" (the pairs
            of each line).
        allow_different: Compare reports with different settings (ties, truth, pool, collection), with a note.
        samples: Random swaps of the randomisation test.
        seed: The same seed gives the same p-values.
        level: The significance level, after correction.
        labels: A store of answers to a designed sample (`limner.annotate.plan`): the comparison then has the view
            "estimated", differences estimated for complete judgements, from the lists in the reports.
        collection: The collection with the given pairs, for `labels`; that of the store by default.
        mode: Intervals from labels: "fixed", valid for one look, or "anytime", valid after every answer.
        progress: Called with (lines done, lines in total).

    Returns:
        A comparison with one line per measure that all reports have.
    """
    if len(reports) < 2:
        raise LimnerError(f"got {len(reports)} report to compare: expected two or more")
    for option, value, values in (("test", test, TESTS), ("family", family, FAMILIES)):
        if value not in values:
            raise UnknownName(option, value, values)
    keyed = [{r.key: r for r in report.results} for report in reports]
    shared = [key for key in keyed[0] if all(key in results for results in keyed[1:])]
    if not shared:
        raise LimnerError(
            "the reports share no measure (view, direction and measure must be equal): "
            "evaluate them with the same measures and protocol"
        )
    different = _different(reports, shared)
    if different and not allow_different:
        raise LimnerError(
            f"the reports are not comparable: {'; '.join(different)}. Evaluate all systems with the same settings, or "
            "compare them anyway with allow_different=True (--allow-different), which notes it"
        )
    raw_lines = [_line([k[key] for k in keyed], test, samples, seed) for key in counting(shared, progress)]
    lines = _corrected(raw_lines, family)
    notes = [*different, *_notes(reports, keyed, shared), *_test_notes(lines, test)]
    estimates, estimate_notes = _estimated(reports, labels, collection, mode)
    return Comparison(system_names(reports), lines, (*notes, *estimate_notes), level, family, estimates)


def _estimated(
    reports: Sequence[Evaluated], labels: object | None, collection: Collection | None, mode: str
) -> tuple[tuple[EstimatedDifference, ...], list[str]]:
    """The differences that the labels estimate, with notes."""
    if labels is None:
        lost = any(getattr(report, "estimates", ()) for report in reports)
        return (), [ESTIMATES_LOST] if lost else []
    estimates = estimated_differences(labels, [getattr(report, "top", {}) for report in reports], collection, mode)
    if not estimates:
        raise LimnerError(
            "labels: the store has no design for a direction that all reports keep lists of; create one with 'limner "
            "annotate plan'"
        )
    looks = "to be looked at once" if mode == "fixed" else "may be looked at after every answer"
    n_labels = max(e.labels for each in estimates for e in each.values)
    return estimates, [
        f"estimated: differences under the complete truth of this collection, for the queries with a given match, from "
        f"up to {n_labels:,} labels, {mode} "
        f"intervals ({looks}); *: 0 is outside the interval, corrected over these {len(estimates)} comparisons "
        "(Bonferroni)"
    ]


def system_names(reports: Sequence[Evaluated]) -> tuple[str, ...]:
    """Short names of the systems, told apart where they are the same."""
    return display_names([report.system for report in reports])


def _different(reports: Sequence[Evaluated], shared: list[tuple[str, str, str]]) -> list[str]:
    """Differences in the settings that make the numbers incomparable."""
    problems = []
    names = list(dict.fromkeys(r.collection for r in reports))
    if len(names) > 1:
        problems.append(f"the collections are {' and '.join(map(repr, names))}")
    for setting in ("ties", "unretrieved"):
        values = sorted({str(r.settings[setting]) for r in reports if setting in r.settings})
        if len(values) > 1:
            problems.append(f"{setting} is {' in one and '.join(map(repr, values))} in another")
    for view in dict.fromkeys(f"{view} {direction}" for view, direction, _ in shared):
        if len(_values(reports, "truth", view)) > 1:
            problems.append(f"what is relevant under {view} differs")
    for direction in dict.fromkeys(direction for _, direction, _ in shared):
        sizes = sorted(_values(reports, "pool", direction))
        if len(sizes) > 1:
            listed = " in one and ".join(f"{size:,}{' candidates' if size == sizes[0] else ''}" for size in sizes)
            problems.append(f"{direction} was ranked against {listed} in another")
    return problems


def _values(reports: Sequence[Evaluated], setting: str, key: str) -> set[Any]:
    """The different values of a setting that is stored by view or direction, if known."""
    return {r.settings.get(setting, {}).get(key) for r in reports} - {None}


def _notes(
    reports: Sequence[Evaluated], keyed: list[dict[tuple[str, str, str], Result]], shared: list[tuple[str, str, str]]
) -> list[str]:
    notes = []
    versions = list(dict.fromkeys(str(r.settings.get("version", "unknown")) for r in reports))
    if len(versions) > 1:
        notes.append(f"the reports were made by different versions of limner: {', '.join(versions)}")
    alone = sum(len(k) for k in keyed) - len(shared) * len(keyed)
    if alone:
        notes.append(f"{alone} results that not all reports have are left out")
    if any(direction == "run" and keyed[0][view, direction, m].clusters is None for view, direction, m in shared):
        notes.append(ALONE)
    named = zip(system_names(reports), reports, strict=True)
    return [
        *notes,
        *without_interval(results[key] for results in keyed for key in shared),
        *(f"{name}: {note}" for name, report in named for note in getattr(report, "notes", ()) if is_cut_note(note)),
    ]


def _test_notes(lines: Sequence[Line], test: str) -> list[str]:
    n_randomised = sum(not d.test.method.startswith("McNemar") for line in lines for d in line.differences)
    if test != "mcnemar" or not n_randomised:
        return []
    return [f"mcnemar is for hits and misses: {n_randomised} comparisons of other values are by randomisation"]


def _line(results: Sequence[Result], test: str, samples: int, seed: int) -> Line:
    first = results[0]
    results = [first, *(paired(first, result) for result in results[1:])]
    pairs = [(a, b) for a, b in itertools.combinations(range(len(results)), 2) if comparable(results[a], results[b])]
    tests = [paired_test(results[a], results[b], test=test, samples=samples, seed=seed) for a, b in pairs]
    adjusted = holm([t.p_value for t in tests]).tolist() if tests else []
    differences = [
        _difference((a, results[a]), (b, results[b]), t, p) for (a, b), t, p in zip(pairs, tests, adjusted, strict=True)
    ]
    return Line(first.view, first.direction, first.measure, tuple(r.value for r in results), tuple(differences))


def _difference(one: tuple[int, Result], rival: tuple[int, Result], test: PairedTest, p: float) -> Difference:
    (a, first), (b, second) = one, rival
    value, interval = first.value - second.value, first.difference(second)
    return Difference(a, b, value, interval, test, float(p), float(p), effect_size(first, second))


def _corrected(lines: Sequence[Line], family: str) -> tuple[Line, ...]:
    """The lines with p-values corrected over the whole table, and with the family of the comparison."""
    every = [d.test.p_value for line in lines for d in line.differences]
    adjusted = iter(holm(every).tolist() if every else [])
    return tuple(
        replace(n, differences=tuple(replace(d, p_table=next(adjusted), family=family) for d in n.differences))
        for n in lines
    )


def _row(comparison: Comparison, line: Line, d: Difference) -> dict[str, object]:
    return {
        "view": line.view,
        "direction": line.direction,
        "measure": str(line.measure),
        "a": comparison.systems[d.a],
        "b": comparison.systems[d.b],
        "value_a": line.values[d.a],
        "value_b": line.values[d.b],
        "difference": d.value,
        "low": d.interval.low if d.interval else None,
        "high": d.interval.high if d.interval else None,
        "p": d.test.p_value,
        "p_holm": d.p_line,
        "p_holm_table": d.p_table,
        "significant": d.significant(comparison.level),
        "test": d.test.method,
        "effect": d.effect,
    }
