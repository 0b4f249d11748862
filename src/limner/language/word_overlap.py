"""Word overlap of a caption with reference captions: BLEU and ROUGE as Hodosh et al. (2013) define them.

Unigrams only, no brevity penalty (Hodosh, Young & Hockenmaier 2013, section 4.2.2; after Papineni et al. 2002 and Lin
2004). BLEU is precision: the share of the caption's words that occur in the references. ROUGE is recall: the share of
the references' words that occur in the caption. `BLEU-pre` of that paper, its filter against implausible pairs, is
`bleu` with `words=content_words`.

Each comes in two forms: `bleu` and `rouge` compare each caption with its own reference set, `bleu_table` and
`rouge_table` compare every caption with every set. The option `words` splits a text into words, so words can be stems,
lemmas or pairs of words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Words = Callable[[str], Sequence[Hashable]]

STOP_WORDS = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those
    am is are was were be been being have has had having do does did doing can will should don
    a an the and but if or because as until while nor not no only own same so than too very just now s t
    of at by for with about against between into through during before after above below
    to from up down in out on off over under again further then once here there when where why how
    all any both each few more most other some such
    """.split()  # noqa: SIM905  # a list of 127 literals would hide the words
)
"""The 127 English function words of Snowball's stop list, without contractions, as NLTK shipped them in 2013.

The paper does not say which list it used. This one reproduces its figures; the longer ones of ROUGE-1.5.5 and
scikit-learn do not.
"""

IRREGULAR: Mapping[str, str] = {
    form: lemma
    for group in """
    bear born, beat beaten, bend bent, big bigger, bind bound, bite bitten, blow blown, break broken, bring brought,
    build built, burn burnt, cactus cacti, catch caught, child children, draw drawn, drive driven drove, dry dried,
    fall fallen fell, find found, fling flung, fly flew flown, foot feet, freeze frozen, goose geese, grow grown,
    half halves, hang hung, hear heard, hide hidden, hold held, kneel knelt, lay laid, leaf leaves, leave left,
    lie lying, loaf loaves, lose lost, make made, mow mown, ox oxen, ride ridden rode, rise risen rose, scarf scarves,
    sew sewn, shake shook, shelf shelves, shoot shot, show shown, sing sang, speak spoke, stand stood, stick stuck,
    strew strewn, strike struck, string strung, sweep swept, swim swam, swing swung, teach taught, tear torn,
    think thought, throw threw thrown, tie tying, tooth teeth, wear worn, weave woven, write written, young younger
    """.split(",")  # noqa: SIM905
    for lemma, *forms in [group.split()]
    for form in forms
}
"""Irregular forms in the captions of Flickr8k that suffix stripping misses.

ROUGE-1.5.5 takes such forms from the exception lists of WordNet before it strips suffixes.
"""

_CLITIC = re.compile(r"(?<=\w)(n't|'(?:s|re|ve|ll|d|m))\b")
_BREAK = re.compile(r"[\s\-\u2010-\u2015]+")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_BLOCK = 1024  # rows of a table computed at once, which keeps the sparse product of a block small


def tokens(text: str) -> list[str]:
    """The words of a text in lower case: hyphenated words are split, and only letters and digits are kept.

    Endings such as `'s` and `n't` are separate words, so that plain text and text that is already tokenised (Flickr8k's
    captions) give the same words.

    >>> tokens("A dog 's T-shirt isn't red .")
    ['a', 'dog', 's', 't', 'shirt', 'is', 'nt', 'red']
    """
    split = _BREAK.split(_CLITIC.sub(r" \1", text.lower().replace("\u2019", "'")))
    # Most pieces are words already, and checking is cheaper than stripping.
    words = (piece if piece.isalnum() else _NOT_ALPHANUMERIC.sub("", piece) for piece in split)
    return [word for word in words if word]


