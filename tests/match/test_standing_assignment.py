"""Standing differential test: bijective matching and the k best assignments against every permutation.

Ties, forbidden pairs, clusters, offsets of up to 1e12, any shape; on the processor and through torch, in blocks of any
height, from short and long lists, with and without proof, by the sparse and the dense way.
"""

import numpy as np
import slow
from hypothesis import strategies as st
from standing import HOLED, PATHS, PLAIN, TIED, blocks, matrices, refused, standing

from limner.match import best_totals, bijective, k_best, k_best_ranking

SMALL = st.tuples(st.integers(1, 4), st.integers(1, 4))
EXACT = st.integers(-40, 40).map(lambda n: n / 8)
"""Sums of these are exact, so that equal totals are equal."""


def drawn(data, *, shape=SMALL, elements=None):
    """A matrix and the same as scores; large offsets come in double precision, which holds them."""
    elements = data.draw(st.sampled_from([PLAIN, TIED, HOLED, EXACT])) if elements is None else elements
    matrix = data.draw(matrices(shape, elements))
    offset = data.draw(st.sampled_from([0.0, 0.0, 1e6, 1e9, 1e12, -1e12]))
    path = data.draw(st.sampled_from([p for p in PATHS if not offset or p.endswith("float64")]))
    matrix = matrix + offset
    return matrix, blocks(matrix, path, step=data.draw(st.sampled_from([1, 2, 256]))), offset


def nearly_equal(a, b, matrix):
    """Equal but for the rounding of a sum of such numbers."""
    finite = np.abs(matrix[np.isfinite(matrix)])
    return abs(a - b) <= 1e-14 * len(matrix) * finite.max(initial=0.0) + 1e-12


def check_bijective(data):
    matrix, scores, offset = drawn(data)
    rounds, candidates = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    method, prove = data.draw(st.sampled_from(["auto", "sparse", "dense"])), data.draw(st.booleans())
    ranked = bijective(scores, rounds=rounds, candidates=candidates, method=method, prove=prove)
    assigned_pairs = [(i, j) for i, row in enumerate(ranked.indices) for j in row if j >= 0]
    assert len(set(assigned_pairs)) == len(assigned_pairs) == sum(ranked.assigned)
    assert all(np.isfinite(matrix[pair]) for pair in assigned_pairs)
    pairs, best = slow.best_round(matrix - offset)
    if not pairs:
        assert ranked.assigned == ()
        return
    assert ranked.assigned[0] == pairs
    total, room = ranked.totals[0] - offset * pairs, 1e-9 + 1e-15 * pairs * abs(offset)
    assert nearly_equal(total, best, matrix) if ranked.exact else total - room <= best <= total + ranked.gaps[0] + room
    assert ranked.exact or not prove
    if all(count == len(matrix) for count in ranked.assigned):  # lists without gaps: column r is round r
        check_rounds(matrix - offset, ranked)


def check_rounds(left, ranked):
    """Each round is the best that the rounds before it left, where it says so."""
    for r, items in enumerate(ranked.indices.T):
        rows = np.arange(len(left))
        _, best = slow.best_round(left)
        total = left[rows, items].sum()
        assert len(set(items)) == len(items) and total <= best + 1e-9 <= total + ranked.gaps[r] + 2e-9
        left[rows, items] = -np.inf


def check_k_best(data):
    matrix, scores, _ = drawn(data, elements=st.one_of(EXACT, st.just(-np.inf)))
    every = sorted((total for total, _ in slow.assignments(matrix)), reverse=True)
    k = data.draw(st.integers(1, 8))
    results = refused(lambda: k_best(scores, k), "no complete assignment")
    assert (results is None) == (not every)
    if results is None:
        return
    assert [each.total for each in results] == every[:k]
    pair_sets = [
        frozenset((scores.queries.index(q), scores.candidates.index(c)) for q, c in e.pairs.items()) for e in results
    ]
    assert len(set(pair_sets)) == len(pair_sets)
    totals = {pairs: total for total, pairs in slow.assignments(matrix)}
    assert [totals[pairs] for pairs in pair_sets] == every[:k]
    ranked = k_best_ranking(scores, k)
    for row, q in enumerate(scores.queries):
        listed = [scores.candidates.index(c) for c in ranked[q]]
        best = {c: max(totals[p] for p in pair_sets if (row, c) in p) for c in listed}
        assert listed == sorted(best, key=lambda c: (-best[c], c))


def check_best_totals(data):
    matrix, scores, _ = drawn(data, elements=st.one_of(EXACT, st.just(-np.inf)))
    every = slow.assignments(matrix)
    best_scores = refused(lambda: best_totals(scores), "no complete assignment")
    assert (best_scores is None) == (not every)
    if best_scores is None:
        return
    totals = best_scores.matrix()
    for pair in np.ndindex(matrix.shape):
        assert totals[pair] == max((total for total, pairs in every if pair in pairs), default=-np.inf)


EXTREME = st.sampled_from([-np.inf, 0.0, 1.0, 1e150, -1e150, 1e300, -1e300, 1.7e308, np.inf])


def check_extremes(data):
    """Very large scores: the best there is, or one clear refusal."""
    n, m = data.draw(SMALL)
    matrix = np.array(data.draw(st.lists(EXTREME, min_size=n * m, max_size=n * m))).reshape(n, m)
    method = data.draw(st.sampled_from(["sparse", "dense"]))
    ranked = refused(lambda: bijective(blocks(matrix), rounds=1, method=method), "+inf", "too far apart", "too large")
    if ranked is None:
        return
    assert not np.isposinf(matrix).any()
    assert (ranked.assigned or (0,))[0] == slow.best_round(np.where(np.isfinite(matrix), 0.0, -np.inf))[0]


test_bijective, test_bijective_long = standing(check_bijective)
test_k_best, test_k_best_long = standing(check_k_best)
test_best_totals, test_best_totals_long = standing(check_best_totals)
test_extremes, test_extremes_long = standing(check_extremes)
