"""Tasks and leases: leases expire, and a task never has more holders or answers than requested."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from limner.annotate.store import NotAllowed, Store
from limner.annotate.store.contents import insert, pair_numbers
from limner.annotate.store.reservations import FIRST, FIRST_RESERVED, FREE, excluded, taken_out
from limner.annotate.store.schema import (
    GOLD,
    KINDS,
    REASONED,
    Row,
    annotator,
    assignment,
    caption,
    counted_answer,
    exclusion,
    image,
    inserted,
    judgement,
    pair,
    sa,
    task,
    task_item,
)
from limner.core.errors import LimnerError, UnknownId, UnknownName

MINUTES = 60.0
"""Length of a lease in minutes; every answer renews it."""


@dataclass(frozen=True)
class TaskPair:
    """One pair of a task: "real", or a control whose answer is known ("gold_pos", "gold_neg")."""

    image: str
    caption: str
    role: str = "real"


@dataclass(frozen=True)
class Draft:
    """A task before it is stored.

    Args:
        items: The pairs in the order they are shown.
        kind: "pairs" (one by one) or "captions" (one image with its ten captions at a time).
        seed: Seed of the shuffle.
        reasons: Whether "partially yes" and "mostly no" need a reason ("required"), may have one ("optional"), or have
            none ("off").
    """

    items: tuple[TaskPair, ...]
    kind: str = "pairs"
    seed: int = 0
    reasons: str = "optional"


@dataclass(frozen=True)
class Item:
    """One pair as shown to an annotator, with the current answer. It does not reveal whether it is a control.

    `answered` is the id of that answer: later answers have higher ids.
    """

    id: int
    position: int
    image: str
    caption: str
    text: str
    grade: int | None
    reasons: tuple[str, ...]
    answered: int | None = None
    comment: str = ""


@dataclass(frozen=True)
class AssignedTask:
    """A task that an annotator holds: its pairs, and when the lease ends (milliseconds)."""

    id: int
    task: int
    kind: str
    annotator: int
    expires: int
    finished: bool
    items: tuple[Item, ...]
    reasons: str = "optional"


def add_tasks(store: Store, drafts: Iterable[Draft], *, replication: int = 1, turn: int = 1) -> list[int]:
    """Adds tasks to the store, each to be done by `replication` people.

    Returns:
        The tasks' ids.
    """
    listed = list(drafts)
    _refuse_bad(listed, replication)
    with store.writing() as connection:
        real_pairs = [(item.image, item.caption) for draft in listed for item in draft.items if item.role == "real"]
        golden = [(item.image, item.caption) for draft in listed for item in draft.items if item.role != "real"]
        numbers = pair_numbers(store, connection, real_pairs, origin="pool", turn=turn)
        numbers |= pair_numbers(store, connection, golden, origin="control", turn=turn)
        try:
            return _added(store, connection, listed, numbers, replication, turn)
        except sa.exc.IntegrityError as error:
            raise LimnerError("a pair is already in another task: create tasks from new pairs only") from error


def _refuse_bad(drafts: Sequence[Draft], replication: int) -> None:
    if replication < 1:
        raise LimnerError(f"replication {replication}: expected 1 or more people per task")
    for draft in drafts:
        if draft.kind not in KINDS:
            raise UnknownName("kind of task", draft.kind, KINDS)
        if draft.reasons not in REASONED:
            raise UnknownName("setting for reasons", draft.reasons, REASONED)
        if not any(item.role == "real" for item in draft.items):
            raise LimnerError("a task without a pair to judge: expected at least one that is not a control")
        for item in draft.items:
            if item.role not in ("real", *GOLD):
                raise UnknownName("role of a pair", item.role, ("real", *GOLD))


def _added(
    store: Store,
    connection: sa.Connection,
    drafts: Sequence[Draft],
    numbers: dict[tuple[str, str], int],
    replication: int,
    turn: int,
) -> list[int]:
    """Inserts all at once, since a plan may ask for a hundred thousand pairs."""
    if not drafts:
        return []
    common = {"turn": turn, "replication": replication, "done": False, "added": store.timestamp()}
    rows = [{"kind": draft.kind, "seed": draft.seed, "reasons": draft.reasons, **common} for draft in drafts]
    statement = sa.insert(task).returning(task.c.id, sort_by_parameter_order=True)
    task_ids = [int(number) for number in connection.scalars(statement, rows)]
    items = [
        {"task_id": key, "position": place, "pair_id": numbers[item.image, item.caption], "role": item.role}
        for key, draft in zip(task_ids, drafts, strict=True)
        for place, item in enumerate(draft.items)
    ]
    insert(connection, task_item, items)
    return task_ids


# --- the state of one task --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskState:
    """The state that decides who may hold a task and which pairs they answer; read in one transaction."""

    task: sa.RowMapping
    items: list[sa.RowMapping]
    assignments: list[sa.RowMapping]
    latest: dict[tuple[int, int], Any]

    def holders(self, timestamp: int, *, but: int) -> int:
        """The number of others who hold the task or have finished it."""
        return sum(
            a["annotator_id"] != but and not a["excluded"] and (a["finished"] is not None or a["expires"] > timestamp)
            for a in self.assignments
        )

    def answered(self, item: int, *, but: int | None = None) -> int:
        """The number of valid answers to an item, from all assignments except one."""
        return sum(
            not a["excluded"] and a["id"] != but and self._grade(a["id"], item) is not None for a in self.assignments
        )

    def open_to(self, assignment_id: int | None) -> list[sa.RowMapping]:
        """The items that an assignment shows: those it has answered, the controls, and those that need more answers."""
        return [
            item
            for item in self.items
            if not item["barred"]
            and (
                item["role"] != "real"
                or self._grade(assignment_id, item["id"]) is not None
                or self.answered(item["id"], but=assignment_id) < self.task["replication"]
            )
        ]

    def has_work(self, assignment_id: int | None) -> bool:
        """Whether an assignment still has pairs to judge; controls alone do not count."""
        return any(
            item["role"] == "real" and self._grade(assignment_id, item["id"]) is None
            for item in self.open_to(assignment_id)
        )

    def finished_by(self, assignment_id: int) -> bool:
        """Whether an assignment has answered all its items."""
        return all(self._grade(assignment_id, item["id"]) is not None for item in self.open_to(assignment_id))

    @property
    def complete(self) -> bool:
        """Whether every pair has all its requested answers."""
        real = [item["id"] for item in self.items if item["role"] == "real" and not item["barred"]]
        return all(self.answered(item) >= self.task["replication"] for item in real)

    def _grade(self, assignment: int | None, item: int) -> int | None:
        row = None if assignment is None else self.latest.get((assignment, item))
        return None if row is None else row["grade"]


def state_of(connection: sa.Connection, task_id: int, *, lock: bool = False) -> TaskState:
    """Reads a task; with `lock`, no one else can change it before the transaction ends."""
    this = {"this": task_id}
    row = connection.execute(_LOCKED if lock else _TASK, this).mappings().first()
    if row is None:
        raise UnknownId(f"no task {task_id}")
    answer_rows = connection.execute(_GIVEN, this).mappings()
    latest = {(a["assignment_id"], a["item_id"]): a for a in answer_rows}
    assignment_rows = list(connection.execute(_HELD, this).mappings())
    return TaskState(row, list(connection.execute(_ITEMS, this).mappings()), assignment_rows, latest)


def settle(connection: sa.Connection, task_id: int, assignments: Iterable[int], timestamp: int) -> None:
    """Updates what is finished after answers to these assignments of a task were added.

    If every pair has more answers than were asked for, as after an import, so many were asked for.
    """
    state = state_of(connection, task_id)
    ended = [number for number in assignments if state.finished_by(number)]
    times = sa.update(assignment).where(assignment.c.id.in_(ended), assignment.c.finished.is_(None))
    connection.execute(times.values(finished=timestamp))
    fewest = min(state.answered(item["id"]) for item in state.items if item["role"] == "real")
    values = {"done": state.complete, "replication": max(fewest, state.task["replication"])}
    connection.execute(sa.update(task).where(task.c.id == task_id).values(**values))


# Built once, since building a query takes as long as running it.
_THIS: sa.BindParameter[int] = sa.bindparam("this", type_=sa.Integer)
_TASK = sa.select(task).where(task.c.id == _THIS)
_LOCKED = _TASK.with_for_update()
_HELD = sa.select(assignment, excluded().label("excluded")).where(assignment.c.task_id == _THIS)
_GIVEN = (
    sa.select(
        judgement.c.guideline,
        *(judgement.c[name] for name in ("id", "assignment_id", "item_id", "grade", "reasons", "comment", "revision")),
    )
    .join_from(judgement, assignment)
    .where(assignment.c.task_id == _THIS)
    .order_by(judgement.c.revision)
)
_BARRED = taken_out(pair=pair.c.id, image=pair.c.image_id, caption=pair.c.caption_id)
_ITEMS = (
    sa.select(task_item.c.id, task_item.c.position, task_item.c.role, caption.c.text, _BARRED.label("barred"))
    .add_columns(image.c.key.label("image"), caption.c.key.label("caption"))
    .join_from(task_item, pair)
    .join(image)
    .join(caption)
    .where(task_item.c.task_id == _THIS)
    .order_by(task_item.c.position)
)


# --- leases -----------------------------------------------------------------------------------------------------


def lease(store: Store, annotator_id: int, *, minutes: float = MINUTES) -> AssignedTask | None:
    """The task of an annotator: the current one, else one assigned to them, else the next open one; None at the end."""
    timestamp = store.timestamp()
    until = timestamp + int(minutes * 60_000)
    with store.writing() as connection:
        _refuse_stranger(connection, annotator_id)
        key = _current(connection, annotator_id, timestamp) or _next(connection, annotator_id, timestamp, until)
        if key is None:
            return None
        extend = sa.update(assignment).where(assignment.c.id == key).values(expires=until)
        connection.execute(extend)
        return _assigned_task(connection, key)


def _refuse_stranger(connection: sa.Connection, annotator_id: int) -> None:
    account = sa.select(annotator.c.active).where(annotator.c.id == annotator_id)
    active = connection.scalar(account.with_for_update(key_share=True))  # concurrent clicks wait for each other
    if active is None:
        raise UnknownId(f"no annotator {annotator_id}")
    aside = sa.select(exclusion.c.id).where(
        exclusion.c.kind == "annotator", exclusion.c.target == annotator_id, exclusion.c.lifted.is_(None)
    )
    if not active or connection.scalar(aside) is not None:
        raise NotAllowed("this annotator is excluded and gets no more tasks: contact a reviewer")


def _current(connection: sa.Connection, annotator_id: int, timestamp: int) -> int | None:
    """The annotator's unfinished assignment, if it still has pairs to judge."""
    unfinished = sa.select(assignment.c.id, assignment.c.task_id).where(
        assignment.c.annotator_id == annotator_id,
        assignment.c.finished.is_(None),
        assignment.c.expires > timestamp,
        sa.not_(excluded()),
    )
    for row in connection.execute(unfinished.order_by(assignment.c.id)).all():
        if not state_of(connection, row.task_id, lock=True).finished_by(row.id):
            return int(row.id)
        connection.execute(sa.update(assignment).where(assignment.c.id == row.id).values(finished=timestamp))
    return None


