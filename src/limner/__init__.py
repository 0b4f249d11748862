"""limner matches images with text, measures the match honestly, and shows why it fails.

The public names are few and are imported when first used, so that `import limner` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from limner.collection import Collection, Items
    from limner.comparison import Comparison, compare
    from limner.datasets import load
    from limner.embeddings import Embeddings
    from limner.errors import LimnerError, MissingExtra
    from limner.evaluation import evaluate
    from limner.hubs import Hubs
    from limner.ids import Ids
    from limner.judgements import Judgements
    from limner.measures import Measure
    from limner.ranking import Ranking
    from limner.report import Report
    from limner.scores import Scores
    from limner.systems import train

_HOMES = {
    "Collection": "collection",
    "Items": "collection",
    "Comparison": "comparison",
    "compare": "comparison",
    "load": "datasets",
    "Embeddings": "embeddings",
    "LimnerError": "errors",
    "MissingExtra": "errors",
    "evaluate": "evaluation",
    "Hubs": "hubs",
    "Ids": "ids",
    "Judgements": "judgements",
    "Measure": "measures",
    "Ranking": "ranking",
    "Report": "report",
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
