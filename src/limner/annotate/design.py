"""Sampling designs: which pairs to label, with which probabilities, and how many labels an interval needs.

A study has one direction, some systems and some measures. Its units (`limner.annotate.sampling_frames`) are divided
into strata: top-ranked pairs are separate from deeper ones, and both are divided by the judge's scores
(`limner.annotate.allocation.strata_for` gives the number of strata). A few strata are enough, since the estimate also
uses the judge's scores within each stratum as far as they help, and few strata cost little if the judge is useless.
Half of a draw is allocated by size, half by what the measures need from each stratum (Neyman allocation): at first
according to the judge, with less weight the larger the share of units drawn; in every further `plan` of the same study
according to the answers so far. Measures that need all matches of a query use a design of levels
(`limner.annotate.levels`).
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
from limner.annotate.plan_inputs import keep_study
from limner.annotate.pool import Lists, lists_of
from limner.annotate.sampling_frames import SamplingFrame, frame, needed, unit_of
from limner.annotate.store import Store
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design, Unit, add_design, add_phase, designs, fill_units
from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure, parse
from limner.stats import Drawn, draw

if TYPE_CHECKING:
    from limner.scores import Scores

SECONDS = 8.0
"""Default number of seconds that a person needs for a pair."""
STRATA = 4
PILOT = 1
"""Minimum number of units drawn from every stratum."""


class Judge(Protocol):
    """An automatic judge that predicts the probability of a match."""

    name: str

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
    wanted = plannable(measures, half_width, budget)
    if not systems:
        raise LimnerError("no system to plan for: expected at least one")
    chosen = ("i2t", "t2i") if direction is None else (direction,)
    listed = progress.step(f"ranking with {len(systems)} systems", "systems", total=len(systems))
    keep_study(store, collection, systems, wanted, chosen, half_width, progress=listed)
    told, found = progress.step("drawing the sample", "directions", main=True), []
    for number, towards in enumerate(chosen):
        told(number, len(chosen))
        share = None if budget is None else budget // len(chosen)
        study = _study(store, collection, systems, wanted, towards, judge, strata, half_width, share)
        made = _extended(store, study, half_width, share, replication, seconds, seed)
        notes = _cheaper(collection, systems, wanted, towards, half_width) if made.unit == LEVEL else []
        if judge is not None and made.unit == LEVEL:
            notes.append("the judge is not used: a measure here needs all matches of a query")
        found.append(replace(made, notes=tuple(notes)))
    return found


def plannable(
    measures: str | Iterable[str | Measure], half_width: float = 2.0, budget: int | None = None
) -> tuple[Measure, ...]:
    """The measures of a plan; refuses those that cannot be estimated, a half-width or a budget that is not above 0."""
    wanted = parse(measures)
    unit_of(wanted)
    if not half_width > 0 or (budget is not None and budget < 1):
        raise LimnerError(f"half-width {half_width:g}, budget {budget}: expected numbers above 0")
    return wanted


@dataclass(frozen=True)
class _Study:
    """A design with the requirements of its systems and measures.

    Args:
        design: The design.
        given: The given positives, image -> caption.
        known: The same, query -> candidate.
        domains: The units that each measure depends on, and their total weight in it.
        spread: Standard deviation of the values in each stratum, as far as known.
        alone: The same without a judge; None if there is no judge.
        costs: Number of labels per unit of each stratum.
        pilot: Units drawn from every stratum first.
        least: Minimum number of units from each stratum.
        answered: Whether any unit was labelled.
    """

    design: Design
    given: Judgements
    known: Judgements
    domains: Mapping[str, tuple[FloatArray, float]]
    spread: FloatArray
    alone: FloatArray | None
    costs: FloatArray
    pilot: int
    least: FloatArray
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
    known = collection.judged("pairs", direction)
    if unit_of(measures) == LEVEL:
        return _of_levels(store, collection, systems, measures, direction, {**settings, "judge": None}, budget)
    depth = max(m.k or 1 for m in measures)
    lists = {name: lists_of(each, depth=depth)[direction] for name, each in systems.items()}
    made = _designed(store, direction, settings)
    if made is None:
        found = frame(lists, known, measures)
        if not found.units:
            raise LimnerError(f"{direction}: nothing to label; the given positives already decide every query")
        queries = len(next(iter(lists.values())).queries)
        units = _units(found, direction, judge, _strata(found, queries, strata, half_width, budget))
        made = _new(store, direction, unit_of(measures), settings, queries, units)
    domains = {f"{n} {m}": _domain(made, ranking, known, m) for n, ranking in lists.items() for m in measures}
    believed = None if judge is None else np.array([u.score for u in made.units], dtype=np.float64)
    codes = np.array([u.stratum for u in made.units])
    size, labelled = np.bincount(codes), unit_values(store, made)
    spread = spread_of(codes, size, labelled, believed)
    alone = None if judge is None else np.full(len(size), 0.5)
    costs = np.bincount(codes, weights=[len(u.candidates) for u in made.units]) / size
    least = np.full(len(size), float(PILOT))
    return _Study(made, collection.judgements, known, domains, spread, alone, costs, PILOT, least, bool(labelled))


def _cheaper(
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
    known = collection.judged("pairs", direction)
    lists = {n: lists_of(each, depth=max(m.k or 1 for m in part))[direction] for n, each in systems.items()}
    found = frame(lists, known, part)
    names, labels = ", ".join(map(str, part)), 0
    if found.units:
        units = tuple(Unit(query, candidates, 0) for query, candidates in found.units)
        made = Design(0, direction, unit_of(part), {}, len(known.queries), units, ())
        domains = {f"{n} {m}": _domain(made, ranking, known, m) for n, ranking in lists.items() for m in part}
        spread, costs = np.array([0.5]), np.array([np.mean([len(u.candidates) for u in units])])
        least = np.full(1, float(PILOT))
        study = _Study(made, collection.judgements, known, domains, spread, None, costs, PILOT, least, answered=False)
        labels = int(np.ceil(float(_wanted(study, spread, half_width / 100) @ costs)))
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


def _strata(found: SamplingFrame, queries: int, wanted: int, half_width: float, budget: int | None) -> int:
    """The number of strata for the number of units that the half-width needs or the budget allows."""
    each = float(np.mean([len(c) for _, c in found.units]))
    free = (Z * 0.5 * min(len(found.units) / queries, 1.0)) ** 2
    number = free / ((half_width / 100) ** 2 + free / len(found.units))
    number = number if budget is None else min(number, budget / each)
    return strata_for(number, len(found.units), wanted)


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
    known = levels.with_positives(collection.judged("pairs", direction))
    sources = {n: _towards(each, direction) for n, each in systems.items()}
    made = _designed(store, direction, settings)
    if made is None:
        lists = {n: each.top(levels.depth_of(measures)) for n, each in sources.items()}
        upper = levels.levels(lists, known)
        levels.refuse_small(budget, levels.costs(upper, known), direction)
        made = _new(store, direction, LEVEL, settings, len(known.queries), levels.units_of(upper, known))
    codes = np.array([u.stratum for u in made.units])
    labelled = sorted(unit_values(store, made))
    said = human_labels(store)
    found = {n: levels.before_and_after(each, made, labelled, known, said, measures) for n, each in sources.items()}
    strata = int(codes.max()) + 1
    spread = levels.spread([step for each in found.values() for step in each.values()], codes, strata)
    domains = {f"{n} {m}": (np.ones(len(codes)), float(strata)) for n in sources for m in measures}
    many = len(known.queries)
    upper = [[u.candidates for u in made.units[start : start + many]] for start in range(0, (strata - 1) * many, many)]
    costs = levels.costs(upper, known)
    pilot, least = levels.LEAST, levels.smallest(costs)
    return _Study(made, collection.judgements, known, domains, spread, None, costs, pilot, least, bool(labelled))


def _towards(system: Lists, direction: str) -> Scores | Ranking:
    """Scores or lists of a system in one direction."""
    return system[direction] if isinstance(system, Mapping) else system if direction == "i2t" else system.T


def _units(found: SamplingFrame, direction: str, judge: Judge | None, strata: int) -> list[Unit]:
    drafts = [Unit(query, candidates, 0) for query, candidates in found.units]
    scores = None if judge is None else _believed(judge, drafts, direction)
    codes = cut(found.deeper, scores, strata)
    said = [None] * len(drafts) if scores is None else scores.tolist()
    return [Unit(u.query, u.candidates, int(h), s) for u, h, s in zip(drafts, codes, said, strict=True)]


def _believed(judge: Judge, units: Sequence[Unit], direction: str) -> FloatArray:
    """The judge's prediction for each unit: the highest prediction of its pairs."""
    pairs = [pair for unit in units for pair in unit.pairs(direction)]
    said = np.asarray(judge.probabilities(pairs), dtype=np.float64)
    if said.shape != (len(pairs),) or not np.isfinite(said).all():
        raise LimnerError(f"judge {judge.name!r}: expected {len(pairs)} finite numbers, one for each pair")
    ends = np.cumsum([0, *(len(u.candidates) for u in units)])
    return np.asarray(np.maximum.reduceat(said, ends[:-1]))


