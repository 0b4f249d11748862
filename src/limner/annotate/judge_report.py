"""A report of a judge: how far it agrees with people, in all, by class and by system, and whether it favours a system.

Labelled units are a designed sample, so every number is a stratified estimate over all units of the design, with an
interval. A judge's yes is a score of at least 0.5. Its excess for a system is the share of the system's undecided
units to which it says yes, less the share to which people say yes. If the excess of two systems differs, a comparison
by the judge alone is biased; estimates from people's labels are not, because they use the judge only as far as labels
confirm it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from limner.annotate.sample import Sample, kept_study, needed, read_sample
from limner.annotate.store import Store
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, judge_names, machine_answers
from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.ids import Ids
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure
from limner.evaluation.query_groups import default_kinds, query_groups
from limner.stats import Estimate, mean_interval, stratified

LEAST = 20
"""Labelled units without which nothing is reported."""
REVERSED = ", reversed"
"""The end of the name of a judge that was asked in reverse order."""


@dataclass(frozen=True)
class Rate:
    """An estimated share or difference, with its interval and the number of labelled units behind it."""

    value: float
    low: float
    high: float
    units: int

    @classmethod
    def of(cls, estimate: Estimate) -> Rate:
        """From an estimate."""
        return cls(estimate.value, estimate.low, estimate.high, estimate.n)

    def __str__(self) -> str:
        return f"{100 * self.value:.0f}% [{100 * self.low:.0f}, {100 * self.high:.0f}]"

    @property
    def points(self) -> str:
        """A difference in percentage points."""
        return f"{100 * self.value:+.1f} points [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


@dataclass(frozen=True)
class Favour:
    """How much more a judge exaggerates one system than another, in shares of the queries.

    Args:
        system: The system that it may favour.
        rival: The other one.
        excess: The judge's difference between the two less that of people; the interval is Bonferroni-corrected.
    """

    system: str
    rival: str
    excess: Rate

    @property
    def is_proven(self) -> bool:
        """Whether the interval excludes 0."""
        return self.excess.low > 0 or self.excess.high < 0

    def __str__(self) -> str:
        first, second = (self.system, self.rival) if self.excess.value > 0 else (self.rival, self.system)
        return f"it favours {first} over {second} ({self.system} less {self.rival}: {self.excess.points})"


@dataclass(frozen=True)
class OrderEffect:
    """How the answers to pairs change in reverse order.

    Args:
        pairs: Pairs that were asked in both orders.
        change: The mean score in reverse order less that in the usual order.
        flips: The share of pairs whose yes becomes no or the reverse.
    """

    pairs: int
    change: Rate
    flips: float

    def __str__(self) -> str:
        flips = f"{100 * self.flips:.0f}% of {self.pairs:,} pairs change between yes and no"
        return f"in reverse order: scores {self.change.points}, {flips}"


@dataclass(frozen=True)
class JudgeReport:
    """A judge beside people in one direction.

    Args:
        judge: Its name.
        direction: "i2t" or "t2i".
        agreement: The share of the design's units on which it agrees with people.
        by_class: The same by people's answer, and by group of queries.
        by_system: The same for the units of each system.
        excess: The judge's share of yes less that of people, for the units of each system.
        favours: Every pair of systems.
        order: The effect of reverse order; None if it was not asked.
    """

    judge: str
    direction: str
    agreement: Rate
    by_class: Mapping[str, Rate]
    by_system: Mapping[str, Rate]
    excess: Mapping[str, Rate]
    favours: tuple[Favour, ...]
    order: OrderEffect | None = None

    @property
    def warnings(self) -> list[str]:
        """One line for each pair of systems between which the judge's errors differ."""
        return [
            f"judge {self.judge!r} ({self.direction}): its errors depend on the system: {each}. Do not compare these "
            "systems by its answers alone; estimates from people's labels stay valid"
            for each in self.favours
            if each.is_proven
        ]

    def __str__(self) -> str:
        lines = [f"judge {self.judge!r} ({self.direction}): agrees with people on {self.agreement} of the units, from "
                 f"{self.agreement.units:,} labelled ones"]  # fmt: skip
        lines += [f"  {name}: {rate} ({rate.units:,} labelled)" for name, rate in self.by_class.items()]
        lines += [
            f"  system {name}: {rate}, its yes less people's {self.excess[name].points}"
            for name, rate in self.by_system.items()
        ]
        lines += [] if self.order is None else [f"  {self.order}"]
        return "\n".join([*lines, *(f"  warning: {line}" for line in self.warnings)])

    def to_json(self) -> dict[str, object]:
        """The report as plain values."""
        return {**asdict(self), "warnings": self.warnings}


