"""Figures for papers: a report or a comparison as PDF, SVG or PNG, one or two columns wide.

Text is 8 point at the printed size, and fonts are embedded (TrueType in PDF, outlines in SVG). Series differ in marker
and dash as well as in colour (the palette of Okabe and Ito, 2008), so that a figure is readable in greyscale. Files
contain no date: the same report gives the same bytes.
"""

from __future__ import annotations

import io
import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.errors import LimnerError, UnknownName
from limner.core.paths import settle_matplotlib
from limner.core.registry import Registry
from limner.evaluation.comparison import Comparison, Line, system_names
from limner.evaluation.reports.report import Report, curve_depth, first_ranks, recall_curve
from limner.evaluation.results import DIRECTIONS, Result, heading

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure

WIDTHS = {"column": 3.35, "page": 7.0}
"""Named widths in inches: one column and the full text width of a two-column paper."""
NARROWEST, WIDEST = 1.5, 20.0
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_ROUND = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000)
DASHES = ("-", "--", "-.", ":")
_CHARACTER, _SAMPLE, _ROW = 4.0, 34.0, 0.15
"""The legend: points of a letter and of a line's sample with the space around it, and inches of a row."""
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "limner",
    "savefig.dpi": 300,
}

REPORT_FIGURES: Registry[Callable[..., Figure]] = Registry(
    "figure of a report",
    {
        "recall": "limner.evaluation.reports.figures:recall",
        "measures": "limner.evaluation.reports.figures:measures",
        "hubs": "limner.evaluation.reports.figures:hubs",
    },
)
"""Figures of reports by name: `(reports, width in inches) -> Figure`."""


def report_figure(
    report: Report, figure: str = "recall", *, width: str | float = "column", other_reports: Sequence[Report] = ()
) -> Figure:
    """Draws a report.

    Args:
        report: The report.
        figure: A key of `REPORT_FIGURES`: "recall" (R@k by k with its 95% band), "measures" (every number between 0 and
            1 with its interval) or "hubs" (how often candidates are returned).
        width: "column", "page", or a number of inches.
        other_reports: Reports of other systems on the same collection.
    """
    if figure not in REPORT_FIGURES:
        raise UnknownName("figure", figure, REPORT_FIGURES, of="a report")
    draw = REPORT_FIGURES[figure]
    with _paper():
        figure_drawn: Figure = draw([report, *other_reports], inches(width))
    return figure_drawn


def comparison_figure(comparison: Comparison, *, width: str | float = "column") -> Figure:
    """Draws the differences of a comparison with 95% intervals; filled marks are significant after correction."""
    with _paper():
        return _differences(comparison, inches(width))


def inches(width: str | float) -> float:
    """Converts a width, given by name or in inches, to inches.

    >>> inches("column"), inches("5")
    (3.35, 5.0)
    """
    if width in WIDTHS:
        return WIDTHS[str(width)]
    try:
        wide = float(width)
    except ValueError:
        raise UnknownName("width", str(width), [*WIDTHS, "a number of inches"]) from None
    if not NARROWEST <= wide <= WIDEST:
        raise LimnerError(f"a figure {wide:g} inches wide: expected {NARROWEST:g} to {WIDEST:g}, 'column' or 'page'")
    return wide


def _report_writer(form: str) -> Callable[..., bytes]:
    def write(
        report: Report, *, figure: str = "recall", width: str | float = "column", other_reports: Sequence[Report] = ()
    ) -> bytes:
        return _written(report_figure(report, figure, width=width, other_reports=other_reports), form)

    return write


def _comparison_writer(form: str) -> Callable[..., bytes]:
    def write(comparison: Comparison, *, width: str | float = "column") -> bytes:
        return _written(comparison_figure(comparison, width=width), form)

    return write


report_pdf, report_svg, report_png = map(_report_writer, ("pdf", "svg", "png"))
comparison_pdf, comparison_svg, comparison_png = map(_comparison_writer, ("pdf", "svg", "png"))


def _written(figure: Figure, form: str) -> bytes:
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    out = io.BytesIO()
    with _paper():
        figure.savefig(out, format=form, metadata=undated.get(form))
    return out.getvalue()


@contextmanager
def _paper() -> Iterator[None]:
    """matplotlib with settings for papers, without a display."""
    settle_matplotlib()
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def _panels(width: float, number: int, *, height: float, least: float = 1.6) -> tuple[Figure, list[Axes]]:
    """Panels in full rows, as many side by side as the width allows; `least` is the width of one in inches."""
    from matplotlib.figure import Figure

    columns = max(n for n in range(1, number + 1) if n == 1 or (number % n == 0 and width / n >= least))
    rows = number // columns
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, list(grid.ravel())


# --- reports ----------------------------------------------------------------------------------------------------


