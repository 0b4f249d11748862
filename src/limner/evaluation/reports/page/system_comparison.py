"""Comparisons on the page: with other systems, do the measures agree, and slices of the queries with the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.display_names import display_names
from limner.evaluation.comparison import Comparison, Line, compare
from limner.evaluation.label_estimates import VIEW, EstimatedDifference
from limner.evaluation.reports.page.words import direction_title, plain
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result
from limner.evaluation.slices import Slice, Slices, of_direction
from limner.evaluation.tables import shown_p
from limner.stats import Interval
from limner.stats.correlation import correlation_matrix

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Versus:
    """One measure of two systems: numbers, difference, interval, p-value, verdict on the first, and interval bar."""

    measure: str
    values: Sequence[str]
    difference: str
    span: str
    p: str
    verdict: str
    bar: tuple[float, float, float] | None


@dataclass(frozen=True)
class Contest:
    """The comparison under one view in one direction: row by row for two systems, with letters for more."""

    title: str
    rows: Sequence[Versus] = ()
    many: Sequence[tuple[str, Sequence[tuple[str, str, bool]]]] = ()


@dataclass(frozen=True)
class Heat:
    """A matrix of rank correlations with the names of its rows."""

    title: str
    names: Sequence[str]
    matrix: Sequence[Sequence[float]]
    sentence: str
    unanimous: bool


def comparison_of(report: Report, other_reports: Sequence[Report], comparison: Comparison | None) -> Comparison | None:
    """The given comparison, or a new one of the report with those of other systems; None if there are none."""
    return comparison if comparison is not None else compare([report, *other_reports]) if other_reports else None


def contests(comparison: Comparison) -> list[Contest]:
    """One table per view and direction."""
    keys = sorted(dict.fromkeys((n.view, n.direction) for n in comparison.lines), key=lambda key: key[1] == "both")
    tested = [
        _contest(comparison, view, d, [n for n in comparison.lines if (n.view, n.direction) == (view, d)])
        for view, d in keys
    ]
    return tested + [_estimated(comparison, d) for d in dict.fromkeys(e.direction for e in comparison.estimated)]


def _estimated(comparison: Comparison, direction: str) -> Contest:
    """The same, estimated for complete judgements from labels; intervals are corrected over all pairs."""
    estimates = [e for e in comparison.estimated if e.direction == direction]
    title = f"{direction_title(direction)}, {VIEW}"
    if len(comparison.systems) > 2:
        measures = dict.fromkeys(e.measure for e in estimates)
        return Contest(
            title, many=[(str(m), _estimated_cells([e for e in estimates if e.measure == m])) for m in measures]
        )
    reach = max(max(abs(e.estimate.low), abs(e.estimate.high)) for e in estimates)
    return Contest(title, rows=[_estimated_versus(e, reach) for e in estimates])


def _estimated_versus(estimated: EstimatedDifference, reach: float) -> Versus:
    show, e, scale = estimated.measure.show, estimated.estimate, 50 / reach if reach else 0.0
    values = [plain(estimated.measure, each.estimate.value) for each in estimated.values]
    ends = f"{signed(show(e.low))} to {signed(show(e.high))}"
    has_value = math.isfinite(e.value)
    bar = (50 + scale * e.low, 50 + scale * e.value, 50 + scale * e.high) if scale and has_value else None
    verdict = "unclear" if not estimated.significant else "better" if e.low > 0 else "worse"
    return Versus(str(estimated.measure), values, signed(show(e.value)) if has_value else "–", ends, "–", verdict, bar)


def _estimated_cells(estimates: Sequence[EstimatedDifference]) -> list[tuple[str, str, bool]]:
    """(estimate, letters of the systems it beats, whether it is the best) of every system."""
    values = {n: each for d in estimates for n, each in zip((d.a, d.b), d.values, strict=True)}
    won = [(d.a, d.b) if d.estimate.low > 0 else (d.b, d.a) for d in estimates if d.significant]
    best = max((each.estimate.value for each in values.values() if math.isfinite(each.estimate.value)), default=None)
    return [
        (str(values[n]), "".join(LETTERS[b % 26] for a, b in won if a == n), values[n].estimate.value == best)
        for n in sorted(values)
    ]


def _contest(comparison: Comparison, view: str, direction: str, lines: list[Line]) -> Contest:
    title = f"{direction_title(direction)}, {view}"
    if len(comparison.systems) > 2:
        return Contest(title, many=[(str(n.measure), _lettered(comparison, n)) for n in lines])
    reach = max((_reach(n) for n in lines if n.measure.kind.percent), default=0.0)
    return Contest(title, rows=[_versus(comparison, n, reach) for n in lines])


def _reach(line: Line) -> float:
    spans = (d.interval for d in line.differences if d.interval is not None)
    return max((max(abs(span.low), abs(span.high)) for span in spans), default=0.0)


def _versus(comparison: Comparison, line: Line, reach: float) -> Versus:
    values = [plain(line.measure, v) for v in line.values]
    if not line.differences:
        return Versus(str(line.measure), values, "–", "", "–", "not comparable", None)
    d, show, scale = line.differences[0], line.measure.show, 50 / reach if reach else 0.0
    bar, ends = None, ""
    if d.interval is not None:
        low, high = d.interval.low, d.interval.high
        drawn = bool(scale) and line.measure.kind.percent
        bar = (50 + scale * low, 50 + scale * d.value, 50 + scale * high) if drawn else None
        ends = f"{signed(show(low))} to {signed(show(high))}"
    verdict = _verdict(comparison, line)
    return Versus(str(line.measure), values, signed(show(d.value)), ends, p_value(d.p_adjusted), verdict, bar)


def _verdict(comparison: Comparison, line: Line) -> str:
    won, lost = (bool(line.beaten(i, comparison.level)) for i in (0, 1))
    return "better" if won else "worse" if lost else "unclear"


def signed(text: str) -> str:
    """A number with its sign, with a typographic minus.

    >>> signed("1.5"), signed("-0.3"), signed("-0.0")
    ('+1.5', '−0.3', '0.0')
    """
    if not float(text):
        return text.lstrip("-")
    return f"−{text[1:]}" if text.startswith("-") else f"+{text}"


def p_value(value: float) -> str:
    """A p-value with a meaningful number of digits."""
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _lettered(comparison: Comparison, line: Line) -> list[tuple[str, str, bool]]:
    """(number, letters of the systems it beats, whether it is the best) of every system."""
    best = max((v * line.measure.kind.better for v in line.values if np.isfinite(v)), default=np.nan)
    return [
        (
            plain(line.measure, v),
            "".join(LETTERS[b % 26] for b in line.beaten(i, comparison.level)),
            bool(v * line.measure.kind.better == best),
        )
        for i, v in enumerate(line.values)
    ]


def findings(report: Report, comparison: Comparison) -> list[str]:
    """A summary of the comparison between the report's system and each other system."""
    own_names = (report.system, f"{report.system} (1)")
    me = next((i for i, name in enumerate(comparison.systems) if name in own_names), 0)
    rivals = [i for i in range(len(comparison.systems)) if i != me]
    return [_standing(comparison, me, rival) for rival in rivals]


