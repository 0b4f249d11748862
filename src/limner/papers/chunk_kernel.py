"""A kernel of captions over their syntax: noun phrases with their modifiers, and the line of nouns and verbs.

Hodosh, Young & Hockenmaier (2013) name syntactic analyses as future work: sequences of words then stop at the borders
of phrases, and a word at the end of one phrase no longer counts with the beginning of the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError
from limner.core.model_store import Content
from limner.core.progress import ProgressLike
from limner.explain.noun_phrases import FUNCTION, phrases, words
from limner.language.tagging import tag
from limner.language.wordnet import WordNet
from limner.systems.classic.sentences import Documents, DocumentVocabulary, refuse_bad
from limner.systems.classic.strings import FittedStringKernel, StringKernel


@lru_cache(maxsize=65536)
def chunks(caption: str) -> tuple[str, ...]:
    """The parts of a caption: each noun phrase from its modifiers to its noun, then all nouns and verbs in order.

    >>> chunks("Two small brown dogs run on the wet grass")
    ('Two small brown dogs', 'wet grass', 'dogs run grass')
    """
    tokens = words(caption)
    lower = [token.lower() for token in tokens]
    tags = tag(lower)
    parts, line = [], {at for at, kind in enumerate(tags) if kind == "v"}
    for phrase in phrases(caption, WordNet.load()):
        if tags[phrase.stop - 1] != "n":
            continue
        start = phrase.start
        while start and tags[start - 1] == "x" and lower[start - 1] not in FUNCTION:
            start -= 1
        parts.append(" ".join(tokens[start : phrase.stop]))
        line.update(range(phrase.start, phrase.stop))
    return (*parts, " ".join(tokens[at] for at in sorted(line))) if line else ()


@dataclass(frozen=True)
class ChunkKernel:
    """The string kernel of the parts of captions: a noun phrase, or the line of nouns and verbs, is a sentence.

    It is positive semi-definite, as the string kernel is.

    Args:
        strings: Length, weights, lambda_m and the reader of the string kernel.

    >>> kernel = ChunkKernel(StringKernel(weights="none")).fit([["a red dog on grass"], ["a cat"]])
    >>> kernel([["a red dog and a ball"]], [["a dog and a red ball"], ["a red dog and a ball"]]).round(2).tolist()
    [[0.97, 1.0]]
    """

    strings: StringKernel = field(default_factory=lambda: StringKernel(weights="root idf"))

    def __post_init__(self) -> None:
        """Refuses a number of captions, which would count parts."""
        if self.strings.captions is not None:
            raise LimnerError(f"captions={self.strings.captions} with a kernel of chunks, which uses all: leave it out")

    def fit(self, documents: Documents, *, progress: ProgressLike = None) -> FittedChunkKernel:
        """Learns the vocabulary and its weights from training images' captions."""
        return FittedChunkKernel(self.strings.fit(_in_chunks(documents), progress=progress))


@dataclass(frozen=True, eq=False)
class FittedChunkKernel:
    """A kernel of chunks with the string kernel that compares them."""

    strings: FittedStringKernel

    @property
    def vocabulary(self) -> DocumentVocabulary:
        """The words of the training captions."""
        return self.strings.vocabulary

    def __call__(self, a: Documents, b: Documents | None = None, *, progress: ProgressLike = None) -> FloatArray:
        """The kernel between all documents of `a` and `b`, or of `a` with itself."""
        return self.strings(_in_chunks(a), None if b is None else _in_chunks(b), progress=progress)

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values and arrays."""
        return self.strings.state()

    @classmethod
    def from_state(cls, state: Content, *, trust: bool = False) -> FittedChunkKernel:
        """Restores a kernel from its state."""
        return cls(FittedStringKernel.from_state(state, trust=trust))


def _in_chunks(documents: Documents) -> list[list[str]]:
    """Every document with the parts of its captions as sentences."""
    refuse_bad(documents)
    return [[part for caption in document for part in chunks(caption)] for document in documents]


def chunk_kernel(*, weights: str) -> ChunkKernel:
    """The kernel of chunks by its weights: "none", "idf" or "root idf"."""
    return ChunkKernel(StringKernel(weights=weights))
