"""Descriptors, visual words, histograms and image kernels, against slow counts and what must hold of every kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.systems.classic.descriptors import DESCRIPTORS, STEP, lab, pixels, sift, texture
from limner.systems.classic.kernels import (
    Features,
    FittedFeatures,
    FittedPyramid,
    Pyramid,
    chi_squares,
    intersections,
    pyramid_weights,
)
from limner.systems.classic.visualwords import GRID, VisualWords, WordHistograms, k_means, nearest_words

RNG = np.random.default_rng(0)
SIZES = {"colour": 6, "texture": 5, "sift": 7}


@pytest.fixture(scope="module")
def pictures() -> Items:
    drawn = [RNG.integers(0, 256, (48, 64, 3), dtype=np.uint8) for _ in range(3)]
    drawn += [np.kron(RNG.integers(0, 256, (6, 8, 3)), np.ones((8, 8, 1))).astype(np.uint8) for _ in range(4)]
    images = [Image.fromarray(array) for array in drawn]
    return Items([f"p{i}" for i in range(len(drawn))], [lambda held=image: held for image in images])


@pytest.fixture(scope="module")
def words(pictures) -> VisualWords:
    return VisualWords.fit(pictures, sizes=SIZES, points=50, max_images=5)


@pytest.fixture(scope="module")
def histograms(pictures, words) -> WordHistograms:
    return WordHistograms.of(pictures, words)


# --- descriptors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rgb", "expected"),
    [((255, 255, 255), (100, 0, 0)), ((0, 0, 0), (0, 0, 0)), ((255, 0, 0), (53.24, 80.09, 67.20)),
     ((0, 255, 0), (87.73, -86.18, 83.18)), ((0, 0, 255), (32.30, 79.19, -107.86)), ((119, 119, 119), (50.03, 0, 0))],
)  # fmt: skip
def test_lab_of_known_colours(rgb, expected):
    computed = lab(np.array([rgb], dtype=np.uint8))[0].astype(float)
    np.testing.assert_allclose(computed, [expected[0] * 2.55, expected[1] + 128, expected[2] + 128], atol=0.6)


def test_pictures_are_made_smaller_and_never_larger():
    assert pixels(Image.new("RGB", (400, 300)), side=100).shape == (100, 133, 3)
    assert pixels(Image.new("L", (40, 30)), side=100).shape == (30, 40, 3)


def _slow_sift(grey: np.ndarray, y0: int, x0: int, size: int) -> np.ndarray:
    """One descriptor by adding up every pixel's gradient, shared between bins by the triangle."""
    bins = np.zeros((4, 4, 8))
    height, width = grey.shape
    for y in range(height):
        for x in range(width):
            up, down, left, right = max(y - 1, 0), min(y + 1, height - 1), max(x - 1, 0), min(x + 1, width - 1)
            dy, dx = (grey[down, x] - grey[up, x]) / (down - up), (grey[y, right] - grey[y, left]) / (right - left)
            turn = (math.atan2(dy, dx) % (2 * math.pi)) * 8 / (2 * math.pi)
            for by in range(4):
                for bx in range(4):
                    share = max(1 - abs(y - y0 - by * size) / size, 0) * max(1 - abs(x - x0 - bx * size) / size, 0)
                    if share:
                        window = math.exp(-((by - 1.5) ** 2 + (bx - 1.5) ** 2) / 8) / size**2
                        strength = math.hypot(dx, dy) * share * window
                        bins[by, bx, int(turn) % 8] += strength * (1 - turn % 1)
                        bins[by, bx, (int(turn) + 1) % 8] += strength * (turn % 1)
    normalised = bins.ravel() / np.linalg.norm(bins)
    normalised = np.minimum(normalised, 0.2)
    return np.minimum(512 * normalised / np.linalg.norm(normalised), 255)


def test_sift_against_a_slow_sum():
    picture = RNG.integers(0, 256, (40, 44, 3), dtype=np.uint8)
    grey = picture @ np.array([0.299, 0.587, 0.114])
    features = sift(picture)
    columns = (44 - 2 - 14 - 1) // STEP + 1
    for row, column in ((1, 2), (2, 1)):  # away from the edges, where the filters go on with the last pixel
        slow = _slow_sift(grey, 2 + STEP * row, 2 + STEP * column, 4)
        np.testing.assert_allclose(features.values[row * columns + column], slow, atol=1.01)
        assert (features.rows[row * columns + column], features.columns[column]) == (8 + STEP * row, 8 + STEP * column)


