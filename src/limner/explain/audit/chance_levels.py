"""Measures that a scorer wins which knows nothing of the query: random answers, equal scores, one list for all queries.

Equal scores for all candidates have the expected value of random answers, since measures take the expectation over the
orders of tied candidates. One list for all queries ranks candidates by the number of queries that they match: no other
list has a higher R@1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.evaluation.measures import DEFAULT, MEASURES, Measure
from limner.evaluation.placements import NEVER, Placements
from limner.explain.audit.findings import Defect

CHANCE = 0.2
"""A measure is reported if such a scorer reaches this share of its range."""
GOOD_RANK = 10
"""Measures of ranks, of which lower is better, are reported if such a scorer has this rank or a lower one."""
CUTS = (1, 5, 10)
DIRECTIONS = ("i2t", "t2i")


@dataclass(frozen=True)
class Reached:
    """What scorers that know nothing of the query reach.

    Args:
        measure: The measure.
        direction: "i2t", "t2i", or "" for a sum over both.
        by_chance: The value of random answers, and of equal scores.
        one_list: The value of one list for all queries.
    """

    measure: Measure
    direction: str
    by_chance: float
    one_list: float

    @property
    def wins(self) -> bool:
        """Whether one of them is high."""
        best = max(self.by_chance, self.one_list, key=lambda value: self.measure.kind.better * value)
        if self.measure.kind.rank:
            return best <= GOOD_RANK
        low, high = _range(self.measure)
        return best - low >= CHANCE * (high - low)

    def __str__(self) -> str:
        values = self.measure.show(self.by_chance), self.measure.show(self.one_list)
        return f"random answers and equal scores reach {values[0]}, one list for all queries {values[1]}"


def by_chance(collection: Collection) -> Iterator[Defect]:
    """Measures on which a scorer that knows nothing of the query scores well: few candidates, or many relevant ones."""
    for level in reached(collection):
        if level.wins:
            yield Defect("won-by-chance", (f"{level.measure} {level.direction}".strip(),), str(level))


def reached(collection: Collection) -> Iterator[Reached]:
    """Every measure in both directions, for scorers that know nothing of the query.

    Args:
        collection: Its judgements decide.

    >>> pairs = Collection.in_order(["a", "b", "c", "d"], ["w", "x", "y", "z"])
    >>> {str(r.measure): r.by_chance for r in reached(pairs) if r.measure.name in ("R", "MedR")}
    {'R@1': 0.25, 'R@5': 1.0, 'R@10': 1.0, 'MedR': 2.5}
    """
    placed = {}
    for direction in DIRECTIONS:
        judged = collection.judged(collection.judgements.name, direction).relevant
        if len(judged.rows):
            placed[direction] = _placed(judged)
    for measure in _measures() if placed else ():
        if measure.kind.composite is not None:
            yield Reached(measure, "", *(_sum(measure, scorer) for scorer in zip(*placed.values(), strict=True)))
            continue
        for direction, scorers in placed.items():
            yield Reached(measure, direction, *(_value(measure, scorer) for scorer in scorers))


Scorer = tuple[Placements, IntArray]
"""Ranks of some queries, and for every query the one of these that has the same value."""


def _placed(judged: Judgements) -> tuple[Scorer, Scorer]:
    """Ranks of the relevant candidates among tied ones, and in one list for all queries."""
    n_candidates = len(judged.candidates)
    popular = np.argsort(-np.bincount(judged.columns, minlength=n_candidates), kind="stable")
    rank = np.empty(n_candidates, dtype=np.int64)
    rank[popular] = np.arange(n_candidates)
    tied = np.full(len(judged.rows), n_candidates, dtype=np.int64)
    one_list = _placements(judged, rank[judged.columns], np.ones_like(tied))
    return _of_each_kind(_placements(judged, np.zeros_like(tied), tied)), (one_list, np.arange(len(one_list.queries)))


def _of_each_kind(placed: Placements) -> Scorer:
    """One query for each set of grades: if all candidates are tied, the others have the same values."""
    first: dict[bytes, int] = {}
    groups = [first.setdefault(each.tobytes(), row) for row, each in enumerate(_split(placed))]
    representatives, at = np.unique(groups, return_inverse=True)
    return placed.of(representatives), at


def _split(placed: Placements) -> list[FloatArray]:
    return [np.sort(each) for each in np.split(placed.grades, placed.indptr[1:-1])]


def _placements(judged: Judgements, ranks_above: IntArray, tied: IntArray) -> Placements:
    order, n = np.lexsort((ranks_above, judged.rows)), len(judged.queries)
    pool, judged_ranks = (np.full(n, each, dtype=np.int64) for each in (len(judged.candidates), NEVER))
    placements = Placements(
        judged.queries, judged.indptr, ranks_above[order], tied[order], judged.grades[order], pool, judged_ranks
    )
    return placements.with_positives()


def _value(measure: Measure, scorer: Scorer) -> float:
    placed, at = scorer
    return measure.summarise(measure(placed)[at])


def _measures() -> Iterator[Measure]:
    """Measures of any judgements, cut where they can be unless they are defaults; of equal functions the first."""
    functions: list[object] = []
    for name, kind in MEASURES.items():
        shared = kind.bounds is None or kind.compute in functions
        if kind.judged or kind.judgements or (not kind.rank and kind.composite is None and shared):
            continue
        functions.append(kind.compute)
        cuts = CUTS if kind.cut == "required" else CUTS[-1:] if kind.cut == "optional" else ()
        bare = not cuts or any(measure.name == name and measure.k is None for measure in DEFAULT)
        yield from [Measure.parse(name)] if bare else (Measure.parse(f"{name}@{cut}") for cut in cuts)


def _sum(measure: Measure, directions: tuple[Scorer, ...]) -> float:
    composite = measure.kind.composite
    return composite.value(_value(p, each) for p in measure.parts for each in directions) if composite else 0.0


def _range(measure: Measure) -> tuple[float, float]:
    """The lowest and the highest value."""
    composite = measure.kind.composite
    if composite is None:
        return measure.kind.bounds or (0.0, 1.0)
    n_terms = composite.weight * len(composite.parts) * len(DIRECTIONS)
    return n_terms * composite.bounds[0], n_terms * composite.bounds[1]
