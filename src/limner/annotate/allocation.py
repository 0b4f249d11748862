"""How labels are allocated to the strata of a design, and where to label next: Cochran 1977, Neyman 1934.

A further draw narrows a chosen comparison most: half of it is allocated to strata by size, and half by their relevance
to the comparison: `sqrt(N a) S` for a stratum with N units of which a can distinguish the two systems, and answers with
standard deviation S (Neyman allocation for a part of each stratum). Within a stratum all remaining units are equally
likely, and the allocation is stored with the draw. So the design stays valid for these two systems, for all others, and
in both modes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.merge import boolean_labels, by_majority
from limner.annotate.pool import Lists, lists_of, waiting
from limner.annotate.sample import needed
from limner.annotate.store import Store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import Key, add_pairs
from limner.annotate.store.designs import LEVEL, Design, add_phase, designs
from limner.annotate.store.tasks import add_tasks
from limner.annotate.tasks import make_tasks
from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, Stages, counting
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure
from limner.stats.sampling import draw, strata_of

Z = 1.96
EACH = 50
"""Minimum number of units drawn per stratum, on average; otherwise there are fewer strata."""
CORRECTED = 20
"""The same, after the finite-population correction."""
_DOUBT = 4.0  # weight of the overall rate in each stratum's rate, as a number of answers


def strata_for(number: float, units: int, max_strata: int) -> int:
    """The number of strata of a judge's scores: the largest that leaves `EACH` drawn units per stratum.

    The number of units from each stratum is random. With n of N units drawn from H strata, this adds about
    `(H - 1) / (n (1 - n / N))` to the variance, as a share, and a useless judge does not compensate for it. So there
    are fewer strata if most units are drawn: `CORRECTED` units per stratum after the finite-population correction.

    Args:
        number: Number of units to draw.
        units: Number of units in the sampling frame.
        max_strata: Maximum number of strata.

    >>> strata_for(200, 100_000, 4), strata_for(200, 300, 4), strata_for(60, 100_000, 4)
    (4, 3, 1)
    """
    corrected = number * (1 - min(number / units, 1))
    return max(min(max_strata, int(number / EACH), int(corrected / CORRECTED)), 1)


def cut(deeper: BoolArray, scores: FloatArray | None, strata: int) -> IntArray:
    """The stratum of each unit: top-ranked pairs are separate from deeper ones; then by the judge's scores.

    Args:
        deeper: Whether each unit is a pair that no system returns first.
        scores: The judge's score of each unit; None without a judge.
        strata: Total number of strata; each of the two parts has at least one.
    """
    codes = np.zeros(len(deeper), dtype=np.int64)
    for part in (~deeper, deeper):
        if scores is not None and part.any():
            codes[part] = strata_of(scores[part], max(round(strata * part.mean()), 1))
    return np.unique(codes + deeper * (strata + 1), return_inverse=True)[1].astype(np.int64)


def spread_of(
    codes: IntArray, size: IntArray, labelled: Mapping[int, float], predictions: FloatArray | None
) -> FloatArray:
    """The standard deviation of the answers in each stratum: from answers, else from the judge, else the maximum."""
    if labelled:
        units = np.array(list(labelled))
        values = np.array(list(labelled.values()))
        n = np.bincount(codes[units], minlength=len(size))
        rate = (np.bincount(codes[units], weights=values, minlength=len(size)) + _DOUBT * values.mean()) / (n + _DOUBT)
    elif predictions is not None:
        rate = np.bincount(codes, weights=np.clip(predictions, 0.02, 0.98)) / size
    else:
        rate = np.full(len(size), 0.5)
    return np.asarray(np.sqrt(np.clip(rate * (1 - rate), 0.02, 0.25)))


def shares_of(need: FloatArray, size: IntArray, number: int, *, answered: bool) -> FloatArray:
    """The allocation of a draw to strata: half by size, half by need.

    Before there are answers, the need comes from the judge's predictions. These may be wrong, which costs most if
    nearly all units are drawn, so their weight decreases with the share of units drawn.

    Args:
        need: Number of units that the measures need from each stratum.
        size: Number of units in each stratum.
        number: Number of units to draw.
        answered: Whether the need is estimated from answers.
    """
    by_need = 0.5 if answered else 0.5 * (1 - min(number / size.sum(), 1))
    return np.asarray(by_need * need / need.sum() + (1 - by_need) * size / size.sum())


def enough(available: FloatArray, spread: FloatArray, best: FloatArray, variance: float) -> FloatArray:
    """Units per stratum, in proportion to `best` as far as available, that reduce the variance to this value."""
    weight, nonempty = available / available.sum(), available > 0
    low, high = 0.0, float((available[nonempty] / best[nonempty]).max())
    for _ in range(60):
        middle = (low + high) / 2
        n = np.minimum(middle * best[nonempty], available[nonempty])
        enough = (
            float((weight[nonempty] ** 2 * spread[nonempty] ** 2 * (1 / n - 1 / available[nonempty])).sum()) <= variance
        )
        low, high = (low, middle) if enough else (middle, high)
    return np.minimum(high * best, available)


def expected_half_width(
    share: float, inside: FloatArray, spread: FloatArray, codes: IntArray, counts: IntArray
) -> float:
    """The expected half-width for these numbers of labelled units."""
    size = np.bincount(codes)
    relevant = np.bincount(codes, weights=inside, minlength=len(size))
    n = np.maximum(counts * relevant / size, 0.5)
    weight = relevant / max(relevant.sum(), 1)
    variance = float((weight**2 * spread**2 / n * np.clip(1 - n / np.maximum(relevant, 1), 0, 1)).sum())
    return min(Z * share * float(np.sqrt(variance)), share)


# --- tasks and answers of drawn units -------------------------------------------------------------------------------


def ask(store: Store, design: Design, judgements: Judgements, units: Sequence[int], replication: int, seed: int) -> int:
    """Creates tasks for the drawn pairs that are not in a task yet, in the order they were drawn."""
    pairs = list(dict.fromkeys(p for n in units for p in design.units[n].pairs(design.direction)))
    if not pairs:
        return 0
    add_pairs(store, pairs)
    open_ = set(waiting(store))
    unassigned = [pair for pair in pairs if pair in open_]
    if unassigned:
        rare = 2 * len(pairs) > len(judgements.queries) * len(
            judgements.candidates
        )  # few pairs are left as known negatives
        drafts = make_tasks(unassigned, judgements, avoid=pairs, negatives=0 if rare else 1, seed=seed, in_order=True)
        add_tasks(store, drafts, replication=replication)
    return len(unassigned)


def unit_values(store: Store, design: Design) -> dict[int, float]:
    """Whether each fully answered unit of the draw contains a match: 1 or 0, by unit id."""
    labels = human_labels(store)
    values = {}
    for number in design.drawn:
        pairs = design.units[number].pairs(design.direction)
        if all(pair in labels for pair in pairs):
            values[number] = float(any(labels[pair] for pair in pairs))
    return values


def human_labels(store: Store) -> dict[Key, bool]:
    """The human label of each pair."""
    return boolean_labels(by_majority(answers(store)))


# --- a plan, and a further draw -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """The plan for one direction.

    Args:
        design: The design's id in the store.
        direction: "i2t" or "t2i".
        unit: The sampling unit: pairs, queries with all their unjudged pairs, or queries up to a level.
        queries: Number of queries in the collection.
        units: Number of units in the sampling frame.
        strata: Number of units in each stratum.
        drawn: Number of units drawn so far, including this draw.
        labels: Number of pairs to label in this draw.
        hours: Estimated working hours.
        expected: Expected half-width in points, by system and measure.
        without_judge: Number of units that the same intervals would need without the judge; None without a judge.
        notes: What else to know before labelling: measures that would need far fewer labels alone, a judge not used.
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
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A few lines."""
        noun = {"query": "queries with all their open pairs", LEVEL: "queries down to a level"}.get(self.unit, "pairs")
        lines = [
            f"{self.direction}: {self.drawn:,} of {self.units:,} open {noun} drawn, strata of {list(self.strata)}",
            f"  labels to give now: {self.labels:,} (about {self.hours:.1f} hours of one person)",
        ]
        lines += [f"  {name}: +- {half:.1f} points expected" for name, half in self.expected.items()]
        if self.without_judge is not None:
            lines.append(f"  without the judge, the same intervals would need about {self.without_judge:,} units")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True)
class Narrowed:
    """The result of a further draw.

    Args:
        direction: "i2t" or "t2i".
        apart: Number of units per stratum that can distinguish the systems.
        drawn: Number of units drawn from each stratum now.
        labels: Number of pairs that people have to judge.
    """

    direction: str
    apart: tuple[int, ...]
    drawn: tuple[int, ...]
    labels: int

    def __str__(self) -> str:
        return (
            f"{self.direction}: {sum(self.drawn):,} further units drawn, {list(self.drawn)} by stratum, of which "
            f"{list(self.apart)} can tell the systems apart; labels to give now: {self.labels:,}"
        )


def narrow(
    store: Store,
    collection: Collection,
    systems: Mapping[str, Lists],
    number: int,
    *,
    progress: ProgressLike = None,
) -> list[Narrowed]:
    """Draws further units of the last design of each direction, and writes the tasks.

    Args:
        store: With a plan (`limner.annotate.plan`) of pairs or queries.
        collection: Its pairs are the given positives.
        systems: The two systems to compare; or one system, to narrow its own intervals.
        number: Number of units to draw, over all directions.
        progress: Called with (steps done, steps in total): two of each direction.
    """
    if not 1 <= len(systems) <= 2:
        raise LimnerError(f"got {len(systems)} systems: expected two to compare, or one to narrow its own intervals")
    if number < 1:
        raise LimnerError(f"got {number} labels to ask for: expected 1 or more")
    last = {d.direction: d for d in designs(store)}
    if not last:
        raise LimnerError("the store has no design to add to: run 'limner annotate plan' first")
    each = max(number // len(last), 1)
    stages = Stages(progress, telling=len(last), drawing=len(last))
    distinguishing = {
        d: distinguishing_units(last[d], systems, collection.judged("pairs", d))
        for d in counting(list(last), stages["telling"])
    }
    return [
        _narrowed(store, collection, last[d], distinguishing[d], each) for d in counting(list(last), stages["drawing"])
    ]


def _narrowed(
    store: Store,
    collection: Collection,
    design: Design,
    distinguishing: FloatArray,
    number: int,
) -> Narrowed:
    codes = np.array([u.stratum for u in design.units])
    shares = shares_for(codes, distinguishing, unit_values(store, design))
    seed = len(design.shares)
    sample = draw(codes, number, shares=shares, before=design.drawn, seed=seed)
    pairs = zip(sample.units.tolist(), sample.probabilities.tolist(), strict=True)
    add_phase(store, design.id, pairs, shares=shares.tolist(), seed=seed)
    labels = ask(store, design, collection.judgements, sample.units.tolist(), replication=1, seed=0)
    counts = np.bincount(codes[sample.units], minlength=len(shares))
    available = np.bincount(codes, weights=distinguishing, minlength=len(shares)).astype(int)
    return Narrowed(design.direction, tuple(available.tolist()), tuple(counts.tolist()), labels)


def distinguishing_units(design: Design, systems: Mapping[str, Lists], judgements: Judgements) -> FloatArray:
    """Which units can distinguish the systems (1 or 0): pairs that all of them return cancel in a difference."""
    if design.unit not in ("pair", "query"):
        raise LimnerError(f"a design of {design.unit}s cannot be narrowed: expected one of pairs or queries")
    measures = [Measure.parse(m) for m in design.settings["measures"]]
    lists = [lists_of(each, depth=max(m.k or 1 for m in measures)) for each in systems.values()]
    rankings = [each[design.direction] for each in lists if design.direction in each]
    if len(rankings) < len(systems):
        raise LimnerError(f"a system has no lists in direction {design.direction}: expected lists of every system")
    decisive = set.union(*(_differing([_looked_at(r, judgements, m) for r in rankings]) for m in measures))
    return np.array([any((u.query, c) in decisive for c in u.candidates) for u in design.units], dtype=np.float64)


def _looked_at(ranking: Ranking, judgements: Judgements, measure: Measure) -> set[tuple[str, str]]:
    """The pairs that determine the measures of one system."""
    return {(query, c) for query, candidates in needed(ranking, judgements, measure).items() for c in candidates}


def _differing(pair_sets: Sequence[set[tuple[str, str]]]) -> set[tuple[str, str]]:
    return pair_sets[0] if len(pair_sets) == 1 else pair_sets[0] ^ pair_sets[1]


def shares_for(codes: IntArray, distinguishing: FloatArray, labelled: Mapping[int, float]) -> FloatArray:
    """The allocation of a further draw to strata.

    Args:
        codes: The stratum of every unit.
        distinguishing: Whether each unit can distinguish the systems, 1 or 0.
        labelled: Human labels of the labelled units, 1 or 0.

    >>> shares_for(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 0.0, 0.0]), {}).tolist()
    [0.75, 0.25]
    """
    size = np.bincount(codes).astype(np.float64)
    available = np.bincount(codes, weights=distinguishing, minlength=len(size))
    units, values = np.array(list(labelled), dtype=np.int64), np.array(list(labelled.values()))
    rate = np.full(len(size), 0.5)
    if len(units):
        n, yes = (np.bincount(codes[units], weights=w, minlength=len(size)) for w in (np.ones(len(values)), values))
        rate = (yes + _DOUBT * values.mean()) / (n + _DOUBT)
    need = np.sqrt(size * available * np.clip(rate * (1 - rate), 0.02, 0.25))
    even = size / size.sum()
    return np.asarray(0.5 * even + 0.5 * (need / need.sum() if need.sum() else even))
