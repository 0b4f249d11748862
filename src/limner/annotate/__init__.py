"""Human annotation: pooling, tasks, answers, quality, merging, bias, preference studies, rounds, designed samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.annotate.design import plan
    from limner.annotate.store import open_store
else:
    from limner.core.extras import submodules

    _submodule = submodules(__name__)

    def __getattr__(name: str) -> object:
        """Imports modules that need a database on first use."""
        homes = {"plan": "design", "open_store": "store"}
        return getattr(_submodule(homes[name]), name) if name in homes else _submodule(name)


__all__ = ["open_store", "plan"]