def _next(connection: sa.Connection, annotator_id: int, timestamp: int, until: int) -> int | None:
    """Takes the first assigned task, else the first with a free slot: locks it, then counts again."""
    passed: list[int] = []
    while True:
        parameters = {"me": annotator_id, "now": timestamp, "passed": passed}
        number = connection.scalar(FIRST_RESERVED, parameters) or connection.scalar(FIRST, parameters)
        if number is None:
            return None
        state = state_of(connection, number)
        assignment_id = next((a["id"] for a in state.assignments if a["annotator_id"] == annotator_id), None)
        if state.holders(timestamp, but=annotator_id) < state.task["replication"] and state.has_work(assignment_id):
            return (
                assignment_id
                if assignment_id is not None
                else _assigned(connection, number, annotator_id, timestamp, until)
            )
        if state.complete:
            connection.execute(sa.update(task).where(task.c.id == number).values(done=True))
        passed.append(number)


def _assigned(connection: sa.Connection, number: int, annotator_id: int, timestamp: int, until: int) -> int:
    values = {"task_id": number, "annotator_id": annotator_id, "leased": timestamp, "expires": until}
    return inserted(connection, assignment, **values)


def assignment_of(store: Store, annotator_id: int, assignment_id: int) -> AssignedTask:
    """A task in its current state; an error for anyone except its annotator."""
    with store.reading() as connection:
        assigned_task = _assigned_task(connection, assignment_id)
    if assigned_task.annotator != annotator_id:
        raise NotAllowed("this task belongs to someone else")
    return assigned_task


