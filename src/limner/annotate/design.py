"""Sampling designs: which pairs to label, with which probabilities, and how many labels an interval needs.

A study has one direction, some systems and some measures. Its units, each a pair or a query with the pairs to judge in
it (`limner.annotate.sample`), are what is drawn. They are divided into strata: top-ranked pairs are separate from
deeper ones, and both are divided by the judge's scores (`limner.annotate.allocation.strata_for` gives the number of
strata). A few strata are enough, since the estimate also uses the judge's scores within each stratum as far as they
help, and few strata cost little if the judge is useless. Half of a draw is allocated by size, half by what the measures
need from each stratum (Neyman allocation): at first according to the judge, with less weight the larger the share of
units drawn; in every further `plan` of the same study according to the answers so far. Measures that need all matches
of a query use a design of levels (`limner.annotate.levels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from limner.annotate import levels
from limner.annotate.allocation import (
    Planned,
    Z,
    ask,
    cut,
    enough,
    expected_half_width,
    human_labels,
    shares_of,
    spread_of,
    strata_for,
    unit_values,
)
from limner.annotate.pool import Lists, lists_of
from limner.annotate.sample import SamplingFrame, frame, keep_study, needed, unit_of
from limner.annotate.store import Store
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design, Unit, add_design, add_phase, designs, fill_units
from limner.annotate.trusted_labels import refuse_judge_labels
from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure, parse
from limner.stats.sampling import Drawn, draw

if TYPE_CHECKING:
    from limner.scores import Scores

SECONDS = 8.0
"""Default number of seconds that a person needs for a pair."""
STRATA = 4
PILOT = 1
"""Minimum number of units drawn from every stratum."""


class Judge(Protocol):
    """An automatic judge that predicts the probability of a match."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """One number from 0 to 1 for each (image, caption)."""


def plan(
    store: Store,
    collection: Collection,
    systems: Mapping[str, Lists],
    *,
    measures: str | Iterable[str | Measure] = ("R@1",),
    direction: str | None = None,
    half_width: float = 2.0,
    budget: int | None = None,
    judge: Judge | None = None,
    strata: int = STRATA,
    replication: int = 1,
    seconds: float = SECONDS,
    seed: int = 0,
    progress: ProgressLike = None,
) -> list[Planned]:
    """Plans a study, samples the pairs to label, and writes the tasks; called again, it adds a further draw.

    Args:
        store: The store; it must contain the collection (`add_collection`).
        collection: Its pairs are the given positives, which count as true.
        systems: By name: scores, or rankings by direction.
        measures: R@k, S@k, MRR@k and P@k; with any that needs all matches of a query (mAP@R, RP, Recall@k, nDCG, MAP)
            the study needs many more labels.
        direction: "i2t" or "t2i"; both by default.
        half_width: Target half-width of the widest interval, in points.
        budget: Maximum number of labels in this draw, over all directions.
        judge: Its predictions define the strata and improve the estimates; not used if a measure needs all matches of a
            query.
        strata: Number of strata.
        replication: Number of people who judge each pair.
        seconds: Seconds that a person needs for a pair.
        seed: Seed of the random draw.
        progress: Called with (directions done, directions in total).

    Returns:
        The plan for each direction.
    """
    progress = as_progress(progress)
    planned_measures = plannable(measures, half_width, budget)
    refuse_judge_labels(store)
    if not systems:
        raise LimnerError("no system to plan for: expected at least one")
    chosen = ("i2t", "t2i") if direction is None else (direction,)
    listed = progress.step(f"ranking with {len(systems)} systems", "systems", total=len(systems))
    keep_study(store, collection, systems, planned_measures, chosen, half_width, progress=listed)
    stage, plans = progress.step("drawing the sample", "directions", main=True), []
    for number, side in enumerate(chosen):
        stage(number, len(chosen))
        share = None if budget is None else budget // len(chosen)
        study = _study(store, collection, systems, planned_measures, side, judge, strata, half_width, share)
        planned = _extended(store, study, half_width, share, replication, seconds, seed)
        notes = (
            _partial_plan_note(collection, systems, planned_measures, side, half_width) if planned.unit == LEVEL else []
        )
        if judge is not None and planned.unit == LEVEL:
            notes.append("the judge is not used: a measure here needs all matches of a query")
        plans.append(replace(planned, notes=tuple(notes)))
    return plans


def plannable(
    measures: str | Iterable[str | Measure], half_width: float = 2.0, budget: int | None = None
) -> tuple[Measure, ...]:
    """The measures of a plan; refuses those that cannot be estimated, a half-width or a budget that is not above 0."""
    parsed = parse(measures)
    unit_of(parsed)
    if not half_width > 0 or (budget is not None and budget < 1):
        raise LimnerError(f"half-width {half_width:g}, budget {budget}: expected numbers above 0")
    return parsed


@dataclass(frozen=True)
class _Study:
    """A design with the requirements of its systems and measures.

    Args:
        design: The design.
        positives: The given positives, image -> caption.
        query_positives: The same, query -> candidate.
        domains: By system and measure: 1 for each unit that it depends on, else 0; and the weight of all these in it.
        spread: Standard deviation of the values in each stratum, as far as known.
        blind_spread: The same without the judge's predictions; None if there is no judge.
        costs: Number of labels per unit of each stratum.
        pilot: Units drawn from every stratum first.
        minimum: Minimum number of units from each stratum.
        answered: Whether any unit was labelled.
    """

    design: Design
    positives: Judgements
    query_positives: Judgements
    domains: Mapping[str, tuple[FloatArray, float]]
    spread: FloatArray
    blind_spread: FloatArray | None
    costs: FloatArray
    pilot: int
    minimum: FloatArray
    answered: bool

    @property
    def codes(self) -> IntArray:
        """The stratum of every unit."""
        return np.array([u.stratum for u in self.design.units], dtype=np.int64)


def _study(
    store: Store,
    collection: Collection,
    systems: Mapping[str, Lists],
    measures: tuple[Measure, ...],
    direction: str,
    judge: Judge | None,
    strata: int,
    half_width: float,
    budget: int | None,
) -> _Study:
    settings = {"measures": [str(m) for m in measures], "systems": sorted(systems), "strata": strata}
    settings["judge"] = None if judge is None else judge.name
    judgements = collection.judged("pairs", direction)
    if unit_of(measures) == LEVEL:
        return _of_levels(store, collection, systems, measures, direction, {**settings, "judge": None}, budget)
    depth = max(m.k or 1 for m in measures)
    lists = {name: lists_of(each, depth=depth)[direction] for name, each in systems.items()}
    design = _designed(store, direction, settings)
    if design is None:
        sampling_frame = frame(lists, judgements, measures)
        if not sampling_frame.units:
            raise LimnerError(f"{direction}: nothing to label; the given positives already decide every query")
        queries = len(next(iter(lists.values())).queries)
        units = _units(sampling_frame, direction, judge, _strata(sampling_frame, queries, strata, half_width, budget))
        design = _new(store, direction, unit_of(measures), settings, queries, units)
    domains = {f"{n} {m}": _domain(design, ranking, judgements, m) for n, ranking in lists.items() for m in measures}
    predictions = None if judge is None else np.array([u.score for u in design.units], dtype=np.float64)
    codes = np.array([u.stratum for u in design.units])
    size, labelled = np.bincount(codes), unit_values(store, design)
    spread = spread_of(codes, size, labelled, predictions)
    alone = None if judge is None else np.full(len(size), 0.5)
    costs = np.bincount(codes, weights=[len(u.candidates) for u in design.units]) / size
    minimum = np.full(len(size), float(PILOT))
    return _Study(
        design, collection.judgements, judgements, domains, spread, alone, costs, PILOT, minimum, bool(labelled)
    )


def _partial_plan_note(
    collection: Collection,
    systems: Mapping[str, Lists],
    measures: tuple[Measure, ...],
    direction: str,
    half_width: float,
) -> list[str]:
    """A note on the measures that do not need all matches of a query: the labels that they need alone."""
    part = tuple(m for m in measures if unit_of([m]) != LEVEL)
    if not part:
        return []
    judgements = collection.judged("pairs", direction)
    lists = {n: lists_of(each, depth=max(m.k or 1 for m in part))[direction] for n, each in systems.items()}
    sampling_frame = frame(lists, judgements, part)
    names, labels = ", ".join(map(str, part)), 0
    if sampling_frame.units:
        units = tuple(Unit(query, candidates, 0) for query, candidates in sampling_frame.units)
        design = Design(0, direction, unit_of(part), {}, len(judgements.queries), units, ())
        domains = {f"{n} {m}": _domain(design, ranking, judgements, m) for n, ranking in lists.items() for m in part}
        spread, costs = np.array([0.5]), np.array([np.mean([len(u.candidates) for u in units])])
        minimum = np.full(1, float(PILOT))
        study = _Study(
            design, collection.judgements, judgements, domains, spread, None, costs, PILOT, minimum, answered=False
        )
        labels = int(np.ceil(float(_units_needed(study, spread, half_width / 100) @ costs)))
    return [
        f"{names} alone would need about {labels:,} labels: plan this without the other measures, in a store of its own"
    ]


def _designed(store: Store, direction: str, settings: Mapping[str, object]) -> Design | None:
    """The last design of a direction with these settings, if there is one."""
    return next((d for d in designs(store)[::-1] if d.direction == direction and d.settings == settings), None)


def _new(
    store: Store, direction: str, kind: str, settings: Mapping[str, object], queries: int, units: list[Unit]
) -> Design:
    number = add_design(store, direction=direction, unit=kind, settings=settings, queries=queries, units=units)
    return next(d for d in designs(store) if d.id == number)


def _strata(sampling_frame: SamplingFrame, queries: int, strata: int, half_width: float, budget: int | None) -> int:
    """The number of strata for the number of units that the half-width needs or the budget allows."""
    each = float(np.mean([len(c) for _, c in sampling_frame.units]))
    free = (Z * 0.5 * min(len(sampling_frame.units) / queries, 1.0)) ** 2
    number = free / ((half_width / 100) ** 2 + free / len(sampling_frame.units))
    number = number if budget is None else min(number, budget / each)
    return strata_for(number, len(sampling_frame.units), strata)


def _of_levels(
    store: Store,
    collection: Collection,
    systems: Mapping[str, Lists],
    measures: tuple[Measure, ...],
    direction: str,
    settings: Mapping[str, object],
    budget: int | None,
) -> _Study:
    """The study of measures that need all matches of a query."""
    judgements = levels.with_positives(collection.judged("pairs", direction))
    sources = {n: _in_direction(each, direction) for n, each in systems.items()}
    design = _designed(store, direction, settings)
    if design is None:
        lists = {n: each.top(levels.depth_of(measures)) for n, each in sources.items()}
        upper = levels.levels(lists, judgements)
        levels.refuse_small(budget, levels.costs(upper, judgements), direction)
        design = _new(store, direction, LEVEL, settings, len(judgements.queries), levels.units_of(upper, judgements))
    codes = np.array([u.stratum for u in design.units])
    labelled = sorted(unit_values(store, design))
    labels = human_labels(store)
    steps = {
        n: levels.before_and_after(each, design, labelled, judgements, labels, measures) for n, each in sources.items()
    }
    strata = int(codes.max()) + 1
    spread = levels.spread([step for each in steps.values() for step in each.values()], codes, strata)
    domains = {f"{n} {m}": (np.ones(len(codes)), float(strata)) for n in sources for m in measures}
    n_queries = len(judgements.queries)
    upper = [
        [u.candidates for u in design.units[start : start + n_queries]]
        for start in range(0, (strata - 1) * n_queries, n_queries)
    ]
    costs = levels.costs(upper, judgements)
    pilot, minimum = levels.LEAST, levels.smallest(costs)
    return _Study(
        design, collection.judgements, judgements, domains, spread, None, costs, pilot, minimum, bool(labelled)
    )


def _in_direction(system: Lists, direction: str) -> Scores | Ranking:
    """Scores or lists of a system in one direction."""
    return system[direction] if isinstance(system, Mapping) else system if direction == "i2t" else system.T


def _units(sampling_frame: SamplingFrame, direction: str, judge: Judge | None, strata: int) -> list[Unit]:
    drafts = [Unit(query, candidates, 0) for query, candidates in sampling_frame.units]
    scores = None if judge is None else _unit_predictions(judge, drafts, direction)
    codes = cut(sampling_frame.deeper, scores, strata)
    predictions = [None] * len(drafts) if scores is None else scores.tolist()
    return [Unit(u.query, u.candidates, int(h), s) for u, h, s in zip(drafts, codes, predictions, strict=True)]


def _unit_predictions(judge: Judge, units: Sequence[Unit], direction: str) -> FloatArray:
    """The judge's prediction for each unit: the highest prediction of its pairs."""
    pairs = [pair for unit in units for pair in unit.pairs(direction)]
    predictions = np.asarray(judge.probabilities(pairs), dtype=np.float64)
    if predictions.shape != (len(pairs),) or not np.isfinite(predictions).all():
        raise LimnerError(f"judge {judge.name!r}: expected {len(pairs)} finite numbers, one for each pair")
    ends = np.cumsum([0, *(len(u.candidates) for u in units)])
    return np.asarray(np.maximum.reduceat(predictions, ends[:-1]))


