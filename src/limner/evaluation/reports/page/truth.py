"""The status of a returned item: labelled, relevant only by more complete judgements, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from limner.core.arrays import BoolArray
from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.protocols import PROTOCOLS


@dataclass(frozen=True)
class Mark:
    """The mark of a returned item: a style, a symbol that does not depend on colour, and a description."""

    style: str
    sign: str
    words: str


LABELLED = Mark("labelled", "✓", "labelled")
UNKNOWN = Mark("unknown", "", "not known to be right")


@dataclass(frozen=True, eq=False)
class Truth:
    """Look-up of the judgements of a collection, item by item.

    Args:
        collection: The collection with the judgements; if None, nothing can be marked.
    """

    collection: Collection | None

    @cached_property
    def fuller(self) -> list[str]:
        """Names of further judgements with relevant pairs that are not labelled, those with the most first.

        Only binary judgements can call an answer right: in raw scores, such as those of Flickr8k's experts, even
        unrelated pairs have grades above 0.
        """
        if self.collection is None:
            return []
        labels, extra = self.collection.judgements, self.collection.extra
        plain = {name: j.relevant for name, j in extra.items() if set(np.unique(j.grades)) <= {0.0, 1.0}}
        added = {name: int((~_in_reference(pairs, labels)).sum()) for name, pairs in plain.items()}
        return sorted((name for name, n_added in added.items() if n_added), key=lambda name: -added[name])

    @property
    def base(self) -> str:
        """The name of the usual labels."""
        return self.collection.judgements.name if self.collection is not None else ""

    def judgements_of(self, view: str) -> str | None:
        """The name of the judgements behind a view of a report, or None if unknown."""
        if self.collection is None:
            return None
        judgements_of_view = {v.name: v.judgements for protocol in PROTOCOLS.values() for v in protocol.views}
        name = view if view in self.collection.all_judgements else judgements_of_view.get(view)
        return name if name in self.collection.all_judgements else None

    def judged(self, name: str, direction: str) -> Judgements | None:
        """Judgements by name in one direction; None without a collection or for a run of unknown kind."""
        if self.collection is None or direction not in ("i2t", "t2i"):
            return None
        return self.collection.judged(name, direction)

    def mark(self, direction: str, query: str, candidate: str) -> Mark | None:
        """The mark of one returned item; None if there are no judgements."""
        base = self.judged(self.base, direction)
        if base is None:
            return None
        if _grade(base, query, candidate):
            return LABELLED
        names = (name for name in self.fuller if _grade(self.judged(name, direction), query, candidate))
        name = next(names, None)
        return UNKNOWN if name is None else also(name)

    def labelled(self, direction: str, query: str) -> list[str]:
        """The candidates that the labels pair with a query."""
        base = self.judged(self.base, direction)
        if base is None or query not in base.queries:
            return []
        row = base.queries.index(query)
        columns = base.columns[base.indptr[row] : base.indptr[row + 1]]
        grades = base.grades[base.indptr[row] : base.indptr[row + 1]]
        return list(base.candidates[columns[grades > 0]])


def also(name: str) -> Mark:
    """The mark of an item that is right only by more complete judgements."""
    return Mark("also", "+", f"right by {name}, not labelled")


def _grade(judgements: Judgements | None, query: str, candidate: str) -> float:
    if judgements is None or query not in judgements.queries or candidate not in judgements.candidates:
        return 0.0
    return judgements.grade(query, candidate) or 0.0


def _in_reference(pairs: Judgements, reference: Judgements) -> BoolArray:
    """Which relevant pairs are also relevant in the other judgements."""
    same_items = reference.relevant.restrict(queries=pairs.queries, candidates=pairs.candidates)
    width = max(len(pairs.candidates), 1)
    return np.isin(pairs.rows * width + pairs.columns, same_items.rows * width + same_items.columns)


def missing(fuller: Judgements, base: Judgements) -> tuple[int, int, int, int]:
    """Counts over queries with more complete judgements: queries, labelled, relevant, and relevant but not labelled."""
    pairs = fuller.relevant
    with_relevant = [q for q, n in zip(fuller.queries, fuller.counts, strict=True) if n]
    labelled = len(base.restrict(queries=[q for q in with_relevant if q in base.queries]))
    return len(with_relevant), labelled, len(pairs), int((~_in_reference(pairs, base)).sum())


def relevant_in(ranking: Ranking, judgements: Judgements) -> BoolArray:
    """Which entries of a ranking are relevant: one row per query, one column per rank."""
    same_items = judgements.relevant.restrict(queries=ranking.queries, candidates=ranking.candidates)
    width = max(len(ranking.candidates), 1)
    keys = np.arange(len(ranking.queries))[:, None] * width + ranking.indices
    return np.asarray(np.isin(keys, same_items.rows * width + same_items.columns) & (ranking.indices >= 0))


def spread(rows: Sequence[int] | npt.NDArray[np.int64], count: int) -> list[int]:
    """At most `count` of these, evenly spaced: a deterministic sample.

    >>> spread([0, 1, 2, 3, 4, 5, 6, 7, 8], 3)
    [1, 4, 7]
    """
    if len(rows) <= count:
        return [int(r) for r in rows]
    return [int(rows[int((i + 0.5) * len(rows) / count)]) for i in range(count)]
