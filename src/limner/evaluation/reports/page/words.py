"""Texts of the page: directions, views, shares and counts."""

from __future__ import annotations

import math
import re

from limner.evaluation.measures import Measure
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
