"""Ranking: candidates in order for each query, possibly truncated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, IntArray, array, numbers, unmasked
from limner.core.arrow_tables import Tabular
from limner.core.errors import LimnerError
from limner.core.files import replacing, write_text
from limner.core.ids import Ids
from limner.core.markup import SHOWN, html_table
from limner.core.options import OptionValues

Lists = npt.NDArray[np.integer]

SHORT = 1 << 18
"""Up to this many entries, numpy checks a ranking in a few milliseconds; loading a compiled loop takes longer."""


@dataclass(frozen=True, eq=False)
class Ranking(Tabular):
    """The best candidates of each query, best first.

    Args:
        queries: Ids of the queries, one per row.
        candidates: Ids of the candidates that `indices` refers to.
        indices: (queries, depth) positions in `candidates`, best first; -1 pads rows that are shorter.
        scores: The scores behind the order, with the same shape, non-increasing along a row; None if only the order is
                known.
        n_candidates: Size of the pool that was ranked. None when unknown, as in a run file: such a ranking counts as
            truncated, since the rest is unknown.
        notes: Remarks to show with its results, such as contradictory columns in a file.

    >>> r = Ranking.from_lists({"q": ["b", "a"]}, candidates=["a", "b", "c"])
    >>> r.truncated, r["q"]
    (True, ['b', 'a'])
    >>> dict(r)
    {'q': ['b', 'a']}
    """

    queries: Ids
    candidates: Ids
    indices: Lists
    scores: npt.NDArray[np.floating] | None = None
    n_candidates: int | None = None
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Checks shapes, bounds and repeated candidates, and freezes the arrays."""
        object.__setattr__(self, "queries", Ids(self.queries, what="query"))
        object.__setattr__(self, "candidates", Ids(self.candidates, what="candidate"))
        indices = np.ascontiguousarray(unmasked(array(self.indices, "a ranking"), "a ranking"))
        if indices.ndim != 2 or not np.issubdtype(indices.dtype, np.integer) or len(indices) != len(self.queries):
            raise LimnerError(
                f"a ranking of {len(self.queries)} queries has indices of shape {indices.shape} and type "
                f"{indices.dtype}: expected whole numbers, one row per query"
            )
        scores = None if self.scores is None else _real(self.scores)
        self._refuse_bad(indices, scores)
        object.__setattr__(self, "indices", _frozen(indices))
        object.__setattr__(self, "scores", None if scores is None else _frozen(scores))

    def _refuse_bad(self, indices: Lists, scores: npt.NDArray[np.floating] | None) -> None:
        if scores is not None and scores.shape != indices.shape:
            raise LimnerError(
                f"scores of shape {scores.shape} for indices of shape {indices.shape}: expected the same shape"
            )
        if self.n_candidates is not None and self.n_candidates < len(self.candidates):
            raise LimnerError(
                f"n_candidates is {self.n_candidates}, fewer than the {len(self.candidates)} candidates that are named"
            )
        if _short_and_sound(indices, scores, len(self.candidates)):
            return
        from limner.core.ranking_kernels import first_fault

        order_only = np.empty((len(indices), 0))
        row, place = first_fault(indices, order_only if scores is None else scores, len(self.candidates))
        if row >= 0:
            raise LimnerError(
                self._fault(indices[row], None if scores is None else scores[row], self.queries[row], place)
            )

    def _fault(self, row: Lists, scores: npt.NDArray[np.floating] | None, query: str, place: int) -> str:
        """Describes what is wrong with one entry."""
        candidate, at = int(row[place]), f"query {query!r} at rank {place + 1}"
        if candidate == -1:
            return f"the list of {at} holds -1, which may only pad the end of a list: move the entries after it up"
        if not 0 <= candidate < len(self.candidates):
            return f"{at} has candidate position {candidate}, outside 0 to {len(self.candidates) - 1}"
        if candidate in row[:place]:
            return (
                f"query {query!r} ranks candidate {self.candidates[candidate]!r} twice (again at rank {place + 1}): "
                "a repeated positive would count more than once; keep its first place only"
            )
        if scores is not None and np.isnan(scores[place]):
            return f"the score of {at} is NaN: its place in the order is undefined; fix the scores"
        return f"the scores of {at} rise along the list: expected best first, higher is better"

    @property
    def depth(self) -> int:
        """The length of the longest list."""
        return int(self.indices.shape[1])

    @cached_property
    def lengths(self) -> IntArray:
        """The length of each list."""
        return np.asarray((self.indices >= 0).sum(axis=1), dtype=np.int64)

    @property
    def truncated(self) -> bool:
        """Whether some list has fewer candidates than the pool (or the pool is unknown)."""
        return self.n_candidates is None or bool((self.lengths < self.n_candidates).any())

    def __getitem__(self, query: object) -> list[str]:
        """The candidate ids of one query, best first."""
        row = self.indices[self.queries.index(query)]
        return list(self.candidates[row[row >= 0]])

    def __iter__(self) -> Iterator[str]:
        """The ids of the queries."""
        return iter(self.queries)

    def __contains__(self, query: object) -> bool:
        return query in self.queries

    def keys(self) -> Ids:
        """The ids of the queries, so that `dict(ranking)` gives {query id: [candidate ids, best first]}."""
        return self.queries

    def _columns(self) -> OptionValues:
        """One row per entry of a list, for `to_pandas`, `to_polars` and `to_arrow`; ranks begin at 1."""
        row, place = np.nonzero(self.indices >= 0)
        named = {"query": self.queries, "candidate": self.candidates}
        at = {"query": row, "candidate": self.indices[row, place]}
        ids = {name: np.asarray(list(all_ids), dtype=object)[at[name]] for name, all_ids in named.items()}
        return {**ids, "rank": place + 1, **({} if self.scores is None else {"score": self.scores[row, place]})}

    def _repr_html_(self) -> str:
        """A table of the first queries with their first candidates."""
        head = ("query", *(str(k + 1) for k in range(min(SHOWN, self.depth))))
        rows = [(q, *(self[q] + [""] * SHOWN)[: len(head) - 1]) for q in list(self.queries)[:SHOWN]]
        return html_table(f"{len(self.queries):,} queries, lists of up to {self.depth:,}", [head, *rows])

    def top(self, k: int) -> Ranking:
        """The first k of every list."""
        scores = None if self.scores is None else self.scores[:, :k]
        return Ranking(self.queries, self.candidates, self.indices[:, :k], scores, self.n_candidates or None)

    @classmethod
    def from_lists(
        cls,
        lists: Mapping[Any, Iterable[object] | Mapping[Any, float]],
        *,
        candidates: Iterable[object] | None = None,
        n_candidates: int | None = None,
    ) -> Ranking:
        """Builds a ranking from {query id: [candidate ids, best first]}, or {query id: {candidate id: score}}.

        `candidates` names the whole pool, so that truncation is known. Without it the pool is the candidates in the
        lists, and its size is unknown unless `n_candidates` gives it.
        """
        rows, scored = {}, {}
        for query, row in lists.items():
            ids = list(map(str, row))
            if isinstance(row, Mapping):
                scores = _numbers(row)
                order = np.argsort(-scores, kind="stable")  # equal scores keep their order
                ids, scored[str(query)] = [ids[place] for place in order.tolist()], scores[order]
            rows[str(query)] = ids
        pool = Ids(
            dict.fromkeys(c for row in rows.values() for c in row) if candidates is None else candidates,
            what="candidate",
        )
        indices = np.full((len(rows), max(map(len, rows.values()), default=0)), -1, dtype=np.int64)
        for number, row in enumerate(rows.values()):
            indices[number, : len(row)] = pool.positions(row)
        all_scores = _padded(list(scored.values()), indices) if scored and len(scored) == len(rows) else None
        size = len(pool) if candidates is not None and n_candidates is None else n_candidates
        return cls(Ids(rows, what="query"), pool, indices, all_scores, size)

    def save(self, path: str | Path, *, tag: str = "limner") -> Path:
        """Writes a TREC run, or JSON lists if the file ends in .json."""
        target = Path(path)
        if target.suffix.lower() == ".json":
            write_text(target, json.dumps({q: self[q] for q in self.queries}))
        else:
            with replacing(target) as draft, draft.open("w", encoding="utf-8") as file:
                file.writelines(self._run_lines(tag))
        return target

    def _run_lines(self, tag: str) -> Iterable[str]:
        for number, query in enumerate(self.queries):
            for place, index in enumerate(self.indices[number]):
                if index >= 0:
                    score = float(-place) if self.scores is None else float(self.scores[number, place])
                    yield f"{query} Q0 {self.candidates[int(index)]} {place + 1} {score!r} {tag}\n"

    def __len__(self) -> int:
        return len(self.queries)

    def __repr__(self) -> str:
        pool = "an unknown pool" if self.n_candidates is None else f"{self.n_candidates:,} candidates"
        return f"Ranking({len(self):,} queries, top {self.depth:,} of {pool})"