def judge_reports(store: Store, collection: Collection, names: Iterable[str] | None = None) -> list[JudgeReport]:
    """Reports of judges whose answers are stored, in every direction that has labels.

    Args:
        store: With a design, people's answers and judges' answers.
        collection: The collection with the given pairs; its texts and fields define the classes.
        names: The judges; by default all that have answers, other than those in reverse order.
    """
    stored = [name for name in judge_names(store) if not name.endswith(REVERSED)]
    samples = [read_sample(store, collection, direction) for direction in ("i2t", "t2i")]
    reports = []
    for name in stored if names is None else names:
        scores, reverse = machine_answers(store, name), machine_answers(store, name + REVERSED)
        for sample in samples:
            if sample is None or sample.design.unit == LEVEL:
                continue
            study = kept_study(store, sample.design)
            comparison = _Comparison(sample, {} if study is None else study.lists, scores)
            if len(comparison.labelled) >= LEAST:
                reports.append(_report(name, comparison, collection, order_effect(scores, reverse)))
    return reports


def design_warnings(store: Store, sample: Sample) -> list[str]:
    """One line for each pair of a design's systems between which the errors of its judge differ."""
    design = sample.design
    name, study = design.settings.get("judge"), kept_study(store, design)
    if name is None or design.unit == LEVEL or study is None:
        return []
    scores = machine_answers(store, str(name)) or _unit_scores(sample)
    comparison = _Comparison(sample, study.lists, scores)
    if len(comparison.labelled) < LEAST:
        return []
    agreement = Rate.of(comparison.estimate(comparison.agrees, comparison.available))
    return JudgeReport(str(name), design.direction, agreement, {}, {}, {}, _favours(comparison)).warnings


def _unit_scores(sample: Sample) -> dict[Key, float]:
    """The scores that the design stores, if its units are pairs."""
    design = sample.design
    if design.unit != "pair":
        return {}
    return {unit.pairs(design.direction)[0]: unit.score for unit in design.units if unit.score is not None}


def order_effect(scores: Mapping[Key, float], reverse: Mapping[Key, float]) -> OrderEffect | None:
    """The effect of reverse order on the pairs that were asked in both orders; None for fewer than two."""
    answer_pairs = [(scores[pair], reverse[pair]) for pair in scores if pair in reverse]
    if len(answer_pairs) < 2:
        return None
    usual, backwards = np.array(answer_pairs).T
    interval = mean_interval(backwards - usual, bounds=(-1.0, 1.0))
    change = Rate(float((backwards - usual).mean()), interval.low, interval.high, len(usual))
    return OrderEffect(len(usual), change, float(((usual >= 0.5) != (backwards >= 0.5)).mean()))


def _report(name: str, comparison: _Comparison, collection: Collection, order: OrderEffect | None) -> JudgeReport:
    agrees, available = comparison.agrees, comparison.available
    by_system, excess = {}, {}
    for system, inside in comparison.domains.items():
        if comparison.count(inside) >= 2:
            by_system[system] = Rate.of(comparison.estimate(comparison.agreement_of(system), inside))
            excess[system] = Rate.of(comparison.estimate(comparison.excess_of(system), inside, (-1.0, 1.0)))
    return JudgeReport(
        name, comparison.direction, Rate.of(comparison.estimate(agrees, available)),
        _by_class(comparison, collection), by_system, excess, _favours(comparison), order,
    )  # fmt: skip


def _by_class(comparison: _Comparison, collection: Collection) -> dict[str, Rate]:
    """Agreement by people's answer and by group of queries, where there are enough labels."""
    rates = {}
    for answer, chosen in (("yes", comparison.people), ("no", ~comparison.people)):
        if comparison.count(chosen) >= 2:
            rates[f"people say {answer}"] = Rate.of(comparison.estimate_among(comparison.agrees, chosen))
    queries = Ids(list(dict.fromkeys(comparison.queries)))
    kinds = [kind for kind in default_kinds(collection) if kind != "words"]
    groups = query_groups(collection, comparison.direction, queries, kinds, min_size=LEAST)
    rows = np.array([queries.index(query) for query in comparison.queries])
    for group in groups:
        inside = comparison.available & group.members[rows]
        if comparison.count(inside) >= LEAST:
            rates[group.name] = Rate.of(comparison.estimate(comparison.agrees, inside))
    return rates


def _favours(comparison: _Comparison) -> tuple[Favour, ...]:
    """The difference between the errors for every two systems, at a Bonferroni-corrected level."""
    pairs = list(itertools.combinations(comparison.domains, 2))
    level = 1 - 0.05 / max(len(pairs), 1)
    favours = []
    for system, rival in pairs:
        inside = comparison.differ(system, rival)
        if comparison.count(inside) < 2:
            continue
        errors = comparison.excess_of(system) - comparison.excess_of(rival)
        estimate = comparison.estimate(errors, inside, (-1.0, 1.0), level)
        excess = Rate.of(estimate.scaled(float(inside.sum()) / comparison.sample.design.queries))
        favours.append(Favour(system, rival, excess))
    return tuple(favours)


