"""Counting places from blocks: folds, several judgements in one pass, what is outside the pool."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner import Embeddings, Judgements, LimnerError, Ranking, Scores
from limner.evaluation.measures import parse
from limner.evaluation.placements import NEVER, OUTSIDE_POOL, RankOptions, RankRequest, _by_rank, place

MEASURES = parse("R@1 R@3 MeanR MRR mAP@R RP nDCG@4")


def slow_places(row, positives, pool):
    """(above, tied) of each positive among the pool, best placed first, by looking at every candidate."""
    places = [(sum(row[c] > row[p] for c in pool), sum(row[c] == row[p] for c in pool)) for p in positives]
    return sorted(places)


@st.composite
def worlds(draw):
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    scores = np.array(
        draw(st.lists(st.lists(st.integers(0, 4), min_size=m, max_size=m), min_size=n, max_size=n)), dtype=float
    )
    positives = [draw(st.lists(st.integers(0, m - 1), unique=True)) for _ in range(n)]
    folds = [draw(st.lists(st.integers(0, 2), min_size=k, max_size=k)) for k in (n, m)]
    return scores, positives, np.array(folds[0]), np.array(folds[1])


def judged(positives, n, m):
    return Judgements.from_pairs(
        [(q, c) for q, cs in enumerate(positives) for c in cs], queries=range(n), candidates=range(m)
    )


def listed(placed):
    bounds = zip(placed.indptr[:-1], placed.indptr[1:], strict=True)
    return {
        q: list(zip(placed.above[a:b].tolist(), placed.tied[a:b].tolist(), strict=True))
        for q, (a, b) in zip(placed.queries, bounds, strict=True)
    }


@given(worlds())
def test_whole_pool_and_folds_in_one_pass(world):
    scores, positives, query_folds, candidate_folds = world
    n, m = scores.shape
    source = Scores.from_matrix(scores, range(n), range(m))
    requests = [
        RankRequest(judged(positives, n, m)),
        RankRequest(judged(positives, n, m), query_folds, candidate_folds),
    ]
    (whole_pool, cut), ranking = place(source, requests, RankOptions(keep=2, workers=1))
    assert listed(whole_pool) == {str(q): slow_places(scores[q], ps, range(m)) for q, ps in enumerate(positives) if ps}
    expected = {}
    for q, ps in enumerate(positives):
        pool = [c for c in range(m) if candidate_folds[c] == query_folds[q]]
        if set(ps) & set(pool):
            expected[str(q)] = slow_places(scores[q], set(ps) & set(pool), pool)
    assert listed(cut) == expected
    assert np.array_equal(ranking.indices, np.argsort(-scores, axis=1, kind="stable")[:, :2])


@given(worlds())
def test_a_ranking_filtered_to_folds_says_the_same_as_its_scores(world):
    scores, positives, query_folds, candidate_folds = world
    n, m = scores.shape
    source = Scores.from_matrix(scores, range(n), range(m))
    requests = [
        RankRequest(judged(positives, n, m), query_folds, candidate_folds),
        RankRequest(judged(positives, n, m)),
    ]
    by_scores, _ = place(source, requests, RankOptions(workers=1))
    by_lists, _ = place(source.ranking(), requests)
    assert [listed(p) for p in by_scores] == [listed(p) for p in by_lists]


def test_several_judgements_at_once_equal_each_alone():
    rng = np.random.default_rng(0)
    source = Scores.from_embeddings(
        Embeddings(range(300), rng.standard_normal((300, 8))), Embeddings(range(1500), rng.standard_normal((1500, 8)))
    )
    requests = [
        RankRequest(judged([rng.choice(1500, size=k, replace=False) for _ in range(300)], 300, 1500))
        for k in (1, 5, 40)
    ]
    together, _ = place(source, requests)
    for one, placed in zip(requests, together, strict=True):
        (alone,), _ = place(source, [one])
        for measure in MEASURES:
            assert np.array_equal(measure(placed), measure(alone))


def test_positives_outside_the_pool_are_dropped_or_counted():
    source = Scores.from_matrix(np.array([[3.0, 2.0, 1.0]]), ["q"], "abc")
    judgements = Judgements.from_pairs([("q", "a"), ("q", "elsewhere")])
    (dropped, counted), _ = place(source, [RankRequest(judgements), RankRequest(judgements, outside="count")])
    assert dropped.relevant.tolist() == [1] and dropped.outside == 1
    assert counted.relevant.tolist() == [2] and counted.above.tolist() == [0, NEVER]
    assert parse("RP")[0](counted).tolist() == [0.5] and parse("RP")[0](dropped).tolist() == [1.0]


def test_listed_positives_of_another_fold_are_no_positives():
    """Even where the pool is unknown: the fold of what is listed is known."""
    ranking = Ranking.from_lists({"q": ["a", "b", "c"]})
    judgements = Judgements.from_pairs([("q", "b"), ("q", "c"), ("q", "unlisted")])
    folds = np.array([0]), np.array([0, 0, 1])
    (placed,), _ = place(ranking, [RankRequest(judgements, *folds)])
    assert placed.above.tolist() == [1, NEVER] and placed.relevant.tolist() == [2]


def test_queries_without_positives_are_left_out_and_counted():
    source = Scores.from_matrix(np.ones((3, 2)), "xyz", "ab")
    (placed,), _ = place(source, [RankRequest(Judgements.from_pairs([("y", "a"), ("z", "b", 0)]))])
    assert list(placed.queries) == ["y"] and placed.left_out == 2


def test_a_query_that_is_not_ranked_is_refused():
    ranking = Ranking.from_lists({"q1": ["a"]})
    with pytest.raises(LimnerError, match=r"1 queries of the judgements 'pairs' are not ranked \('q2'\)"):
        place(ranking, [RankRequest(Judgements.from_pairs([("q1", "a"), ("q2", "a")]))])


def test_unknown_rules_are_refused():
    source = Scores.from_matrix(np.ones((1, 1)), "q", "a")
    with pytest.raises(LimnerError, match="unknown value 'random' of ties"):
        place(source, [], RankOptions(ties="random"))
    with pytest.raises(LimnerError, match="unknown value '.*' of unretrieved"):
        place(source, [], RankOptions(unretrieved="zero"))


@pytest.mark.parametrize("levels", [1, 4])
@pytest.mark.parametrize("highest", [3, 10**6, 10**17])
def test_positives_are_in_order_of_query_rank_and_grade(highest, levels):
    rng = np.random.default_rng(0)
    rows, grades = rng.integers(0, 40, 500), rng.integers(0, levels, 500) / 3
    n_above = np.where(rng.random(500) < 0.2, rng.choice([NEVER, OUTSIDE_POOL], 500), rng.integers(0, highest, 500))
    expected = sorted(range(500), key=lambda n: (rows[n], n_above[n], grades[n], n))
    assert _by_rank(rows, n_above, grades).tolist() == expected
    n_above[0] = OUTSIDE_POOL + 7
    expected = sorted(range(500), key=lambda n: (rows[n], n_above[n], grades[n], n))
    assert _by_rank(rows, n_above, grades).tolist() == expected
    assert _by_rank(rows[:0], n_above[:0], grades[:0]).tolist() == []
