"""SQLAlchemy (an optional dependency), inserts, and the errors of a database that is not there."""

from __future__ import annotations

from typing import Any

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra

if absent := missing("sqlalchemy", "alembic"):
    raise missing_extra(absent, what="the store of answers")

import sqlalchemy as sa

__all__ = ["Unreachable", "inserted", "out_of_reach", "sa"]


class Unreachable(LimnerError):
    """A database server does not answer, or has ended the connection."""


def out_of_reach(error: object) -> bool:
    """Whether a database error comes from the connection: no state, or that of a connection or a server's shutdown."""
    if not isinstance(error, sa.exc.OperationalError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state is None or state.startswith(("08", "57P"))


def inserted(connection: sa.Connection, table: sa.Table, clash: str = "", /, **values: object) -> int:
    """Adds one row and returns its id; on a conflict, raises an error with the message `clash`."""
    try:
        key: Any = connection.execute(sa.insert(table), values).inserted_primary_key
    except sa.exc.IntegrityError as error:
        if not clash:
            raise
        raise LimnerError(clash) from error
    return int(key[0])
