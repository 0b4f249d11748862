"""Metrics of a caption against reference captions of its image: BLEU-1 to -4, ROUGE-L, CIDEr and CIDEr-D.

The numbers are those of pycocoevalcap (coco-caption), whose "CIDEr" is CIDEr-D. Its words are those of Stanford's
PTBTokenizer 3.4.1, a Java program; `treebank_words` gives the same words for captions. The option `words` takes another
function. Each function gives a number for every caption; BLEU of a whole corpus, which is not the mean of its captions,
is `corpus_bleu`.

The first paper's one-word BLEU and ROUGE, without length penalty and with stems, are in `word_overlap`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PUNCTUATION = frozenset("\" '' ' `` ` . ? ! , : - -- ... ;".split())  # noqa: SIM905
"""The tokens that are left out, as in pycocoevalcap. It lists brackets too, but in upper case, so that they stay."""

BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
SPLIT = {
    each.replace(" ", ""): each.split()
    for each in ("can not", "gon na", "wan na", "got ta", "gim me", "lem me", "'t is", "'t was")
}
"""Words that the treebank writes as two."""
ABBREVIATIONS = (
    "mr mrs ms dr prof sr jr st sts mt ft gen col capt lt sgt rev hon gov sen rep co corp inc ltd ave blvd rd dept est "
    "vs etc al jan feb mar apr jun jul aug sep sept oct nov dec bros assn univ"
)

_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
_TOKEN = re.compile(
    r"(?P<address>https?://\S+|www\.[\w.\-/]+|[\w.\-]+@[\w\-]+\.[\w.\-]+)"
    r"|(?P<initials>(?:[a-z]\.){2,}(?![a-z])|\b[a-z]\.(?=\s|$))"
    rf"|(?P<abbreviation>\b(?:{'|'.join(ABBREVIATIONS.split())})\.|\bno\.(?=\s*\d))"
    r"|(?P<clitic>(?:n't|'(?:s|re|ve|ll|d|m))(?!\w))"
    r"|(?P<number>\d+(?:[.,:/]\d+)+)"
    r"|(?P<word>'\d\ds?\b|'t(?:is|was)\b|[^\W_]+?(?=n't\b|'(?:s|re|ve|ll|d|m)\b)|[^\W_]+(?:[-/&'_.][^\W_]+)*\+*)"
    r"|(?P<mark>[()\[\]{}]|[?!]+|\.{3}|--|\S)"
)


@lru_cache(maxsize=1 << 16)
def treebank_words(text: str) -> tuple[str, ...]:
    """The words of a text, in lower case and without punctuation.

    >>> treebank_words("The dogs aren't on the man's black-and-white T-shirt (yet).")
    ('the', 'dogs', 'are', "n't", 'on', 'the', 'man', "'s", 'black-and-white', 't-shirt', '-lrb-', 'yet', '-rrb-')
    """
    lowered = text.translate(_QUOTES).lower()
    tokens = (BRACKETS.get(piece, piece) for piece in map(re.Match.group, _TOKEN.finditer(lowered)))
    return tuple(word for token in tokens for word in SPLIT.get(token, (token,)) if word not in PUNCTUATION)


Words = Callable[[str], Sequence[Hashable]]
References = Sequence[Sequence[str]]

ORDERS = (1, 2, 3, 4)
"""The lengths of n-grams."""
BETA = 1.2
"""How much more recall counts than precision in ROUGE-L."""
SIGMA = 6.0
"""The width of CIDEr-D's penalty for a difference in length, in words."""
_TINY, _SMALL = 1e-15, 1e-9
"""Added to counts of matches and of n-grams, as coco-caption does, so that no n-gram of a length gives almost 0."""


def bleu(
    captions: Sequence[str], references: References, *, order: int = 4, words: Words = treebank_words
) -> FloatArray:
    """BLEU of each caption: the geometric mean of its clipped n-gram precisions, less if it is too short.

    `exp(min(0, 1 - r/c)) * (prod_n p_n)^(1/N)` for n = 1..N, where p_n is the share of the caption's n-grams that occur
    in a reference (at most as often as there), c the words of the caption and r those of the reference of the nearest
    length.

    Source: Papineni et al. 2002, for one sentence and without smoothing, as coco-caption computes it.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        order: N, from 1 to 4.
        words: Splits a text into words.

    >>> bleu(["a dog runs"], [["a brown dog runs", "the dog is running"]], order=2).round(4)
    array([0.5067])
    """
    return bleu_of_counts(bleu_counts(captions, references, order=order, words=words), order=order)


