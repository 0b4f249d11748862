"""Designed samples: sampling frame, drawn units and their probabilities; and judgements of pairs by machines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from limner.annotate.store.migrations import no_downgrade

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the tables; existing data does not change."""
    _designs()
    _machines()


def _designs() -> None:
    op.create_table(
        "design",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("queries", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("direction IN ('i2t', 't2i')", name="ck_design_direction"),
        sa.CheckConstraint("unit IN ('pair', 'query')", name="ck_design_unit"),
        sa.PrimaryKeyConstraint("id", name="pk_design"),
    )
    op.create_table(
        "design_phase",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("design_id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("shares", sa.Text(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["design_id"], ["design.id"], name="fk_design_phase_design_id"),
        sa.PrimaryKeyConstraint("id", name="pk_design_phase"),
        sa.UniqueConstraint("design_id", "phase", name="uq_design_phase_design_id_phase"),
    )
    op.create_table(
        "design_unit",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("design_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("candidates", sa.Text(), nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("place", sa.Integer(), nullable=True),
        sa.Column("phase", sa.Integer(), nullable=True),
        sa.Column("probability", sa.Float(), nullable=True),
        sa.CheckConstraint("probability > 0 AND probability <= 1", name="ck_design_unit_probability"),
        sa.ForeignKeyConstraint(["design_id"], ["design.id"], name="fk_design_unit_design_id"),
        sa.PrimaryKeyConstraint("id", name="pk_design_unit"),
        sa.UniqueConstraint("design_id", "number", name="uq_design_unit_design_id_number"),
    )


def _machines() -> None:
    op.create_table(
        "judge",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_judge"),
        sa.UniqueConstraint("name", name="uq_judge_name"),
    )
    op.create_table(
        "machine_answer",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("judge_id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("caption_id", sa.Integer(), nullable=False),
        sa.Column("probability", sa.Float(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("probability >= 0 AND probability <= 1", name="ck_machine_answer_probability"),
        sa.ForeignKeyConstraint(["caption_id"], ["caption.id"], name="fk_machine_answer_caption_id"),
        sa.ForeignKeyConstraint(["image_id"], ["image.id"], name="fk_machine_answer_image_id"),
        sa.ForeignKeyConstraint(["judge_id"], ["judge.id"], name="fk_machine_answer_judge_id"),
        sa.PrimaryKeyConstraint("id", name="pk_machine_answer"),
        sa.UniqueConstraint(
            "judge_id", "image_id", "caption_id", name="uq_machine_answer_judge_id_image_id_caption_id"
        ),
    )


downgrade = no_downgrade
