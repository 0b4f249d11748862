"""Exclusions: nothing is deleted; excluded answers no longer count, and their pairs are asked again."""

from __future__ import annotations

from dataclasses import dataclass

from limner.annotate.store import Store
from limner.annotate.store.schema import (
    EXCLUDABLE,
    annotator,
    assignment,
    caption,
    exclusion,
    image,
    inserted,
    pair,
    sa,
    task,
    task_item,
)
from limner.annotate.store.tasks import state_of
from limner.core.errors import LimnerError, UnknownId, UnknownName

_TABLES = {"annotator": annotator, "assignment": assignment, "image": image, "caption": caption, "pair": pair}


@dataclass(frozen=True)
class Exclusion:
    """An exclusion: target, reason, author, time (milliseconds), and when it was lifted."""

    id: int
    kind: str
    target: int
    name: str
    reason: str
    by: str | None
    added: int
    lifted: int | None


def exclude(store: Store, kind: str, target: int | str, *, reason: str, by: int | None = None) -> int:
    """Excludes an annotator, an assignment, a pair, an image or a caption.

    Args:
        store: The store.
        kind: "annotator", "assignment", "pair", "image" or "caption".
        target: Its id in the store; or the name of an annotator, or the collection's id of an image or caption.
        reason: The reason; it is stored.
        by: Who excluded it.

    Returns:
        The exclusion's id, even if it already existed.
    """
    if kind not in EXCLUDABLE:
        raise UnknownName("kind of exclusion", kind, EXCLUDABLE)
    if not reason.strip():
        raise LimnerError("an exclusion needs a reason")
    with store.writing() as connection:
        number = _number(connection, kind, target)
        existing = connection.scalar(sa.select(exclusion.c.id).where(*_active_exclusion(kind, number)))
        if existing is not None:
            return int(existing)
        values = {"kind": kind, "target": number, "reason": reason.strip(), "by_id": by, "added": store.timestamp()}
        exclusion_id = inserted(connection, exclusion, **values)
        _resettle(connection, kind, number)
        return exclusion_id


def lift(store: Store, exclusion_id: int) -> None:
    """Lifts an exclusion; refused if someone else has answered instead."""
    with store.writing() as connection:
        row = connection.execute(sa.select(exclusion).where(exclusion.c.id == exclusion_id)).mappings().first()
        if row is None:
            raise UnknownId(f"no exclusion {exclusion_id}")
        lifted = sa.update(exclusion).where(exclusion.c.id == exclusion_id, exclusion.c.lifted.is_(None))
        connection.execute(lifted.values(lifted=store.timestamp()))
        for number in _touched(connection, row["kind"], row["target"]):
            _refuse_over(store, connection, number)
        _resettle(connection, row["kind"], row["target"])


def _refuse_over(store: Store, connection: sa.Connection, number: int) -> None:
    """Raises an error, and so rolls back, if a task would have too many people or answers."""
    state = state_of(connection, number, lock=True)
    replication = state.task["replication"]
    over = any(item["role"] == "real" and state.answered(item["id"]) > replication for item in state.items)
    if over or state.holders(store.timestamp(), but=-1) > replication:
        raise LimnerError(f"task {number} was assigned to someone else in the meantime: it would get too many answers")


def exclusions(store: Store, *, lifted: bool = False) -> list[Exclusion]:
    """Current exclusions; with `lifted`, also lifted ones."""
    names = sa.case(
        (exclusion.c.kind == "annotator", _name(annotator, annotator.c.name)),
        (exclusion.c.kind == "image", _name(image, image.c.key)),
        (exclusion.c.kind == "caption", _name(caption, caption.c.key)),
        else_=sa.cast(exclusion.c.target, sa.Text),
    )
    columns = [exclusion.c[name] for name in ("id", "kind", "target", "reason", "added", "lifted")]
    query = sa.select(*columns, names.label("name"), annotator.c.name.label("by"))
    query = query.outerjoin_from(exclusion, annotator, annotator.c.id == exclusion.c.by_id).order_by(exclusion.c.id)
    return [Exclusion(**row) for row in store.rows(query if lifted else query.where(exclusion.c.lifted.is_(None)))]


def _name(table: sa.Table, column: sa.Column[object]) -> sa.ScalarSelect[object]:
    aliased = table.alias()
    return (
        sa.select(aliased.c[column.name])
        .where(aliased.c.id == exclusion.c.target)
        .correlate(exclusion)
        .scalar_subquery()
    )


def _number(connection: sa.Connection, kind: str, target: int | str) -> int:
    table = _TABLES[kind]
    named = table.c.name if kind == "annotator" else table.c.get("key")
    condition = named == target if isinstance(target, str) and named is not None else table.c.id == target
    row_id = connection.scalar(sa.select(table.c.id).where(condition))
    if row_id is None:
        raise UnknownId(f"no {kind} {target!r} in the store")
    return int(row_id)


def _active_exclusion(kind: str, number: int) -> tuple[sa.ColumnElement[bool], ...]:
    return exclusion.c.kind == kind, exclusion.c.target == number, exclusion.c.lifted.is_(None)


def _touched(connection: sa.Connection, kind: str, number: int) -> list[int]:
    """The tasks affected by an exclusion."""
    if kind in ("annotator", "assignment"):
        column = assignment.c.annotator_id if kind == "annotator" else assignment.c.id
        query = sa.select(assignment.c.task_id).where(column == number)
    else:
        column = {"pair": pair.c.id, "image": pair.c.image_id, "caption": pair.c.caption_id}[kind]
        query = sa.select(task_item.c.task_id).join_from(task_item, pair).where(column == number)
    return sorted(set(connection.scalars(query)))


def _resettle(connection: sa.Connection, kind: str, number: int) -> None:
    for key in _touched(connection, kind, number):
        complete = state_of(connection, key, lock=True).complete
        connection.execute(sa.update(task).where(task.c.id == key).values(done=complete))
