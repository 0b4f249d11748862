"""The built-in systems: what they see, what they read, the map between, and that they beat chance by far."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from PIL import Image

import limner
from limner import systems
from limner.core.collection import Collection, Items
from limner.core.judgements import Judgements
from limner.encoders.image_descriptors import DESCRIPTIONS, SIDE, describe, describe_one
from limner.encoders.words import BagOfWords, words
from limner.systems.canonical import canonical_maps


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=200)


@pytest.fixture(scope="module")
def model(world):
    return limner.train(world, "histograms")


def _picture(*blocks: tuple[str, tuple[int, int, int, int]], ground: str = "white") -> Image.Image:
    picture = Image.new("RGB", (SIDE, SIDE), ground)
    for colour, box in blocks:
        picture.paste(colour, box)
    return picture


def _colour_number(pixel) -> int:
    """The bin of a pixel as the description says: 6 greys, then 12 hues in two saturations and three brightnesses."""
    red, green, blue = ((int(channel) // 8 + 0.5) / 32 for channel in pixel)
    hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
    if saturation < 0.15:
        return int(value * 6)
    return 6 + (int(hue * 12 + 0.5) % 12 * 2 + (saturation > 0.55)) * 3 + int(value * 3)


def test_colours_against_a_slow_count():
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    counts = np.zeros((17, 78))
    for y in range(SIDE):
        for x in range(SIDE):
            number = _colour_number(picture[y, x])
            counts[y // 40 * 4 + x // 40, number] += 1
            counts[16, number] += 1
    np.testing.assert_allclose(DESCRIPTIONS["colours"](picture).reshape(17, 78) ** 2, counts / SIDE**2, atol=1e-7)


@pytest.mark.parametrize("colour", ["red", "green", "blue", "yellow", "black", "white", "purple"])
def test_a_colour_is_one_bin_whatever_its_place(colour):
    top_left, lower_right = (
        DESCRIPTIONS["colours"](np.asarray(_picture((colour, box), ground="gray")))
        for box in ((0, 0, 40, 40), (80, 120, 120, 160))
    )
    top_left, lower_right = top_left.reshape(17, -1), lower_right.reshape(17, -1)
    np.testing.assert_allclose(top_left[16], lower_right[16], atol=1e-6)
    assert np.count_nonzero(top_left[16]) == 2
    assert not np.allclose(top_left[0], lower_right[0])


def test_colours_tell_colours_apart_and_shapes_do_not():
    box = (40, 40, 100, 100)
    red, blue = (np.asarray(_picture((colour, box))) for colour in ("#ff0000", "#0000ff"))
    colours, shapes = DESCRIPTIONS["colours"], DESCRIPTIONS["shapes"]
    assert colours(red) @ colours(blue) < colours(red) @ colours(red) - 0.1
    np.testing.assert_allclose(shapes(red), shapes(blue), atol=1e-6)


def test_shapes_tell_upright_from_level_stripes():
    stripes = np.zeros((SIDE, SIDE, 3), dtype=np.uint8)
    stripes[:, ::8] = 255
    upright, level = DESCRIPTIONS["shapes"](stripes), DESCRIPTIONS["shapes"](stripes.transpose(1, 0, 2).copy())
    assert upright @ level < 0.01 * (upright @ upright)
    assert upright[16 * 12 : 17 * 12].argmax() == 0, "an upright edge changes from left to right: direction 0"


def test_shapes_against_a_slow_count():
    """Directions by the arc tangent; a slope on the very line between two directions belongs to the further one."""
    picture = np.random.default_rng(3).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    grey = picture.astype(int).sum(axis=2)
    for part, plane in enumerate((grey, grey.reshape(80, 2, 80, 2).sum(axis=(1, 3)))):
        down, right = (2 * np.gradient(plane.astype(float), axis=axis) for axis in (0, 1))
        counts, cell = np.zeros((17, 12)), len(plane) // 4
        for y in range(len(plane)):
            for x in range(len(plane)):
                turn = np.arctan2(down[y, x], right[y, x]) % np.pi * 12 / np.pi
                direction = int(turn + 1e-9) % 12
                strength = round(16 * np.hypot(down[y, x], right[y, x]))
                counts[y // cell * 4 + x // cell, direction] += strength
                counts[16, direction] += strength
        description = DESCRIPTIONS["shapes"](picture).reshape(2, 17, 12)[part]
        np.testing.assert_allclose(description**2, counts / counts[:16].sum(), atol=1e-6)


@pytest.mark.parametrize("names", [("colours",), ("shapes",), ("colours", "shapes")])
def test_every_description_has_length_one(world, names):
    rows = describe(world.images[:3], names).astype(float)
    np.testing.assert_allclose((rows**2).sum(axis=1), len(names), rtol=1e-6)


def test_a_plain_picture_has_no_edges_and_is_still_described():
    assert np.isfinite(describe_one(_picture(), ("colours", "shapes"))).all()


def test_pictures_of_any_size_are_described_alike():
    small, large = (
        _picture(("red", (40, 40, 80, 80))).resize((side, side), Image.Resampling.NEAREST) for side in (160, 480)
    )
    np.testing.assert_allclose(describe_one(small, ("colours",)), describe_one(large, ("colours",)), atol=1e-3)


def test_an_unknown_description_is_refused(world):
    with pytest.raises(limner.LimnerError, match="did you mean 'colours'"):
        describe(world.images[:1], ("colors",))


def test_bag_of_words_against_a_slow_count():
    texts = ["a red dog", "a red cat runs", "a blue dog runs", "a dog a dog"]
    bag = BagOfWords.fit(texts, min_count=2)
    assert bag.vocabulary == ("dog", "red", "runs"), "'a' is in every text; 'blue' and 'cat' are in one"
    for text, row in zip(texts, bag.vectors(texts).toarray(), strict=True):
        weights = [np.log(4 / sum(w in words(t) for t in texts)) if w in words(text) else 0 for w in bag.vocabulary]
        np.testing.assert_allclose(row, weights / np.linalg.norm(weights))


def test_the_vocabulary_keeps_the_most_frequent_words():
    assert BagOfWords.fit(["a b", "a b", "a c", "d e"], min_count=1, max_words=2).vocabulary == ("a", "b")


def test_equally_frequent_words_are_kept_in_the_order_of_the_alphabet():
    """Not in that of a set, which every process has its own."""
    texts = [f"{word} {suffix}" for word, suffix in zip("hgfedcba", "abcdefgh", strict=True)] + ["x y"]
    assert BagOfWords.fit(texts, min_count=1, max_words=4).vocabulary == tuple("abcd")


def test_texts_without_a_common_word_are_refused():
    with pytest.raises(limner.LimnerError, match="share no word"):
        BagOfWords.fit(["one", "two"])


def test_the_map_is_canonical_correlation():
    """Against the textbook: eigenvectors of inv(Caa) Cab inv(Cbb) Cba, with numpy alone."""
    from scipy.sparse import csr_array

    n, ridge, rng = 40, 0.2, np.random.default_rng(1)
    shared = rng.standard_normal((n, 2))
    a, b = (shared @ rng.standard_normal((2, d)) + 0.3 * rng.standard_normal((n, d)) for d in (5, 4))
    pictures, texts = canonical_maps(a, csr_array(b), csr_array(np.eye(n)), ridge=ridge, dimensions=3)
    centred = [x - x.mean(axis=0) for x in (a, b)]
    caa, cbb = (x.T @ x / n + ridge * np.trace(x.T @ x / n) / x.shape[1] * np.eye(x.shape[1]) for x in centred)
    cab = centred[0].T @ centred[1] / n
    values = np.sort(np.linalg.eigvals(np.linalg.inv(caa) @ cab @ np.linalg.inv(cbb) @ cab.T).real)[::-1][:3]
    # u' Caa u = s^2 and v' Cbb v = s^2 on the diagonal, 0 elsewhere, and u' Cab v = s^3
    np.testing.assert_allclose(pictures.weights.T @ caa @ pictures.weights, np.diag(values), atol=1e-9)
    np.testing.assert_allclose(texts.weights.T @ cbb @ texts.weights, np.diag(values), atol=1e-9)
    np.testing.assert_allclose(pictures.weights.T @ cab @ texts.weights, np.diag(values**1.5), atol=1e-9)
    np.testing.assert_allclose(pictures(a).mean(axis=0), 0, atol=1e-6)


def test_a_pair_counts_by_its_grade():
    """Grades 2 are the same as giving the pair twice."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((6, 3)), csr_array(np.abs(rng.standard_normal((6, 3))))
    graded = canonical_maps(a, b, csr_array(np.diag([2.0, 1, 1, 1, 1, 1])), ridge=0.1, dimensions=2)
    rows = [0, 0, 1, 2, 3, 4, 5]
    twice = canonical_maps(a[rows], b[rows], csr_array(np.eye(7)), ridge=0.1, dimensions=2)
    np.testing.assert_allclose(np.abs(graded[0].weights), np.abs(twice[0].weights), atol=1e-9)