@dataclass(frozen=True)
class _Comparison:
    """The answers of a judge and of people to the units of a design, as arrays over all units."""

    sample: Sample
    lists: Mapping[str, Ranking]
    scores: Mapping[Key, float]

    @property
    def direction(self) -> str:
        """The direction of the design."""
        return self.sample.design.direction

    @cached_property
    def queries(self) -> list[str]:
        """The query of each unit."""
        return [unit.query for unit in self.sample.design.units]

    @cached_property
    def codes(self) -> IntArray:
        """The stratum of each unit."""
        return np.array([unit.stratum for unit in self.sample.design.units], dtype=np.int64)

    @cached_property
    def available(self) -> BoolArray:
        """Whether the judge has answered all pairs of a unit."""
        units = self.sample.design.units
        return np.array([all(pair in self.scores for pair in unit.pairs(self.direction)) for unit in units])

    @cached_property
    def labelled(self) -> IntArray:
        """The units that people and the judge have answered."""
        units = np.array(self.sample.units, dtype=np.int64)
        return units[self.available[units]] if len(units) else units

    @cached_property
    def judge(self) -> BoolArray:
        """Whether the judge says yes to any pair of a unit."""
        return self._yes(self._candidates)[0]

    @cached_property
    def people(self) -> BoolArray:
        """Whether people say yes to any pair of a unit; False where there is no label."""
        return self._yes(self._candidates)[1]

    @property
    def agrees(self) -> FloatArray:
        """1 where both say the same."""
        return np.asarray(self.judge == self.people, dtype=np.float64)

    @cached_property
    def domains(self) -> dict[str, BoolArray]:
        """The units that each system's measures depend on, of those that the judge has answered."""
        sizes = {name: np.array([len(each) for each in parts]) for name, parts in self._parts.items()}
        return {name: (size > 0) & self.available for name, size in sizes.items()}

    def agreement_of(self, system: str) -> FloatArray:
        """1 where both say the same of a system's own candidates."""
        judge, people = self._yes(self._parts[system])
        return np.asarray(judge == people, dtype=np.float64)

    def excess_of(self, system: str) -> FloatArray:
        """The judge's yes less people's, of a system's own candidates; 0 for units of which it has none."""
        judge, people = self._yes(self._parts[system])
        return judge.astype(np.float64) - people

    def differ(self, system: str, rival: str) -> BoolArray:
        """The units of which two systems have different candidates."""
        pairs = zip(self._parts[system], self._parts[rival], strict=True)
        return np.array([set(first) != set(second) for first, second in pairs]) & self.available

    def count(self, inside: BoolArray) -> int:
        """The labelled units among these."""
        return int(inside[self.labelled].sum())

    def estimate(
        self, values: FloatArray, inside: BoolArray, bounds: tuple[float, float] = (0.0, 1.0), level: float = 0.95
    ) -> Estimate:
        """The mean over these units, from the labelled ones."""
        units = self.labelled[inside[self.labelled]]
        sizes = np.bincount(self.codes[inside], minlength=int(self.codes.max()) + 1)
        nonempty = np.flatnonzero(sizes)
        strata = np.searchsorted(nonempty, self.codes[units])
        return stratified(values[units], strata, sizes[nonempty], bounds=bounds, level=level)

    def estimate_among(self, values: FloatArray, chosen: BoolArray) -> Estimate:
        """The mean over units that are known for the labelled ones alone: their number in a stratum is estimated."""
        units = self.labelled[chosen[self.labelled]]
        strata = int(self.codes.max()) + 1
        chosen_units, labelled = (np.bincount(self.codes[each], minlength=strata) for each in (units, self.labelled))
        sizes = np.bincount(self.codes[self.available], minlength=strata) * chosen_units / np.maximum(labelled, 1)
        nonempty = np.flatnonzero(chosen_units)
        return stratified(values[units], np.searchsorted(nonempty, self.codes[units]), sizes[nonempty])

    @cached_property
    def _candidates(self) -> list[tuple[str, ...]]:
        return [unit.candidates for unit in self.sample.design.units]

    @cached_property
    def _parts(self) -> dict[str, list[tuple[str, ...]]]:
        """For each system, its candidates in each unit."""
        measures = [Measure.parse(text) for text in self.sample.design.settings["measures"]]
        deepest = max(measures, key=lambda measure: measure.k or 1)
        parts = {}
        for name, ranking in self.lists.items():
            needed_by_query = needed(ranking, self.sample.known, deepest)
            parts[name] = [
                tuple(c for c in unit.candidates if c in needed_by_query.get(unit.query, ()))
                for unit in self.sample.design.units
            ]
        return parts

    def _yes(self, candidates: Sequence[tuple[str, ...]]) -> tuple[BoolArray, BoolArray]:
        """Whether the judge, and whether people, say yes to any of these candidates of each unit."""
        pairs = [
            [(query, c) if self.direction == "i2t" else (c, query) for c in each]
            for query, each in zip(self.queries, candidates, strict=True)
        ]
        judge = [any(self.scores.get(pair, 0.0) >= 0.5 for pair in each) for each in pairs]
        people = [any(self.sample.said.get(pair, False) for pair in each) for each in pairs]
        return np.array(judge, dtype=bool), np.array(people, dtype=bool)
