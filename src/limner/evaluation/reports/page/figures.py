"""Small SVG charts that take their colours from the style sheet of the page, so that they follow light and dark mode.

A chart is about as wide as a phone; two fit side by side on a desktop. Series differ in dash or fill as well as in
colour. All text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

WIDTH, HEIGHT = 380, 232
LEFT, RIGHT, TOP, BOTTOM = 38, 370, 12, 190


@dataclass(frozen=True)
class CurveLine:
    """A curve: its points, the band of its interval (x, low, high), and its style on the page."""

    name: str
    style: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Bars:
    """A series of bars: one share per bin."""

    name: str
    style: str
    shares: Sequence[float]


def element(tag: str, *inside: object, **attributes: object) -> Markup:
    """One SVG element, with everything escaped; `class_` and `text_anchor` become class and text-anchor.

    >>> element("text", "a < b", x=1.5, text_anchor="end")
    Markup('<text x="1.5" text-anchor="end">a &lt; b</text>')
    """
    named = [(name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items() if value is not None]
    written = Markup("").join(Markup(' {}="{}"').format(name, _plain(value)) for name, value in named)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), written, Markup("").join(map(escape, inside)))


def _plain(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def drawing(name: str, title: str, description: str, *inside: object, height: float = HEIGHT) -> Markup:
    """The outer element: an image with a name and a description for screen readers."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        *inside,
        class_="chart",
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """Converts points to the data of an SVG path."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + ("Z" if closed else "")


# --- axes -------------------------------------------------------------------------------------------------------


def steps(limit: float) -> list[float]:
    """Up to six round ticks from 0 to at least the limit.

    >>> steps(0.43), steps(1.0)
    ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    rough = max(limit, 1e-6) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * (1 - 1e-9))
    return [round(i * step, 12) for i in range(math.ceil(limit / step - 1e-9) + 1)]


def height_of(value: float, top: float) -> float:
    """The position of a value on an axis from 0 to `top`."""
    return BOTTOM - (BOTTOM - TOP) * value / top


def log_place(value: float, limit: float) -> float:
    """The position of a rank on a logarithmic axis from 1 to `limit`."""
    return LEFT + (RIGHT - LEFT) * math.log(value) / math.log(limit) if limit > 1 else (LEFT + RIGHT) / 2


def _share_axis(ticks: Sequence[float]) -> Markup:
    """Grid lines with labels in percent on the left side."""
    elements = []
    for tick in ticks:
        y = height_of(tick, ticks[-1])
        elements.append(element("line", x1=LEFT, x2=RIGHT, y1=y, y2=y, class_="grid"))
        elements.append(element("text", f"{100 * tick:g}%", x=LEFT - 6, y=y + 4, text_anchor="end"))
    return Markup("").join(elements)


def _bottom_axis(places: Iterable[tuple[float, str]], name: str) -> Markup:
    """A horizontal axis with tick labels and a name."""
    labels = [element("text", label, x=x, y=BOTTOM + 16, text_anchor="middle") for x, label in places]
    line = element("line", x1=LEFT, x2=RIGHT, y1=BOTTOM, y2=BOTTOM, class_="axis")
    middle = (LEFT + RIGHT) / 2
    return Markup("").join(
        [line, *labels, element("text", name, x=middle, y=HEIGHT - 6, text_anchor="middle", class_="name")]
    )


# --- the figures ------------------------------------------------------------------------------------------------


def curves(name: str, title: str, description: str, lines: Sequence[CurveLine], *, limit: int) -> Markup:
    """Shares over ranks, with ranks on a logarithmic axis from 1 to `limit`."""
    ticks = [k for k in (1, 2, 5, 10, 20, 50, 100) if k < limit * 0.9] + [limit]
    places = [(log_place(k, limit), str(k)) for k in ticks]
    uprights = [element("line", x1=x, x2=x, y1=TOP, y2=BOTTOM, class_="grid") for x, _ in places]
    bands = [element("path", d=_band(line, limit), class_=f"band {line.style}") for line in lines if line.band]
    drawn = [_curve(line, limit) for line in lines]
    axes = [_share_axis([0, 0.25, 0.5, 0.75, 1]), *uprights, _bottom_axis(places, "cut-off k")]
    return drawing(name, title, description, *axes, *bands, *drawn)


