"""BM25: how well the words of a query match the words of documents.

`sum_w ln(1 + (N - n_w + 0.5) / (n_w + 0.5)) * f (k1 + 1) / (f + k1 (1 - b + b |d| / mean |d|))`, over the words w of
the query, with f the count of w in document d, n_w the number of documents with w, and N that of all documents
(Robertson & Zaragoza 2009, section 3.1; the idf is that of Lucene, which is never negative).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray, IntArray
from limner.language.word_overlap import IRREGULAR, STOP_WORDS, stem, tokens

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def query_words(text: str) -> dict[str, str]:
    """The words of a query by stem, without stop words; each stem with the word as written.

    >>> query_words("The dogs on a beach")
    {'dog': 'dogs', 'beach': 'beach'}
    """
    return {stem(IRREGULAR.get(word, word)): word for word in tokens(text) if word not in STOP_WORDS}


@dataclass(frozen=True, eq=False)
class BM25:
    """The words of documents with their weights, created by `BM25.of`.

    Args:
        vocabulary: Column of each stem.
        weights: Sparse matrix, documents by stems, stored by column: the contribution of a stem to the score of a
            document.
    """

    vocabulary: Mapping[str, int]
    weights: csr_array

    @classmethod
    def of(cls, documents: Iterable[Iterable[str]], *, k1: float = 1.2, b: float = 0.75) -> BM25:
        """Counts the words of documents.

        Args:
            documents: Each is a list of texts, such as the captions of an image.
            k1: Saturation of repeated words: higher values saturate more slowly.
            b: Strength of the length normalisation, 0 to 1.

        >>> found = BM25.of([["a dog runs", "two dogs"], ["a cat"], ["a dog and a cat on a beach"]])
        >>> found.scores("dogs").round(2)
        array([0.57, 0.  , 0.45])
        """
        from scipy.sparse import csc_array

        vocabulary: dict[str, int] = {}
        rows, columns, lengths = _counted(documents, vocabulary)
        shape = (len(lengths), max(len(vocabulary), 1))
        counts = csc_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
        counts.sum_duplicates()
        with_word = np.diff(counts.indptr)
        idf = np.log1p((len(lengths) - with_word + 0.5) / (with_word + 0.5))
        norm = k1 * (1 - b + b * lengths / max(lengths.mean() if len(lengths) else 1.0, 1e-9))
        counts.data = (
            np.repeat(idf, with_word) * counts.data * (k1 + 1) / (counts.data + norm[counts.indices])
        ).astype(np.float32)
        return cls(vocabulary, counts)

    def scores(self, text: str) -> FloatArray:
        """The score of every document; 0 where no word matches."""
        total = np.zeros(self.weights.shape[0])
        for word in query_words(text):
            rows, weights = self._postings(word)
            total[rows] += weights
        return total

    def having(self, text: str) -> npt.NDArray[np.bool_]:
        """Which documents contain every word of a text; none for a text without words."""
        words = query_words(text)
        matched = np.full(self.weights.shape[0], bool(words))
        for word in words:
            this = np.zeros(len(matched), dtype=bool)
            this[self._postings(word)[0]] = True
            matched &= this
        return matched

    def matched(self, text: str, document: int) -> tuple[str, ...]:
        """The words of a query that occur in a document, as written in the query."""
        return tuple(word for key, word in query_words(text).items() if document in self._postings(key)[0])

    def _postings(self, word: str) -> tuple[IntArray, FloatArray]:
        column = self.vocabulary.get(word)
        rows = slice(0, 0) if column is None else slice(*self.weights.indptr[column : column + 2])
        return self.weights.indices[rows], self.weights.data[rows]


def _counted(documents: Iterable[Iterable[str]], vocabulary: dict[str, int]) -> tuple[IntArray, IntArray, FloatArray]:
    """Document and stem of every word, and the length of each document; new stems are added to the vocabulary."""
    stems: dict[str, int | None] = {}
    rows, columns, lengths = [], [], []
    for row, texts in enumerate(documents):
        words = [word for text in texts for word in tokens(text)]
        known_columns = [column for word in words if (column := _column(word, stems, vocabulary)) is not None]
        rows.append(np.full(len(known_columns), row, dtype=np.int64))
        columns.extend(known_columns)
        lengths.append(len(known_columns))
    joined = np.concatenate(rows or [np.empty(0, dtype=np.int64)])
    return joined, np.asarray(columns, dtype=np.int64), np.asarray(lengths, dtype=np.float64)


def _column(word: str, stems: dict[str, int | None], vocabulary: dict[str, int]) -> int | None:
    """The column of a word's stem; None for a stop word."""
    if word not in stems:
        key = stem(IRREGULAR.get(word, word))
        stems[word] = None if word in STOP_WORDS else vocabulary.setdefault(key, len(vocabulary))
    return stems[word]
