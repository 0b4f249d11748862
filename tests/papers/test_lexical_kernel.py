"""Similarities between words against slow loops, and the trigram kernel with partial matches against its formula."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.core.errors import LimnerError
from limner.language.wordnet import WordNet
from limner.language.words import Reader
from limner.papers.lexical_kernel import FittedLexicalKernel, LexicalKernel
from limner.papers.word_similarity import Alignment, Distributional, Lin, Maximum, Mean, WordTable, translations
from limner.systems.classic.strings import StringKernel

WORDS = ("dog", "cat", "ball", "red", "grass", "jump", "beach")
sentences = st.lists(st.sampled_from((*WORDS, "zebra")), max_size=6).map(" ".join)
documents = st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=1, max_size=3)
TRAINING = [["dog ball red", "dog jump"], ["cat grass", "red cat"], ["beach dog jump grass"], ["ball ball dog"]]
READ = Reader()


class TableSimilarity:
    """A similarity that is given as a table."""

    def __init__(self, table: WordTable) -> None:
        self.table = table

    def fit(self, documents, reader) -> WordTable:
        return self.table


def spans(sentence: list[str]) -> Counter[tuple[str, ...]]:
    """m_{s,w} of every sequence w of up to three words."""
    positions = defaultdict(set)
    for k in (1, 2, 3):
        for places in itertools.combinations(range(len(sentence)), k):
            positions[tuple(sentence[p] for p in places)].add((places[0], places[-1]))
    return Counter({w: len(each) for w, each in positions.items()})


def slow_lexical(x, y, kappa, weight, length):
    total = 0.0
    for s, t in itertools.product(x, y):
        for (w, m), (v, n) in itertools.product(spans(s).items(), spans(t).items()):
            if len(w) == len(v) <= length:
                match = math.prod(kappa(a, b) * weight(a) * weight(b) for a, b in zip(w, v, strict=True))
                total += m * n * 0.5 ** (2 * len(w)) * match
    return total


def tables(draw_words=WORDS[:5]):
    """Tables with ones on the diagonal, of some of the words."""
    values = st.lists(st.floats(-1, 1), min_size=15, max_size=15)

    def cosines(numbers):
        vectors = np.array(numbers).reshape(5, 3) + 1e-3
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return WordTable(tuple(draw_words), np.clip(vectors @ vectors.T, -1, 1).astype(np.float32))

    return values.map(cosines)


@given(documents, documents, tables(), st.sampled_from(("none", "root idf")), st.sampled_from((1, 2, 3)))
@settings(max_examples=25)
def test_the_kernel_with_partial_matches_is_the_papers(a, b, table, weights, length):
    kernel = LexicalKernel(TableSimilarity(table), StringKernel(length=length, weights=weights)).fit(TRAINING)
    caption_counts = Counter(w for captions in TRAINING for w in {w for c in captions for w in READ(c)})

    def weight(word):
        idf = math.log(len(TRAINING) / (caption_counts[word] + 1))
        return math.sqrt(max(0.0, idf)) if weights == "root idf" else 1.0

    def slow(x, y):
        read = [[READ(caption) for caption in side] for side in (x, y)]
        return slow_lexical(*read, table.of, weight, length)

    selves = [[slow(x, x) for x in side] for side in (a, b)]
    # Where partial matches cancel a document's own response to rounding, a ratio of rounding errors is left.
    solid = np.outer(np.array(selves[0]) > 1e-3, np.array(selves[1]) > 1e-3)
    raw = np.array([[slow(x, y) for y in b] for x in a])
    expected = raw / np.sqrt(np.maximum(np.outer(*selves), 1e-300))
    np.testing.assert_allclose(kernel(a, b)[solid], expected[solid], atol=1e-5)  # kappa has single precision


@given(documents, documents)
@settings(max_examples=30)
def test_with_exact_matches_alone_it_is_the_string_kernel(a, b):
    words = WORDS[:4]
    exact = TableSimilarity(WordTable(words, np.eye(len(words), dtype=np.float32)))
    for weights in ("none", "idf", "root idf"):
        strings = StringKernel(weights=weights)
        partial = LexicalKernel(exact, strings).fit(TRAINING)
        np.testing.assert_allclose(partial(a, b), strings.fit(TRAINING)(a, b), atol=1e-9)
        np.testing.assert_allclose(partial(a), strings.fit(TRAINING)(a), atol=1e-9)


@given(documents, tables())
@settings(max_examples=30)
def test_a_table_of_cosines_gives_a_positive_semidefinite_kernel(some, table):
    kernel = LexicalKernel(TableSimilarity(table)).fit(TRAINING)
    matrix = kernel(some)
    assert np.linalg.eigvalsh((matrix + matrix.T) / 2).min() > -1e-4  # kappa has single precision


def test_a_lexical_kernel_comes_back_from_plain_values():
    fitted = LexicalKernel(Distributional(min_count=1), StringKernel(weights="root idf")).fit(TRAINING)
    restored = FittedLexicalKernel.from_state(fitted.state())
    new = [["a dog and a zebra"], ["red balls on the beach", "grass"]]
    np.testing.assert_array_equal(restored(new, TRAINING), fitted(new, TRAINING))


# Similarities ---------------------------------------------------------------------------------------------------------


def cosine(x: dict, y: dict) -> float:
    product = sum(v * y.get(k, 0.0) for k, v in x.items())
    lengths = math.sqrt(sum(v * v for v in x.values()) * sum(v * v for v in y.values()))
    return product / lengths if lengths else 0.0


def slow_mutual(sentences: list[list[str]], contexts: list[str], word: str) -> dict[str, float]:
    def share(*words):
        return sum(all(w in s for w in words) for s in sentences) / len(sentences)

    information = {}
    for context in contexts:
        if share(word, context):
            information[context] = max(0.0, math.log2(share(word, context) / (share(word) * share(context))))
    return information


@given(st.lists(st.lists(sentences, min_size=1, max_size=3), min_size=2, max_size=5))
@settings(max_examples=30)
def test_distributional_similarity_is_the_papers(training):
    read = [READ(c) for captions in training for c in captions]
    counts = Counter(w for s in read for w in s)
    often = [w for w, n in counts.items() if n >= 2]
    if not often:
        with pytest.raises(LimnerError, match="2 times"):
            Distributional(min_count=2).fit(training, READ)
        return
    table = Distributional(min_count=2, threshold=0.3).fit(training, READ)
    assert sorted(table.words) == sorted(often)
    vectors = {w: slow_mutual(read, often, w) for w in often}
    for a, b in itertools.combinations(often, 2):
        slow = cosine(vectors[a], vectors[b])
        if abs(slow - 0.3) > 1e-6:
            assert table.of(a, b) == pytest.approx(slow if slow >= 0.3 else 0.0, abs=1e-6)
    assert all(table.of(w, w) == 1 for w in often)


def test_an_outside_corpus_is_counted_instead(tmp_path):
    corpus = ("dogs bark", "a puppy barks", "cats purr", "a kitten purrs", "wolves howl")
    training = [["a dog", "a puppy"], ["a cat", "a kitten"]]
    table = Distributional(corpus=corpus, min_count=1).fit(training, READ)
    assert sorted(table.words) == ["cat", "dog", "kitten", "puppy"]
    read = [READ(s) for s in corpus]
    contexts = sorted({w for s in read for w in s})
    slow = cosine(*(slow_mutual(read, contexts, w) for w in ("dog", "puppy")))
    assert table.of("dog", "puppy") == pytest.approx(slow, abs=1e-6) and table.of("dog", "cat") == 0
    file = tmp_path / "corpus.txt"
    file.write_text("\n".join(corpus))
    from_file = Distributional(corpus=file, min_count=1).fit(training, READ)
    np.testing.assert_array_equal(from_file.values, table.values)
    with pytest.raises(LimnerError, match="no corpus"):
        Distributional(corpus=tmp_path / "none.txt").fit(training, READ)


def test_lin_is_the_papers():
    training = [["a dog and a cat", "a puppy"], ["a car", "a dog runs"], ["xyzzy"]]
    table = Lin().fit(training, READ)
    net = WordNet.load()
    counts = Counter(w for captions in training for c in captions for w in READ(c))
    first = {w: net.synsets(w)[0].name for w in counts if net.synsets(w)}
    total = sum(counts[w] for w in first)

    def share(synset):
        return sum(counts[w] for w, s in first.items() if net.is_a(s, synset)) / total

    def vector(word):
        log_share = math.log(share(first[word]))
        ups = {s: math.log(share(s)) for s in net.ancestors(first[word])}
        return {s: 2 * up / (log_share + up) for s, up in ups.items()}

    assert sorted(table.words) == sorted(first) and "xyzzy" not in table.words
    for a, b in itertools.combinations(first, 2):
        assert table.of(a, b) == pytest.approx(cosine(vector(a), vector(b)), abs=1e-6)
    assert table.nearest("dog", 1)[0][0] == "puppy"
    assert table.of("xyzzy", "xyzzy") == 1 and table.of("xyzzy", "dog") == 0
    with pytest.raises(LimnerError, match="xyzzy"):
        table.nearest("xyzzy")


def slow_translations(pairs, vocabulary_size, rounds):
    """IBM models 1 and 2 with dictionaries."""
    share = {(e, f): 1 / vocabulary_size for e in range(-1, vocabulary_size) for f in range(vocabulary_size)}
    jumps = defaultdict(lambda: 1.0)
    for model in (1,) * rounds[0] + (2,) * rounds[1]:
        counts, places = Counter(), Counter()
        for source, target in zip(*pairs, strict=True):
            words = [-1, *source]
            for j, f in enumerate(target):
                keys = [(len(source), len(target), j, i) for i in range(len(words))]
                parts = [share[e, f] * (jumps[k] if model == 2 else 1) for e, k in zip(words, keys, strict=True)]
                for e, k, part in zip(words, keys, parts, strict=True):
                    counts[e, f] += part / sum(parts)
                    places[k] += part / sum(parts)
        totals, sums = Counter(), Counter()
        for (e, _), c in counts.items():
            totals[e] += c
        for k, c in places.items():
            sums[k[:3]] += c
        share = {(e, f): counts[e, f] / totals[e] if totals[e] else 0.0 for e, f in share}
        if model == 2:
            jumps = {k: c / sums[k[:3]] for k, c in places.items()}
    return np.array([[share[e, f] for f in range(vocabulary_size)] for e in range(vocabulary_size)])


lists = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@given(st.lists(st.tuples(lists, lists), min_size=1, max_size=6), st.sampled_from(((3, 0), (0, 2), (2, 3))))
@settings(max_examples=40)
def test_translations_are_those_of_ibm_models_1_and_2(pairs, rounds):
    sides = [list(p[0]) for p in pairs], [list(p[1]) for p in pairs]
    np.testing.assert_allclose(translations(sides, 4, rounds=rounds), slow_translations(sides, 4, rounds), atol=1e-10)


def test_alignment_joins_what_captions_put_for_each_other():
    dogs = [["a dog runs", "a puppy runs", "the dog moves"]] * 3
    cats = [["a cat sleeps", "the kitten sleeps", "a cat rests"]] * 3
    table = Alignment(nouns=(2, 0.5), verbs=(2, 0.25)).fit([*dogs, *cats], READ)
    assert sorted(table.words) == ["cat", "dog", "kitten", "move", "puppy", "rest", "run", "sleep"]
    assert table.nearest("dog", 1)[0][0] == "puppy" and table.nearest("sleep", 1)[0][0] == "rest"
    assert table.of("dog", "cat") == 0 and table.of("dog", "run") == 0
    with pytest.raises(LimnerError, match="frequent enough"):
        Alignment().fit(dogs[:1], READ)


def test_combinations_are_means_and_maxima():
    first = WordTable(("dog", "cat"), np.array([[1, 0.4], [0.4, 1]], dtype=np.float32))
    second = WordTable(("cat", "ball"), np.array([[1, 0.2], [0.2, 1]], dtype=np.float32))
    mean = Mean((TableSimilarity(first), TableSimilarity(second))).fit(TRAINING, READ)
    maximum = Maximum((TableSimilarity(first), TableSimilarity(second))).fit(TRAINING, READ)
    assert mean.words == maximum.words == ("dog", "cat", "ball")
    assert [round(mean.of(*pair), 6) for pair in (("dog", "dog"), ("dog", "cat"), ("cat", "ball"))] == [1, 0.2, 0.1]
    assert [round(maximum.of(*pair), 6) for pair in (("dog", "dog"), ("dog", "cat"), ("cat", "ball"))] == [1, 0.4, 0.2]


def test_flickr8ks_vocabularies_have_the_papers_sizes(shared_data):
    """1,928 words seen 5 times or more; 1,180 nouns and 143 verbs, 11 of them both (sections 3.5.3 and 3.5.4)."""
    from limner.datasets.flickr import load_flickr8k
    from limner.language.words import lemma_lexicon

    train = load_flickr8k(shared_data / "flickr8k", split="train")
    reader = Reader(lexicon=lemma_lexicon(train.texts.values, train.texts.field("lemmas")))
    captions = [[caption] for caption in train.texts.values]
    assert len(Distributional().fit(captions, reader).words) == pytest.approx(1928, rel=0.02)
    tagged = Counter(pair for (caption,) in captions for pair in reader.tagged(caption))
    total = Counter()
    for (word, _), count in tagged.items():
        total[word] += count
    nouns = {w for (w, t), c in tagged.items() if t == "n" and c >= 5 and c >= 0.5 * total[w]}
    verbs = {w for (w, t), c in tagged.items() if t == "v" and c >= 25 and c >= 0.25 * total[w]}
    assert len(nouns) == pytest.approx(1180, rel=0.06) and len(verbs) == pytest.approx(143, rel=0.1)
