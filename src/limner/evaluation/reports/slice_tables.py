"""The tables of slices."""

from __future__ import annotations

from collections.abc import Callable

from limner.evaluation.results import heading
from limner.evaluation.slices import Slice, Slices, of_direction
from limner.evaluation.tables import Document, Grid, shown_p
from limner.stats import Interval

HEAD = ("queries", "value", "rest", "difference", "p (adjusted)", "")


def slice_document(found: Slices) -> Document:
    """What slices show."""
    return Document(title(found), slice_grids(found), _notes(found))


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


def title(found: Slices) -> str:
    """A heading with the systems and the collection."""
    systems = f"{found.system} minus {found.against}" if found.against else found.system
    return f"{systems} on {found.collection}, slices of at least {found.min_size} queries"


def _notes(found: Slices) -> list[str]:
    counted = f"{len(found.found)} of {len(found.slices)} slices differ from the rest"
    return [f"{counted}; p-values {found.corrected}", *found.notes]