def _numbers(scored: Mapping[Any, float]) -> npt.NDArray[np.float64]:
    """The scores of a list; refuses what is no number."""
    if all(issubclass(kind, (int, float, np.number)) for kind in set(map(type, scored.values()))):
        with suppress(OverflowError):  # a whole number of hundreds of digits
            scores = np.fromiter(scored.values(), dtype=np.float64, count=len(scored))
            if not np.isnan(scores).any():
                return scores
    wrong = next(candidate for candidate, score in scored.items() if not _is_number(score))
    raise LimnerError(f"the score of candidate {wrong!r} is {_short(scored[wrong])}: expected a number")


def _short(score: object) -> str:
    """A value for a message; Python refuses to print whole numbers of thousands of digits."""
    return "a huge number" if isinstance(score, int) else repr(score)[:40]


def _is_number(score: object) -> bool:
    """Whether a score is a number that fits into a double."""
    if not isinstance(score, (int, float, np.number)):
        return False
    try:
        return not np.isnan(float(score))
    except OverflowError:
        return False


def _padded(rows: Sequence[npt.NDArray[np.float64]], like: Lists) -> npt.NDArray[np.float64]:
    """Scores in the shape of the indices; -inf where a list is shorter."""
    scores = np.full(like.shape, -np.inf)
    for number, row in enumerate(rows):
        scores[number, : len(row)] = row
    return scores


def _short_and_sound(indices: Lists, scores: npt.NDArray[np.floating] | None, candidates: int) -> bool:
    """Whether full lists that are not too long are valid; checked without the compiled loops."""
    if not 0 < indices.size <= SHORT:
        return False
    in_range = indices.min() >= 0 and indices.max() < candidates
    twice = (np.diff(np.sort(indices, axis=1)) == 0).any()
    falling = scores is None or not (np.isnan(scores).any() or (scores[:, 1:] > scores[:, :-1]).any())
    return bool(in_range and falling and not twice)


def _real(values: object) -> npt.NDArray[np.floating]:
    """Keeps float32 and float64 unchanged and converts all others to float64."""
    name = "scores of a ranking"
    scores = numbers(unmasked(array(values, name), name), name)
    return scores if scores.dtype in (np.float32, np.float64) else scores.astype(np.float64)


def _frozen(array: Array) -> Array:
    view = array.view()  # a view, so that the caller's array stays writeable
    view.flags.writeable = False
    return view
