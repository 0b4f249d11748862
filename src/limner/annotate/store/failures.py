"""Failures to judge: each with the relevant and the returned item, and one answer per person."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from limner.annotate._sql import inserted, sa
from limner.annotate.store import AlreadyFull, Store
from limner.annotate.store.schema import annotator, failure, failure_answer
from limner.core.errors import LimnerError, UnknownId, UnknownName
from limner.explain.failure_classes import ALTERNATIVE, CLASSES
from limner.explain.failures import Failure

STUDY = "failures"
"""Default name of a study of failures."""
RATINGS = range(1, 11)
"""How similar in meaning the returned and the relevant item are, given the query; 10 is best."""


@dataclass(frozen=True)
class AskedFailure:
    """A failure as shown to an annotator."""

    id: int
    study: str
    query: str
    text: str
    truth: str
    returned: str
    by_text: bool


@dataclass(frozen=True)
class FailureAnswer:
    """One person's answer about one failure: the classes that disagree, and a rating from 1 to 10."""

    study: str
    query: str
    returned: str
    classes: frozenset[str]
    rating: int
    annotator: str
    milliseconds: int | None
    added: int


def add_failures(store: Store, found: Iterable[Failure], *, study: str = STUDY, replication: int = 1) -> int:
    """Adds failures to judge; queries that are already stored are left out. Returns the number of new failures."""
    if replication < 1:
        raise LimnerError(f"replication {replication}: expected 1 or more people per failure")
    if not study:
        raise LimnerError("a study of failures needs a name")
    same = {"study": study, "replication": replication}
    with store.writing() as connection:
        known = set(connection.scalars(sa.select(failure.c.query).where(failure.c.study == study)))
        rows = [
            {"query": f.query, "text": f.text, "truth": f.truth, "returned": f.returned, "by_text": f.by_text, **same}
            for f in found
            if f.query not in known
        ]
        if rows:
            connection.execute(sa.insert(failure), [{**row, "added": store.now()} for row in rows])
    return len(rows)


def next_failure(store: Store, annotator_id: int, *, study: str | None = None) -> AskedFailure | None:
    """The next failure for this annotator: one that needs more answers, fewest answers first; or None."""
    given = sa.select(sa.func.count()).where(failure_answer.c.failure_id == failure.c.id)
    answers = given.correlate(failure).scalar_subquery()
    mine = sa.exists().where(failure_answer.c.failure_id == failure.c.id, failure_answer.c.annotator_id == annotator_id)
    spread = (failure.c.id * 7919 + annotator_id * 104_729) % 1_000_003  # people start at different positions
    names = ("id", "study", "query", "text", "truth", "returned", "by_text")
    lacking = sa.select(*(failure.c[name] for name in names)).where(
        answers < failure.c.replication, sa.not_(mine), _of(study)
    )
    rows = store.rows(lacking.order_by(answers, spread).limit(1))
    return AskedFailure(**{**rows[0], "by_text": bool(rows[0]["by_text"])}) if rows else None


def _of(study: str | None) -> sa.ColumnElement[bool]:
    return sa.true() if study is None else failure.c.study == study


def check_classes(classes: Iterable[str]) -> frozenset[str]:
    """The classes; refused if there are none, if one is unknown, or if an alternative has faults.

    >>> sorted(check_classes(["colour", "detail"]))
    ['colour', 'detail']
    """
    found = frozenset(classes)
    for name in found - set(CLASSES):
        raise UnknownName("failure class", str(name)[:80], CLASSES)
    if not found:
        raise LimnerError(
            f"no class is marked: expected what disagrees with the query, or {ALTERNATIVE!r} if nothing does"
        )
    if ALTERNATIVE in found and len(found) > 1:
        others = ", ".join(sorted(found - {ALTERNATIVE}))
        raise LimnerError(f"{ALTERNATIVE!r} with {others}: choose the alternative alone, or only what disagrees")
    return found


def judge_failure(
    store: Store,
    annotator_id: int,
    failure_id: int,
    *,
    key: str,
    classes: Iterable[str],
    rating: int,
    milliseconds: int | None = None,
) -> bool:
    """Stores an answer about a failure; False if this answer is already stored.

    Args:
        store: The store.
        annotator_id: The annotator.
        failure_id: The failure.
        key: Created by the client; the same when the answer is sent again.
        classes: What disagrees, from `limner.explain.failure_classes.CLASSES`; only "alternative" if nothing does.
        rating: 1 to 10, how similar in meaning both images are given the query.
        milliseconds: Time spent on the answer.
    """
    named = check_classes(classes)
    if isinstance(rating, bool) or not isinstance(rating, int) or rating not in RATINGS:
        raise LimnerError(f"rating {str(rating)[:20]!r}: expected a whole number from 1 to 10")
    if not key:
        raise LimnerError("an answer needs its own key")
    with store.writing() as connection:
        query = sa.select(failure).where(failure.c.id == failure_id).with_for_update()
        row = connection.execute(query).mappings().first()
        if row is None:
            raise UnknownId(f"no failure {failure_id}")
        of_this = sa.select(failure_answer).where(failure_answer.c.failure_id == failure_id)
        given = connection.execute(of_this).mappings().all()
        if any(a["client_key"] == key and a["annotator_id"] == annotator_id for a in given):
            return False
        if any(a["annotator_id"] == annotator_id for a in given) or len(given) >= row["replication"]:
            raise AlreadyFull("this failure has your answer, or all the answers it needs: continue with the next one")
        values = {"failure_id": failure_id, "annotator_id": annotator_id, "client_key": key, "rating": rating}
        clash = "this key was used for another answer: use a new key for every answer"
        said = json.dumps(sorted(named))
        inserted(
            connection, failure_answer, clash, **values, classes=said, milliseconds=milliseconds, added=store.now()
        )
        return True


def failure_answers(store: Store, *, study: str | None = None) -> list[FailureAnswer]:
    """All answers of a study, or of all studies, in order of insertion."""
    columns = (failure.c.study, failure.c.query, failure.c.returned, annotator.c.name.label("annotator"))
    own = (failure_answer.c[name] for name in ("classes", "rating", "milliseconds", "added"))
    query = sa.select(*columns, *own).join_from(failure_answer, failure).join(annotator).where(_of(study))
    rows = store.rows(query.order_by(failure_answer.c.id))
    return [FailureAnswer(**{**row, "classes": frozenset(json.loads(row["classes"]))}) for row in rows]


def failure_studies(store: Store) -> list[str]:
    """The studies of failures, in the order of creation."""
    query = sa.select(failure.c.study).group_by(failure.c.study).order_by(sa.func.min(failure.c.id))
    return [row["study"] for row in store.rows(query)]


def failure_progress(store: Store, *, study: str | None = None) -> dict[str, int]:
    """Numbers of failures, given answers and requested answers."""
    asked = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(failure.c.replication), 0)).select_from(failure)
    given = sa.select(sa.func.count()).join_from(failure_answer, failure).where(_of(study))
    with store.reading() as connection:
        count, wanted = connection.execute(asked.where(_of(study))).one()
        return {"failures": count, "answers": connection.scalar(given) or 0, "asked": int(wanted)}