def test_sift_of_a_flat_picture_is_nothing_and_light_does_not_matter():
    assert not sift(np.full((40, 40, 3), 90, np.uint8)).values.any()
    picture = RNG.integers(0, 100, (40, 40, 3), dtype=np.uint8)
    differences = sift(picture * 2).values.astype(int) - sift(picture).values
    assert np.abs(differences).max() <= 1
    assert len(sift(np.zeros((10, 10, 3), np.uint8)).values) == 0


def test_texture_against_filters_of_scipy():
    from scipy.ndimage import correlate1d

    picture = RNG.integers(0, 256, (30, 37, 3), dtype=np.uint8)
    grey = picture @ np.array([0.299, 0.587, 0.114]) / 255
    energies = []
    for scale in (1.0, 2.0, 4.0):
        t = np.arange(-round(3 * scale), round(3 * scale) + 1) / scale
        bell = np.exp(-(t**2) / 2) / np.exp(-(t**2) / 2).sum()
        kernels = [bell, t * bell, (t**2 - 1) * bell - ((t**2 - 1) * bell).mean()]

        def filtered(x, y, kernels=kernels):
            across = correlate1d(grey, kernels[x], axis=1, mode="nearest")
            return correlate1d(across, kernels[y], axis=0, mode="nearest")[::2, ::2]

        for angle in np.arange(8) * np.pi / 8:
            c, s = np.cos(angle), np.sin(angle)
            odd = c * filtered(1, 0) + s * filtered(0, 1)
            even = c * c * filtered(2, 0) + 2 * c * s * filtered(1, 1) + s * s * filtered(0, 2)
            energies.append(np.hypot(odd, even).ravel())
    e = np.stack(energies, axis=1)
    length = np.linalg.norm(e, axis=1, keepdims=True)
    np.testing.assert_allclose(texture(picture).values, 64 * e * np.log(1 + length / 0.03) / length, atol=0.51)


# --- visual words -----------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 128), st.integers(0, 2**32 - 1))
def test_nearest_words_are_exact(points, words, dimensions, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (points, dimensions), dtype=np.uint8)
    b = rng.integers(0, 256, (words, dimensions), dtype=np.uint8)
    distances = ((a[:, None].astype(int) - b[None].astype(int)) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_words(a, b), distances.argmin(axis=1))


def test_k_means_finds_clusters_and_does_not_get_worse():
    centres = np.array([[20, 20], [90, 220], [200, 30]])
    points = np.clip(centres[RNG.integers(0, 3, 600)] + RNG.normal(0, 4, (600, 2)), 0, 255).astype(np.uint8)
    clusters = k_means(points, 3)
    np.testing.assert_allclose(clusters, centres, atol=1)  # sorted
    colours = RNG.integers(0, 256, (500, 3), dtype=np.uint8)

    def error(words):
        return ((colours.astype(int) - words[nearest_words(colours, words)].astype(int)) ** 2).sum()

    errors = [error(k_means(colours, 20, rounds=rounds)) for rounds in (1, 5, 30)]
    assert errors[0] > errors[1] >= errors[2]
    assert len(np.unique(k_means(colours, 20), axis=0)) == 20


def test_few_different_points_are_all_words():
    np.testing.assert_array_equal(k_means(np.array([[3], [1], [3]], np.uint8), 5), [[1], [3]])


def test_visual_words_do_not_depend_on_threads(pictures):
    one, two = (VisualWords.fit(pictures, sizes=SIZES, points=40, workers=workers) for workers in (1, 2))
    for name in SIZES:
        np.testing.assert_array_equal(one.words[name], two.words[name])


def test_words_are_refused_where_they_cannot_be_learned(pictures):
    with pytest.raises(UnknownName, match="colour"):
        VisualWords.fit(pictures, sizes={"color": 3})
    with pytest.raises(LimnerError, match="at least 1 image"):
        VisualWords.fit(pictures[:0])
    with pytest.raises(LimnerError, match="at least 1"):
        VisualWords.fit(pictures, sizes={"colour": 0})


# --- histograms -------------------------------------------------------------------------------------------------


