"""Sets of vectors, kernels, pair scorers and parts of scores, each against a slow loop over pairs."""

import numpy as np
import pytest
from scipy.special import logsumexp

from limner import Embeddings, Items, Judgements, LimnerError, Scores, evaluate
from limner.scores import set_scores
from limner.scores.set_scores import VectorSets


def ragged(n, seed, d=7, max_size=5):
    rng = np.random.default_rng(seed)
    return {f"{seed}-{k}": rng.standard_normal((rng.integers(1, max_size + 1), d)) for k in range(n)}


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def slow(queries, candidates, pool):
    return np.array([[pool(unit(q) @ unit(c).T) for c in candidates.values()] for q in queries.values()])


POOLS = {
    "max": ({}, lambda s: s.max()),
    "smooth": ({"pooling": "smooth", "gamma": 6.0}, lambda s: logsumexp(6.0 * s) / 6.0),
    "maxsim": ({"pooling": "maxsim"}, lambda s: s.max(axis=1).sum()),
}


@pytest.mark.parametrize("pool", POOLS)
def test_sets_of_vectors(pool):
    options, by_hand = POOLS[pool]
    queries, candidates = ragged(300, 1), ragged(40, 2)  # the vectors of a block of queries fill several tiles
    scores = Scores.from_sets(queries, candidates, **options)
    expected = slow(queries, candidates, by_hand)
    assert np.abs(scores.matrix() - expected).max() < 1e-6
    assert np.abs(scores.T.matrix() - expected.T).max() < 1e-6
    part = scores.restrict(queries=["1-7", "1-3"], candidates=["2-30", "2-1", "2-2"])
    assert np.array_equal(part.matrix(), scores.matrix()[[7, 3]][:, [30, 1, 2]])


def test_one_vector_each_is_plain_cosine():
    one = {k: v[:1] for k, v in ragged(20, 3).items()}
    plain = Scores.from_embeddings(*[Embeddings(list(one), np.concatenate(list(one.values())))] * 2)
    for options in ({}, {"pooling": "smooth"}):
        assert np.abs(Scores.from_sets(one, one, **options).matrix() - plain.matrix()).max() < 1e-6


@pytest.mark.parametrize("pooling", ["max", "maxsim"])
def test_pieces_of_any_width_give_the_same_bits(pooling, monkeypatch):
    queries, candidates = ragged(90, 1, max_size=9), ragged(60, 2, max_size=40)
    scores = Scores.from_sets(queries, candidates, pooling=pooling)
    matrix, turned = scores.matrix(), scores.T.matrix()
    for width in (1, 7, 256):
        monkeypatch.setattr(set_scores, "CHUNK", width)
        assert np.array_equal(scores.matrix(), matrix) and np.array_equal(scores.T.matrix(), turned)
    part = scores.restrict(queries=["1-70", "1-3"])
    assert np.array_equal(part.matrix(), matrix[[70, 3]])


@pytest.mark.parametrize("pooling", ["max", "maxsim"])
@pytest.mark.parametrize("d", [1, 7, 64, 100, 333])
def test_a_query_alone_has_the_scores_that_it_has_among_others(pooling, d):
    """A few query vectors are multiplied in smaller tiles."""
    queries, candidates = ragged(40, 1, max_size=60, d=d), ragged(50, 2, max_size=30, d=d)
    scores = Scores.from_sets(queries, candidates, pooling=pooling, similarity="dot")
    matrix, turned = scores.matrix(), scores.T.matrix()
    for n in range(40):
        assert np.array_equal(scores.restrict(queries=[f"1-{n}"]).matrix()[0], matrix[n])
        assert np.array_equal(scores.T.restrict(queries=[f"2-{n}"]).matrix()[0], turned[n])


