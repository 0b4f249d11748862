"""A measure owns its aggregation and its traits; one's own works everywhere that limner's do."""

import json
import math
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import codeblocks
import own_measures
import toys
from limner import Judgements, LimnerError, Measure, Report, Scores, compare, evaluate
from limner.cli import app
from limner.cli.shell import Status
from limner.core.errors import Untrusted
from limner.evaluation.measures import MEASURES, MeasureKind, parse
from limner.evaluation.reports.report import REPORT_FORMATS
from limner.evaluation.tuning import tune

MINE = "own_measures:RBP@5(p=0.5) own_measures:MedAP own_measures:WorstRank own_measures:Hits R@1"


@pytest.fixture(scope="module")
def report():
    toy = toys.collection()
    return evaluate(toys.scores(toy), toy, measures=MINE, name="mine")


def test_the_values_are_those_of_a_plain_loop(report):
    toy = toys.collection()
    ranking, pairs = toys.scores(toy).ranking(), toy.judgements
    expected = [
        0.5 * sum(0.5**at for at, candidate in enumerate(ranking[query][:5]) if pairs.grade(query, candidate))
        for query in pairs.queries
    ]
    result = report.find("RBP@5(p=0.5)", direction="i2t")
    assert result.values == pytest.approx(expected) and result.value == pytest.approx(np.mean(expected))


def test_ties_count_by_expectation():
    blind = Scores.from_matrix(np.zeros((1, 4)), ["q"], list("abcd"))
    value = evaluate(blind, Judgements.from_pairs([("q", "a")]), measures="own_measures:RBP(p=0.5)").value("RBP(p=0.5)")
    assert value == pytest.approx(0.5 * np.mean([1, 0.5, 0.25, 0.125]))


def test_a_summary_is_followed(report):
    for direction in ("i2t", "t2i"):
        result = report.find("MedAP", direction=direction)
        assert result.value == np.median(result.values) != np.mean(result.values)
        worst = report.find("WorstRank", direction=direction)
        assert worst.value == np.quantile(worst.values, 0.9)


def test_a_composite_is_the_sum_of_its_parts_with_an_interval(report):
    result = report.find("Hits")
    parts = [report.value(m, direction=d) for m in ("R@1", "R@2") for d in ("i2t", "t2i")]
    assert result.value == pytest.approx(math.fsum(parts) / 4) and len(result.parts) == 4
    assert result.interval.low < result.value < result.interval.high
    assert np.mean(result.values) == pytest.approx(result.value)


def test_traits_decide_how_it_is_shown(report):
    worst = report.find("WorstRank", direction="i2t")
    assert worst.measure.show(worst.value) == f"{worst.value:.2f}" and worst.measure.kind.better == -1
    assert "RBP@5(p=0.5)" in str(report) and "WorstRank" in REPORT_FORMATS[".md"](report)
    page = REPORT_FORMATS[".html"](report)
    assert "Moffat &amp; Zobel 2008" in page and "RBP@5(p=0.5)" in page


def test_a_kind_itself_can_be_given():
    toy = toys.collection()
    report = evaluate(toys.scores(toy), toy, measures=[own_measures.RBP, "R@1"])
    assert report.find("RBP", direction="i2t").measure.kind is own_measures.RBP


def test_a_registered_kind_has_a_name(monkeypatch):
    monkeypatch.setattr(MEASURES, "_own", dict(MEASURES._own))
    MEASURES.register("RBP")(own_measures.RBP)
    assert Measure.parse("rbp@3").kind is own_measures.RBP and "RBP" in list(MEASURES)


def test_a_saved_report_keeps_the_values_and_imports_nothing(report, tmp_path, monkeypatch):
    file = report.save(tmp_path / "mine.json")
    monkeypatch.delitem(sys.modules, "own_measures")
    reloaded = Report.load(file)
    assert str(reloaded) == str(report) and "own_measures" not in sys.modules
    for a, b in zip(report.results, reloaded.results, strict=True):
        assert a.key == b.key and np.array_equal(a.values, b.values) and a.value == pytest.approx(b.value)
        assert (a.interval is None) == (b.interval is None)
    assert reloaded.value("WorstRank", direction="i2t") == report.value("WorstRank", direction="i2t")
    first, second = (json.loads(each.read_text()) for each in (file, reloaded.save(tmp_path / "again.json")))
    assert first["measures"] == second["measures"] and len(first["results"]) == len(second["results"])
    for a, b in zip(first["results"], second["results"], strict=True):
        assert {k: v for k, v in a.items() if k != "images"} == b
    assert "RBP@5(p=0.5)" in reloaded.save(tmp_path / "again.html").read_text()


def test_a_file_cannot_name_code(report, tmp_path):
    content = json.loads(report.save(tmp_path / "mine.json").read_text())
    for result in content["results"]:
        result["measure"] = "antigravity:fly" if result["measure"] == "MedAP" else result["measure"]
    (tmp_path / "bad.json").write_text(json.dumps(content))
    reloaded = Report.load(tmp_path / "bad.json")
    assert "antigravity" not in sys.modules
    assert reloaded.value("antigravity:fly", direction="i2t") == report.value("MedAP", direction="i2t")
    with pytest.raises(Untrusted):
        Measure.parse("antigravity:fly", trusted=False)


