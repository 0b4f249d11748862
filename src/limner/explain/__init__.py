"""explain: why an answer is wrong, what is wrong with a data set, and whether a system reads the query at all."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.explain import (
        adversarial,
        audit,
        concepts,
        embedding_map,
        failure_classes,
        failures,
        probe_results,
    )
else:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "adversarial",
    "audit",
    "concepts",
    "embedding_map",
    "failure_classes",
    "failures",
    "probe_results",
]