def _domain(design: Design, ranking: Ranking, judgements: Judgements, measure: Measure) -> tuple[FloatArray, float]:
    """The units that this system's measure depends on, and their total weight in the measure."""
    counted = levels.has_positive(ranking.queries, judgements)
    queries = {ranking.queries[row] for row in np.flatnonzero(counted).tolist()}
    open_candidates = {query: each for query, each in needed(ranking, judgements, measure).items() if query in queries}
    inside = np.array(
        [not set(open_candidates.get(u.query, ())).isdisjoint(u.candidates) for u in design.units], dtype=np.float64
    )
    per_query = (measure.k or 1) if measure.kind.decided_by == "each" and design.unit == "pair" else 1
    return inside, float(inside.sum()) / (len(queries) * per_query)


def _extended(
    store: Store,
    study: _Study,
    half_width: float,
    budget: int | None,
    replication: int,
    seconds: float,
    seed: int,
) -> Planned:
    """Draws the missing number of units, and creates tasks for their pairs."""
    design, codes, before = study.design, study.codes, study.design.drawn
    size = np.bincount(codes)
    target = _units_needed(study, study.spread, half_width / 100)
    number = max(min(int(np.ceil(target.sum())), len(codes)) - len(before), 0)
    paid = number if budget is None else min(number, int(budget / study.costs.mean()))
    if design.unit == LEVEL:
        shares = _missing(target, np.bincount(codes[before], minlength=len(size)) if before else study.pilot)
    else:
        shares = shares_of(target, size, paid, answered=study.answered)
    seed_now = seed + len(design.shares)
    sample = draw(codes, number, shares=shares, pilot=0 if before else study.pilot, before=before, seed=seed_now)
    n_units = _affordable(study, sample, budget)
    design = _filled(store, study, sample.units[:n_units].tolist())
    pairs = zip(sample.units[:n_units].tolist(), sample.probabilities[:n_units].tolist(), strict=True)
    add_phase(store, design.id, pairs, shares=shares.tolist(), seed=seed_now)
    drawn = [*before, *sample.units[:n_units].tolist()]
    n_labels = ask(store, design, study.positives, drawn[len(before) :], replication, seed)
    counts = np.bincount(codes[drawn], minlength=len(size))
    expected = {
        n: 100 * expected_half_width(share, inside, study.spread, codes, counts)
        for n, (inside, share) in study.domains.items()
    }
    alone = _without_judge(study, counts, expected)
    hours, strata = n_labels * replication * seconds / 3600, tuple(size.tolist())
    return Planned(
        design.id,
        design.direction,
        design.unit,
        design.queries,
        len(codes),
        strata,
        len(drawn),
        n_labels,
        hours,
        expected,
        alone,
    )


