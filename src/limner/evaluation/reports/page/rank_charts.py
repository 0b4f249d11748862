"""Charts of ranks: recall curves, the rank of the first relevant candidate, and hubs beside chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from limner.core.arrays import FloatArray
from limner.core.errors import count
from limner.core.options import OptionValues
from limner.evaluation.reports.page import figures
from limner.evaluation.reports.page.gallery import Gallery, PageItem
from limner.evaluation.reports.page.words import direction_title, nouns, percent, slug, style_of
from limner.evaluation.reports.report import CURVE_DEPTH, Hubs, Report, curve_depth, first_ranks, recall_curve
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


def legend(report: Report, other_reports: Sequence[Report], *, kind: str) -> list[OptionValues]:
    """Names and samples of the series in the figures above."""
    views = dict.fromkeys(view for view, _ in first_ranks(report))
    entries = [{"name": view, "swatch": figures.swatch(style_of(report, view), kind=kind)} for view in views]
    first = next(iter(views), "")
    for n, rival in enumerate(other_reports if views else ()):
        entries.append({"name": f"{rival.system} ({first})", "swatch": figures.swatch(rival_style(n), kind=kind)})
    return entries


STATISTICS = (
    (
        "skewness",
        "Skewness",
        "third standardised moment of the counts: 0 if they are even, above 1 if there are clear hubs",
    ),
    ("largest", "Greatest hub", "how many queries have it among their nearest"),
    ("robin_hood", "Robin Hood", "share of all places that would have to move for equal counts"),
    ("gini", "Gini", "0 where all candidates are found equally often, towards 1 if one takes all"),
)


@dataclass(frozen=True)
class HubPanel:
    """The hub statistics of one direction."""

    title: str
    sentence: str
    queries: str
    histogram: Markup
    lorenz: Markup
    statistics: Sequence[tuple[str, str, str]]
    shares: Sequence[tuple[str, str, str]]
    greatest: Sequence[tuple[PageItem, str]]
    finding: str


def hub_panels(report: Report, gallery: Gallery, *, greatest: int = 5) -> list[HubPanel]:
    """One panel per direction with stored lists."""
    return [
        _panel(report, direction, hubs, gallery, greatest)
        for direction, hubs in report.hubs.items()
        if hubs.counts.sum()
    ]


def _panel(report: Report, direction: str, hubs: Hubs, gallery: Gallery, greatest: int) -> HubPanel:
    queries = len(report.top[direction].queries)
    return HubPanel(
        direction_title(direction),
        _places_sentence(direction, hubs, queries),
        nouns(direction)[1],
        _histogram(direction, hubs, queries),
        _lorenz(direction, hubs),
        [(title, _figure(getattr(hubs, name)), meaning) for name, title, meaning in STATISTICS],
        _shares(hubs, queries),
        [
            (gallery.candidate(direction, c), f"{n:,} of {queries:,}")
            for c, n in hubs.greatest(greatest)
            if n > hubs.counts.mean()
        ],
        _hub_sentence(direction, hubs, queries),
    )


def _places_sentence(direction: str, hubs: Hubs, queries: int) -> str:
    _, query_nouns, _, candidate_nouns = nouns(direction)
    total, average = hubs.counts.sum(), hubs.counts.mean()
    places = f"{total:,} places for {len(hubs.counts):,} {candidate_nouns}, {average:.1f} each on average"
    nearest = f"The {hubs.k} nearest {candidate_nouns} of {queries:,} {query_nouns} are {places}"
    return f"{nearest}. The largest hub is among the nearest of {hubs.largest:,} {query_nouns}."


def _hub_sentence(direction: str, hubs: Hubs, queries: int) -> str:
    _, query_nouns, one, candidate_nouns = nouns(direction)
    lost = hubs.shares()["0"]
    unreturned = (
        f"{percent(lost)} of {candidate_nouns} are never among them"
        if lost
        else f"every {one} is among them at least once"
    )
    largest = f"One {one} is among the {hubs.k} nearest of {hubs.largest:,} of {queries:,} {query_nouns}"
    return f"{largest} (the average is {hubs.counts.mean():.1f}); {unreturned}."


def _figure(value: float | int) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def chance(counts: Sequence[int], hubs: Hubs, queries: int) -> list[float]:
    """The probability of at most each of these counts if the k nearest were drawn at random.

    This is the distribution function of Binomial(queries, k / candidates).
    """
    from scipy.special import bdtr

    share = min(1.0, hubs.k / len(hubs.counts))
    return [float(bdtr(min(count, queries), queries, share)) for count in counts]


def _histogram(direction: str, hubs: Hubs, queries: int) -> Markup:
    edges = [0, *rank_edges(hubs.largest)]
    observed = np.bincount(np.searchsorted(edges, hubs.counts), minlength=len(edges)) / len(hubs.counts)
    expected = np.diff([0.0, *chance(edges, hubs, queries)])
    tips = [f"in {_span(low + 1, high)} lists" for low, high in zip([-1, *edges], edges, strict=False)]
    first = int(np.argmax((observed >= 0.001) | (expected >= 0.001)))  # only bins with something to show
    candidate_nouns = nouns(direction)[3]
    return figures.bars(
        f"hubs-{slug(direction)}",
        f"How often {candidate_nouns} are returned, {direction_title(direction)}",
        f"Share of {candidate_nouns} by how many queries have them among their {hubs.k} nearest; lines show chance.",
        [figures.Bars("observed", "hub", [float(s) for s in observed[first:]])],
        labels=[f"{e // 1000}k" if e >= 1000 else str(e) for e in edges[first:]],
        tips=tips[first:],
        axis="lists that a candidate is in, up to",
        reference=[float(e) for e in expected[first:]],
    )


def lorenz_points(hubs: Hubs, n_points: int = 160) -> list[tuple[float, float]]:
    """Points of the Lorenz curve: (share of candidates, their share of all list entries), the least retrieved first.

    >>> from limner.core.ids import Ids
    >>> lorenz_points(Hubs(Ids(["a", "b"]), np.array([3, 1]), 1))
    [(0.0, 0.0), (0.5, 0.25), (1.0, 1.0)]
    """
    cumulative = np.concatenate([[0.0], np.cumsum(np.sort(hubs.counts))]) / hubs.counts.sum()
    at = np.unique(np.linspace(0, len(hubs.counts), min(n_points, len(cumulative))).round().astype(int))
    return [(float(i / len(hubs.counts)), float(cumulative[i])) for i in at]


def _lorenz(direction: str, hubs: Hubs) -> Markup:
    candidate_nouns = nouns(direction)[3]
    tenth = sum(sorted(hubs.counts.tolist())[-max(1, len(hubs.counts) // 10) :]) / hubs.counts.sum()
    return figures.lorenz(
        f"lorenz-{slug(direction)}",
        f"Lorenz curve, {direction_title(direction)}",
        f"The most found tenth of {candidate_nouns} holds {percent(tenth)} of all places. A straight curve would mean "
        "that all are found equally often.",
        lorenz_points(hubs),
    )


def _shares(hubs: Hubs, queries: int) -> list[tuple[str, str, str]]:
    """Share of candidates found never, once, and at least 2, 5 and 10 times, compared with chance."""
    up_to = dict(zip((0, 1, 4, 9), chance([0, 1, 4, 9], hubs, queries), strict=True))
    expected = {"0": up_to[0], "1": up_to[1] - up_to[0], ">=2": 1 - up_to[1], ">=5": 1 - up_to[4], ">=10": 1 - up_to[9]}
    words = {"0": "never", "1": "once", ">=2": "2 or more", ">=5": "5 or more", ">=10": "10 or more"}
    return [(words[name], percent(share), percent(expected[name])) for name, share in hubs.shares().items()]
