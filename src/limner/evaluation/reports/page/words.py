"""Texts of the page: directions, views, shares, counts, and the results of a random ranking."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from limner.core.arrays import FloatArray
from limner.evaluation.measures import Measure
from limner.evaluation.protocols import PROTOCOLS
from limner.evaluation.reports.page.truth import Truth
from limner.evaluation.reports.report import Report
from limner.evaluation.results import DIRECTIONS, Result

NOUNS = {"i2t": ("image", "images", "caption", "captions"), "t2i": ("caption", "captions", "image", "images")}
STYLES = 4
"""Number of styles; a fifth view reuses the first."""


def nouns(direction: str) -> tuple[str, str, str, str]:
    """The nouns for query and candidate of a direction, each in singular and plural."""
    return NOUNS.get(direction, ("query", "queries", "candidate", "candidates"))


def direction_title(direction: str) -> str:
    """`Image → text`."""
    return DIRECTIONS.get(direction, direction).replace("->", "→").capitalize()


def percent(share: float) -> str:
    """A share in percent, with a percent sign."""
    return f"{100 * share:.1f}%"


def number(measure: Measure, value: float) -> str:
    """The value of a measure for running text: shares in percent, infinite and undefined values as a symbol."""
    return plain(measure, value) + ("%" if measure.kind.percent and math.isfinite(value) else "")


def plain(measure: Measure, value: float) -> str:
    """The value of a measure for a table."""
    return measure.show(value) if math.isfinite(value) else "∞" if math.isinf(value) else "–"


def span(result: Result) -> str:
    """The interval as `33.0 to 51.0`; empty if there is none."""
    interval, show = result.interval, result.measure.show
    return f"{show(interval.low)} to {show(interval.high)}" if interval else ""


def slug(text: str) -> str:
    """A text as a URL fragment."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def views_of(report: Report) -> list[str]:
    """The views of a report, in order."""
    return list(dict.fromkeys(r.view for r in report.results))


def style_of(report: Report, view: str) -> str:
    """The style of a view, the same in every figure."""
    return f"s{views_of(report).index(view) % STYLES}"


def range_text(result: Result) -> str:
    """The lowest and the highest value, whatever the unjudged pairs are; empty if all were judged."""
    return " to ".join(plain(result.measure, end) for end in result.possible or ())


WORDS = {
    "pairs": "only the caption written for the image counts as relevant",
    "complete": "every caption that truly describes the image counts as relevant",
    "crowd": "pairs that a crowd called right count as relevant",
    "expert": "pairs are graded by experts",
    "cxc": "pairs that people rated 3 of 5 or higher count as relevant",
    "eccv": "pairs that people verified in ECCV Caption count as relevant",
    "answers": "pairs that people called right in this study count as relevant",
}
"""What counts as relevant, by name of the judgements."""


def explained(report: Report) -> list[tuple[str, str, str]]:
    """(view, style, what counts as relevant), in the order of the report."""
    return [(view, style_of(report, view), view_words(view)) for view in views_of(report)]


def view_words(view: str) -> str:
    """A view as text.

    >>> view_words("pairs")
    'only the caption written for the image counts as relevant'
    >>> view_words("mine")
    "what the judgements 'mine' call relevant counts"
    """
    if view in WORDS:
        return WORDS[view]
    descriptions = [each.about for each in PROTOCOLS.values() if view in [named_view.name for named_view in each.views]]
    return descriptions[0] if descriptions else f"what the judgements {view!r} call relevant counts"


def chance(report: Report, truth: Truth, result: Result) -> float | None:
    """The share of queries for which a random ranking has a right answer among the first k; None if unknown."""
    top = report.top.get(result.direction)
    special = f"{result.view} {result.direction}" in report.settings.get("judged_pool", {})
    if not result.measure.kind.hit or top is None or not top.n_candidates or special or result.folds is not None:
        return None
    name = truth.judgements_of(result.view)
    judged = None if name is None else truth.judged(name, result.direction)
    if judged is None:
        return None
    pairs = judged.relevant
    rows = [pairs.queries.index(query) for query in result.queries if query in pairs.queries]
    counts = [int(pairs.indptr[row + 1] - pairs.indptr[row]) for row in rows]
    return float(hit_chances(counts, top.n_candidates, result.measure.k or 1).mean()) if counts else None


def constant(report: Report, truth: Truth, result: Result) -> float | None:
    """R@1 of the best constant answer for all queries; None if unknown, or for other measures."""
    name = truth.judgements_of(result.view)
    judged = None if name is None or chance(report, truth, result) is None else truth.judged(name, result.direction)
    if judged is None or result.measure.k != 1:
        return None
    pairs, query_ids = judged.relevant, set(result.queries)
    counted = np.zeros(len(pairs.candidates), dtype=np.int64)
    for row, query in enumerate(pairs.queries):
        if query in query_ids:
            counted[pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]] += 1
    return float(counted.max()) / len(result.queries) if len(counted) and len(result.queries) else None


def hit_chances(relevant: Sequence[int], candidates: int, k: int) -> FloatArray:
    """For each query, the probability that a random order of the candidates has a relevant one among the first k.

    >>> hit_chances([1, 2], 10, 1).round(3).tolist()
    [0.1, 0.2]
    """
    wrong = candidates - np.asarray(relevant, dtype=np.float64)
    missed = np.ones(len(wrong))
    for place in range(min(k, candidates)):
        missed *= np.clip(wrong - place, 0, None) / (candidates - place)
    return np.asarray(1 - missed)
