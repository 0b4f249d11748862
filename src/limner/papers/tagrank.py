"""The tag rank kernel: words mentioned early, and earlier than usual, count more."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, FloatArray
from limner.core.errors import LimnerError
from limner.core.model_store import Content
from limner.core.options import checked
from limner.core.progress import ProgressLike, as_progress
from limner.language.words import Reader
from limner.systems.classic import _string_loops as loops
from limner.systems.classic.sentences import Documents, DocumentVocabulary, Sentences, mirrored, normalised

_ROWS = 64  # rows between two progress updates


@dataclass(frozen=True)
class TagRank:
    """Two chi-square kernels, over absolute and relative ranks of words.

    `K(s, s') = exp(-chi2(r, r') / Omega) / 2 + exp(-chi2(a, a') / Omega') / 2`, with `a(i) = 1 / log2(1 + p_i)`, p_i
    the mean position (from 1) of word i in the sentence, `r(i) = 1 - sum_{k <= p_i} n_ik / sum_k n_ik`, n_ik how often
    training sentences have word i at position k, `chi2(x, y) = sum_i (x_i - y_i)^2 / (x_i + y_i)`, and Omega, Omega'
    the means of chi2 over all pairs of training sentences. Documents average it over all pairs of their sentences; then
    `K(x, y) / sqrt(K(x, x) K(y, y))`. A word that does not occur in training has r = 0.

    Source: Hwang & Grauman 2012; Hodosh, Young & Hockenmaier 2013, section 3.4.2.

    Args:
        captions: Number of captions to use per document; all by default.
        reader: Tokenises captions.

    >>> kernel = TagRank().fit([["a dog runs on grass"], ["grass and a dog"], ["a cat"]])
    >>> kernel([["a dog on grass"]], [["a dog on grass"], ["grass and a dog"], ["a cat"]]).round(2).tolist()
    [[1.0, 0.7, 0.26]]
    """

    captions: int | None = None
    reader: Reader = field(default_factory=Reader)

    def fit(self, documents: Documents) -> FittedTagRank:
        """Learns the positions of words, and the distances between sentences."""
        vocabulary = DocumentVocabulary.fit(documents, self.reader)
        (side,), n_words = vocabulary.number_all(documents, captions=self.captions)
        positions, mean_positions = _places(side)
        counts = np.zeros((n_words, 1 + max(side.max_length, 1)), dtype=np.int64)
        np.add.at(counts, (side.words, positions), 1)
        fitted = FittedTagRank(self, vocabulary, counts, np.ones(2))
        return FittedTagRank(self, vocabulary, counts, _scales(fitted._ranked(side, mean_positions)))


@dataclass(frozen=True, eq=False)
class FittedTagRank:
    """The fitted tag rank kernel.

    Args:
        kernel: Its options.
        vocabulary: The words of the training captions.
        counts: How often each word occurred at each position (column 0 is empty).
        scales: 1 / Omega' of absolute ranks, 1 / Omega of relative ones.
    """

    kernel: TagRank
    vocabulary: DocumentVocabulary
    counts: npt.NDArray[np.int64]
    scales: FloatArray

    def __call__(self, a: Documents, b: Documents | None = None, *, progress: ProgressLike = None) -> FloatArray:
        """The kernel between all documents of `a` and `b`, or of `a` with itself."""
        progress = as_progress(progress)
        sides = (a,) if b is None else (a, b)
        numbered, _ = self.vocabulary.number_all(*sides, captions=self.kernel.captions)
        ranked = [self._ranked(side, _places(side)[1]) for side in numbered]
        table = np.zeros((len(numbered[0]), len(numbered[-1])))
        for low in range(0, len(table), _ROWS):
            high = min(low + _ROWS, len(table))
            loops.tag_rank_rows(low, high, ranked[0], ranked[-1], self.scales, b is None, table)
            progress(high, len(table))
        selves = [np.zeros(len(side)) for side in numbered]
        for side, self_value in zip(ranked, selves, strict=True):
            loops.tag_rank_selves(side, self.scales, self_value)
        return normalised(mirrored(table) if b is None else table, selves[0], selves[-1])

    def _ranked(self, side: Sentences, places: FloatArray) -> tuple[object, ...]:
        """Sentences in the format of the loops.

        Args:
            side: The sentences.
            places: The mean position of each word in its sentence, from 1.

        Returns:
            The distinct words of each sentence, sorted; where each sentence starts among them; the first sentence of
            each document; the absolute and the relative rank of each word; the sums of both ranks in each sentence.
        """
        sentence = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
        keys = np.unique(np.stack([sentence, side.words]), axis=1, return_index=True)
        (rows, words), first = keys[0], keys[1]
        absolute = 1.0 / np.log2(1.0 + places[first])
        relative = self._relative(words, places[first])
        n_sentences = len(side.starts) - 1
        totals = np.stack([np.bincount(rows, ranks, n_sentences) for ranks in (absolute, relative)], axis=1)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_sentences))]).astype(np.int64)
        return words.astype(np.int32), starts, side.documents, absolute, relative, np.ascontiguousarray(totals)

    def _relative(self, words: Array, places: FloatArray) -> FloatArray:
        """The share of a word's training occurrences after a position."""
        totals = np.cumsum(self.counts, axis=1)
        in_vocabulary = words < len(totals)
        scores = np.zeros(len(words))
        at = np.minimum(np.floor(places[in_vocabulary]).astype(np.int64), totals.shape[1] - 1)
        total = totals[words[in_vocabulary], -1]
        up_to = totals[words[in_vocabulary], at]
        scores[in_vocabulary] = 1.0 - np.divide(up_to, total, out=np.ones(len(total)), where=total > 0)
        return scores

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values and arrays."""
        return {
            "options": {"captions": self.kernel.captions},
            "vocabulary": self.vocabulary.state(),
            "counts": self.counts,
            "scales": self.scales,
        }

    @classmethod
    def from_state(cls, state: Content, *, trust: bool = False) -> FittedTagRank:
        """Restores a kernel from its state."""
        vocabulary = DocumentVocabulary.from_state(state["vocabulary"], trust=trust)
        kernel = TagRank(**checked(TagRank, state["options"], what="tag rank kernel"), reader=vocabulary.reader)
        counts, scales = np.asarray(state["counts"]), np.asarray(state["scales"], dtype=np.float64)
        if counts.ndim != 2 or not counts.size or counts.dtype.kind not in "iu" or scales.shape != (2,):
            raise LimnerError(
                f"positions of shape {counts.shape} and scales of shape {scales.shape}: expected words by positions "
                "and two scales"
            )
        return cls(kernel, vocabulary, counts, scales)


def _places(side: Sentences) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """The position of each word in its sentence, from 1, and the mean position of that word in the sentence."""
    sentence = np.repeat(np.arange(len(side.starts) - 1), np.diff(side.starts))
    places = np.arange(len(side.words)) - side.starts[sentence] + 1
    _, groups = np.unique(np.stack([sentence, side.words]), axis=1, return_inverse=True)
    groups = groups.reshape(-1)
    means = np.bincount(groups, places) / np.maximum(np.bincount(groups), 1)
    return places, means[groups]


def _scales(ranked: tuple[Any, ...]) -> FloatArray:
    """1 / (mean chi2 over pairs of different sentences), of absolute and of relative ranks, from `_ranked` sentences.

    The sum of chi2 is 2 N sum_w x minus, for every word, `4 x y / (x + y)` over all ordered pairs of sentences that
    contain it; ranks take few values, so pairs are counted value by value. A sentence paired with itself adds 0.
    """
    words, starts, _, absolute, relative, _ = ranked
    n_sentences = len(starts) - 1
    means = [_mean_distance(words, ranks, n_sentences) for ranks in (absolute, relative)]
    return np.array([1.0 / mean if mean > 0 else 1.0 for mean in means])


def _mean_distance(words: Array, ranks: FloatArray, n_sentences: int) -> float:
    order = np.lexsort((ranks, words))
    words, ranks = words[order], ranks[order]
    common = 0.0
    edges = np.flatnonzero(np.concatenate([[True], np.diff(words) != 0, [True]]))
    for low, high in itertools.pairwise(edges):
        values, counts = np.unique(ranks[low:high], return_counts=True)
        values, counts = values[values > 0], counts[values > 0].astype(np.float64)
        sums = values[:, None] + values[None, :]
        common += float(counts @ (4.0 * values[:, None] * values[None, :] / sums) @ counts)
    total = 2.0 * n_sentences * float(ranks.sum()) - common
    return total / max(n_sentences * (n_sentences - 1), 1)
