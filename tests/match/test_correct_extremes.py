"""Corrections where the plain way breaks: forbidden pairs, sharp temperatures, large scores, statistics used again."""

import itertools
from dataclasses import fields

import numpy as np
import pytest
import slow

from limner import Embeddings, LimnerError, Scores
from limner.match import CORRECTIONS, correction
from limner.scores.correction import Statistics

PATHS = ["float32", "float64", "torch"]


def scores_of(matrix, path="float64", *, queries="q", candidates="c"):
    """The same numbers on each path: products of whole rows with unit vectors are exact."""
    ids = [f"{queries}{i}" for i in range(len(matrix))], [f"{candidates}{j}" for j in range(matrix.shape[1])]
    if path == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        from limner.core.ids import Ids
        from limner.scores.device import TorchScores

        sides = torch.tensor(np.float32(matrix)), torch.eye(matrix.shape[1])
        return TorchScores(Ids(ids[0]), Ids(ids[1]), *sides, "dot")
    return Scores.from_matrix(matrix.astype(path), *ids)


def close(actual, expected, path, *, spread=0.0):
    """To rounding: of the result, and of a spread of scores times beta where those are held in between (Sinkhorn)."""
    tolerance = 1e-9 if path == "float64" else 1e-5
    assert np.array_equal(np.isneginf(actual), np.isneginf(expected))
    finite = np.isfinite(expected)
    assert np.isfinite(actual[finite]).all()
    assert (np.abs(actual[finite] - expected[finite]) <= tolerance * (1 + np.abs(expected[finite]) + spread)).all()


def order(matrix):
    return np.argsort(-matrix, axis=1, kind="stable")


# --- sharp temperatures and large scores --------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("beta", [1.0, 30.0, 200.0, 3000.0])
def test_inverted_softmax_does_not_saturate(path, beta):
    """The second highest is far below the highest: the sum over the others, exp(-thousands), must not be lost."""
    rng = np.random.default_rng(0)
    matrix = np.float32(rng.uniform(-1, 1, (60, 50)) + 3 * np.eye(60, 50))
    expected = slow.inverted_softmax(np.float64(matrix), np.float64(matrix), bank_rows=True, beta=beta)
    corrected = scores_of(matrix, path).correct("inverted_softmax", beta=beta).matrix()
    close(corrected, expected, path)
    assert np.array_equal(corrected.argmax(axis=1), expected.argmax(axis=1))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CORRECTIONS)
def test_large_scores_keep_their_differences(path, name):
    """Products of a few hundred to a thousand, as of vectors that are not normalised, at every sharp temperature."""
    rng = np.random.default_rng(1)
    matrix = np.float32(700 + 20 * rng.standard_normal((70, 40)))
    for beta in (30.0, 200.0) if "softmax" in name or name == "sinkhorn" else (None,):
        options = {} if beta is None else {"beta": beta}
        expected = slow.CORRECTIONS[name](np.float64(matrix), np.float64(matrix), bank_rows=True, **options)
        corrected = scores_of(matrix, path).correct(name, **options).matrix()
        close(corrected, expected, path, spread=beta * np.ptp(matrix) if name == "sinkhorn" else 0.0)
        gaps = np.diff(np.sort(expected, axis=1)).min()
        if gaps > 1e-2:
            assert np.array_equal(order(corrected), order(expected))


@pytest.mark.parametrize("path", ["float32", "torch"])
def test_equal_columns_stay_equal_wherever_they_stand(path):
    matrix = np.float32(np.random.default_rng(2).standard_normal((30, 300)))
    matrix[:, 64:128] *= 0.01  # neighbours of another size: whether a piece is walked the quick way must not matter
    twins = [3, 70, 150, 299]
    matrix[:, twins] = matrix[:, [3]]
    for name in CORRECTIONS:
        corrected = scores_of(matrix, path).correct(name).matrix()
        assert all(np.array_equal(corrected[:, 3], corrected[:, t]) for t in twins), name


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CORRECTIONS)
def test_scores_that_cannot_be_weighed_are_refused(path, name):
    matrix = np.zeros((5, 4))
    matrix[3, 2] = np.inf
    if path != "torch":
        with pytest.raises(LimnerError, match=r"row 3, column 2.*\+inf"):
            scores_of(matrix, path).correct(name).matrix()
        with pytest.raises(LimnerError, match=r"row 3, column 2.*\+inf"):
            scores_of(matrix, path).correct(name, bank=scores_of(np.ones((6, 4)), path, queries="b")).matrix()
    matrix[3, 2] = 3e38 if path != "float64" else 1.7e308
    with pytest.raises(LimnerError, match=r"row 3, column 2.*overflow"):
        scores_of(matrix, path).correct(name).matrix()


