"""Captions as word ids: a vocabulary with idf weights, and documents as concatenated sentences for compiled loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.model_store import Content
from limner.core.options import checked
from limner.core.progress import ProgressLike, as_progress
from limner.language.words import Reader
from limner.systems.classic import _string_loops as loops

Documents = Sequence[Sequence[str]]
"""One document per image: its captions. A single caption is a document with one caption."""


WEIGHTS = ("none", "idf", "root idf")
_ROWS = 512  # rows of a table processed at once


class TextKernel(Protocol):
    """A kernel between documents, before fitting."""

    def fit(self, documents: Documents) -> FittedTextKernel:
        """Learns weights and similarities from the captions of training images."""
        ...


class FittedTextKernel(Protocol):
    """A kernel between documents."""

    def __call__(self, a: Documents, b: Documents | None = None, *, progress: ProgressLike = None) -> FloatArray:
        """The kernel between all documents of `a` and `b`, or of `a` with itself."""
        ...

    def state(self) -> dict[str, object]:
        """The state for `from_state` of the same class: plain JSON values and arrays."""
        ...


@dataclass(frozen=True, eq=False)
class Sentences:
    """Documents as word ids.

    Args:
        words: Ids of all words, sentence after sentence.
        starts: Start of each sentence, and the end of the last one.
        documents: The first sentence of each document, and the number of sentences.
    """

    words: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.documents) - 1

    @cached_property
    def before(self) -> npt.NDArray[np.int32]:
        """For every word, the previous position of the same word in its sentence, or 0."""
        return np.asarray(loops.previous(self.words, self.starts), dtype=np.int32)

    @cached_property
    def max_length(self) -> int:
        """The number of words in the longest sentence."""
        return int(np.diff(self.starts).max(initial=0))


@dataclass(frozen=True, eq=False)
class DocumentVocabulary:
    """The words of training documents, their document frequencies, and how captions are tokenised.

    Args:
        words: The words, in order of first appearance.
        counts: Number of training documents in whose captions each word occurs.
        size: Number of training documents.
        reader: Tokenises captions.
    """

    words: tuple[str, ...]
    counts: npt.NDArray[np.int64]
    size: int
    reader: Reader

    def __post_init__(self) -> None:
        """Refuses counts that do not fit the words, as a damaged file may contain."""
        shape = (len(set(self.words)),)
        if self.counts.shape != shape or len(self.words) != len(self.counts) or self.counts.dtype.kind != "i":
            raise LimnerError(
                f"{len(self.words)} words with counts of shape {self.counts.shape}: expected a whole number for each, "
                "and no word twice"
            )
        if not self.counts.max(initial=1) <= self.size < 2**53:
            raise LimnerError(f"a vocabulary of {self.size} documents: expected at least the count of every word")

    @classmethod
    def fit(cls, documents: Documents, reader: Reader, *, progress: ProgressLike = None) -> DocumentVocabulary:
        """Counts the words of training documents; `progress` is called with (documents read, documents in total)."""
        progress = as_progress(progress)
        refuse_bad(documents)
        counts: dict[str, int] = {}
        for done, captions in enumerate(documents, start=1):
            for word in dict.fromkeys(word for caption in captions for word in reader(caption)):
                counts[word] = counts.get(word, 0) + 1
            progress(done, len(documents))
        if not counts:
            raise LimnerError(f"the captions of {len(documents)} training images have no words: expected captions")
        return cls(tuple(counts), np.array(list(counts.values()), dtype=np.int64), len(documents), reader)

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The id of every word."""
        return {word: at for at, word in enumerate(self.words)}

    def weights(self, kind: str, word_count: int) -> FloatArray:
        """The weights of the first `word_count` words; those beyond the vocabulary do not occur in training documents.

        `idf(w) = log(|D| / (|D(w)| + 1))`, D(w) the training images in whose captions w occurs; "root idf" is its
        square root (Hodosh, Young & Hockenmaier 2013, sections 3.1 and 3.4.1). A word that occurs for every image has a
        negative idf without a square root: it counts as 0.

        >>> words = DocumentVocabulary.fit([["a dog"], ["a cat"], ["dogs and cats"], ["a boat"]], Reader())
        >>> words.words, words.weights("idf", 4).round(2).tolist()
        (('dog', 'cat', 'boat'), [0.29, 0.29, 0.69, 1.39])
        """
        if kind not in WEIGHTS:
            raise UnknownName("kind of weights", kind, WEIGHTS)
        if kind == "none":
            return np.ones(word_count)
        counts = np.concatenate([self.counts, np.zeros(word_count - len(self.counts), dtype=np.int64)])
        idf: FloatArray = np.maximum(np.log(self.size / (counts + 1.0)), 0.0)
        return np.sqrt(idf) if kind == "root idf" else idf

    def unknown(self, text: str) -> list[str]:
        """Words of a text that do not occur in the training documents, each once; skipped words do not count.

        >>> DocumentVocabulary.fit([["a dog"], ["a cat"]], Reader()).unknown("The xyzzy dogs")
        ['xyzzy']
        """
        return [word for word in dict.fromkeys(text.split()) if set(self.reader(word)) - set(self.number)]

    def number_all(self, *sides: Documents, captions: int | None = None) -> tuple[list[Sentences], int]:
        """Documents as word ids, and the vocabulary size including words that do not occur in training.

        Args:
            sides: Sets of documents that share word ids.
            captions: Number of captions to use per document; all by default.
        """
        numbers = dict(self.number)
        return [_numbered(side, numbers, self.reader, captions) for side in sides], len(numbers)

    def state(self) -> dict[str, object]:
        """Plain values for saving."""
        return {
            "words": list(self.words),
            "counts": self.counts,
            "size": self.size,
            "reader": self.reader.state(),
        }

    @classmethod
    def from_state(cls, state: Content, *, trust: bool = False) -> DocumentVocabulary:
        """Restores a vocabulary from its state."""
        reader = Reader.from_state(state["reader"], trust=trust)
        values = {"words": state["words"], "counts": np.asarray(state["counts"]), "size": state["size"]}
        return cls(**checked(cls, {**values, "reader": reader}, what="vocabulary"))


