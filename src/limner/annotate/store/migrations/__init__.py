"""The history of the store's tables, for alembic."""

from __future__ import annotations

from typing import NoReturn

from limner.core.errors import LimnerError


def no_downgrade() -> NoReturn:
    """There is no downgrade of a store: answers would be lost."""
    raise LimnerError("there is no downgrade: restore a copy of the file instead")
