"""Slices: where is a system weak, or where does it lose against another one, beyond chance?

Every slice of the queries is compared with all other queries by a test that permutes whole images. Because many slices
are tested, p-values are adjusted for the false discovery rate: of the marked slices, at most 5% are false on average.
Slices overlap, and those of one field exclude each other, so the default is Benjamini & Yekutieli (2001), which is
valid for any dependence; Benjamini & Hochberg (1995) has more power, and is valid for independent or positively
dependent slices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.evaluation.measures import Measure
from limner.evaluation.query_groups import QueryGroup, default_kinds, query_groups, refuse_unknown
from limner.evaluation.results import LEAST, Evaluated, Result, comparable, main_result, paired, written
from limner.evaluation.tables import TableReport
from limner.stats import Interval, false_discovery, group_tests
from limner.stats.groups import GroupTest, smallest_needed

CONTROLS = {"by": "Benjamini & Yekutieli", "bh": "Benjamini & Hochberg"}
FEWEST, MOST_SAMPLES = 20_000, 100_000


@dataclass(frozen=True)
class Slice:
    """One slice of the queries on one measure, compared with all other queries.

    Args:
        by: The grouping: "length", "words", "objects" or a field.
        name: The value that its queries share.
        view: Judgements.
        direction: "i2t" or "t2i".
        measure: The measure.
        queries: Number of queries.
        value: The number of the slice; with two systems, the first minus the second.
        interval: Its 95% interval; None if there are too few queries.
        rest: The number of all other queries.
        difference_interval: 95% interval of the difference from the rest; None if there are too few queries.
        test: The permutation test.
        p_adjusted: Its p-value, adjusted over all slices.
        level: The significance level for `p_adjusted`.
    """

    by: str
    name: str
    view: str
    direction: str
    measure: Measure
    queries: int
    value: float
    interval: Interval | None
    rest: float
    difference_interval: Interval | None
    test: GroupTest
    p_adjusted: float
    level: float

    @property
    def difference(self) -> float:
        """The difference between the slice and the rest."""
        return self.value - self.rest

    @property
    def is_marked(self) -> bool:
        """Whether the slice differs from the rest."""
        return self.p_adjusted <= self.level

    @property
    def verdict(self) -> str:
        """The verdict, "weaker" or "stronger"; empty if the difference may be chance."""
        if not self.is_marked:
            return ""
        return "stronger" if self.difference * self.measure.kind.better > 0 else "weaker"

    def row(self) -> dict[str, object]:
        """A flat record."""
        ends = {"": self.interval, "difference_": self.difference_interval}
        return {
            "by": self.by, "slice": self.name, "view": self.view, "direction": self.direction,
            "measure": str(self.measure), "queries": self.queries, "value": self.value, "rest": self.rest,
            "difference": self.difference,
            **{f"{of}{end}": getattr(at, end) if at else None for of, at in ends.items() for end in ("low", "high")},
            "p": self.test.p_value, "p_adjusted": self.p_adjusted, "verdict": self.verdict,
        }  # fmt: skip


@dataclass(frozen=True)
class Slices(TableReport):
    """Slices of the queries, the weakest first. Prints as a table; saves as JSON, CSV, Markdown, LaTeX and text.

    Args:
        system: Name of the system.
        against: Name of the second system; "" if there is only one.
        collection: Name of the collection.
        slices: Every slice that was tested.
        level: The allowed false discovery rate.
        control: "by" or "bh".
        min_size: The minimum number of queries in a slice.
        notes: Notes for readers.
    """

    kind = "slices"
    system: str
    against: str
    collection: str
    slices: tuple[Slice, ...]
    level: float = 0.05
    control: str = "by"
    min_size: int = 30
    notes: tuple[str, ...] = ()

    @property
    def marked(self) -> tuple[Slice, ...]:
        """The slices that differ from the rest."""
        return tuple(each for each in self.slices if each.is_marked)

    @property
    def corrected(self) -> str:
        """How p-values are adjusted, as text for the table footer."""
        return (
            f"adjusted over {len(self.slices)} slices ({CONTROLS[self.control]}): of the marked ones, at most "
            f"{100 * self.level:g}% are false on average"
        )

    def rows(self) -> list[dict[str, object]]:
        """One flat record per slice, as in the CSV file."""
        return [each.row() for each in self.slices]

    def describe(self) -> dict[str, object]:
        """The slices as plain values."""
        fields = ("system", "against", "collection", "level", "control", "min_size")
        return {**{name: getattr(self, name) for name in fields}, "notes": list(self.notes), "slices": self.rows()}


def slices(
    report: Evaluated,
    collection: Collection,
    *,
    by: str | Sequence[str] = (),
    against: Evaluated | None = None,
    measure: str | Measure | None = None,
    view: str | None = None,
    min_size: int = 30,
    level: float = 0.05,
    control: str = "by",
    samples: int | None = None,
    seed: int = 0,
    progress: ProgressLike = None,
) -> Slices:
    """Compares slices of the queries with all other queries, with control of the false discovery rate.

    Args:
        report: A report from `limner.evaluate`.
        collection: The evaluated collection.
        by: One or several of "length" (of captions, in thirds), "words" (of captions), "objects" (annotated), or
            fields of the images or texts. Length, language, and objects or else words, where left out.
        against: A second report on the same queries: slices of the difference of the two systems, query by query.
        measure: The measure; by default the headline measure of each direction.
        view: The judgements; by default those of the first view.
        min_size: The minimum number of queries in a slice, and in the rest.
        level: The allowed false discovery rate.
        control: "by" (any dependence) or "bh" (independent or positively dependent slices).
        samples: The maximum number of permutations for a slice; by default enough for the number of slices.
        seed: The same seed gives the same p-values.
        progress: Called with (slices done, slices in total).

    >>> import limner
    >>> world = limner.load("scenes", images=60)
    >>> report = limner.evaluate(limner.train(world).scores(world), world, measures="R@1")
    >>> {each.by for each in slices(report, world, by="length").slices}
    {'length'}
    """
    progress = as_progress(progress)
    kinds = [by] if isinstance(by, str) else list(by) or default_kinds(collection)
    refuse_unknown(collection, kinds)
    if control not in CONTROLS:
        raise UnknownName("control of false discoveries", control, CONTROLS)
    if min_size < 2:
        raise LimnerError(f"min_size={min_size}: expected 2 or more queries")
    pairs = [(result, _result_of(result, against)) for result in _chosen(report, measure, view)]
    grouped = [
        (pair, query_groups(collection, pair[0].direction, pair[0].queries, kinds, min_size=min_size)) for pair in pairs
    ]
    total = sum(len(groups) for _, groups in grouped)
    if not total:
        raise LimnerError(f"no slice by {', '.join(kinds)} has {min_size} queries inside and outside: lower min_size")
    drawn = samples or min(max(FEWEST, math.ceil(2 / smallest_needed(total, level, method=control))), MOST_SAMPLES)
    tests = [
        _tested(pair, groups, drawn, seed, progress.part(before, total))
        for (pair, groups), before in zip(grouped, _starts(grouped), strict=True)
        if groups
    ]
    finished = _finished([entry for of_pair in tests for entry in of_pair], level, control)
    notes = (*_notes(total, drawn, level, control), *_without_interval(finished))
    return Slices(
        report.system, "" if against is None else against.system, report.collection, finished, level, control, min_size,
        notes,
    )  # fmt: skip


def _starts(grouped: Sequence[tuple[object, Sequence[QueryGroup]]]) -> list[int]:
    return [0, *np.cumsum([len(groups) for _, groups in grouped]).tolist()[:-1]]


def _chosen(report: Evaluated, measure: str | Measure | None, view: str | None) -> list[Result]:
    """One result per direction: the given measure, or the headline."""
    results = [r for r in report.results if r.direction in ("i2t", "t2i") and view in (None, r.view)]
    if measure is not None:
        name = written(measure, report.results)
        results = [r for r in results if str(r.measure) == name]
    if not results:
        available = "; ".join(" ".join(r.key) for r in report.results)
        raise LimnerError(f"no result of images and texts matches {measure or 'any measure'}, {view or 'any view'}; "
                          f"there are: {available}")  # fmt: skip
    first = {d: [r for r in results if r.direction == d] for d in dict.fromkeys(r.direction for r in results)}
    chosen = [
        main_result([r for r in of_direction if r.view == of_direction[0].view]) for of_direction in first.values()
    ]
    for result in chosen:
        _refuse_unsliced(result)
    return chosen


def _refuse_unsliced(result: Result) -> None:
    if result.statistic != "mean" or result.folds is not None or not comparable(result, result):
        raise LimnerError(
            f"{' '.join(result.key)}: slices need a mean of one finite value per query, not in folds; choose another "
            "measure or view, such as R@1"
        )


def _result_of(result: Result, against: Evaluated | None) -> Result | None:
    if against is None:
        return None
    matches = [each for each in against.results if each.key == result.key]
    if not matches:
        raise LimnerError(f"{against.system!r} has no {' '.join(result.key)}: evaluate both with the same measures")
    return paired(result, matches[0])


_Tested = tuple[Result, Result | None, QueryGroup, GroupTest]


def _tested(
    pair: tuple[Result, Result | None],
    groups: Sequence[QueryGroup],
    samples: int,
    seed: int,
    progress: Progress,
) -> list[_Tested]:
    result, second = pair
    values = result.values if second is None else result.values - second.values
    members = np.array([group.members for group in groups])
    tests = group_tests(
        values, members, clusters=result.clusters, samples=samples, seed=seed, progress=progress
    )  # fmt: skip
    return [(result, second, group, test) for group, test in zip(groups, tests, strict=True)]


def _finished(tested: Sequence[_Tested], level: float, control: str) -> tuple[Slice, ...]:
    adjusted = false_discovery([test.p_value for *_, test in tested], method=control)
    finished = [_slice(*each, float(p), level) for each, p in zip(tested, adjusted, strict=True)]
    return tuple(sorted(finished, key=lambda s: (not s.is_marked, s.difference * s.measure.kind.better)))


def _slice(
    result: Result, second: Result | None, group: QueryGroup, test: GroupTest, p_adjusted: float, level: float
) -> Slice:
    inside, outside = (_interval(result, second, rows) for rows in (group.members, ~group.members))
    return Slice(
        group.by, group.value, result.view, result.direction, result.measure, test.size, test.mean, inside, test.rest,
        _difference_interval(inside, outside, test), test, p_adjusted, level,
    )  # fmt: skip


def _interval(result: Result, second: Result | None, members: npt.NDArray[np.bool_]) -> Interval | None:
    rows = np.flatnonzero(members)
    some = result.restricted(rows)
    return some.interval if second is None else some.difference(second.restricted(rows))


def _difference_interval(inside: Interval | None, outside: Interval | None, test: GroupTest) -> Interval | None:
    """Interval of a difference from those of its parts (Zou & Donner 2008), which may be correlated."""
    if inside is None or outside is None:
        return None

    def reach(one: float, second: float) -> float:
        return math.sqrt(max(one**2 + second**2 - 2 * test.correlation * one * second, 0.0))

    low = test.difference - reach(test.mean - inside.low, outside.high - test.rest)
    high = test.difference + reach(inside.high - test.mean, test.rest - outside.low)
    return Interval(test.difference, low, high, inside.level, 0, "MOVER", inside.unit, inside.n + outside.n)


def _notes(total: int, samples: int, level: float, control: str) -> tuple[str, ...]:
    needed = smallest_needed(total, level, method=control)
    if 1 / (samples + 1) <= needed:
        return ()
    return (
        f"one slice alone among {total} needs p <= {needed:.1g}, and {samples:,} permutations give no less than "
        f"{1 / (samples + 1):.1g}: name fewer fields, or raise samples",
    )


def _without_interval(finished: Sequence[Slice]) -> tuple[str, ...]:
    short = next((each for each in finished if each.interval is None), None)
    return (
        () if short is None else (f"no interval of {short.measure}: slices of fewer than {LEAST} queries or clusters",)
    )


def of_direction(sliced: Slices) -> Iterator[tuple[str, str, str, list[Slice]]]:
    """The slices of each table, as (view, direction, measure, slices)."""
    for key in dict.fromkeys((s.view, s.direction, str(s.measure)) for s in sliced.slices):
        yield *key, [s for s in sliced.slices if (s.view, s.direction, str(s.measure)) == key]
