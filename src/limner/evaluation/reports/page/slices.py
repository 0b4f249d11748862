"""Slices of the queries compared with the rest: where a system is weak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from limner.core.display_names import display_names
from limner.evaluation.reports.page.words import direction_title, plain
from limner.evaluation.slices import Slice, Slices, of_direction
from limner.evaluation.tables import shown_p
from limner.stats import Interval

SHOWN = 20
"""Slices of a table that are not marked; all marked ones are shown."""


@dataclass(frozen=True)
class SliceRow:
    """One slice: numbers, intervals, the bar of its difference from the rest, and the verdict."""

    direction: str
    by: str
    name: str
    queries: str
    value: str
    span: str
    rest: str
    difference: str
    apart: str
    bar: tuple[float, float, float] | None
    p: str
    verdict: str


@dataclass(frozen=True)
class SliceTable:
    """The slices of one direction."""

    title: str
    measure: str
    reach: str
    rows: Sequence[SliceRow]
    left_out: int


def slice_tables(sliced: Slices | None) -> list[SliceTable]:
    """One table per direction, the weakest slices first; only some of the unmarked slices are shown."""
    if sliced is None:
        return []
    tables = []
    for view, direction, measure, listed in of_direction(sliced):
        unmarked = [each for each in listed if not each.is_marked]
        listed_slices = [*(each for each in listed if each.is_marked), *unmarked[:SHOWN]]
        title = f"{direction_title(direction)}, {view}"
        reach = max((abs(end) for each in listed_slices for end in _change(each)), default=0.0)
        rows = [_row(each, reach) for each in listed_slices]
        tables.append(SliceTable(title, measure, f"{100 * reach:.0f}", rows, len(listed) - len(listed_slices)))
    return tables


def _row(each: Slice, reach: float) -> SliceRow:
    measure, show = each.measure, each.measure.show
    return SliceRow(
        each.direction, each.by, each.name, f"{each.queries:,}", plain(measure, each.value), _ends(each.interval, show),
        plain(measure, each.rest), measure.show_change(each.difference), _ends(each.difference_interval, show),
        _bar(each, reach), shown_p(each.p_adjusted), each.verdict,
    )  # fmt: skip


def _ends(interval: Interval | None, show: Callable[[float], str]) -> str:
    return "" if interval is None else f"{show(interval.low)} to {show(interval.high)}"


def _change(each: Slice) -> tuple[float, ...]:
    """The interval of the difference from the rest as text; empty if there is none."""
    return (
        (each.difference_interval.low, each.difference, each.difference_interval.high)
        if each.difference_interval and each.measure.kind.percent
        else ()
    )


def _bar(each: Slice, reach: float) -> tuple[float, float, float] | None:
    """The interval of the difference on a track whose ends are minus and plus `reach`."""
    if not (ends := _change(each)) or not reach:
        return None
    low, value, high = (50 + 50 * end / reach for end in ends)
    return low, value, high


def slices_finding(sliced: Slices | None) -> str:
    """A sentence for the first screen; empty if no slice is marked."""
    weak = [each for each in sliced.slices if each.verdict == "weaker"] if sliced else []
    if sliced is None or not weak:
        return ""
    first = weak[0]
    change = first.measure.show_change(first.difference) + (" points" if first.measure.kind.percent else "")
    weaker = "are weaker"
    if sliced.against:
        weaker += " for {} beside {}".format(*display_names([sliced.system, sliced.against]))
    return (
        f"{len(weak)} of {len(sliced.slices)} slices of the queries {weaker} than the rest, most of all “{first.by}: "
        f"{first.name}” ({first.measure} {change}, {direction_title(first.direction).lower()})."
    )
