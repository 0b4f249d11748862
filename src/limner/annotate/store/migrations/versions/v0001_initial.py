"""The first version: a new store gets its tables from `limner.annotate.store.schema`."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """There is nothing before the first version."""
