"""User input for scores: items of any kind, their ids, the labels of a table, and pair scorers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from limner.core.errors import LimnerError
from limner.core.ids import Ids


class Scorer(Protocol):
    """The interface of a pair scorer."""

    def score_pairs(self, queries: Sequence[Any], candidates: Sequence[Any], /) -> object:
        """One number for each pair (queries[n], candidates[n]), higher is better."""


class Indexed(Protocol):
    """Items that can be indexed by position."""

    def __len__(self) -> int:
        """Their number."""

    def __getitem__(self, place: Any, /) -> Any:
        """One item, or those of a slice or of an array of positions."""


def labels(
    matrix: object, queries: Iterable[object] | None, candidates: Iterable[object] | None
) -> tuple[Iterable[object], Iterable[object]]:
    """The ids of rows and columns: as given, or the labels of a pandas table."""
    sides = [queries, candidates]
    if hasattr(matrix, "index") and hasattr(matrix, "columns"):
        sides = [
            axis_labels if side_ids is None else side_ids
            for side_ids, axis_labels in zip(sides, (matrix.index, matrix.columns), strict=True)
        ]
    if sides[0] is None or sides[1] is None:
        raise LimnerError(
            f"a similarity matrix of type {type(matrix).__name__} without ids: expected Scores.from_matrix(matrix, "
            "queries, candidates) with the ids of its rows and of its columns"
        )
    return sides[0], sides[1]


def indexed(items: object) -> Indexed:
    """Items that can be indexed by position; a table column becomes a list, because its labels may be anything."""
    if hasattr(items, "to_list"):
        return cast(Indexed, items.to_list())
    if hasattr(items, "to_pylist") and not hasattr(items, "kind"):
        return cast(Indexed, items.to_pylist())
    if hasattr(items, "columns") and hasattr(items, "to_numpy"):
        return cast(Indexed, items.to_numpy())
    is_indexed = hasattr(items, "__getitem__") and hasattr(items, "__len__")
    return cast(Indexed, items) if is_indexed else list(cast(Iterable[object], items))


def as_scorer(scorer: Scorer | Callable[..., object]) -> Scorer:
    """The scorer itself, or a function of two lists wrapped as a scorer."""
    if hasattr(scorer, "score_pairs"):
        return scorer
    if callable(scorer):
        return _Function(scorer)
    raise LimnerError(
        f"{type(scorer).__name__} cannot score pairs: expected an object with score_pairs(queries, candidates), or a "
        "function of two lists that gives one number per pair"
    )


@dataclass(frozen=True)
class _Function:
    """A plain function as a scorer."""

    function: Callable[..., object]

    def score_pairs(self, queries: Sequence[object], candidates: Sequence[object], /) -> object:
        return self.function(queries, candidates)


def ids_of(items: Indexed, chosen_ids: Iterable[object] | None, noun: str) -> Ids:
    """The given ids, or those of the items, or row numbers."""
    item_ids = getattr(items, "ids", None)
    ids = Ids(chosen_ids if chosen_ids is not None else range(len(items)) if item_ids is None else item_ids, what=noun)
    if len(ids) != len(items):
        raise LimnerError(f"{len(ids)} {noun} ids for {len(items)} items: expected one each")
    return ids
