"""Measures that need all matches of a query: the pool is labelled level by level, each level for fewer queries.

The levels of a query's pool are nested: the top of every system's list, then the next ranks, and finally all
candidates. With `v_l` the measure of a query when the matches of the first l levels are known, and `v_0` the measure
under the given positives alone, the mean of `v_0` is known, and the mean of each next value follows from a random
sample of queries of its own: `mean(v_l - b v_{l-1}) + b T_{l-1}`, with `T_{l-1}` the estimate one level above and b the
factor of a regression (`limner.stats.chained_means`). Deep levels cost many labels, and what they change is predicted
well by the value above, so only a few queries have to be labelled completely. The last level is the whole pool, so the
estimate is unbiased for any system; a ratio with an estimated number of matches would be biased. Any per-query measure
of any system can be estimated this way, even for a system added after the labelling. No judge is used: levels chosen by
a bad judge would widen the intervals.

Neyman 1938 (two-phase sampling); Giles 2008 (multilevel Monte Carlo) for the allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from limner.annotate.store.contents import Key
from limner.annotate.store.designs import Design, Unit
from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure
from limner.evaluation.placements import RankRequest, place
from limner.scores import Scores
from limner.stats.chained import chain

HEAD = 10
"""Ranks of each list in the first level, or the deepest cut-off if that is larger."""
NEXT = 5
"""The second level has this many times more ranks."""
LEAST = 12
"""Queries drawn at every level first."""
FLOOR = 1.5
"""The smallest design costs this many times as much as `LEAST` queries at every level. With fewer labels the first
levels have so few queries that intervals cover too much or too little (proofs/few_labels.py)."""
EXPECTED = (0.15, 0.09, 0.06)
"""Standard deviation at each level that a plan expects before any labels, of what the level above does not predict."""
PRIOR = (0.25, 0.15, 0.1)
"""The same, with a margin, for intervals: a few equal answers do not give certainty."""
OF_DIFFERENCES = 0.5
"""The share of it for differences of two systems, which vary less."""
Steps = dict[int, tuple[float, float]]
"""By unit: the measure of its query before the labels of its level, and with them."""


def refuse_unfit(measures: Iterable[Measure]) -> None:
    """Refuses a measure that is not a mean over queries of values between 0 and 1 from binary relevance."""
    for measure in measures:
        kind = measure.kind
        plain = measure.statistic == "mean" and kind.bounds == (0.0, 1.0) and not kind.judged
        if not plain or kind.composite or measure.options:
            raise LimnerError(
                f"{measure} cannot be estimated from few labels: expected a mean over queries of values between 0 and "
                "1, without options, such as R@1, P@5, mAP@R, RP, Recall@10, nDCG@10 or MAP"
            )


def depth_of(measures: Iterable[Measure]) -> int:
    """The number of ranks of each list that a design of levels uses."""
    head = max([HEAD, *(m.k or 0 for m in measures)])
    return head * NEXT


def levels(lists: Mapping[str, Ranking], judgements: Judgements) -> list[list[tuple[str, ...]]]:
    """The candidates of the first two levels for each query of `judgements`; the second level includes the first.

    Args:
        lists: Each system's ranking, to the depth given by `depth_of`, or the whole pool if it is smaller.
        judgements: The given positives, query -> candidate; they need no label.
    """
    head = max(max(ranking.depth for ranking in lists.values()) // NEXT, 1)
    positives: dict[str, set[str]] = {query: set() for query in judgements.queries}
    for query, candidate, _ in judgements.relevant:
        positives[query].add(candidate)
    rows = [ranking.indices[ranking.queries.positions(judgements.queries)].tolist() for ranking in lists.values()]
    names = [list(ranking.candidates) for ranking in lists.values()]
    best = [_best(listed, names, positives[query]) for query, *listed in zip(judgements.queries, *rows, strict=True)]
    first = [tuple(c for c, rank in each.items() if rank < head) for each in best]
    return [first, [tuple(each)[: len(top) * NEXT] for each, top in zip(best, first, strict=True)]]


def _best(listed: Sequence[list[int]], names: Sequence[list[str]], positives: set[str]) -> dict[str, int]:
    """The best rank of each candidate that is not a given positive, in order of rank."""
    best: dict[str, int] = {}
    for columns, ids in zip(listed, names, strict=True):
        for rank, column in enumerate(columns):
            if column >= 0 and (candidate := ids[column]) not in positives:
                best[candidate] = min(rank, best.get(candidate, rank))
    return dict(sorted(best.items(), key=lambda item: item[1]))


def units_of(upper_levels: Sequence[Sequence[tuple[str, ...]]], judgements: Judgements) -> list[Unit]:
    """All units of a design, level by level; the candidates of the last level are filled in when it is drawn."""
    upper = [
        Unit(query, candidates, level)
        for level, each in enumerate(upper_levels)
        for query, candidates in zip(judgements.queries, each, strict=True)
    ]
    return upper + [Unit(query, (), len(upper_levels)) for query in judgements.queries]


def all_candidates(judgements: Judgements, query: str) -> tuple[str, ...]:
    """Every candidate of a query that is not a given positive."""
    positives = set(judgements.columns[judgements.rows == judgements.queries.index(query)].tolist())
    return tuple(c for n, c in enumerate(judgements.candidates) if n not in positives)


def costs(upper_levels: Sequence[Sequence[tuple[str, ...]]], judgements: Judgements) -> FloatArray:
    """Mean number of labels per unit of each level."""
    pool = len(judgements.candidates) - len(judgements) / len(judgements.queries)
    return np.array([*(float(np.mean([len(c) for c in each])) for each in upper_levels), pool])


def smallest(each: FloatArray) -> FloatArray:
    """The number of queries at each level of the smallest design: `LEAST`, and the rest of its cost by need.

    Args:
        each: Number of labels per query of each level.

    >>> smallest(np.array([20.0, 100.0, 1000.0])).round().tolist()
    [77.0, 29.0, 16.0]
    """
    need = np.array(EXPECTED) / np.sqrt(np.maximum(each, 1))
    return np.asarray(LEAST + (FLOOR - 1) * LEAST * each.sum() / (need @ each) * need)


def least_labels(each: FloatArray) -> int:
    """The cost of the smallest design."""
    return int(np.ceil(FLOOR * LEAST * each.sum()))


def refuse_small(budget: int | None, each: FloatArray, direction: str) -> None:
    """Refuses a budget below the cost of the smallest design."""
    minimum = least_labels(each)
    if budget is not None and budget < minimum:
        raise LimnerError(
            f"{direction}: {budget:,} labels are too few for measures that need all matches of a query: expected "
            f"{minimum:,} or more ({LEAST} queries at each level, the last with all {int(each[-1]):,} candidates, and "
            "more at the cheap levels), or only R@k, S@k, MRR@k and P@k, which need far fewer"
        )


def _last(design: Design) -> int:
    return design.units[-1].stratum


def has_positive(queries: Ids, judgements: Judgements) -> BoolArray:
    """Whether each query has a given positive: a measure is the mean over these; refused if there is none.

    >>> has_positive(Ids(["q", "r"]), Judgements.from_pairs([("q", "a")])).tolist()
    [True, False]
    """
    positive = np.isin(judgements.queries.find(queries), np.flatnonzero(judgements.counts))
    if not positive.any():
        raise LimnerError(f"{shown(queries)}: no query has a given positive, so no measure can be computed")
    return positive


def with_positives(judgements: Judgements) -> Judgements:
    """The given positives of the queries that have one; a design of levels covers only these queries."""
    rows = np.flatnonzero(has_positive(judgements.queries, judgements))
    return judgements.relevant.restrict(queries=judgements.queries[rows])


def given_values(source: Scores | Ranking, judgements: Judgements, measures: Sequence[Measure]) -> dict[Measure, float]:
    """Each measure under the given positives alone."""
    (placed,), _ = place(source, [RankRequest(judgements)])
    return {measure: float(measure(placed).mean()) for measure in measures}


def before_and_after(
    source: Scores | Ranking,
    design: Design,
    units: Sequence[int],
    judgements: Judgements,
    labels: Mapping[Key, bool],
    measures: Sequence[Measure],
) -> dict[Measure, Steps]:
    """Each measure of the query of each labelled unit, without and with the labels of its level: `v_{l-1}` and `v_l`.

    Args:
        source: Scores or a ranking in the design's direction.
        design: The design.
        units: Its units that people have labelled.
        judgements: The given positives of all queries of the design.
        labels: The human label of each (image, caption).
        measures: Measures.
    """
    steps: dict[Measure, Steps] = {measure: {} for measure in measures}
    if not units:
        return steps
    queries = list(dict.fromkeys(design.units[n].query for n in units))
    part = source.restrict(queries=queries) if isinstance(source, Scores) else source
    by_level = [[n for n in units if design.units[n].stratum == level] for level in range(_last(design) + 1)]
    requests = [
        RankRequest(_revealed(design, numbers, down_to, judgements, labels))
        for level, numbers in enumerate(by_level)
        for down_to in (level - 1, level)
    ]
    placed, _ = place(part, requests)
    for numbers, before, after in zip(by_level, placed[::2], placed[1::2], strict=True):
        number = {design.units[n].query: n for n in numbers}
        for measure in measures:
            pairs = zip(measure(before).tolist(), measure(after).tolist(), strict=True)
            steps[measure] |= {number[q]: step for q, step in zip(after.queries, pairs, strict=True)}
    return steps


def matches_found(design: Design, units: Sequence[int], labels: Mapping[Key, bool]) -> list[float]:
    """For each labelled unit, the number of new matches compared with the level above."""
    n_queries = len(design.units) // (_last(design) + 1)
    counts = []
    for n in units:
        count = [
            sum(bool(labels.get(pair)) for pair in design.units[each].pairs(design.direction))
            for each in (n, n - n_queries)
            if each >= 0
        ]
        counts.append(float(count[0] - sum(count[1:])))
    return counts


def _revealed(
    design: Design, units: Sequence[int], level: int, judgements: Judgements, labels: Mapping[Key, bool]
) -> Judgements:
    """The given positives of these units' queries, and the matches that people found up to a level."""
    queries = [design.units[n].query for n in units]
    n_queries = len(design.units) // (_last(design) + 1)
    pairs: list[tuple[str, str]] = []
    for n in units if level >= 0 else ():
        unit = design.units[level * n_queries + n % n_queries]
        keys = zip(unit.candidates, unit.pairs(design.direction), strict=True)
        pairs += [(unit.query, c) for c, key in keys if labels.get(key)]
    positives = judgements.restrict(queries=queries)
    return positives | Judgements.from_pairs(pairs, queries=positives.queries, candidates=positives.candidates)


def spread(steps: Iterable[Steps], codes: IntArray, strata: int) -> FloatArray:
    """The standard deviation that matters at each level, for the system and measure where it is largest.

    This is the deviation of what the level above does not predict, times the weight of the level in the estimate. The
    prior expectation counts as two additional answers.
    """
    expected, largest = np.array(EXPECTED), np.zeros(strata)
    for each in steps:
        at = codes[np.array(list(each), dtype=np.int64)]
        sizes, step_values = np.bincount(codes, minlength=strata), np.array(list(each.values()), dtype=np.float64)
        y = chain(step_values[:, 0], step_values[:, 1], at, sizes).values if each else np.empty(0)
        for level in range(strata):
            at_level = y[at == level]
            square = float(((at_level - at_level.mean()) ** 2).sum()) if len(at_level) else 0.0
            largest[level] = max(largest[level], (square + 2 * expected[level] ** 2) / (max(len(at_level) - 1, 0) + 2))
    return np.asarray(np.sqrt(largest))