def _missing(target: FloatArray, drawn: IntArray | int) -> FloatArray:
    """The share of each level in what is missing; in what is wanted if nothing is."""
    missing = np.maximum(target - drawn, 0)
    return np.asarray(missing / missing.sum() if missing.any() else target / target.sum())


def _without_judge(study: _Study, counts: IntArray, expected: Mapping[str, float]) -> int | None:
    """Units that the widest interval would need without prior knowledge; None without a judge."""
    if study.blind_spread is None or not counts.sum():
        return None
    name = max(expected, key=lambda each: expected[each])
    inside, share = study.domains[name]
    ratio = (
        100 * expected_half_width(share, inside, study.blind_spread, study.codes, counts) / max(expected[name], 1e-9)
    )
    return min(int(np.ceil(counts.sum() * ratio**2)), len(study.codes))


def _affordable(study: _Study, sample: Drawn, budget: int | None) -> int:
    """The number of drawn units within the budget."""
    if budget is None:
        return len(sample)
    spent = np.cumsum(study.costs[study.codes[sample.units]])
    return int(np.searchsorted(spent, budget * (1 + 1e-9), side="right"))


def _units_needed(study: _Study, spread: FloatArray, half: float) -> FloatArray:
    """Units per stratum needed for this half-width, for every measure of every system.

    For a domain with strata of weight W: `min(N, f W S / sqrt(c))` units from each (Cochran 1977, 5.5), with the
    smallest sufficient factor f; if a stratum also contains other units, proportionally more are drawn.
    """
    size = np.bincount(study.codes)
    root, largest = np.sqrt(np.maximum(study.costs, 1)), np.zeros(len(size))
    for inside, share in study.domains.values():
        relevant = np.bincount(study.codes, weights=inside, minlength=len(size)).astype(np.float64)
        if relevant.sum():
            part = enough(relevant, spread, relevant * spread / root, (half / (Z * share)) ** 2)
            largest = np.maximum(largest, np.divide(part * size, relevant, out=np.zeros_like(part), where=relevant > 0))
    return np.minimum(np.maximum(largest, study.minimum), size)


def _filled(store: Store, study: _Study, units: Sequence[int]) -> Design:
    """The design with the pairs of all drawn units; units of the last level contain the whole pool of a query."""
    design = study.design
    empty = {
        n: levels.all_candidates(study.query_positives, design.units[n].query)
        for n in units
        if not design.units[n].candidates
    }
    if not empty or design.unit != LEVEL:
        return design
    fill_units(store, design.id, empty)
    return next(d for d in designs(store) if d.id == design.id)
