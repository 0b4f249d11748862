"""Partial judgements: what was judged, what unjudged answers could change, and judgements beside a collection."""

import itertools
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
import toys
from limner import Collection, Items, Judgements, LimnerError, Measure, Ranking, Report, Scores, evaluate
from limner.cli import app
from limner.datasets.trec import load_qrels, write_qrels

FLICKR8K = Path(os.environ.get("LIMNER_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "flickr8k"


def partial(n=12, m=15, seed=0, share=0.4, ties=False):
    """Random scores, and judgements of some of the pairs, at least one relevant for each query."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 4, (n, m)).astype(float) if ties else rng.standard_normal((n, m))
    judged = rng.random((n, m)) < share
    grades = (rng.random((n, m)) < 0.4).astype(float)
    for q in range(n):
        judged[q, q % m] = True
        grades[q, q % m] = 1.0
    queries, candidates = [f"q{i}" for i in range(n)], [f"c{j}" for j in range(m)]
    pairs = [(queries[i], candidates[j], grades[i, j]) for i, j in zip(*np.nonzero(judged), strict=True)]
    return (
        Scores.from_matrix(matrix, queries, candidates),
        Judgements.from_pairs(pairs, queries=queries, candidates=candidates),
        judged,
        grades,
    )


def all_right(judgements, judged, grades):
    """The oracle: every pair that nobody judged is relevant."""
    full = np.where(judged, grades, 1.0)
    pairs = [
        (judgements.queries[i], judgements.candidates[j], full[i, j])
        for i, j in itertools.product(*map(range, full.shape))
    ]
    return Judgements.from_pairs(pairs, queries=judgements.queries, candidates=judgements.candidates)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    "measure", ["R@1", "R@5", "S@3", "P@3", "MRR", "MRR@2", "MedR", "MeanR", "Recall@3", "mAP@R", "RP", "nDCG@5", "MAP"]
)
def test_the_range_goes_from_all_unjudged_wrong_to_all_right(measure, ties):
    """These are its ends, unless the measure divides by the number of relevant candidates; then they lie within."""
    scores, judgements, judged, grades = partial(ties=ties)
    result = evaluate(scores, judgements, measures=measure).find(measure)
    oracle = evaluate(scores, all_right(judgements, judged, grades), measures=measure).find(measure)
    low, high = sorted((result.value, oracle.value))
    if measure in ("Recall@3", "mAP@R", "RP", "nDCG@5", "MAP"):
        assert result.possible[0] < low < high < result.possible[1]
    else:
        assert result.possible == pytest.approx((low, high)) and low < high


def test_min_grade_counts_a_weak_match_as_judged_wrong():
    scores = Scores.from_matrix([[3.0, 2.0, 1.0, 0.0]], ["q"], list("abcd"))
    report = evaluate(scores, Judgements.from_pairs(
        [("q", "a", 1.0), ("q", "c", 2.0), ("q", "d", 0.0)], candidates="abcd"
    ), measures="R@1(min_grade=2) R@2(min_grade=2)")  # fmt: skip
    assert report.find("R@1(min_grade=2)").possible == (0, 0) and report.find("R@2(min_grade=2)").possible == (0, 1)


@pytest.mark.parametrize("ties", [False, True])
def test_judged_is_the_share_of_the_first_k_that_somebody_judged(ties):
    scores, judgements, judged, _ = partial(ties=ties)
    report = evaluate(scores, judgements, measures="R@1 R@5 Judged@3", ties="order")
    order = [[scores.candidates.index(c) for c in scores.ranking()[q]] for q in scores.queries]
    for k in (1, 3, 5):
        expected = [np.mean([judged[q, c] for c in row[:k]]) for q, row in enumerate(order)]
        assert report.find(f"Judged@{k}").values == pytest.approx(expected)


def test_judged_of_complete_judgements_is_whole_and_nothing_is_bounded():
    scores, judgements, *_ = partial(share=1.1)
    report = evaluate(scores, judgements, measures="R@1 Judged@20")
    assert report.value("Judged@20") == 1 and "unjudged" not in str(report)


def test_labels_of_positives_alone_say_nothing_of_what_was_judged():
    toy = toys.collection()
    report = evaluate(toys.scores(toy), toy, measures="R@1 R@5")
    assert {str(r.measure) for r in report.results} == {"R@1", "R@5"} and "unjudged" not in str(report)


def test_a_short_list_does_not_say_how_much_of_it_was_judged():
    run = Ranking.from_lists({"q": ["a"]}, candidates="abc")
    judgements = Judgements.from_pairs([("q", "a"), ("q", "b", 0.0)], candidates="abc")
    assert [str(r.measure) for r in evaluate(run, judgements, measures="R@2").results] == ["R@2"], "nobody asked for it"
    with pytest.raises(LimnerError, match="Judged@2 cannot be computed from a truncated ranking"):
        evaluate(run, judgements, measures="Judged@2")


def test_queries_judged_only_negative_may_have_a_match():
    """One query has a match, nine have none among the judged: each of these may have its first match at any rank."""
    queries, candidates = [f"q{q}" for q in range(10)], [f"c{c}" for c in range(50)]
    scores = Scores.from_matrix(np.tile(np.arange(50.0, 0.0, -1.0), (10, 1)), queries, candidates)
    pairs = [("q0", "c0", 1.0), *((query, "c0", 0.0) for query in queries[1:])]
    report = evaluate(scores, Judgements.from_pairs(pairs, candidates=candidates), measures="R@1 R@2 MeanR MedR")
    ends = {str(r.measure): r.possible for r in report.results if not r.measure.kind.judged}
    assert ends == {"R@1": (0.1, 1.0), "R@2": (0.1, 1.0), "MeanR": (1.0, (1 + 9 * 50) / 10), "MedR": (1.0, 50.0)}
    assert {str(r.measure): r.value for r in report.results}["R@1"] == 1, "the queries without a match are not counted"


def test_the_range_of_folds_is_over_the_queries_of_each_fold():
    """One fold has a query with a match; the other counts if the unjudged candidate of its query is right."""
    images, texts = [f"i{k}" for k in range(2)], [f"t{k}" for k in range(4)]
    folds = [{"fold": [k * 2 // n for k in range(n)]} for n in (2, 4)]
    collection = Collection(
        "toy", Items(images, [None] * 2, folds[0]), Items(texts, texts, folds[1], kind="text"),
        Judgements.from_pairs([("i0", "t0", 1.0), ("i0", "t1", 0.0), ("i1", "t2", 0.0)]),
    )  # fmt: skip
    scores = Scores.from_matrix(np.array([[4.0, 3, 2, 1], [1, 2, 4, 3]]), images, texts)
    results = evaluate(scores, collection, protocol="coco-1k", measures="R@1 MeanR").results
    by_measure = {str(r.measure): r for r in results if r.direction == "i2t"}
    assert by_measure["R@1"].value == 1 and by_measure["R@1"].possible == (0.5, 1.0)
    assert by_measure["MeanR"].possible == (1.0, 1.5)


def test_the_table_the_files_and_the_page_show_both_ends(tmp_path):
    scores, judgements, *_ = partial()
    report = evaluate(scores, judgements, measures="R@1 MRR")
    text = str(report)
    assert "pairs: lowest to highest, whatever the unjudged pairs are" in text and "Judged@1" in text
    result = report.find("R@1")
    assert " to ".join(map(result.measure.show, result.possible)) in text
    reloaded = Report.load(report.save(tmp_path / "r.json"))
    assert reloaded.find("R@1").possible == result.possible and str(reloaded) == text
    assert "whatever the unjudged pairs are" in report.save(tmp_path / "r.html").read_text()
    (row,) = [row for row in report.rows() if row["measure"] == "R@1"]
    assert (row["lowest"], row["highest"]) == result.possible


@pytest.mark.parametrize("measures", ["MRR", "MedR mAP@R"])
def test_the_judged_share_is_shown_where_no_measure_has_a_cut(measures):
    scores, judgements, *_ = partial()
    report = evaluate(scores, judgements, measures=measures)
    assert "Judged@10" in str(report) and 0 < report.value("Judged@10") < 1


def test_every_form_says_the_share_and_both_ends(tmp_path):
    """Terminal, JSON, CSV, page, and the page of a server."""
    from limner.web.side_by_side import with_range

    scores, judgements, *_ = partial()
    report = evaluate(scores, judgements, measures="R@1")
    result, ends = report.find("R@1"), "{:.1f} to {:.1f}"
    ends = ends.format(*(100 * end for end in result.possible))
    assert (
        ends in str(report) and with_range(result) == f"{100 * result.value:.1f} ({ends})" and "Judged@1" in str(report)
    )
    (saved,) = [r for r in json.loads(report.save(tmp_path / "r.json").read_text())["results"] if r["measure"] == "R@1"]
    assert saved["value"] == result.value and tuple(saved["possible"]) == result.possible
    for ending in ("csv", "md", "tex", "html"):
        assert "Judged@1" in report.save(tmp_path / f"r.{ending}").read_text()
    page = (tmp_path / "r.html").read_text()
    assert f"{ends} whatever the unjudged pairs are" in page and f"possible: {ends}" in page


def test_rsum_has_a_bound_of_its_parts():
    toy = toys.collection(n=8, per_image=1)
    judged = Judgements.from_pairs([("i0", "t1", 0.0), ("i3", "t4", 1.0)])
    report = evaluate(toys.scores(toy), toy, measures="rsum", judgements={"people": judged})
    parts = [r.possible for r in report.results if r.view == "people" and r.direction != "both" and r.possible]
    assert report.find("rsum", view="people").possible == pytest.approx(100 * np.sum(parts, axis=0))


# --- judgements beside a collection -----------------------------------------------------------------------------


@pytest.fixture
def merged(tmp_path, monkeypatch):
    """A collection, a matrix in its order, and judgements whose order is another."""
    monkeypatch.chdir(tmp_path)
    toy = toys.collection(n=20, per_image=2)
    lines = ["image,caption,id"] + [f"i{k // 2},caption {k},t{k}" for k in range(40)]
    Path("captions.csv").write_text("\n".join(lines) + "\n")
    np.save("s.npy", toys.scores(toy).matrix() if hasattr(Scores, "matrix") else toys.scores(toy).block(0, 20))
    better = Judgements.from_pairs(
        [*[(f"i{k}", f"t{2 * k}") for k in reversed(range(20))], ("i0", "t9"), ("i1", "t5", 0)]
    )
    write_qrels(better, "better.qrels")
    return toy, better


def shell(*words, status=0):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == status, done.output
    return done.output


def test_a_bare_matrix_is_not_matched_to_a_file_of_judgements(merged):
    output = shell("evaluate", "better.qrels", "--scores", "s.npy", status=3)
    assert "whose order is arbitrary" in output and "--judgements FILE" in output


def test_a_qrels_collection_has_no_order(merged):
    assert not load_qrels("better.qrels").ordered and toys.collection().ordered


def test_judgements_beside_a_collection(merged):
    toy, better = merged
    report = evaluate(toys.scores(toy), toy, measures="R@1", judgements=better)
    joined = evaluate(toys.scores(toy), Collection("j", toy.images, toy.texts, better | toy.judgements), measures="R@1")
    for direction in ("i2t", "t2i"):
        assert report.value("R@1", view="judged", direction=direction) == joined.value("R@1", direction=direction)
        assert report.value("R@1", view="pairs", direction=direction) > 0
    turned = evaluate(toys.scores(toy), toy, measures="R@1", judgements={"judged": better.T})
    assert turned.value("R@1", view="judged", direction="i2t") == report.value("R@1", view="judged", direction="i2t")
    with pytest.raises(LimnerError, match="none of its images and texts"):
        evaluate(toys.scores(toy), toy, judgements=Judgements.from_pairs([("x", "y")]))
    with pytest.raises(LimnerError, match="judgements needs a Collection"):
        evaluate(toys.scores(toy), better, judgements=better)


def test_an_original_that_was_judged_wrong_stays_wrong():
    toy = toys.collection(n=2, per_image=1)
    perfect = Scores.from_matrix(np.eye(2), toy.images.ids, toy.texts.ids)
    judged = Judgements.from_pairs([("i0", "t0", 0.0), ("i0", "t1", 1.0)])
    report = evaluate(perfect, toy, measures="R@1", judgements={"people": judged})
    assert report.find("R@1", view="people", direction="i2t").values.tolist() == [0, 1]


def test_judgements_beside_a_collection_at_the_shell(merged):
    toy, better = merged
    expected = evaluate(toys.scores(toy), toy, measures="R@1", judgements={"better": better})
    words = ("evaluate", "captions.csv", "--scores", "s.npy", "--measures", "R@1", "--judgements", "better.qrels")
    output = shell(*words, "-o", "r.json", "-o", "r.html")
    assert "better" in output and "pairs" in output
    saved = Report.load("r.json")
    for direction in ("i2t", "t2i"):
        assert saved.value("R@1", view="better", direction=direction) == pytest.approx(
            expected.value("R@1", view="better", direction=direction), abs=1e-6
        )
    (Path("s.run")).write_text("i0 Q0 t0 1 1 t\n")
    assert "--judgements is for a COLLECTION" in shell(
        "evaluate", "better.qrels", "--run", "s.run", "--judgements", "better.qrels", status=2
    )


# --- the pool that was judged -----------------------------------------------------------------------------------


def judged_collection():
    """Three images with two captions each, of which only the first was ever judged."""
    images, texts = [f"i{k}" for k in range(3)], [f"t{k}" for k in range(6)]
    pairs = Judgements.from_pairs([(f"i{k // 2}", f"t{k}") for k in range(6)])
    crowd = [("i0", "t0", 1.0), ("i0", "t2", 1.0), ("i1", "t2", 0.0), ("i2", "t0", 0.0), ("i2", "t4", 0.0)]
    return Collection(
        "toy",
        Items(images, [None] * 3),
        Items(texts, texts, kind="text"),
        pairs,
        extra={"crowd": Judgements.from_pairs(crowd)},
    )


def test_a_judged_view_is_of_the_pool_that_was_judged():
    toy = judged_collection()
    matrix = np.full((3, 6), -1.0)
    matrix[:, [1, 3, 5]] = 5.0  # captions that nobody judged come first in the whole pool
    matrix[[0, 1, 2], [0, 2, 4]] = 1.0
    report = evaluate(Scores.from_matrix(matrix, toy.images.ids, toy.texts.ids), toy, measures="S@1 R@1")
    assert report.value("R@1", view="pairs", direction="i2t") == pytest.approx(1 / 3)
    crowd = report.find("S@1", view="crowd", direction="i2t")
    assert crowd.values.tolist() == [1.0] and list(crowd.queries) == [
        "i0"
    ]  # i1 and i2: their originals were judged wrong
    assert any("among the 3 of 6 candidates that were judged" in note for note in report.notes)
    assert report.settings["judged_pool"]["crowd i2t"] == 3


def test_the_page_says_when_a_view_has_another_pool(tmp_path):
    toy = judged_collection()
    scores = Scores.from_matrix(np.arange(18.0).reshape(3, 6), toy.images.ids, toy.texts.ids)
    report = evaluate(scores, toy, measures="R@1")
    assert "among the 3 captions that were judged" in report.save(tmp_path / "r.html", collection=toy).read_text()


def test_a_view_of_ratings_takes_its_threshold():
    from limner.evaluation.partial_judgements import combined_judgements
    from limner.evaluation.protocols import View

    toy = judged_collection()
    votes = Judgements.from_pairs([("i0", "t2", 0.5), ("i1", "t4", 0.4)])
    rated = Collection(toy.name, toy.images, toy.texts, toy.judgements, extra=toy.extra, ratings={"crowd": votes})
    view = View("crowd", "crowd", originals="all", threshold=0.5)
    assert len(combined_judgements(view, rated, "i2t")) == 7 and len(combined_judgements(view, rated, "t2i")) == 7


needs_flickr8k = pytest.mark.skipif(not FLICKR8K.is_dir(), reason=f"needs Flickr8k in {FLICKR8K} (LIMNER_DATA)")


@cache
def flickr8k(*captions):
    """The test part with all captions or some: read once for all tests here, which only look at it."""
    return limner.load(f"flickr8k:{FLICKR8K}", **({"captions": list(captions)} if captions else {})).test


@needs_flickr8k
@pytest.mark.parametrize("captions", [[2], []])
def test_a_system_that_returns_the_original_first_has_success_1(captions):
    test = flickr8k(*captions)
    originals = np.zeros((len(test.images), len(test.texts)), dtype=np.float32)
    originals[test.judgements.rows, test.judgements.columns] = 1
    report = evaluate(Scores.from_matrix(originals, test.images.ids, test.texts.ids), test, protocol="flickr8k-judged")
    for view in ("crowd", "expert"):
        for direction in ("i2t", "t2i"):
            result = report.find("S@1", view=view, direction=direction)
            assert result.value == 1 and len(result.queries) == 1000
    assert report.value("R@1", view="flickr8k-judged", direction="t2i") == 1
    assert not any("not comparable with published" in note for note in report.notes)


@needs_flickr8k
def test_the_crowd_adds_pairs_to_the_thousand_originals():
    from limner.evaluation.partial_judgements import combined_judgements
    from limner.evaluation.protocols import PROTOCOLS

    test = flickr8k(2)
    crowd = next(v for v in PROTOCOLS["flickr8k-judged"].views if v.name == "crowd")
    for direction in ("i2t", "t2i"):
        assert len(combined_judgements(crowd, test, direction)) == 1000 + 2031  # as printed, section 4.3.2


@needs_flickr8k
def test_only_the_judged_caption_of_five_is_searched():
    five = flickr8k()
    one = flickr8k(2)
    rng = np.random.default_rng(0)
    matrix = rng.random((1000, 5000), dtype=np.float32)
    matrix[five.judgements.rows, five.judgements.columns] += 0.9
    scores = Scores.from_matrix(matrix, five.images.ids, five.texts.ids)
    inner = scores.restrict(queries=one.images.ids, candidates=one.texts.ids)
    reports = [evaluate(scores, five), evaluate(inner, one)]
    for view, measure in itertools.product(("crowd", "expert"), ("R@1", "Judged@1", "mAP@R")):
        for direction in ("i2t", "t2i"):
            full_result, part = (r.find(measure, view=view, direction=direction) for r in reports)
            assert full_result.value == pytest.approx(part.value) and full_result.possible == part.possible
    assert any("expert (i2t): measured among the 977 of 5,000 candidates" in note for note in reports[0].notes)


def test_judged_is_a_measure():
    assert str(Measure.parse("judged@10")) == "Judged@10"
