"""Fusion against slow loops over dictionaries, whatever the systems are given as."""

from fractions import Fraction
from statistics import mean as average

import numpy as np
import pytest
import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from limner import Embeddings, LimnerError, Ranking, Scores
from limner.datasets.runs import read_run
from limner.match.fusion import FUSIONS, borda, fuse, mean, reciprocal_rank

SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6))
STACKS = SHAPES.flatmap(lambda s: arrays.arrays(np.float64, s, elements=st.integers(-2, 2).map(float)))


def scores_of(matrix):
    return Scores.from_matrix(matrix, [f"q{i}" for i in range(len(matrix))], [f"c{j}" for j in range(matrix.shape[1])])


@settings(max_examples=150)
@given(STACKS)
def test_borda_of_scores(stack):
    fused = borda([scores_of(matrix) for matrix in stack])
    for q in range(stack.shape[1]):
        assert fused.indices[q].tolist() == slow.borda([slow.ranks_of(m[q]) for m in stack], stack.shape[2])
    assert not fused.truncated


@settings(max_examples=100)
@given(STACKS, st.data())
def test_borda_and_reciprocal_rank_of_cut_lists(stack, data):
    """Every system cut off somewhere, some given as scores: the same as the slow loops say."""
    n = stack.shape[2]
    cuts = [data.draw(st.integers(1, n)) for _ in stack]
    systems = [scores_of(m).ranking().top(cut) for m, cut in zip(stack, cuts, strict=True)]
    for q in range(stack.shape[1]):
        lists = [{int(c): r for c, r in zip(s.indices[q], _cut_ranks(s.scores[q]), strict=True)} for s in systems]
        expected = slow.borda(lists, n)
        assert borda(systems).indices[q, : len(expected)].tolist() == expected
        assert (borda(systems).indices[q, len(expected) :] == -1).all()
        expected = slow.reciprocal(lists, 60)[1]
        assert reciprocal_rank(systems).indices[q, : len(expected)].tolist() == expected


def _cut_ranks(scores):
    places = range(1, len(scores) + 1)
    return [average(p for p, peer in zip(places, scores, strict=True) if peer == score) for score in scores]


def test_ties_go_to_the_lower_median_rank():
    """x at ranks 0, 0, 3 and y at ranks 1, 1, 1 have equal sums: the median prefers x (0) to y (1)."""
    lists = [["x", "y", "a", "b"], ["x", "y", "a", "b"], ["a", "y", "b", "x"]]
    fused = borda([Ranking.from_lists({"q": row}, candidates=["y", "x", "a", "b"]) for row in lists])
    assert fused["q"][:2] == ["x", "y"]
    points = dict(zip(fused["q"], np.floor(fused.scores[0]), strict=True))
    assert points["x"] == points["y"] == 4 + 4 + 1 == 3 + 3 + 3


@pytest.mark.parametrize("method", FUSIONS)
def test_scores_their_ranking_and_their_run_file_fuse_alike(method, tmp_path):
    rng = np.random.default_rng(0)
    systems = [scores_of(rng.integers(0, 9, (20, 30)).astype(float)) for _ in range(3)]
    runs = [read_run(s.ranking().save(tmp_path / f"{i}.run")) for i, s in enumerate(systems)]
    shuffled = [_shuffled(s, rng) for s in systems]
    plain = fuse(systems, method, depth=30)
    for inputs in ([systems[0], *(s.ranking() for s in systems[1:])], [systems[0], *shuffled[1:]]):
        fused = fuse(inputs, method, depth=30)
        assert np.array_equal(fused.indices, plain.indices) and np.allclose(fused.scores, plain.scores)
    from_files = fuse(runs, method, depth=30)
    for q in plain.queries:  # candidates of a run stand in another order, which decides what is equal to the last
        assert sorted(from_files[q]) == sorted(plain[q])
        row, file_row = plain.queries.index(q), from_files.queries.index(q)
        assert np.allclose(plain.scores[row], from_files.scores[file_row])


def _shuffled(scores, rng):
    """The same ranking with queries and candidates in another order."""
    matrix, rows, columns = scores.matrix(), rng.permutation(scores.shape[0]), rng.permutation(scores.shape[1])
    order = np.argsort(-matrix, axis=1, kind="stable")
    inverse = np.argsort(columns)
    sorted_scores = np.take_along_axis(matrix, order, axis=1)[rows]
    return Ranking(
        scores.queries[rows], scores.candidates[columns], inverse[order][rows], sorted_scores, scores.shape[1]
    )


