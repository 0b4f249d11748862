"""The web pages: search, inspect failures, judge pairs; one process, no external resources."""

from limner.core.errors import MissingExtra
from limner.core.extras import missing

if absent := missing("starlette", "uvicorn", "python_multipart", "sqlalchemy", "alembic", "argon2"):
    raise MissingExtra("the page", absent, "web")

from limner.web.server import Address, make_app, serve

__all__ = ["Address", "make_app", "serve"]
