"""limner matches images with text, evaluates the result, and explains failures.

The few public names and the packages (`limner.match`, `limner.web`, ...) are imported when first used, so that `import
limner` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.core.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from limner import annotate as annotate
    from limner import cluster as cluster
    from limner import core as core
    from limner import datasets as datasets
    from limner import encoders as encoders
    from limner import evaluation as evaluation
    from limner import explain as explain
    from limner import language as language
    from limner import match as match
    from limner import papers as papers
    from limner import scores as scores
    from limner import search as search
    from limner import stats as stats
    from limner import systems as systems
    from limner import web as web
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.core.errors import LimnerError, MissingExtra
    from limner.core.ids import Ids
    from limner.core.judgements import Judgements
    from limner.core.ranking import Ranking
    from limner.datasets import load
    from limner.evaluation.comparison import Comparison, compare
    from limner.evaluation.evaluate import evaluate
    from limner.evaluation.measures import Measure
    from limner.evaluation.reports.report import Hubs, Report
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
    "Hubs": "evaluation.reports.report",
    "Ids": "core.ids",
    "Judgements": "core.judgements",
    "Measure": "evaluation.measures",
    "Ranking": "core.ranking",
    "Report": "evaluation.reports.report",
    "Scores": "scores",
    "train": "systems",
}

__all__ = [
    "Collection", "Comparison", "Embeddings", "Hubs", "Ids", "Items", "Judgements", "LimnerError", "Measure",
    "MissingExtra", "Ranking", "Report", "Scores", "compare", "evaluate", "load",
    "train",
]  # fmt: skip


_PACKAGES = (
    "annotate", "cluster", "core", "datasets", "encoders", "evaluation", "explain", "language", "match", "papers",
    "scores", "search", "stats", "systems", "web",
)  # fmt: skip

if not TYPE_CHECKING:  # a type checker sees the imports above, so that no name is of type Any

    def __getattr__(name):
        """Imports a public name or a package on first use."""
        from importlib import import_module

        if name not in _HOMES and name not in _PACKAGES:
            raise AttributeError(f"module 'limner' has no attribute {name!r}")
        if name in _PACKAGES:
            return import_module(f"limner.{name}")
        globals()[name] = value = getattr(import_module(f"limner.{_HOMES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, "__version__"])
