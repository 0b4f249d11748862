"""The cascade: the scorer's order with the proposer's where it ties, against a slow loop; cached, resumed, refused."""

from __future__ import annotations

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError
from limner.core.ranking import Ranking
from limner.datasets.runs import read_run
from limner.match import cascade
from limner.papers.file_name_systems import Levenshtein
from limner.scores import Scores


class Coarse:
    """Scores with many ties, by the content of both texts; counts, and dies when told to."""

    fingerprint = "coarse 1"

    def __init__(self, *, dies_at=None):
        self.seen, self.dies_at = [], dies_at

    def score_pairs(self, queries, candidates):
        if self.dies_at is not None and len(self.seen) >= self.dies_at:
            raise KeyboardInterrupt
        self.seen += zip(queries, candidates, strict=True)
        return np.array([(int(q[1:]) * 7 + int(c[1:]) * 3) % 4 for q, c in zip(queries, candidates, strict=True)])


@pytest.fixture
def world():
    rng = np.random.default_rng(0)
    queries, candidates = [f"q{n}" for n in range(12)], [f"c{n}" for n in range(40)]
    proposer = Scores.from_matrix(rng.integers(0, 9, (12, 40)).astype(float), queries, candidates)
    return proposer, queries, candidates


def slow(proposer, scorer, depth):
    """Sorts each list in plain Python: by the scorer, then by the proposer's place."""
    ranked = proposer.ranking()
    lists = {}
    for query in ranked.queries:
        head = ranked[query][:depth]
        pair_scores = {c: scorer.score_pairs([query], [c])[0] for c in head}
        lists[query] = sorted(head, key=lambda c: (-pair_scores[c], head.index(c)))
    return lists


@pytest.mark.parametrize(("depth", "places"), [(5, 5), (0.2, 8), (1000, 40), (1, 1)])
def test_order_and_ties_equal_a_slow_loop(world, depth, places):
    proposer, queries, candidates = world
    ranking = cascade(proposer, Coarse(), queries=queries, candidates=candidates, depth=depth)
    assert {q: ranking[q] for q in queries} == slow(proposer, Coarse(), places)
    assert ranking.pairs == 12 * places and ranking.truncated == (places < 40)


def test_the_rest_follows_in_the_proposers_order(world):
    proposer, queries, candidates = world
    ranking = cascade(proposer, Coarse(), queries=queries, candidates=candidates, depth=6, keep_rest=True)
    ranked, head = proposer.ranking(), slow(proposer, Coarse(), 6)
    assert all(ranking[q] == head[q] + ranked[q][6:] for q in queries)
    assert not ranking.truncated and np.isneginf(ranking.scores[:, 6:]).all()


def test_a_ranking_proposes_as_well_as_scores(world, tmp_path):
    proposer, queries, candidates = world
    expected = slow(proposer, Coarse(), 7)
    values = dict(zip(candidates, candidates, strict=True))
    run = read_run(proposer.top(9).save(tmp_path / "p.run"))
    ranking = cascade(run, Coarse(), queries=dict(zip(queries, queries, strict=True)), candidates=values, depth=7)
    assert {q: ranking[q] for q in queries} == expected
    with pytest.raises(LimnerError, match="ranks 9 of an unknown pool, but depth is 10"):
        cascade(run, Coarse(), queries=queries, candidates=values, depth=10)
    with pytest.raises(LimnerError, match="pool is unknown"):
        cascade(run, Coarse(), queries=queries, candidates=values, depth=0.2)


@pytest.mark.parametrize("weight", [0.2, 0.5, 0.9])
def test_a_weight_below_one_mixes_both_as_a_slow_loop_does(world, weight):
    proposer, queries, candidates = world
    ranking = cascade(proposer, Coarse(), queries=queries, candidates=candidates, depth=9, weight=weight)
    ranked = proposer.ranking()
    for row, query in enumerate(queries):
        head = ranked[query][:9]
        pair_scores = np.array([Coarse().score_pairs([query], [c])[0] for c in head], dtype=float)
        before = ranked.scores[row, :9].astype(float)
        sides = [(side - side.mean()) / (side.std() or 1) for side in (pair_scores, before)]
        mixed = weight * sides[0] + (1 - weight) * sides[1]
        assert ranking.scores[row] == pytest.approx(np.sort(mixed)[::-1])
        assert [mixed[head.index(c)] for c in ranking[query]] == pytest.approx(np.sort(mixed)[::-1])


def test_a_weight_keeps_short_lists_and_scores_that_say_nothing(tmp_path):
    (tmp_path / "p.run").write_text("q1 Q0 c1 1 2.0 x\nq1 Q0 c2 2 1.0 x\nq2 Q0 c3 1 1.0 x\n")
    ranked = read_run(tmp_path / "p.run", candidates=["c1", "c2", "c3"])

    class EqualScores:
        def score_pairs(self, queries, candidates):
            return np.ones(len(queries))

    ask = {"queries": ["q1", "q2"], "candidates": ["c1", "c2", "c3"]}
    ranking = cascade(ranked, EqualScores(), weight=0.5, depth=2, **ask)
    assert ranking["q1"] == ["c1", "c2"] and ranking["q2"] == ["c3"]
    plain = Ranking.from_lists({"q1": ["c1"], "q2": ["c3"]}, candidates=["c1", "c2", "c3"])
    with pytest.raises(LimnerError, match="has no scores"):
        cascade(plain, EqualScores(), weight=0.5, depth=1, **ask)


