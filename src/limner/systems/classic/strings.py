"""Bag of words and trigrams: string kernels as exact sparse feature maps, and the F1 of two bags of words.

A document is one sparse row: the count of each word sequence, times its weight. So the kernel of 30,000 sentences,
summed over the sentences of each image, is one sparse product.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.model_store import Content
from limner.core.options import checked
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.language.words import Reader
from limner.systems.classic import _string_loops as loops
from limner.systems.classic.sentences import (
    WEIGHTS,
    Documents,
    DocumentVocabulary,
    Sentences,
    mirrored,
    normalised,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ROWS = 500  # rows of a table computed at once, to keep the sparse product of a block small


@dataclass(frozen=True)
class StringKernel:
    """The string kernel over sequences of up to three words with free gaps; the bag of words is a special case.

    `K(s, s') = sum_w m_sw m_s'w lambda_m^(2 l(w)) prod_i idf(w_i)`, w a sequence of l(w) words, m_sw the number of
    spans of s that start with the first word of w, end with its last and contain the others in order between them.
    Documents sum it over all pairs of their sentences; then `K(x, y) / sqrt(K(x, x) K(y, y))`. With `length=1` it is
    the cosine of counts of words: the bag of words of the merged captions.

    Source: Hodosh, Young & Hockenmaier 2013, sections 3.4.1 and 3.4.3; after Lodhi et al. 2002.

    Args:
        length: Maximum number of words in a sequence: 1 is BoW, 3 is Tri.
        weights: "none", "idf", or "root idf". Both sides of the product are weighted, so with "root idf" a sequence
            counts with the product of its words' idf, and with "idf" with the square of that product.
        match: lambda_m.
        captions: Number of captions to use per document (1 for BoW1); None for all.
        reader: Tokenises captions.

    >>> kernel = StringKernel(length=2).fit([["a dog runs"], ["a cat sleeps"]])
    >>> kernel([["the dog runs"], ["runs , dog !"], ["a man"]]).round(3).tolist()
    [[1.0, 0.889, 0.0], [0.889, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    length: int = 3
    weights: str = "none"
    match: float = 0.5
    captions: int | None = None
    reader: Reader = field(default_factory=Reader)

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.length not in (1, 2, 3):
            raise LimnerError(f"length={self.length}: expected 1 (bag of words), 2 or 3 (trigrams)")
        if self.weights not in WEIGHTS:
            raise UnknownName("kind of weights", self.weights, WEIGHTS)
        if not 0 < self.match <= 1e6:
            raise LimnerError(f"match={self.match}: expected a number above 0, up to 1e6; the ranking paper uses 0.5")

    def fit(self, documents: Documents, *, progress: ProgressLike = None) -> FittedStringKernel:
        """Learns the vocabulary and its weights from training images' captions."""
        return FittedStringKernel(self, DocumentVocabulary.fit(documents, self.reader, progress=progress))


@dataclass(frozen=True, eq=False)
class FittedStringKernel:
    """A string kernel with its vocabulary."""

    kernel: StringKernel
    vocabulary: DocumentVocabulary

    def __call__(self, a: Documents, b: Documents | None = None, *, progress: ProgressLike = None) -> FloatArray:
        """The kernel between all documents of `a` and `b`, or of `a` with itself.

        Args:
            a: Documents, each a list of captions.
            b: Documents to compare with; `a` itself by default.
            progress: Called with (rows done, rows in total).
        """
        progress = as_progress(progress)
        sides = (a,) if b is None else (a, b)
        numbered, word_count = self.vocabulary.number_all(*sides, captions=self.kernel.captions)
        weights = self.kernel.match * self.vocabulary.weights(self.kernel.weights, word_count)
        maps = feature_maps(numbered, weights, self.kernel.length)
        selves = [np.asarray(m.multiply(m).sum(axis=1), dtype=np.float64).reshape(-1) for m in maps]
        return normalised(_product(maps[0], maps[-1], b is None, progress), selves[0], selves[-1])

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values and arrays."""
        options = {name: getattr(self.kernel, name) for name in ("length", "weights", "match", "captions")}
        return {"options": options, "vocabulary": self.vocabulary.state()}

    @classmethod
    def from_state(cls, state: Content, *, trust: bool = False) -> FittedStringKernel:
        """Restores a kernel from its state."""
        vocabulary = DocumentVocabulary.from_state(state["vocabulary"], trust=trust)
        options = checked(StringKernel, state["options"], what="string kernel")
        return cls(StringKernel(**options, reader=vocabulary.reader), vocabulary)


def feature_maps(sides: list[Sentences], weights: FloatArray, length: int) -> list[csr_array]:
    """One sparse row per document, over the sequences that occur in any set of documents."""
    from scipy.sparse import csr_array

    sequence_sets = [_sequences(side, weights, length) for side in sides]
    names, columns = np.unique(np.concatenate([keys for keys, _, _ in sequence_sets]), return_inverse=True)
    maps, at = [], 0
    for side, (keys, values, rows) in zip(sides, sequence_sets, strict=True):
        shape = (len(side), max(len(names), 1))
        map_ = csr_array((values, (rows, columns[at : at + len(keys)])), shape=shape)
        map_.sum_duplicates()
        maps.append(map_)
        at += len(keys)
    return maps


def _sequences(side: Sentences, weights: FloatArray, length: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Key, weight and document of every sequence of every sentence."""
    base = len(weights) + 1
    if base**length >= 2**63:
        raise LimnerError(
            f"{base - 1:,} words: the ids of sequences of {length} words do not fit into 64 bits; use shorter sequences"
        )
    counts = loops.count_sequences(side.starts, side.before, length)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    keys, values = np.empty(offsets[-1], dtype=np.int64), np.empty(offsets[-1])
    loops.sequences(side.words, side.starts, side.before, weights, base, length, offsets, keys, values)
    document = np.repeat(np.arange(len(side)), np.diff(side.documents))
    return keys, values, np.repeat(document, counts)


def _product(a: csr_array, b: csr_array, is_symmetric: bool, progress: Progress) -> FloatArray:
    """`a @ b.T` as a full table, a block of rows at a time; only one triangle is computed if both are the same."""
    table = np.zeros((a.shape[0], b.shape[0]))
    for low in range(0, len(table), _ROWS):
        block = slice(low, low + _ROWS)
        across = b[low if is_symmetric else 0 :].T
        table[block, low if is_symmetric else 0 :] = (a[block] @ across).toarray()
        progress(min(low + _ROWS, len(table)), len(table))
    return mirrored(table) if is_symmetric else table


@dataclass(frozen=True)
class OverlapF1:
    """F1 of two idf-weighted bags of words: the text similarity of the nearest-neighbour system.

    `2 sum_w idf(w) min(c(w), c'(w)) / (sum_w idf(w) c(w) + sum_w idf(w) c'(w))`, c(w) the count of word w in a
    document: the harmonic mean of precision and recall. A similarity, not a kernel.

    Source: Hodosh, Young & Hockenmaier 2013, section 3.1 (NN5-idf-F1).

    Args:
        weights: "idf", "root idf" or "none".
        captions: Number of captions to use per document; by default all, joined into one document.
        reader: Tokenises captions.

    >>> nearest = OverlapF1(weights="none").fit([["a dog runs"], ["a cat"]])
    >>> nearest([["a dog runs"]], [["the running dog", "a dog"], ["a cat"]]).round(3).tolist()
    [[0.8, 0.0]]
    """

    weights: str = "idf"
    captions: int | None = None
    reader: Reader = field(default_factory=Reader)

    def __post_init__(self) -> None:
        """Checks the weights."""
        if self.weights not in WEIGHTS:
            raise UnknownName("kind of weights", self.weights, WEIGHTS)

    def fit(self, documents: Documents) -> FittedOverlapF1:
        """Learns the vocabulary and its weights from training images' captions."""
        return FittedOverlapF1(self, DocumentVocabulary.fit(documents, self.reader))


@dataclass(frozen=True, eq=False)
class FittedOverlapF1:
    """F1 of bags of words with the weights of a vocabulary."""

    kernel: OverlapF1
    vocabulary: DocumentVocabulary

    def __call__(self, a: Documents, b: Documents | None = None, *, progress: ProgressLike = None) -> FloatArray:
        """The F1 between all documents of `a` and `b`, or of `a` with itself."""
        progress = as_progress(progress)
        sides = (a,) if b is None else (a, b)
        numbered, word_count = self.vocabulary.number_all(*sides, captions=self.kernel.captions)
        weights = self.vocabulary.weights(self.kernel.weights, word_count)
        maps = _occurrences(numbered, np.sqrt(weights))
        sums = [np.asarray(m.multiply(m).sum(axis=1), dtype=np.float64).reshape(-1) for m in maps]
        length_sums = sums[0][:, None] + sums[-1][None, :]
        table = 2.0 * _product(maps[0], maps[-1], b is None, progress)
        return np.divide(table, length_sums, out=np.zeros_like(table), where=length_sums > 0)

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values and arrays."""
        options = {"weights": self.kernel.weights, "captions": self.kernel.captions}
        return {"options": options, "vocabulary": self.vocabulary.state()}

    @classmethod
    def from_state(cls, state: Content, *, trust: bool = False) -> FittedOverlapF1:
        """Restores a similarity from its state."""
        vocabulary = DocumentVocabulary.from_state(state["vocabulary"], trust=trust)
        options = checked(OverlapF1, state["options"], what="overlap of words")
        return cls(OverlapF1(**options, reader=vocabulary.reader), vocabulary)


def _occurrences(sides: list[Sentences], weights: FloatArray) -> list[csr_array]:
    """Sparse rows in which the n-th occurrence of a word has its own column, so that products count minima."""
    from scipy.sparse import csr_array

    occurrences = []
    for side in sides:
        rows = np.repeat(np.arange(len(side)), np.diff(side.starts[side.documents]))
        order = np.lexsort((side.words, rows))
        rows, words = rows[order], side.words[order].astype(np.int64)
        new = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(words) != 0)])[: len(words)])
        turn = np.arange(len(words)) - np.repeat(new, np.diff(np.append(new, len(words))))
        occurrences.append((rows, words, turn * len(weights) + words))
    width = 1 + max((int(columns.max(initial=0)) for _, _, columns in occurrences), default=0)
    return [
        csr_array((weights[words], (rows, columns)), shape=(len(side), width))
        for side, (rows, words, columns) in zip(sides, occurrences, strict=True)
    ]