def test_traits_of_a_file_are_not_trusted(report, tmp_path):
    content = json.loads(report.save(tmp_path / "mine.json").read_text())
    content["measures"] = {
        name: {"bounds": ["x", None], "better": "up", "decimals": 10**9, "summary": "rm", "sees": [], "percent": 1}
        for name in content["measures"]
    }
    (tmp_path / "odd.json").write_text(json.dumps(content))
    reloaded = Report.load(tmp_path / "odd.json")
    assert reloaded.value("MedAP", direction="i2t") == report.value("MedAP", direction="i2t")


def test_compare_takes_them(report, tmp_path):
    toy = toys.collection()
    other_report = evaluate(toys.scores(toy, seed=9), toy, measures=MINE, name="other")
    compared = compare([report, other_report])
    line = compared.line("WorstRank", direction="i2t")
    assert line.differences and line.values[0] == report.value("WorstRank", direction="i2t")
    loaded = compare([Report.load(r.save(tmp_path / f"{r.system}.json")) for r in (report, other_report)])
    assert loaded.line("RBP@5(p=0.5)", direction="i2t").differences
    assert not loaded.line("WorstRank", direction="i2t").differences  # how it is summed up is not known here
    assert "not comparable" in str(loaded)


def test_tune_takes_them():
    toy = toys.collection()
    best = tune("csls", toys.scores(toy), toy, measure="own_measures:RBP", grid={"k": [1, 2]})
    assert best["k"] in (1, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("own_measures:nonsense", "is int: expected a MeasureKind"),
        ("own_measures:absent", "has no 'absent'"),
        ("no_such_module:RBP", "there is no module"),
        ("own_measures:Clash", "another measure 'R'"),
        ("own_measures:RBP(q=1)", "option 'q' of RBP"),
        ("own_measures:RBP@0", "the cut-off must be 1"),
    ],
)
def test_what_is_no_measure_is_refused(text, message):
    with pytest.raises(LimnerError, match=message):
        parse(text)


def test_a_function_that_returns_something_else_is_refused():
    toy = toys.collection()
    with pytest.raises(LimnerError, match=r"Broken gave an array of shape \(1,\): expected one number for each of"):
        evaluate(toys.scores(toy), toy, measures="own_measures:Broken")


@pytest.mark.parametrize(
    "traits",
    [
        {"summary": "mode"},
        {"better": 0},
        {"bounds": (1, 0)},
        {"cut": "k"},
        {"sees": "all"},
        {"decided_by": "k"},
        {"name": "a b"},
    ],
)
def test_traits_that_cannot_be_are_refused(traits):
    with pytest.raises(LimnerError, match=f"{next(iter(traits))} is"):
        MeasureKind(**{"name": "Odd", "compute": own_measures.average_precision, "formula": "", **traits})


def test_the_how_to_works_as_written(tmp_path, monkeypatch):
    blocks = codeblocks.blocks((Path(__file__).parents[1] / "docs" / "extending_measures.md").read_text())
    (tmp_path / "my_measures.py").write_text(next(b.text for b in blocks if b.language == "python"))
    commands = [c for b in blocks if b.language == "console" for c, _ in codeblocks._commands(b.text)]
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run("evaluate", "scenes", "-O", "images=60", "--model", "colours", "--measures", "my_measures:RBP@10(p=0.5) R@1",
        "-o", "other.json")  # fmt: skip
    for command in commands:
        output = run(*shlex.split(command.replace("scenes", "scenes -O images=60"))[1:]).stdout
        assert "RBP@10(p=0.5)" in output
    assert "RBP@10(p=0.5)" in (tmp_path / "mine.html").read_text()


def run(*words):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done


def test_what_is_no_measure_is_one_line_at_the_shell():
    """Before anything is read or trained."""
    done = CliRunner().invoke(app, ["evaluate", "missing.csv", "--model", "colours", "--measures", "json:loads"])
    assert done.exit_code == Status.INPUT and "expected a MeasureKind" in done.output


def test_rsum_is_a_composite():
    kind = MEASURES["rsum"]
    assert kind.composite.parts == ("R@1", "R@5", "R@10") and Measure.parse("rsum").parts == parse("R@1 R@5 R@10")


def test_a_composite_that_cannot_be_had_is_noted():
    toy = toys.collection()
    run = toys.scores(toy).ranking()
    report = evaluate(run, toy, measures="R@1 rsum")
    assert any("rsum sums both directions" in note for note in report.notes)


def test_a_format_of_ones_own(report, tmp_path, monkeypatch):
    monkeypatch.setattr(REPORT_FORMATS, "_own", {})
    REPORT_FORMATS.register(".count")(lambda report: str(len(report.results)))
    assert report.save(tmp_path / "n.count").read_text() == str(len(report.results))
    with pytest.raises(LimnerError, match="option .colour. of a .count report"):
        report.save(tmp_path / "n.count", colour="red")
