"""Where to label next: a further draw of the design that narrows a chosen comparison most.

Half of the draw is allocated to strata by size, and half by their relevance to the comparison: `sqrt(N a) S` for a
stratum with N units of which a can distinguish the two systems, and answers with standard deviation S (Neyman
allocation for a part of each stratum). Within a stratum all remaining units are equally likely, and the allocation is
stored with the draw. So the design stays valid for these two systems, for all others, and in both modes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.design import ask, unit_values
from limner.annotate.frames import needed
from limner.annotate.pool import Lists, lists_of
from limner.annotate.store import Store
from limner.annotate.store.designs import Design, add_phase, designs
from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, Stages, counting
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure
from limner.stats import draw

_DOUBT = 4.0  # weight of the overall rate in each stratum's rate, as a number of answers


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
    direction: str | None = None,
    replication: int = 1,
    seed: int = 0,
    progress: ProgressLike = None,
) -> list[Narrowed]:
    """Draws further units of the last design of each direction, and writes the tasks.

    Args:
        store: With a plan (`limner.annotate.plan`) of pairs or queries.
        collection: Its pairs are the given positives.
        systems: The two systems to compare; or one system, to narrow its own intervals.
        number: Number of units to draw, over all directions.
        direction: "i2t" or "t2i"; every planned direction by default.
        replication: Number of people who judge each pair.
        seed: Seed of the random draw.
        progress: Called with (steps done, steps in total): two of each direction.
    """
    if not 1 <= len(systems) <= 2:
        raise LimnerError(f"got {len(systems)} systems: expected two to compare, or one to narrow its own intervals")
    if number < 1:
        raise LimnerError(f"got {number} labels to ask for: expected 1 or more")
    last = {d.direction: d for d in designs(store) if direction in (None, d.direction)}
    if not last:
        raise LimnerError("the store has no design to add to: run 'limner annotate plan' first")
    each = max(number // len(last), 1)
    stages = Stages(progress, telling=len(last), drawing=len(last))
    apart = {
        d: telling(last[d], systems, collection.judged("pairs", d)) for d in counting(list(last), stages["telling"])
    }
    return [
        _narrowed(store, collection, last[d], apart[d], each, replication, seed)
        for d in counting(list(last), stages["drawing"])
    ]


def _narrowed(
    store: Store,
    collection: Collection,
    made: Design,
    apart: FloatArray,
    number: int,
    replication: int,
    seed: int,
) -> Narrowed:
    codes = np.array([u.stratum for u in made.units])
    shares = shares_for(codes, apart, unit_values(store, made))
    seed_now = seed + len(made.shares)
    found = draw(codes, number, shares=shares, before=made.drawn, seed=seed_now)
    pairs = zip(found.units.tolist(), found.probabilities.tolist(), strict=True)
    add_phase(store, made.id, pairs, shares=shares.tolist(), seed=seed_now)
    asked = ask(store, made, collection.judgements, found.units.tolist(), replication, seed)
    counts = np.bincount(codes[found.units], minlength=len(shares))
    own = np.bincount(codes, weights=apart, minlength=len(shares)).astype(int)
    return Narrowed(made.direction, tuple(own.tolist()), tuple(counts.tolist()), asked)


def telling(made: Design, systems: Mapping[str, Lists], known: Judgements) -> FloatArray:
    """Which units can distinguish the systems (1 or 0): pairs that all of them return cancel in a difference."""
    if made.unit not in ("pair", "query"):
        raise LimnerError(f"a design of {made.unit}s cannot be narrowed: expected one of pairs or queries")
    measures = [Measure.parse(m) for m in made.settings["measures"]]
    lists = [lists_of(each, depth=max(m.k or 1 for m in measures)) for each in systems.values()]
    rankings = [each[made.direction] for each in lists if made.direction in each]
    if len(rankings) < len(systems):
        raise LimnerError(f"a system has no lists in direction {made.direction}: expected lists of every system")
    found = set.union(*(_apart([_looked_at(r, known, m) for r in rankings]) for m in measures))
    return np.array([any((u.query, c) in found for c in u.candidates) for u in made.units], dtype=np.float64)


def _looked_at(ranking: Ranking, known: Judgements, measure: Measure) -> set[tuple[str, str]]:
    """The pairs that determine the measures of one system."""
    return {(query, c) for query, found in needed(ranking, known, measure).items() for c in found}


def _apart(found: Sequence[set[tuple[str, str]]]) -> set[tuple[str, str]]:
    return found[0] if len(found) == 1 else found[0] ^ found[1]


def shares_for(codes: IntArray, apart: FloatArray, labelled: Mapping[int, float]) -> FloatArray:
    """The allocation of a further draw to strata.

    Args:
        codes: The stratum of every unit.
        apart: Whether each unit can distinguish the systems, 1 or 0.
        labelled: Human labels of the labelled units, 1 or 0.

    >>> shares_for(np.array([0, 0, 1, 1]), np.array([1.0, 1.0, 0.0, 0.0]), {}).tolist()
    [0.75, 0.25]
    """
    size = np.bincount(codes).astype(np.float64)
    own = np.bincount(codes, weights=apart, minlength=len(size))
    units, said = np.array(list(labelled), dtype=np.int64), np.array(list(labelled.values()))
    rate = np.full(len(size), 0.5)
    if len(units):
        n, yes = (np.bincount(codes[units], weights=w, minlength=len(size)) for w in (np.ones(len(said)), said))
        rate = (yes + _DOUBT * said.mean()) / (n + _DOUBT)
    wanted = np.sqrt(size * own * np.clip(rate * (1 - rate), 0.02, 0.25))
    even = size / size.sum()
    return np.asarray(0.5 * even + 0.5 * (wanted / wanted.sum() if wanted.sum() else even))
