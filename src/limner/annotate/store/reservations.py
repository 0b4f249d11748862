"""Tasks assigned to one person by the study lead.

An assigned task is offered to its person first, and one of its places is kept for them: a task that two people judge is
still judged by two. What is not answered can be released or moved to someone else; nothing is dropped. The place of
someone who is excluded, or whose account is closed, is free for everyone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from limner.annotate._sql import sa
from limner.annotate.store import Store, alone
from limner.annotate.store.free_tasks import FREE, RESERVED, excluded
from limner.annotate.store.people import annotator_of
from limner.annotate.store.schema import annotator, assignment, reservation, task
from limner.core.errors import LimnerError, UnknownId


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
    who = annotator_of(store, annotator_id)
    if not who.active:
        raise LimnerError(f"the account of {who.name!r} is closed: open it first")
    with store.writing() as connection:
        alone(store, connection)
        found = _assignable(connection, annotator_id, store.now(), turn)
        if tasks is not None:
            found = _only(connection, found, list(dict.fromkeys(tasks)), who.name)
        if not found:
            raise LimnerError(f"no open task has a place for {who.name!r}: create tasks, or release assigned ones")
        return _reserve(connection, annotator_id, found[:number], by, store.now())


def _assignable(connection: sa.Connection, annotator_id: int, now: int, turn: int | None) -> list[int]:
    """Tasks with a place for a person that are not assigned to them yet."""
    query = FREE.where(sa.not_(RESERVED)).order_by(task.c.id)
    asked = {"me": annotator_id, "now": now}
    return list(connection.scalars(query if turn is None else query.where(task.c.turn == turn), asked))


def _only(connection: sa.Connection, free: Sequence[int], wanted: Sequence[int], name: str) -> list[int]:
    known = set(connection.scalars(sa.select(task.c.id).where(task.c.id.in_(wanted))))
    for number in wanted:
        if number not in known:
            raise UnknownId(f"no task {number}")
        if number not in free:
            raise LimnerError(
                f"task {number} has no place for {name!r}: it is done, or theirs already, or others have all its places"
            )
    return list(wanted)


def _reserve(connection: sa.Connection, annotator_id: int, tasks: Sequence[int], by: int | None, now: int) -> list[int]:
    rows = [{"task_id": number, "annotator_id": annotator_id, "by_id": by, "added": now} for number in tasks]
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
        return _release(connection, annotator_id, store.now())


def move_tasks(store: Store, annotator_id: int, to: int, *, by: int | None = None) -> tuple[list[int], list[int]]:
    """Moves the assigned tasks that a person has not finished to someone else; answers stay.

    The person's lease of such a task ends. A task without a place for the other person, for example because they have
    judged it already, is only released.

    Returns:
        The ids of the moved tasks, and of those that were only released.
    """
    other = annotator_of(store, to)
    if not other.active or to == annotator_id:
        raise LimnerError(f"tasks cannot be moved to {other.name!r}: expected another person with an open account")
    with store.writing() as connection:
        alone(store, connection)
        now = store.now()
        released = _release(connection, annotator_id, now)
        held = (assignment.c.annotator_id == annotator_id, assignment.c.finished.is_(None))
        ended = sa.update(assignment).where(*held, assignment.c.task_id.in_(released), assignment.c.expires > now)
        connection.execute(ended.values(expires=now))
        free = set(_assignable(connection, to, now, None))
        moved = _reserve(connection, to, [number for number in released if number in free], by, now)
        return moved, [number for number in released if number not in free]


def _release(connection: sa.Connection, annotator_id: int, now: int) -> list[int]:
    left = _left(connection, annotator_id)
    own = (reservation.c.annotator_id == annotator_id, reservation.c.released.is_(None))
    connection.execute(sa.update(reservation).where(*own, reservation.c.task_id.in_(left)).values(released=now))
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
    kept = reservation.c.released.is_(None)
    done = sa.exists().where(
        assignment.c.task_id == reservation.c.task_id,
        assignment.c.annotator_id == reservation.c.annotator_id,
        assignment.c.finished.is_not(None),
        sa.not_(excluded()),
    )
    finished = sa.func.sum(sa.case((done, 1), else_=0))
    query = sa.select(annotator.c.name, annotator.c.id, sa.func.count(), finished)
    query = query.join_from(reservation, annotator, reservation.c.annotator_id == annotator.c.id).where(kept)
    with store.reading() as connection:
        rows = connection.execute(query.group_by(annotator.c.id, annotator.c.name).order_by(annotator.c.name)).all()
        return [AssignedWork(row[0], row[1], row[2], int(row[3]), tuple(_left(connection, row[1]))) for row in rows]
