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


def levels(lists: Mapping[str, Ranking], known: Judgements) -> list[list[tuple[str, ...]]]:
    """The candidates of the first two levels for each query of `known`; the second level includes the first.

    Args:
        lists: Each system's ranking, to the depth given by `depth_of`, or the whole pool if it is smaller.
        known: The given positives, query -> candidate; they need no label.
    """
    head = max(max(ranking.depth for ranking in lists.values()) // NEXT, 1)
    given: dict[str, set[str]] = {query: set() for query in known.queries}
    for query, candidate, _ in known.relevant:
        given[query].add(candidate)
    rows = [ranking.indices[ranking.queries.positions(known.queries)].tolist() for ranking in lists.values()]
    names = [list(ranking.candidates) for ranking in lists.values()]
    best = [_best(listed, names, given[query]) for query, *listed in zip(known.queries, *rows, strict=True)]
    first = [tuple(c for c, rank in each.items() if rank < head) for each in best]
    return [first, [tuple(each)[: len(own) * NEXT] for each, own in zip(best, first, strict=True)]]


def _best(listed: Sequence[list[int]], names: Sequence[list[str]], given: set[str]) -> dict[str, int]:
    """The best rank of each candidate that is not a given positive, in order of rank."""
    best: dict[str, int] = {}
    for columns, own in zip(listed, names, strict=True):
        for rank, column in enumerate(columns):
            if column >= 0 and (candidate := own[column]) not in given:
                best[candidate] = min(rank, best.get(candidate, rank))
    return dict(sorted(best.items(), key=lambda item: item[1]))


def units_of(made: Sequence[Sequence[tuple[str, ...]]], known: Judgements) -> list[Unit]:
    """All units of a design, level by level; the candidates of the last level are filled in when it is drawn."""
    upper = [
        Unit(query, candidates, level)
        for level, each in enumerate(made)
        for query, candidates in zip(known.queries, each, strict=True)
    ]
    return upper + [Unit(query, (), len(made)) for query in known.queries]


def whole(known: Judgements, query: str) -> tuple[str, ...]:
    """Every candidate of a query that is not a given positive."""
    given = set(known.columns[known.rows == known.queries.index(query)].tolist())
    return tuple(c for n, c in enumerate(known.candidates) if n not in given)


def costs(made: Sequence[Sequence[tuple[str, ...]]], known: Judgements) -> FloatArray:
    """Mean number of labels per unit of each level."""
    pool = len(known.candidates) - len(known) / len(known.queries)
    return np.array([*(float(np.mean([len(c) for c in each])) for each in made), pool])


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
    least = least_labels(each)
    if budget is not None and budget < least:
        raise LimnerError(
            f"{direction}: {budget:,} labels are too few for measures that need all matches of a query: expected "
            f"{least:,} or more ({LEAST} queries at each level, the last with all {int(each[-1]):,} candidates, and "
            "more at the cheap levels), or only R@k, S@k, MRR@k and P@k, which need far fewer"
        )


def _last(made: Design) -> int:
    return made.units[-1].stratum


def has_positive(queries: Ids, known: Judgements) -> BoolArray:
    """Whether each query has a given positive: a measure is the mean over these; refused if there is none.

    >>> has_positive(Ids(["q", "r"]), Judgements.from_pairs([("q", "a")])).tolist()
    [True, False]
    """
    positive = np.isin(known.queries.find(queries), np.flatnonzero(known.counts))
    if not positive.any():
        raise LimnerError(f"{shown(queries)}: no query has a given positive, so no measure can be computed")
    return positive


def with_positives(known: Judgements) -> Judgements:
    """The given positives of the queries that have one; a design of levels covers only these queries."""
    rows = np.flatnonzero(has_positive(known.queries, known))
    return known.relevant.restrict(queries=known.queries[rows])


def given_values(source: Scores | Ranking, known: Judgements, measures: Sequence[Measure]) -> dict[Measure, float]:
    """Each measure under the given positives alone."""
    (placed,), _ = place(source, [RankRequest(known)])
    return {measure: float(measure(placed).mean()) for measure in measures}


def before_and_after(
    source: Scores | Ranking,
    made: Design,
    units: Sequence[int],
    known: Judgements,
    said: Mapping[Key, bool],
    measures: Sequence[Measure],
) -> dict[Measure, Steps]:
    """Each measure of the query of each labelled unit, without and with the labels of its level: `v_{l-1}` and `v_l`.

    Args:
        source: Scores or a ranking in the design's direction.
        made: The design.
        units: Its units that people have labelled.
        known: The given positives of all queries of the design.
        said: The human label of each (image, caption).
        measures: Measures.
    """
    found: dict[Measure, Steps] = {measure: {} for measure in measures}
    if not units:
        return found
    queries = list(dict.fromkeys(made.units[n].query for n in units))
    part = source.restrict(queries=queries) if isinstance(source, Scores) else source
    by_level = [[n for n in units if made.units[n].stratum == level] for level in range(_last(made) + 1)]
    asked = [
        RankRequest(_revealed(made, numbers, down_to, known, said))
        for level, numbers in enumerate(by_level)
        for down_to in (level - 1, level)
    ]
    placed, _ = place(part, asked)
    for numbers, before, after in zip(by_level, placed[::2], placed[1::2], strict=True):
        number = {made.units[n].query: n for n in numbers}
        for measure in measures:
            both = zip(measure(before).tolist(), measure(after).tolist(), strict=True)
            found[measure] |= {number[q]: step for q, step in zip(after.queries, both, strict=True)}
    return found


def matches_found(made: Design, units: Sequence[int], said: Mapping[Key, bool]) -> list[float]:
    """For each labelled unit, the number of new matches compared with the level above."""
    many = len(made.units) // (_last(made) + 1)
    found = []
    for n in units:
        count = [
            sum(bool(said.get(pair)) for pair in made.units[each].pairs(made.direction))
            for each in (n, n - many)
            if each >= 0
        ]
        found.append(float(count[0] - sum(count[1:])))
    return found


def _revealed(
    made: Design, units: Sequence[int], level: int, known: Judgements, said: Mapping[Key, bool]
) -> Judgements:
    """The given positives of these units' queries, and the matches that people found up to a level."""
    queries = [made.units[n].query for n in units]
    many = len(made.units) // (_last(made) + 1)
    pairs: list[tuple[str, str]] = []
    for n in units if level >= 0 else ():
        unit = made.units[level * many + n % many]
        keys = zip(unit.candidates, unit.pairs(made.direction), strict=True)
        pairs += [(unit.query, c) for c, key in keys if said.get(key)]
    given = known.restrict(queries=queries)
    return given | Judgements.from_pairs(pairs, queries=given.queries, candidates=given.candidates)


def spread(found: Iterable[Steps], codes: IntArray, strata: int) -> FloatArray:
    """The standard deviation that matters at each level, for the system and measure where it is largest.

    This is the deviation of what the level above does not predict, times the weight of the level in the estimate. The
    prior expectation counts as two additional answers.
    """
    expected, most = np.array(EXPECTED), np.zeros(strata)
    for each in found:
        at = codes[np.array(list(each), dtype=np.int64)]
        sizes, both = np.bincount(codes, minlength=strata), np.array(list(each.values()), dtype=np.float64)
        y = chain(both[:, 0], both[:, 1], at, sizes).values if each else np.empty(0)
        for level in range(strata):
            own = y[at == level]
            square = float(((own - own.mean()) ** 2).sum()) if len(own) else 0.0
            most[level] = max(most[level], (square + 2 * expected[level] ** 2) / (max(len(own) - 1, 0) + 2))
    return np.asarray(np.sqrt(most))
