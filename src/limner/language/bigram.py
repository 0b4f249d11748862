"""A language model of captions: which caption is more likely, without looking at the image.

Each word is predicted from the previous one, by interpolated absolute discounting (Ney, Essen & Kneser 1994) over an
add-one unigram model. The model is small, yet it solves many sets of "hard negatives" without the images.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

_WORD = re.compile(r"[\w']+")
_BEGIN, _END = "<s>", "</s>"
DISCOUNT = 0.75


def words(text: str) -> list[str]:
    """The words of a caption, in lower case.

    >>> words("A dog's ball.")
    ['a', "dog's", 'ball']
    """
    return _WORD.findall(text.lower())


class BigramModel:
    """A bigram model of captions.

    Args:
        captions: The training data.

    >>> model = BigramModel(["a dog runs", "a dog sits", "a cat sits"])
    >>> model.score("a dog sits") > model.score("dog a sits")
    True
    """

    def __init__(self, captions: Iterable[str]) -> None:
        self._single: Counter[str] = Counter()
        self._after: dict[str, Counter[str]] = defaultdict(Counter)
        for caption in captions:
            told = [_BEGIN, *words(caption), _END]
            self._single.update(told[1:])
            for first, second in pairwise(told):
                self._after[first][second] += 1
        self._total = sum(self._single.values())

    def probability(self, word: str, before: str) -> float:
        """The probability of a word, given the previous word."""
        unigram = self._alone(word)
        seen = self._after.get(before)
        if not seen:
            return unigram
        total = sum(seen.values())
        left = DISCOUNT * len(seen) / total
        return max(seen[word] - DISCOUNT, 0.0) / total + left * unigram

    def _alone(self, word: str) -> float:
        return (self._single[word] + 1) / (self._total + len(self._single) + 1)

    def order_score(self, caption: str) -> float:
        """The score minus that of the words alone: what their order adds (SLOR; Pauls & Klein 2012).

        >>> model = BigramModel(["a dog runs", "a dog sits", "a cat sits"])
        >>> model.order_score("a dog sits") > 0 > model.order_score("sits dog a")
        True
        """
        told = [*words(caption), _END]
        return self.score(caption) - sum(math.log(self._alone(word)) for word in told) / len(told)

    def score(self, caption: str) -> float:
        """The mean log probability of the caption's words and of its end."""
        told = [_BEGIN, *words(caption), _END]
        pairs = list(pairwise(told))
        return sum(math.log(self.probability(second, first)) for first, second in pairs) / len(pairs)
