"""The preference study: two rankings for one query, side by side, and which of them people prefer."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from limner.annotate._sql import inserted, sa
from limner.annotate.store import AlreadyFull, Store, alone
from limner.annotate.store.contents import DIRECTIONS
from limner.annotate.store.schema import annotator, comparison, setting, vote
from limner.core.errors import LimnerError, UnknownId, UnknownName
from limner.core.paths import parse_json

CHOICES = ("left", "right", "tie")
STUDY = "preference"
"""Default name of a study."""


@dataclass(frozen=True)
class Rivals:
    """Two rankings for one query; their names are stored but must not be shown.

    Args:
        query: Id of the query: a caption ("t2i") or image ("i2t").
        left: Name of the ranking on the left.
        right: Name of the ranking on the right.
        left_items: Ids of the ranking on the left, best first.
        right_items: Ids of the ranking on the right, best first.
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
    """A comparison as shown to an annotator: the query and both lists, without names."""

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
    store: Store, rivals: Iterable[Rivals], *, study: str = STUDY, replication: int = 1, seed: int = 0
) -> int:
    """Adds comparisons, with left and right randomised. Returns the number of added comparisons."""
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


def next_comparison(store: Store, annotator_id: int, *, study: str | None = None) -> ListComparison | None:
    """The next comparison for this annotator: one that still needs their vote, fewest votes first; or None.

    Args:
        store: The store.
        annotator_id: The annotator.
        study: Name of the study; any by default.
    """
    given = sa.select(sa.func.count()).where(vote.c.comparison_id == comparison.c.id)
    votes = given.correlate(comparison).scalar_subquery()
    mine = sa.exists().where(vote.c.comparison_id == comparison.c.id, vote.c.annotator_id == annotator_id)
    lacking = sa.select(comparison).where(votes < comparison.c.replication, sa.not_(mine), _of(study))
    # People start at different positions, so that they rarely get the same comparison.
    spread = (comparison.c.id * 7919 + annotator_id * 104_729) % 1_000_003
    rows = store.rows(lacking.order_by(votes, spread).limit(1))
    return None if not rows else _shown(rows[0])


