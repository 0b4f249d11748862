"""The k best assignments against a list of all of them."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linear_sum_assignment

from limner import LimnerError, Scores
from limner.match.murty import best_totals, k_best, k_best_ranking

SIZES = st.sampled_from([(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (2, 4), (4, 2), (3, 5), (5, 3), (1, 6), (6, 1)])
WORTHS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1, 1, width=32))
MATRICES = SIZES.flatmap(lambda shape: arrays.arrays(np.float64, shape, elements=WORTHS))
HOLED = SIZES.flatmap(lambda s: arrays.arrays(np.float64, s, elements=st.one_of(WORTHS, st.just(-np.inf))))


def scores_of(matrix):
    return Scores.from_matrix(matrix, [f"q{i}" for i in range(len(matrix))], [f"c{j}" for j in range(matrix.shape[1])])


def listed(matrix):
    """Every assignment of the whole smaller side that has no forbidden pair: {candidate of each query: total}."""
    n, m = matrix.shape
    if n > m:
        return {_inverse(chosen, n): total for chosen, total in listed(matrix.T).items()}
    totals = {chosen: matrix[np.arange(n), list(chosen)].sum() for chosen in permutations(range(m), n)}
    return {chosen: total for chosen, total in totals.items() if total > -np.inf}


def _inverse(chosen, n):
    back = [-1] * n
    for column, row in enumerate(chosen):
        back[row] = column
    return tuple(back)


@settings(max_examples=100)
@given(HOLED, st.integers(1, 150))
def test_the_k_best_of_all(matrix, k):
    totals = listed(matrix)
    if not totals:
        with pytest.raises(LimnerError, match="no complete assignment"):
            k_best(scores_of(matrix), k)
        return
    assignments = k_best(scores_of(matrix), k)
    chosen = [tuple(each.chosen.tolist()) for each in assignments]
    assert len(set(chosen)) == len(chosen) == min(k, len(totals))
    assert all(each.total == pytest.approx(totals[c], abs=1e-9) for each, c in zip(assignments, chosen, strict=True))
    best = sorted(totals.values(), reverse=True)[:k]
    assert [each.total for each in assignments] == pytest.approx(best, abs=1e-9)


def test_the_k_best_of_a_six_by_six():
    matrix = np.random.default_rng(0).standard_normal((6, 6))
    best = sorted(listed(matrix).values(), reverse=True)
    assert [each.total for each in k_best(scores_of(matrix), 720)] == pytest.approx(best)


@settings(max_examples=60)
@given(MATRICES, st.integers(1, 40))
def test_ranking_is_by_the_best_total_a_pair_appears_in(matrix, k):
    ranked = k_best_ranking(scores_of(matrix), k)
    assignments = k_best(scores_of(matrix), k)
    for row in range(len(matrix)):
        best = {}
        for each in assignments:
            if each.chosen[row] >= 0:
                best.setdefault(int(each.chosen[row]), each.total)
        order = sorted(best, key=lambda column: (-best[column], column))
        assert ranked.indices[row, : len(order)].tolist() == order and (ranked.indices[row, len(order) :] == -1).all()
        assert ranked.scores[row, : len(order)].tolist() == [best[column] for column in order]


@settings(max_examples=100)
@given(HOLED)
def test_best_totals_are_those_of_all_assignments(matrix):
    totals = listed(matrix)
    if not totals:
        return
    expected = np.full(matrix.shape, -np.inf)
    for chosen, total in totals.items():
        for row, column in enumerate(chosen):
            if column >= 0:
                expected[row, column] = max(expected[row, column], total)
    assert best_totals(scores_of(matrix)).matrix() == pytest.approx(expected, abs=1e-9)


def test_all_assignments_and_best_totals_rank_alike():
    scores = scores_of(np.random.default_rng(1).standard_normal((4, 5)))
    deep = k_best_ranking(scores, 10**6)
    assert np.array_equal(deep.indices, best_totals(scores).ranking().indices) and not deep.truncated


def test_sums_of_the_same_scores_are_equal_totals_in_whatever_order_they_are_added():
    """0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit if they are added one by one."""
    scores = Scores.from_matrix(np.array([[0.1, 0.1, 0.3], [0.2, 0.2, 0.2], [0.3, 0.1, 0.2]]), list("abc"), list("wxy"))
    ranking = k_best_ranking(scores, 6)
    assert ranking["b"] == ["x", "w", "y"] and ranking.scores[1, 1] == ranking.scores[1, 2]


@pytest.mark.parametrize("seed", range(30))
def test_totals_of_decimals_come_best_first(seed):
    random = np.random.default_rng(seed)
    matrix = random.integers(1, 4, (3, 3)) / 10
    totals = [each.total for each in k_best(Scores.from_matrix(matrix, list("abc"), list("wxy")), 6)]
    every = [math.fsum(matrix[row, column] for row, column in enumerate(p)) for p in permutations(range(3))]
    assert totals == sorted(every, reverse=True)


def test_larger_ones_begin_with_the_optimum_and_never_repeat():
    matrix = np.random.default_rng(2).standard_normal((60, 80))
    assignments = k_best(scores_of(matrix), 200)
    rows, columns = linear_sum_assignment(matrix, maximize=True)
    totals = [each.total for each in assignments]
    assert totals[0] == pytest.approx(matrix[rows, columns].sum())
    assert totals == sorted(totals, reverse=True) and len({tuple(each.chosen) for each in assignments}) == 200
    assert len(assignments[0].pairs) == 60 and assignments[0].pairs["q0"] == f"c{columns[0]}"


def test_bad_numbers_are_refused():
    with pytest.raises(LimnerError, match=r"k_best\(0\): expected at least 1"):
        k_best(scores_of(np.ones((2, 2))), 0)
    with pytest.raises(LimnerError, match=r"no \+inf"):
        k_best(scores_of(np.array([[np.inf]])), 1)
