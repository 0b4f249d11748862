"""Sampling designs: which pairs to label, with which probabilities, and how many labels an interval needs.

A study is for one direction, some systems and some measures. Its units (`limner.annotate.frames`) are split into
strata: first ranks and deeper ones separately, and by the predictions of a judge. The judge has no other effect: a bad
one makes uninformative strata, which costs almost nothing. Each stratum gets what the measures need of it; a further
`plan` of the same study adds a draw that follows what the answers so far say of each stratum (Neyman), never below half
of its share by size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from limner.annotate.aggregate import by_majority
from limner.annotate.frames import SamplingFrame, frame, needed, unit_of
from limner.annotate.pool import Lists, lists_of, waiting
from limner.annotate.scale import relevant
from limner.annotate.store import Store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import Key, add_pairs
from limner.annotate.store.designs import Design, Unit, add_design, add_phase, designs
from limner.annotate.store.tasks import add_tasks
from limner.annotate.tasks import make_tasks
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import FloatArray, Judgements
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure, parse
from limner.stats import draw, strata_of

SECONDS = 8.0
"""Default seconds per pair and person."""
STRATA = 5
PILOT = 2
_Z = 1.96
_DOUBT = 4.0  # answers' worth of the common rate in each stratum's own


class Judge(Protocol):
    """An automatic judge that predicts the probability of a match."""

    name: str

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """One number from 0 to 1 for each (image, caption)."""


@dataclass(frozen=True)
class Planned:
    """The plan for one direction.

    Args:
        design: The design's number in the store.
        direction: "i2t" or "t2i".
        unit: What is drawn: pairs, or queries with all their open pairs.
        queries: Queries of the collection.
        units: Units that could be drawn.
        strata: Units in each stratum.
        drawn: Units drawn so far, including this draw.
        labels: Pairs to label in this draw.
        hours: Estimated working hours.
        expected: Half-width in points, by system and measure.
        without_judge: Labels that the same intervals would take without the judge; None without one.
    """

    design: int
    direction: str
    unit: str
    queries: int
    units: int
    strata: tuple[int, ...]
    drawn: int
    labels: int
    hours: float
    expected: Mapping[str, float]
    without_judge: int | None = None

    def __str__(self) -> str:
        """A few lines."""
        many = "queries with all their open pairs" if self.unit == "query" else "pairs"
        lines = [
            f"{self.direction}: {self.drawn:,} of {self.units:,} open {many} drawn, strata of {list(self.strata)}",
            f"  labels to give now: {self.labels:,} (about {self.hours:.1f} hours of one person)",
        ]
        lines += [f"  {name}: +- {half:.1f} points expected" for name, half in self.expected.items()]
        if self.without_judge is not None:
            lines.append(f"  without the judge the same would take about {self.without_judge:,} units")
        return "\n".join(lines)


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
    progress: Callable[[int, int], None] | None = None,
) -> list[Planned]:
    """Plans a study, samples the pairs to label, and writes the tasks; called again, it adds a further draw.

    Args:
        store: The store; it must hold the collection (`add_collection`).
        collection: Its pairs are the given positives, which count as true.
        systems: By name: scores, or rankings by direction.
        measures: R@k, S@k, MRR@k and P@k.
        direction: "i2t" or "t2i"; both by default.
        half_width: Target half-width of the widest interval, in percentage points.
        budget: Maximum number of labels in this draw, all directions together.
        judge: Whose beliefs make the strata.
        strata: How many.
        replication: People who judge each pair.
        seconds: That a person takes for a pair.
        seed: Another seed, another draw.
        progress: Told how many directions are done.

    Returns:
        What was planned, for each direction.
    """
    wanted = parse(measures)
    unit_of(wanted)
    if not systems:
        raise LimnerError("no system to plan for: expected at least one")
    if half_width <= 0 or (budget is not None and budget < 1):
        raise LimnerError(f"half-width {half_width:g}, budget {budget}: expected numbers above 0")
    chosen = ("i2t", "t2i") if direction is None else (direction,)
    found = []
    for number, towards in enumerate(chosen):
        if progress is not None:
            progress(number, len(chosen))
        study = _study(store, collection, systems, wanted, towards, judge, strata)
        share = None if budget is None else budget // len(chosen)
        found.append(_extended(store, study, half_width, share, replication, seconds, seed))
    return found


@dataclass(frozen=True)
class _Study:
    """A design with the needs of its systems and measures."""

    design: Design
    known: Judgements
    domains: Mapping[str, tuple[FloatArray, float]]
    believed: FloatArray | None


def _study(
    store: Store,
    collection: Collection,
    systems: Mapping[str, Lists],
    measures: tuple[Measure, ...],
    direction: str,
    judge: Judge | None,
    strata: int,
) -> _Study:
    depth = max(m.k or 1 for m in measures)
    lists = {name: lists_of(each, depth=depth)[direction] for name, each in systems.items()}
    known = collection.judged("pairs", direction)
    settings = {"measures": [str(m) for m in measures], "systems": sorted(systems), "strata": strata}
    settings["judge"] = None if judge is None else judge.name
    queries = len(next(iter(lists.values())).queries)
    before = [d for d in designs(store) if d.direction == direction and d.settings == settings]
    if not before:
        units = _units(frame(lists, known, measures), direction, judge, strata)
        if not units:
            raise LimnerError(f"{direction}: nothing is open; the given positives decide every query already")
        kind = unit_of(measures)
        add_design(store, direction=direction, unit=kind, settings=settings, queries=queries, units=units)
        before = [d for d in designs(store) if d.direction == direction and d.settings == settings]
    made = before[-1]
    domains = {f"{n} {m}": _domain(made, ranking, known, m) for n, ranking in lists.items() for m in measures}
    scores = [u.score for u in made.units]
    believed = None if judge is None else np.array(scores, dtype=np.float64)
    return _Study(made, collection.judgements, domains, believed)


def _units(found: SamplingFrame, direction: str, judge: Judge | None, strata: int) -> list[Unit]:
    drafts = [Unit(query, candidates, 0) for query, candidates in found.units]
    if not drafts:
        return []
    scores = None if judge is None else _believed(judge, drafts, direction)
    deeper = np.array(found.ranks) > 1 if found.unit == "pair" else np.zeros(len(drafts), dtype=bool)
    codes = np.zeros(len(drafts), dtype=np.int64)
    for group in (~deeper, deeper):
        if scores is not None and group.any():
            codes[group] = strata_of(scores[group], strata)
    codes = np.unique(codes + deeper * (strata + 1), return_inverse=True)[1]
    said = [None] * len(drafts) if scores is None else scores.tolist()
    return [Unit(u.query, u.candidates, int(h), s) for u, h, s in zip(drafts, codes, said, strict=True)]


def _believed(judge: Judge, units: Sequence[Unit], direction: str) -> FloatArray:
    """The judge's prediction for each unit: that of its most likely pair."""
    pairs = [pair for unit in units for pair in unit.pairs(direction)]
    said = np.asarray(judge.probabilities(pairs), dtype=np.float64)
    if said.shape != (len(pairs),) or not np.isfinite(said).all():
        raise LimnerError(f"judge {judge.name!r}: expected {len(pairs)} finite numbers, one for each pair")
    ends = np.cumsum([0, *(len(u.candidates) for u in units)])
    return np.asarray(np.maximum.reduceat(said, ends[:-1]))


