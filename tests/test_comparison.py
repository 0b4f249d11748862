"""Comparing systems: tests, marks, correction, agreement of measures."""

import json
from dataclasses import replace

import numpy as np
import pytest

import toys
from limner import Collection, Judgements, LimnerError, Ranking, Scores, compare, evaluate
from limner.stats import holm, mcnemar


@pytest.fixture(scope="module")
def reports():
    toy = toys.collection()
    noises = {"good": 0.6, "fair": 1.2, "poor": 2.5}
    return [evaluate(toys.scores(toy, noise=noise), toy, name=name) for name, noise in noises.items()]


def test_two_systems(reports):
    comparison = reports[0].compare(reports[2], samples=2000)
    line = comparison.line("R@1", direction="i2t")
    difference = line.differences[0]
    assert difference.value == pytest.approx(line.values[0] - line.values[1])
    assert difference.interval.low <= difference.value <= difference.interval.high
    assert difference.significant() and line.beaten(0) == [1] and line.beaten(1) == []
    a, b = (r.find("R@1", direction="i2t").values for r in (reports[0], reports[2]))
    assert difference.test == mcnemar(a, b)  # hits of independent queries


def test_lower_ranks_win(reports):
    assert reports[0].compare(reports[2], samples=2000).line("MedR", direction="t2i").beaten(0) == [1]


def test_captions_of_an_image_are_swapped_together(reports):
    method = reports[0].compare(reports[1], samples=500).line("R@1", direction="t2i").differences[0].test.method
    assert "randomisation" in method and "cluster" in method


def test_many_systems_are_corrected_together(reports):
    compared = compare(reports, samples=2000, family="line")
    line = compared.line("MRR", direction="i2t")
    raw = [d.test.p_value for d in line.differences]
    assert [d.p_adjusted for d in line.differences] == pytest.approx(list(holm(raw)))
    assert line.beaten(0) == [1, 2] and line.between(0, 2).value > line.between(0, 1).value
    assert "over the 3 pairs of systems within each line, not over the lines" in str(compared)


def test_all_marks_of_a_table_are_one_family(reports):
    """Who reads the whole table must be wrong about any mark one time in twenty, not one time in seven."""
    table, lines = (compare(reports, samples=400, family=family) for family in ("table", "line"))
    every = [d for line in table.lines for d in line.differences]
    assert [d.p_table for d in every] == pytest.approx(list(holm([d.test.p_value for d in every])))
    assert [d.p_adjusted for d in every] == [d.p_table for d in every]
    assert [d.p_line for d in every] == [d.p_adjusted for line in lines.lines for d in line.differences]
    assert all(d.p_table >= d.p_line for d in every)
    assert f"corrected over all {len(every)} comparisons of the table (Holm)" in str(table)
    assert compare(reports[:2], samples=200).family == "table"
    two = str(compare(reports[:2], samples=200))
    assert "p (Holm, table)" in two and "p (Holm, line)" in str(compare(reports[:2], samples=200, family="line"))


def test_every_form_says_what_was_corrected(reports, tmp_path):
    for family in ("table", "line"):
        compared = compare(reports, samples=200, family=family)
        for ending in ("md", "tex"):
            assert compared.corrected in compared.save(tmp_path / f"c.{ending}").read_text()
        content = json.loads(compared.save(tmp_path / "c.json").read_text())
        assert content["family"] == family and {"p", "p_holm", "p_holm_table"} <= content["rows"][0].keys()


@pytest.mark.parametrize("test", ["randomisation", "sign", "wilcoxon"])
def test_a_test_by_name(reports, test):
    assert compare(reports[:2], test=test, samples=500).line("MRR", direction="i2t").differences[0].test.p_value < 0.05


@pytest.mark.parametrize("test", ["mcnemar", "sign", "wilcoxon", "randomisation", "auto"])
def test_every_test_goes_by_image_where_captions_share_one(reports, test):
    comparison = compare(reports[:2], test=test, samples=500)
    texts, images = (comparison.line("R@1", direction=d).differences[0].test.method for d in ("t2i", "i2t"))
    assert "by cluster" in texts and "by cluster" not in images