def test_sums_that_overflow_are_refused():
    """Every product is finite, their sum is not: as two infinities, a larger score would come after a smaller one."""
    queries, items = {"q": np.full((5, 1), 1e19)}, {"x": [[1.0]], "a": [[1e19]], "b": [[3e19]]}
    scores = Scores.from_sets(queries, items, similarity="dot", pooling="maxsim")
    for read in (lambda: scores.top(2), lambda: scores.T.matrix()):
        with pytest.raises(LimnerError, match="the score of query '.*, a sum of products, overflows single precision"):
            read()
    assert Scores.from_sets(queries, items, similarity="dot").top(1)["q"] == ["b"]


def test_late_interaction_is_ranked_corrected_and_evaluated():
    queries, candidates = ragged(40, 1, max_size=8), ragged(30, 2, max_size=20)
    candidates |= {f"2-{k}": np.concatenate([queries[f"1-{k}"], candidates[f"2-{k}"]]) for k in range(30)}
    scores = Scores.from_sets(queries, candidates, pooling="maxsim")
    plain = Scores.from_matrix(scores.matrix(), scores.queries, scores.candidates)
    assert np.array_equal(scores.top(5).indices, plain.top(5).indices)
    assert np.allclose(scores.correct("csls").matrix(), plain.correct("csls").matrix(), atol=1e-5)
    for name in ("csls", "nnn", "inverted_softmax"):
        actual, expected = (each.correct(name).top(5) for each in (scores, plain))
        assert np.array_equal(actual.indices, expected.indices) and np.allclose(
            actual.scores, expected.scores, atol=1e-5
        )
    assert np.allclose(scores.T.correct("nnn").matrix(), plain.T.correct("nnn").matrix(), atol=1e-5)
    judged = Judgements.from_pairs([(f"1-{k}", f"2-{k}") for k in range(30)])
    reports = [evaluate(s, judged, measures="R@1") for s in (scores, plain)]
    assert reports[0].value("R@1") == reports[1].value("R@1") > 0


def test_the_smooth_maximum_lies_above_the_highest_by_at_most_log_n_over_gamma():
    queries, candidates = ragged(30, 1), ragged(20, 2)
    hard = Scores.from_sets(queries, candidates).matrix()
    soft = Scores.from_sets(queries, candidates, pooling="smooth", gamma=50.0).matrix()
    assert (soft >= hard - 1e-6).all() and (soft <= hard + np.log(25) / 50 + 1e-6).all()


def overlap(a, b):
    return np.array(
        [[len(set(x.split()) & set(y.split())) / len(set(x.split()) | set(y.split())) for y in b] for x in a]
    )


TEXTS = ["a red dog", "a dog", "two cats", "a red car and a dog", "cats", "one red car"]


def test_a_kernel_is_called_block_by_block():
    shapes = []

    def kernel(a, b):
        shapes.append((len(a), len(b)))
        return overlap(a, b)

    rows = [f"{text} {n}" for n in range(60) for text in TEXTS]
    scores = Scores.from_kernel(kernel, rows, TEXTS)
    assert np.array_equal(scores.matrix(), overlap(rows, TEXTS))
    assert max(n for n, _ in shapes) == 256
    assert np.array_equal(scores.T.matrix(), overlap(rows, TEXTS).T)
    assert np.array_equal(
        scores.restrict(queries=[5, 2], candidates=[0]).matrix(), overlap([rows[5], rows[2]], TEXTS[:1])
    )


def test_a_kernel_of_two_kinds_gets_each_in_its_place():
    kernel = lambda a, b: np.array([[float(len(x) > y) for y in b] for x in a])  # noqa: E731
    scores = Scores.from_kernel(kernel, TEXTS, np.array([3.0, 8.0]), candidates=["short", "long"])
    assert scores.T.matrix().tolist() == [[1.0] * 6, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0]]
    assert scores.T.T.top(1)["0"] == ["short"]


class Overlap:
    """Scores pairs, and notes how many at a time."""

    def __init__(self):
        self.batches = []

    def score_pairs(self, queries, candidates):
        self.batches.append(len(queries))
        return [overlap([q], [c])[0, 0] + 0.001 * len(q) for q, c in zip(queries, candidates, strict=True)]


