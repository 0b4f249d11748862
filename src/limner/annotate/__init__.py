"""Judging pairs with people: pool, tasks, answers, quality, merge, bias, preference, turns, designed samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limner.annotate.design import plan
    from limner.annotate.store import open_store

__all__ = ["open_store", "plan"]


def __getattr__(name: str) -> Any:
    """Imports what needs a database on first use."""
    import importlib

    homes = {"plan": "design", "open_store": "store"}
    if name not in homes:
        raise AttributeError(f"module 'limner.annotate' has no attribute {name!r}")
    return getattr(importlib.import_module(f"limner.annotate.{homes[name]}"), name)
