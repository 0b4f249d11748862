"""Estimates for complete judgements next to the usual numbers: a chart, a text, and the quality of the labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from limner.core.errors import count
from limner.core.options import OptionValues
from limner.evaluation.label_estimates import Estimated
from limner.evaluation.reports.page.figures import LEFT, RIGHT, drawing, element
from limner.evaluation.reports.page.words import direction_title, number, span
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result

ROW = 58
"""Height of one row of the drawing."""
_EDGE = 14


@dataclass(frozen=True)
class EstimatePanel:
    """One direction: a chart, and its rows as text."""

    title: str
    figure: Markup
    rows: Sequence[tuple[str, str, str, str, str]]  # measure, usual number, estimate, interval, labels
    facts: Sequence[str]


def estimate_panels(report: Report) -> list[EstimatePanel]:
    """One panel per direction that has estimates."""
    panels = []
    for direction in dict.fromkeys(e.direction for e in report.estimates):
        of_direction = [e for e in report.estimates if e.direction == direction]
        title = f"{direction_title(direction)}: the usual number and the estimate"
        figure = both_drawn(f"estimated-{direction}", title, [(str(e.measure), e) for e in of_direction])
        panels.append(
            EstimatePanel(
                direction_title(direction), figure, [_row(e) for e in of_direction], _facts(report, of_direction)
            )
        )
    return panels


def _row(estimated: Estimated) -> tuple[str, str, str, str, str]:
    m, e = estimated.measure, estimated.estimate
    span = f"{m.show(e.low)} to {m.show(e.high)}"
    return str(m), number(m, estimated.given), number(m, e.value), span, f"{estimated.labels:,}"


def _facts(report: Report, estimates: Sequence[Estimated]) -> list[str]:
    """Facts about the labels behind the numbers."""
    first, often = estimates[0].estimate, "at least " if estimates[0].estimate.mode == "anytime" else "about "
    looked = "to be looked at once" if first.mode == "fixed" else "may be looked at after every answer"
    effects = [e.estimate.effect for e in estimates if math.isfinite(e.estimate.effect)]
    facts = [
        f"{count(max(e.labels for e in estimates), 'label', 'labels')} by people; {first.mode} intervals ({looked}) "
        f"that hold the truth of this collection {often}{100 * first.level:g}% of the time"
    ]
    if estimates[0].left_out:
        facts.append(f"{count(estimates[0].left_out, 'query', 'queries')} without a given match are left out, as above")
    if any(math.isnan(e.estimate.value) for e in estimates):
        facts.append(
            "where pairs that no plan asked for decide a part of a number, there is an interval and no estimate"
        )
    if effects:
        facts.append(f"design effect {sum(effects) / len(effects):.2f}: the variance beside that of a simple sample")
    about: OptionValues = report.settings.get("labels") or {}
    return facts + _agreement(about.get("agreement") or {}) + _judge(about.get("judges") or {}, estimates[0].direction)


def _agreement(agreement: OptionValues) -> list[str]:
    if not agreement.get("pairs"):
        return ["how far people agree is unknown: no pair was judged by two people"]
    if math.isnan(float(agreement["alpha"])):
        return [
            f"people's agreement is undefined on {count(agreement['pairs'], 'pair', 'pairs')}: all grades are the same"
        ]
    ends = f"{float(agreement['low']):.2f} to {float(agreement['high']):.2f}"
    return [
        f"people's agreement: alpha {float(agreement['alpha']):.2f} ({ends}) on "
        f"{count(agreement['pairs'], 'pair', 'pairs')}"
    ]


def _judge(judges: OptionValues, direction: str) -> list[str]:
    quality = judges.get(direction)
    if quality is None:
        return []
    shares = [
        f"{words} {100 * part['low']:.0f}% to {100 * part['high']:.0f}% ({part['yes']} of {part['of']})"
        for words, part in (("precision", quality["right"]), ("recall", quality["found"]))
    ]
    kappa = "undefined" if quality["kappa"] is None else f"{quality['kappa']:.2f}"
    return [f"judge “{quality['judge']}” beside people: {', '.join(shares)}, kappa {kappa}; it never counts as a label"]


# --- the drawing ------------------------------------------------------------------------------------------------


def both_drawn(name: str, title: str, rows: Sequence[tuple[str, Estimated]]) -> Markup:
    """A chart with the usual number (an open diamond) and the estimate (a dot on its interval) in each row.

    Args:
        name: Name of the chart on its page.
        title: Alternative text for screen readers.
        rows: The name and the estimate of each row.
    """
    low, high = _reach([e for _, e in rows])
    bottom = _EDGE + ROW * len(rows)
    ticks = [round(low + 0.1 * n, 10) for n in range(round((high - low) * 10) + 1)]
    ticks = ticks if len(ticks) < 7 else ticks[::2]

    place = _scale(low, high, LEFT)
    drawn = [_drawn(called, e, _EDGE + ROW * n, place) for n, (called, e) in enumerate(rows)]
    description = "; ".join(_description(called, e) for called, e in rows)
    axis = _axis(ticks, place, LEFT, _EDGE, bottom)
    return drawing(name, title, description, *axis, *drawn, height=bottom + 24)


def _description(called: str, estimated: Estimated) -> str:
    m, e = estimated.measure, estimated.estimate
    ends = f"{m.show(e.low)} to {m.show(e.high)}"
    return f"{called}: usual {number(m, estimated.given)}, estimate {number(m, e.value)}, {ends}"


def _reach(estimates: Sequence[Estimated]) -> tuple[float, float]:
    """The range of the axis, in whole tenths."""
    values = [v for e in estimates for v in (e.given, e.estimate.low, e.estimate.high)]
    low, high = math.floor(10 * min(values) - 0.1) / 10, math.ceil(10 * max(values) + 0.1) / 10
    return max(low, 0.0), min(max(high, low + 0.2), 1.0)


def _drawn(called: str, estimated: Estimated, top: float, place: Callable[[float], float]) -> Markup:
    """The usual number above the estimate, so that neither hides the other."""
    e, x = estimated.estimate, place(estimated.given)
    usual, y, left, right = top + 28, top + 43, place(e.low), place(e.high)
    diamond = f"M{x:.1f} {usual - 6:g}L{x + 6:.1f} {usual:g}L{x:.1f} {usual + 6:g}L{x - 6:.1f} {usual:g}Z"
    return Markup("").join(
        [
            element("text", called, x=LEFT, y=top + 15, class_="name"),
            element("path", d=diamond, class_="usual"),
            element("rect", element("title", _description(called, estimated)), x=left, y=y - 4,
                    width=max(right - left, 1.5), height=8, rx=4, class_="interval"),
            *([] if math.isnan(e.value) else [element("circle", cx=place(e.value), cy=y, r=5.5, class_="estimate")]),
        ]
    )  # fmt: skip


def legend() -> list[tuple[Markup, str]]:
    """The legend of the chart, as (symbol, text)."""

    def sign(*inside: Markup) -> Markup:
        return element("svg", *inside, class_="swatch", viewBox="0 0 26 14", aria_hidden="true")

    dot = element("circle", cx=13, cy=7, r=5.5, class_="estimate")
    bar = element("rect", x=1, y=3, width=24, height=8, rx=4, class_="interval")
    diamond = element("path", d="M13 0L20 7L13 14L6 7Z", class_="usual")
    return [(sign(diamond), "usual number, by the given pairs"), (sign(bar, dot), "estimate with its 95% interval")]


SYSTEM_LEFT, TOP, SYSTEM_ROW, HEAD = 128, 6, 17, 20
STYLES = 4


def intervals_drawn(name: str, title: str, groups: Sequence[tuple[str, Sequence[tuple[str, Result]]]]) -> Markup:
    """Shares with their intervals; every result has one.

    Args:
        name: Name of the chart on its page.
        title: Alternative text for screen readers.
        groups: The name of each group, and its systems with their results.
    """
    ends = [end for _, rows in groups for _, r in rows if r.interval for end in (r.interval.low, r.interval.high)]
    low, high = _whole_tenths(min(ends), max(ends))

    place = _scale(low, high, SYSTEM_LEFT)
    parts, y = [], float(TOP)
    for called, rows in groups:
        parts.append(element("text", called, x=4, y=y + 14, class_="name"))
        for at, (system, result) in enumerate(rows):
            parts.append(_system_row(system, result, y + HEAD + SYSTEM_ROW * (at + 0.5), f"s{at % STYLES}", place))
        y += HEAD + SYSTEM_ROW * len(rows) + 4
    description = "; ".join(f"{called}: {_systems_described(rows)}" for called, rows in groups)
    steps = round((high - low) * 10)
    ticks = [low + 0.1 * n for n in range(0, steps + 1, 1 if steps < 6 else 2)]
    axis = _axis(ticks, place, SYSTEM_LEFT, TOP, y)
    return drawing(name, title, description, *axis, *parts, height=y + 24)


def _whole_tenths(low: float, high: float) -> tuple[float, float]:
    """The range of the axis in whole tenths, within 0 and 1.

    >>> _whole_tenths(0.33, 0.52)
    (0.3, 0.6)
    """
    first, last = int(low * 10 + 1e-9), min(int(-(-high * 10 // 1) + 1e-9), 10)
    return min(first, 9) / 10, max(last, min(first, 9) + 1) / 10


def _scale(low: float, high: float, left: float) -> Callable[[float], float]:
    """The place of a value on an axis from `low` to `high`, which begins at `left`."""
    return lambda value: left + (RIGHT - left) * (min(max(value, low), high) - low) / (high - low)


def _axis(
    ticks: Sequence[float], place: Callable[[float], float], left: float, top: float, bottom: float
) -> list[Markup]:
    lines = [element("line", x1=place(t), x2=place(t), y1=top, y2=bottom, class_="grid") for t in ticks]
    labels = [element("text", f"{100 * t:.0f}%", x=place(t), y=bottom + 16, text_anchor="middle") for t in ticks]
    return [*lines, element("line", x1=left, x2=RIGHT, y1=bottom, y2=bottom, class_="axis"), *labels]


def _system_row(system: str, result: Result, y: float, style: str, place: Callable[[float], float]) -> Markup:
    short = system if len(system) <= 18 else f"{system[:17]}…"
    label = element("text", short, x=SYSTEM_LEFT - 8, y=y + 4, text_anchor="end")
    if result.interval is None:
        return label
    left, right, at = (place(end) for end in (result.interval.low, result.interval.high, result.value))
    line = element("line", x1=left, x2=right, y1=y, y2=y, class_=f"reach {style}")
    dot = element("circle", element("title", f"{system}: {number(result.measure, result.value)}"), cx=at, cy=y, r=4,
                  class_=f"dot {style}")  # fmt: skip
    return Markup("").join([label, line, dot])


def _systems_described(rows: Sequence[tuple[str, Result]]) -> str:
    return ", ".join(f"{system} {number(r.measure, r.value)} ({span(r)})" for system, r in rows)
