"""explain: why an answer is wrong, what is wrong with a data set, and whether a system reads the query at all."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.explain import (
        adversarial,
        agreement,
        audit,
        blindness,
        clauses,
        concepts,
        edits,
        embedding_map,
        failures,
        labels,
        map_projection,
        opposites,
        probing,
        reading,
        rules,
        showing,
    )
else:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "adversarial",
    "agreement",
    "audit",
    "blindness",
    "clauses",
    "concepts",
    "edits",
    "embedding_map",
    "failures",
    "labels",
    "map_projection",
    "opposites",
    "probing",
    "reading",
    "rules",
    "showing",
]
