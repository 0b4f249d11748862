"""The state of a study: intervals so far, remaining work per stratum, and comparisons of systems.

The numbers come from `limner.annotate.estimate`, using the lists that a plan stores, or reports.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from limner.annotate.estimate import difference, estimates
from limner.annotate.estimate_notes import judged, people_agree
from limner.annotate.sample import Sample, kept_study, read_sample, stored_collection
from limner.annotate.store import Store
from limner.annotate.store.answers import answers, latest
from limner.annotate.store.designs import Design, designs
from limner.annotate.store.schema import design_phase, sa
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, counting
from limner.core.ranking import Ranking
from limner.evaluation.label_estimates import Estimated, EstimatedDifference
from limner.evaluation.measures import Measure
from limner.evaluation.tables import json_ready
from limner.stats import Estimate

# --- progress ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StratumProgress:
    """Progress of one stratum.

    Args:
        number: From 1.
        units: Number of units in it.
        drawn: Number of drawn units.
        answered: Number of units that count: they and all units drawn before them are fully answered.
    """

    number: int
    units: int
    drawn: int
    answered: int


@dataclass(frozen=True)
class StudyRow:
    """One measure of one system: the estimate, or the reason why there is none yet."""

    system: str
    measure: str
    found: Estimated | None
    missing: str = ""

    def narrow(self, half_width: float) -> bool:
        """Whether the interval is valid now and as narrow as the target (in points)."""
        estimate = None if self.found is None else self.found.estimate
        return estimate is not None and estimate.mode == "anytime" and 100 * estimate.half_width <= half_width


@dataclass(frozen=True)
class Study:
    """One direction of a study.

    Args:
        direction: "i2t" or "t2i".
        unit: "pair" or "query".
        half_width: The target half-width, in points.
        labels: Number of judged pairs used in the estimates.
        waiting: Number of drawn units that still need answers.
        rows: Every measure of every system.
        strata: Progress of each stratum.
        notes: Remarks on the estimates.
    """

    direction: str
    unit: str
    half_width: float
    labels: int
    waiting: int
    rows: tuple[StudyRow, ...]
    strata: tuple[StratumProgress, ...]
    notes: tuple[str, ...] = ()

    @property
    def narrow(self) -> bool:
        """Whether every interval is narrow enough and valid now: labelling can stop."""
        return bool(self.rows) and all(row.narrow(self.half_width) for row in self.rows)

    @property
    def anytime(self) -> bool:
        """Whether every interval is valid after each answer."""
        return all(row.found is None or row.found.estimate.mode == "anytime" for row in self.rows)

    def to_json(self) -> dict[str, object]:
        """The state as plain values."""
        rows = [
            {"system": row.system, "measure": row.measure,
             "estimate": None if row.found is None else row.found.to_json(),
             "missing": row.missing, "narrow": row.narrow(self.half_width)}
            for row in self.rows
        ]  # fmt: skip
        names = ("direction", "unit", "half_width", "labels", "waiting", "narrow")
        facts = {name: getattr(self, name) for name in names}
        state: dict[str, object] = json_ready({**facts, "rows": rows, "strata": [vars(each) for each in self.strata]})
        return {**state, "notes": list(self.notes)}

    @property
    def widest(self) -> float | None:
        """The widest half-width so far, in points."""
        widths = [100 * row.found.estimate.half_width for row in self.rows if row.found is not None]
        return max(widths, default=None)


def stamp(store: Store) -> tuple[int, ...]:
    """A cheap value that changes whenever `studies` may change: with answers, decisions about them, and draws."""
    with store.reading() as connection:
        drawn = connection.scalar(sa.select(sa.func.count()).select_from(design_phase)) or 0
    return (*latest(store), int(drawn))


def studies(store: Store, *, mode: str = "anytime", progress: ProgressLike = None) -> list[Study]:
    """The last design of each direction: intervals so far, and the remaining labels.

    Args:
        store: With designs (`limner.annotate.plan`).
        mode: "anytime", or "fixed" for intervals that are valid for one look. A measure without an anytime interval
            gets a fixed one, with a note.
        progress: Called with (finished, total) estimates of a direction.
    """
    last = {design.direction: design for design in designs(store)}
    collection = stored_collection(store) if last else None
    return [_study(store, collection, last[d], mode, progress) for d in ("i2t", "t2i") if collection and d in last]


def _study(store: Store, collection: Collection, design: Design, mode: str, progress: ProgressLike) -> Study:
    sample = read_sample(store, collection, design.direction)
    if sample is None:
        raise LimnerError(f"{design.direction}: no design in the store")
    measures = [Measure.parse(m) for m in design.settings["measures"]]
    inputs = kept_study(store, design)
    lists = {} if inputs is None else inputs.lists
    notes: list[str] = []
    rows = [
        _row(store, collection, design, name, ranking, m, mode, notes)
        for (name, ranking), m in counting(list(itertools.product(lists.items(), measures)), progress)
    ]
    if inputs is None:
        notes.append("the plan was made by an earlier version of limner: plan once more to see its intervals here")
    goal = 2.0 if inputs is None else inputs.half_width
    strata = _strata(sample)
    distinct_notes = tuple(dict.fromkeys(notes))
    return Study(design.direction, design.unit, goal, sample.labels, sample.open, tuple(rows), strata, distinct_notes)


def _strata(sample: Sample) -> tuple[StratumProgress, ...]:
    codes = np.array([u.stratum for u in sample.design.units])
    every, drawn, answered = (
        np.bincount(codes[np.array(numbers, dtype=np.int64)], minlength=int(codes.max()) + 1)
        for numbers in (range(len(codes)), sample.design.drawn, sample.units)
    )
    counts = zip(every.tolist(), drawn.tolist(), answered.tolist(), strict=True)
    return tuple(StratumProgress(n + 1, *each) for n, each in enumerate(counts))


def _row(
    store: Store,
    collection: Collection,
    design: Design,
    name: str,
    ranking: Ranking,
    measure: Measure,
    mode: str,
    notes: list[str],
) -> StudyRow:
    """One estimate, with a fixed interval if there is no other."""
    why = ""
    for each in dict.fromkeys((mode, "fixed")):
        try:
            estimated, messages = estimates(store, {design.direction: ranking}, collection, [measure], mode=each)
        except LimnerError as error:
            why = why or str(error)
            continue
        if each != mode:
            notes.append(
                f"{measure} has no {mode} interval ({why}): this fixed interval is valid for one look, at the end"
            )
        notes += [note for note in messages if not note.startswith("estimated (")]
        return StudyRow(name, str(measure), estimated[0])
    return StudyRow(name, str(measure), None, why)


# --- comparisons of systems -------------------------------------------------------------------------------------


def differences(
    store: Store,
    lists: Sequence[Mapping[str, Ranking]],
    collection: Collection | None = None,
    *,
    mode: str = "fixed",
    level: float = 0.95,
) -> list[EstimatedDifference]:
    """Differences of every pair of systems under complete judgements, for every measure of the store's designs.

    Args:
        store: With designs and answers.
        lists: Each system's rankings by direction, to the depth that the measures need.
        collection: The collection with the given pairs; by default as stored.
        mode: "fixed" or "anytime".
        level: Coverage of the intervals. A difference is marked if its interval excludes 0 at the level of a Bonferroni
            correction over all these comparisons.
    """
    truth = stored_collection(store) if collection is None else collection
    last = {design.direction: design for design in designs(store)}
    comparisons = [
        (direction, Measure.parse(m), a, b)
        for direction, design in last.items()
        if all(direction in each for each in lists)
        for m in design.settings["measures"]
        for a, b in itertools.combinations(range(len(lists)), 2)
    ]
    strict = 1 - (1 - level) / max(len(comparisons), 1)
    estimated = {
        (n, e.direction, e.measure): e
        for n, each in enumerate(lists)
        for e in estimates(store, {d: r for d, r in each.items() if d in last}, truth, mode=mode, level=level)[0]
    }
    pair_differences = []
    for direction, measure, a, b in comparisons:
        sides = lists[a][direction], lists[b][direction]
        plain, careful = (
            difference(store, *sides, truth, measure, direction=direction, mode=mode, level=at)
            for at in (level, strict)
        )
        estimated_pair = estimated[a, direction, measure], estimated[b, direction, measure]
        pair_differences.append(
            EstimatedDifference(direction, measure, a, b, estimated_pair, plain, _excludes_zero(careful))
        )
    return pair_differences


def _excludes_zero(estimate: Estimate) -> bool:
    return estimate.low > 0 or estimate.high < 0


# --- labels in a report -----------------------------------------------------------------------------------------


def described(store: Store, directions: Iterable[str], collection: Collection) -> dict[str, object]:
    """Number of labels, agreement of people and quality of judges, as plain values for a report's settings."""
    by_direction = {d: read_sample(store, collection, d) for d in directions}
    samples = {d: sample for d, sample in by_direction.items() if sample is not None}
    qualities = {d: judged(sample) for d, sample in samples.items()}
    agreed = people_agree(answers(store))
    return {
        "labels": {d: sample.labels for d, sample in samples.items()},
        "waiting": {d: sample.open for d, sample in samples.items()},
        "agreement": json_ready({name: getattr(agreed, name) for name in ("alpha", "low", "high", "pairs")}),
        "judges": {d: json_ready(asdict(each)) for d, each in qualities.items() if each is not None},
    }
