"""Which queries belong together: the captions of one image succeed or fail together, so they form one cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.evaluation.results import ALONE

CAPTIONS = 20
"""With more queries per set of relevant candidates on average, the sets are classes, not images with captions."""
_CAPTION = re.compile(r"(?P<image>.+)#\d+")


def clusters_of(
    queries: Ids, truth: Judgements, groups: Mapping[str, object] | None
) -> tuple[IntArray | None, list[str]]:
    """The cluster of each query of plain judgements, and a note on where it comes from.

    The groups, if there are any; else the image in ids such as `dog.jpg#0`; else queries with the same relevant
    candidates are a cluster. If some queries share only a part of them, or more than `CAPTIONS` share all, as those of
    a class do, no cluster is certain.

    Args:
        queries: The queries.
        truth: Their judgements.
        groups: The group of each query.

    Returns:
        Clusters, numbered from 0, and notes; None if every query counts as independent.

    >>> truth = Judgements.from_pairs([("a", "dog"), ("b", "dog"), ("c", "cat")])
    >>> clusters, notes = clusters_of(Ids("abc"), truth, None)
    >>> clusters.tolist(), clusters_of(Ids("abc"), truth, {"a": 1, "b": 2, "c": 1})[0].tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    if groups is not None:
        return _grouped(queries, groups), []
    ways = (("the same id before '#'", _images_in(queries)), ("the same relevant candidates", _answers(queries, truth)))
    for shared, labels in ways:
        clusters = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        count = int(clusters.max(initial=-1)) + 1
        if 0 < count < len(queries) <= CAPTIONS * count:
            return clusters, [
                f"queries with {shared} count as one cluster: {len(queries):,} queries, {count:,} clusters; pass "
                "groups (-O groups=FILE) if others belong together"
            ]
    return None, [ALONE]


def _grouped(queries: Ids, groups: Mapping[str, object]) -> IntArray:
    ungrouped = [query for query in queries if query not in groups]
    if ungrouped:
        raise LimnerError(f"groups: {len(ungrouped)} queries have no group ({shown(ungrouped)}): give every query one")
    return np.unique([str(groups[query]) for query in queries], return_inverse=True)[1].astype(np.int64)


def _images_in(queries: Ids) -> list[str]:
    """The image in each id; empty if an id names none."""
    matches = [_CAPTION.fullmatch(query) for query in queries]
    return [match["image"] for match in matches if match] if all(matches) else []


def _answers(queries: Ids, truth: Judgements) -> list[str]:
    """One label per set of relevant candidates; empty if two sets overlap in part."""
    pairs = truth.relevant
    sets = [pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]] for row in pairs.queries.positions(queries)]
    labels = [" ".join(map(str, each)) for each in sets]
    distinct = dict(zip(labels, sets, strict=True))
    columns = np.concatenate([*distinct.values(), np.empty(0, np.int64)])
    return labels if len(np.unique(columns)) == len(columns) else []
