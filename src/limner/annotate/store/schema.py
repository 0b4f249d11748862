"""SQLAlchemy (an optional dependency), and the tables of the store.

Answers are appended, never overwritten; the current state is a view. Times are milliseconds since 1970 in UTC. `key` is
an id of the collection, `id` is the store's own id. A new store gets these tables. For existing stores, a change of
them needs a migration in `migrations/versions` and its number in `VERSION`.
"""

from __future__ import annotations

from typing import Any

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra

if absent := missing("sqlalchemy", "alembic"):
    raise missing_extra(absent, what="the store of answers")

import sqlalchemy as sa

__all__ = ["Unreachable", "inserted", "out_of_reach", "sa"]


Row = dict[str, Any]
"""A row of a table, by column."""


class Unreachable(LimnerError):
    """A database server does not answer, or has ended the connection."""


def out_of_reach(error: object) -> bool:
    """Whether a database error comes from the connection: no state, or that of a connection or a server's shutdown."""
    if not isinstance(error, sa.exc.OperationalError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state is None or state.startswith(("08", "57P"))


def inserted(connection: sa.Connection, table: sa.Table, clash: str = "", /, **values: object) -> int:
    """Adds one row and returns its id; on a conflict, raises an error with the message `clash`."""
    try:
        key: Any = connection.execute(sa.insert(table), values).inserted_primary_key
    except sa.exc.IntegrityError as error:
        if not clash:
            raise
        raise LimnerError(clash) from error
    return int(key[0])


VERSION = "0001"
"""The newest migration: an older store is migrated, a newer one is refused."""

NAMES = {
    "pk": "pk_%(table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}
ROLES = ("annotator", "reviewer", "admin")
KINDS = ("pairs", "captions")
REASONED = ("required", "optional", "off")
"""Whether the two middle grades of a task need a reason, may have one, or have none."""
GOLD = ("gold_pos", "gold_neg")
EXCLUDABLE = ("annotator", "assignment", "image", "caption", "pair")

metadata = sa.MetaData(naming_convention=NAMES)


def _table(name: str, *columns: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), *columns)


def _to(table: str, *, index: bool = False) -> sa.Column[int]:
    return sa.Column(f"{table}_id", sa.ForeignKey(f"{table}.id"), nullable=False, index=index)


def _person(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.ForeignKey("annotator.id"), nullable=True)


def _time(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=null)


def _whole(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=null)


def _real(name: str, *, null: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Float, nullable=null)


def _text(name: str, *, null: bool = False, unique: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null, unique=unique)


def _unique(*names: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*names)


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def _one_of(name: str, values: tuple[str, ...]) -> sa.CheckConstraint:
    return _check(name, f"{name} IN ({', '.join(repr(value) for value in values)})")


def _one_where(name: str, condition: sa.ColumnElement[bool], *columns: sa.Column[int]) -> None:
    """Columns that are unique among the rows with a condition."""
    sa.Index(name, *columns, unique=True, sqlite_where=condition, postgresql_where=condition)


# fmt: off
setting = sa.Table("setting", metadata, sa.Column("name", sa.Text, primary_key=True), _text("value"))

image = _table("image", _text("key", unique=True), _text("hash", null=True))
caption = _table("caption", _text("key", unique=True), _text("hash"), _text("text"))
system = _table("system", _text("name", unique=True), _text("about", null=True), _time("added"))

proposal = _table(
    "proposal", _to("system"), _text("direction"), _to("image"), _to("caption"), _whole("rank"),
    _real("score", null=True), _whole("turn"), _unique("system_id", "direction", "turn", "image_id", "caption_id"),
    _one_of("direction", ("i2t", "t2i")),
)
pair = _table(
    "pair", _to("image"), _to("caption"), _text("origin"), _whole("turn"), _time("added"),
    _unique("image_id", "caption_id"),
)
task = _table(
    "task", _text("kind"), _whole("seed"), _whole("turn"), _whole("replication"),
    sa.Column("done", sa.Boolean, nullable=False, index=True), _time("added"),
    sa.Column("reasons", sa.Text, nullable=False, server_default="optional"),  # one of `REASONED`
    _one_of("kind", KINDS), _check("replication", "replication >= 1"),
)
task_item = _table(
    "task_item", _to("task"), _whole("position"), _to("pair"), _text("role"), _unique("task_id", "position"),
    _unique("task_id", "pair_id"), _one_of("role", ("real", *GOLD)),
)
# A pooled pair is in one task only, so that the task's replication is also that of the pair.
_one_where("ix_task_item_real_pair", task_item.c.role == "real", task_item.c.pair_id)

annotator = _table(
    "annotator", _text("name"),
    _text("folded", unique=True),  # `people.folded_name` of the name
    _text("role"), _text("password_hash", null=True), sa.Column("active", sa.Boolean, nullable=False), _time("added"),
    _one_of("role", ROLES),
)
invite = _table(
    "invite", _text("token_hash", unique=True), _text("role"), _person("by_id"), _time("added"), _time("expires"),
    _time("used", null=True), _person("used_by_id"), _one_of("role", ROLES),
)
session = _table("session", _text("token_hash", unique=True), _to("annotator"), _time("added"), _time("expires"))
assignment = _table(
    "assignment", _to("task"), _to("annotator", index=True), _time("leased"), _time("expires"),
    _time("finished", null=True), _unique("task_id", "annotator_id"),
)
# A task that the study lead keeps for one person; until it is released, one of its places is theirs.
reservation = _table(
    "reservation", _to("task", index=True), _to("annotator", index=True), _person("by_id"), _time("added"),
    _time("released", null=True),
)
_one_where(
    "ix_reservation_open", reservation.c.released.is_(None), reservation.c.task_id, reservation.c.annotator_id
)
judgement = _table(
    "judgement", _to("assignment"),
    sa.Column("item_id", sa.ForeignKey("task_item.id"), nullable=False, index=True),
    _whole("revision"), _text("client_key", unique=True),
    _whole("grade", null=True),  # NULL: the answer was withdrawn
    _text("reasons"), _whole("milliseconds", null=True), _text("guideline"), _time("added"),
    _text("comment", null=True), _unique("assignment_id", "item_id", "revision"),
    _check("grade", "grade BETWEEN 1 AND 4"),
)
review = _table(
    "review", _to("assignment", index=True), _text("decision"), _text("reason"), _person("by_id"), _time("added"),
    _one_of("decision", ("accept", "reject")),
)
exclusion = _table(
    "exclusion", _text("kind"), _whole("target"), _text("reason"), _person("by_id"), _time("added"),
    _time("lifted", null=True), _one_of("kind", EXCLUDABLE), _check("reason", "reason <> ''"),
    sa.Index("ix_exclusion_kind_target", "kind", "target"),
)
# A study: a form (data, as JSON), questions, and one answer of each person to each question.
study = _table("study", _text("name", unique=True), _text("form"), _text("settings"), _time("added"))
question = _table(
    "question", _to("study"),
    _text("key"),  # the values that identify it, as JSON
    _text("shown"), _text("hidden"), _whole("replication"), _time("added"), _unique("study_id", "key"),
    _check("replication", "replication >= 1"),
)
study_answer = _table(
    "study_answer", _to("question"), _to("annotator"), _text("answer"), _text("client_key", unique=True),
    _whole("milliseconds", null=True), _time("added"), _unique("question_id", "annotator_id"),
)
# The measures to estimate, the systems and the judge; fixed when the design is created.
design = _table(
    "design", _text("direction"), _text("unit"), _text("settings"), _whole("queries"), _time("added"),
    _one_of("direction", ("i2t", "t2i")), _one_of("unit", ("pair", "query")),
)
# One draw: its allocation to the strata, and its seed.
design_phase = _table(
    "design_phase", _to("design"), _whole("phase"), sa.Column("seed", sa.BigInteger, nullable=False), _text("shares"),
    _time("added"), _unique("design_id", "phase"),
)
# All units of the sampling frame, with their strata; for drawn units also the draw and the probability.
design_unit = _table(
    "design_unit", _to("design"), _whole("number"), _text("query"), _text("candidates"), _whole("stratum"),
    _real("score", null=True), _whole("place", null=True), _whole("phase", null=True), _real("probability", null=True),
    _unique("design_id", "number"), _check("probability", "probability > 0 AND probability <= 1"),
)
# Answers of automatic judges: separate from human answers.
judge = _table("judge", _text("name", unique=True), _time("added"))
machine_answer = _table(
    "machine_answer", _to("judge"), _to("image"), _to("caption"), _real("probability"), _time("added"),
    _unique("judge_id", "image_id", "caption_id"), _check("probability", "probability >= 0 AND probability <= 1"),
)
# fmt: on

_CURRENT = """
    SELECT j.id, j.assignment_id, j.item_id, j.revision, j.grade, j.reasons, j.milliseconds, j.guideline, j.added,
           a.task_id, a.annotator_id, a.finished, i.pair_id, i.role, i.position, p.image_id, p.caption_id, j.comment
    FROM judgement j
    JOIN assignment a ON a.id = j.assignment_id
    JOIN task_item i ON i.id = j.item_id
    JOIN pair p ON p.id = i.pair_id
    WHERE j.grade IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM judgement k
        WHERE k.assignment_id = j.assignment_id AND k.item_id = j.item_id AND k.revision > j.revision)
"""
_COUNTED = """
    SELECT c.* FROM current_answer c WHERE NOT EXISTS (
        SELECT 1 FROM exclusion e WHERE e.lifted IS NULL AND (
            (e.kind = 'annotator' AND e.target = c.annotator_id)
            OR (e.kind = 'assignment' AND e.target = c.assignment_id)
            OR (e.kind = 'pair' AND e.target = c.pair_id)
            OR (e.kind = 'image' AND e.target = c.image_id)
            OR (e.kind = 'caption' AND e.target = c.caption_id)))
"""


def create_tables(connection: sa.Connection) -> None:
    """Makes all tables and views of a new store."""
    metadata.create_all(connection)
    for name, select in (("current_answer", _CURRENT), ("counted_answer", _COUNTED)):
        connection.execute(sa.text(f"CREATE VIEW {name} AS {select}"))


_ANSWER = (
    "id", "assignment_id", "item_id", "revision", "grade", "reasons", "milliseconds", "guideline", "added", "task_id",
    "annotator_id", "finished", "pair_id", "role", "position", "image_id", "caption_id", "comment",
)  # fmt: skip
current_answer = sa.table("current_answer", *map(sa.column, _ANSWER))
"""The last revision of every answer, unless it was withdrawn: a view."""
counted_answer = sa.table("counted_answer", *map(sa.column, _ANSWER))
"""The current answers that are not excluded: a view."""
