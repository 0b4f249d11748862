"""The preference study: two rankings for one query, side by side, and which of them people prefer."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from limner.annotate._sql import inserted, sa
from limner.annotate.store import AlreadyFull, Store
from limner.annotate.store.contents import DIRECTIONS
from limner.annotate.store.schema import annotator, comparison, vote
from limner.core.errors import LimnerError, UnknownId, UnknownName

CHOICES = ("left", "right", "tie")


@dataclass(frozen=True)
class Rivals:
    """Two rankings for one query: names are recorded, and must not be shown.

    Args:
        query: Id of the query: a caption ("t2i") or image ("i2t").
        left: Name of the ranking on the left.
        right: Name of the one on the right.
        left_items: Its ids, best first.
        right_items: The other's.
        direction: "t2i" or "i2t".
    """

    query: str
    left: str
    right: str
    left_items: tuple[str, ...]
    right_items: tuple[str, ...]
    direction: str = "t2i"


@dataclass(frozen=True)
class ListComparison:
    """What an annotator is shown: the query and both lists, without names."""

    id: int
    study: str
    query: str
    direction: str
    left_items: tuple[str, ...]
    right_items: tuple[str, ...]


@dataclass(frozen=True)
class Vote:
    """One preference: which of two rankings was preferred for a query, or neither ("tie")."""

    study: str
    query: str
    left: str
    right: str
    choice: str
    annotator: str
    added: int


def add_comparisons(
    store: Store, rivals: Iterable[Rivals], *, study: str = "preference", replication: int = 1, seed: int = 0
) -> int:
    """Adds comparisons; the left and right ranking are randomised. Returns how many were added."""
    if replication < 1:
        raise LimnerError(f"replication {replication}: expected 1 or more people per comparison")
    draw = random.Random(seed)
    rows = []
    for each in rivals:
        if each.direction not in DIRECTIONS:
            raise UnknownName("direction", each.direction, DIRECTIONS)
        if each.left == each.right:
            raise LimnerError(f"ranking {each.left!r} is compared with itself: expected two rankings")
        sides = [(each.left, each.left_items), (each.right, each.right_items)]
        (left, left_items), (right, right_items) = sides if draw.random() < 0.5 else sides[::-1]
        shown = {"left_items": json.dumps(left_items), "right_items": json.dumps(right_items)}
        names = {"study": study, "query": each.query, "direction": each.direction}
        rows.append({**names, "left_name": left, "right_name": right, **shown, "replication": replication})
    with store.writing() as connection:
        for row in rows:
            clash = (
                f"query {row['query']!r} compares {row['left_name']!r} and {row['right_name']!r} in {study!r} already"
            )
            inserted(connection, comparison, clash, **row, added=store.now())
    return len(rows)


def next_comparison(store: Store, annotator_id: int, *, study: str = "preference") -> ListComparison | None:
    """A comparison this annotator has not voted on and that lacks votes, the least voted first; None when none is."""
    given = sa.select(sa.func.count()).where(vote.c.comparison_id == comparison.c.id)
    votes = given.correlate(comparison).scalar_subquery()
    mine = sa.exists().where(vote.c.comparison_id == comparison.c.id, vote.c.annotator_id == annotator_id)
    lacking = sa.select(comparison).where(comparison.c.study == study, votes < comparison.c.replication, sa.not_(mine))
    # People start at different places, so that they rarely get the same comparison.
    spread = (comparison.c.id * 7919 + annotator_id * 104_729) % 1_000_003
    rows = store.rows(lacking.order_by(votes, spread).limit(1))
    return None if not rows else _shown(rows[0])


def _shown(row: dict[str, Any]) -> ListComparison:
    left, right = (tuple(json.loads(row[name])) for name in ("left_items", "right_items"))
    return ListComparison(row["id"], row["study"], row["query"], row["direction"], left, right)


def cast_vote(
    store: Store, annotator_id: int, comparison_id: int, *, key: str, choice: str, milliseconds: int | None = None
) -> bool:
    """Stores a vote; False if this very vote was stored before.

    Args:
        store: The store.
        annotator_id: Who votes.
        comparison_id: On what.
        key: Made by the client; the same when the vote is sent again.
        choice: "left", "right" or "tie".
        milliseconds: How long it took.
    """
    if choice not in CHOICES:
        raise UnknownName("choice", choice, CHOICES)
    if not key:
        raise LimnerError("a vote needs its own key")
    with store.writing() as connection:
        query = sa.select(comparison).where(comparison.c.id == comparison_id).with_for_update()
        row = connection.execute(query).mappings().first()
        if row is None:
            raise UnknownId(f"no comparison number {comparison_id}")
        given = connection.execute(sa.select(vote).where(vote.c.comparison_id == comparison_id)).mappings().all()
        if any(v["client_key"] == key and v["annotator_id"] == annotator_id for v in given):
            return False
        if any(v["annotator_id"] == annotator_id for v in given) or len(given) >= row["replication"]:
            raise AlreadyFull("this comparison has this vote, or all the votes it needs: go on with the next one")
        values = {"comparison_id": comparison_id, "annotator_id": annotator_id, "choice": choice, "client_key": key}
        clash = "this key was used for another vote: make a new key for every vote"
        inserted(connection, vote, clash, **values, milliseconds=milliseconds, added=store.now())
        return True


def votes(store: Store, *, study: str = "preference") -> list[Vote]:
    """All votes of a study, in order."""
    named = {"left": comparison.c.left_name, "right": comparison.c.right_name, "annotator": annotator.c.name}
    columns = (comparison.c.study, comparison.c.query, vote.c.choice, vote.c.added)
    query = sa.select(*columns, *(column.label(name) for name, column in named.items()))
    query = query.join_from(vote, comparison).join(annotator).where(comparison.c.study == study).order_by(vote.c.id)
    return [Vote(**row) for row in store.rows(query)]


def study_progress(store: Store, *, study: str = "preference") -> dict[str, int]:
    """Comparisons, votes given and votes requested."""
    asked = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(comparison.c.replication), 0))
    given = sa.select(sa.func.count()).join_from(vote, comparison).where(comparison.c.study == study)
    with store.reading() as connection:
        count, wanted = connection.execute(asked.where(comparison.c.study == study)).one()
        return {"comparisons": count, "votes": connection.scalar(given) or 0, "asked": int(wanted)}