def _domain(made: Design, ranking: Ranking, known: Judgements, measure: Measure) -> tuple[FloatArray, float]:
    """Which units this system's measure depends on, and what share of the measure they are together."""
    asked = needed(ranking, known, measure)
    inside = np.array([not set(asked.get(u.query, ())).isdisjoint(u.candidates) for u in made.units], dtype=np.float64)
    per_query = (measure.k or 1) if measure.name == "P" and made.unit == "pair" else 1
    return inside, float(inside.sum()) / (len(ranking.queries) * per_query)


def _extended(
    store: Store,
    study: _Study,
    half_width: float,
    budget: int | None,
    replication: int,
    seconds: float,
    seed: int,
) -> Planned:
    """Draws the missing units, and creates tasks for their pairs."""
    made = study.design
    codes = np.array([u.stratum for u in made.units])
    size = np.bincount(codes)
    labelled = unit_values(store, made)
    spread = _spread(codes, size, labelled, study.believed)
    before = made.drawn
    wanted = _wanted(study, codes, spread, half_width / 100)
    each = np.mean([len(u.candidates) for u in made.units])
    number = min(int(np.ceil(wanted.sum())), len(made.units)) - len(before)
    number = max(number if budget is None else min(number, int(budget / each)), 0)
    shares = 0.5 * wanted / wanted.sum() + 0.5 * size / size.sum() if labelled else wanted / wanted.sum()
    found = draw(
        codes, number, shares=shares, pilot=0 if before else PILOT, before=before, seed=seed + len(made.shares)
    )
    pairs = zip(found.units.tolist(), found.probabilities.tolist(), strict=True)
    add_phase(store, made.id, pairs, shares=shares.tolist(), seed=seed + len(made.shares))
    asked = _ask(store, study, found.units.tolist(), replication, seed)
    total = len(before) + len(found)
    counts = np.bincount(codes[[*before, *found.units.tolist()]], minlength=len(size))
    expected = {n: 100 * _half(share, inside, spread, codes, counts) for n, (inside, share) in study.domains.items()}
    alone = None
    if study.believed is not None:
        widest = max(max(expected.values(), default=0.0) / 100, 1e-9)
        alone = int(np.ceil(_wanted(study, codes, np.full(len(size), 0.5), widest).sum()))
    hours = asked * replication * seconds / 3600
    strata = tuple(size.tolist())
    return Planned(
        made.id, made.direction, made.unit, made.queries, len(made.units), strata, total, asked, hours, expected, alone
    )


