"""Words, spelling, tagging and WordNet for captions, and a language model."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.language import bm25, tagging, word_overlap, wordnet, words
else:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

__all__ = ["bm25", "tagging", "word_overlap", "wordnet", "words"]
