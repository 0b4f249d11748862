"""Word ids, and texts as sequences of word ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from limner.core.arrays import IntArray
from limner.core.cut_texts import count
from limner.core.errors import LimnerError
from limner.encoders.words import words

UNKNOWN = 0
"""The id of unknown words; a text without words consists of this id."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as word ids, concatenated.

    Args:
        flat: The ids of all texts, concatenated.
        starts: Start of each text, and the end of the last one.
    """

    flat: IntArray
    starts: IntArray

    @cached_property
    def lengths(self) -> IntArray:
        """Number of words of each text, at least one."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Known words; the first has id 1.

    >>> known = Vocabulary.fit(["a dog runs", "a dog sleeps"], min_count=2)
    >>> known.words, known.tokens(["A dog barks", ""]).flat.tolist()
    (('a', 'dog'), [1, 2, 0, 0])
    """

    words: tuple[str, ...]

    @classmethod
    def fit(cls, texts: Iterable[str], *, min_count: int = 2) -> Vocabulary:
        """Learns the words that are in at least `min_count` texts, in alphabetical order."""
        text_counts = Counter(word for text in texts for word in set(words(text)))
        frequent = sorted(word for word, count in text_counts.items() if count >= min_count)
        if not frequent:
            raise LimnerError(
                f"no word occurs in {min_count} training texts: lower min_count={min_count}, or train on more texts"
            )
        return cls(tuple(frequent))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, start=1)}

    def unknown(self, text: str) -> list[str]:
        """The words of a text that are not in the vocabulary, each once."""
        return [word for word in dict.fromkeys(words(text)) if word not in self._number]

    def tokens(self, texts: Sequence[str], *, max_tokens: int = 64) -> Tokens:
        """The word ids of each text, truncated to `max_tokens` words."""
        split = [words(text) for text in texts]
        count(texts, map(len, split), limit=max_tokens, unit="words")
        rows = [[self._number.get(word, UNKNOWN) for word in each[:max_tokens]] or [UNKNOWN] for each in split]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        return Tokens(np.fromiter((n for row in rows for n in row), dtype=np.int64, count=starts[-1]), starts)

    def __len__(self) -> int:
        """The number of ids, including that of the unknown word."""
        return len(self.words) + 1
