"""Similar words by alignment: captions of one image are aligned like translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError
from limner.language.words import Reader
from limner.papers.word_similarity import WordTable, cosines
from limner.systems.classic import _string_loops as loops
from limner.systems.classic.sentences import Documents

LEAST = {"n": (5, 0.5), "v": (25, 0.25)}
"""A noun is tagged as one at least 5 times and in half of its occurrences; a verb 25 times and in a quarter."""

Pairs = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
"""Source sentences, and the target sentence of each."""


@dataclass(frozen=True)
class Alignment:
    """Words are similar if captions of the same image use them for each other.

    `w_i = P_n(w_i | w) P_n(w) + P_v(w_i | w) P_v(w)`: P(w_i | w) the translation probabilities of IBM models 1 and 2,
    trained on all ordered pairs of captions of one image, separately for nouns and verbs; P_n(w) and P_v(w) how often w
    is tagged as a noun and as a verb.

    Source: Brown et al. 1993; Hodosh, Young & Hockenmaier 2013, section 3.5.4.

    Args:
        rounds: Rounds of model 1, then of model 2.
        threshold: Smaller values of kappa are set to 0.
        nouns: (minimum count, minimum share of occurrences) tagged as a noun.
        verbs: (minimum count, minimum share of occurrences) tagged as a verb.

    >>> captions = [["a dog", "a puppy", "the dog"], ["a dog", "a puppy"], ["a cat", "a kitten", "the cat"]]
    >>> table = Alignment(nouns=(1, 0.5), verbs=(1, 0.25)).fit(captions, Reader())
    >>> table.nearest("dog", 1)[0][0], table.nearest("cat", 1)[0][0]
    ('puppy', 'kitten')
    """

    rounds: tuple[int, int] = (5, 5)
    threshold: float = 0.05
    nouns: tuple[int, float] = LEAST["n"]
    verbs: tuple[int, float] = LEAST["v"]

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """Aligns the captions of every image with each other."""
        from scipy.sparse import csr_array

        tagged = [[reader.tagged(caption) for caption in captions] for captions in documents]
        counts = Counter(pair for captions in tagged for caption in captions for pair in caption)
        total: Counter[str] = Counter()
        for (word, _), count in counts.items():
            total[word] += count
        chosen = {tag: _often(counts, total, tag, *self._bounds(tag)) for tag in "nv"}
        words = list(dict.fromkeys(word for tag in "nv" for word in chosen[tag]))
        if not words:
            raise LimnerError(
                "no noun or verb is frequent enough to be aligned: give more captions, or lower the minimum counts"
            )
        vectors = np.zeros((len(words), len(words)))
        row = {word: at for at, word in enumerate(words)}
        for tag, vocabulary in chosen.items():
            at = np.array([row[word] for word in vocabulary], dtype=np.int64)
            shares = np.array([counts[word, tag] / total[word] for word in vocabulary])
            probabilities = translations(_pairs(tagged, tag, vocabulary), len(vocabulary), rounds=self.rounds)
            vectors[np.ix_(at, at)] += probabilities * shares[:, None]
        values = cosines(csr_array(vectors))
        values[values < self.threshold] = 0.0
        return WordTable(tuple(words), values)

    def _bounds(self, tag: str) -> tuple[int, float]:
        return self.nouns if tag == "n" else self.verbs


def _often(counts: Counter[tuple[str, str]], total: Counter[str], tag: str, times: int, share: float) -> dict[str, int]:
    """Ids of the words that are tagged this way often enough."""
    words = [
        word for (word, as_), count in counts.items() if as_ == tag and count >= times and count >= share * total[word]
    ]
    return {word: at for at, word in enumerate(words)}


def _pairs(tagged: Sequence[Sequence[Sequence[tuple[str, str]]]], tag: str, vocabulary: dict[str, int]) -> Pairs:
    """All ordered pairs of captions of one image, reduced to the words of a vocabulary."""
    sources, targets = [], []
    for captions in tagged:
        pairs = [
            [vocabulary[word] for word, as_ in caption if as_ == tag and word in vocabulary] for caption in captions
        ]
        for i, source in enumerate(pairs):
            for j, target in enumerate(pairs):
                if i != j and source and target:
                    sources.append(source)
                    targets.append(target)
    return sources, targets


def translations(pairs: Pairs, n_words: int, *, rounds: tuple[int, int] = (5, 5)) -> FloatArray:
    """Translation probabilities P(target | source), by expectation maximisation of IBM models 1 and 2.

    Model 1 treats every alignment as equally likely, `P(f | e) = sum over pairs of the expected count of (e, f)`,
    normalised; model 2 also learns `a(i | j, m, n)`, the position i in a source sentence of m words of the word aligned
    with word j of n. Both allow the empty word (Brown et al. 1993).

    Args:
        pairs: Source and target sentences as word ids.
        n_words: Vocabulary size of both languages.
        rounds: Rounds of model 1, then of model 2.

    >>> translations(([[0], [0, 1]], [[0], [0, 1]]), 2, rounds=(20, 5)).round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not pairs[0]:
        return np.zeros((n_words, n_words))
    (sources, source_starts), (targets, target_starts) = (_flat(side) for side in pairs)
    longest = [1 + int(np.diff(starts).max()) for starts in (source_starts, target_starts)]
    shape = (longest[0], longest[1], longest[1], longest[0])
    share, jumps = np.full((n_words + 1, n_words), 1.0 / n_words), np.ones(shape)
    for model in (1,) * rounds[0] + (2,) * rounds[1]:
        new, new_jumps = np.zeros_like(share), np.zeros(shape)
        loops.expect(sources, source_starts, targets, target_starts, share, jumps, model, new, new_jumps)
        share = _shares(new)
        if model == 2:  # model 2 starts with all positions equally likely, as in model 1
            jumps = _shares(new_jumps)
    return np.asarray(share[1:])


def _flat(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    words = np.array([word for sentence in sentences for word in sentence], dtype=np.int64)
    return words, np.cumsum([0, *map(len, sentences)])


def _shares(counts: FloatArray) -> FloatArray:
    totals = counts.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0))
