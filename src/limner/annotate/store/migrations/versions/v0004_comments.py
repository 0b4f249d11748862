"""Comments of annotators, beside their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from limner.core.errors import LimnerError

revision = "0004"
down_revision = "0003"

VIEWS = {
    "current_answer": """
        SELECT j.id, j.assignment_id, j.item_id, j.revision, j.grade, j.reasons, j.milliseconds, j.guideline, j.added,
               a.task_id, a.annotator_id, a.finished, i.pair_id, i.role, i.position, p.image_id, p.caption_id,
               j.comment
        FROM judgement j
        JOIN assignment a ON a.id = j.assignment_id
        JOIN task_item i ON i.id = j.item_id
        JOIN pair p ON p.id = i.pair_id
        WHERE j.grade IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM judgement k
            WHERE k.assignment_id = j.assignment_id AND k.item_id = j.item_id AND k.revision > j.revision)
    """,
    "counted_answer": """
        SELECT c.* FROM current_answer c WHERE NOT EXISTS (
            SELECT 1 FROM exclusion e WHERE e.lifted IS NULL AND (
                (e.kind = 'annotator' AND e.target = c.annotator_id)
                OR (e.kind = 'assignment' AND e.target = c.assignment_id)
                OR (e.kind = 'pair' AND e.target = c.pair_id)
                OR (e.kind = 'image' AND e.target = c.image_id)
                OR (e.kind = 'caption' AND e.target = c.caption_id)))
    """,
}


def upgrade() -> None:
    """Adds the column, empty for every existing answer, and the views that show it."""
    for name in reversed(VIEWS):
        op.execute(f"DROP VIEW {name}")
    op.add_column("judgement", sa.Column("comment", sa.Text(), nullable=True))
    for name, select in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {select}")


def downgrade() -> None:
    """There is no downgrade: answers would be lost."""
    raise LimnerError("there is no downgrade: restore a copy of the file instead")