@pytest.mark.parametrize("normalise", ["zscore", "minmax", None])
def test_mean_of_scores(normalise):
    rng = np.random.default_rng(1)
    stack = rng.standard_normal((3, 300, 40)) * np.array([1.0, 100.0, 0.01])[:, None, None]
    stack[0, 0] = 7.0  # all equal
    expected = np.mean([[slow.normal(row, normalise) for row in matrix] for matrix in stack], axis=0)
    fused = mean([scores_of(matrix) for matrix in stack], normalise=normalise)
    assert np.allclose(fused.matrix(), expected) and fused.dtype == np.float64
    turned = np.mean([[slow.normal(row, normalise) for row in matrix.T] for matrix in stack], axis=0)
    assert np.allclose(fused.T.matrix(), turned)


def test_mean_of_cut_lists_counts_what_is_left_out_as_last():
    run = Ranking.from_lists({"q": ["a", "b"]}, candidates="abcd")
    with_scores = Ranking(run.queries, run.candidates, run.indices, np.array([[3.0, 1.0]]), 4)
    assert mean([with_scores], normalise="minmax").matrix().tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert mean([with_scores], normalise="zscore").matrix().tolist() == [[1.0, -1.0, -1.0, -1.0]]


def test_forbidden_pairs_stay_forbidden():
    fused = mean(
        [scores_of(np.array([[1.0, -np.inf, 3.0]])), scores_of(np.array([[5.0, 6.0, 7.0]]))], normalise="minmax"
    )
    assert fused.matrix().tolist() == [[0.0, -np.inf, 1.0]]


def test_mean_never_holds_the_matrix():
    """Blocks of vectors in, blocks out: the same numbers as from the whole, in single precision."""
    rng = np.random.default_rng(2)
    sides = [[Embeddings(range(n), rng.standard_normal((n, 8))) for n in (600, 900)] for _ in range(2)]
    systems = [Scores.from_embeddings(*side) for side in sides]
    fused = mean(systems)
    expected = np.mean(
        [(m - m.mean(1, keepdims=True)) / m.std(1, keepdims=True) for m in (s.matrix() for s in systems)], 0
    )
    assert fused.dtype == np.float32 and np.allclose(fused.matrix(), expected, atol=1e-5)
    assert np.array_equal(fused.top(5, workers=1).indices, fused.top(5, workers=3).indices)


def test_depth_keeps_the_head():
    rng = np.random.default_rng(3)
    systems = [scores_of(rng.standard_normal((500, 30))) for _ in range(4)]
    for method in FUSIONS:
        assert np.array_equal(fuse(systems, method, depth=7).indices, fuse(systems, method).indices[:, :7])


def test_progress_ends_at_all_queries():
    calls = []
    borda([scores_of(np.eye(600))], depth=1, progress=lambda *steps: calls.append(steps))
    assert calls[-1] == (600, 600)


A, B = scores_of(np.eye(3)), scores_of(np.eye(4))
RUN = Ranking.from_lists({"q0": ["c1"], "q1": ["c0"], "q2": ["c2"]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: borda([]), "no systems to fuse"),
        (lambda: borda(A), "no systems to fuse"),
        (lambda: borda([A, np.eye(3)]), "system 2 is a ndarray: expected Scores or a Ranking"),
        (lambda: borda([A, B]), "system 2 has other queries than the first .*it has 'q3'"),
        (lambda: borda([B, A]), "system 2 has other queries .*it lacks 'q3'"),
        (
            lambda: mean([A, Scores.from_matrix(np.eye(3), ["q0", "q2", "q1"], A.candidates)]),
            "queries in another order",
        ),
        (lambda: borda([A, Ranking.from_lists({"q0": ["z"], "q1": [], "q2": []})]), "other candidates .*it has 'z'"),
        (lambda: mean([A, RUN]), "system 2 is a ranking without scores: fuse it by 'borda'"),
        (lambda: mean([A], normalise="z-score"), "did you mean 'zscore'"),
        (lambda: reciprocal_rank([A], k=-1), "k is -1, expected 0 or more"),
        (lambda: borda([A], depth=0), "depth 0: expected at least 1"),
        (lambda: fuse([A], "bord"), "did you mean 'borda'"),
        (lambda: fuse([A], "borda", k=3), "unknown option 'k' of fusion 'borda'"),
        (lambda: mean([A, A.ranking()]).T.shape, "has only one direction"),
    ],
)
def test_what_does_not_go_together_is_refused(call, message):
    with pytest.raises(LimnerError, match=message):
        call()


def test_runs_without_a_known_pool_fuse_over_what_they_name():
    a = Ranking.from_lists({"q": ["x", "y"], "p": ["y"]})
    b = Ranking.from_lists({"p": ["z"], "q": ["y", "z"]})
    fused = borda([a, b])
    assert list(fused.queries) == ["q", "p"] and set(fused.candidates) == {"x", "y", "z"}
    assert fused["q"] == ["y", "x", "z"] and fused["p"] == ["y", "z"] and fused.n_candidates is None


