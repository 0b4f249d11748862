"""Which tasks have a free place for whom, and tasks assigned to one person by the study lead.

The queries for free places are built once: building one takes as long as running it. Their parameters are `me`, the
annotator, and `now`, the time.

An assigned task is offered to its person first, and one of its places is kept for them: a task that two people judge is
still judged by two. What is not answered can be released or moved to someone else; nothing is dropped. The place of
someone who is excluded, or whose account is closed, is free for everyone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from limner.annotate.store import Store, alone
from limner.annotate.store.people import annotator_of
from limner.annotate.store.schema import annotator, assignment, exclusion, reservation, sa, task
from limner.core.errors import LimnerError, UnknownId

_ME: sa.BindParameter[int] = sa.bindparam("me", type_=sa.Integer)
_NOW: sa.BindParameter[int] = sa.bindparam("now", type_=sa.BigInteger)


def taken_out(**targets: sa.Column[int]) -> sa.ColumnElement[bool]:
    """Whether something was excluded: kind of exclusion -> column with the id."""
    kinds = [sa.and_(exclusion.c.kind == kind, exclusion.c.target == column) for kind, column in targets.items()]
    return sa.exists().where(exclusion.c.lifted.is_(None), sa.or_(*kinds))


def excluded() -> sa.ColumnElement[bool]:
    """Whether an assignment, or its annotator, was excluded."""
    return taken_out(assignment=assignment.c.id, annotator=assignment.c.annotator_id)


def _reserved_for_others(busy: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    """The places of a task that are assigned to others who have not taken it yet, and who can still work."""
    started = sa.exists().where(
        assignment.c.task_id == reservation.c.task_id,
        assignment.c.annotator_id == reservation.c.annotator_id,
        sa.or_(busy, excluded()),
    )
    able = (annotator.c.active, sa.not_(taken_out(annotator=annotator.c.id)), sa.not_(started))
    reserved = (reservation.c.task_id == task.c.id, reservation.c.released.is_(None), annotator.c.id != _ME)
    query = sa.select(sa.func.count()).join_from(reservation, annotator, reservation.c.annotator_id == annotator.c.id)
    return query.where(*reserved, *able).correlate(task).scalar_subquery()


def _free() -> sa.Select[int]:
    busy = sa.or_(assignment.c.finished.is_not(None), assignment.c.expires > _NOW)
    of_task = assignment.c.task_id == task.c.id
    holders = sa.select(sa.func.count()).select_from(assignment).where(of_task, busy, sa.not_(excluded()))
    over = sa.or_(assignment.c.finished.is_not(None), excluded())
    ended_by_me = sa.exists().where(of_task, assignment.c.annotator_id == _ME, over)
    occupied = holders.correlate(task).scalar_subquery() + _reserved_for_others(busy)
    return sa.select(task.c.id).where(task.c.done.is_(False), occupied < task.c.replication, sa.not_(ended_by_me))


RESERVED = sa.exists().where(
    reservation.c.task_id == task.c.id, reservation.c.released.is_(None), reservation.c.annotator_id == _ME
)
"""Whether a task is assigned to me."""

FREE = _free()
"""Open tasks with a free place for me, that I have neither finished nor been excluded from."""

_FIRST = FREE.where(task.c.id.not_in(sa.bindparam("passed", expanding=True))).order_by(task.c.id).limit(1)
FIRST = _FIRST.with_for_update(skip_locked=True, of=task)
"""The first of them that is not in the list `passed`, locked."""

_OWN = sa.select(reservation.c.task_id).where(reservation.c.released.is_(None), reservation.c.annotator_id == _ME)
FIRST_RESERVED = _FIRST.where(task.c.id.in_(_OWN)).with_for_update(skip_locked=True, of=task)
"""The first of them that is assigned to me; looked up by the person, so that it is quick with many tasks."""


@dataclass(frozen=True)
class AssignedWork:
    """The assigned tasks of one person.

    Args:
        annotator: The name.
        id: The person's id.
        assigned: Number of tasks assigned to them.
        finished: How many of these they have finished.
        left: Ids of those they have not finished and that still need answers.
    """

    annotator: str
    id: int
    assigned: int
    finished: int
    left: tuple[int, ...]


def assign_tasks(
    store: Store,
    annotator_id: int,
    *,
    number: int | None = None,
    tasks: Iterable[int] | None = None,
    turn: int | None = None,
    by: int | None = None,
) -> list[int]:
    """Assigns open tasks to one person: the given ones, or the first ones that have a place for them.

    Args:
        store: The store.
        annotator_id: The person.
        number: Maximum number of tasks; all by default.
        tasks: Ids of tasks; each must have a place for the person.
        turn: Only tasks of this round.
        by: The admin who assigns.

    Returns:
        The ids of the newly assigned tasks.
    """
    if number is not None and number < 1:
        raise LimnerError(f"{number} tasks: expected 1 or more")
    person = annotator_of(store, annotator_id)
    if not person.active:
        raise LimnerError(f"the account of {person.name!r} is closed: open it first")
    with store.writing() as connection:
        alone(store, connection)
        assignable = _assignable(connection, annotator_id, store.timestamp(), turn)
        if tasks is not None:
            assignable = _only(connection, assignable, list(dict.fromkeys(tasks)), person.name)
        if not assignable:
            raise LimnerError(f"no open task has a place for {person.name!r}: create tasks, or release assigned ones")
        return _reserve(connection, annotator_id, assignable[:number], by, store.timestamp())


def _assignable(connection: sa.Connection, annotator_id: int, timestamp: int, turn: int | None) -> list[int]:
    """Tasks with a place for a person that are not assigned to them yet."""
    query = FREE.where(sa.not_(RESERVED)).order_by(task.c.id)
    parameters = {"me": annotator_id, "now": timestamp}
    return list(connection.scalars(query if turn is None else query.where(task.c.turn == turn), parameters))


def _only(connection: sa.Connection, free: Sequence[int], requested: Sequence[int], name: str) -> list[int]:
    existing = set(connection.scalars(sa.select(task.c.id).where(task.c.id.in_(requested))))
    for number in requested:
        if number not in existing:
            raise UnknownId(f"no task {number}")
        if number not in free:
            raise LimnerError(
                f"task {number} has no place for {name!r}: it is done, or theirs already, or others have all its places"
            )
    return list(requested)


def _reserve(
    connection: sa.Connection, annotator_id: int, tasks: Sequence[int], by: int | None, timestamp: int
) -> list[int]:
    rows = [{"task_id": number, "annotator_id": annotator_id, "by_id": by, "added": timestamp} for number in tasks]
    if rows:
        connection.execute(sa.insert(reservation), rows)
    return list(tasks)


def release_tasks(store: Store, annotator_id: int) -> list[int]:
    """Releases the assigned tasks that a person has not finished, so that anyone can take them; answers stay.

    Returns:
        The ids of these tasks.
    """
    with store.writing() as connection:
        alone(store, connection)
        return _release(connection, annotator_id, store.timestamp())


def move_tasks(store: Store, annotator_id: int, to: int, *, by: int | None = None) -> tuple[list[int], list[int]]:
    """Moves the assigned tasks that a person has not finished to someone else; answers stay.

    The person's lease of such a task ends. A task without a place for the other person, for example because they have
    judged it already, is only released.

    Returns:
        The ids of the moved tasks, and of those that were only released.
    """
    recipient = annotator_of(store, to)
    if not recipient.active or to == annotator_id:
        raise LimnerError(f"tasks cannot be moved to {recipient.name!r}: expected another person with an open account")
    with store.writing() as connection:
        alone(store, connection)
        timestamp = store.timestamp()
        released = _release(connection, annotator_id, timestamp)
        unfinished = (assignment.c.annotator_id == annotator_id, assignment.c.finished.is_(None))
        ended = sa.update(assignment).where(
            *unfinished, assignment.c.task_id.in_(released), assignment.c.expires > timestamp
        )
        connection.execute(ended.values(expires=timestamp))
        free = set(_assignable(connection, to, timestamp, None))
        moved = _reserve(connection, to, [number for number in released if number in free], by, timestamp)
        return moved, [number for number in released if number not in free]


def _release(connection: sa.Connection, annotator_id: int, timestamp: int) -> list[int]:
    left = _left(connection, annotator_id)
    reserved = (reservation.c.annotator_id == annotator_id, reservation.c.released.is_(None))
    connection.execute(
        sa.update(reservation).where(*reserved, reservation.c.task_id.in_(left)).values(released=timestamp)
    )
    return left


def _left(connection: sa.Connection, annotator_id: int) -> list[int]:
    """The assigned tasks that still wait for a person."""
    finished = sa.exists().where(
        assignment.c.task_id == task.c.id, assignment.c.annotator_id == annotator_id, assignment.c.finished.is_not(None)
    )
    query = sa.select(task.c.id).where(RESERVED, task.c.done.is_(False), sa.not_(finished))
    return list(connection.scalars(query.order_by(task.c.id), {"me": annotator_id}))


def tasks_left(store: Store, annotator_id: int) -> int:
    """The number of assigned tasks that still wait for a person."""
    with store.reading() as connection:
        return len(_left(connection, annotator_id))


def assigned_work(store: Store) -> list[AssignedWork]:
    """Everyone with assigned tasks, and how far they are."""
    active = reservation.c.released.is_(None)
    done = sa.exists().where(
        assignment.c.task_id == reservation.c.task_id,
        assignment.c.annotator_id == reservation.c.annotator_id,
        assignment.c.finished.is_not(None),
        sa.not_(excluded()),
    )
    finished = sa.func.sum(sa.case((done, 1), else_=0))
    query = sa.select(annotator.c.name, annotator.c.id, sa.func.count(), finished)
    query = query.join_from(reservation, annotator, reservation.c.annotator_id == annotator.c.id).where(active)
    with store.reading() as connection:
        rows = connection.execute(query.group_by(annotator.c.id, annotator.c.name).order_by(annotator.c.name)).all()
        return [AssignedWork(row[0], row[1], row[2], int(row[3]), tuple(_left(connection, row[1]))) for row in rows]