def _assigned_task(connection: sa.Connection, assignment_id: int) -> AssignedTask:
    row = connection.execute(sa.select(assignment).where(assignment.c.id == assignment_id)).mappings().first()
    if row is None:
        raise UnknownId(f"no assignment {assignment_id}")
    state = state_of(connection, row["task_id"])
    items = tuple(_item(item, state.latest.get((assignment_id, item["id"]))) for item in state.open_to(assignment_id))
    done = row["finished"] is not None
    kind, why = state.task["kind"], state.task["reasons"]
    return AssignedTask(row["id"], row["task_id"], kind, row["annotator_id"], row["expires"], done, items, why)


def _item(item: sa.RowMapping, answer: Row | None) -> Item:
    pair_ = item["id"], item["position"], item["image"], item["caption"], item["text"]
    if answer is None or answer["grade"] is None:
        return Item(*pair_, None, ())
    return Item(*pair_, answer["grade"], tuple(json.loads(answer["reasons"])), answer["id"], answer["comment"] or "")


def assignments_of(store: Store, annotator_id: int) -> list[int]:
    """The valid assignments of pairs of an annotator, in the order they were taken."""
    query = sa.select(assignment.c.id).join_from(assignment, task).where(task.c.kind == "pairs", sa.not_(excluded()))
    query = query.where(assignment.c.annotator_id == annotator_id).order_by(assignment.c.id)
    with store.reading() as connection:
        return list(connection.scalars(query))


