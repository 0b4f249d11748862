"""Assignment against every permutation, against scipy, and against itself in other clothes."""

import numpy as np
import pytest
import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linear_sum_assignment

from limner import Embeddings, LimnerError, Scores
from limner.match import _dense_solver, _edge_lists
from limner.match.assignment import bijective

METHODS = ["auto", "sparse", "dense"]
WORTHS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1, 1, width=32))
MATRICES = arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=WORTHS)
HOLED = arrays.arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.one_of(WORTHS, st.just(-np.inf))
)


def scores_of(matrix):
    return Scores.from_matrix(matrix, [f"q{i}" for i in range(len(matrix))], [f"c{j}" for j in range(matrix.shape[1])])


def rounds_of(ranking, n):
    """The candidates of each round, read back from lists without gaps: only where every round serves every query."""
    assert len(ranking) == n
    return ranking.indices.T


def check_rounds(matrix, ranking):
    """Each round is the best that the rounds before it left."""
    left = matrix.copy()
    for r, items in enumerate(rounds_of(ranking, len(matrix))):
        pairs, total = slow.best_round(left)
        assert pairs == len(matrix) == ranking.assigned[r]
        assert len(set(items)) == len(items)
        assert left[np.arange(len(left)), items].sum() == pytest.approx(total, abs=1e-9)
        assert ranking.totals[r] == pytest.approx(total, abs=1e-9)
        left[np.arange(len(left)), items] = -np.inf


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60)
@given(MATRICES, st.integers(1, 3))
def test_every_round_is_the_best_of_all_permutations(method, matrix, candidates):
    square = matrix[: min(matrix.shape), : min(matrix.shape)]
    ranked = bijective(scores_of(square), rounds=min(3, len(square)), method=method, candidates=candidates)
    check_rounds(square, ranked)
    assert ranked.exact


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=100)
@given(HOLED, st.integers(1, 4), st.integers(1, 3))
def test_any_shape_and_forbidden_pairs(method, matrix, rounds, candidates):
    """Totals and numbers of pairs per round, whatever the shape, with pairs that must not be."""
    ranked = bijective(scores_of(matrix), rounds=rounds, method=method, candidates=candidates)
    pairs, total = slow.best_round(matrix)
    if pairs == 0:
        assert ranked.assigned == () and ranked.depth == 0
        return
    assert ranked.assigned[0] == pairs and ranked.totals[0] == pytest.approx(total, abs=1e-9)
    given_away = [(i, j) for i, row in enumerate(ranked.indices) for j in row if j >= 0]
    assert len(set(given_away)) == len(given_away) == sum(ranked.assigned)
    assert all(np.isfinite(matrix[i, j]) for i, j in given_away)
    assert sum(matrix[i, j] for i, j in given_away) == pytest.approx(sum(ranked.totals), abs=1e-8)
    assert ranked.exact


def test_later_rounds_of_any_shape_are_the_best_of_what_is_left():
    """A step by step oracle with scipy, for more and for fewer candidates than queries."""
    rng = np.random.default_rng(0)
    for n, m in ((7, 12), (12, 7), (9, 9)):
        matrix = rng.standard_normal((n, m))
        ranked = bijective(scores_of(matrix), rounds=4, candidates=3)
        costs = -matrix
        for total, assigned in zip(ranked.totals, ranked.assigned, strict=True):
            rows, columns = linear_sum_assignment(costs)
            assert total == pytest.approx(-costs[rows, columns].sum()) and assigned == min(n, m)
            costs[rows, columns] = 1e6  # dearer than any pair, and never needed in four rounds of this size
        assert ranked.exact and ranked.solver == "limner"


def test_a_query_left_out_goes_on_with_the_next_round():
    """Three queries for one candidate: each gets it in a round of its own, the best first."""
    ranked = bijective(scores_of(np.array([[1.0], [3.0], [2.0]])), rounds=5)
    assert ranked.totals == (3.0, 2.0, 1.0) and ranked.assigned == (1, 1, 1)
    assert ranked.indices.tolist() == [[0], [0], [0]] and ranked.depth == 1