def _of(study: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if study is None else comparison.c.study == study


def _shown(row: dict[str, Any]) -> ListComparison:
    left, right = (tuple(json.loads(row[name])) for name in ("left_items", "right_items"))
    return ListComparison(row["id"], row["study"], row["query"], row["direction"], left, right)


def cast_vote(
    store: Store, annotator_id: int, comparison_id: int, *, key: str, choice: str, milliseconds: int | None = None
) -> bool:
    """Stores a vote; returns False if the same vote is already stored.

    Args:
        store: The store.
        annotator_id: The voter.
        comparison_id: The comparison.
        key: Created by the client; the same when the vote is sent again.
        choice: "left", "right" or "tie".
        milliseconds: Time spent on the vote.
    """
    if choice not in CHOICES:
        raise UnknownName("choice", choice, CHOICES)
    if not key:
        raise LimnerError("a vote needs its own key")
    with store.writing() as connection:
        query = sa.select(comparison).where(comparison.c.id == comparison_id).with_for_update()
        row = connection.execute(query).mappings().first()
        if row is None:
            raise UnknownId(f"no comparison {comparison_id}")
        _refuse_tie(store, connection, row["study"], choice)
        given = connection.execute(sa.select(vote).where(vote.c.comparison_id == comparison_id)).mappings().all()
        if any(v["client_key"] == key and v["annotator_id"] == annotator_id for v in given):
            return False
        if any(v["annotator_id"] == annotator_id for v in given) or len(given) >= row["replication"]:
            raise AlreadyFull("this comparison has your vote, or all the votes it needs: continue with the next one")
        values = {"comparison_id": comparison_id, "annotator_id": annotator_id, "choice": choice, "client_key": key}
        clash = "this key was used for another vote: use a new key for every vote"
        inserted(connection, vote, clash, **values, milliseconds=milliseconds, added=store.now())
        return True


def _refuse_tie(store: Store, connection: sa.Connection, study: str, choice: str) -> None:
    """Refuses a tie in a binary study, such as the paper's."""
    kept = connection.scalar(sa.select(setting.c.value).where(setting.c.name == f"study {study}"))
    known = {} if kept is None else parse_json(kept, where=f"study {study!r} of the store {store.where}")
    if choice == "tie" and not known.get("ties", True):
        raise LimnerError(f"the study {study!r} does not allow ties: expected left or right")


def add_votes(store: Store, given: Iterable[tuple[int, int, str]], *, study: str = STUDY) -> int:
    """Stores votes that were given elsewhere, all or none; votes that are already stored are skipped.

    Args:
        store: The store.
        given: Id of the comparison, id of the annotator, choice.
        study: The study they belong to.

    Returns:
        The number of new votes.
    """
    with store.writing() as connection:
        alone(store, connection)
        sizes = sa.select(comparison.c.id, comparison.c.replication).where(comparison.c.study == study)
        places = {row.id: int(row.replication) for row in connection.execute(sizes)}
        columns = sa.select(vote.c.comparison_id, vote.c.annotator_id, vote.c.choice)
        stored = {(number, who): said for number, who, said in connection.execute(columns).all() if number in places}
        new = _new_votes(given, places, stored)
        for choice in set(new.values()):
            _refuse_tie(store, connection, study, choice)
        rows = [
            {"comparison_id": number, "annotator_id": who, "choice": said, "client_key": f"votes:{number}:{who}"}
            for (number, who), said in new.items()
        ]
        if rows:
            connection.execute(sa.insert(vote), [{**row, "milliseconds": None, "added": store.now()} for row in rows])
        return len(rows)


def _new_votes(
    given: Iterable[tuple[int, int, str]], places: dict[int, int], stored: dict[tuple[int, int], str]
) -> dict[tuple[int, int], str]:
    """The votes that are not stored yet; refused if a person voted differently, or there are too many."""
    new: dict[tuple[int, int], str] = {}
    for number, who, said in given:
        if stored.get((number, who), new.get((number, who), said)) != said:
            raise LimnerError(f"annotator {who} voted differently on comparison {number}: no vote was added")
        if (number, who) not in stored:
            new[number, who] = said
    full = Counter(number for number, _ in (*stored, *new))
    over = next((number for number, count in full.items() if count > places[number]), None)
    if over is not None:
        raise LimnerError(
            f"comparison {over} would get {full[over]} votes instead of {places[over]}: no vote was added"
        )
    return new


def votes(store: Store, *, study: str = STUDY) -> list[Vote]:
    """All votes of a study, in order."""
    named = {"left": comparison.c.left_name, "right": comparison.c.right_name, "annotator": annotator.c.name}
    columns = (comparison.c.study, comparison.c.query, vote.c.choice, vote.c.added)
    query = sa.select(*columns, *(column.label(name) for name, column in named.items()))
    query = query.join_from(vote, comparison).join(annotator).where(comparison.c.study == study).order_by(vote.c.id)
    return [Vote(**row) for row in store.rows(query)]


def comparisons(store: Store, *, study: str = STUDY) -> dict[int, Rivals]:
    """All comparisons of a study by id, with left and right as shown, and the names of the rankings."""
    query = sa.select(comparison).where(comparison.c.study == study).order_by(comparison.c.id)
    found = {}
    for row in store.rows(query):
        left, right = (tuple(json.loads(row[name])) for name in ("left_items", "right_items"))
        found[row["id"]] = Rivals(row["query"], row["left_name"], row["right_name"], left, right, row["direction"])
    return found


def studies(store: Store) -> list[str]:
    """The studies of a store, in the order of creation."""
    query = sa.select(comparison.c.study).group_by(comparison.c.study).order_by(sa.func.min(comparison.c.id))
    return [row["study"] for row in store.rows(query)]


def study_setting(store: Store, study: str) -> dict[str, Any]:
    """The stored settings of a study: `ties`, `direction` and the `positives` of its queries; or empty."""
    kept = store.setting(f"study {study}")
    return kept if isinstance(kept, dict) else {}


def study_progress(store: Store, *, study: str | None = None) -> dict[str, int]:
    """Numbers of comparisons, given votes and requested votes; for one study, or all."""
    asked = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(comparison.c.replication), 0))
    given = sa.select(sa.func.count()).join_from(vote, comparison).where(_of(study))
    with store.reading() as connection:
        count, wanted = connection.execute(asked.select_from(comparison).where(_of(study))).one()
        return {"comparisons": count, "votes": connection.scalar(given) or 0, "asked": int(wanted)}