def test_the_systems_are_far_above_chance_and_shape_helps():
    world = limner.load("scenes", images=600)
    names = ("histograms", "colours")  # the learned systems have tests of their own
    reached = {name: limner.evaluate(limner.train(world, name).scores(world.test), world.test) for name in names}
    for report in reached.values():
        for direction, chance in (("i2t", 10 * 5 / 600), ("t2i", 10 / 120)):
            assert report.value("R@10", direction=direction, view="pairs") > 3 * chance
    rsum = {name: report.value("rsum", view="complete") for name, report in reached.items()}
    assert rsum["histograms"] > rsum["colours"]


def test_training_is_deterministic_and_uses_the_training_split_alone(world, model):
    retrained = limner.train(world.train, "histograms")
    np.testing.assert_array_equal(retrained.image_map.weights, model.image_map.weights)
    assert retrained.bag.vocabulary == model.bag.vocabulary


def test_a_saved_model_scores_the_same(world, model, tmp_path):
    read = systems.load(model.save(tmp_path / "model.npz"))
    np.testing.assert_array_equal(read.scores(world.dev).matrix(), model.scores(world.dev).matrix())
    assert (read.name, read.descriptions) == ("histograms", ("colours", "shapes"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a model"])
def test_a_file_is_no_model(tmp_path, content):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(limner.LimnerError, match=r"no model .*model: expected a folder with config\.json"):
        systems.load(path)


def test_no_model_is_told(tmp_path):
    with pytest.raises(limner.LimnerError, match="no model"):
        systems.load(tmp_path / "none.npz")


def test_scores_are_lazy_and_carry_the_ids(world, model):
    scores = model.scores(world.dev)
    assert (scores.queries, scores.candidates) == (world.dev.images.ids, world.dev.texts.ids)
    assert isinstance(scores, limner.scores.vectors.VectorScores)


def test_a_text_of_unknown_words_has_a_place(model):
    embeddings = model.encode_texts(Items(["t"], ["qwertz"], kind="text"))
    assert np.isfinite(embeddings.matrix).all()


def test_progress_is_told_to_the_end(world, model):
    calls = []
    model.encode_images(world.dev.images, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(n, 40) for n in range(1, 41)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rigde": 1}, "unknown option 'rigde' of system 'histograms': did you mean 'ridge'"),
        ({"ridge": 0}, "ridge above 0"),
        ({"dimensions": 0}, "at least 1"),
    ],
)
def test_bad_options_are_refused(world, options, message):
    with pytest.raises(limner.LimnerError, match=message):
        limner.train(world, "histograms", **options)


def test_an_unknown_system_is_refused(world):
    with pytest.raises(limner.LimnerError, match="unknown system 'histogram': did you mean 'histograms'"):
        limner.train(world, "histogram")


def test_a_system_of_ones_own_needs_no_registration(world):
    assert limner.train(world, f"{__name__}:ids_and_scale", scale=2) == (world.train.images.ids, 2)


def ids_and_scale(collection, *, scale=1):
    return collection.images.ids, scale


def test_pictures_that_are_all_alike_are_refused():
    grey = [lambda: Image.new("RGB", (8, 8), "gray")] * 3
    texts = Items("abc", ["one dog", "one cat", "dog cat"], kind="text")
    alike = Collection("alike", Items("xyz", grey), texts, Judgements.from_pairs(zip("xyz", "abc", strict=True)))
    with pytest.raises(limner.LimnerError, match="images to train on are all identical"):
        limner.train(alike)


def test_nothing_to_train_on_is_refused():
    lone = Collection("lone", Items("x", [None]), Items("a", ["one"], kind="text"), Judgements.from_pairs([("x", "a")]))
    with pytest.raises(limner.LimnerError, match="1 images and 1 pairs to train on"):
        limner.train(lone)
