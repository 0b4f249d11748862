"""Answers: appended one by one, each with a key from the client, so that sending an answer again has no effect."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from limner.annotate.guideline import refuse_changed, scale_of
from limner.annotate.scale import GUIDELINE, Scale, check_comment
from limner.annotate.store import AlreadyFull, LeaseLost, NotAllowed, Store
from limner.annotate.store.contents import Key
from limner.annotate.store.schema import (
    Row,
    annotator,
    assignment,
    caption,
    counted_answer,
    current_answer,
    exclusion,
    image,
    inserted,
    judgement,
    review,
    sa,
    task,
    task_item,
)
from limner.annotate.store.tasks import MINUTES, TaskState, state_of
from limner.core.errors import LimnerError, UnknownId

KEY_LENGTH = 100
_DAY = 86_400_000
_KEY_USED = "this key was used for another answer: use a new key for every answer"


@dataclass(frozen=True)
class Saved:
    """The result of a submit.

    Args:
        id: Id of the stored answer.
        revision: 1 for the first answer to this pair, then 2, ...
        repeated: Whether this answer was stored before; nothing was added.
        finished: Whether the task has all its answers now.
    """

    id: int
    revision: int
    repeated: bool
    finished: bool


@dataclass(frozen=True)
class Answer:
    """A valid answer: annotator, pair, time, duration, guideline, comment, and whether the pair is a control."""

    id: int
    task: int
    assignment: int
    item: int
    pair: int
    annotator: str
    image: str
    caption: str
    role: str
    grade: int
    reasons: tuple[str, ...]
    revision: int
    milliseconds: int | None
    guideline: str
    added: int
    comment: str = ""


def submit(
    store: Store,
    annotator_id: int,
    item_id: int,
    *,
    key: str,
    grade: int,
    reasons: Iterable[str] = (),
    milliseconds: int | None = None,
    guideline: str = GUIDELINE,
    comment: str = "",
    assignment_id: int | None = None,
    minutes: float = MINUTES,
) -> Saved:
    """Stores an answer to one pair of a task that the annotator holds, or has finished.

    Args:
        store: The store.
        annotator_id: The annotator.
        item_id: The pair, `Item.id`.
        key: Key created by the client: new for every answer, the same when the answer is sent again.
        grade: 4 (yes) to 1 (no): a value of the store's scale.
        reasons: Names of reasons, for grades that may have them: 3 and 2 in the built-in scale.
        milliseconds: Time spent on the answer.
        guideline: Version of the guideline that the annotator read.
        comment: A remark for the study lead, at most `COMMENT_LENGTH` characters; line breaks and unprintable
            characters become spaces.
        assignment_id: The task as it was given to the annotator, `AssignedTask.id`; the answer is refused if it
            belongs to another one. By default it is not checked.
        minutes: Length of the renewed lease.

    Returns:
        The answer's id and revision, whether it was already stored, and whether the task is finished.
    """
    scale = scale_of(store)
    checked = scale.check_grade(grade)
    why = json.dumps(scale.check_reasons(reasons, checked))
    _refuse_bad(key, milliseconds)
    checked_comment = check_comment(comment) or None
    values = {"grade": checked, "reasons": why, "milliseconds": milliseconds, "guideline": str(guideline)}
    values["comment"] = checked_comment
    return _append(store, annotator_id, item_id, key, values, assignment_id, minutes, scale)


def undo(
    store: Store,
    annotator_id: int,
    item_id: int,
    *,
    key: str,
    guideline: str | None = None,
    assignment_id: int | None = None,
) -> Saved:
    """Withdraws the answer to a pair by adding a revision without a grade; the task is open again.

    Args:
        store: The store.
        annotator_id: The annotator.
        item_id: The pair, `Item.id`.
        key: Key created by the client, as for `submit`.
        guideline: Version of the guideline in force; that of the withdrawn answer by default.
        assignment_id: The task as it was given to the annotator, as for `submit`.
    """
    _refuse_bad(key, None)
    values = {"grade": None, "reasons": "[]", "milliseconds": None, "guideline": guideline, "comment": None}
    return _append(store, annotator_id, item_id, key, values, assignment_id, MINUTES, None)


def _refuse_bad(key: str, milliseconds: int | None) -> None:
    if not isinstance(key, str) or not 0 < len(key) <= KEY_LENGTH:
        raise LimnerError(f"key {str(key)[:20]!r}: expected 1 to {KEY_LENGTH} characters, new for every answer")
    if milliseconds is not None and not 0 <= milliseconds <= _DAY:
        raise LimnerError(f"milliseconds {milliseconds}: expected 0 to {_DAY:,}, or nothing")


def _append(
    store: Store,
    annotator_id: int,
    item_id: int,
    key: str,
    values: Row,
    assignment_id: int | None,
    minutes: float,
    scale: Scale | None,
) -> Saved:
    """Adds a revision; a withdrawal needs no scale."""
    with store.writing() as connection:
        timestamp = store.timestamp()
        number = connection.scalar(_TASK_OF, {"this": item_id})
        if number is None:
            raise UnknownId(f"no pair {item_id} in any task")
        state = state_of(connection, number, lock=True)
        own_assignment = next((a for a in state.assignments if a["annotator_id"] == annotator_id), None)
        if own_assignment is None:
            raise NotAllowed("this task was never assigned to you: request a task first")
        if assignment_id not in (None, own_assignment["id"]):
            raise LimnerError(f"this pair is not part of your assignment {assignment_id}: reload the page")
        before = _stored(connection, key)
        if before is not None:
            return _repeated(before, own_assignment, item_id, values)
        _refuse_unfit(state, own_assignment, item_id, timestamp, withdraws=values["grade"] is None)
        if scale is not None:
            refuse_changed(store, connection, scale)
            _refuse_unreasoned(state.task["reasons"], values, scale)
        last = state.latest.get((own_assignment["id"], item_id))
        values |= {
            "assignment_id": own_assignment["id"],
            "item_id": item_id,
            "revision": last["revision"] + 1 if last else 1,
        }
        if values["guideline"] is None:  # a withdrawal that names none
            values["guideline"] = last["guideline"] if last else GUIDELINE
        judgement_id = inserted(connection, judgement, _KEY_USED, **values, client_key=key, added=timestamp)
        finished = _settle(
            connection, state, own_assignment, item_id, values, timestamp, timestamp + int(minutes * 60_000)
        )
        return Saved(judgement_id, values["revision"], False, finished)


def _stored(connection: sa.Connection, key: str) -> sa.RowMapping | None:
    return connection.execute(_WITH_KEY, {"key": key}).mappings().first()


# Built once, since building a query takes as long as running it.
_THIS: sa.BindParameter[int] = sa.bindparam("this", type_=sa.Integer)
_TASK_OF = sa.select(task_item.c.task_id).where(task_item.c.id == _THIS)
_WITH_KEY = (
    sa.select(judgement, assignment.c.finished)
    .join_from(judgement, assignment)
    .where(judgement.c.client_key == sa.bindparam("key", type_=sa.String))
)
_RENEWED = (
    sa.update(assignment)
    .where(assignment.c.id == _THIS)
    .values(expires=sa.bindparam("until"), finished=sa.bindparam("done_at"))
)


def _repeated(before: sa.RowMapping, own_assignment: sa.RowMapping, item_id: int, values: dict[str, object]) -> Saved:
    """The stored answer with this key; refused if the key belongs to another answer."""
    is_repeat = before["assignment_id"] == own_assignment["id"] and before["item_id"] == item_id
    if not is_repeat or any(before[name] != values[name] for name in ("grade", "reasons", "comment")):
        raise LimnerError(_KEY_USED)
    return Saved(before["id"], before["revision"], True, before["finished"] is not None)


def _refuse_unfit(
    state: TaskState, own_assignment: sa.RowMapping, item_id: int, timestamp: int, *, withdraws: bool
) -> None:
    if own_assignment["excluded"]:
        raise NotAllowed("this task was excluded: request another")
    item = next(item for item in state.items if item["id"] == item_id)
    if item["barred"]:
        raise AlreadyFull("this pair was excluded: continue with the next one")
    last = state.latest.get((own_assignment["id"], item_id))
    if withdraws and (last is None or last["grade"] is None):
        raise LimnerError("there is no answer to undo here")
    leased = own_assignment["finished"] is not None or own_assignment["expires"] > timestamp
    if not leased and state.holders(timestamp, but=own_assignment["annotator_id"]) >= state.task["replication"]:
        raise LeaseLost("your time for this task expired and someone else has it now: request another task")
    new = item["role"] == "real" and (last is None or last["grade"] is None)
    if new and state.answered(item_id, but=own_assignment["id"]) >= state.task["replication"]:
        raise AlreadyFull("this pair has all the answers it needs: continue with the next one")


def _refuse_unreasoned(policy: str, values: Row, scale: Scale) -> None:
    """Checks the reasons: a task may require them for the grades that may have some, or not allow any."""
    has_reasons = values["reasons"] != "[]"
    if policy == "required" and scale.asks(values["grade"]) and not has_reasons:
        named = " and ".join(repr(grade.label) for grade in scale.reasoned)
        raise LimnerError(f"this task needs a reason for {named}: choose one or more")
    if policy == "off" and has_reasons:
        raise LimnerError("this task does not ask for reasons: leave them out")


def _settle(
    connection: sa.Connection,
    state: TaskState,
    own_assignment: sa.RowMapping,
    item_id: int,
    values: dict[str, object],
    timestamp: int,
    until: int,
) -> bool:
    """Renews the lease, and updates which tasks are finished."""
    state.latest[own_assignment["id"], item_id] = values
    finished = state.finished_by(own_assignment["id"])
    done_at = (own_assignment["finished"] or timestamp) if finished else None
    connection.execute(_RENEWED, {"this": own_assignment["id"], "until": until, "done_at": done_at})
    if state.complete != bool(state.task["done"]):
        connection.execute(sa.update(task).where(task.c.id == state.task["id"]).values(done=state.complete))
    return finished


# --- reading ----------------------------------------------------------------------------------------------------


def answers(store: Store, *, counted: bool = True) -> list[Answer]:
    """The valid answers, in order: last revisions, without withdrawn ones.

    Args:
        store: The store.
        counted: Whether to leave out excluded answers.
    """
    view = counted_answer if counted else current_answer
    named = (  # in the order of the fields of `Answer`, except the reasons
        view.c.reasons, view.c.id, view.c.task_id, view.c.assignment_id, view.c.item_id, view.c.pair_id,
        annotator.c.name, image.c.key, caption.c.key, view.c.role, view.c.grade,
        view.c.revision, view.c.milliseconds, view.c.guideline, view.c.added,
        sa.func.coalesce(view.c.comment, ""),
    )  # fmt: skip
    query = (
        sa.select(*named)
        .select_from(view)
        .join(annotator, annotator.c.id == view.c.annotator_id)
        .join(image, image.c.id == view.c.image_id)
        .join(caption, caption.c.id == view.c.caption_id)
        .order_by(view.c.id)
    )
    with store.reading() as connection:
        rows = connection.execute(query).all()
    return [Answer(*[*row[1:11], _reasons(row[0]), *row[11:]]) for row in rows]


def _reasons(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(json.loads(stored))


def by_pair(answers: Iterable[Answer]) -> dict[Key, list[Answer]]:
    """The answers to each pair; controls are left out."""
    grouped: dict[Key, list[Answer]] = {}
    for answer in answers:
        if answer.role == "real":
            grouped.setdefault((answer.image, answer.caption), []).append(answer)
    return grouped


def latest(store: Store) -> tuple[int, ...]:
    """A cheap value that changes whenever `answers` or decisions about them change."""
    counters = [sa.func.coalesce(sa.func.max(table.c.id), 0) for table in (judgement, exclusion, review)]
    lifted = sa.select(sa.func.count()).select_from(exclusion).where(exclusion.c.lifted.is_not(None))
    with store.reading() as connection:
        return tuple(int(connection.scalar(query) or 0) for query in (*map(sa.select, counters), lifted))


def history(store: Store, *, item_id: int | None = None) -> list[dict[str, object]]:
    """All answers ever given, in order, including withdrawn and revised ones; for one pair, or all pairs."""
    columns = [judgement.c[name] for name in ("id", "item_id", "revision", "grade", "reasons", "milliseconds")]
    extra = (
        judgement.c.guideline,
        judgement.c.comment,
        judgement.c.added,
        judgement.c.client_key,
        annotator.c.name.label("annotator"),
    )
    query = sa.select(*columns, *extra).join_from(judgement, assignment).join(annotator).order_by(judgement.c.id)
    rows = store.rows(query if item_id is None else query.where(judgement.c.item_id == item_id))
    return [{**row, "reasons": json.loads(row["reasons"])} for row in rows]
