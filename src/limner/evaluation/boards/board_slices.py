"""Leaderboards of slices: the same systems on the captions of one language, of one length, with one object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from limner.core.arrays import BoolArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike
from limner.evaluation.boards.board import Board, BoardEntry, ranked
from limner.evaluation.query_groups import QueryGroup, default_kinds, query_groups, refuse_unknown
from limner.evaluation.results import Result


def with_slices(
    board: Board,
    entries: Iterable[BoardEntry],
    collection: Collection,
    *,
    by: Sequence[str] = (),
    min_size: int = 30,
    samples: int = 10_000,
    seed: int = 0,
    progress: ProgressLike = None,
) -> Board:
    """A board with a further table for every slice of the queries.

    The rank sets of all slices of a measure and direction hold together with the confidence of the board: with S
    slices, each has 1 - (1 - level) / S by itself (Bonferroni).

    Args:
        board: The board of all queries.
        entries: Its entries; those without values of every query cannot be divided.
        collection: The collection that all systems were evaluated on.
        by: "length", "words", "objects" or fields, as in `limner.evaluation.slices`; what there is by default.
        min_size: The minimum number of queries in a slice, and in the rest.
        samples: Draws for the critical values.
        seed: The same seed gives the same board.
        progress: Called with (tables done, tables in total).
    """
    if min_size < 2:
        raise LimnerError(f"min_size={min_size}: expected 2 or more queries")
    kinds = list(by) or default_kinds(collection)
    refuse_unknown(collection, kinds)
    parts = [(entry, part) for entry in entries for part in _parts(entry, collection, kinds, min_size)]
    if not parts:
        raise LimnerError(
            f"no slice by {', '.join(kinds)} has {min_size} queries inside and outside, in a result with the values of "
            "every query: lower min_size, or give reports that 'limner evaluate -o FILE.json' wrote"
        )
    n_slices = max(Counter((entry.system, entry.key) for entry, _ in parts).values())
    level = 1 - (1 - board.level) / n_slices
    sliced = ranked([part for _, part in parts], level=level, samples=samples, seed=seed, progress=progress)
    level_note = (
        f"{n_slices} slices: each has rank sets of {100 * level:.6g}% confidence, so that all hold together with "
        f"{100 * board.level:g}%"
    )
    return replace(board, tables=(*board.tables, *sliced.tables), notes=(*board.notes, level_note, *sliced.notes))


def _parts(entry: BoardEntry, collection: Collection, kinds: Sequence[str], min_size: int) -> Iterator[BoardEntry]:
    result = entry.result
    if result is None or result.parts or result.stored is not None or result.direction not in ("i2t", "t2i"):
        return
    for group in _groups(entry, result, collection, kinds, min_size):
        part = _part(result, group.members)
        view = f"{entry.view}; {group.name}" if entry.view else group.name
        yield replace(entry, view=view, value=part.value, queries=len(part.queries), result=replace(part, view=view))


def _groups(
    entry: BoardEntry, result: Result, collection: Collection, kinds: Sequence[str], min_size: int
) -> list[QueryGroup]:
    items = collection.images if result.direction == "i2t" else collection.texts
    lost = next((query for query in result.queries if query not in items.ids), None)
    if lost is not None:
        raise LimnerError(
            f"{entry.system} has the query {lost!r}, which {collection.name!r} lacks: give the collection and split "
            "that it was evaluated on"
        )
    return query_groups(collection, result.direction, result.queries, kinds, min_size=min_size)


def _part(result: Result, members: BoolArray) -> Result:
    """The result of some queries."""
    return result.restricted(np.flatnonzero(members))
