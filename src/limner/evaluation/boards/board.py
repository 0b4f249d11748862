"""Leaderboards: systems ranked by each measure, with confidence sets for their ranks.

If the values of every query are known, differences are paired, and clustered by image if captions share one. If only
means and numbers of queries are known, the largest possible variance is assumed. If not even the number of queries is
known, no two systems can be distinguished, and the table says so (`limner.stats.rank_sets`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner import stats
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress
from limner.core.registry import Registry
from limner.evaluation.measures import Measure
from limner.evaluation.results import ALONE, Evaluated, Result, comparable, paired
from limner.evaluation.tables import FORMATS, TableReport, json_ready
from limner.stats.rank_sets import RankSets, rank_sets_of_means, rank_sets_of_sum

PAIRED, UNPAIRED, MEANS = "paired", "unpaired", "means only"
"""The data behind a table: values of every query, means and numbers of queries, or only means."""
POWER = 0.8
NO_QUERIES = (
    "the number of queries is not known, so no two systems can be told apart: give it (queries=N, or --queries N), or "
    "give reports with the values of every query"
)
CAUTIOUS = (
    "only means are known: the variance is the largest that values between 0 and 1 can have, and queries count as "
    "different ones for each system. Systems that seem equal here may differ when compared query by query"
)
NO_CLUSTERS = (
    "queries count as independent: if some belong together, such as five captions of one image, give the number of "
    "images (clusters=N, or --clusters N), or rank sets are too small"
)

BOARD_FORMATS: Registry[Callable[..., str | bytes]] = Registry(
    "leaderboard file ending", {**FORMATS, ".html": "limner.evaluation.boards.board_tables:render_board"}
)
"""File formats of a leaderboard, by file extension: `(board) -> str`. ".txt" is the output of `print`."""


@dataclass(frozen=True, eq=False)
class BoardEntry:
    """One measured value of a system, and where it comes from.

    Args:
        system: Name of the system.
        collection: The collection it was measured on.
        view: Protocol view or judgements; "" if there is none.
        direction: "i2t", "t2i", ...; "" if unknown.
        measure: The measure.
        value: The number; a share lies between 0 and 1.
        queries: Number of queries behind the mean; None if unknown.
        units: Number of independent units among them, such as images with several captions; None if unknown.
        result: The values of every query, if known.
    """

    system: str
    collection: str
    view: str
    direction: str
    measure: Measure
    value: float
    queries: int | None = None
    units: int | None = None
    result: Result | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the table that it belongs to."""
        return self.collection, self.view, self.direction, str(self.measure)


@dataclass(frozen=True)
class BoardRow:
    """One system in a table.

    Args:
        system: Its name.
        value: Its value.
        low: The lower end of its 95% interval; None without an interval.
        high: The upper end.
        queries: Number of queries it was measured on; None if unknown.
        rank: Its rank by value alone; ties share the best rank.
        lowest: The best rank it may have.
        highest: The worst rank it may have.
        detectable: The smallest detectable difference to the next system below; None if unknown.
        needed: Number of queries needed to detect the difference to the next system below; infinite for no difference.
    """

    system: str
    value: float
    low: float | None
    high: float | None
    queries: int | None
    rank: int
    lowest: int
    highest: int
    detectable: float | None = None
    needed: float | None = None


