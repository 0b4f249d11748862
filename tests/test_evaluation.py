"""evaluate: both directions, every way in, protocols, folds, rsum; against plain loops."""

import numpy as np
import pytest

import toys
from limner import Judgements, LimnerError, Measure, Ranking, Scores, evaluate
from limner.protocols import PROTOCOLS


@pytest.fixture(scope="module")
def toy():
    return toys.collection()


@pytest.fixture(scope="module")
def scored(toy):
    return toys.scores(toy)


def slow_first_ranks(matrix, positives, pools=None):
    ranks = []
    for q, row in enumerate(matrix):
        pool = range(len(row)) if pools is None else pools[q]
        best = max(row[p] for p in positives[q])
        ranks.append(1 + sum(row[c] > best for c in pool))
    return np.array(ranks)


def test_both_directions_against_plain_loops(toy, scored):
    report = evaluate(scored, toy)
    matrix = scored.matrix()
    image_ranks = slow_first_ranks(matrix, [range(5 * q, 5 * q + 5) for q in range(60)])
    text_ranks = slow_first_ranks(matrix.T, [[q // 5] for q in range(300)])
    for direction, ranks in (("i2t", image_ranks), ("t2i", text_ranks)):
        for k in (1, 5, 10):
            assert report.value(f"R@{k}", direction=direction) == pytest.approx((ranks <= k).mean())
        assert report.value("MedR", direction=direction) == np.median(ranks)
        assert report.value("MRR", direction=direction) == pytest.approx((1 / ranks).mean())
    sums = [100 * (ranks <= k).mean() for ranks in (image_ranks, text_ranks) for k in (1, 5, 10)]
    assert report.value("rsum") == pytest.approx(sum(sums))


def test_rsum_has_an_interval_around_it(toy, scored):
    rsum = evaluate(scored, toy, measures="rsum").find("rsum")
    assert rsum.interval.low < rsum.value < rsum.interval.high


def test_every_way_in_gives_the_same(toy, scored, tmp_path):
    expected = [r.value for r in evaluate(scored, toy).results]
    matrix = Scores.from_matrix(scored.matrix(), toy.images.ids, toy.texts.ids)
    lists = {"i2t": scored.ranking(), "t2i": scored.T.ranking()}
    runs = {d: Ranking.load(r.save(tmp_path / f"{d}.run"), candidates=r.candidates) for d, r in lists.items()}
    for system in (scored.T, matrix, lists, runs):
        assert [r.value for r in evaluate(system, toy).results] == pytest.approx(expected, abs=1e-12)


def test_one_ranking_is_one_direction(toy, scored):
    report = evaluate(scored.T.ranking(), toy, measures="R@1")
    assert [r.direction for r in report.results] == ["t2i"]


def test_plain_judgements_and_a_run():
    run = Ranking.from_lists({"q1": ["a", "b"], "q2": ["b", "a"]}, candidates="ab")
    report = evaluate(run, Judgements.from_pairs([("q1", "b"), ("q2", "b")]), measures="MRR R@1 rsum")
    assert report.value("MRR") == 0.75 and [str(r.measure) for r in report.results] == ["MRR", "R@1"]


def test_folds_are_the_mean_of_evaluating_each_fold_alone(monkeypatch):
    toy = toys.collection(folds=5)
    scored = toys.scores(toy)
    monkeypatch.setattr("limner.protocols.Protocol.notes", lambda self, collection: [])
    report = evaluate(scored, toy, protocol="coco-1k")
    alone = []
    for fold in range(5):
        part = toy.restrict([i for i, f in zip(toy.images.ids, toy.images.field("fold"), strict=True) if f == fold])
        inner = Scores.from_embeddings(
            scored.query_vectors.subset(part.images.ids), scored.candidate_vectors.subset(part.texts.ids)
        )
        alone.append(evaluate(inner, part, measures="R@1 R@5 R@10 MedR rsum"))
    for result in report.results:
        each = [a.value(result.measure, direction=result.direction) for a in alone]
        assert result.value == pytest.approx(np.mean(each)), result


def test_each_judgement_of_the_collection_is_a_view():
    toy = toys.collection(extra=True)
    report = evaluate(toys.scores(toy), toy, measures="R@1 Recall@10")
    assert {r.view for r in report.results} == {"pairs", "complete"}
    assert report.value("R@1", direction="t2i", view="complete") >= report.value("R@1", direction="t2i", view="pairs")


def test_captions_of_one_image_are_one_cluster(toy, scored):
    result = evaluate(scored, toy, measures="R@1").find("R@1", direction="t2i")
    assert result.clusters.tolist() == [k // 5 for k in range(300)] and result.interval.unit == "clusters"


def test_keep_makes_hubs_and_examples(toy, scored):
    assert evaluate(scored, toy, keep=0).hubs == {}
    report = evaluate(scored, toy, keep=3)
    assert report.hubs["i2t"].k == 3 and report.hubs["i2t"].counts.sum() == 60 * 3


def test_progress_is_told(toy, scored):
    seen = []
    evaluate(scored, toy, progress=lambda done, total: seen.append((done, total)))
    assert (60, 60) in seen and (300, 300) in seen


def test_a_protocol_says_when_the_test_set_is_another(toy, scored):
    report = evaluate(scored, toy, protocol="coco-5k")
    assert "coco-5k is defined on 5,000 images; this collection has 60" in report.notes[0]


def test_positives_outside_the_pool_are_noted(toy, scored):
    fewer = Scores.from_embeddings(scored.query_vectors, scored.candidate_vectors.subset(toy.texts.ids[:-1]))
    assert (
        "1 relevant candidates are not in the pool and are left out"
        in evaluate({"i2t": fewer}, toy, measures="R@1").notes[0]
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, t: (s, t, {"protocol": "coco-6k"}), "unknown protocol 'coco-6k': did you mean"),
        (lambda s, t: (s, t, {"protocol": "cxc"}), "needs the judgements 'cxc'"),
        (lambda s, t: (s, t, {"protocol": "coco-1k"}), "cuts the pool by the field 'fold'"),
        (lambda s, t: ("scores", t, {}), "got str: expected Scores"),
        (lambda s, t: ({"images": s}, t, {}), "expected 'i2t'"),
        (lambda s, t: (Scores.from_matrix(np.ones((2, 2)), "ab", "cd"), t, {}), "neither the images .* nor the texts"),
        (lambda s, t: ({"i2t": s, "t2i": s.T}, t.judgements, {}), "expected one Scores or Ranking"),
        (lambda s, t: (s.top(3), t, {"measures": "R@10"}), "truncated"),
    ],
)
def test_refused(toy, scored, change, message):
    system, truth, options = change(scored, toy)
    with pytest.raises(LimnerError, match=message):
        evaluate(system, truth, **options)


def test_every_protocol_measures_what_it_names():
    for protocol in PROTOCOLS.values():
        assert protocol.views and protocol.about
        assert all(isinstance(m, Measure) for view in protocol.views for m in view.measures)