def test_lists_of_different_length():
    ranked = Ranking.from_lists({"q1": ["c1", "c2"], "q2": ["c3"]}, candidates=["c1", "c2", "c3"])
    ranking = cascade(ranked, Coarse(), queries=["q1", "q2"], candidates=["c1", "c2", "c3"], depth=2)
    assert ranking["q2"] == ["c3"] and ranking.pairs == 3


def test_scores_are_kept_and_a_killed_run_resumes(world, tmp_path, monkeypatch):
    from limner.match import cascade as function

    proposer, queries, candidates = world
    monkeypatch.setattr("limner.match.reranking.AT_ONCE", 20)
    options = {"queries": queries, "candidates": candidates, "cache": tmp_path / "kept"}
    with pytest.raises(KeyboardInterrupt):
        function(proposer, Coarse(dies_at=60), depth=10, **options)
    scorer, calls = Coarse(), []
    ranking = function(proposer, scorer, depth=10, progress=lambda *t: calls.append(t), **options)
    assert (len(scorer.seen), ranking.reused, calls[-1]) == (60, 60, (120, 120))
    deeper = Coarse()
    deeper_ranking = function(proposer, deeper, depth=15, **options)
    assert len(deeper.seen) == 60 and {q: deeper_ranking[q] for q in queries} == slow(proposer, Coarse(), 15)


def test_a_kill_loses_seconds_of_a_slow_scorer(tmp_path, monkeypatch):
    """A cross-encoder of ten pairs a second, killed: before, all of up to 65,536 pairs were lost."""
    clock = [0.0]
    monkeypatch.setattr("limner.encoders.batching.monotonic", lambda: clock[0])

    class Slow(Coarse):
        def score_pairs(self, queries, candidates):
            clock[0] += 0.1 * len(queries)
            return super().score_pairs(queries, candidates)

    queries, candidates = [f"q{n}" for n in range(30)], [f"c{n}" for n in range(50)]
    proposer = Scores.from_matrix(np.random.default_rng(0).random((30, 50)), queries, candidates)
    options = {"queries": queries, "candidates": candidates, "cache": tmp_path / "kept", "depth": 50}
    with pytest.raises(KeyboardInterrupt):
        cascade(proposer, Slow(dies_at=1000), **options)
    n_reused = cascade(proposer, Coarse(), **options).reused
    assert 1000 - n_reused <= 50, "five seconds of work"


def test_another_scorer_or_changed_texts_are_asked_again(world, tmp_path):
    proposer, queries, candidates = world
    options = {"queries": queries, "depth": 3, "cache": tmp_path}
    cascade(proposer, Coarse(), candidates=candidates, **options)
    changed_scorer = Coarse()
    changed_scorer.fingerprint = "coarse 2"
    assert cascade(proposer, changed_scorer, candidates=candidates, **options).reused == 0
    changed = [*candidates[:-1], "c99"]
    ranking = cascade(proposer, Coarse(), candidates=changed, **options)
    assert ranking.pairs == sum("c39" in proposer.top(3)[q] for q in queries)


def test_refusals(world, tmp_path):
    proposer, queries, candidates = world

    class Bad:
        def score_pairs(self, queries, candidates):
            return np.full(len(queries), np.nan)

    ask = {"queries": queries, "candidates": candidates}
    with pytest.raises(LimnerError, match="is NaN"):
        cascade(proposer, Bad(), **ask)
    with pytest.raises(LimnerError, match="no fingerprint"):
        cascade(proposer, Bad(), cache=tmp_path, **ask)
    for depth in (0, 0.0, 1.5, -3):
        with pytest.raises(LimnerError, match="depth="):
            cascade(proposer, Coarse(), depth=depth, **ask)
    for weight in (0, -1, 1.5, float("nan")):
        with pytest.raises(LimnerError, match="weight="):
            cascade(proposer, Coarse(), weight=weight, **ask)
    with pytest.raises(LimnerError, match="39 candidate values for 40"):
        cascade(proposer, Coarse(), queries=queries, candidates=candidates[1:])


def test_items_are_found_by_their_ids(world):
    proposer, queries, candidates = world
    turned = limner.Items(candidates[::-1], candidates[::-1], kind="text")
    names = limner.Items(queries, queries, kind="text")
    ranking = cascade(proposer, Coarse(), queries=names, candidates=turned, depth=5)
    assert {q: ranking[q] for q in queries} == slow(proposer, Coarse(), 5)


def test_levenshtein_blocks_equal_pairs():
    pytest.importorskip("rapidfuzz")
    names, captions = ["Plaque Paris 5", "red dog"], ["A red Dog", "plaque in Paris", ""]
    matrix = Levenshtein().scores(names, captions).matrix()
    single = [[Levenshtein().score_pairs([n], [c])[0] for c in captions] for n in names]
    np.testing.assert_allclose(matrix, single)