def _band(line: CurveLine, limit: int) -> str:
    upper = [(log_place(x, limit), height_of(high, 1)) for x, _, high in line.band]
    lower = [(log_place(x, limit), height_of(low, 1)) for x, low, _ in line.band]
    return path([*upper, *reversed(lower)], closed=True)


def _curve(line: CurveLine, limit: int) -> Markup:
    placed = [(log_place(x, limit), height_of(y, 1)) for x, y in line.points]
    return element("path", element("title", line.name), d=path(placed), class_=f"line {line.style}")


def bars(
    name: str,
    title: str,
    description: str,
    series: Sequence[Bars],
    *,
    labels: Sequence[str],
    tips: Sequence[str],
    axis: str,
    reference: Sequence[float] = (),
) -> Markup:
    """Shares by bin, one bar per series side by side, with an optional reference as a short line across each bin."""
    ticks = steps(max([*(s for each in series for s in each.shares), *reference, 0.01]))
    width = (RIGHT - LEFT) / len(labels)
    drawn = [
        _bar(each, number, len(series), at, LEFT + at * width, width, ticks[-1], tips[at])
        for number, each in enumerate(series)
        for at in range(len(labels))
    ]
    heights = [(at, height_of(share, ticks[-1])) for at, share in enumerate(reference)]
    marks = [_mark(LEFT + at * width, width, y) for at, y in heights if BOTTOM - y > 1]
    places = [(LEFT + (at + 0.5) * width, label) for at, label in enumerate(labels)]
    return drawing(name, title, description, _share_axis(ticks), *drawn, *marks, _bottom_axis(places, axis))


def _bar(series: Bars, number: int, of: int, at: int, left: float, width: float, top: float, tip: str) -> Markup:
    share = series.shares[at]
    each = width * 0.8 / of
    y = height_of(share, top)
    tipped = element("title", f"{tip}: {100 * share:.1f}% ({series.name})")
    x = left + width * 0.1 + number * each
    return element("rect", tipped, x=x, y=y, width=each - 1, height=BOTTOM - y, class_=f"bar {series.style}")


def _mark(left: float, width: float, y: float) -> Markup:
    return element("line", x1=left + width * 0.04, x2=left + width * 0.96, y1=y, y2=y, class_="chance")


def lorenz(name: str, title: str, description: str, points: Sequence[tuple[float, float]]) -> Markup:
    """Lorenz curve of how often candidates are retrieved, with the line of equality."""
    placed = [(LEFT + (RIGHT - LEFT) * x, height_of(y, 1)) for x, y in points]
    ticks = [(LEFT + (RIGHT - LEFT) * x, f"{100 * x:g}%") for x in (0, 0.25, 0.5, 0.75, 1)]
    equal = [(LEFT, BOTTOM), (RIGHT, TOP)]
    return drawing(
        name,
        title,
        description,
        _share_axis([0, 0.25, 0.5, 0.75, 1]),
        element("path", d=path([*placed, *reversed(equal)], closed=True), class_="band lorenz"),
        element("path", d=path(equal), class_="chance"),
        element("path", d=path(placed), class_="line lorenz"),
        _bottom_axis(ticks, "candidates, the least retrieved first"),
    )


def swatch(style: str, *, kind: str = "line") -> Markup:
    """The legend symbol of a series."""
    shape = element("path", d="M1 6L25 6", class_=f"{kind} {style}")
    if kind == "bar":
        shape = element("rect", x=6, y=1, width=12, height=10, class_=f"bar {style}")
    return element("svg", shape, class_="swatch", viewBox="0 0 26 12", aria_hidden="true")