def test_mcnemar_is_for_hits_and_misses(reports):
    """Other lines are tested by randomisation, and a note says so."""
    comparison = compare(reports[:2], test="mcnemar", samples=500)
    methods = {str(n.measure): n.differences[0].test.method for n in comparison.lines if n.direction == "i2t"}
    assert methods["R@1"].startswith("McNemar") and methods["MRR"].startswith("Fisher")
    assert any("mcnemar is for hits and misses" in note for note in comparison.notes)


def grouped_runs(seed, *, groups, queries=200):
    rng = np.random.default_rng(seed)
    ids = [f"{k // 5} {k % 5}" for k in range(queries)]
    truth = Judgements.from_pairs([(q, "a") for q in ids], candidates="ab")
    shared = np.repeat(rng.standard_normal(queries // 5), 5) + 0.3 * rng.standard_normal(queries)
    scores = Scores.from_matrix(np.stack([shared, np.zeros(queries)], axis=1), ids, "ab")
    groups_by_query = {q: q.partition(" ")[0] for q in ids} if groups else None
    return evaluate(scores, truth, measures="R@1", groups=groups_by_query, name=f"s{seed}")


def test_plain_judgements_go_by_group_where_there_are_groups():
    alone, grouped = (compare([grouped_runs(s, groups=g) for s in (0, 1)]) for g in (False, True))
    assert "McNemar" in alone.lines[0].differences[0].test.method
    assert "by cluster" in grouped.lines[0].differences[0].test.method
    assert any("queries count as independent" in note for note in alone.notes) and not grouped.notes
    with pytest.raises(LimnerError, match="grouped in one report and not in the other"):
        compare([grouped_runs(0, groups=True), grouped_runs(1, groups=False)])


def test_reports_that_were_measured_differently_are_refused():
    toy = toys.collection(n=20)
    flat = Scores.from_matrix(np.zeros((20, 100)), toy.images.ids, toy.texts.ids)
    expected, ordered = (evaluate(flat, toy, ties=ties, measures="R@1 MRR") for ties in ("expected", "order"))
    with pytest.raises(LimnerError, match="not comparable: ties is 'expected' in one and 'order' in another"):
        compare([ordered, expected])
    allowed = compare([ordered, expected], samples=200, allow_different=True)
    assert "ties is 'expected' in one and 'order' in another" in " ".join(allowed.notes)


def test_other_truths_pools_and_collections_are_refused():
    toy = toys.collection(n=20, extra=True)
    scores = toys.scores(toy)
    plain = evaluate(scores, toy, measures="R@1")
    with pytest.raises(LimnerError, match="the collections are 'toy' and 'other'"):
        compare([plain, replace(plain, collection="other")])
    relabelled = Collection(
        "toy", toy.images, toy.texts, toy.extra["complete"].with_name("pairs"), extra=dict(toy.extra)
    )
    with pytest.raises(LimnerError, match="what is relevant under pairs i2t differs"):
        compare([plain, evaluate(scores, relabelled, measures="R@1")])
    lists = {d: s.ranking() for d, s in (("i2t", scores), ("t2i", scores.T))}
    smaller = {d: Ranking(r.queries, r.candidates, r.indices, None, r.n_candidates + 7) for d, r in lists.items()}
    with pytest.raises(LimnerError, match="i2t was ranked against 100 candidates in one and 107 in another"):
        compare([plain, evaluate(smaller, toy, measures="R@1", unretrieved="refuse")])
    with pytest.raises(LimnerError, match="unretrieved"):
        compare([plain, evaluate(lists, toy, measures="R@1", unretrieved="never")])


def test_versions_are_noted(reports):
    newer = replace(reports[1], settings={**reports[1].settings, "version": "99"})
    assert any("versions of limner" in note for note in compare([reports[0], newer], samples=200).notes)


def test_folds_of_unequal_size_are_tested_as_they_are_counted(monkeypatch):
    """The randomisation test is on the difference that is shown: the mean over folds."""
    monkeypatch.setattr("limner.evaluation.protocols.Protocol.notes", lambda self, collection: [])
    toy = toys.collection(n=12)
    fold = [0] * 10 + [1] * 2
    cut = Collection(
        "cut", toy.images.with_fields(fold=fold), toy.texts.with_fields(fold=np.repeat(fold, 5)), toy.judgements
    )
    reports = [evaluate(toys.scores(toy, noise=n), cut, protocol="coco-1k", measures="MRR") for n in (1.0, 3.0)]
    line = compare(reports, samples=500).line("MRR", direction="t2i")
    assert line.differences[0].test.statistic == pytest.approx(line.values[0] - line.values[1])
    assert line.differences[0].value == line.values[0] - line.values[1]


def test_rsum_is_compared_by_image(reports):
    difference = compare(reports[:2], samples=2000).line("rsum").differences[0]
    assert difference.value == pytest.approx(reports[0].value("rsum") - reports[1].value("rsum"))
    assert difference.interval.low < difference.value < difference.interval.high and difference.test.n == 60
    assert difference.test.statistic == pytest.approx(difference.value)


def test_what_cannot_be_written_in_json_is_null(tmp_path):
    toy = toys.collection(n=8)
    reports = [
        evaluate(toys.scores(toy, noise=n).top(1), toy, measures="MeanR R@1", unretrieved="never") for n in (2, 9)
    ]
    text = compare(reports, samples=200).save(tmp_path / "c.json").read_text()
    assert "Infinity" not in text and "NaN" not in text and json.loads(text)


def test_a_system_does_not_differ_from_itself(reports):
    for line in reports[0].compare(reports[0], samples=200).lines:
        difference = line.differences[0]
        assert difference.value == 0 and difference.p_adjusted == 1
        if line.measure.name != "MedR" and difference.interval is not None:
            # That 60 queries agree does not prove it for others.
            assert difference.interval.low < 0 < difference.interval.high


def test_agreement_of_measures(reports):
    names, tau = compare(reports, samples=200).agreement
    assert len(names) == len(tau) and np.allclose(np.diag(tau), 1) and (tau > 0.9).all()  # all agree on the order here
    with pytest.raises(LimnerError, match="at least 3 systems, got 2"):
        _ = compare(reports[:2], samples=200).agreement


def test_forms(reports, tmp_path):
    comparison = compare(reports, samples=200)
    assert json.loads(comparison.save(tmp_path / "c.json").read_text())["systems"] == ["good", "fair", "poor"]
    assert comparison.save(tmp_path / "c.csv").read_text().count("\n") == 1 + 3 * len(comparison.lines)
    assert "| a good |" in comparison.save(tmp_path / "c.md").read_text()
    assert r"\toprule" in comparison.save(tmp_path / "c.tex").read_text()
    assert "significantly better than" in str(comparison) and "*: significant" in str(compare(reports[:2], samples=200))


def test_refused(reports):
    with pytest.raises(LimnerError, match="two or more"):
        compare(reports[:1])
    with pytest.raises(LimnerError, match="unknown test 't-test'"):
        compare(reports, test="t-test")
    with pytest.raises(LimnerError, match="unknown family 'all'"):
        compare(reports, family="all")
    smaller = toys.collection(n=20)
    with pytest.raises(LimnerError, match="what is relevant under pairs i2t differs"):
        reports[0].compare(evaluate(toys.scores(smaller), smaller))
    with pytest.raises(LimnerError, match="evaluate all systems on the same collection"):
        reports[0].compare(evaluate(toys.scores(smaller), smaller), allow_different=True)
    with pytest.raises(LimnerError, match="share no measure"):
        reports[0].compare(evaluate(toys.scores(smaller), smaller, measures="P@7"))


def test_a_missing_folder_is_refused_in_words(reports, tmp_path):
    comparison = compare(reports[:2], samples=200)
    with pytest.raises(LimnerError, match="no folder .*nowhere to write 'x.json' into"):
        comparison.save(tmp_path / "nowhere" / "x.json")