@pytest.mark.parametrize("method", FUSIONS)
def test_the_order_of_rankings_and_scores_does_not_matter(method):
    """A ranking that numbers its candidates otherwise may stand before the scores as well as behind them."""
    rng = np.random.default_rng(4)
    systems = [scores_of(rng.standard_normal((20, 30))) for _ in range(2)]
    shuffled = _shuffled(systems[0], rng)
    first, last = fuse([shuffled, systems[1]], method, depth=30), fuse([systems[1], shuffled], method, depth=30)
    assert first.queries == last.queries and first.candidates == last.candidates
    assert np.array_equal(first.indices, last.indices) and np.allclose(first.scores, last.scores)


def test_reciprocal_ranks_that_add_up_to_the_same_are_equal():
    """With k = 0: 1/3 + 1/6 is 1/2, and 1/4 + 1/12 is 1/3, whatever rounding makes of them."""
    pool = [f"c{j:02}" for j in range(13)]

    def system(ranks):
        """A list with these candidates at these ranks, and others in between."""
        remaining = iter([c for c in reversed(pool) if c not in ranks.values()])
        return Ranking.from_lists({"q": [ranks.get(r) or next(remaining) for r in range(1, 13)]}, candidates=pool)

    for a, b in (((3, 6), (2,)), ((4, 12), (3,)), ((2, 6), (3, 3)), ((5, 10), (4, 12))):
        for first, second in (("c00", "c01"), ("c01", "c00")):
            ranks = [{r: first} for r in a] + [{r: second} for r in b]
            fused = reciprocal_rank([system(each) for each in ranks], k=0, depth=13)
            lists = [{c: i + 1 for i, c in enumerate(system(each)["q"])} for each in ranks]
            sums, expected = slow.reciprocal(lists, 0)
            assert fused["q"] == expected
            assert [sums[c] for c in fused["q"]] == sorted(sums.values(), reverse=True)


@settings(max_examples=200)
@given(
    st.integers(2, 5).flatmap(lambda n: st.lists(st.permutations(range(9)), min_size=n, max_size=n)),
    st.sampled_from([0, 1, 60, 0.5, 0.1]),
    st.data(),
)
def test_reciprocal_ranks_against_fractions(orders, k, data):
    cuts = [data.draw(st.integers(1, 9)) for _ in orders]
    cut_orders = [list(order)[:cut] for order, cut in zip(orders, cuts, strict=True)]
    systems = [
        Ranking.from_lists({"q": [f"c{j}" for j in row]}, candidates=[f"c{j}" for j in range(9)]) for row in cut_orders
    ]
    fused = reciprocal_rank(systems, k=k)
    sums, expected = slow.reciprocal([{c: i + 1 for i, c in enumerate(row)} for row in cut_orders], k)
    assert fused.indices[0].tolist() == expected
    for place, c in enumerate(expected):
        assert fused.scores[0, place] == pytest.approx(float(sums[c]), rel=1e-14)
        if place and sums[c] == sums[expected[place - 1]]:
            assert fused.scores[0, place] == fused.scores[0, place - 1]


# --- forbidden pairs, infinite and very large scores --------------------------------------------------------------

EXTREME = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, 3.0, 1e300, -1e300, 1e-300])
EXTREMES = SHAPES.flatmap(lambda s: arrays.arrays(np.float64, s, elements=EXTREME))


@pytest.mark.parametrize("normalise", ["zscore", "minmax", None])
@settings(max_examples=100)
@given(EXTREMES)
def test_mean_with_forbidden_pairs_and_very_large_scores(normalise, stack):
    fused = mean([scores_of(matrix) for matrix in stack], normalise=normalise).matrix()
    assert not np.isnan(fused).any()
    for q in range(stack.shape[1]):
        rows = [slow.normal(matrix[q], normalise) for matrix in stack]
        for c in range(stack.shape[2]):
            parts = [row[c] for row in rows]
            if None in parts:
                assert fused[q, c] == -np.inf  # what one system forbids is forbidden
            else:
                assert fused[q, c] == pytest.approx(average(map(Fraction, parts)), rel=1e-9, abs=1e-9)


def test_infinite_scores_are_refused_by_the_mean():
    for normalise in ("zscore", "minmax", None):
        with pytest.raises(LimnerError, match=r"query 'q1' and candidate 'c2' is \+inf"):
            mean([A, scores_of(np.array([[0, 1, 2], [3, 4, np.inf], [0, 0, 0]]))], normalise=normalise).matrix()


@settings(max_examples=60)
@given(EXTREMES)
def test_ranks_of_forbidden_pairs(stack):
    """-inf is the lowest score there is, and those that have it share the last ranks."""
    systems = [scores_of(matrix) for matrix in stack]
    for q in range(stack.shape[1]):
        lists = [slow.ranks_of(matrix[q]) for matrix in stack]
        assert borda(systems).indices[q].tolist() == slow.borda(lists, stack.shape[2])
        assert reciprocal_rank(systems).indices[q].tolist() == slow.reciprocal(lists, 60)[1]
