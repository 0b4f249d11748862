"""KCCA beside the generalised eigenproblem solved densely, and choosing settings beside plain evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

import limner
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.evaluation.evaluate import evaluate
from limner.scores import Scores
from limner.systems.classic.kcca import KernelPair, Spectrum, centred, incomplete_cholesky, spectrum
from limner.systems.classic.selection import DEPTHS, Dev, Setting, Trial, best, fifteen, sizes, trials


def _kernel(rng, items: int, dimensions: int, *, unit: bool = False) -> np.ndarray:
    rows = rng.normal(size=(items, dimensions))
    if unit:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


def _dense(kx: np.ndarray, ky: np.ndarray, kappa: float) -> np.ndarray:
    """Correlations by the generalised eigenproblem of both sides at once, with a ridge so that B is invertible."""
    a, b = centred(kx), centred(ky)
    n, tiny = len(a), 1e-9 * np.eye(len(a))
    zero = np.zeros((n, n))
    left = np.block([[zero, a @ b], [b @ a, zero]])
    right = np.block([[a @ a + kappa * a + tiny, zero], [zero, b @ b + kappa * b + tiny]])
    return np.sort(eigh(left, right, eigvals_only=True))[::-1][:n]


@settings(max_examples=25, deadline=None)
@given(st.integers(4, 14), st.integers(1, 16), st.integers(1, 16), st.floats(0.05, 5), st.integers(0, 2**32 - 1))
def test_correlations_are_those_of_the_dense_problem(items, dx, dy, kappa, seed):
    rng = np.random.default_rng(seed)
    kx, ky = _kernel(rng, items, dx), _kernel(rng, items, dy)
    correlations = KernelPair(spectrum(kx), spectrum(ky)).solve(kappa).correlations
    expected = _dense(kx, ky, kappa)[: len(correlations)]
    np.testing.assert_allclose(correlations, expected, atol=2e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 14), st.floats(0.05, 5), st.sampled_from([1.0, 3.0, 15.0]), st.integers(0, 2**32 - 1))
def test_projections_solve_the_equation(items, kappa, diagonal, seed):
    """(K_x + kappa I)^-1 K_y (K_y + kappa I)^-1 K_x a = lambda^2 a, also where the diagonal is multiplied."""
    rng = np.random.default_rng(seed)
    kx, ky = _kernel(rng, items, items + 3), _kernel(rng, items, items + 3, unit=True)
    pair = KernelPair(spectrum(kx), spectrum(ky))
    solution = pair.solve(kappa, diagonal=diagonal)
    a = pair.x.vectors[:, : len(solution.x)] @ solution.x
    b = pair.y.vectors[:, : len(solution.y)] @ solution.y
    x, y = centred(kx), centred(ky + (diagonal - 1) * np.diag(np.diagonal(ky)))
    eye = np.eye(items)
    turned = np.linalg.solve(x + kappa * eye, y @ np.linalg.solve(y + kappa * eye, x @ a))
    scale = np.abs(a).max(axis=0) * np.linalg.cond(x + kappa * eye)
    assert (np.abs(turned - a * solution.correlations**2).max(axis=0) <= 1e-8 * scale).all()
    lengths = np.einsum("ij,ij->j", a, (x @ x + kappa * x) @ a), np.einsum("ij,ij->j", b, (y @ y + kappa * y) @ b)
    np.testing.assert_allclose(lengths, 1, rtol=1e-6)
    np.testing.assert_allclose(np.einsum("ij,ij->j", a, x @ y @ b), solution.correlations, rtol=1e-6, atol=1e-9)


def test_texts_may_have_a_ridge_of_their_own():
    rng = np.random.default_rng(6)
    kx, ky = _kernel(rng, 12, 15), _kernel(rng, 12, 15)
    pair = KernelPair(spectrum(kx), spectrum(ky))
    solution = pair.solve(0.3, text_kappa=4.0)
    x, y, eye = centred(kx), centred(ky), np.eye(12)
    a = pair.x.vectors[:, : len(solution.x)] @ solution.x
    turned = np.linalg.solve(x + 0.3 * eye, y @ np.linalg.solve(y + 4.0 * eye, x @ a))
    np.testing.assert_allclose(turned, a * solution.correlations**2, atol=1e-8)
    assert Setting(0.3, 5) == Setting(0.3, 5, text_kappa=0.3) != Setting(0.3, 5, text_kappa=4.0)


def test_linear_kernels_give_the_canonical_correlations_of_statsmodels():
    multivariate = pytest.importorskip("statsmodels.multivariate.cancorr")
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(60, 2))
    x = np.hstack([shared, rng.normal(size=(60, 2))]) @ rng.normal(size=(4, 4))
    y = np.hstack([shared + 0.5 * rng.normal(size=(60, 2)), rng.normal(size=(60, 1))]) @ rng.normal(size=(3, 3))
    correlations = KernelPair(spectrum(x @ x.T), spectrum(y @ y.T)).solve(1e-9).correlations
    np.testing.assert_allclose(correlations, multivariate.CanCorr(y, x).cancorr, atol=1e-6)


def test_a_spectrum_is_the_centred_kernel_and_leaves_out_the_constant():
    kernel = _kernel(np.random.default_rng(0), 9, 4)
    decomposition = spectrum(kernel)
    np.testing.assert_allclose(
        decomposition.vectors * decomposition.values @ decomposition.vectors.T, centred(kernel), atol=1e-9
    )
    np.testing.assert_allclose(decomposition.vectors.T @ decomposition.vectors, np.eye(8), atol=1e-9)
    np.testing.assert_allclose(decomposition.vectors.sum(axis=0), 0, atol=1e-8)
    assert (np.diff(decomposition.values) <= 0).all()


@pytest.mark.parametrize("method", ["exact", "cholesky"])
def test_coordinates_of_training_rows_give_back_the_kernel(method):
    kernel = _kernel(np.random.default_rng(1), 12, 5)
    decomposition = spectrum(kernel, method=method)
    coordinates = decomposition.coordinates(kernel)
    significant = decomposition.values > 1e-8 * decomposition.values[0]
    np.testing.assert_allclose(
        (coordinates[:, significant] / decomposition.values[significant]) @ coordinates[:, significant].T,
        centred(kernel),
        atol=1e-6,
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_incomplete_cholesky_is_complete_at_the_rank_and_never_above_the_kernel(items, dimensions, seed):
    kernel = _kernel(np.random.default_rng(seed), items, dimensions)
    factor, pivots = incomplete_cholesky(kernel, tolerance=1e-10)
    np.testing.assert_allclose(factor @ factor.T, kernel, atol=1e-6 * np.abs(kernel).max())
    assert factor.shape[1] <= min(items, dimensions) and len(set(pivots.tolist())) == len(pivots)
    for rank in range(1, len(pivots)):
        part, _ = incomplete_cholesky(kernel, rank=rank)
        np.testing.assert_allclose(part, factor[:, :rank], atol=1e-9 * np.abs(kernel).max())
        assert (np.diagonal(kernel - part @ part.T) >= -1e-8 * np.abs(kernel).max()).all()


def test_cholesky_of_full_rank_gives_the_exact_solution():
    rng = np.random.default_rng(4)
    kx, ky = _kernel(rng, 30, 6), _kernel(rng, 30, 8)
    exact = KernelPair(spectrum(kx), spectrum(ky)).solve(0.5)
    partial = KernelPair(*(spectrum(k, method="cholesky", tolerance=1e-12) for k in (kx, ky))).solve(0.5)
    np.testing.assert_allclose(partial.correlations[:6], exact.correlations[:6], atol=1e-8)
    fewer = KernelPair(*(spectrum(k, method="cholesky", rank=4) for k in (kx, ky))).solve(0.5)
    assert len(fewer) == 4 and fewer.correlations[0] <= exact.correlations[0] + 1e-8


def test_a_rank_keeps_the_leading_eigenvectors_of_an_exact_decomposition():
    kernel = _kernel(np.random.default_rng(6), 30, 8)
    full_spectrum, part = spectrum(kernel), spectrum(kernel, rank=3)
    np.testing.assert_allclose(part.values, full_spectrum.values[:3])
    np.testing.assert_allclose(part.vectors, full_spectrum.vectors[:, :3])
    np.testing.assert_allclose(spectrum(kernel, rank=99).values, full_spectrum.values)
    with pytest.raises(LimnerError, match="rank=0"):
        spectrum(kernel, rank=0)


def test_single_precision_is_near_double():
    rng = np.random.default_rng(5)
    spectra = [spectrum(_kernel(rng, 60, 70)) for _ in range(2)]
    double, single = (KernelPair(*spectra, precision=precision).solve(0.5) for precision in ("double", "single"))
    assert single.x.dtype == np.float32
    np.testing.assert_allclose(single.correlations, double.correlations[: len(single)], atol=1e-5)


def test_what_cannot_be_solved_is_refused():
    kernel = _kernel(np.random.default_rng(0), 6, 6)
    pair = KernelPair(spectrum(kernel), spectrum(kernel))
    with pytest.raises(LimnerError, match="kappa above 0"):
        pair.solve(0.0)
    with pytest.raises(LimnerError, match="normalised kernel"):
        pair.solve(1.0, diagonal=2.0)
    with pytest.raises(LimnerError, match="all identical"):
        spectrum(np.ones((4, 4)))
    with pytest.raises(LimnerError, match="at least 3"):
        spectrum(np.ones((2, 2)))
    with pytest.raises(LimnerError, match="not finite"):
        spectrum(np.full((4, 4), np.nan))
    with pytest.raises(LimnerError, match="same pairs"):
        KernelPair(spectrum(kernel), spectrum(kernel[:5, :5]))
    with pytest.raises(UnknownName, match="precision"):
        KernelPair(pair.x, pair.y, "half")
    with pytest.raises(UnknownName, match="cholesky"):
        spectrum(kernel, method="choleski")


# --- choosing settings ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dev() -> Collection:
    """Seven images with two texts each, and one text that belongs to two images."""
    pairs = [(f"i{t // 2}", f"t{t}") for t in range(14)] + [("i6", "t0")]
    ids = [f"i{i}" for i in range(7)], [f"t{t}" for t in range(14)]
    judged = Judgements.from_pairs(pairs, queries=ids[0], candidates=ids[1])
    return Collection("dev", Items(ids[0], [None] * 7), Items(ids[1], ["x"] * 14, kind="text"), judged)


@pytest.fixture(scope="module")
def world(dev):
    rng = np.random.default_rng(8)
    pair = KernelPair(*(spectrum(_kernel(rng, 20, 25, unit=True)) for _ in range(2)))
    return pair, rng.normal(size=(7, 20)), rng.normal(size=(14, 20))


def test_trials_are_what_evaluate_measures_at_every_n(dev, world):
    pair, image_rows, text_rows = world
    options = {"kappas": (0.3, 2.0), "diagonals": (1.0, 4.0), "ns": (1, 3, 7, 50), "power": 2.0}
    settings = list(trials(pair, Dev.of(dev), image_rows, text_rows, **options))
    assert len(settings) == 4 and all(len(measured) == 4 for _, measured in settings)
    for directions, measured in settings:
        x = pair.x.coordinates(image_rows)[:, : len(directions.x)] @ directions.x
        y = pair.y.coordinates(text_rows)[:, : len(directions.y)] @ directions.y
        for trial in measured:
            n = trial.setting.n
            assert trial.setting.power == 2.0 and n in (1, 3, 7, len(directions))
            scores = Scores.from_embeddings(
                Embeddings(dev.images.ids, x[:, :n].astype(np.float32)),
                Embeddings(dev.texts.ids, y[:, :n].astype(np.float32)),
            )
            if n == 1:  # cosines in one dimension are all 1 or -1: whoever is equal is a matter of rounding
                continue
            report = evaluate(scores, dev, measures="R@1 R@5 R@10 MedR")
            for task in ("i2t", "t2i"):
                values = [report.value(f"R@{d}", direction=task) for d in DEPTHS]
                assert trial.recalls[task] == pytest.approx(values)
                assert trial.median[task] == pytest.approx(report.value("MedR", direction=task))


def test_equal_scores_share_their_mean_place():
    dev = Dev({"i2t": np.array([0, 1, 1, 3])}, {"i2t": np.array([1, 0, 2])})
    products = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [2.0, 1.0, 4.0]])
    np.testing.assert_array_equal(dev.ranks("i2t", products, np.array([1.0, 1.0, 2.0])), [1.5, 1.5])


def test_ranks_of_columns_are_those_of_the_transposed_products():
    rng = np.random.default_rng(4)
    products = rng.integers(-3, 4, (7, 30)).astype(float)  # with ties
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 4, 30))])
    columns, lengths = rng.integers(0, 7, indptr[-1]), np.array([1.0, 2.0, np.inf, 0.5, 1.0, 3.0, 1.0])
    dev = Dev(dict.fromkeys(("i2t", "t2i"), indptr), dict.fromkeys(("i2t", "t2i"), columns))
    turned = dev.ranks("i2t", np.ascontiguousarray(products.T), lengths)
    np.testing.assert_array_equal(dev.ranks("t2i", products, lengths), turned)


def _trial(n: int, r1: float, r5: float, r10: float, median: float = 3.0) -> Trial:
    recalls = {"i2t": (r1, r5, r10), "t2i": (r10, r5, r1)}
    return Trial(Setting(1.0, n), recalls, {"i2t": median, "t2i": median})


def test_fifteen_different_settings_the_best_of_each_measure():
    trials = [_trial(n, n / 100, (n * 7 % 30) / 30, (n * 11 % 30) / 30) for n in range(30)]
    chosen = fifteen(trials, "i2t")
    assert len(set(chosen)) == 15
    assert {s.n for s in chosen[:5]} == {25, 26, 27, 28, 29}
    left = sorted((t for t in trials if t.setting.n < 25), key=lambda t: -t.recalls["i2t"][1])
    assert {s.n for s in chosen[5:10]} == {t.setting.n for t in left[:5]}
    assert (
        fifteen(trials, "i2t", each=1)[0].n == 29 and fifteen(trials, "t2i", each=1)[0].n == 19
    )  # R@1 of t2i is swapped
    with pytest.raises(UnknownName, match="i2t"):
        fifteen(trials, "i2i")


def test_the_best_setting_has_the_largest_sum_and_among_equals_the_fewest_projections():
    trials = [_trial(50, 0.2, 0.3, 0.4), _trial(20, 0.2, 0.3, 0.4), _trial(10, 0.3, 0.3, 0.2)]
    assert best(trials).n == 20


def test_sizes_go_from_the_least_to_the_most():
    assert sizes()[0] == 10 and sizes()[-1] == 6000 and len(sizes()) == 46
    assert sizes(3, 3) == (3,)
    with pytest.raises(LimnerError, match="smallest first"):
        sizes(10, 5)


def test_a_spectrum_of_a_kernel_that_is_not_positive_is_made_so_by_its_diagonal():
    kernel = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    decomposition: Spectrum = spectrum(kernel)
    assert decomposition.values[-1] < 0
    np.testing.assert_allclose(decomposition.shifted(3.0), decomposition.values + 2.0)


@pytest.mark.parametrize("kernel", ["histogram", "pyramid"])
def test_plain_features_are_refused_by_a_kernel_of_visual_words(kernel):
    world = limner.load("scenes", images=30)
    features = Embeddings(world.images.ids, np.ones((30, 4), np.float32))
    with pytest.raises(LimnerError, match="plain vectors for a kernel of visual words"):
        limner.train(world, "kcca", images=kernel, features=features)
