"""Judgements: which candidates are relevant to which queries, and to what degree.

The original pairs of a data set, CxC ratings, ECCV Caption, plausible matches, crowd votes and your own annotations
are all of this type, so that "COCO R@1" and "ECCV R@1" are the same measure on two sets of judgements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError
from limner.core.ids import Ids


@dataclass(frozen=True, eq=False)
class Judgements:
    """Sparse graded relevance between queries and candidates.

    A grade above 0 means relevant, and grade 0 means judged and not relevant. A pair that is absent was never judged,
    which is not the same as grade 0. Entries are sorted by row, then column.

    Args:
        queries: Ids of the queries (rows).
        candidates: Ids of the candidates (columns).
        rows: Row of each judged pair.
        columns: Column of each judged pair.
        grades: Grade of each judged pair, finite and not negative.
        name: Name of these judgements in reports.

    >>> pairs = Judgements.from_pairs([("dog.jpg", "a dog"), ("cat.jpg", "a cat"), ("cat.jpg", "a pet", 0.5)])
    >>> len(pairs), pairs.grade("cat.jpg", "a pet"), pairs.T.grade("a dog", "dog.jpg")
    (3, 0.5, 1.0)
    """

    queries: Ids
    candidates: Ids
    rows: IntArray
    columns: IntArray
    grades: FloatArray
    name: str = field(default="pairs")

    def __post_init__(self) -> None:
        """Sorts, checks and freezes the arrays."""
        rows, columns = (np.asarray(a, dtype=np.int64) for a in (self.rows, self.columns))
        grades = np.asarray(self.grades, dtype=np.float64)
        if not rows.shape == columns.shape == grades.shape or rows.ndim != 1:
            raise LimnerError(
                "judgements need rows, columns and grades of one length; "
                f"got {rows.shape}, {columns.shape}, {grades.shape}"
            )
        self._refuse_bad(rows, columns, grades)
        key = rows * max(len(self.candidates), 1) + columns
        if len(key) > 1 and not (key[1:] > key[:-1]).all():
            order = np.argsort(key, kind="stable")
            rows, columns, grades, key = rows[order], columns[order], grades[order], key[order]
            self._refuse_repeated(rows, columns, key)
        for name, array in (("rows", rows), ("columns", columns), ("grades", grades)):
            frozen = array.view()  # a view, so that the caller's array stays writeable
            frozen.flags.writeable = False
            object.__setattr__(self, name, frozen)

    def _refuse_bad(self, rows: IntArray, columns: IntArray, grades: FloatArray) -> None:
        for axis, index, size in (("row", rows, len(self.queries)), ("column", columns, len(self.candidates))):
            outside = np.flatnonzero((index < 0) | (index >= size))
            if len(outside):
                at = outside[0]
                raise LimnerError(f"judgement {at} has {axis} {index[at]}, expected 0 to {size - 1}")
        bad = np.flatnonzero(~np.isfinite(grades) | (grades < 0))
        if len(bad):
            q, c = self.queries[int(rows[bad[0]])], self.candidates[int(columns[bad[0]])]
            raise LimnerError(
                f"judgement of query {q!r} and candidate {c!r} has grade {grades[bad[0]]}: "
                "expected a finite number, 0 or above"
            )

    def _refuse_repeated(self, rows: IntArray, columns: IntArray, key: IntArray) -> None:
        repeats = np.flatnonzero(key[1:] == key[:-1])
        if len(repeats):
            q, c = self.queries[int(rows[repeats[0]])], self.candidates[int(columns[repeats[0]])]
            raise LimnerError(
                f"query {q!r} and candidate {c!r} are judged more than once ({len(repeats)} repeated pairs): "
                "keep one grade per pair, or merge two Judgements with |"
            )

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[tuple[object, object] | tuple[object, object, float]],
        *,
        queries: Iterable[object] | None = None,
        candidates: Iterable[object] | None = None,
        name: str = "pairs",
    ) -> Judgements:
        """Builds judgements from (query id, candidate id[, grade]) tuples; the grade is 1 if none is given.

        Without `queries` or `candidates`, ids are numbered in order of appearance. If they are given, any other id is
        refused.
        """
        listed = [(str(p[0]), str(p[1]), float(p[2]) if len(p) > 2 else 1.0) for p in pairs]
        query_ids = _ids(queries, (p[0] for p in listed), "query")
        candidate_ids = _ids(candidates, (p[1] for p in listed), "candidate")
        rows = query_ids.positions([p[0] for p in listed])
        columns = candidate_ids.positions([p[1] for p in listed])
        return cls(query_ids, candidate_ids, rows, columns, np.array([p[2] for p in listed], dtype=np.float64), name)

    @cached_property
    def T(self) -> Judgements:
        """The transposed judgements: candidates become queries."""
        return Judgements(self.candidates, self.queries, self.columns, self.rows, self.grades, self.name)

    @cached_property
    def relevant(self) -> Judgements:
        """Only the relevant pairs (grade above 0), over the same ids."""
        return self if (self.grades > 0).all() else self._keep(self.grades > 0)

    @cached_property
    def indptr(self) -> IntArray:
        """Row boundaries: entries of query q are `indptr[q]:indptr[q + 1]`, including those with grade 0."""
        return np.searchsorted(self.rows, np.arange(len(self.queries) + 1)).astype(np.int64)

    @cached_property
    def counts(self) -> IntArray:
        """The number of relevant candidates of each query."""
        return np.bincount(self.rows[self.grades > 0], minlength=len(self.queries)).astype(np.int64)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the judgements: sixteen hexadecimal digits that do not depend on the order of ids.

        >>> one, other = (Judgements.from_pairs(pairs) for pairs in (["qa", "pb"], ["pb", "qa"]))
        >>> one.digest == other.digest, one.digest == one.T.digest
        (True, False)
        """
        relevant = self.relevant
        rows, columns = relevant.queries.hashes[relevant.rows], relevant.candidates.hashes[relevant.columns]
        mixed = _mix(_mix(rows) + columns) ^ relevant.grades.view(np.uint64)
        return f"{int(np.add.reduce(_mix(mixed), dtype=np.uint64)):016x}"

    def grade(self, query: object, candidate: object) -> float | None:
        """The grade of one pair, or None if the pair was never judged."""
        row, column = self.queries.index(query), self.candidates.index(candidate)
        low, high = self.indptr[row], self.indptr[row + 1]
        at = low + np.searchsorted(self.columns[low:high], column)
        return float(self.grades[at]) if at < high and self.columns[at] == column else None

    def relevant_to(self, query: object) -> list[str]:
        """The relevant candidates of a query."""
        pairs, row = self.relevant, self.queries.index(query)
        return [self.candidates[int(column)] for column in pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]]

    def restrict(
        self, *, queries: Iterable[object] | None = None, candidates: Iterable[object] | None = None
    ) -> Judgements:
        """Keeps these queries and candidates, in this order, including ids without judgements."""
        query_ids = self.queries if queries is None else Ids(queries, what=self.queries.what)
        candidate_ids = self.candidates if candidates is None else Ids(candidates, what=self.candidates.what)
        rows = query_ids.find(self.queries)[self.rows]
        columns = candidate_ids.find(self.candidates)[self.columns]
        inside = (rows >= 0) & (columns >= 0)
        return Judgements(query_ids, candidate_ids, rows[inside], columns[inside], self.grades[inside], self.name)

    def at_least(self, threshold: float) -> Judgements:
        """Binary judgements: 1 for grades of at least `threshold`, 0 for lower grades."""
        return replace(self, grades=(self.grades >= threshold).astype(np.float64))

    def with_name(self, name: str) -> Judgements:
        """The same judgements under another name."""
        return replace(self, name=name)

    def __or__(self, other: Judgements) -> Judgements:
        """The union: all ids of both, and the higher grade if both judged a pair."""
        queries = self.queries if self.queries == other.queries else Ids(dict.fromkeys([*self.queries, *other.queries]))
        candidates = (
            self.candidates
            if self.candidates == other.candidates
            else Ids(dict.fromkeys([*self.candidates, *other.candidates]))
        )
        a, b = (
            self.restrict(queries=queries, candidates=candidates),
            other.restrict(queries=queries, candidates=candidates),
        )
        key = np.concatenate([a.rows, b.rows]) * max(len(candidates), 1) + np.concatenate([a.columns, b.columns])
        unique, inverse = np.unique(key, return_inverse=True)
        grades = np.zeros(len(unique))
        np.maximum.at(grades, inverse, np.concatenate([a.grades, b.grades]))
        rows, columns = np.divmod(unique, max(len(candidates), 1))
        return Judgements(queries, candidates, rows, columns, grades, f"{self.name} | {other.name}")

    def _keep(self, mask: npt.NDArray[np.bool_]) -> Judgements:
        return replace(self, rows=self.rows[mask], columns=self.columns[mask], grades=self.grades[mask])

    def __len__(self) -> int:
        """The number of relevant pairs."""
        return int((self.grades > 0).sum())

    def __iter__(self) -> Iterator[tuple[str, str, float]]:
        for row, column, grade in zip(self.rows, self.columns, self.grades, strict=True):
            yield self.queries[int(row)], self.candidates[int(column)], float(grade)

    def __eq__(self, other: object) -> bool:
        """Whether ids, pairs and grades are equal; the name does not count."""
        return (
            isinstance(other, Judgements)
            and self.queries == other.queries
            and self.candidates == other.candidates
            and all(np.array_equal(getattr(self, a), getattr(other, a)) for a in ("rows", "columns", "grades"))
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside: equal by value, so not hashable

    def __repr__(self) -> str:
        size = f"{len(self.queries):,} queries x {len(self.candidates):,} candidates"
        return f"Judgements({self.name!r}: {len(self):,} relevant pairs, {size})"


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mixes all bits (the finaliser of splitmix64)."""
    spread = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    spread = (spread ^ (spread >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(spread ^ (spread >> np.uint64(31)))


def _ids(ids: Iterable[object] | None, judged: Iterable[str], kind: str) -> Ids:
    return Ids(dict.fromkeys(judged) if ids is None else ids, what=kind)
