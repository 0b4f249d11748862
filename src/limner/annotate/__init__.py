"""Judging pairs with people: pool, tasks, answers, quality, merge, bias, preference, several turns."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.annotate import (
        aggregate,
        bias,
        export,
        forms,
        merge,
        pool,
        preference,
        quality,
        scale,
        store,
        tasks,
        turns,
    )
else:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "aggregate",
    "bias",
    "export",
    "forms",
    "merge",
    "pool",
    "preference",
    "quality",
    "scale",
    "store",
    "tasks",
    "turns",
]
