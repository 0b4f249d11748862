"""Failures that people classify, and whether a task asks for reasons."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from limner.annotate.store.migrations import no_downgrade

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the tables, and marks reasons as optional for every existing task; nothing else changes."""
    op.add_column("task", sa.Column("reasons", sa.Text(), nullable=False, server_default="optional"))
    op.create_table(
        "failure",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("truth", sa.Text(), nullable=False),
        sa.Column("returned", sa.Text(), nullable=False),
        sa.Column("by_text", sa.Boolean(), nullable=False),
        sa.Column("replication", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("replication >= 1", name="ck_failure_replication"),
        sa.PrimaryKeyConstraint("id", name="pk_failure"),
        sa.UniqueConstraint("study", "query", name="uq_failure_study_query"),
    )
    op.create_table(
        "failure_answer",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("failure_id", sa.Integer(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("classes", sa.Text(), nullable=False),
        sa.Column("rating", sa.Integer(), nullable=False),
        sa.Column("client_key", sa.Text(), nullable=False),
        sa.Column("milliseconds", sa.Integer(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("rating BETWEEN 1 AND 10", name="ck_failure_answer_rating"),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotator.id"], name="fk_failure_answer_annotator_id"),
        sa.ForeignKeyConstraint(["failure_id"], ["failure.id"], name="fk_failure_answer_failure_id"),
        sa.PrimaryKeyConstraint("id", name="pk_failure_answer"),
        sa.UniqueConstraint("client_key", name="uq_failure_answer_client_key"),
        sa.UniqueConstraint("failure_id", "annotator_id", name="uq_failure_answer_failure_id_annotator_id"),
    )


downgrade = no_downgrade
