"""Queries that are only in the run or only in the judgements: how they count, and notes about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.scores import Scores

_COUNTED = {"empty": "count as empty lists", "skip": "are left out"}


def without_missing(
    source: Scores | Ranking, judged: Sequence[tuple[str, Judgements]], missing: str
) -> tuple[Scores | Ranking, list[Judgements], list[str]]:
    """Restricts a system and judgements to the same queries.

    Args:
        source: The output of the system.
        judged: Judgements of each view, with the name of the view.
        missing: What to do with a query that has relevant candidates but is not ranked: count it as an "empty" list, or
            "skip" it.

    Returns:
        The system, with empty lists if they count; the judgements, without skipped queries; and notes.
    """
    missing_of = {view: _unranked(source.queries, judgements) for view, judgements in judged}
    if not any(missing_of.values()):
        return source, [judgements for _, judgements in judged], []
    notes = [
        f"{view}: {len(ids):,} queries with relevant candidates are not ranked ({shown(ids)}) and {_COUNTED[missing]}"
        for view, ids in missing_of.items()
        if ids
    ]
    if missing == "skip":
        return source, [_without_queries(judgements, missing_of[view]) for view, judgements in judged], notes
    every = dict.fromkeys(query for ids in missing_of.values() for query in ids)
    return _with_empty(source, every), [judgements for _, judgements in judged], notes


def _unranked(ranked: Ids, judgements: Judgements) -> list[str]:
    """Queries with a relevant candidate that are not ranked."""
    absent = (ranked.find(judgements.queries) < 0) & (judgements.counts > 0)
    return list(judgements.queries[np.flatnonzero(absent)])


def _without_queries(judgements: Judgements, queries: Sequence[str]) -> Judgements:
    gone = set(queries)
    return judgements.restrict(queries=[q for q in judgements.queries if q not in gone]) if gone else judgements


def _with_empty(source: Scores | Ranking, queries: Iterable[str]) -> Ranking:
    if not isinstance(source, Ranking):
        raise LimnerError(
            "missing='empty' is for rankings, whose lists may be empty: score the missing queries too, or leave "
            "them out with missing='skip'"
        )
    names = Ids([*source.queries, *queries], what="query")
    n_missing = len(names) - len(source.queries)
    indices = np.concatenate([source.indices, np.full((n_missing, source.depth), -1, dtype=source.indices.dtype)])
    scores = source.scores
    if scores is not None:
        scores = np.concatenate([scores, np.full((n_missing, source.depth), -np.inf, dtype=scores.dtype)])
    return Ranking(names, source.candidates, indices, scores, source.n_candidates, notes=source.notes)


def unjudged_queries(source: Scores | Ranking, judgements: Judgements) -> list[str]:
    """A note on ranked queries without judgements, which are ignored."""
    extra = [query for query in source.queries if query not in judgements.queries]
    if not extra:
        return []
    return [f"{len(extra):,} queries of the ranking have no judgements ({shown(extra)}) and do not count"]