def test_a_scorer_is_asked_for_every_pair_once():
    items = Items([f"t{k}" for k in range(6)], TEXTS, kind="text")
    scorer = Overlap()
    scores = Scores.from_scorer(scorer, items, TEXTS[:4], batch=5)
    expected = overlap(TEXTS, TEXTS[:4]) + 0.001 * np.array([[len(t)] for t in TEXTS])
    assert np.abs(scores.matrix() - expected).max() < 1e-12
    assert sum(scorer.batches) == 24 and max(scorer.batches) == 5
    assert np.abs(scores.T.matrix() - expected.T).max() < 1e-12
    assert np.abs(scores.restrict(queries=["t4"]).matrix() - expected[[4]]).max() < 1e-12
    assert list(scores.queries) == [f"t{k}" for k in range(6)]


def vectors(n, seed):
    return Embeddings([f"{seed}-{k}" for k in range(n)], np.random.default_rng(seed).standard_normal((n, 9)))


@pytest.mark.parametrize(
    "make", [lambda s: s, lambda s: s.correct("nnn", k=3), lambda s: s.correct("csls").correct("nnn")]
)
def test_parts_of_any_scores(make):
    scores = make(Scores.from_embeddings(vectors(40, 1), vectors(70, 2)))
    rows, columns = [5, 6, 7, 39, 0], [3, 69, 1]
    part = scores.restrict(queries=[f"1-{r}" for r in rows], candidates=[f"2-{c}" for c in columns])
    assert part.shape == (5, 3)
    assert np.array_equal(part.matrix(), scores.matrix()[rows][:, columns])
    assert scores.restrict(candidates=["2-4"]).shape == (40, 1)
    plain = Scores.from_matrix(scores.matrix(), scores.queries, scores.candidates)
    assert np.array_equal(plain.restrict(queries=part.queries, candidates=part.candidates).matrix(), part.matrix())
    if type(part).__name__ == "PartOfScores":
        assert np.array_equal(part.T.matrix(), scores.T.matrix()[columns][:, rows])


def test_corrections_take_every_kind():
    queries, candidates = ragged(30, 1), ragged(40, 2)
    scores = Scores.from_sets(queries, candidates)
    plain = Scores.from_matrix(scores.matrix(), scores.queries, scores.candidates)
    assert np.allclose(scores.correct("csls").matrix(), plain.correct("csls").matrix(), atol=1e-6)
    kernel = Scores.from_kernel(overlap, TEXTS, TEXTS)
    assert kernel.correct("csls", k=2).top(1).indices.shape == (6, 1)


class Wrong:
    def score_pairs(self, queries, candidates):
        return [1.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scores.from_sets(ragged(2, 1), ragged(2, 2), pooling="mean"), "unknown pooling 'mean'"),
        (lambda: Scores.from_sets(ragged(2, 1), ragged(2, 2), gamma=0), "gamma is 0"),
        (lambda: Scores.from_sets(ragged(2, 1), ragged(2, 2, d=6)), "7 dimensions, candidate vectors 6"),
        (lambda: VectorSets.of({"a": np.ones((2, 3)), "b": np.ones((0, 3))}), "item 'b' has vectors of shape"),
        (lambda: VectorSets.of({}), "no items"),
        (lambda: Scores.from_kernel(lambda a, b: np.ones((1, 1)), TEXTS, TEXTS).matrix(), r"expected \(6, 6\)"),
        (lambda: Scores.from_kernel(lambda a, b: np.full((6, 6), np.nan), TEXTS, TEXTS).top(1), "NaN .row 0, col"),
        (lambda: Scores.from_kernel(overlap, TEXTS, TEXTS, queries="ab"), "2 query ids for 6 items"),
        (lambda: Scores.from_scorer(Wrong(), TEXTS, TEXTS).top(1), "one number each"),
        (lambda: Scores.from_embeddings(vectors(3, 1), vectors(3, 2)).restrict(queries=["x"]), "unknown"),
    ],
)
def test_refused(make, message):
    with pytest.raises(LimnerError, match=message):
        make()
