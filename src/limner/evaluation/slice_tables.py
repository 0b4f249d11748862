"""Slices as plain text, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from limner.evaluation.plain import plain
from limner.evaluation.results import heading
from limner.evaluation.slices import Slice, Slices, of_direction
from limner.evaluation.tables import Grid, document, latex, markdown, plain_text, to_csv
from limner.stats import Interval

HEAD = ("queries", "value", "rest", "difference", "p (adjusted)", "")


def slice_grids(found: Slices) -> list[Grid]:
    """One grid per view, direction and measure."""
    grids = []
    for view, direction, measure, listed in of_direction(found):
        title = f"{measure}, {heading(view, direction)}"
        grids.append(Grid(title, ((title, *HEAD), *map(_row, listed))))
    return grids


def _row(each: Slice) -> tuple[str, ...]:
    show, change = each.measure.show, each.measure.show_change
    return (
        f"{each.by}: {each.name}", f"{each.queries:,}", _with(show(each.value), each.interval, show), show(each.rest),
        _with(change(each.difference), each.apart, show), shown_p(each.p_adjusted), each.verdict,
    )  # fmt: skip


def _with(value: str, interval: Interval | None, show: Callable[[float], str]) -> str:
    return value if interval is None else f"{value} [{show(interval.low)}, {show(interval.high)}]"


def shown_p(value: float) -> str:
    """A p-value for a table.

    >>> shown_p(0.00001), shown_p(0.0312)
    ('< 0.0001', '0.0312')
    """
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def title(found: Slices) -> str:
    """A heading with the systems and the collection."""
    systems = f"{found.system} minus {found.against}" if found.against else found.system
    return f"{systems} on {found.collection}, slices of at least {found.min_size} queries"


def _notes(found: Slices) -> list[str]:
    counted = f"{len(found.found)} of {len(found.slices)} slices differ from the rest"
    return [f"{counted}; p-values {found.corrected}", *found.notes]


def slices_text(found: Slices) -> str:
    """For a terminal."""
    return "\n\n".join([title(found), *map(plain_text, slice_grids(found)), *(f"note: {n}" for n in _notes(found))])


def slices_markdown(found: Slices) -> str:
    """As Markdown."""
    return document(f"# {title(found)}", slice_grids(found), _notes(found), markdown)


def slices_latex(found: Slices) -> str:
    """The slices as LaTeX tables (booktabs)."""
    return document(f"% {title(found)}", slice_grids(found), _notes(found), latex, note="% ")


def slices_csv(found: Slices) -> str:
    """The slices as CSV, a line per slice."""
    return to_csv(found.rows())


def slices_json(found: Slices) -> str:
    """The slices as JSON text."""
    return json.dumps({"limner": "slices", **plain(found.describe())}, allow_nan=False)
