"""The first tables and views."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from limner.annotate.store.migrations import no_downgrade
from limner.annotate.store.migrations.answer_views import create_answer_views

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates the tables and views."""
    _contents()
    _pool()
    _people()
    _tasks()
    _answers()
    _results()
    _preference()
    create_answer_views()


downgrade = no_downgrade


def _contents() -> None:
    op.create_table(
        "setting",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_setting"),
    )
    op.create_table(
        "image",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_image"),
        sa.UniqueConstraint("key", name="uq_image_key"),
    )
    op.create_table(
        "caption",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_caption"),
        sa.UniqueConstraint("key", name="uq_caption_key"),
    )
    op.create_table(
        "system",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_system"),
        sa.UniqueConstraint("name", name="uq_system_name"),
    )


def _pool() -> None:
    op.create_table(
        "proposal",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("caption_id", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.CheckConstraint("direction IN ('i2t', 't2i')", name="ck_proposal_direction"),
        sa.ForeignKeyConstraint(["caption_id"], ["caption.id"], name="fk_proposal_caption_id"),
        sa.ForeignKeyConstraint(["image_id"], ["image.id"], name="fk_proposal_image_id"),
        sa.ForeignKeyConstraint(["system_id"], ["system.id"], name="fk_proposal_system_id"),
        sa.PrimaryKeyConstraint("id", name="pk_proposal"),
        sa.UniqueConstraint(
            "system_id",
            "direction",
            "turn",
            "image_id",
            "caption_id",
            name="uq_proposal_system_id_direction_turn_image_id_caption_id",
        ),
    )
    op.create_table(
        "pair",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.Column("caption_id", sa.Integer(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["caption_id"], ["caption.id"], name="fk_pair_caption_id"),
        sa.ForeignKeyConstraint(["image_id"], ["image.id"], name="fk_pair_image_id"),
        sa.PrimaryKeyConstraint("id", name="pk_pair"),
        sa.UniqueConstraint("image_id", "caption_id", name="uq_pair_image_id_caption_id"),
    )


def _people() -> None:
    op.create_table(
        "annotator",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("role IN ('annotator', 'reviewer', 'admin')", name="ck_annotator_role"),
        sa.PrimaryKeyConstraint("id", name="pk_annotator"),
        sa.UniqueConstraint("name", name="uq_annotator_name"),
    )
    op.create_table(
        "invite",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("by_id", sa.Integer(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=True),
        sa.Column("used_by_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("role IN ('annotator', 'reviewer', 'admin')", name="ck_invite_role"),
        sa.ForeignKeyConstraint(["by_id"], ["annotator.id"], name="fk_invite_by_id"),
        sa.ForeignKeyConstraint(["used_by_id"], ["annotator.id"], name="fk_invite_used_by_id"),
        sa.PrimaryKeyConstraint("id", name="pk_invite"),
        sa.UniqueConstraint("token_hash", name="uq_invite_token_hash"),
    )
    op.create_table(
        "session",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotator.id"], name="fk_session_annotator_id"),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
        sa.UniqueConstraint("token_hash", name="uq_session_token_hash"),
    )


def _tasks() -> None:
    op.create_table(
        "task",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("replication", sa.Integer(), nullable=False),
        sa.Column("done", sa.Boolean(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('pairs', 'captions')", name="ck_task_kind"),
        sa.CheckConstraint("replication >= 1", name="ck_task_replication"),
        sa.PrimaryKeyConstraint("id", name="pk_task"),
    )
    op.create_index("ix_task_done", "task", ["done"], unique=False)
    op.create_table(
        "task_item",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.CheckConstraint("role IN ('real', 'gold_pos', 'gold_neg')", name="ck_task_item_role"),
        sa.ForeignKeyConstraint(["pair_id"], ["pair.id"], name="fk_task_item_pair_id"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_task_item_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_task_item"),
        sa.UniqueConstraint("task_id", "pair_id", name="uq_task_item_task_id_pair_id"),
        sa.UniqueConstraint("task_id", "position", name="uq_task_item_task_id_position"),
    )
    op.create_index(
        "ix_task_item_real_pair",
        "task_item",
        ["pair_id"],
        unique=True,
        sqlite_where=sa.text("role = 'real'"),
        postgresql_where=sa.text("role = 'real'"),
    )
    op.create_table(
        "assignment",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("leased", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("finished", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotator.id"], name="fk_assignment_annotator_id"),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name="fk_assignment_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_assignment"),
        sa.UniqueConstraint("task_id", "annotator_id", name="uq_assignment_task_id_annotator_id"),
    )
    op.create_index("ix_assignment_annotator_id", "assignment", ["annotator_id"], unique=False)


def _answers() -> None:
    op.create_table(
        "judgement",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("assignment_id", sa.Integer(), nullable=False),
        sa.Column("item_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("client_key", sa.Text(), nullable=False),
        sa.Column("grade", sa.Integer(), nullable=True),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("milliseconds", sa.Integer(), nullable=True),
        sa.Column("guideline", sa.Text(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("grade BETWEEN 1 AND 4", name="ck_judgement_grade"),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"], name="fk_judgement_assignment_id"),
        sa.ForeignKeyConstraint(["item_id"], ["task_item.id"], name="fk_judgement_item_id"),
        sa.PrimaryKeyConstraint("id", name="pk_judgement"),
        sa.UniqueConstraint("assignment_id", "item_id", "revision", name="uq_judgement_assignment_id_item_id_revision"),
        sa.UniqueConstraint("client_key", name="uq_judgement_client_key"),
    )
    op.create_index("ix_judgement_item_id", "judgement", ["item_id"], unique=False)
    op.create_table(
        "review",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("assignment_id", sa.Integer(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by_id", sa.Integer(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("decision IN ('accept', 'reject')", name="ck_review_decision"),
        sa.ForeignKeyConstraint(["assignment_id"], ["assignment.id"], name="fk_review_assignment_id"),
        sa.ForeignKeyConstraint(["by_id"], ["annotator.id"], name="fk_review_by_id"),
        sa.PrimaryKeyConstraint("id", name="pk_review"),
    )
    op.create_index("ix_review_assignment_id", "review", ["assignment_id"], unique=False)
    op.create_table(
        "exclusion",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by_id", sa.Integer(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("lifted", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind IN ('annotator', 'assignment', 'image', 'caption', 'pair')", name="ck_exclusion_kind"),
        sa.CheckConstraint("reason <> ''", name="ck_exclusion_reason"),
        sa.ForeignKeyConstraint(["by_id"], ["annotator.id"], name="fk_exclusion_by_id"),
        sa.PrimaryKeyConstraint("id", name="pk_exclusion"),
    )
    op.create_index("ix_exclusion_kind_target", "exclusion", ["kind", "target"], unique=False)


def _results() -> None:
    op.create_table(
        "aggregation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_aggregation"),
    )
    op.create_table(
        "label",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("aggregation_id", sa.Integer(), nullable=False),
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("grade", sa.Integer(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("answers", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["aggregation_id"], ["aggregation.id"], name="fk_label_aggregation_id"),
        sa.ForeignKeyConstraint(["pair_id"], ["pair.id"], name="fk_label_pair_id"),
        sa.PrimaryKeyConstraint("id", name="pk_label"),
        sa.UniqueConstraint("aggregation_id", "pair_id", name="uq_label_aggregation_id_pair_id"),
    )


def _preference() -> None:
    op.create_table(
        "comparison",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("left_name", sa.Text(), nullable=False),
        sa.Column("right_name", sa.Text(), nullable=False),
        sa.Column("left_items", sa.Text(), nullable=False),
        sa.Column("right_items", sa.Text(), nullable=False),
        sa.Column("replication", sa.Integer(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("direction IN ('i2t', 't2i')", name="ck_comparison_direction"),
        sa.PrimaryKeyConstraint("id", name="pk_comparison"),
        sa.UniqueConstraint(
            "study", "query", "left_name", "right_name", name="uq_comparison_study_query_left_name_right_name"
        ),
    )
    op.create_table(
        "vote",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("comparison_id", sa.Integer(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        sa.Column("client_key", sa.Text(), nullable=False),
        sa.Column("milliseconds", sa.Integer(), nullable=True),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("choice IN ('left', 'right', 'tie')", name="ck_vote_choice"),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotator.id"], name="fk_vote_annotator_id"),
        sa.ForeignKeyConstraint(["comparison_id"], ["comparison.id"], name="fk_vote_comparison_id"),
        sa.PrimaryKeyConstraint("id", name="pk_vote"),
        sa.UniqueConstraint("client_key", name="uq_vote_client_key"),
        sa.UniqueConstraint("comparison_id", "annotator_id", name="uq_vote_comparison_id_annotator_id"),
    )