def test_histograms_against_a_slow_count(pictures, words, histograms):
    for name in ("texture", "sift"):
        points = DESCRIPTORS[name](np.asarray(pictures.open(4)))
        slow = np.zeros((GRID * GRID, SIZES[name]))
        for value, row, column in zip(points.values, points.rows, points.columns, strict=True):
            distances = ((words.words[name].astype(int) - value.astype(int)) ** 2).sum(axis=1)
            slow[int(row * 4 // 48) * 4 + int(column * 4 // 64), distances.argmin()] += 1
        np.testing.assert_array_equal(histograms.counts[name][4], slow)


def test_colour_words_are_those_of_nearly_the_same_colour(pictures, words, histograms):
    picture = np.asarray(pictures.open(4))
    middle = (picture // 4 * 4 + 2).reshape(-1, 3)  # colours are told apart in 64 steps of red, green and blue
    slow = np.bincount(nearest_words(lab(middle), words.words["colour"]), minlength=6)
    np.testing.assert_array_equal(histograms.counts["colour"][4].sum(axis=0), slow)


def test_levels_are_sums_of_finer_ones(histograms):
    for name in SIZES:
        fine, middle, coarse = (histograms.level(name, level) for level in (2, 1, 0))
        np.testing.assert_allclose(fine.sum(axis=(1, 2)), 1, rtol=1e-5)
        np.testing.assert_allclose(middle.sum(axis=1), coarse[:, 0], rtol=1e-5)
        corner = fine.reshape(-1, 4, 4, SIZES[name])[:, :2, 2:].sum(axis=(1, 2))
        np.testing.assert_allclose(middle[:, 1], corner, atol=1e-6)
    with pytest.raises(LimnerError, match="0, 1 or 2"):
        histograms.level("sift", 3)


def test_histograms_are_kept_in_a_file(tmp_path, histograms, words):
    file = histograms.save(tmp_path / "h.safetensors", vocabulary=words)
    read, vocabulary = WordHistograms.load(file)
    assert list(read.ids) == list(histograms.ids) and vocabulary.side == words.side
    for name in SIZES:
        np.testing.assert_array_equal(read.counts[name], histograms.counts[name])
        np.testing.assert_array_equal(vocabulary.words[name], words.words[name])
    np.testing.assert_array_equal(read.subset(["p2", "p0"]).counts["sift"], histograms.counts["sift"][[2, 0]])
    with pytest.raises(LimnerError, match="no file of histograms"):
        WordHistograms.load(tmp_path / "other")
    Embeddings(["a"], np.ones((1, 2), np.float32)).save(tmp_path / "e.safetensors")
    with pytest.raises(LimnerError, match="expected 'limner histograms 1'"):
        WordHistograms.load(tmp_path / "e.safetensors")


# --- kernels ----------------------------------------------------------------------------------------------------


def _positive(kernel: np.ndarray) -> bool:
    return float(np.linalg.eigvalsh((kernel + kernel.T) / 2)[0]) > -1e-6 * max(float(np.trace(kernel)), 1e-30)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(0, 9), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_intersections_and_chi_squares_are_those_of_slow_loops(rows, second_rows, width, seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.random((n, width), dtype=np.float32) * (rng.random((n, width)) < 0.6) for n in (rows, second_rows))
    a, b = a.astype(np.float32), b.astype(np.float32)
    slow = np.array([[np.minimum(x, y).sum(dtype=float) for y in b] for x in a]).reshape(rows, second_rows)
    np.testing.assert_allclose(intersections(a, b), slow, rtol=1e-5)
    gaps = [[sum((p - q) ** 2 / (p + q) for p, q in zip(x, y, strict=True) if p + q) for y in b] for x in a]
    np.testing.assert_allclose(chi_squares(a, b), np.array(gaps).reshape(rows, second_rows), rtol=1e-4, atol=1e-6)
    full_kernel = intersections(a)
    np.testing.assert_allclose(full_kernel, intersections(a, a), rtol=1e-6)
    assert (full_kernel == full_kernel.T).all() and _positive(full_kernel)


def test_wide_rows_are_walked_in_strips():
    a, b = RNG.random((5, 5000), dtype=np.float32), RNG.random((6, 5000), dtype=np.float32)
    slow = np.array([[np.minimum(x, y).sum(dtype=float) for y in b] for x in a])
    np.testing.assert_allclose(intersections(a, b), slow, rtol=1e-5)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_pyramid_is_the_formula(histograms, words, levels, power):
    def slow(i, j):
        total = 0.0
        for name in SIZES:
            at = [np.minimum(h[i], h[j]).sum() for h in (histograms.level(name, level) for level in range(levels))]
            last = levels - 1
            total += at[last] + sum((at[level] - at[level + 1]) / 2 ** (last - level) for level in range(last))
        return (total / 3) ** power

    kernel = FittedPyramid(words, levels, power)(histograms)
    expected = [[slow(i, j) for j in range(len(histograms))] for i in range(len(histograms))]
    np.testing.assert_allclose(kernel, expected, rtol=1e-5)
    np.testing.assert_allclose(np.diagonal(kernel), 1, rtol=1e-5)
    assert _positive(kernel)


def test_intersections_are_the_same_in_any_order():
    """Bit for bit: whole numbers are added up, so that vector lanes and processors do not matter."""
    rng = np.random.default_rng(0)
    a, b = (rng.gamma(0.3, size=(rows, 5000)).astype(np.float32) for rows in (9, 6))
    order = rng.permutation(5000)
    np.testing.assert_array_equal(intersections(a, b), intersections(a[:, order], b[:, order]))
    exact = np.minimum(a[:, None].astype(float), b[None]).sum(axis=2)
    np.testing.assert_allclose(intersections(a, b), exact, rtol=1e-6)  # bins are held as whole numbers


def test_weights_of_levels_add_up_to_one():
    assert [sum(pyramid_weights(levels)) for levels in (1, 2, 3)] == [1, 1, 1]


def test_a_pyramid_takes_pictures_and_histograms_and_comes_back_from_its_state(pictures, histograms, words):
    kernel = Pyramid(words=SIZES, points=50, images=5).fit(pictures)
    np.testing.assert_array_equal(kernel.vocabulary.words["sift"], words.words["sift"])
    np.testing.assert_array_equal(kernel(pictures[:2], pictures), kernel(histograms)[:2])
    restored = FittedPyramid.from_state(kernel.state())
    np.testing.assert_array_equal(restored(pictures[:2], histograms), kernel(histograms)[:2])
    with pytest.raises(LimnerError, match="1, 2 or 3"):
        Pyramid(levels=4)
    with pytest.raises(LimnerError, match="power"):
        Pyramid(power=0)
    with pytest.raises(UnknownName, match="of these histograms"):
        kernel(WordHistograms(["a"], {"colour": np.ones((1, 16, 6), np.uint16)}))


@pytest.mark.parametrize("kind", ["linear", "rbf", "chi2"])
def test_kernels_of_features(kind):
    rows = RNG.random((12, 5), dtype=np.float32)
    kernel = Features(kind).fit(rows)
    kernel_values = kernel(rows)
    for i, j in ((0, 1), (3, 3), (7, 2)):
        x, y = rows[i].astype(float), rows[j].astype(float)
        slow = {
            "linear": x @ y / (np.linalg.norm(x) * np.linalg.norm(y)),
            "rbf": np.exp(-kernel.gamma * ((x - y) ** 2).sum()),
            "chi2": np.exp(-kernel.gamma * ((x - y) ** 2 / (x + y)).sum()),
        }
        assert kernel_values[i, j] == pytest.approx(slow[kind], rel=1e-5)
    assert _positive(kernel_values)
    embeddings = Embeddings([f"e{i}" for i in range(12)], rows)
    np.testing.assert_allclose(kernel(embeddings, rows[:3]), kernel_values[:, :3], rtol=1e-5)
    assert FittedFeatures.from_state(kernel.state()) == kernel


def test_features_that_no_kernel_can_take(pictures):
    with pytest.raises(UnknownName, match="rbf"):
        Features("rbff")
    with pytest.raises(LimnerError, match="at least 0"):
        Features("chi2").fit(np.array([[1.0, -1.0]]))
    with pytest.raises(LimnerError, match="all equal"):
        Features("rbf").fit(np.ones((3, 2)))
    with pytest.raises(LimnerError, match="one row of numbers"):
        FittedFeatures("linear")(np.ones(3))
    with pytest.raises(LimnerError, match="without features"):
        FittedFeatures("linear")(pictures)
    with pytest.raises(LimnerError, match="gamma"):
        Features("rbf", gamma=0.0)
