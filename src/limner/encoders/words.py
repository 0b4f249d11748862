"""Bags of words with idf weights."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_HAN = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # written without spaces, so that each character counts as a word
_WORD = re.compile(rf"[{_HAN}]|[^\W{_HAN}]+")


def words(text: str) -> list[str]:
    """The lower-case words of a text; each Chinese or Japanese character is a word.

    >>> words("Two DOGS, one ball."), words("两只 dogs")
    (['two', 'dogs', 'one', 'ball'], ['两', '只', 'dogs'])
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class BagOfWords:
    """A vocabulary with weights: idf(w) = log(texts / texts that contain w) (Spärck Jones 1972).

    >>> bag = BagOfWords.fit(["a red dog", "a red cat", "a blue dog"], min_count=1)
    >>> bag.vocabulary, bag.vectors(["a red red fox"]).toarray().round(2).tolist()
    (('blue', 'cat', 'dog', 'red'), [[0.0, 0.0, 0.0, 1.0]])
    """

    vocabulary: tuple[str, ...]
    weights: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuses weights that do not fit the vocabulary, as a damaged file may hold."""
        if np.shape(self.weights) != (len(self.vocabulary),) or np.asarray(self.weights).dtype.kind != "f":
            shape = np.shape(self.weights)
            raise LimnerError(f"weights of shape {shape} for {len(self.vocabulary)} words: expected a number for each")

    @classmethod
    def fit(cls, texts: Sequence[str], *, min_count: int = 2, max_words: int = 2000) -> BagOfWords:
        """Learns the words of these texts.

        Args:
            texts: Training texts.
            min_count: Words that occur in fewer texts are left out.
            max_words: Maximum size of the vocabulary; the most frequent words are kept.
        """
        text_counts = Counter(word for text in texts for word in set(words(text)))
        # A word in every text carries no information.
        frequent = sorted(text_counts.items(), key=lambda item: (-item[1], item[0]))  # the order of a set is not fixed
        vocabulary = [(word, count) for word, count in frequent if min_count <= count < len(texts)][:max_words]
        if not vocabulary:
            raise LimnerError(
                f"{len(texts)} training texts share no word (min_count={min_count}): expected words that several "
                "texts, but not all, contain; train on more texts"
            )
        vocabulary.sort()
        counts = np.array([count for _, count in vocabulary])
        return cls(tuple(word for word, _ in vocabulary), np.log(len(texts) / counts))

    @cached_property
    def _column(self) -> dict[str, int]:
        return {word: column for column, word in enumerate(self.vocabulary)}

    def unknown(self, text: str) -> list[str]:
        """The distinct words of a text that are not in the vocabulary."""
        return [word for word in dict.fromkeys(words(text)) if word not in self._column]

    def vectors(self, texts: Iterable[str]) -> csr_array:
        """One sparse row per text, with Euclidean norm 1 (or all zeros if no word is known)."""
        from scipy.sparse import csr_array

        columns = [sorted({self._column[w] for w in words(text) if w in self._column}) for text in texts]
        indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
        indices = np.array([c for row in columns for c in row], dtype=np.int64)
        rows = np.repeat(np.arange(len(columns)), np.diff(indptr))
        lengths = np.sqrt(np.bincount(rows, self.weights[indices] ** 2, len(columns)))
        return csr_array(
            (self.weights[indices] / lengths[rows], indices, indptr), shape=(len(columns), len(self.vocabulary))
        )