def renew(store: Store, annotator_id: int, assignment_id: int, *, minutes: float = MINUTES) -> int:
    """Renews a lease that has not expired; returns its new end."""
    timestamp = store.timestamp()
    return _set_expiry(store, annotator_id, assignment_id, timestamp, timestamp + int(minutes * 60_000))


def give_back(store: Store, annotator_id: int, assignment_id: int) -> None:
    """Returns a task early: answers stay, the rest goes to someone else."""
    timestamp = store.timestamp()
    _set_expiry(store, annotator_id, assignment_id, timestamp, timestamp)


def _set_expiry(store: Store, annotator_id: int, assignment_id: int, timestamp: int, until: int) -> int:
    owned = (assignment.c.id == assignment_id, assignment.c.annotator_id == annotator_id)
    unexpired = (assignment.c.finished.is_(None), assignment.c.expires > timestamp)
    with store.writing() as connection:
        done = connection.execute(sa.update(assignment).where(*owned, *unexpired).values(expires=until))
    if not done.rowcount:
        raise NotAllowed(
            f"assignment {assignment_id} is not held by annotator {annotator_id} now: request a task again"
        )
    return until


# --- progress ---------------------------------------------------------------------------------------------------


def progress(store: Store) -> dict[str, int]:
    """Progress: numbers of tasks, held tasks, valid answers to pairs and controls, and requested answers to pairs."""
    timestamp = store.timestamp()
    leased = sa.select(sa.func.count()).select_from(assignment)
    leased = leased.where(assignment.c.finished.is_(None), assignment.c.expires > timestamp, sa.not_(excluded()))
    requested_query = sa.select(sa.func.coalesce(sa.func.sum(task.c.replication), 0)).join_from(task_item, task)
    answer_count = sa.select(sa.func.count()).select_from(counted_answer)
    real = counted_answer.c.role == "real"
    count = sa.select(sa.func.count())
    queries = {
        "tasks": count.select_from(task),
        "done": count.select_from(task).where(task.c.done.is_(True)),
        "held": leased,
        "answers": answer_count.where(real),
        "asked": requested_query.where(task_item.c.role == "real"),
        "controls": answer_count.where(sa.not_(real)),
        "kept": count.select_from(judgement),
    }
    with store.reading() as connection:
        return {name: int(connection.scalar(query) or 0) for name, query in queries.items()}


def progress_of(store: Store, annotator_id: int) -> dict[str, int]:
    """The progress of one annotator, and how many tasks are still available to them."""
    of_annotator = assignment.c.annotator_id == annotator_id
    answered = (
        sa.select(sa.func.count()).select_from(counted_answer).where(counted_answer.c.annotator_id == annotator_id)
    )
    finished = (
        sa.select(sa.func.count()).select_from(assignment).where(of_annotator, assignment.c.finished.is_not(None))
    )
    free = sa.select(sa.func.count()).select_from(FREE.subquery())
    with store.reading() as connection:
        queries = {"finished": finished, "answers": answered, "free": free}
        parameters = {"me": annotator_id, "now": store.timestamp()}
        return {
            name: connection.scalar(query, parameters if name == "free" else {}) or 0 for name, query in queries.items()
        }