def _domain(made: Design, ranking: Ranking, known: Judgements, measure: Measure) -> tuple[FloatArray, float]:
    """The units that this system's measure depends on, and their total weight in the measure."""
    counted = levels.has_positive(ranking.queries, known)
    queries = {ranking.queries[row] for row in np.flatnonzero(counted).tolist()}
    asked = {query: each for query, each in needed(ranking, known, measure).items() if query in queries}
    inside = np.array([not set(asked.get(u.query, ())).isdisjoint(u.candidates) for u in made.units], dtype=np.float64)
    per_query = (measure.k or 1) if measure.kind.decided_by == "each" and made.unit == "pair" else 1
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
    made, codes, before = study.design, study.codes, study.design.drawn
    size = np.bincount(codes)
    wanted = _wanted(study, study.spread, half_width / 100)
    number = max(min(int(np.ceil(wanted.sum())), len(codes)) - len(before), 0)
    paid = number if budget is None else min(number, int(budget / study.costs.mean()))
    if made.unit == LEVEL:
        shares = _missing(wanted, np.bincount(codes[before], minlength=len(size)) if before else study.pilot)
    else:
        shares = shares_of(wanted, size, paid, answered=study.answered)
    seed_now = seed + len(made.shares)
    found = draw(codes, number, shares=shares, pilot=0 if before else study.pilot, before=before, seed=seed_now)
    kept = _within(study, found, budget)
    made = _filled(store, study, found.units[:kept].tolist())
    pairs = zip(found.units[:kept].tolist(), found.probabilities[:kept].tolist(), strict=True)
    add_phase(store, made.id, pairs, shares=shares.tolist(), seed=seed_now)
    drawn = [*before, *found.units[:kept].tolist()]
    asked = ask(store, made, study.given, drawn[len(before) :], replication, seed)
    counts = np.bincount(codes[drawn], minlength=len(size))
    expected = {
        n: 100 * expected_half_width(share, inside, study.spread, codes, counts)
        for n, (inside, share) in study.domains.items()
    }
    alone = _without_judge(study, counts, expected)
    hours, strata = asked * replication * seconds / 3600, tuple(size.tolist())
    return Planned(
        made.id, made.direction, made.unit, made.queries, len(codes), strata, len(drawn), asked, hours, expected, alone
    )


