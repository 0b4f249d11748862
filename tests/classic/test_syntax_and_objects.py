"""A kernel over the syntax of captions, and features from a table of detected objects, against slow readings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError
from limner.papers.chunk_kernel import ChunkKernel, chunks
from limner.systems.classic.kernels import Features
from limner.systems.classic.object_features import object_features
from limner.systems.classic.strings import StringKernel

DOCUMENTS = [
    ["a red dog on the wet grass", "a dog runs"],
    ["two men in black shirts are climbing a rock", "people outside"],
    ["a red ball", "a small child with a red ball on grass"],
    ["the black and white dog is jumping"],
]


# --- syntax -----------------------------------------------------------------------------------------------------


def test_a_caption_is_its_noun_phrases_and_its_line_of_nouns_and_verbs():
    assert chunks("A man in a red jacket is climbing a big rock .") == (
        *("man", "red jacket", "big rock"),
        "man jacket climbing rock",
    )
    assert chunks("") == chunks("of the") == () and chunks("dogs") == ("dogs", "dogs")


def spans(words):
    """m_w of every sequence of up to three words: pairs of first and last place."""
    places = {}
    for length in (1, 2, 3):
        for chosen in itertools.combinations(range(len(words)), length):
            places.setdefault(tuple(words[at] for at in chosen), set()).add((chosen[0], chosen[-1]))
    return {sequence: len(ends) for sequence, ends in places.items()}


def slow(x, y, reader):
    """The string kernel over all pairs of parts of two documents, before normalisation."""
    parts = [[spans(reader(part)) for caption in side for part in chunks(caption)] for side in (x, y)]
    return sum(
        a[w] * b[w] * 0.5 ** (2 * len(w)) for a, b in itertools.product(*parts) for w in a.keys() & b.keys()
    )  # fmt: skip


def test_the_kernel_equals_its_formula_over_pairs_of_parts():
    kernel = ChunkKernel(StringKernel(weights="none"))
    table = kernel.fit(DOCUMENTS)(DOCUMENTS)
    reader = kernel.strings.reader
    for (i, x), (j, y) in itertools.product(enumerate(DOCUMENTS), repeat=2):
        expected = slow(x, y, reader) / np.sqrt(slow(x, x, reader) * slow(y, y, reader))
        assert table[i, j] == pytest.approx(expected)
    assert np.linalg.eigvalsh(table).min() > -1e-9


def test_a_modifier_counts_with_its_own_noun_only():
    query, *others = [["a red dog and a ball"], ["a dog and a red ball"], ["a red dog and a ball"]]
    kernel = ChunkKernel(StringKernel(weights="none")).fit(DOCUMENTS)
    swapped, same = kernel([query], others)[0]
    assert same == pytest.approx(1.0) and swapped < 0.99
    assert kernel([["of the"]], others).tolist() == [[0.0, 0.0]]


def test_a_model_with_chunks_is_trained_saved_and_opened_by_name(tmp_path):
    world = limner.load("scenes", images=40)
    ids = world.images.ids
    features = limner.Embeddings(ids, np.random.default_rng(0).normal(size=(len(ids), 5)).astype(np.float32))
    features.save(tmp_path / "f.npz")
    model = limner.train(world, "kcca", texts="chunks", images="rbf", features=str(tmp_path / "f.npz"))
    opened = limner.systems.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(opened.scores(world.test).matrix(), model.scores(world.test).matrix())
    assert opened.unknown_words("a xyzzy dog")[:1] == ["xyzzy"]


def test_a_number_of_captions_is_refused():
    with pytest.raises(LimnerError, match="captions=1 with a kernel of chunks"):
        ChunkKernel(StringKernel(captions=1))


# --- objects ----------------------------------------------------------------------------------------------------

ROWS = (
    "image,label,score,x,y,width,height\n"
    "a,dog,0.9,0.0,0.0,0.4,0.4\n"  # upper left
    "a,dog,0.5,0.6,0.6,0.4,0.4\n"  # lower right
    "b,cat,,0.6,0.1,0.2,0.2\n"  # upper right, score 1
    "b,dog,0.25,,,,\n"  # nowhere
    "c,,,,,,\n"  # no object
)


@pytest.fixture
def objects(tmp_path):
    file = tmp_path / "objects.csv"
    file.write_text(ROWS)
    return file


def test_objects_are_counted_in_the_image_and_in_its_quarters(objects):
    features = object_features(objects)
    assert list(features.ids) == ["a", "b", "c"]
    np.testing.assert_allclose(
        np.asarray(features)[:, :10].reshape(3, 2, 5),
        [
            [[0, 0, 0, 0, 0], [1.4, 0.9, 0, 0, 0.5]],
            [[1, 0, 1, 0, 0], [0.25, 0, 0, 0, 0]],
            [[0] * 5, [0] * 5],
        ],
    )
    assert np.asarray(features)[:, 10].tolist() == [0, 0, 1]
    kernel = Features("linear").fit(features)
    assert kernel(features)[0, 1] == pytest.approx(1.4 * 0.25 / np.linalg.norm([1.4, 0.9, 0.5]) / np.sqrt(2 + 0.0625))


def test_a_second_table_has_the_columns_of_the_first(objects, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("image,label\nd,zebra\nd,dog\n")
    assert np.asarray(object_features(other, labels=["cat", "dog"])).tolist() == [[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("picture,label\na,dog\n", "image"),
        ("image,label\n", "0 labels"),
        ("image,label\n,dog\n", "line 2: no image"),
        ("image,label,score\na,dog,much\n", r"line 2: score is 'much'; expected 0 or more"),
        ("image,label,score\na,dog,nan\n", "score is 'nan'"),
        ("image,label,score\na,dog,inf\n", "score is 'inf'"),
        ("image,label,x,y,width,height\na,dog,12,3,40,40\n", "x is '12'; expected a share of the image from 0 to 1"),
        ("image,label,x\na,dog,0.5\n", "y is ''; expected a share"),
    ],
)
def test_a_bad_table_ends_in_a_sentence(text, words, tmp_path):
    file = tmp_path / "objects.csv"
    file.write_text(text)
    with pytest.raises(LimnerError, match=words):
        object_features(file)
    with pytest.raises(LimnerError, match="no file"):
        object_features(tmp_path / "none.csv")
