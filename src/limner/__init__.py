"""limner matches images with text, measures the match honestly, and shows why it fails.

The public names are few and are imported when first used, so that `import limner` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from limner.core.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.core.errors import LimnerError, MissingExtra
    from limner.core.ids import Ids
    from limner.core.judgements import Judgements
    from limner.core.ranking import Ranking
    from limner.datasets import load
    from limner.evaluation.comparison import Comparison, compare
    from limner.evaluation.evaluate import evaluate
    from limner.evaluation.hubs import Hubs
    from limner.evaluation.measures import Measure
    from limner.evaluation.report import Report
    from limner.scores import Scores
    from limner.systems import train

_HOMES = {
    "Collection": "core.collection",
    "Items": "core.collection",
    "Comparison": "evaluation.comparison",
    "compare": "evaluation.comparison",
    "load": "datasets",
    "Embeddings": "core.embeddings",
    "LimnerError": "core.errors",
    "MissingExtra": "core.errors",
    "evaluate": "evaluation.evaluate",
    "Hubs": "evaluation.hubs",
    "Ids": "core.ids",
    "Judgements": "core.judgements",
    "Measure": "evaluation.measures",
    "Ranking": "core.ranking",
    "Report": "evaluation.report",
    "Scores": "scores",
    "train": "systems",
}

__all__ = [
    "Collection", "Comparison", "Embeddings", "Hubs", "Ids", "Items", "Judgements", "LimnerError", "Measure",
    "MissingExtra", "Ranking", "Report", "Scores", "compare", "evaluate", "load",
    "train",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name from the module it lives in, on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'limner' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"limner.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