EXTREMES = (5e-324, 1e-45, 1e-30, 1e-3, 0.1, 0.24, 1.0, 1e10, 1e30, 1e38, 1.7e308)


@pytest.mark.parametrize("path", ["float32", "float64"])
@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("special", [None, 0.0, np.inf, -np.inf, np.nan, 1e37])
def test_every_option_gives_numbers_or_is_refused(path, name, special):
    """At any weight a score is a number, excluded where it was, or the correction refuses it."""
    matrix = np.random.default_rng(3).standard_normal((6, 5))
    if special is not None:
        matrix[1:4, 2] = special
    for option, number in itertools.product((field.name for field in fields(CORRECTIONS[name])), EXTREMES):
        for without_bank in (True, False):
            try:
                bank = {} if without_bank else {"bank": scores_of(matrix, path, queries="b")}
                corrected = scores_of(matrix, path).correct(name, **{option: number}, **bank).matrix()
            except LimnerError:
                continue
            assert np.array_equal(np.isfinite(corrected), np.isfinite(matrix)), (option, number, without_bank)
            assert not np.isnan(corrected).any() and not np.isposinf(corrected).any(), (option, number, without_bank)


def test_a_number_beyond_single_precision_names_the_range():
    with pytest.raises(LimnerError, match=r"inverted_softmax: option beta is 1e-45, expected a number from 1e-30 to"):
        correction("inverted_softmax", beta=1e-45)


# --- forbidden pairs ----------------------------------------------------------------------------------------------


def holed(seed, shape=(12, 9), share=0.4):
    rng = np.random.default_rng(seed)
    return np.float32(np.where(rng.random(shape) < share, -np.inf, rng.standard_normal(shape)))


@pytest.mark.parametrize("path", ["float32", "float64"])
@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("share", [0.3, 0.8, 0.95, 1.0])
def test_forbidden_pairs_stay_forbidden_and_count_for_nothing(path, name, share):
    for seed in range(5):
        matrix, bank = holed(seed, share=share), holed(seed + 50, (7, 9), share)
        s, b = np.float64(matrix), np.float64(bank)
        close(scores_of(matrix, path).correct(name).matrix(), slow.CORRECTIONS[name](s, s, bank_rows=True), path)
        corrected = scores_of(matrix, path).correct(name, bank=scores_of(bank, path, queries="b")).matrix()
        close(corrected, slow.CORRECTIONS[name](s, b), path)


@pytest.mark.parametrize("name", ["csls", "nnn"])
def test_a_candidate_that_few_queries_may_have_is_not_everybodys_first(name):
    """Three of 30 queries may have candidate 4: the k best of it are those three, not -inf."""
    matrix = np.random.default_rng(3).uniform(0.3, 0.5, (30, 20))
    matrix[3:, 4] = -np.inf
    corrected = Scores.from_matrix(matrix, range(30), range(20)).correct(name)
    expected = slow.CORRECTIONS[name](matrix, matrix)
    assert np.array_equal(order(corrected.matrix()), order(expected))
    bank = Scores.from_matrix(matrix, range(30), range(20))
    live_matrix = np.random.default_rng(4).uniform(0.3, 0.5, (40, 20))
    live = Scores.from_matrix(live_matrix, range(40), range(20)).correct(name, bank=bank)
    assert (live.matrix().argmax(axis=1) == 4).mean() < 0.5


def test_a_candidate_of_which_the_bank_says_nothing_is_corrected_as_the_average_one():
    bank = np.array([[0.5, 0.1, -np.inf], [0.7, 0.3, -np.inf]])
    live = Scores.from_matrix([[0.5, 0.5, 0.5]], ["q"], "xyz")
    corrected = live.correct("nnn", bank=Scores.from_matrix(bank, "ab", "xyz"), k=2, alpha=1.0).matrix()[0]
    assert corrected.tolist() == pytest.approx([0.5 - 0.6, 0.5 - 0.2, 0.5 - 0.4])