def content_words(
    text: str, *, stop: Iterable[str] = STOP_WORDS, irregular: Mapping[str, str] = IRREGULAR
) -> list[str]:
    """The stems of a text's words without stop words, as ROUGE and BLEU-pre count them.

    Args:
        text: The text.
        stop: Words to leave out, before stemming.
        irregular: The lemma of forms that suffix stripping misses.

    >>> content_words("The children are climbing up the stairs .")
    ['child', 'climb', 'stair']
    """
    left_out = stop if isinstance(stop, frozenset) else frozenset(stop)
    return [stem(irregular.get(word, word)) for word in tokens(text) if word not in left_out]


def stem(word: str) -> str:
    """The stem (Porter 1980) of a word with four or more letters; shorter words are unchanged, as in ROUGE-1.5.5.

    >>> stem("climbing"), stem("boy")
    ('climb', 'boy')
    """
    return _porter(word) if len(word) > 3 else word


@lru_cache(maxsize=1 << 16)
def _porter(word: str) -> str:
    from snowballstemmer import stemmer  # type: ignore[import-untyped]  # no types are published

    # A new stemmer each time: stemmers hold state, so threads cannot share one. The cache makes this cheap.
    return str(stemmer("porter").stemWord(word))


def bleu(captions: Sequence[str], references: Sequence[Sequence[str]], *, words: Words = tokens) -> FloatArray:
    """BLEU of each caption against its own reference set: unigram precision.

    `sum_w min(c_s(w), max_r c_r(w)) / sum_w c_s(w)`, where word w occurs c_s(w) times in the caption and c_r(w) times
    in reference r. A caption without words scores 0.

    Source: Papineni et al. 2002 without the brevity penalty; Hodosh, Young & Hockenmaier 2013, section 4.2.2.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        words: Splits a text into words; `content_words` makes this BLEU-pre.

    >>> bleu(["a dog runs"], [["a brown dog", "the dog is running"]]).round(3)
    array([0.667])
    >>> bleu(["a dog runs"], [["a brown dog", "the dog is running"]], words=content_words)
    array([1.])
    """
    return _aligned(captions, references, words).precision()


def rouge(captions: Sequence[str], references: Sequence[Sequence[str]], *, words: Words = content_words) -> FloatArray:
    """ROUGE-1 of each caption against its own reference set: unigram recall.

    `sum_r sum_w min(c_s(w), c_r(w)) / sum_r sum_w c_r(w)`, where word w occurs c_s(w) times in the caption and c_r(w)
    times in reference r. A set whose references have no words scores 0.

    Source: Lin 2004; Hodosh, Young & Hockenmaier 2013, section 4.2.2, which stems and leaves out stop words.

    Args:
        captions: The captions.
        references: For each caption the texts it is compared with.
        words: Splits a text into words.

    >>> rouge(["a dog runs"], [["a brown dog", "the dog is running fast"]])
    array([0.6])
    """
    return _aligned(captions, references, words).recall()


def bleu_table(captions: Sequence[str], references: Sequence[Sequence[str]], *, words: Words = tokens) -> FloatArray:
    """`bleu` of every caption (rows) against every reference set (columns).

    >>> bleu_table(["a dog", "the cat"], [["a dog runs"], ["a cat", "the end"]])
    array([[1. , 0.5],
           [0. , 1. ]])
    """
    return _Counted(captions, references, words).precision_table()


