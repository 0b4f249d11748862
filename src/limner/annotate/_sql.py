"""SQLAlchemy (an optional dependency), and a helper for inserts."""

from __future__ import annotations

from typing import Any

from limner.core.errors import LimnerError, MissingExtra
from limner.core.extras import missing

if absent := missing("sqlalchemy", "alembic"):
    raise MissingExtra("the store of answers", absent, "web")

import sqlalchemy as sa

__all__ = ["inserted", "sa"]


def inserted(connection: sa.Connection, table: sa.Table, clash: str = "", /, **values: object) -> int:
    """Adds one row and returns its id; on a conflict, raises an error with the message `clash`."""
    try:
        key: Any = connection.execute(sa.insert(table), values).inserted_primary_key
    except sa.exc.IntegrityError as error:
        if not clash:
            raise
        raise LimnerError(clash) from error
    return int(key[0])
