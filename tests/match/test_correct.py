"""Corrections against the plain formulas on a whole matrix in double precision."""

import numpy as np
import pytest
from scipy.special import logsumexp

from limner import Embeddings, Hubs, LimnerError, Scores
from limner.match import CORRECTIONS, correction
from limner.scores.correction import Statistics


def vectors(n, seed, d=12):
    return Embeddings([f"{seed}-{k}" for k in range(n)], np.random.default_rng(seed).standard_normal((n, d)) + 0.4)


@pytest.fixture(scope="module")
def scores():
    return Scores.from_embeddings(vectors(530, 1), vectors(1100, 2))


def highest(matrix, k, axis):
    return np.sort(matrix, axis=axis).take(range(-k, 0), axis=axis).mean(axis=axis, keepdims=True)


def log_sum_of_other_rows(matrix):
    """log sum over all rows but the own one, for every cell: those above it and those below, nothing subtracted."""
    high = matrix.max(axis=0)
    shares = np.pad(np.exp(matrix - high), ((1, 1), (0, 0)))
    sums_above, sums_below = np.cumsum(shares, axis=0)[:-2], np.cumsum(shares[::-1], axis=0)[::-1][2:]
    return np.log(sums_above + sums_below) + high


def test_without_own_leaves_one_row_out():
    matrix = np.random.default_rng(1).standard_normal((9, 4))
    expected = np.stack([logsumexp(np.delete(matrix, i, axis=0), axis=0) for i in range(9)])
    np.testing.assert_allclose(log_sum_of_other_rows(matrix), expected, atol=1e-13)


def dynamic(s, bank, beta):
    active = np.zeros(s.shape[1], dtype=bool)
    active[bank.argmax(axis=1)] = True
    return np.where(active[s.argmax(axis=1)][:, None], beta * s - logsumexp(beta * bank, axis=0), s)


def balanced(s, bank, beta, rounds):
    v = np.zeros(s.shape[1])
    for _ in range(rounds):
        u = -logsumexp(beta * bank + v, axis=1)
        v = -logsumexp(beta * bank + u[:, None], axis=0)
    return beta * s + v - logsumexp(beta * s + v, axis=1)[:, None]


PLAIN = {
    "csls": lambda s, bank: 2 * s - highest(bank, 10, 0) - highest(s, 10, 1),
    "inverted_softmax": lambda s, bank: (
        30 * s - (log_sum_of_other_rows(30 * s) if bank is s else logsumexp(30 * bank, axis=0))
    ),
    "dual_softmax": lambda s, bank: 60 * s - logsumexp(30 * bank, axis=0) - logsumexp(30 * s, axis=1)[:, None],
    "dynamic_inverted_softmax": lambda s, bank: dynamic(s, bank, 20),
    "nnn": lambda s, bank: s - 0.75 * highest(bank, 16, 0),
    "centred": lambda s, bank: s - bank.mean(axis=0),
    "sinkhorn": lambda s, bank: balanced(s, bank, 30, 5),
}


def test_every_correction_has_its_formula():
    assert set(PLAIN) == set(CORRECTIONS)


@pytest.mark.parametrize("name", PLAIN)
def test_the_queries_as_their_own_bank(scores, name):
    plain = scores.matrix().astype(np.float64)
    assert np.abs(scores.correct(name).matrix() - PLAIN[name](plain, plain)).max() < 3e-5


@pytest.mark.parametrize("name", PLAIN)
def test_another_bank(scores, name):
    train = vectors(300, 3)
    bank = Scores.from_embeddings(train, scores.candidate_vectors)
    expected = PLAIN[name](scores.matrix().astype(np.float64), bank.matrix().astype(np.float64))
    for source in (train, bank, (train, vectors(50, 4))):
        assert np.abs(scores.correct(name, bank=source).matrix() - expected).max() < 3e-5


@pytest.mark.parametrize("name", PLAIN)
def test_one_live_query_with_saved_statistics(scores, name, tmp_path):
    corrected = scores.correct(name, bank=vectors(300, 3))
    path = corrected.statistics.save(tmp_path / "bank.npz")
    live = Scores.from_embeddings(scores.query_vectors.subset([scores.queries[7]]), scores.candidate_vectors)
    assert np.abs(live.correct(str(path)).matrix()[0] - corrected.matrix()[7]).max() < 1e-5
    assert Statistics.load(path).correction == correction(name)