def test_lists_may_end_up_shorter():
    """Two queries, three candidates: after two rounds both may be left with the same third one."""
    matrix = np.array([[3.0, 2.9, 0.0], [2.9, 3.0, 0.0]])
    ranked = bijective(scores_of(matrix), rounds=3)
    assert ranked.assigned == (2, 2, 1)
    assert sorted(ranked.lengths.tolist()) == [2, 3]
    assert (-1 in ranked.indices) and ranked.truncated
    assert bijective(scores_of(matrix), rounds=9).lengths.tolist() == [3, 3]


def clustered(n, m, seed, d=8):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(2, n // 10), d))
    sides = [centres[rng.integers(len(centres), size=size)] + 0.7 * rng.standard_normal((size, d)) for size in (n, m)]
    return Scores.from_embeddings(*(Embeddings(range(size), side) for size, side in zip((n, m), sides, strict=True)))


@pytest.mark.parametrize("shape", [(300, 300), (300, 700), (700, 300)])
@pytest.mark.parametrize("candidates", [2, 20])
def test_short_lists_come_to_the_optimum_of_the_whole_matrix(shape, candidates):
    scores = clustered(*shape, seed=1)
    ranked = bijective(scores, rounds=3, candidates=candidates, method="sparse")
    dense = bijective(scores, rounds=3, method="dense")
    assert ranked.totals == pytest.approx(dense.totals, rel=1e-6)
    assert ranked.exact and ranked.gaps == (0.0, 0.0, 0.0)


def test_without_proof_the_gap_says_what_may_be_missing():
    scores = clustered(400, 400, seed=2)
    fast = bijective(scores, rounds=2, candidates=5, prove=False)
    proven = bijective(scores, rounds=2, candidates=5)
    assert not fast.exact and proven.exact
    assert fast.totals[0] <= proven.totals[0] + 1e-9 <= fast.bounds[0] + 2e-9


def test_hubs_that_everybody_wants_widen_the_lists():
    """All lists name the same few candidates: most queries find theirs only after widening."""
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((200, 200)) + 20 * (np.arange(200) < 4)
    ranked = bijective(scores_of(matrix), rounds=2, candidates=4, method="sparse")
    rows, columns = linear_sum_assignment(matrix, maximize=True)
    assert ranked.totals[0] == pytest.approx(matrix[rows, columns].sum()) and ranked.exact


def test_lists_that_grow_too_long_turn_dense():
    tied = scores_of(np.ones((1100, 1100), dtype=np.float32))  # all equal: every list holds the same first candidates
    ranked = bijective(tied, rounds=1, candidates=10)
    assert ranked.solver in ("lapx", "scipy") and ranked.totals == (1100.0,)
    assert bijective(tied, rounds=1, candidates=10, method="sparse").totals == (1100.0,)


def test_without_lapx_scipy_solves(monkeypatch):
    monkeypatch.setattr(_dense_solver, "library", lambda shape: "scipy")
    matrix = np.random.default_rng(4).standard_normal((30, 30))
    assert bijective(scores_of(matrix), method="dense").solver == "scipy"
    assert bijective(scores_of(matrix), method="dense").totals == pytest.approx(bijective(scores_of(matrix)).totals)


def test_corrected_scores_are_assigned_as_they_are_in_both_shapes():
    """A correction is not the same seen from the other side: fewer candidates must not transpose it."""
    for shape in ((60, 90), (90, 60)):
        corrected = clustered(*shape, seed=5).correct("csls")
        rows, columns = linear_sum_assignment(corrected.matrix(), maximize=True)
        ranked = bijective(corrected, rounds=1, candidates=5)
        assert ranked.totals[0] == pytest.approx(corrected.matrix()[rows, columns].sum(dtype=np.float64), rel=1e-6)


def test_lists_are_the_head_of_a_stable_sort_along_rows_and_columns():
    for shape in ((500, 800), (800, 500)):
        scores = clustered(*shape, seed=6)
        market, request = _edge_lists.Market(scores), _edge_lists.EdgeRequest(np.zeros(800), np.full(500, -np.inf))
        (lists,) = market.find([request], 7)
        matrix = scores.matrix() if shape[0] < shape[1] else scores.matrix().T
        assert np.array_equal(lists.items, np.argsort(-matrix, axis=1, kind="stable")[:, :7])


def test_progress_goes_on_to_the_end():
    calls = []
    bijective(clustered(600, 600, seed=7), rounds=3, candidates=3, progress=lambda *steps: calls.append(steps))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert all(done <= total for done, total in calls) and calls[-1][0] == calls[-1][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "0 rounds and 100 candidates: expected at least 1"),
        ({"candidates": 0}, "5 rounds and 0 candidates"),
        ({"method": "spars"}, "did you mean 'sparse'"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(LimnerError, match=message):
        bijective(scores_of(np.ones((2, 2))), **options)


@pytest.mark.parametrize("method", METHODS)
def test_infinite_scores_are_refused(method):
    with pytest.raises(LimnerError, match=r"\+inf"):
        bijective(scores_of(np.array([[np.inf, 1.0], [0.0, 1.0]])), method=method)


OFFSETS = [0.0, 1e6, 1e9, 1e12, -1e12, 1e15]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("offset", OFFSETS)
def test_what_is_called_exact_is_the_best_at_any_offset(method, offset):
    """Whole numbers on top of a large one: a tolerance relative to the size of the scores would hide a loss of 1."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        n, m = rng.integers(5, 8, 2)
        plain = rng.integers(0, rng.choice([3, 10, 100]), (n, m)).astype(np.float64)
        rows, columns = linear_sum_assignment(plain, maximize=True)
        best = plain[rows, columns].sum()
        for candidates in (1, 2):
            ranked = bijective(scores_of(plain + offset), rounds=1, method=method, candidates=candidates)
            total = sum(plain[i, j] for i, j in enumerate(ranked.indices[:, 0]) if j >= 0)
            assert ranked.exact and total == best


@pytest.mark.parametrize("offset", OFFSETS)
def test_without_proof_the_gap_is_true_at_any_offset(offset):
    rng = np.random.default_rng(9)
    for _ in range(60):
        plain = rng.integers(0, 10, (7, 7)).astype(np.float64)
        rows, columns = linear_sum_assignment(plain, maximize=True)
        ranked = bijective(scores_of(plain + offset), rounds=1, candidates=2, prove=False)
        lost = plain[rows, columns].sum() - sum(plain[i, j] for i, j in enumerate(ranked.indices[:, 0]))
        assert lost <= ranked.gaps[0] and (lost == 0 or not ranked.exact)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1.0, 1e17, 1e150, -1e150])
def test_who_goes_without_is_said_at_any_size(method, size):
    ranked = bijective(scores_of(np.array([[-np.inf, -np.inf], [-np.inf, size]])), rounds=1, method=method)
    assert ranked.assigned == (1,) and ranked["q1"] == ["c1"]


def test_scores_too_far_apart_to_say_who_goes_without_are_refused():
    matrix = np.array([[1e308, -np.inf], [-1e308, -np.inf]])
    for method in METHODS:
        with pytest.raises(LimnerError, match="too far apart"):
            bijective(scores_of(matrix), rounds=1, method=method)


def low_precision_scores(seed):
    """A float32 matrix of any shape: near ties, a large offset, many magnitudes, or forbidden pairs."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    m = n if rng.random() < 0.5 else int(rng.integers(2, 40))
    matrix = rng.standard_normal((n, m))
    kind = seed % 4
    if kind == 0:
        matrix = matrix.round(1)
    elif kind == 1:
        matrix = 1 + matrix / 1000
    elif kind == 2:
        matrix = matrix * 10.0 ** rng.integers(-6, 7, size=(n, m))
    else:
        matrix[rng.random((n, m)) < 0.1] = -np.inf
    return matrix.astype(np.float32)


@pytest.mark.parametrize("library", ["lapx", "scipy"])
def test_float32_totals_are_the_best_in_float64(library, monkeypatch):
    """Totals said to be proven are those that scipy finds in float64, in the first round and in the second."""
    monkeypatch.setattr(_dense_solver, "library", lambda shape: library)
    checked = 0
    for seed in range(600):
        matrix = low_precision_scores(seed)
        ranked = bijective(scores_of(matrix), rounds=2, method="dense")
        left = matrix.astype(np.float64)
        for r, items in enumerate(ranked.indices.T if ranked.assigned == (len(matrix),) * 2 else ()):
            rows, columns = linear_sum_assignment(left, maximize=True)
            largest = np.abs(left[np.isfinite(left)]).max()
            assert ranked.exact and ranked.totals[r] == pytest.approx(left[rows, columns].sum(), abs=1e-13 * largest)
            left[np.arange(len(left)), items] = -np.inf
            checked += 1
    assert checked > 500
