"""Word similarities: Lin's similarity over WordNet, co-occurrence in sentences, and alignment of captions.

Each similarity maps a word to a vector and compares words by the cosine of their vectors, so that tables are kernels
(Hodosh, Young & Hockenmaier 2013, section 3.5.1). Small values are set to 0 where the paper does so, and `Maximum`
takes the larger of two kernels; after either, the table may not be positive semi-definite, as the paper notes.
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
