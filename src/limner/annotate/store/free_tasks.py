"""Which tasks have a free place for whom. The queries are built once: building one takes as long as running it.

Their parameters are `me`, the annotator, and `now`, the time.
"""

from __future__ import annotations

from limner.annotate._sql import sa
from limner.annotate.store.schema import annotator, assignment, exclusion, reservation, task

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
