"""Trigrams with partial word matches: the string kernel with a table of word similarities."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from limner.core.arrays import Array, FloatArray
from limner.core.errors import LimnerError
from limner.core.model_store import Content
from limner.core.options import checked
from limner.core.progress import ProgressLike, as_progress
from limner.papers.word_similarity import Similarity, WordTable
from limner.systems.classic import _string_loops as loops
from limner.systems.classic.sentences import Documents, DocumentVocabulary, Sentences, mirrored, normalised
from limner.systems.classic.strings import StringKernel

_ROWS = 64  # rows between two progress updates


@dataclass(frozen=True)
class LexicalKernel:
    """The string kernel in which words match partially.

    `K(s, s') = sum_w sum_w' m_sw m_s'w' lambda_m^(2 l) prod_i kappa(w_i, w'_i) sqrt(idf(w_i) idf(w'_i))`, w and w' of
    the same length l, with the weights "root idf", the paper's; without the root if they are "idf". Words unknown to
    the similarity match only themselves. Documents sum it over all pairs of their sentences; then
    `K(x, y) / sqrt(K(x, x) K(y, y))`.

    Source: Hodosh, Young & Hockenmaier 2013, section 3.5.1; after Bloehdorn et al. 2006.

    Args:
        similarity: Computes the table of kappa from the training captions.
        strings: Length, weights, lambda_m and the reader, as in the kernel with exact matches.

    >>> from limner.papers.word_similarity import Distributional
    >>> captions = [["a dog on grass"], ["a puppy on grass"], ["a car on a road"], ["a boat at sea"]]
    >>> kernel = LexicalKernel(Distributional(min_count=1)).fit(captions)
    >>> kernel([["a dog"]], [["a dog"], ["a puppy"], ["a boat"]]).round(2).tolist()
    [[1.0, 0.2, 0.0]]
    """

    similarity: Similarity
    strings: StringKernel = field(default_factory=StringKernel)

    def fit(self, documents: Documents) -> FittedLexicalKernel:
        """Learns weights and the table of similarities from the captions of training images."""
        vocabulary = DocumentVocabulary.fit(documents, self.strings.reader)
        return FittedLexicalKernel(self.strings, vocabulary, self.similarity.fit(documents, self.strings.reader))


@dataclass(frozen=True, eq=False)
class FittedLexicalKernel:
    """A string kernel with its vocabulary and its table of kappa."""

    strings: StringKernel
    vocabulary: DocumentVocabulary
    table: WordTable

    def __call__(self, a: Documents, b: Documents | None = None, *, progress: ProgressLike = None) -> FloatArray:
        """The kernel between all documents of `a` and `b`, or of `a` with itself.

        Args:
            a: Documents, each a list of captions.
            b: Documents to compare with; `a` itself by default.
            progress: Called with (rows done, rows in total).
        """
        progress = as_progress(progress)
        sides = (a,) if b is None else (a, b)
        numbered, n_words = self.vocabulary.number_all(*sides, captions=self.strings.captions)
        prepared = [self._prepared(side, n_words) for side in numbered]
        different = max(int(np.diff(side[5]).max(initial=0)) for side in prepared)
        longest = (different, max(side.max_length for side in numbered))
        out = np.zeros((len(numbered[0]), len(numbered[-1])))
        for low in range(0, len(out), _ROWS):
            high = min(low + _ROWS, len(out))
            arguments = (self.table.values, self.strings.length, longest, b is None)
            loops.lexical_rows(low, high, prepared[0], prepared[-1], *arguments, out)
            progress(high, len(out))
        selves = [np.zeros(len(side)) for side in numbered]
        for side, self_value in zip(prepared, selves, strict=True):
            loops.lexical_selves(side, self.table.values, self.strings.length, longest, self_value)
        return normalised(mirrored(out) if b is None else out, selves[0], selves[-1])

    def _prepared(self, side: Sentences, n_words: int) -> tuple[Array, ...]:
        """Sentences as word ids for the loops: words of the table by row, all others after them."""
        rows = np.arange(n_words) + len(self.table.words)
        numbers = self.vocabulary.number
        rows[[numbers[word] for word in self.table.words]] = np.arange(len(self.table.words))
        local, words, edges = loops.different(side.words, side.starts, side.documents)
        weights = self.strings.match * self.vocabulary.weights(self.strings.weights, n_words)
        preceding = np.concatenate([[0], np.cumsum(side.before > 0)])
        plain = preceding[side.starts[1:]] == preceding[side.starts[:-1]]
        return (
            side.starts,
            side.documents,
            side.before,
            local,
            rows[words].astype(np.int32),
            edges,
            weights[words],
            plain,
        )

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values and arrays."""
        options = {name: getattr(self.strings, name) for name in ("length", "weights", "match", "captions")}
        return {
            "options": options,
            "vocabulary": self.vocabulary.state(),
            "table": {"words": list(self.table.words), "values": self.table.values},
        }

    @classmethod
    def from_state(cls, state: Content, *, trust: bool = False) -> FittedLexicalKernel:
        """Restores a kernel from its state."""
        vocabulary = DocumentVocabulary.from_state(state["vocabulary"], trust=trust)
        values = np.ascontiguousarray(state["table"]["values"], dtype=np.float32)
        words = {"words": state["table"]["words"], "values": values}
        table = WordTable(**checked(WordTable, words, what="similarity of words"))
        if values.shape != (len(table.words),) * 2 or not set(table.words) <= set(vocabulary.words):
            raise LimnerError(
                f"similarities of shape {values.shape} for {len(table.words)} words: expected a row and a column for "
                "each, and words of the vocabulary"
            )
        options = checked(StringKernel, state["options"], what="lexical kernel")
        return cls(StringKernel(**options, reader=vocabulary.reader), vocabulary, table)