def _spread(codes: Any, size: Any, labelled: Mapping[int, float], believed: FloatArray | None) -> FloatArray:
    """The standard deviation of the answers in each stratum: from answers, else from the judge, else the maximum."""
    if labelled:
        units = np.array(list(labelled))
        said = np.array(list(labelled.values()))
        n = np.bincount(codes[units], minlength=len(size))
        rate = (np.bincount(codes[units], weights=said, minlength=len(size)) + _DOUBT * said.mean()) / (n + _DOUBT)
    elif believed is not None:
        rate = np.bincount(codes, weights=np.clip(believed, 0.02, 0.98)) / size
    else:
        rate = np.full(len(size), 0.5)
    return np.asarray(np.sqrt(np.clip(rate * (1 - rate), 0.02, 0.25)))


def _wanted(study: _Study, codes: Any, spread: FloatArray, half: float) -> FloatArray:
    """Units needed in each stratum for this half-width, for every measure and system.

    Of a domain with share s of the measure: `n = z^2 s^2 v / (half^2 + z^2 s^2 v / N)` of its units, shared by
    `N_h S_h`; where a stratum holds other units too, as many more have to be drawn.
    """
    size = np.bincount(codes)
    most = np.zeros(len(size))
    for inside, share in study.domains.values():
        own = np.bincount(codes, weights=inside, minlength=len(size))
        if own.sum():
            free = (_Z * share) ** 2 * float(own @ spread) ** 2 / own.sum() ** 2
            n = free / (half**2 + free / own.sum())
            part = np.minimum(n * own * spread / (own @ spread), own)
            most = np.maximum(most, np.divide(part * size, own, out=np.zeros_like(part), where=own > 0))
    return np.minimum(np.maximum(most, PILOT), size)


def _half(share: float, inside: FloatArray, spread: FloatArray, codes: Any, counts: Any) -> float:
    """The expected half-width for these numbers of labelled units."""
    size = np.bincount(codes)
    own = np.bincount(codes, weights=inside, minlength=len(size))
    n = np.maximum(counts * own / size, 0.5)
    weight = own / max(own.sum(), 1)
    variance = float((weight**2 * spread**2 / n * np.clip(1 - n / np.maximum(own, 1), 0, 1)).sum())
    return min(_Z * share * float(np.sqrt(variance)), share)


def _ask(store: Store, study: _Study, units: Sequence[int], replication: int, seed: int) -> int:
    """Creates tasks for the drawn pairs without a task, in the order of the draws."""
    made = study.design
    pairs = list(dict.fromkeys(p for n in units for p in made.units[n].pairs(made.direction)))
    if not pairs:
        return 0
    add_pairs(store, pairs)
    open_ = set(waiting(store))
    asked = [pair for pair in pairs if pair in open_]
    if asked:
        drafts = make_tasks(asked, study.known, near=pairs, seed=seed, in_order=True)
        add_tasks(store, drafts, replication=replication)
    return len(asked)


def unit_values(store: Store, made: Design) -> dict[int, float]:
    """Whether each drawn unit that was answered in full holds a match: by its number, 1 or 0."""
    said = {(x.image, x.caption): relevant(x.grade) for x in by_majority(answers(store))}
    found = {}
    for number in made.drawn:
        pairs = made.units[number].pairs(made.direction)
        if all(pair in said for pair in pairs):
            found[number] = float(any(said[pair] for pair in pairs))
    return found
