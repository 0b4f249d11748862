"""A chart of several systems: each number as a dot on its 95% interval, measures in groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from limner.evaluation.reports.page.figures import RIGHT, drawing, element
from limner.evaluation.reports.page.words import number, span
from limner.evaluation.results import Result

LEFT, TOP, ROW, HEAD = 128, 6, 17, 20
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

    def place(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (min(max(value, low), high) - low) / (high - low)

    parts, y = [], float(TOP)
    for called, rows in groups:
        parts.append(element("text", called, x=4, y=y + 14, class_="name"))
        for at, (system, result) in enumerate(rows):
            parts.append(_row(system, result, y + HEAD + ROW * (at + 0.5), f"s{at % STYLES}", place))
        y += HEAD + ROW * len(rows) + 4
    description = "; ".join(f"{called}: {_description(rows)}" for called, rows in groups)
    return drawing(name, title, description, *_axis(low, high, y, place), *parts, height=y + 24)


def _whole_tenths(low: float, high: float) -> tuple[float, float]:
    """The range of the axis in whole tenths, within 0 and 1.

    >>> _whole_tenths(0.33, 0.52)
    (0.3, 0.6)
    """
    first, last = int(low * 10 + 1e-9), min(int(-(-high * 10 // 1) + 1e-9), 10)
    return min(first, 9) / 10, max(last, min(first, 9) + 1) / 10


def _axis(low: float, high: float, bottom: float, place: Callable[[float], float]) -> list[Markup]:
    count = round((high - low) * 10)
    ticks = [low + 0.1 * n for n in range(0, count + 1, 1 if count < 6 else 2)]
    lines = [element("line", x1=place(t), x2=place(t), y1=TOP, y2=bottom, class_="grid") for t in ticks]
    labels = [element("text", f"{100 * t:.0f}%", x=place(t), y=bottom + 16, text_anchor="middle") for t in ticks]
    return [*lines, element("line", x1=LEFT, x2=RIGHT, y1=bottom, y2=bottom, class_="axis"), *labels]


def _row(system: str, result: Result, y: float, style: str, place: Callable[[float], float]) -> Markup:
    short = system if len(system) <= 18 else f"{system[:17]}…"
    label = element("text", short, x=LEFT - 8, y=y + 4, text_anchor="end")
    if result.interval is None:
        return label
    left, right, at = (place(end) for end in (result.interval.low, result.interval.high, result.value))
    line = element("line", x1=left, x2=right, y1=y, y2=y, class_=f"reach {style}")
    dot = element("circle", element("title", f"{system}: {number(result.measure, result.value)}"), cx=at, cy=y, r=4,
                  class_=f"dot {style}")  # fmt: skip
    return Markup("").join([label, line, dot])


def _description(rows: Sequence[tuple[str, Result]]) -> str:
    return ", ".join(f"{system} {number(r.measure, r.value)} ({span(r)})" for system, r in rows)