def corpus_bleu(
    captions: Sequence[str], references: References, *, order: int = 4, words: Words = treebank_words
) -> float:
    """BLEU of all captions together: matches, n-grams and lengths are summed before the shares are formed.

    This is the number that papers print, and not the mean of `bleu` (Papineni et al. 2002).

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        order: The largest length of n-grams, from 1 to 4.
        words: Splits a text into words.

    >>> round(corpus_bleu(["a dog runs", "a cat"], [["a brown dog runs"], ["a cat sits"]], order=1), 4)
    0.6703
    """
    counts = bleu_counts(captions, references, order=order, words=words)
    return float(bleu_of_counts(counts.sum(axis=0, keepdims=True), order=order)[0])


def bleu_counts(
    captions: Sequence[str], references: References, *, order: int = 4, words: Words = treebank_words
) -> FloatArray:
    """What BLEU is computed from, a row per caption: `bleu_of_counts` takes rows, and sums of rows.

    The columns are the caption's words, those of the reference of the nearest length, and for n = 1 to `order` the
    matches and the n-grams.
    """
    if order not in ORDERS:
        raise LimnerError(f"order={order}: expected a length of n-grams from 1 to 4")
    _refuse_unpaired(captions, references)
    grams = lru_cache(maxsize=None)(lambda text: _grams(words(text), order))
    limits_of = lru_cache(maxsize=None)(lambda texts: _largest(map(grams, texts)))
    length = lru_cache(maxsize=None)(lambda text: len(words(text)))
    rows = []
    for caption, texts in zip(captions, references, strict=True):
        size, limits = length(caption), limits_of(tuple(texts))
        nearest = min((abs(length(text) - size), length(text)) for text in texts)[1]
        matches = [0] * order
        for gram, count in grams(caption).items():
            matches[len(gram) - 1] += min(count, limits.get(gram, 0))
        rows.append([size, nearest, *matches, *(max(0, size - n) for n in range(order))])
    return np.array(rows, dtype=np.float64).reshape(-1, 2 + 2 * order)


def bleu_of_counts(counts: FloatArray, *, order: int = 4) -> FloatArray:
    """BLEU of each row of `bleu_counts`, or of sums of its rows."""
    longest = (counts.shape[1] - 2) // 2
    matches, possible = counts[:, 2 : 2 + order], counts[:, 2 + longest : 2 + longest + order]
    precision = np.prod((matches + _TINY) / (possible + _SMALL), axis=1) ** (1 / order)
    ratio = (counts[:, 0] + _TINY) / (counts[:, 1] + _SMALL)
    return np.asarray(precision * np.exp(np.minimum(0, 1 - 1 / ratio)))


def rouge_l(captions: Sequence[str], references: References, *, words: Words = treebank_words) -> FloatArray:
    """ROUGE-L of each caption: the F-score of its longest common subsequence with the references.

    `(1 + b^2) P R / (R + b^2 P)` with b = 1.2, where P and R are the largest shares of the caption's and of a
    reference's words in the longest common subsequence of the two.

    Source: Lin 2004, with the largest P and R over references, as coco-caption computes it.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        words: Splits a text into words.

    >>> rouge_l(["a dog runs"], [["a brown dog runs", "the dog is running"]]).round(4)
    array([0.8356])
    """
    _refuse_unpaired(captions, references)
    split = lru_cache(maxsize=None)(lambda text: tuple(words(text)))
    common = lru_cache(maxsize=None)(lambda one, second: _longest_common(split(one), split(second)))
    scores = []
    for caption, texts in zip(captions, references, strict=True):
        length = max(len(split(caption)), 1)
        precision = max(common(caption, text) for text in texts) / length
        recall = max(common(caption, text) / max(len(split(text)), 1) for text in texts)
        weighted = recall + BETA**2 * precision
        scores.append((1 + BETA**2) * precision * recall / weighted if weighted else 0.0)
    return np.array(scores)


def cider(
    captions: Sequence[str],
    references: References,
    *,
    documents: References | None = None,
    words: Words = treebank_words,
) -> FloatArray:
    """CIDEr of each caption: the cosine of its TF-IDF n-gram vector with those of the references, times 10.

    `10 * mean_n mean_r cos(g_n(c), g_n(r))` for n = 1..4, where the entry of an n-gram in g_n is the number of its
    occurrences times `log(D / max(1, d))`: d of the D documents have it.

    Source: Vedantam, Zitnick & Parikh 2015.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        documents: The sets of references that count as documents; those of `references` by default, one per caption.
        words: Splits a text into words.

    >>> cider(["a dog runs", "a cat"], [["a dog runs fast"], ["the cat sits"]]).round(3)
    array([5.974, 1.021])
    """
    return _cider(captions, references, documents, words, clipped=False)


def cider_d(
    captions: Sequence[str],
    references: References,
    *,
    documents: References | None = None,
    words: Words = treebank_words,
) -> FloatArray:
    """CIDEr-D of each caption: CIDEr that repeated words and a wrong length do not raise.

    As `cider`, but an n-gram counts in the product at most as often as in the reference, and each product is multiplied
    by `exp(-(l_c - l_r)^2 / (2 * 6^2))` of the lengths of caption and reference. What coco-caption prints as "CIDEr".

    Source: Vedantam, Zitnick & Parikh 2015, section 6.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        documents: The sets of references that count as documents; those of `references` by default, one per caption.
        words: Splits a text into words.

    >>> cider_d(["a dog runs", "a cat"], [["a dog runs fast"], ["the cat sits"]]).round(3)
    array([5.892, 1.007])
    """
    return _cider(captions, references, documents, words, clipped=True)