def _numbered(documents: Documents, numbers: dict[str, int], reader: Reader, captions: int | None) -> Sentences:
    refuse_bad(documents)
    captions_used = [list(texts)[:captions] for texts in documents]
    rows = [
        [numbers.setdefault(word, len(numbers)) for word in reader(text)] for texts in captions_used for text in texts
    ]
    return Sentences(
        np.array([number for row in rows for number in row], dtype=np.int32),
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.cumsum([0, *map(len, captions_used)], dtype=np.int64),
    )


def refuse_bad(documents: Documents) -> None:
    """Refuses a string in place of a list of captions: it would be read letter by letter."""
    if isinstance(documents, str):
        raise LimnerError(f"got the text {documents[:40]!r}, expected documents: a list of captions for each image")
    for at, captions in enumerate(documents):
        if isinstance(captions, str):
            raise LimnerError(
                f"document {at} is the text {captions[:40]!r}, expected a list of captions; put it in brackets"
            )


def normalised(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """`K(x, y) / sqrt(K(x, x) K(y, y))`: 0 if a document has no words. Works in place."""
    one, second = (np.sqrt(np.where(selves > 0, selves, np.inf)) for selves in (rows, columns))
    for low in range(0, len(table), _ROWS):
        block = slice(low, low + _ROWS)
        table[block] /= one[block, None] * second[None, :]  # one product, so that a symmetric table stays symmetric
    return table


def mirrored(table: FloatArray) -> FloatArray:
    """Fills the lower triangle from the upper one, in place."""
    for low in range(0, len(table), _ROWS):
        block = table[low : low + _ROWS, low : low + _ROWS]
        block[:] = np.triu(block) + np.triu(block, 1).T
        table[low + _ROWS :, low : low + _ROWS] = table[low : low + _ROWS, low + _ROWS :].T
    return table
