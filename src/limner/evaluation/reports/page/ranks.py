"""Recall curves and the distribution of ranks, both from the rank of each query's first relevant candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from limner.core.arrays import FloatArray
from limner.core.errors import count
from limner.evaluation.reports.page import figures
from limner.evaluation.reports.page.words import direction_title, percent, slug, style_of
from limner.evaluation.reports.report import CURVE_DEPTH, Report, curve_depth, first_ranks, recall_curve
from limner.evaluation.results import Result

BANDS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
TABLE = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class RankPanel:
    """One figure with its title, its numbers as a table (with a header row), and a sentence."""

    title: str
    figure: Markup
    caption: str
    rows: Sequence[Sequence[str]]


def curve_panels(report: Report, other_reports: Sequence[Report] = ()) -> list[RankPanel]:
    """One panel per direction: a curve per view, and thin curves for the other systems under the first view."""
    ranks = first_ranks(report)
    return [
        _curve_panel(report, other_reports, d, [r for (_, at), r in ranks.items() if at == d])
        for d in _directions(ranks)
    ]


def _directions(ranks: dict[tuple[str, str], Result]) -> list[str]:
    return list(dict.fromkeys(direction for _, direction in ranks))


def _curve_panel(report: Report, other_reports: Sequence[Report], direction: str, ranks: list[Result]) -> RankPanel:
    limit = curve_depth(report, direction, ranks)
    recalls = [recall_curve(report, r, limit) for r in ranks]
    lines = [_line(report, curve) for curve in recalls]
    rivals = [
        _rival(report_of_rival, rival_style(n), ranks[0], limit) for n, report_of_rival in enumerate(other_reports)
    ]
    title = direction_title(direction)
    rows = [["k", *(line.name for line in lines)]]
    rows += [[str(k), *(_cell(curve[k]) for curve in recalls)] for k in TABLE if k <= limit]
    ends = ", ".join(f"{curve[limit].view} {percent(curve[limit].value)}" for curve in recalls)
    drawn = figures.curves(
        f"curve-{slug(direction)}",
        f"Recall curve, {title}",
        f"Share of queries with a right answer among the first k, for k from 1 to {limit}. At {limit}: {ends}.",
        [*(line for line in rivals if line is not None), *lines],
        limit=limit,
    )
    return RankPanel(title, drawn, f"Within the first {limit}: {ends}.", rows)


def _line(report: Report, curve: dict[int, Result]) -> figures.CurveLine:
    limit, view = len(curve), curve[1].view
    bands = [(k, curve[k].interval) for k in [*(k for k in BANDS if k < limit), limit]]
    intervals = [(k, i.low, i.high) for k, i in bands if i is not None]
    return figures.CurveLine(view, style_of(report, view), [(k, r.value) for k, r in curve.items()], intervals)


def rival_style(number: int) -> str:
    """The style of another system: thin and grey, with its own dash pattern."""
    return f"other o{number % 3}"


def _rival(rival: Report, style: str, ranks: Result, limit: int) -> figures.CurveLine | None:
    theirs = first_ranks(rival).get((ranks.view, ranks.direction))
    if theirs is None:
        return None
    return figures.CurveLine(rival.system, style, [(k, r.value) for k, r in recall_curve(rival, theirs, limit).items()])


def _cell(result: Result) -> str:
    show, interval = result.measure.show, result.interval
    return show(result.value) + (f" ({show(interval.low)} to {show(interval.high)})" if interval else "")


# --- the distribution of ranks ----------------------------------------------------------------------------------


def rank_edges(largest: float) -> list[int]:
    """Upper ends of the bins: 1, 2, 5, 10, 20, 50, ... up to the largest rank.

    >>> rank_edges(70)
    [1, 2, 5, 10, 20, 50, 100]
    """
    edges = [1]
    while edges[-1] < largest:
        edges.append(int(edges[-1] * (2.5 if str(edges[-1])[0] == "2" else 2)))
    return edges


def shares_by_bin(values: FloatArray, edges: Sequence[int]) -> list[float]:
    """The share of ranks in each bin; the last entry is the share of right answers never found."""
    bins = np.searchsorted(edges, values[np.isfinite(values)])
    counts = np.bincount(bins, minlength=len(edges))
    return [*(counts / len(values)), float(np.isinf(values).mean())]


def rank_panels(report: Report) -> list[RankPanel]:
    """One panel per direction: the distribution of the first ranks, a series per view."""
    ranks = first_ranks(report)
    return [_rank_panel(report, d, [r for (_, at), r in ranks.items() if at == d]) for d in _directions(ranks)]


def _rank_panel(report: Report, direction: str, ranks: list[Result]) -> RankPanel:
    values = np.concatenate([r.values for r in ranks])
    edges = rank_edges(float(values[np.isfinite(values)].max(initial=1)))
    has_never = bool(np.isinf(values).any())
    series = [
        figures.Bars(r.view, style_of(report, r.view), _shown_shares(shares_by_bin(r.values, edges), has_never))
        for r in ranks
    ]
    spans = [_span(low + 1, high) for low, high in zip([0, *edges], edges, strict=False)] + ["never"] * has_never
    title = direction_title(direction)
    sentence = " ".join(_sentence(r) for r in ranks)
    drawn = figures.bars(
        f"ranks-{slug(direction)}",
        f"Ranks of the first right answer, {title}",
        f"Share of queries by the rank of their first right answer. {sentence}",
        series,
        labels=[_brief(e) for e in edges] + ["never"] * has_never,
        tips=[f"rank {span}" if span != "never" else "never found" for span in spans],
        axis="rank of the first right answer, up to",
    )
    rows = [["rank", *(s.name for s in series)]]
    rows += [[span, *(percent(s.shares[at]) for s in series)] for at, span in enumerate(spans)]
    return RankPanel(title, drawn, sentence, rows)


def _shown_shares(shares: list[float], has_never: bool) -> list[float]:
    return shares if has_never else shares[:-1]


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _brief(edge: int) -> str:
    return f"{edge // 1000}k" if edge >= 1000 else str(edge)


def _sentence(ranks: Result) -> str:
    middle = float(np.median(ranks.values))
    if np.isinf(middle):
        share = percent(float(np.isfinite(ranks.values).mean()))
        return f"Under {ranks.view}, {share} of the queries find a right answer."
    far = int((ranks.values > CURVE_DEPTH).sum())
    beyond = f"; {count(far, 'query', 'queries')} beyond rank {CURVE_DEPTH}" if far else ""
    return f"Under {ranks.view}, half of the queries find a right answer by rank {ranks.measure.show(middle)}{beyond}."


def legend(report: Report, other_reports: Sequence[Report], *, kind: str) -> list[dict[str, Any]]:
    """Names and samples of the series in the figures above."""
    views = dict.fromkeys(view for view, _ in first_ranks(report))
    entries = [{"name": view, "swatch": figures.swatch(style_of(report, view), kind=kind)} for view in views]
    first = next(iter(views), "")
    for n, rival in enumerate(other_reports if views else ()):
        entries.append({"name": f"{rival.system} ({first})", "swatch": figures.swatch(rival_style(n), kind=kind)})
    return entries
