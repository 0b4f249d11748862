"""The views of answers. Migrations have run with this SQL, so it never changes: a new form is a new function."""

from __future__ import annotations

from alembic import op

_CURRENT = """
        SELECT j.id, j.assignment_id, j.item_id, j.revision, j.grade, j.reasons, j.milliseconds, j.guideline, j.added,
               a.task_id, a.annotator_id, a.finished, i.pair_id, i.role, i.position, p.image_id, p.caption_id{further}
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


def answer_views(*further: str) -> dict[str, str]:
    """The views by name: the last revision of every answer that was not withdrawn, and those that are not excluded.

    Args:
        further: Columns of the table of judgements that were added later.

    Returns:
        The query of each view; the second reads the first.
    """
    columns = "".join(f",\n               j.{name}" for name in further)
    return {"current_answer": _CURRENT.format(further=columns), "counted_answer": _COUNTED}


def create_answer_views(*further: str) -> None:
    """Creates both views, with these further columns."""
    for name, select in answer_views(*further).items():
        op.execute(f"CREATE VIEW {name} AS {select}")


def drop_answer_views() -> None:
    """Drops both views, the dependent one first."""
    for name in reversed(answer_views()):
        op.execute(f"DROP VIEW {name}")
