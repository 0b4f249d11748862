"""Pooling bias: how much judgements favour the systems that proposed them, and how much the systems differ.

After Chun et al. (2022), appendices A.2 and E. Every system is scored on the judgements pooled by the systems T alone;
the bias of T is the difference between these scores and those on the judgements pooled by all systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from limner.annotate.store.contents import Key, Proposal
from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError, TooShort, shown
from limner.core.judgements import Judgements
from limner.core.progress import ProgressLike, as_progress
from limner.core.ranking import Ranking

Measure = Callable[[Ranking, Judgements], float]


@dataclass(frozen=True)
class Bias:
    """The bias of judgements pooled by some systems.

    Args:
        systems: The systems that pooled.
        overall: `B_T`, over all systems.
        own: The same over the systems that pooled.
        others: The same over the other systems; NaN if all systems pooled.
    """

    systems: tuple[str, ...]
    overall: float
    own: float
    others: float


def bias_of(pooled: Mapping[str, float], full: Mapping[str, float], systems: Sequence[str]) -> Bias:
    """`B_T = mean over systems of |s_T - s_all|`, and its parts for the systems inside and outside T.

    Source: Chun et al. 2022, equation E.5.

    Args:
        pooled: Each system's score on the judgements pooled by `systems` alone, `s_T`.
        full: Each system's score on the judgements pooled by all, `s_all`.
        systems: T, the systems that pooled.

    >>> one = {"PVSE": 76.5, "VSRN": 68.0, "PCME": 67.7, "ViLT": 59.5, "CLIP": 51.7}
    >>> all_of_them = {"PVSE": 76.6, "VSRN": 80.1, "PCME": 77.4, "ViLT": 72.4, "CLIP": 64.3}
    >>> found = bias_of(one, all_of_them, ["PVSE"])
    >>> round(found.overall, 1), round(found.own, 1), round(found.others, 1)
    (9.5, 0.1, 11.8)
    """
    if pooled.keys() != full.keys() or not set(systems) <= full.keys() or not systems:
        raise LimnerError(
            f"scores of {shown(pooled)} and of {shown(full)} for {shown(systems)}: expected the same systems"
        )
    gaps = {name: abs(pooled[name] - full[name]) for name in full}
    inside = [gaps[name] for name in systems]
    outside = [gap for name, gap in gaps.items() if name not in systems]
    return Bias(
        tuple(systems), float(np.mean(list(gaps.values()))), float(np.mean(inside)), float(np.mean(outside or [np.nan]))
    )


def graded_recall(ranking: Ranking, judgements: Judgements) -> float:
    """The mean grade of the first answer: `1/N sum_n m_1(x_n)`, where m is 1 for yes and 0.5 for weak yes.

    Queries without a match count 0: nothing relevant was returned for them. Source: Chun et al. 2022, equations E.2,
    E.4.

    >>> lists = Ranking.from_lists({"q": ["b", "a"]}, candidates=["a", "b"])
    >>> graded_recall(lists, Judgements.from_pairs([("q", "a"), ("q", "b", 0.5)]))
    0.5
    """
    return float(grades_at(ranking, judgements, depth=1)[:, 0].mean())


def graded_r_precision(ranking: Ranking, judgements: Judgements) -> float:
    """The mean grade of the first R(x) answers, with R(x) the number of matches: `1/N sum_n 1/R sum_i m_i(x_n)`.

    Queries without a match are left out; a match outside the pool counts in R and is never found. A perfect ranking
    with weak matches stays below 1, as in the paper; `RP(graded)` divides by the best possible value instead. Source:
    Chun et al. 2022, equations E.3, E.4.

    >>> lists = Ranking.from_lists({"q": ["b", "c", "a"]}, candidates=["a", "b", "c"])
    >>> graded_r_precision(lists, Judgements.from_pairs([("q", "a"), ("q", "b", 0.5)]))
    0.25
    """
    matches = judgements.restrict(queries=ranking.queries).counts
    with_matches = np.flatnonzero(matches > 0)
    if not len(with_matches):
        return float("nan")
    _refuse_short(ranking, matches)
    depths = np.minimum(matches[with_matches], ranking.depth)
    sums = np.cumsum(np.pad(grades_at(ranking, judgements, depth=int(depths.max())), ((0, 0), (1, 0))), axis=1)
    return float((sums[with_matches, depths] / matches[with_matches]).mean())


def _refuse_short(ranking: Ranking, matches: IntArray) -> None:
    """Refuses a list that is shorter than R, unless it contains the whole pool."""
    pool = np.inf if ranking.n_candidates is None else ranking.n_candidates
    short = np.flatnonzero(ranking.lengths < np.minimum(matches, pool))
    if len(short):
        query, n_matches, places = ranking.queries[int(short[0])], matches[short[0]], ranking.lengths[short[0]]
        raise TooShort(
            f"query {query!r} has {n_matches} matches but its list has {places} candidates: expected longer lists"
        )


def grades_at(ranking: Ranking, judgements: Judgements, *, depth: int) -> FloatArray:
    """The grade at every rank of every list up to a depth; 0 if a pair was never judged."""
    aligned = judgements.restrict(queries=ranking.queries, candidates=ranking.candidates)
    lists = np.asarray(ranking.indices[:, :depth], dtype=np.int64)
    width = max(len(ranking.candidates), 1)
    judged_cells = aligned.rows * width + aligned.columns
    ranked_cells = np.arange(len(lists))[:, None] * width + lists
    place = np.searchsorted(judged_cells, ranked_cells)
    inside = np.minimum(place, max(len(judged_cells) - 1, 0))
    hit = (
        (lists >= 0)
        & (place < len(judged_cells))
        & (judged_cells[inside] == ranked_cells if len(judged_cells) else False)
    )
    return np.where(hit, aligned.grades[inside] if len(judged_cells) else 0.0, 0.0)


MEASURES: dict[str, Measure] = {"R@1": graded_recall, "R-Precision": graded_r_precision}


def pooled_by(judgements: Judgements, proposals: Iterable[Proposal], systems: Iterable[str]) -> Judgements:
    """The judgements of pairs that one of these systems proposed; pairs proposed only by others count as unjudged."""
    chosen = set(systems)
    keys: set[Key] = {(p.image, p.caption) for p in proposals if p.system in chosen}
    keep = [(image, caption, grade) for image, caption, grade in judgements if (image, caption) in keys]
    named = {"queries": judgements.queries, "candidates": judgements.candidates}
    return Judgements.from_pairs(keep, **named, name="+".join(sorted(chosen)))


def biases(
    lists: Mapping[str, Ranking],
    judgements: Judgements,
    proposals: Sequence[Proposal],
    *,
    measure: str = "R@1",
    direction: str = "t2i",
    progress: ProgressLike = None,
) -> list[Bias]:
    """The bias of every proper subset of the systems, in percent, small subsets first.

    Args:
        lists: Each system's ranking in this direction.
        judgements: Image -> text, pooled by all.
        proposals: The proposals of each system, up to the pool depth.
        measure: "R@1" or "R-Precision", where a weak yes counts half.
        direction: "t2i" or "i2t".
        progress: Called with the number of subsets done.
    """
    progress = as_progress(progress)
    if measure not in MEASURES:
        raise LimnerError(f"measure {measure!r}: expected one of {', '.join(MEASURES)}")
    names = sorted(lists)
    subsets = [chosen for size in range(1, len(names)) for chosen in combinations(names, size)]
    full = _scored(lists, judgements, MEASURES[measure], direction)
    subset_biases = []
    for number, chosen in enumerate(subsets):
        progress(number, len(subsets))
        part = pooled_by(judgements, proposals, chosen)
        subset_biases.append(bias_of(_scored(lists, part, MEASURES[measure], direction), full, chosen))
    return subset_biases


def _scored(lists: Mapping[str, Ranking], judgements: Judgements, measure: Measure, direction: str) -> dict[str, float]:
    truth = judgements if direction == "i2t" else judgements.T
    return {name: 100 * measure(ranking, truth) for name, ranking in lists.items()}


def by_size(subset_biases: Iterable[Bias]) -> dict[int, Bias]:
    """The mean bias over all subsets of each size: figure E.2 of the paper."""
    groups: dict[int, list[Bias]] = {}
    for each in subset_biases:
        groups.setdefault(len(each.systems), []).append(each)
    return {
        size: Bias((), *(float(np.mean([getattr(b, part) for b in group])) for part in ("overall", "own", "others")))
        for size, group in groups.items()
    }


# --- how much the systems differ --------------------------------------------------------------------------------


def tau(one: Ranking, other_ranking: Ranking, *, depth: int = 25) -> float:
    """The mean over queries of Kendall's tau-b between two systems' top ranks.

    Computed over all candidates in either list; candidates missing from a list share the rank after its end.

    >>> a, b = (Ranking.from_lists({"q": row}, candidates="xyz") for row in (["x", "y"], ["y", "x"]))
    >>> tau(a, a, depth=2), tau(a, b, depth=2)
    (1.0, -1.0)
    """
    from scipy.stats import kendalltau

    values = []
    for query in one.queries:
        first, second = (ranking[query][:depth] for ranking in (one, other_ranking))
        union = sorted({*first, *second})
        places = [[_place(row, key, depth) for key in union] for row in (first, second)]
        value = kendalltau(*places).statistic
        if np.isfinite(value):
            values.append(float(value))
    return float(np.mean(values)) if values else float("nan")


def mean_rank(one: Ranking, other_ranking: Ranking, *, depth: int = 25) -> float:
    """The mean rank of one system's first answer in another's list; `depth` + 1 if the list does not contain it.

    >>> a, b = (Ranking.from_lists({"q": row}, candidates="xyz") for row in (["x", "y"], ["y", "x"]))
    >>> mean_rank(a, b, depth=2)
    2.0
    """
    ranks = [_place(other_ranking[query][:depth], one[query][0], depth) for query in one.queries]
    return float(np.mean(ranks))


def _place(row: Sequence[str], key: str, depth: int) -> int:
    return row.index(key) + 1 if key in row else depth + 1


def diversity(lists: Mapping[str, Ranking], *, depth: int = 25) -> dict[tuple[str, str], tuple[float, float]]:
    """Tau-b and mean rank for every pair of systems, in both orders (the mean rank depends on the order)."""
    taus = {pair: tau(lists[pair[0]], lists[pair[1]], depth=depth) for pair in combinations(lists, 2)}
    both_orders = {**taus, **{(b, a): value for (a, b), value in taus.items()}}
    return {
        pair: (value, mean_rank(lists[pair[0]], lists[pair[1]], depth=depth)) for pair, value in both_orders.items()
    }


def lists_from(proposals: Iterable[Proposal], direction: str) -> dict[str, Ranking]:
    """The systems' lists, as deep as they are stored."""
    ranks: dict[str, dict[str, dict[int, str]]] = {}
    candidates: dict[str, None] = {}
    for p in proposals:
        if p.direction == direction:
            query, candidate = (p.image, p.caption) if direction == "i2t" else (p.caption, p.image)
            ranks.setdefault(p.system, {}).setdefault(query, {})[p.rank] = candidate
            candidates[candidate] = None
    return {
        name: Ranking.from_lists({q: [row[r] for r in sorted(row)] for q, row in lists.items()}, candidates=candidates)
        for name, lists in ranks.items()
    }
