"""Words, spelling, tagging and WordNet for captions, and a language model."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.language import (
        bigram,
        bm25,
        identify,
        inflection,
        overlap,
        spelling,
        tagging,
        wordnet,
        words,
    )
else:
    from limner.core.lazy import submodules

    __getattr__ = submodules(__name__)

__all__ = [
    "bigram",
    "bm25",
    "identify",
    "inflection",
    "overlap",
    "spelling",
    "tagging",
    "wordnet",
    "words",
]