def recall(reports: Sequence[Report], width: float) -> Figure:
    """R@k against k: a panel per direction, a line per view (or per system under the first view)."""
    ranks_of = first_ranks(reports[0])
    directions = list(dict.fromkeys(direction for _, direction in ranks_of))
    if not directions:
        raise LimnerError(f"the report of {reports[0].system} has no ranks of first matches: measure MedR too")
    figure, panels = _panels(width, len(directions), height=2.1)
    for axes, direction in zip(panels, directions, strict=True):
        _recall_panel(axes, reports, direction)
    panels[0].set_ylabel("R@k (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    _legend(figure, handles, labels, title=next(iter(ranks_of))[0] if len(reports) > 1 else "")
    return figure


def _recall_panel(axes: Axes, reports: Sequence[Report], direction: str) -> None:
    lines = _recall_lines(reports, direction)
    limit = min(curve_depth(report, direction, [ranks]) for _, report, ranks in lines)
    for number, (name, report, ranks) in enumerate(lines):
        curve = recall_curve(report, ranks, limit)
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        shares = [100 * r.value for r in curve.values()]
        axes.plot(list(curve), shares, dash, color=colour, label=name, clip_on=False)  # whole at 100%, too
        band = [(k, r.interval) for k, r in curve.items()]
        intervals = [(k, 100 * i.low, 100 * i.high) for k, i in band if i is not None]
        if intervals:
            at, low, high = (list(each) for each in zip(*intervals, strict=True))
            axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_xscale("log")
    _plain_ticks(
        axes.xaxis, [k for k in ((1, 2, 5, 10, 25, 100) if limit >= 100 else (1, 2, 5, 10, 20, 50)) if k <= limit]
    )
    axes.set(xlabel="k", ylim=(0, 100), title=_direction(direction))


def _recall_lines(reports: Sequence[Report], direction: str) -> list[tuple[str, Report, Result]]:
    """The lines of a panel: the views of one system, or several systems under the first view."""
    ranks_of = {view: r for (view, at), r in first_ranks(reports[0]).items() if at == direction}
    if len(reports) == 1:
        return [(view, reports[0], ranks) for view, ranks in ranks_of.items()]
    view = next(iter(ranks_of))
    names = system_names(reports)
    named = [(name, r, first_ranks(r).get((view, direction))) for name, r in zip(names, reports, strict=True)]
    return [(name, report, ranks) for name, report, ranks in named if ranks is not None]


def measures(reports: Sequence[Report], width: float) -> Figure:
    """Every measure in percent with its 95% interval: a panel per direction, a mark per view (or system)."""
    percentages = [r for r in reports[0].results if r.measure.kind.percent and r.direction != "both" and len(r.values)]
    directions = list(dict.fromkeys(r.direction for r in percentages))
    if not directions:
        raise LimnerError(f"the report of {reports[0].system} has no measure in percent, such as R@1 or mAP@R")
    series = _series(reports)
    drawn = {view for _, _, view in series}
    names = list(dict.fromkeys(str(r.measure) for r in percentages if r.view in drawn))
    figure, panels = _panels(width, len(directions), height=0.7 + 0.09 * len(names) * (1 + len(series)))
    for axes, direction in zip(panels, directions, strict=True):
        for number, (name, report, view) in enumerate(series):
            _marks(axes, [r for r in report.results if (r.view, r.direction) == (view, direction)], names, number, name)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(axis="x", linewidth=0.3)
        axes.set(xlabel="%", title=_direction(direction))
    handles, labels = panels[0].get_legend_handles_labels()
    _legend(figure, handles, labels, title=series[0][2] if len(reports) > 1 else "")
    return figure


def _series(reports: Sequence[Report]) -> list[tuple[str, Report, str]]:
    """(name, report, view): the views of one system, or several systems under their first common view."""
    views = list(dict.fromkeys(r.view for r in reports[0].results))
    if len(reports) == 1:
        return [(view, reports[0], view) for view in views]
    common = [v for v in views if all(any(r.view == v for r in each.results) for each in reports)]
    if not common:
        raise LimnerError("the reports share no view: evaluate the systems on the same collection and judgements")
    named = zip(system_names(reports), reports, strict=True)
    return [(name, each, common[0]) for name, each in named]


def _marks(axes: Axes, results: Sequence[Result], names: list[str], number: int, name: str) -> None:
    percentages = [r for r in results if str(r.measure) in names]
    places = [names.index(str(r.measure)) + 0.14 * number for r in percentages]
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    values = [100 * r.value for r in percentages]
    axes.plot(values, places, marker, color=colour, label=name)
    for result, place in zip(percentages, places, strict=True):
        if result.interval is not None:
            axes.plot([100 * result.interval.low, 100 * result.interval.high], [place] * 2, color=colour, linewidth=0.9)


def hubs(reports: Sequence[Report], width: float) -> Figure:
    """The share of candidates that are among the k nearest of at least n queries, a line per system."""
    directions = list(reports[0].hubs)
    named = list(zip(system_names(reports), reports, strict=True))
    if not directions:
        raise LimnerError(f"the report of {reports[0].system} has no lists: evaluate scores, or a ranking with lists")
    figure, panels = _panels(width, len(directions), height=2.1)
    for axes, direction in zip(panels, directions, strict=True):
        counts = {name: r.hubs[direction].counts for name, r in named if direction in r.hubs}
        for number, (name, counted) in enumerate(counts.items()):
            times = np.unique(counted)
            shares = [100 * float((counted >= n).mean()) for n in times]
            colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
            axes.step(times, shares, where="pre", label=name, color=colour, linestyle=dash)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=0)
        axes.set(yscale="log", title=_direction(direction))
        largest = max(counted.max() for counted in counts.values())
        _plain_ticks(axes.xaxis, [0, *(n for n in _ROUND if n <= largest)])
        _plain_ticks(axes.yaxis, [share for share in (0.001, 0.01, 0.1, 1, 10, 100) if share >= axes.get_ylim()[0]])
        axes.set_xlabel(f"n, of the {reports[0].hubs[direction].k} nearest")
    panels[0].set_ylabel("in at least n lists (%)")
    _legend(figure, *panels[0].get_legend_handles_labels())
    return figure