def rouge_table(
    captions: Sequence[str], references: Sequence[Sequence[str]], *, words: Words = content_words
) -> FloatArray:
    """`rouge` of every caption (rows) against every reference set (columns).

    >>> rouge_table(["a dog", "the cat"], [["a dog runs"], ["a cat", "the end"]])
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    return _Counted(captions, references, words).recall_table()


class _Counted:
    """Captions and reference sets as sparse binary rows (and their sums) over one vocabulary.

    The n-th occurrence of a word has its own entry in the vocabulary. So `min(a, b)` summed over words is the
    number of common entries, the largest count over references is their union, and each score is one matrix product.
    """

    def __init__(self, captions: Sequence[str], references: Sequence[Sequence[str]], words: Words) -> None:
        _refuse_text(captions, "captions")
        _refuse_bad_sets(references)
        entries = lru_cache(maxsize=None)(lambda text: _occurrences(words(text)))
        vocabulary: dict[Hashable, int] = {}
        self.captions = _sparse([entries(text) for text in captions], vocabulary)
        self.sum = _sparse([[e for text in texts for e in entries(text)] for texts in references], vocabulary)
        self.captions.resize(len(captions), self.sum.shape[1])
        self.union = self.sum.sign()

    def precision(self) -> FloatArray:
        return _share(_along_rows(self.captions.multiply(self.union)), _along_rows(self.captions))

    def recall(self) -> FloatArray:
        return _share(_along_rows(self.captions.multiply(self.sum)), _along_rows(self.sum))

    def precision_table(self) -> FloatArray:
        return _share(_product(self.captions, self.union), _along_rows(self.captions)[:, None])

    def recall_table(self) -> FloatArray:
        return _share(_product(self.captions, self.sum), _along_rows(self.sum)[None, :])


def _aligned(captions: Sequence[str], references: Sequence[Sequence[str]], words: Words) -> _Counted:
    counted = _Counted(captions, references, words)
    if len(captions) != len(references):
        raise LimnerError(
            f"got {len(captions)} captions and {len(references)} reference sets, expected one set for each caption; "
            "for every caption with every set use bleu_table or rouge_table"
        )
    return counted


def _refuse_text(texts: object, role: str) -> None:
    """Refuses a single string: it would be scored letter by letter, with plausible but wrong results."""
    if isinstance(texts, str):
        raise LimnerError(f"{role}: got the text {texts[:40]!r}, expected a list of texts; put it in brackets")


def _refuse_bad_sets(references: Sequence[Sequence[str]]) -> None:
    _refuse_text(references, "references")
    for row, texts in enumerate(references):
        _refuse_text(texts, f"references[{row}]")
        if not len(texts):
            raise LimnerError(f"references[{row}] is empty, expected at least one text to compare with")


def _occurrences(words: Sequence[Hashable]) -> list[tuple[Hashable, int]]:
    """Each word with the number of its earlier occurrences."""
    if len(set(words)) == len(words):
        return [(word, 0) for word in words]
    counts: Counter[Hashable] = Counter()
    numbered = []
    for word in words:
        numbered.append((word, counts[word]))
        counts[word] += 1
    return numbered


def _sparse(rows: Iterable[Iterable[Hashable]], vocabulary: dict[Hashable, int]) -> csr_array:
    """Counts of entries, one row per text; new entries are added to the vocabulary."""
    from scipy.sparse import csr_array

    columns = [[vocabulary.setdefault(entry, len(vocabulary)) for entry in row] for row in rows]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for row in columns for column in row], dtype=np.int64)
    matrix = csr_array((np.ones(len(indices)), indices, indptr), shape=(len(columns), max(len(vocabulary), 1)))
    matrix.sum_duplicates()
    return matrix


def _along_rows(matrix: csr_array) -> FloatArray:
    return np.asarray(matrix.sum(axis=1), dtype=np.float64).reshape(-1)


def _product(a: csr_array, b: csr_array) -> FloatArray:
    """`a @ b.T` as a dense table, computed block by block."""
    table = np.empty((a.shape[0], b.shape[0]))
    across = b.T.tocsc()
    for low in range(0, len(table), _BLOCK):
        table[low : low + _BLOCK] = (a[low : low + _BLOCK] @ across).toarray()
    return table


def _share(part: FloatArray, total: FloatArray) -> FloatArray:
    """`part / total`; 0 if the total is 0."""
    return np.divide(part, total, out=np.zeros_like(part), where=total > 0)
