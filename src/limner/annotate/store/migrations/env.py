"""Runs the migrations of `versions` on the connection of the store; no way back: answers would be lost."""

from __future__ import annotations

from alembic import context

from limner.annotate.store.schema import metadata

if hasattr(context, "config"):  # alembic runs this file; importing it does nothing
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    context.run_migrations()
