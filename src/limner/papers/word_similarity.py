"""Word similarities: Lin's similarity over WordNet, co-occurrence in sentences, and alignment of captions.

Each similarity maps a word to a vector and compares words by the cosine of their vectors, so that tables are kernels
(Hodosh, Young & Hockenmaier 2013, section 3.5.1). Small values are set to 0 where the paper does so, and `Maximum`
takes the larger of two kernels; after either, the table may not be positive semi-definite, as the paper notes. For
alignment, captions of one image are aligned like translations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError
from limner.core.paths import read_text
from limner.language.wordnet import WordNet
from limner.language.words import Reader
from limner.systems.classic import _string_loops as loops
from limner.systems.classic.sentences import Documents

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Table = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class WordTable:
    """kappa between any two words of a table. Any other word is similar only to itself.

    Args:
        words: The words.
        values: One row and one column for each.
    """

    words: tuple[str, ...]
    values: Table

    def on(self, words: Sequence[str]) -> WordTable:
        """The same table over more words: new ones are similar only to themselves."""
        row = {word: at for at, word in enumerate(words)}
        at = [row[word] for word in self.words]
        values = np.eye(len(words), dtype=np.float32)
        values[np.ix_(at, at)] = self.values
        return WordTable(tuple(words), values)

    def of(self, one: str, second: str) -> float:
        """kappa of two words."""
        if one in self.words and second in self.words:
            return float(self.values[self.words.index(one), self.words.index(second)])
        return float(one == second)

    def nearest(self, word: str, count: int = 5) -> list[tuple[str, float]]:
        """The words most similar to a word, with kappa."""
        if word not in self.words:
            raise LimnerError(
                f"this similarity does not know {word!r}: it knows {len(self.words):,} words of the training captions"
            )
        row = self.values[self.words.index(word)]
        order = [at for at in np.argsort(-row, kind="stable") if self.words[at] != word]
        return [(self.words[at], float(row[at])) for at in order[:count]]


class Similarity(Protocol):
    """Computes a table of kappa from the captions of training images."""

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """Learns from captions, tokenised by the reader."""
        ...


@dataclass(frozen=True)
class Lin:
    """Lin's similarity between a word and the hypernyms of its first noun sense.

    `w_i = 2 log P(s_i) / (log P(s) + log P(s_i))` for every hypernym s_i of the word's synset s, including s itself;
    P(s) is the share, among the words of the training captions with a noun sense, of those that are instances of s or
    its hyponyms.

    Source: Lin 1998; Bloehdorn et al. 2006; Hodosh, Young & Hockenmaier 2013, section 3.5.2.

    >>> table = Lin().fit([["a dog", "a puppy"], ["a cat"], ["a car"]], Reader())
    >>> round(table.of("dog", "cat"), 2) > round(table.of("dog", "car"), 2)
    True
    """

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """Counts synsets in the captions, and compares words by their hypernyms."""
        from scipy.sparse import csr_array

        wordnet = WordNet.load()
        counts = Counter(word for captions in documents for caption in captions for word in reader(caption))
        first = {word: senses[0].name for word in counts if (senses := wordnet.synsets(word))}
        ancestors = {word: list(wordnet.ancestors(name)) for word, name in first.items()}
        totals: Counter[str] = Counter()
        for word, names in ancestors.items():
            for name in names:
                totals[name] += counts[word]
        total = sum(counts[word] for word in ancestors)
        logs = {name: float(np.log(count / total)) for name, count in totals.items()}
        column = {name: at for at, name in enumerate(totals)}
        rows, columns, values = [], [], []
        for row, (word, names) in enumerate(ancestors.items()):
            own_log = logs[first[word]]
            for name in names:
                # A synset that covers all words has P = 1, so it carries no information.
                sum_of_logs = own_log + logs[name]
                share = 2.0 * logs[name] / sum_of_logs if sum_of_logs else float(name == first[word])
                rows.append(row)
                columns.append(column[name])
                values.append(share)
        shape = (len(ancestors), max(len(column), 1))
        return WordTable(tuple(ancestors), cosines(csr_array((values, (rows, columns)), shape=shape)))


@dataclass(frozen=True)
class Distributional:
    """Distributional similarity: words that occur in the same sentences are similar.

    `w_i = max(0, log2(P(w, w_i) / (P(w) P(w_i))))`, with P the share of sentences that contain a word, or both words.

    Source: Church & Hanks 1990; Hodosh, Young & Hockenmaier 2013, section 3.5.3.

    Args:
        corpus: Sentences of an external corpus, or a file with one sentence per line; the training captions by default.
        min_count: Words seen less often, in the training captions or in the corpus, are not compared.
        threshold: Smaller values of kappa are set to 0.

    >>> table = Distributional(min_count=1).fit([["a dog barks", "a puppy barks"], ["a car stops"]], Reader())
    >>> table.of("dog", "puppy") > table.of("dog", "car")
    True
    """

    corpus: tuple[str, ...] | Path | None = None
    min_count: int = 5
    threshold: float = 0.01

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """Counts the sentences in which words co-occur."""
        caption_words = [reader(caption) for captions in documents for caption in captions]
        sentences = caption_words if self.corpus is None else [_uncached(reader, line) for line in lines(self.corpus)]
        often = _frequent_words(caption_words, self.min_count)
        contexts = _frequent_words(sentences, self.min_count)
        words = [word for word in often if word in contexts]
        if not words:
            raise LimnerError(
                f"no word occurs {self.min_count} times both in the training captions and in the corpus: lower "
                f"min_count"
            )
        return WordTable(tuple(words), _cut(cosines(_mutual(sentences, words, list(contexts))), self.threshold))


@dataclass(frozen=True)
class Mean:
    """The mean of several kernels between words: `(kappa_1 + kappa_2) / 2` (section 3.5.6)."""

    parts: tuple[Similarity, ...]

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """Fits every part."""
        tables = _joined(self.parts, documents, reader)
        return WordTable(tables[0].words, np.mean([table.values for table in tables], axis=0, dtype=np.float32))


@dataclass(frozen=True)
class Maximum:
    """The largest of several kernels between words: `max(kappa_1, kappa_2)` (section 3.5.6).

    It need not be positive semi-definite; "this simply means we effectively use (plain) CCA with this representation".
    """

    parts: tuple[Similarity, ...]

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """Fits every part."""
        tables = _joined(self.parts, documents, reader)
        return WordTable(tables[0].words, np.max([table.values for table in tables], axis=0))


def _joined(parts: Sequence[Similarity], documents: Documents, reader: Reader) -> list[WordTable]:
    tables = [part.fit(documents, reader) for part in parts]
    words = list(dict.fromkeys(word for table in tables for word in table.words))
    return [table.on(words) for table in tables]


def lines(corpus: tuple[str, ...] | Path) -> Iterable[str]:
    """The sentences of a corpus, from memory or from a file with one sentence per line."""
    if not isinstance(corpus, Path):
        return corpus
    return read_text(corpus, what="corpus").splitlines()


def _uncached(reader: Reader, line: str) -> list[str]:
    """Reads without a cache, since a corpus may be large."""
    return [lemma for lemma, _ in reader.read(line)]


def _frequent_words(sentences: Iterable[Sequence[str]], min_count: int) -> dict[str, int]:
    counts = Counter(word for sentence in sentences for word in sentence)
    return {word: count for word, count in counts.items() if count >= min_count}


def _mutual(sentences: Sequence[Sequence[str]], words: Sequence[str], contexts: Sequence[str]) -> csr_array:
    """Positive mutual information of words (rows) with contexts (columns), by sentence."""
    has_word, has_context = _incidence(sentences, words), _incidence(sentences, contexts)
    cooccurrences = (has_word.T @ has_context).tocoo()
    times = [np.asarray(has.sum(axis=0), dtype=np.float64).reshape(-1) for has in (has_word, has_context)]
    rows, columns = cooccurrences.coords
    ratios = cooccurrences.data * len(sentences) / (times[0][rows] * times[1][columns])
    cooccurrences.data = np.maximum(np.log2(ratios), 0.0)
    return cooccurrences.tocsr()


def _incidence(sentences: Sequence[Sequence[str]], words: Sequence[str]) -> csr_array:
    from scipy.sparse import csr_array

    column = {word: at for at, word in enumerate(words)}
    columns = [sorted({column[word] for word in sentence if word in column}) for sentence in sentences]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([at for row in columns for at in row], dtype=np.int64)
    return csr_array((np.ones(len(indices)), indices, indptr), shape=(len(sentences), len(words)))


def cosines(vectors: csr_array) -> Table:
    """The cosine similarity of every pair of rows; an empty row is similar only to itself."""
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1), dtype=np.float64).reshape(-1))
    product: FloatArray = (vectors @ vectors.T).toarray() / np.maximum(np.outer(lengths, lengths), 1e-300)
    np.fill_diagonal(product, 1.0)
    return np.minimum(product, 1.0).astype(np.float32)


def _cut(values: Table, threshold: float) -> Table:
    values[values < threshold] = 0.0
    return values


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
