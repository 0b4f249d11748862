"""The tables of the store. Answers are appended, never overwritten; the current state is a view.

Times are milliseconds since 1970 in UTC. `key` is an id of the collection, `id` is the store's own id. A new store gets
these tables. For existing stores, a change of them needs a migration in `migrations/versions` and its number in
`VERSION`.
"""

from __future__ import annotations

from limner.annotate._sql import sa

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


def _number() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _to(table: str, *, null: bool = False, index: bool = False) -> sa.Column[int]:
    return sa.Column(f"{table}_id", sa.ForeignKey(f"{table}.id"), nullable=null, index=index)


def _time(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=null)


def _text(name: str, *, null: bool = False, unique: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null, unique=unique)


def _one_of(name: str, values: tuple[str, ...]) -> sa.CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{name} IN ({listed})", name=name)


setting = sa.Table("setting", metadata, sa.Column("name", sa.Text, primary_key=True), _text("value"))

image = sa.Table("image", metadata, _number(), _text("key", unique=True), _text("hash", null=True))
caption = sa.Table("caption", metadata, _number(), _text("key", unique=True), _text("hash"), _text("text"))

system = sa.Table("system", metadata, _number(), _text("name", unique=True), _text("about", null=True), _time("added"))

proposal = sa.Table(
    "proposal",
    metadata,
    _number(),
    _to("system"),
    _text("direction"),
    _to("image"),
    _to("caption"),
    sa.Column("rank", sa.Integer, nullable=False),
    sa.Column("score", sa.Float, nullable=True),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.UniqueConstraint("system_id", "direction", "turn", "image_id", "caption_id"),
    _one_of("direction", ("i2t", "t2i")),
)

pair = sa.Table(
    "pair",
    metadata,
    _number(),
    _to("image"),
    _to("caption"),
    _text("origin"),
    sa.Column("turn", sa.Integer, nullable=False),
    _time("added"),
    sa.UniqueConstraint("image_id", "caption_id"),
)

task = sa.Table(
    "task",
    metadata,
    _number(),
    _text("kind"),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("turn", sa.Integer, nullable=False),
    sa.Column("replication", sa.Integer, nullable=False),
    sa.Column("done", sa.Boolean, nullable=False, index=True),
    _time("added"),
    sa.Column("reasons", sa.Text, nullable=False, server_default="optional"),  # one of `REASONED`
    _one_of("kind", KINDS),
    sa.CheckConstraint("replication >= 1", name="replication"),
)

task_item = sa.Table(
    "task_item",
    metadata,
    _number(),
    _to("task"),
    sa.Column("position", sa.Integer, nullable=False),
    _to("pair"),
    _text("role"),
    sa.UniqueConstraint("task_id", "position"),
    sa.UniqueConstraint("task_id", "pair_id"),
    _one_of("role", ("real", *GOLD)),
)
# A pooled pair is in one task only, so that the task's replication is also that of the pair.
sa.Index(
    "ix_task_item_real_pair",
    task_item.c.pair_id,
    unique=True,
    sqlite_where=task_item.c.role == "real",
    postgresql_where=task_item.c.role == "real",
)

annotator = sa.Table(
    "annotator",
    metadata,
    _number(),
    _text("name"),
    _text("folded", unique=True),  # `people.folded_name` of the name
    _text("role"),
    _text("password_hash", null=True),
    sa.Column("active", sa.Boolean, nullable=False),
    _time("added"),
    _one_of("role", ROLES),
)

invite = sa.Table(
    "invite",
    metadata,
    _number(),
    _text("token_hash", unique=True),
    _text("role"),
    sa.Column("by_id", sa.ForeignKey("annotator.id"), nullable=True),
    _time("added"),
    _time("expires"),
    _time("used", null=True),
    sa.Column("used_by_id", sa.ForeignKey("annotator.id"), nullable=True),
    _one_of("role", ROLES),
)

session = sa.Table(
    "session", metadata, _number(), _text("token_hash", unique=True), _to("annotator"), _time("added"), _time("expires")
)

assignment = sa.Table(
    "assignment",
    metadata,
    _number(),
    _to("task"),
    _to("annotator", index=True),
    _time("leased"),
    _time("expires"),
    _time("finished", null=True),
    sa.UniqueConstraint("task_id", "annotator_id"),
)

# A task that the study lead keeps for one person; until it is released, one of its places is theirs.
reservation = sa.Table(
    "reservation",
    metadata,
    _number(),
    _to("task", index=True),
    _to("annotator", index=True),
    sa.Column("by_id", sa.ForeignKey("annotator.id"), nullable=True),
    _time("added"),
    _time("released", null=True),
)
sa.Index(
    "ix_reservation_open",
    reservation.c.task_id,
    reservation.c.annotator_id,
    unique=True,
    sqlite_where=reservation.c.released.is_(None),
    postgresql_where=reservation.c.released.is_(None),
)