# --- statistics used again ----------------------------------------------------------------------------------------


@pytest.fixture(params=["in memory", "saved"])
def reopen(request, tmp_path):
    def reopened(statistics):
        return statistics if request.param == "in memory" else Statistics.load(statistics.save(tmp_path / "s.npz"))

    return reopened


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", CORRECTIONS)
def test_statistics_of_the_queries_themselves_used_again(path, name, reopen):
    """For other queries every bank row counts; for rows of the bank, in any order, each row's own term is left out."""
    rng = np.random.default_rng(5)
    bank, queries = np.float32(rng.uniform(-1, 1, (30, 25))), np.float32(rng.uniform(-1, 1, (8, 25)))
    b, o = np.float64(bank), np.float64(queries)
    scores, oracle = scores_of(bank, path), slow.CORRECTIONS[name]
    corrected = scores.correct(name)
    statistics = reopen(corrected.statistics)
    assert np.array_equal(scores.correct(statistics).matrix(), corrected.matrix())
    close(scores_of(queries, path, queries="o").correct(statistics).matrix(), oracle(o, b), path)
    close(scores_of(queries, path).correct(statistics).matrix(), oracle(o, b), path)  # ids of the bank, other queries
    some = scores.restrict(queries=["q7", "q3", "q29"])
    close(some.correct(statistics).matrix(), oracle(b, b, bank_rows=True)[[7, 3, 29]], path)
    mixed = np.concatenate([bank[:4], queries])
    expected = np.concatenate([oracle(b, b, bank_rows=True)[:4], oracle(o, b)])
    close(scores_of(mixed, path).correct(statistics).matrix(), expected, path)


def test_statistics_of_another_correction_or_with_other_options_are_refused(reopen, tmp_path):
    matrix = np.random.default_rng(6).standard_normal((20, 15))
    scores = Scores.from_matrix(matrix, range(20), range(15))
    statistics = reopen(scores.correct("csls", k=5).statistics)
    path = statistics.save(tmp_path / "k.npz")
    expected = scores.correct("csls", k=5).matrix()
    for source in (statistics, str(path)):
        assert np.array_equal(scores.correct(source).matrix(), expected)
        assert np.array_equal(scores.correct(source, k=5).matrix(), expected)
    assert np.array_equal(scores.correct("csls", bank=statistics).matrix(), expected)  # options follow the statistics
    assert np.array_equal(scores.correct(correction("csls", k=5), bank=statistics).matrix(), expected)
    with pytest.raises(LimnerError, match="statistics are for csls.*but nnn"):
        scores.correct("nnn", bank=statistics)
    with pytest.raises(LimnerError, match="k=5.*k=10"):
        scores.correct("csls", bank=statistics, k=10)
    with pytest.raises(LimnerError, match="k=5.*k=10"):
        scores.correct(correction("csls"), bank=statistics)
    with pytest.raises(LimnerError, match="k=5.*k=10"):
        scores.correct(str(path), k=10)
    with pytest.raises(LimnerError, match="unknown option 'beta' of correction 'csls'"):
        scores.correct(statistics, beta=10)
    with pytest.raises(LimnerError, match="leave out the bank"):
        scores.correct(statistics, bank=scores)
    from limner.scores.corrected import CorrectedScores

    with pytest.raises(LimnerError, match="statistics are for csls"):
        CorrectedScores(scores, correction("nnn"), statistics)


def test_a_bank_of_other_vectors_with_the_same_ids():
    """Ids shared between bank and queries say nothing: a bank that is given counts whole."""
    rng = np.random.default_rng(7)
    sides = [Embeddings(range(n), rng.standard_normal((n, 6))) for n in (20, 30, 20)]
    scores = Scores.from_embeddings(sides[0], sides[1])
    bank = Scores.from_embeddings(sides[2], sides[1])
    corrected = scores.correct("inverted_softmax", bank=sides[2]).matrix()
    close(corrected, slow.inverted_softmax(np.float64(scores.matrix()), np.float64(bank.matrix())), "float32")