@dataclass(frozen=True)
class BoardTable:
    """All systems on one measure, the best first.

    Args:
        collection: The collection they were measured on.
        view: Protocol view or judgements.
        direction: A direction, or "".
        measure: The measure.
        known: `PAIRED`, `UNPAIRED` or `MEANS`.
        method: The method of comparison.
        rows: One per system, the best first.
        notes: Notes for readers.
    """

    collection: str
    view: str
    direction: str
    measure: Measure
    known: str
    method: str
    rows: tuple[BoardRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`coco-5k, pairs, t2i, R@1`."""
        return ", ".join(part for part in (self.collection, self.view, self.direction, str(self.measure)) if part)

    @property
    def first(self) -> tuple[str, ...]:
        """The systems that may be the best one."""
        return tuple(row.system for row in self.rows if row.lowest == 1)


@dataclass(frozen=True)
class Board(TableReport):
    """Leaderboards with confidence sets for ranks. Prints as tables.

    Args:
        tables: One for each collection, view, direction and measure.
        level: The probability that all rank sets of a table contain the true ranks.
        notes: Notes for readers.
    """

    kind = "board"
    formats = BOARD_FORMATS
    tables: tuple[BoardTable, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def table(self, measure: str, *, collection: str | None = None, direction: str | None = None) -> BoardTable:
        """The only table of a measure; if none or several match, the error lists them."""
        of_measure = [t for t in self.tables if str(t.measure) == str(measure)]
        matches = [t for t in of_measure if collection in (None, t.collection) and direction in (None, t.direction)]
        if len(matches) != 1:
            titles = "; ".join(t.title for t in (matches or self.tables))
            raise LimnerError(f"{len(matches)} tables match {measure}: there are {titles}")
        return matches[0]

    def rows(self) -> list[dict[str, object]]:
        """One flat record per table and system, as in the CSV file."""
        return [_record(table, row) for table in self.tables for row in table.rows]

    def describe(self) -> dict[str, object]:
        """The whole board as plain values."""
        return {
            "level": self.level,
            "tables": [
                {
                    "collection": t.collection, "view": t.view, "direction": t.direction, "measure": str(t.measure),
                    "known": t.known, "method": t.method, "notes": list(t.notes),
                    "rows": [_row_data(row) for row in t.rows],
                }
                for t in self.tables
            ],
            "notes": list(self.notes),
        }  # fmt: skip


def entries_of(report: Evaluated) -> list[BoardEntry]:
    """The numbers of a report, with the values of every query."""
    named = report.system, report.collection
    return [
        BoardEntry(*named, r.view, r.direction, r.measure, r.value, len(r.queries), None, r) for r in report.results
    ]


def ranked(
    entries: Iterable[BoardEntry],
    *,
    level: float = 0.95,
    samples: int = 10_000,
    seed: int = 0,
    notes: Sequence[str] = (),
    progress: ProgressLike = None,
) -> Board:
    """Ranks systems on every measure that two or more of them have.

    Args:
        entries: Values of systems.
        level: The probability that all rank sets of a table contain the true ranks.
        samples: Draws for the critical value of paired tables.
        seed: The same seed gives the same board.
        notes: Notes for readers of all tables.
        progress: Called with (tables done, tables in total).

    Returns:
        The board.

    >>> made = [BoardEntry(n, "toy", "", "", Measure("R", 1), v, 400) for n, v in (("a", 0.9), ("b", 0.5), ("c", 0.5))]
    >>> [(row.system, row.lowest, row.highest) for row in ranked(made).tables[0].rows]
    [('a', 1, 1), ('b', 2, 3), ('c', 2, 3)]
    """
    progress = as_progress(progress)
    if not 0 < level < 1:
        raise LimnerError(f"level: got {level!r}, expected a number between 0 and 1 such as 0.95")
    groups: dict[tuple[str, str, str, str], list[BoardEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.key, []).append(entry)
    several, tables = [group for group in groups.values() if len(group) > 1], []
    for number, group in enumerate(several):
        progress(number, len(several))
        tables.append(_table(group, level, samples, seed))
    lone = sum(len(group) == 1 for group in groups.values())
    if not tables:
        raise LimnerError(
            f"no measure has two systems ({lone} numbers have only one system): give two or more results on the same "
            "collection and measure"
        )
    lone_notes = [f"{lone} numbers that only one system has are left out"] if lone else []
    return Board(tuple(tables), level, (*notes, *lone_notes))


def _table(group: Sequence[BoardEntry], level: float, samples: int, seed: int) -> BoardTable:
    _refuse_twice(group)
    finite = [entry for entry in group if math.isfinite(entry.value)]
    if len(finite) < 2:
        return _without_sets(group, ("a value is infinite or missing, so systems cannot be ranked",))
    notes = (
        ()
        if len(finite) == len(group)
        else (f"{len(group) - len(finite)} systems without a finite value are left out",)
    )
    entries = sorted(finite, key=lambda entry: (-entry.value * entry.measure.kind.better, entry.system))
    sets, evidence, set_notes = _rank_sets(entries, level, samples, seed)
    first = entries[0]
    rows = tuple(_row(entries, at, sets, level) for at in range(len(entries)))
    method = sets.method if sets is not None else "none: the number of queries is not known"
    named = first.collection, first.view, first.direction, first.measure
    return BoardTable(*named, evidence, method, rows, (*notes, *set_notes))


def _refuse_twice(group: Sequence[BoardEntry]) -> None:
    names = [entry.system for entry in group]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LimnerError(
            f"{' '.join(filter(None, group[0].key))}: got {twice[0]!r} twice, expected each system once; give the "
            "reports different names (limner evaluate --name)"
        )


def _without_sets(group: Sequence[BoardEntry], notes: tuple[str, ...]) -> BoardTable:
    first, k = group[0], len(group)
    rows = tuple(BoardRow(e.system, e.value, None, None, e.queries, 1, 1, k) for e in group)
    return BoardTable(first.collection, first.view, first.direction, first.measure, MEANS, "none", rows, notes)


def _rank_sets(
    entries: Sequence[BoardEntry], level: float, samples: int, seed: int
) -> tuple[RankSets | None, str, tuple[str, ...]]:
    """The rank sets, the data behind them, and notes."""
    measure = entries[0].measure
    results = [entry.result for entry in entries if entry.result is not None]
    if measure.statistic != "mean" and measure.kind.composite is None:
        return None, MEANS, (f"{measure} is not a mean over queries: ranks have no confidence sets here",)
    if len(results) == len(entries) and (parts := _parts(results)) is not None:
        notes = (ALONE,) if results[0].direction == "run" and results[0].clusters is None else ()
        return rank_sets_of_sum(parts, level=level, samples=samples, seed=seed), PAIRED, notes
    bounds, units = measure.kind.bounds, [entry.units or entry.queries for entry in entries]
    if bounds is None or measure.kind.composite is not None:
        return None, MEANS, (f"{measure} has no bounds, so means alone do not tell systems apart",)
    if None in units:
        return None, MEANS, (NO_QUERIES,)
    alone = entries[0].direction != "i2t" and any(entry.units is None for entry in entries)
    cautions: tuple[str, ...] = (CAUTIOUS, NO_CLUSTERS) if alone else (CAUTIOUS,)
    values = np.array([entry.value for entry in entries]) * measure.kind.better
    ends = tuple(sorted(end * measure.kind.better for end in bounds))
    return (
        rank_sets_of_means(values, np.array(units, dtype=float), bounds=(ends[0], ends[1]), level=level),
        UNPAIRED,
        cautions,
    )


def _parts(results: Sequence[Result]) -> list[stats.Part] | None:
    """The values of all systems side by side; None if they cannot be paired."""
    first = results[0]
    aligned = [first, *(_aligned(first, result) for result in results[1:])]
    every = [result for result in aligned if result is not None]
    if len(every) < len(results):
        return None
    composite = first.measure.kind.composite
    if composite is None:
        return [_part(every)] if all(comparable(first, result) for result in every) else None
    return [_part([result.parts[at] for result in every], composite.weight) for at in range(len(first.parts))] or None


def _aligned(first: Result, result: Result) -> Result | None:
    """The other result, reordered to the queries of the first; None if it has different queries."""
    try:
        return paired(first, result)
    except LimnerError:
        return None


def _part(results: Sequence[Result], weight: float = 1.0) -> stats.Part:
    better = results[0].measure.kind.better
    values = np.column_stack([better * result.contributions for result in results])
    clusters = results[0].clusters
    return stats.Part(values, np.arange(len(values)) if clusters is None else clusters, weight)


def _row(entries: Sequence[BoardEntry], at: int, sets: RankSets | None, level: float) -> BoardRow:
    entry = entries[at]
    better = entry.measure.kind.better
    rank = 1 + sum(better * rival.value > better * entry.value for rival in entries)
    low, high = _ends(entry)
    lowest, highest = (1, len(entries)) if sets is None else (int(sets.lowest[at]), int(sets.highest[at]))
    row = BoardRow(entry.system, entry.value, low, high, entry.queries, rank, lowest, highest)
    if at + 1 == len(entries):
        return row
    detectable, needed = _against(entries, at, sets, level)
    return replace(row, detectable=detectable, needed=needed)


def _against(
    entries: Sequence[BoardEntry], at: int, sets: RankSets | None, level: float
) -> tuple[float | None, float | None]:
    """The detectable difference between a system and the next one, and the queries needed to detect the actual one."""
    one, next_ = entries[at], entries[at + 1]
    difference, bounds = abs(one.value - next_.value), one.measure.kind.bounds
    if sets is not None:
        error = float(sets.error[at, at + 1])
        needed = stats.queries_needed(difference, error, one.queries or 0, sets.critical, power=POWER)
        return sets.detectable(at, at + 1, power=POWER), needed
    if bounds is None or one.measure.statistic != "mean" or one.measure.kind.composite is not None:
        return None, None
    width = bounds[1] - bounds[0]
    shares = [(entry.value - bounds[0]) / width for entry in (one, next_)]
    error = math.sqrt(sum(max(p * (1 - p), 0.0) for p in shares)) * width
    return None, stats.queries_needed(difference, error, 1, _bonferroni(len(entries), level), power=POWER)


def _bonferroni(systems: int, level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - (1 - level) / (systems * (systems - 1))))


def _ends(entry: BoardEntry) -> tuple[float | None, float | None]:
    """The 95% interval of a number: from its queries, or Wilson's for the largest possible variance."""
    if entry.result is not None:
        interval = entry.result.interval
        return (None, None) if interval is None else (interval.low, interval.high)
    bounds, units = entry.measure.kind.bounds, entry.units or entry.queries
    if bounds is None or units is None or entry.measure.statistic != "mean" or entry.measure.kind.composite:
        return None, None
    width, z = bounds[1] - bounds[0], 1.959963984540054
    p = (entry.value - bounds[0]) / width
    middle, half = p + z * z / (2 * units), z * math.sqrt(p * (1 - p) / units + (z / (2 * units)) ** 2)
    ends = ((middle - half) / (1 + z * z / units), (middle + half) / (1 + z * z / units))
    return bounds[0] + width * ends[0], bounds[0] + width * ends[1]


def _record(table: BoardTable, row: BoardRow) -> dict[str, object]:
    named = {"collection": table.collection, "view": table.view, "direction": table.direction}
    return {**named, "measure": str(table.measure), **_row_data(row), "known": table.known, "method": table.method}


def _row_data(row: BoardRow) -> dict[str, object]:
    return {
        "system": row.system, "value": json_ready(row.value), "low": row.low, "high": row.high, "queries": row.queries,
        "rank": row.rank, "lowest_rank": row.lowest, "highest_rank": row.highest, "detectable": row.detectable,
        "queries_needed": None if row.needed is None or math.isinf(row.needed) else math.ceil(row.needed),
    }  # fmt: skip
