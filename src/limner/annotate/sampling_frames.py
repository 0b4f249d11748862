"""Which pairs must be judged to know a measure under complete judgements.

The given positives count as true. Two kinds of units can be drawn:

- a pair, if every measure is a weighted sum over pairs: R@1, S@1, MRR@1, P@k;
- a query with all its unjudged pairs, for R@k, S@k and MRR@k: whether any of the first k is a match is known once all
  of them above the first given positive are judged. A query with a given positive at rank 1 needs no label.

A measure is the mean over the queries that have a given positive, as in the view "pairs": whether another query has a
match anywhere is known only when its whole pool is judged. Its pairs can be drawn too, which tells how many of these
queries have one (`limner.annotate.left_out`).

Measures that need the number of all matches of a query (mAP@R, RP, Recall@k, nDCG, MAP) need a design of levels:
`limner.annotate.levels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.bias import grades_at
from limner.annotate.levels import refuse_unfit
from limner.annotate.store.designs import LEVEL
from limner.core.arrays import BoolArray, FloatArray
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure

Needed = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class SamplingFrame:
    """The units that may be drawn in one direction.

    Args:
        unit: "pair" or "query".
        units: (query, candidates to judge), without duplicates.
        ranks: The best rank at which a system returns one of them.
    """

    unit: str
    units: tuple[tuple[str, tuple[str, ...]], ...]
    ranks: tuple[int, ...]

    @property
    def deeper(self) -> BoolArray:
        """Whether each unit is a pair that no system returns first."""
        return np.array(self.ranks) > 1 if self.unit == "pair" else np.zeros(len(self.units), dtype=bool)


def unit_of(measures: Sequence[Measure]) -> str:
    """The sampling unit: a "pair" if every measure is a weighted sum over pairs, else a "query" or a "level" of one.

    >>> unit_of([Measure.parse("R@1"), Measure.parse("P@5")]), unit_of([Measure.parse("R@5")])
    ('pair', 'query')
    >>> unit_of([Measure.parse("R@5"), Measure.parse("mAP@R")])
    'level'
    """
    refuse_unfit(measures)
    if any(m.kind.decided_by == "all" or m.k is None for m in measures):
        return LEVEL
    return "pair" if all(m.k == 1 or m.kind.decided_by == "each" for m in measures) else "query"


def needed(ranking: Ranking, judgements: Judgements, measure: Measure) -> Needed:
    """For each query, the candidates that decide the measure and are not given positives, in order of rank.

    >>> lists = Ranking.from_lists({"q": "abc", "r": "bca"}, candidates="abc")
    >>> needed(lists, Judgements.from_pairs([("q", "a"), ("r", "a")]), Measure.parse("R@2"))
    {'r': ('b', 'c')}
    """
    k = measure.k or 1
    places = np.asarray(ranking.indices[:, :k])
    positive = grades_at(ranking, judgements, depth=k) > 0
    open_ = (places >= 0) & ~positive
    if measure.kind.hit:
        open_ &= ~positive.any(axis=1, keepdims=True)
    elif measure.kind.decided_by == "first":
        open_ &= np.cumsum(positive, axis=1) == 0
    return {
        ranking.queries[row]: tuple(ranking.candidates[c] for c in places[row][open_[row]].tolist())
        for row in np.flatnonzero(open_.any(axis=1)).tolist()
    }


def frame(lists: Mapping[str, Ranking], judgements: Judgements, measures: Sequence[Measure]) -> SamplingFrame:
    """The sampling units of a study: all pairs that one of its systems and measures needs.

    Args:
        lists: Each system's ranking in one direction, up to the depth of the deepest measure.
        judgements: The given positives, query -> candidate.
        measures: The measures to estimate.
    """
    unit = unit_of(measures)
    ranks_by_query: dict[str, dict[str, int]] = {}
    for ranking in lists.values():
        for measure in measures:
            for query, candidates in needed(ranking, judgements, measure).items():
                query_ranks = ranks_by_query.setdefault(query, {})
                for rank, candidate in enumerate(candidates, start=1):
                    query_ranks[candidate] = min(rank, query_ranks.get(candidate, rank))
    if unit == "query":
        ranks = tuple(min(query_ranks.values()) for query_ranks in ranks_by_query.values())
        return SamplingFrame(
            unit, tuple((query, tuple(query_ranks)) for query, query_ranks in ranks_by_query.items()), ranks
        )
    pairs = [(q, (c,), rank) for q, query_ranks in ranks_by_query.items() for c, rank in query_ranks.items()]
    return SamplingFrame(unit, tuple((q, c) for q, c, _ in pairs), tuple(rank for _, _, rank in pairs))


def values(ranking: Ranking, truth: Judgements, measure: Measure) -> FloatArray:
    """The measure of every query, with `truth` as complete judgements.

    >>> lists = Ranking.from_lists({"q": "abc"}, candidates="abc")
    >>> [values(lists, Judgements.from_pairs([("q", "b")]), Measure.parse(m)).tolist() for m in ("R@2", "MRR@2", "P@2")]
    [[1.0], [0.5], [0.5]]
    """
    hits = grades_at(ranking, truth, depth=measure.k or 1) > 0
    first = np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0.0)
    per_query = {"P": hits.mean(axis=1), "MRR": first}.get(measure.name, hits.any(axis=1))
    return np.asarray(per_query, dtype=np.float64)
