"""Hubs: how often each candidate is returned, compared with chance, and the largest hubs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from limner.evaluation.reports.page import figures
from limner.evaluation.reports.page.gallery import Gallery, PageItem
from limner.evaluation.reports.page.ranks import rank_edges
from limner.evaluation.reports.page.words import direction_title, nouns, percent, slug
from limner.evaluation.reports.report import Hubs, Report

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
        _sentence(direction, hubs, queries),
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


def _sentence(direction: str, hubs: Hubs, queries: int) -> str:
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
    tips = [f"in {_span(low, high)} lists" for low, high in zip([-1, *edges], edges, strict=False)]
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


def _span(low: int, high: int) -> str:
    return f"{high:,}" if high - low == 1 else f"{low + 1:,}–{high:,}"


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