def _standing(comparison: Comparison, me: int, rival: int) -> str:
    won = sum(rival in n.beaten(me, comparison.level) for n in comparison.lines)
    lost = sum(me in n.beaten(rival, comparison.level) for n in comparison.lines)
    pair = {me, rival}
    all_of = sum(any({d.a, d.b} == pair for d in line.differences) for line in comparison.lines)
    name = f"“{comparison.systems[rival]}”"
    if not all_of:
        return f"No number can be compared with {name} query by query."
    if not won and not lost:
        return f"No significant difference to {name} on any of {all_of} numbers."
    first, n_first, second, fewer = ("better", won, "worse", lost) if won >= lost else ("worse", lost, "better", won)
    return f"Significantly {first} than {name} on {n_first} of {all_of} numbers, {second} on {fewer or 'none'}."


# --- do measures agree? -----------------------------------------------------------------------------------------


def agreement(report: Report, comparison: Comparison | None) -> list[Heat]:
    """Agreement of measures over systems if there are three or more, else over the queries of this report."""
    if comparison is not None and len(comparison.systems) > 2:
        over_systems = _over_systems(comparison)
        if over_systems:
            return over_systems
    directions = dict.fromkeys(r.direction for r in report.results if r.direction != "both")
    heats = [_over_queries(d, [r for r in report.results if r.direction == d]) for d in directions]
    return [heat for heat in heats if heat is not None]


def _over_systems(comparison: Comparison) -> list[Heat]:
    """Kendall's tau-b between the rankings of the systems under every pair of measures, one matrix per direction."""
    if not any(len(set(n.values)) > 1 and np.isfinite(n.values).all() for n in comparison.lines):
        return []
    names, matrix = comparison.agreement
    split = [re.fullmatch(r"(.*) (i2t|t2i|both|run) (\S.*)", name) for name in names]
    directions = dict.fromkeys(m[2] for m in split if m and m[2] != "both")
    heats = []
    for direction in directions:
        at = [i for i, m in enumerate(split) if m and m[2] == direction]
        labels = [f"{m[1]} {m[3]}" for m in split if m and m[2] == direction]
        if len(at) > 1:
            heats.append(_heat(direction, labels, matrix[np.ix_(at, at)], "Kendall's τ"))
    return heats


def _over_queries(direction: str, results: list[Result]) -> Heat | None:
    """Spearman's rho between the values of every pair of measures, over the queries that all views count."""
    shared = [q for q in results[0].queries if all(q in r.queries for r in results)]
    columns = [(f"{r.view} {r.measure}", _comparable(r, shared)) for r in results]
    varied = [(name, column) for name, column in columns if len(column) > 1 and np.ptp(column) > 0]
    if len(varied) < 2:
        return None
    matrix = correlation_matrix(np.array([column for _, column in varied]).T, method="spearman")
    return _heat(direction, [name for name, _ in varied], matrix, "Spearman's ρ")