def _legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], *, title: str = "") -> None:
    """A legend below the panels: as many columns as the width allows, long labels on several lines."""
    width = 72 * figure.get_figwidth()
    room = max(8, int((width - _SAMPLE) / _CHARACTER))
    wrapped = [_lines(label, room) for label in labels]
    longest = max(len(line) for lines in wrapped for line in lines)
    columns = max(1, min(3, len(labels), int(width // (_SAMPLE + _CHARACTER * longest))))
    rows = -(-len(labels) // columns) * max(map(len, wrapped)) + bool(title)
    texts = ["\n".join(lines) for lines in wrapped]
    figure.legend(handles, texts, loc="outside lower center", ncols=columns, title=title or None, title_fontsize=7)
    figure.set_figheight(figure.get_figheight() + _ROW * rows)


def _lines(label: str, room: int) -> list[str]:
    """A label in lines that fit; the second system of a pair begins a line."""
    whole = [label] if len(label) <= room else re.split(r" (?=− )", label)
    return [line for part in whole for line in textwrap.wrap(part, room)] or [label]


def _plain_ticks(axis: XAxis | YAxis, places: Sequence[float]) -> None:
    """Puts ticks only at these positions, labelled with plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _direction(name: str) -> str:
    return DIRECTIONS.get(name, name).replace("->", "→")


# --- comparisons ------------------------------------------------------------------------------------------------


def _differences(comparison: Comparison, width: float) -> Figure:
    """A forest plot: one panel per view and direction, one row per measure in percent."""
    lines = [n for n in comparison.lines if n.measure.kind.percent and n.differences]
    keys = list(dict.fromkeys((n.view, n.direction) for n in lines))
    if not keys:
        raise LimnerError("the comparison has no measure in percent: compare reports with R@1 or mAP@R")
    n_lines = max(len([n for n in lines if (n.view, n.direction) == key]) for key in keys)
    figure, panels = _panels(width, len(keys), height=0.8 + 0.2 * n_lines, least=2.0)
    for axes, key in zip(panels, keys, strict=True):
        _forest(axes, comparison, [n for n in lines if (n.view, n.direction) == key])
        axes.set_title(heading(*key).replace("->", "→"))
    _pairs_legend(figure, comparison.systems)
    return figure


def _forest(axes: Axes, comparison: Comparison, lines: Sequence[Line]) -> None:
    pairs = list(itertools.combinations(range(len(comparison.systems)), 2))
    for row, line in enumerate(lines):
        for d in line.differences:
            number = pairs.index((d.a, d.b))
            colour, place = COLOURS[number % len(COLOURS)], row + 0.14 * number
            filled = colour if d.significant(comparison.level) else "white"
            axes.plot(100 * d.value, place, MARKERS[number % len(MARKERS)], color=colour, markerfacecolor=filled)
            if d.interval is not None:
                axes.plot(
                    [100 * e for e in (d.interval.low, d.interval.high)], [place] * 2, color=colour, lw=0.9, zorder=0
                )
    axes.axvline(0, color="0.4", linewidth=0.6)
    axes.set_yticks(range(len(lines)), [str(n.measure) for n in lines])
    axes.invert_yaxis()
    axes.set_xlabel("difference (points)")


def _pairs_legend(figure: Figure, systems: Sequence[str]) -> None:
    """A legend of the pairs of systems."""
    from matplotlib.lines import Line2D

    pairs = list(itertools.combinations(systems, 2))
    marks = [
        Line2D([], [], color=COLOURS[n % len(COLOURS)], marker=MARKERS[n % len(MARKERS)]) for n in range(len(pairs))
    ]
    _legend(figure, marks, [f"{a} − {b}" for a, b in pairs])
