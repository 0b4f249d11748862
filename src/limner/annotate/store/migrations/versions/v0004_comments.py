"""Annotators' comments, stored with their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from limner.annotate.store.migrations import no_downgrade
from limner.annotate.store.migrations.answer_views import create_answer_views, drop_answer_views

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Adds the column, empty for every existing answer, and the views that show it."""
    drop_answer_views()
    op.add_column("judgement", sa.Column("comment", sa.Text(), nullable=True))
    create_answer_views("comment")


downgrade = no_downgrade