# --- n-grams -------------------------------------------------------------------------------------------------------


def _grams(words: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(tuple(words[at : at + n]) for n in range(1, order + 1) for at in range(len(words) - n + 1))


def _largest(counts: Iterable[Counter[tuple[Hashable, ...]]]) -> Counter[tuple[Hashable, ...]]:
    """For each n-gram its largest count in any reference."""
    union: Counter[tuple[Hashable, ...]] = Counter()
    for each in counts:
        union |= each
    return union


# --- ROUGE-L -------------------------------------------------------------------------------------------------------


def _longest_common(one: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence, a bit of a whole number for each word (Hyyro 2004).

    >>> _longest_common("abcbdab", "bdcaba")
    4
    """
    places: dict[Hashable, int] = {}
    for at, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << at
    free = full = (1 << len(one)) - 1
    for word in second:
        matched = free & places.get(word, 0)
        free = (free + matched | free - matched) & full
    return len(one) - free.bit_count()


# --- CIDEr ---------------------------------------------------------------------------------------------------------


def _cider(
    captions: Sequence[str], references: References, documents: References | None, words: Words, *, clipped: bool
) -> FloatArray:
    _refuse_unpaired(captions, references)
    sets = references if documents is None else documents
    grams = lru_cache(maxsize=None)(lambda text: _grams(words(text), ORDERS[-1]))
    rows = {
        text: row for row, text in enumerate(dict.fromkeys([*captions, *(t for texts in references for t in texts)]))
    }
    sizes = np.array([len(texts) for texts in references], dtype=np.int64)
    ours = np.repeat([rows[caption] for caption in captions], sizes)
    theirs = np.array([rows[text] for texts in references for text in texts], dtype=np.int64)
    # coco-caption counts pairs of words here; the difference of two lengths is the same
    lengths = np.array([max(0, len(words(text)) - 1) for text in rows])
    penalty = np.exp(-((lengths[ours] - lengths[theirs]) ** 2) / (2 * SIGMA**2)) if clipped else 1.0
    frequency = Counter(gram for texts in sets for gram in {gram for text in texts for gram in grams(text)})
    each_order = [
        _cosines(_weights([grams(text) for text in rows], order, frequency, len(sets)), ours, theirs, clipped=clipped)
        for order in ORDERS
    ]
    row = np.repeat(np.arange(len(sizes)), sizes)
    return np.asarray(10 / len(ORDERS) * np.bincount(row, np.sum(each_order, axis=0) * penalty, len(sizes)) / sizes)


def _weights(
    texts: Sequence[Counter[tuple[Hashable, ...]]], order: int, frequency: Counter[tuple[Hashable, ...]], documents: int
) -> csr_array:
    """The TF-IDF of n-grams of one length, a row for each text."""
    from scipy.sparse import csr_array

    columns: dict[tuple[Hashable, ...], int] = {}
    entries = [
        (row, columns.setdefault(gram, len(columns)), count * math.log(documents / max(1, frequency[gram])))
        for row, counts in enumerate(texts)
        for gram, count in counts.items()
        if len(gram) == order
    ]
    row, column, value = (np.array(part) for part in zip(*entries, strict=True)) if entries else (np.zeros(0, int),) * 3
    return csr_array((value, (row, column)), shape=(len(texts), max(len(columns), 1)))


def _cosines(weights: csr_array, ours: IntArray, theirs: IntArray, *, clipped: bool) -> FloatArray:
    """The cosine of rows; with `clipped`, an entry counts at most as much as in the second row."""
    norms = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1), dtype=np.float64).reshape(-1))
    one, second = weights[ours], weights[theirs]
    product = (one.minimum(second) if clipped else one).multiply(second)
    dots = np.asarray(product.sum(axis=1), dtype=np.float64).reshape(-1)
    scale = norms[ours] * norms[theirs]
    return np.asarray(np.divide(dots, scale, out=np.zeros_like(dots), where=scale > 0))


def _refuse_unpaired(captions: Sequence[str], references: References) -> None:
    if isinstance(captions, str) or isinstance(references, str):
        raise LimnerError("captions and references: got a text, expected a list of texts and a list of lists of texts")
    if len(captions) != len(references):
        raise LimnerError(f"got {len(captions)} captions and {len(references)} reference sets: expected one for each")
    for row, texts in enumerate(references):
        if isinstance(texts, str) or not len(texts):
            raise LimnerError(f"references[{row}]: got {texts!r:.40}, expected a list of at least one text")