def _comparable(result: Result, queries: Sequence[str]) -> FloatArray:
    """Values in the order of these queries, with higher as better; a candidate that is never found counts lowest."""
    values = result.values[result.queries.positions(queries)] if len(queries) else result.values[:0]
    finite = np.where(np.isfinite(values), values, values[np.isfinite(values)].max(initial=0) + 1)
    return np.asarray(finite * result.measure.kind.better)


def _heat(direction: str, names: Sequence[str], matrix: FloatArray, sign: str) -> Heat:
    rows, columns = np.tril_indices(len(names), -1)
    low = int(np.argmin(matrix[rows, columns]))
    a, b = names[columns[low]], names[rows[low]]
    lowest = float(matrix[rows[low], columns[low]])
    unanimous = lowest > 1 - 1e-9
    sentence = (
        "All measures agree on the order." if unanimous else f"{sign} is lowest between {a} and {b}: {lowest:.2f}."
    )
    return Heat(direction_title(direction), names, matrix.tolist(), sentence, unanimous)


def crowding(reports: Sequence[Report]) -> list[tuple[str, str, str, str, str]]:
    """Hub statistics of every system, for comparison: (system, direction, skewness, largest hub, Robin Hood index)."""
    return [
        (
            report.system,
            direction_title(direction),
            f"{hubs.skewness:.2f}",
            f"{hubs.largest:,}",
            f"{hubs.robin_hood:.2f}",
        )
        for direction in dict.fromkeys(d for report in reports for d in report.hubs)
        for report in reports
        if (hubs := report.hubs.get(direction)) is not None
    ]


SHOWN = 20
"""Slices of a table that are not marked; all marked ones are shown."""


@dataclass(frozen=True)
class SliceRow:
    """One slice: numbers, intervals, the bar of its difference from the rest, and the verdict."""

    direction: str
    by: str
    name: str
    queries: str
    value: str
    span: str
    rest: str
    difference: str
    apart: str
    bar: tuple[float, float, float] | None
    p: str
    verdict: str


@dataclass(frozen=True)
class SliceTable:
    """The slices of one direction."""

    title: str
    measure: str
    reach: str
    rows: Sequence[SliceRow]
    left_out: int


def slice_tables(sliced: Slices | None) -> list[SliceTable]:
    """One table per direction, the weakest slices first; only some of the unmarked slices are shown."""
    if sliced is None:
        return []
    tables = []
    for view, direction, measure, listed in of_direction(sliced):
        unmarked = [each for each in listed if not each.is_marked]
        listed_slices = [*(each for each in listed if each.is_marked), *unmarked[:SHOWN]]
        title = f"{direction_title(direction)}, {view}"
        reach = max((abs(end) for each in listed_slices for end in _change(each)), default=0.0)
        rows = [_row(each, reach) for each in listed_slices]
        tables.append(SliceTable(title, measure, f"{100 * reach:.0f}", rows, len(listed) - len(listed_slices)))
    return tables


def _row(each: Slice, reach: float) -> SliceRow:
    measure, show = each.measure, each.measure.show
    return SliceRow(
        each.direction, each.by, each.name, f"{each.queries:,}", plain(measure, each.value), _ends(each.interval, show),
        plain(measure, each.rest), measure.show_change(each.difference), _ends(each.difference_interval, show),
        _bar(each, reach), shown_p(each.p_adjusted), each.verdict,
    )  # fmt: skip


def _ends(interval: Interval | None, show: Callable[[float], str]) -> str:
    return "" if interval is None else f"{show(interval.low)} to {show(interval.high)}"


def _change(each: Slice) -> tuple[float, ...]:
    """The interval of the difference from the rest as text; empty if there is none."""
    return (
        (each.difference_interval.low, each.difference, each.difference_interval.high)
        if each.difference_interval and each.measure.kind.percent
        else ()
    )


def _bar(each: Slice, reach: float) -> tuple[float, float, float] | None:
    """The interval of the difference on a track whose ends are minus and plus `reach`."""
    if not (ends := _change(each)) or not reach:
        return None
    low, value, high = (50 + 50 * end / reach for end in ends)
    return low, value, high


def slices_finding(sliced: Slices | None) -> str:
    """A sentence for the first screen; empty if no slice is marked."""
    weak = [each for each in sliced.slices if each.verdict == "weaker"] if sliced else []
    if sliced is None or not weak:
        return ""
    first = weak[0]
    change = first.measure.show_change(first.difference) + (" points" if first.measure.kind.percent else "")
    weaker = "are weaker"
    if sliced.against:
        weaker += " for {} beside {}".format(*display_names([sliced.system, sliced.against]))
    return (
        f"{len(weak)} of {len(sliced.slices)} slices of the queries {weaker} than the rest, most of all “{first.by}: "
        f"{first.name}” ({first.measure} {change}, {direction_title(first.direction).lower()})."
    )
