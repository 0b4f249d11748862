"""Queries that only one of run and judgements has, reports in another order, and runs whose columns disagree."""

import numpy as np
import pytest
from typer.testing import CliRunner

import toys
from limner import Collection, Judgements, LimnerError, Ranking, compare, evaluate
from limner.cli import app
from limner.datasets.runs import read_run

RUN = "a Q0 x 1 3 t\na Q0 y 2 2 t\nb Q0 y 1 3 t\nd Q0 x 1 1 t\n"
QRELS = "a 0 x 1\nb 0 x 1\nc 0 y 1\ne 0 y 0\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.run").write_text(RUN)
    (tmp_path / "t.qrels").write_text(QRELS)
    return tmp_path


def shell(*words, status=0):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == status, done.output
    return done.output


# --- missing queries --------------------------------------------------------------------------------------------


def judged():
    return Judgements.from_pairs([("a", "x"), ("b", "x"), ("c", "y"), ("e", "y", 0.0)])


def ranked():
    return Ranking.from_lists({"a": ["x", "y"], "b": ["y"], "d": ["x"]})


def test_a_missing_query_is_refused_with_the_ways_out():
    with pytest.raises(LimnerError, match=r"1 queries of the judgements 'pairs' are not ranked \('c'\).*missing="):
        evaluate(ranked(), judged(), measures="R@1", unretrieved="never")


def test_a_missing_query_counts_as_an_empty_list():
    report = evaluate(ranked(), judged(), measures="R@1 MRR MeanR", unretrieved="never", missing="empty")
    assert report.find("R@1").values.tolist() == [1, 0, 0] and report.value("MRR") == pytest.approx(1 / 3)
    assert list(report.find("R@1").queries) == ["a", "b", "c"] and report.value("MeanR") == np.inf
    assert any(
        "1 queries with relevant candidates are not ranked ('c') and count as empty lists" in n for n in report.notes
    )
    assert any("1 queries of the ranking have no judgements ('d') and do not count" in n for n in report.notes)


def test_an_empty_list_is_complete_even_where_others_are_cut_off():
    report = evaluate(
        Ranking.from_lists({"a": ["x"]}),
        Judgements.from_pairs([("a", "x"), ("c", "y")]),
        measures="R@1",
        missing="empty",
    )
    assert report.find("R@1").values.tolist() == [1, 0]


def test_a_missing_query_is_left_out():
    report = evaluate(ranked(), judged(), measures="R@1", unretrieved="never", missing="skip")
    assert report.find("R@1").values.tolist() == [1, 0] and report.settings["missing"] == "skip"
    assert any("('c') and are left out" in n for n in report.notes)


def test_both_ways_with_a_collection():
    toy = toys.collection(n=6, per_image=1)
    run = Ranking.from_lists({"i0": ["t0"], "i1": ["t1"]}, candidates=toy.texts.ids)
    for missing, n in (("empty", 6), ("skip", 2)):
        report = evaluate(run, toy, measures="R@1", unretrieved="never", missing=missing)
        assert len(report.find("R@1").queries) == n
    partial = toys.scores(toy).restrict(queries=toy.images.ids[:4], candidates=toy.texts.ids)
    report = evaluate({"i2t": partial}, toy, measures="R@1", missing="skip")
    assert len(report.find("R@1").queries) == 4
    with pytest.raises(LimnerError, match="missing='empty' is for rankings"):
        evaluate({"i2t": partial}, toy, measures="R@1", missing="empty")


def test_an_unknown_choice_is_refused():
    with pytest.raises(LimnerError, match="unknown value 'drop' of missing"):
        evaluate(ranked(), judged(), missing="drop")


def test_missing_queries_at_the_shell(files):
    words = ("evaluate", "t.qrels", "--run", "s.run", "--measures", "R@1", "--missing", "never")
    assert "--missing" in shell(*words, status=3)
    assert "count as empty lists" in shell(*words, "--missing", "empty")
    assert "are left out" in shell(*words, "--missing", "skip")


# --- the same queries in another order --------------------------------------------------------------------------


def shuffled(of: Collection, seed: int = 3) -> Collection:
    rng = np.random.default_rng(seed)
    images, texts = (items[rng.permutation(len(items))] for items in (of.images, of.texts))
    return Collection(of.name, images, texts, of.judgements)


@pytest.mark.parametrize("measures", ["R@1 MedR MRR rsum", "R@5"])
def test_reports_of_another_order_are_compared_by_id(measures):
    toy = toys.collection()
    first_scores, second_scores = toys.scores(toy), toys.scores(toy, seed=5)
    turned = shuffled(toy)
    first = evaluate(first_scores, toy, measures=measures, name="one")
    second = evaluate(second_scores, toy, measures=measures, name="other")
    moved = evaluate(
        second_scores.restrict(queries=turned.images.ids, candidates=turned.texts.ids),
        turned,
        measures=measures,
        name="other",
    )
    expected, actual = compare([first, second], samples=999), compare([first, moved], samples=999)
    for a, b in zip(expected.lines, actual.lines, strict=True):
        assert a.values == pytest.approx(b.values)
        for x, y in zip(a.differences, b.differences, strict=True):
            assert x.value == pytest.approx(y.value) and x.test.p_value == pytest.approx(y.test.p_value)
            assert (x.interval.low, x.interval.high) == pytest.approx((y.interval.low, y.interval.high))


def test_other_queries_are_still_refused():
    toy = toys.collection()
    part = toy.restrict(toy.images.ids[:30])
    scores = toys.scores(toy)
    inner = scores.restrict(queries=part.images.ids, candidates=part.texts.ids)
    reports = [evaluate(scores, toy, measures="R@1"), evaluate(inner, part, measures="R@1")]
    with pytest.raises(LimnerError, match="30 queries are in only one report"):
        compare(reports, allow_different=True)


# --- rank and score of a run ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "contradictions"),
    [
        (RUN, 0),
        ("a Q0 x 1 1 t\na Q0 y 2 2 t\nb Q0 y 1 3 t\n", 1),
        ("a Q0 x 2 1 t\na Q0 y 1 2 t\n", 0),  # out of order, but rank and score agree
        ("a Q0 x 0 1 t\na Q0 y 0 2 t\n", 0),  # ranks that say nothing
        ("a Q0 x 1 2 t\nb Q0 x 2 2 t\na Q0 y 2 3 t\nb Q0 y 1 1 t\n", 2),  # lines of two queries, mixed
        ("a Q0 x - 1 t\na Q0 y - 2 t\n", 0),  # no ranks
    ],
)
def test_a_rank_column_that_contradicts_the_scores_is_told(tmp_path, text, contradictions):
    (tmp_path / "s.run").write_text(text)
    run = read_run(tmp_path / "s.run")
    assert run["a"] == [c for _, c in sorted(_scored(text, "a"), reverse=True)]
    assert len(run.notes) == bool(contradictions)
    if contradictions:
        assert f"in {contradictions} of" in run.notes[0] and "ordered by score" in run.notes[0]
        report = evaluate(run, Judgements.from_pairs([("a", "x")]), measures="R@1")
        assert run.notes[0] in report.notes


def _scored(text, query):
    rows = [line.split() for line in text.splitlines()]
    return [(float(row[4]), row[2]) for row in rows if row[0] == query]
