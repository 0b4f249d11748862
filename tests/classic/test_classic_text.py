"""Reading captions, and the string and tag rank kernels against slow loops that follow the paper's formulas."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.core.errors import LimnerError
from limner.language import words
from limner.language.tagging import tag
from limner.language.words import Reader, compounds, lemma_lexicon, tokens
from limner.papers.tagrank import TagRank
from limner.systems.classic.sentences import DocumentVocabulary
from limner.systems.classic.strings import OverlapF1, StringKernel

WORDS = ("dog", "cat", "ball", "red", "grass", "jump", "beach")
sentences = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)
documents = st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=1, max_size=4)
TRAINING = [["dog ball red", "dog jump"], ["cat grass", "red cat"], ["beach dog jump grass"], ["ball ball dog"]]


# The paper's formulas, word by word -----------------------------------------------------------------------------------


def spans(sentence: list[str], sequence: tuple[str, ...]) -> int:
    """|M_{s,w}|: spans (i, j) that begin with the first word, end with the last, and have the others between."""
    words_read = set()
    for places in itertools.combinations(range(len(sentence)), len(sequence)):
        if tuple(sentence[p] for p in places) == sequence:
            words_read.add((places[0], places[-1]))
    return len(words_read)


def sequences(sentence: list[str], length: int) -> set[tuple[str, ...]]:
    return {w for k in range(1, length + 1) for w in itertools.combinations(sentence, k)}


def slow_strings(x: list[list[str]], y: list[list[str]], weight: dict[str, float], length: int, match: float) -> float:
    total = 0.0
    for s, t in itertools.product(x, y):
        for w in sequences(s, length) & sequences(t, length):
            of = math.prod(weight[v] for v in w) ** 2
            total += spans(s, w) * spans(t, w) * match ** (2 * len(w)) * of
    return total


def slow_idf(training: list[list[str]], kind: str) -> dict[str, float]:
    read = Reader()
    document_counts = Counter(w for captions in training for w in {w for c in captions for w in read(c)})
    idf = {w: max(0.0, math.log(len(training) / (document_counts[w] + 1))) for w in WORDS}
    return {w: {"none": 1.0, "idf": v, "root idf": math.sqrt(v)}[kind] for w, v in idf.items()}


def normalised(kernel, a, b):
    return np.array([[ratio(kernel(x, y), kernel(x, x) * kernel(y, y)) for y in b] for x in a])


def ratio(value: float, squares: float) -> float:
    return value / math.sqrt(squares) if squares > 0 else 0.0


def read(side):
    reader = Reader()
    return [[reader(caption) for caption in captions] for captions in side]


@given(documents, documents, st.sampled_from((1, 2, 3)), st.sampled_from(("none", "idf", "root idf")))
@settings(max_examples=60)
def test_string_kernels_are_the_papers(a, b, length, weights):
    weight = slow_idf(TRAINING, weights)
    kernel = StringKernel(length=length, weights=weights).fit(TRAINING)
    slow = normalised(lambda x, y: slow_strings(x, y, weight, length, 0.5), read(a), read(b))
    np.testing.assert_allclose(kernel(a, b), slow, atol=1e-12)
    alone = normalised(lambda x, y: slow_strings(x, y, weight, length, 0.5), read(a), read(a))
    np.testing.assert_allclose(kernel(a), alone, atol=1e-12)


def test_a_middle_word_said_twice_counts_once_in_a_span():
    read_ = Reader()("dog ball ball cat")
    assert spans(read_, ("dog", "ball", "cat")) == 1  # (dog, cat) is one span
    assert spans(read_, ("dog", "ball")) == 2
    kernel = StringKernel(match=1.0).fit(TRAINING)
    twice, once = [["dog ball ball cat"]], [["dog ball cat"]]
    # once: 3 words, 3 pairs, 1 triple; common: 1 + 2 + 1 words, 2 + 2 + 1 pairs, 1 triple
    # twice: words 1, 2, 1; pairs dog ball 2, ball ball 1, ball cat 2, dog cat 1; triples dog ball cat 1, dog ball ball
    # 1 and ball ball cat 1, so 6 + 10 + 3
    assert kernel(twice, once)[0, 0] == pytest.approx(10 / math.sqrt(7 * 19))


def slow_f1(x, y, weight):
    a, b = (Counter(w for s in side for w in s) for side in (x, y))
    common = sum(weight[w] * min(a[w], b[w]) for w in a)
    sizes = [sum(weight[w] * c for w, c in side.items()) for side in (a, b)]
    if not common:
        return 0.0
    precision, recall = common / sizes[0], common / sizes[1]
    return 2 * precision * recall / (precision + recall)


@given(documents, documents, st.sampled_from(("none", "idf", "root idf")))
@settings(max_examples=60)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(a, b, weights):
    weight = slow_idf(TRAINING, weights)
    slow = np.array([[slow_f1(x, y, weight) for y in read(b)] for x in read(a)])
    np.testing.assert_allclose(OverlapF1(weights=weights).fit(TRAINING)(a, b), slow, atol=1e-12)
    self_similarities = np.array([[slow_f1(x, y, weight) for y in read(a)] for x in read(a)])
    np.testing.assert_allclose(OverlapF1(weights=weights).fit(TRAINING)(a), self_similarities, atol=1e-12)


# Tag rank -------------------------------------------------------------------------------------------------------------


def ranks(sentence: list[str], places: dict[str, Counter[int]]) -> tuple[dict[str, float], dict[str, float]]:
    mean = {w: np.mean([p for p, v in enumerate(sentence, 1) if v == w]) for w in sentence}
    absolute = {w: 1 / math.log2(1 + p) for w, p in mean.items()}
    relative = {}
    for w, p in mean.items():
        total = sum(places[w].values())
        relative[w] = 1 - sum(n for k, n in places[w].items() if k <= p) / total if total else 0.0
    return absolute, relative


def chi2(x: dict[str, float], y: dict[str, float]) -> float:
    kernel_values = [(x.get(w, 0.0), y.get(w, 0.0)) for w in {*x, *y}]
    return sum((p - q) ** 2 / (p + q) for p, q in kernel_values if p + q > 0)


@cache
def slow_widths():
    """Where the words of the training sentences stand, and the mean distances of those sentences."""
    trained = [s for d in read(TRAINING) for s in d]
    places: dict[str, Counter[int]] = {w: Counter() for w in WORDS}
    for sentence in trained:
        for p, w in enumerate(sentence, 1):
            places[w][p] += 1
    self_similarities = [ranks(s, places) for s in trained]
    pairs = list(itertools.permutations(self_similarities, 2))
    return places, [np.mean([chi2(x[at], y[at]) for x, y in pairs]) for at in (0, 1)]


def slow_tag_rank(a, b):
    places, omega = slow_widths()

    def kernel(x, y):
        values = []
        for s, t in itertools.product(x, y):
            p, q = ranks(s, places), ranks(t, places)
            values.append(0.5 * sum(math.exp(-chi2(p[at], q[at]) / omega[at]) for at in (0, 1)))
        return float(np.mean(values))

    return normalised(kernel, read(a), read(b))


@given(documents, documents)
@settings(max_examples=40)
def test_tag_rank_is_the_papers(a, b):
    kernel = TagRank().fit(TRAINING)
    np.testing.assert_allclose(kernel(a, b), slow_tag_rank(a, b), atol=1e-12)
    np.testing.assert_allclose(kernel(a), slow_tag_rank(a, a), atol=1e-12)


# What kernels have to be ----------------------------------------------------------------------------------------------

KERNELS = {
    "bow": StringKernel(length=1),
    "bow1": StringKernel(length=1, captions=1),
    "bow root idf": StringKernel(length=1, weights="root idf"),
    "trigram": StringKernel(),
    "trigram idf": StringKernel(weights="idf"),
    "tagrank": TagRank(),
    "f1": OverlapF1(),
}


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "f1"])
@given(documents)
@settings(max_examples=25)
def test_kernels_are_positive_semidefinite(name, some):
    table = KERNELS[name].fit(TRAINING)(some)
    np.testing.assert_array_equal(table, table.T)
    assert np.linalg.eigvalsh(table).min() > -1e-9


@pytest.mark.parametrize("name", list(KERNELS))
def test_a_kernel_comes_back_from_plain_values(name):
    fitted = KERNELS[name].fit(TRAINING)
    state = fitted.state()
    words = json.loads(json.dumps(plain(state)))
    arrays = {path: np.asarray(value) for path, value in arrays_of(state)}
    restored = type(fitted).from_state(filled(words, arrays))
    new = [["a dog and a zebra"], ["red balls on the beach", "grass"]]
    np.testing.assert_array_equal(restored(new, TRAINING), fitted(new, TRAINING))


def plain(value, path=()):
    """The JSON half of a state: arrays are left as their path."""
    if isinstance(value, dict):
        return {key: plain(v, (*path, key)) for key, v in value.items()}
    return "/".join(("array", *path)) if isinstance(value, np.ndarray) else value


def arrays_of(value, path=()):
    if isinstance(value, dict):
        for key, v in value.items():
            yield from arrays_of(v, (*path, key))
    elif isinstance(value, np.ndarray):
        yield "/".join(("array", *path)), value


def filled(value, arrays):
    if isinstance(value, dict):
        return {key: filled(v, arrays) for key, v in value.items()}
    return arrays[value] if isinstance(value, str) and value in arrays else value


def test_one_caption_is_kept_of_each_document():
    kernel_values = StringKernel(length=1, captions=1).fit(TRAINING)([["a dog", "a cat"]], [["a dog"], ["a cat"]])
    assert kernel_values.tolist() == [[1.0, 0.0]]


def test_words_that_training_never_had_match_themselves():
    kernel = StringKernel().fit(TRAINING)
    assert kernel([["two zebras"]], [["two zebras"], ["one giraffe"]]).tolist() == [[pytest.approx(1.0), 0.0]]


def test_a_document_without_words_is_like_nothing():
    for kernel in (StringKernel(), OverlapF1()):
        assert kernel.fit(TRAINING)([["the"], ["a cat"]]).round(6).tolist() == [[0, 0], [0, 1]]


def test_progress_is_told():
    calls: list[tuple[int, int]] = []
    StringKernel().fit(TRAINING)(TRAINING, progress=lambda *at: calls.append(at))
    TagRank().fit(TRAINING)(TRAINING, progress=lambda *at: calls.append(at))
    assert calls == [(4, 4), (4, 4)]


@pytest.mark.parametrize("wrong", ["a dog", ["a dog"]])
def test_a_text_in_the_place_of_captions_is_refused(wrong):
    with pytest.raises(LimnerError, match="expected"):
        StringKernel().fit(wrong)


def test_options_that_mean_nothing_are_refused():
    for options, message in (({"length": 4}, "length=4"), ({"weights": "tf"}, "tf"), ({"match": 0}, "match=0")):
        with pytest.raises(LimnerError, match=message):
            StringKernel(**options)
    with pytest.raises(LimnerError, match="no words"):
        StringKernel().fit([["the"]])


# Reading --------------------------------------------------------------------------------------------------------------


def test_every_way_to_write_a_compound_is_one_word():
    for message in ("t shirt", "T-shirt", "tee-shirt", "tee shirt", "tshirt"):
        assert Reader()(f"A man in a {message}") == ["man", "t-shirt"]
    assert compounds(tokens("skate-board, skate board, skateboard")) == ["skateboard"] * 3
    assert compounds(["snow-covered"]) == ["snow-covered"]


def test_endings_are_no_words():
    assert tokens("A dog's ball isn't the dog 's") == ["a", "dog", "ball", "is", "the", "dog", "s"]


def test_lemmas_come_from_the_lexicon_first():
    lexicon = lemma_lexicon(
        ["Two people run .", "people sit", "Some people", "not aligned"],
        ["Two person run .", "people sit", "Some person", "aligned"],
    )
    assert lexicon["people"] == "person" and "not" not in lexicon
    assert Reader(lexicon=lexicon)("the people are running") == ["person", "run"]
    assert Reader()("the people are running") == ["people", "run"]
    with pytest.raises(LimnerError, match="line by line"):
        lemma_lexicon(["a dog"], [None])


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("a dog runs through the grass", "x n v x x n"),
        ("two dogs are playing with a ball", "x n x v x x n"),
        ("a man in a blue jacket climbs a frozen wall", "x n x x x n v x x n"),
        ("children play on the beach", "n v x x n"),
        ("a boy tries to catch a frisbee", "x n v x v x n"),
        ("the black dog jumps over a log", "x x n v x x n"),
    ],
)
def test_nouns_and_verbs(caption, expected):
    assert " ".join(tag(caption.split())) == expected


def test_a_tagger_of_ones_own(monkeypatch):
    assert Reader(tagger=f"{__name__}:all_nouns").tagged("a dog runs") == [("dog", "n"), ("run", "n")]
    with pytest.raises(LimnerError, match="tagger"):
        Reader(tagger="nothing").tagged("a dog")


def all_nouns(words):
    return ["n"] * len(words)


def test_flickr8ks_lemmas_agree_with_wordnets(shared_data):
    folder = shared_data / "flickr8k" / "text"
    rows = [
        dict(line.split("\t", 1) for line in (folder / name).read_text().splitlines())
        for name in ("Flickr8k.token.txt", "Flickr8k.lemma.token.txt")
    ]
    keys = sorted(rows[0].keys() & rows[1].keys())[:2000]
    captions, lemmas = ([side[key] for key in keys] for side in rows)
    default_reader, lexicon_reader = Reader(), Reader(lexicon=lemma_lexicon(captions, lemmas))
    pairs = [(default_reader(c), lexicon_reader(c)) for c in captions]
    equal_count = [x == y for p, q in pairs if len(p) == len(q) for x, y in zip(p, q, strict=True)]
    assert len(equal_count) > 10_000 and np.mean(equal_count) > 0.95


# Spelling -------------------------------------------------------------------------------------------------------------

SPELLER = """#!/bin/sh
echo '@(#) International Ispell'
while read -r line; do
  case "$line" in
    ^mountian) echo '& mountian 2 1: mountain, fountain';;
    ^zzz) echo '# zzz 1';;
    *) echo '*';;
  esac
  echo
done
"""


def test_a_speller_is_asked_for_words_that_wordnet_does_not_know(tmp_path: Path, monkeypatch):
    program = tmp_path / "hunspell"
    program.write_text(SPELLER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    words.correct.cache_clear()
    words._speller.cache_clear()
    try:
        assert Reader(spelling=True)("a dog on a mountian zzz") == ["dog", "mountain", "zzz"]
    finally:
        words._speller().terminate()
        words._speller.cache_clear()
        words.correct.cache_clear()


def test_without_a_speller_spelling_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    words.correct.cache_clear()
    words._speller.cache_clear()
    with pytest.raises(LimnerError, match="hunspell or aspell"):
        Reader(spelling=True)("a dog on a mountian")


def test_idf_is_the_papers():
    words = DocumentVocabulary.fit(TRAINING, Reader())
    assert words.weights("idf", 8)[list(words.words).index("grass")] == pytest.approx(math.log(4 / 3))
    assert words.weights("idf", 8)[-1] == pytest.approx(math.log(4))
    with pytest.raises(LimnerError, match="root idf"):
        words.weights("root", 8)
