"""The web pages: search, inspect failures, judge pairs; one process, no external resources."""

from limner.core.extras import missing, missing_extra

if absent := missing("starlette", "uvicorn", "python_multipart", "sqlalchemy", "alembic", "argon2"):
    raise missing_extra(absent, what="the page")

from limner.web.server import Address, make_app, serve

__all__ = ["Address", "make_app", "serve"]
