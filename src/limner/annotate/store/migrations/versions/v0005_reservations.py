"""Tasks that the study lead keeps for one person."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from limner.annotate.store.migrations import no_downgrade

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds the table; existing data does not change."""
    op.create_table(
        "reservation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("by_id", sa.Integer(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("released", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotator.id"], name="fk_reservation_annotator_id"),
        sa.ForeignKeyConstraint(["by_id"], ["annotator.id"], name="fk_reservation_by_id"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_reservation_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_reservation"),
    )
    op.create_index("ix_reservation_annotator_id", "reservation", ["annotator_id"], unique=False)
    op.create_index("ix_reservation_task_id", "reservation", ["task_id"], unique=False)
    held = sa.text("released IS NULL")
    columns = ["task_id", "annotator_id"]
    op.create_index(
        "ix_reservation_open", "reservation", columns, unique=True, sqlite_where=held, postgresql_where=held
    )


downgrade = no_downgrade