judgement = sa.Table(
    "judgement",
    metadata,
    _number(),
    _to("assignment"),
    sa.Column("item_id", sa.ForeignKey("task_item.id"), nullable=False, index=True),
    sa.Column("revision", sa.Integer, nullable=False),
    _text("client_key", unique=True),
    sa.Column("grade", sa.Integer, nullable=True),  # NULL: the answer was withdrawn
    _text("reasons"),
    sa.Column("milliseconds", sa.Integer, nullable=True),
    _text("guideline"),
    _time("added"),
    _text("comment", null=True),
    sa.UniqueConstraint("assignment_id", "item_id", "revision"),
    sa.CheckConstraint("grade BETWEEN 1 AND 4", name="grade"),
)

review = sa.Table(
    "review",
    metadata,
    _number(),
    _to("assignment", index=True),
    _text("decision"),
    _text("reason"),
    sa.Column("by_id", sa.ForeignKey("annotator.id"), nullable=True),
    _time("added"),
    _one_of("decision", ("accept", "reject")),
)

exclusion = sa.Table(
    "exclusion",
    metadata,
    _number(),
    _text("kind"),
    sa.Column("target", sa.Integer, nullable=False),
    _text("reason"),
    sa.Column("by_id", sa.ForeignKey("annotator.id"), nullable=True),
    _time("added"),
    _time("lifted", null=True),
    _one_of("kind", EXCLUDABLE),
    sa.CheckConstraint("reason <> ''", name="reason"),
    sa.Index("ix_exclusion_kind_target", "kind", "target"),
)

# A study: a form (data, as JSON), questions, and one answer of each person to each question.
study = sa.Table(
    "study", metadata, _number(), _text("name", unique=True), _text("form"), _text("settings"), _time("added")
)

question = sa.Table(
    "question",
    metadata,
    _number(),
    _to("study"),
    _text("key"),  # the values that identify it, as JSON
    _text("shown"),
    _text("hidden"),
    sa.Column("replication", sa.Integer, nullable=False),
    _time("added"),
    sa.UniqueConstraint("study_id", "key"),
    sa.CheckConstraint("replication >= 1", name="replication"),
)

study_answer = sa.Table(
    "study_answer",
    metadata,
    _number(),
    _to("question"),
    _to("annotator"),
    _text("answer"),
    _text("client_key", unique=True),
    sa.Column("milliseconds", sa.Integer, nullable=True),
    _time("added"),
    sa.UniqueConstraint("question_id", "annotator_id"),
)

# The measures to estimate, the systems and the judge; fixed when the design is created.
design = sa.Table(
    "design",
    metadata,
    _number(),
    _text("direction"),
    _text("unit"),
    _text("settings"),
    sa.Column("queries", sa.Integer, nullable=False),
    _time("added"),
    _one_of("direction", ("i2t", "t2i")),
    _one_of("unit", ("pair", "query")),
)

# One draw: its allocation to the strata, and its seed.
design_phase = sa.Table(
    "design_phase",
    metadata,
    _number(),
    _to("design"),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    _text("shares"),
    _time("added"),
    sa.UniqueConstraint("design_id", "phase"),
)

# All units of the sampling frame, with their strata; for drawn units also the draw and the probability.
design_unit = sa.Table(
    "design_unit",
    metadata,
    _number(),
    _to("design"),
    sa.Column("number", sa.Integer, nullable=False),
    _text("query"),
    _text("candidates"),
    sa.Column("stratum", sa.Integer, nullable=False),
    sa.Column("score", sa.Float, nullable=True),
    sa.Column("place", sa.Integer, nullable=True),
    sa.Column("phase", sa.Integer, nullable=True),
    sa.Column("probability", sa.Float, nullable=True),
    sa.UniqueConstraint("design_id", "number"),
    sa.CheckConstraint("probability > 0 AND probability <= 1", name="probability"),
)

# Answers of automatic judges: separate from human answers.
judge = sa.Table("judge", metadata, _number(), _text("name", unique=True), _time("added"))

machine_answer = sa.Table(
    "machine_answer",
    metadata,
    _number(),
    _to("judge"),
    _to("image"),
    _to("caption"),
    sa.Column("probability", sa.Float, nullable=False),
    _time("added"),
    sa.UniqueConstraint("judge_id", "image_id", "caption_id"),
    sa.CheckConstraint("probability >= 0 AND probability <= 1", name="probability"),
)

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
