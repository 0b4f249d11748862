"""Scores: the same numbers whatever the block, thread or position; top-k against a full sort."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from limner import Embeddings, LimnerError, Scores


def vectors(n, d, seed):
    return Embeddings(range(n), np.random.default_rng(seed).standard_normal((n, d)))


@pytest.fixture(scope="module")
def scores():
    return Scores.from_embeddings(vectors(600, 40, 0), vectors(2100, 40, 1))


def test_equal_to_the_plain_product(scores):
    plain = scores.query_vectors.matrix.astype(np.float64) @ scores.candidate_vectors.matrix.astype(np.float64).T
    assert np.abs(scores.matrix() - plain).max() < 1e-6


def test_both_directions_agree(scores):
    assert np.abs(scores.T.matrix() - scores.matrix().T).max() < 1e-6
    assert scores.T.T.shape == scores.shape


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_do_not_matter(scores, workers):
    one = scores.top(7, workers=1)
    threaded = scores.top(7, workers=workers)
    assert np.array_equal(one.indices, threaded.indices) and np.array_equal(one.scores, threaded.scores)


def test_position_does_not_matter(scores):
    """A query alone gets the very scores it gets among others: every product has the same shape."""
    matrix = scores.matrix()
    for start, stop in ((0, 1), (3, 200), (599, 600)):
        alone = Scores.from_embeddings(scores.query_vectors.subset(range(start, stop)), scores.candidate_vectors)
        assert np.array_equal(alone.matrix(), matrix[start:stop])


def test_equal_vectors_get_equal_scores_wherever_they_stand():
    matrix = np.random.default_rng(3).standard_normal((2500, 33))
    matrix[[0, 1023, 1024, 2047, 2499]] = matrix[7]
    block = Scores.from_embeddings(vectors(300, 33, 4), Embeddings(range(2500), matrix)).matrix()
    assert all(np.array_equal(block[:, 7], block[:, c]) for c in (0, 1023, 1024, 2047, 2499))


few_values = arrays.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 30)), elements=st.integers(-3, 3))


@settings(max_examples=40)
@given(few_values, st.integers(1, 35))
def test_top_is_the_head_of_a_stable_sort(matrix, k):
    ranking = Scores.from_matrix(matrix, range(len(matrix)), range(matrix.shape[1])).top(k)
    assert np.array_equal(ranking.indices, np.argsort(-matrix, axis=1, kind="stable")[:, :k])
    assert ranking.truncated == (k < matrix.shape[1])


def test_double_precision_makes_no_ties():
    """Two scores that differ only beyond float32 stay in their order (trec_eval would call them equal)."""
    close = np.array([[0.5, 0.5 + 1e-12]])
    assert Scores.from_matrix(close, ["q"], ["a", "b"]).top(1)["q"] == ["b"]


def test_progress_ends_at_all_rows(scores):
    calls = []
    scores.top(1, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (600, 600) and calls == sorted(calls)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scores.from_embeddings(vectors(2, 3, 0), vectors(2, 4, 0)), "3 dimensions, candidate vectors 4"),
        (
            lambda: Scores.from_embeddings(vectors(2, 3, 0), vectors(2, 3, 0), similarity="cosin"),
            "did you mean 'cosine'",
        ),
        (lambda: Scores.from_matrix(np.ones((2, 3)), "ab", "xy"), r"expected \(2, 2\)"),
        (lambda: Scores.from_matrix(np.array([[1.0, np.nan]]), "a", "xy"), "query 'a' and candidate 'y' is NaN"),
        (lambda: Scores.from_matrix(np.array([["a", "b"]]), "a", "xy"), "expected real numbers"),
        (lambda: Scores.from_matrix(np.ones((1, 2)), "a", "xy").top(0), "at least 1"),
        (lambda: Scores.load("nowhere.npy", "a", "b"), "no similarity matrix"),
    ],
)
def test_refused(make, message):
    with pytest.raises(LimnerError, match=message):
        make()


def test_a_mapped_matrix(tmp_path):
    matrix = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.save(tmp_path / "s.npy", matrix)
    loaded = Scores.load(tmp_path / "s.npy", "abc", "wxyz")
    assert np.array_equal(loaded.matrix(), matrix) and np.array_equal(loaded.T.matrix(), matrix.T)


@pytest.fixture(params=[None, "cpu"], ids=["numpy", "torch"])
def device(request):
    if request.param is not None:
        pytest.importorskip("torch", reason="torch is not installed")
    return request.param


@pytest.mark.parametrize("rows", [[[1e30, 0.0], [1.0, 1.0]], [[3e38, 3e38], [3e38, -3e38]]])
def test_products_that_overflow_are_refused(device, rows):
    queries, candidates = Embeddings("ab", np.array(rows)), Embeddings("xy", np.array([[1e10, 1.0], [1e10, -1e10]]))
    scores = Scores.from_embeddings(queries, candidates, similarity="dot", device=device)
    with pytest.raises(LimnerError, match=r"query 'a' and candidate 'x' .row 0, column 0. overflows.*cosine"):
        scores.top(1)
    cosine = Scores.from_embeddings(queries, candidates, device=device)
    assert np.isfinite(cosine.matrix()).all()


def test_long_vectors_whose_products_fit_are_scored(device):
    """The longest vectors would overflow together, but do not meet: every product is there, and right."""
    queries = Embeddings("ab", np.array([[1e30, 0.0], [0.0, 2.0]]))
    candidates = Embeddings("xy", np.array([[0.0, 1e30], [1.0, 1.0]]))
    scores = Scores.from_embeddings(queries, candidates, similarity="dot", device=device)
    expected = np.float32([[0.0, 1e30], [2e30, 2.0]])
    assert np.allclose(scores.matrix(), expected, rtol=1e-6)


def test_the_limit_of_threads_holds_for_the_blas_of_scipy_too():
    """It is a library of its own; the limit was that of the libraries loaded when it was first asked for."""
    code = (
        "from limner.scores.parallel_blocks import one_thread_per_product\n"
        "with one_thread_per_product(): pass\n"
        "import scipy.linalg\n"
        "from threadpoolctl import threadpool_info\n"
        "with one_thread_per_product():\n"
        "    print({each['num_threads'] for each in threadpool_info() if each['user_api'] == 'blas'})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{1}"