def _missing(wanted: FloatArray, held: IntArray | int) -> FloatArray:
    """The share of each level in what is missing; in what is wanted if nothing is."""
    rest = np.maximum(wanted - held, 0)
    return np.asarray(rest / rest.sum() if rest.any() else wanted / wanted.sum())


def _without_judge(study: _Study, counts: IntArray, expected: Mapping[str, float]) -> int | None:
    """Units that the widest interval would need without prior knowledge; None without a judge."""
    if study.alone is None or not counts.sum():
        return None
    name = max(expected, key=lambda each: expected[each])
    inside, share = study.domains[name]
    ratio = 100 * expected_half_width(share, inside, study.alone, study.codes, counts) / max(expected[name], 1e-9)
    return min(int(np.ceil(counts.sum() * ratio**2)), len(study.codes))


def _within(study: _Study, found: Drawn, budget: int | None) -> int:
    """The number of drawn units within the budget."""
    if budget is None:
        return len(found)
    spent = np.cumsum(study.costs[study.codes[found.units]])
    return int(np.searchsorted(spent, budget * (1 + 1e-9), side="right"))


def _wanted(study: _Study, spread: FloatArray, half: float) -> FloatArray:
    """Units per stratum needed for this half-width, for every measure of every system.

    For a domain with strata of weight W: `min(N, f W S / sqrt(c))` units from each (Cochran 1977, 5.5), with the
    smallest sufficient factor f; if a stratum also contains other units, proportionally more are drawn.
    """
    size = np.bincount(study.codes)
    root, most = np.sqrt(np.maximum(study.costs, 1)), np.zeros(len(size))
    for inside, share in study.domains.values():
        own = np.bincount(study.codes, weights=inside, minlength=len(size)).astype(np.float64)
        if own.sum():
            part = enough(own, spread, own * spread / root, (half / (Z * share)) ** 2)
            most = np.maximum(most, np.divide(part * size, own, out=np.zeros_like(part), where=own > 0))
    return np.minimum(np.maximum(most, study.least), size)


def _filled(store: Store, study: _Study, units: Sequence[int]) -> Design:
    """The design with the pairs of all drawn units; units of the last level contain the whole pool of a query."""
    made = study.design
    empty = {n: levels.whole(study.known, made.units[n].query) for n in units if not made.units[n].candidates}
    if not empty or made.unit != LEVEL:
        return made
    fill_units(store, made.id, empty)
    return next(d for d in designs(store) if d.id == made.id)