@pytest.mark.parametrize("name", PLAIN)
def test_threads_and_direction(scores, name):
    corrected = scores.correct(name)
    one, threaded = corrected.top(5, workers=1), scores.correct(name).top(5, workers=4)
    assert np.array_equal(one.indices, threaded.indices) and np.array_equal(one.scores, threaded.scores)
    turned = scores.matrix().astype(np.float64).T
    assert np.abs(corrected.T.matrix() - PLAIN[name](turned, turned)).max() < 3e-5


def test_own_term_is_taken_out_without_losing_digits():
    """Each query is nearly all of its own candidate's sum: subtracting it from the whole would leave noise."""
    matrix = np.random.default_rng(0).uniform(0, 0.1, (300, 300)) + 0.9 * np.eye(300)
    corrected = Scores.from_matrix(matrix, range(300), range(300)).correct("inverted_softmax", beta=40).matrix()
    assert np.abs(corrected - (40 * matrix - log_sum_of_other_rows(40 * matrix))).max() < 1e-4


def test_composed(scores):
    first = scores.correct("nnn").matrix().astype(np.float64)
    assert np.abs(scores.correct("nnn").correct("csls").matrix() - PLAIN["csls"](first, first)).max() < 1e-5


def test_centred_scores_rank_as_centred_vectors(scores):
    """The mean of its own side is subtracted from every vector; with a bank, the queries' mean is that of the bank."""
    queries, candidates = (np.float64(np.asarray(v)) for v in (scores.query_vectors, scores.candidate_vectors))
    queries, candidates = (v / np.linalg.norm(v, axis=1)[:, None] for v in (queries, candidates))
    bank = np.float64(np.asarray(vectors(300, 3)))
    bank /= np.linalg.norm(bank, axis=1)[:, None]
    for source, mean in ((None, queries.mean(axis=0)), (vectors(300, 3), bank.mean(axis=0))):
        expected = (queries - mean) @ (candidates - candidates.mean(axis=0)).T
        corrected = scores.correct("centred", bank=source).matrix()
        by_row = corrected - expected
        assert np.abs(by_row - by_row.mean(axis=1, keepdims=True)).max() < 1e-5


def test_the_given_matrix_is_not_changed():
    matrix = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    before = matrix.copy()
    for name in CORRECTIONS:
        Scores.from_matrix(matrix, range(20), range(30)).correct(
            name, **({"k": 3} if name in ("csls", "nnn") else {})
        ).top(3)
    assert np.array_equal(matrix, before)


def test_hubs_get_fewer():
    rng = np.random.default_rng(5)
    centre = rng.standard_normal(10)
    spread = Embeddings(range(400), rng.standard_normal((400, 10)) + 2 * centre / np.linalg.norm(centre))
    scores = Scores.from_embeddings(spread, Embeddings(range(400), rng.standard_normal((400, 10))))
    before = Hubs.of(scores.top(10)).skewness
    for name in ("csls", "inverted_softmax", "dual_softmax", "nnn", "centred", "sinkhorn"):
        assert Hubs.of(scores.correct(name).top(10)).skewness < before, name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.correct("clss"), "unknown correction 'clss': did you mean 'csls'"),
        (lambda s: s.correct("csls", beta=3), "unknown option 'beta' of correction 'csls'"),
        (lambda s: s.correct("csls", k=0), "csls: option k is 0, expected a whole number above 0"),
        (lambda s: s.correct("csls", k=2.5), "correction 'csls': option k=2.5 is float: expected int"),
        (lambda s: s.correct("inverted_softmax", beta=np.inf), "option beta is inf, expected a number above 0"),
        (lambda s: s.correct(correction("csls"), k=3), "give them to the correction itself"),
        (lambda s: s.correct("nowhere.npz"), "no saved statistics"),
        (lambda s: s.correct("csls", bank=vectors(300, 3)).T, "only one direction"),
        (lambda s: s.correct("csls", bank=vectors(1, 3)).statistics, "a bank of 1 query"),
        (lambda s: s.correct("csls", bank=s.T).statistics, "other candidates"),
    ],
)
def test_refused(scores, make, message):
    with pytest.raises(LimnerError, match=message):
        make(scores)


def test_statistics_of_other_candidates_are_refused(scores, tmp_path):
    path = scores.correct("nnn").statistics.save(tmp_path / "bank.npz")
    with pytest.raises(LimnerError, match="gather them again"):
        scores.T.correct(str(path)).top(1)
    (tmp_path / "odd.npz").write_bytes(b"odd")
    with pytest.raises(LimnerError, match="is not a valid npz file of statistics"):
        scores.correct(str(tmp_path / "odd.npz"))
