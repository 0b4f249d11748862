"""explain: what the wrong answer got wrong, and whether the system even reads the query."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.explain import (
        adversarial,
        agreement,
        blindness,
        concepts,
        corpora,
        failures,
        labels,
        opposites,
        reading,
        rules,
        showing,
        textonly,
    )
else:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "adversarial",
    "agreement",
    "blindness",
    "concepts",
    "corpora",
    "failures",
    "labels",
    "opposites",
    "reading",
    "rules",
    "showing",
    "textonly",
]
