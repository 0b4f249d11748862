"""Reports: finding numbers, saving and loading, tables in every form."""

import csv
import io
import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import toys
from limner import Judgements, LimnerError, Ranking, Report, Scores, evaluate


@pytest.fixture(scope="module")
def report():
    toy = toys.collection(extra=True)
    return evaluate(toys.scores(toy), toy, name="a_system & more")


def test_find_refuses_what_is_not_one(report):
    assert report.find("R@1", direction="i2t", view="pairs").value == report.value("R@1", direction="i2t", view="pairs")
    with pytest.raises(LimnerError, match="4 results match R@1"):
        report.find("R@1")
    with pytest.raises(LimnerError, match="0 results match P@7"):
        report.find("P@7")


def test_json_holds_everything(report, tmp_path):
    reloaded = Report.load(report.save(tmp_path / "r.json"))
    assert str(reloaded) == str(report) and reloaded.settings == report.settings
    for a, b in zip(report.results, reloaded.results, strict=True):
        assert a.key == b.key and np.array_equal(a.values, b.values) and a.queries == b.queries
    assert reloaded.hubs["t2i"].describe() == report.hubs["t2i"].describe()


def test_csv_has_a_line_per_result(report, tmp_path):
    lines = list(csv.DictReader(io.StringIO(report.save(tmp_path / "r.csv").read_text())))
    assert len(lines) == len(report.results)
    assert float(lines[0]["value"]) == report.results[0].value
    assert float(lines[0]["low"]) <= float(lines[0]["value"]) <= float(lines[0]["high"])


def test_markdown_is_a_table(report, tmp_path):
    lines = [n for n in report.save(tmp_path / "r.md").read_text().splitlines() if n.startswith("|")]
    assert {n.count("|") for n in lines} == {4}


@pytest.mark.skipif(
    not shutil.which("pdflatex"), reason="no pdflatex on the PATH: LaTeX output is checked by its shape only"
)
def test_latex_compiles(report, tmp_path):
    table = report.save(tmp_path / "r.tex").read_text()
    (tmp_path / "all.tex").write_text(
        f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}{table}\\end{{document}}"
    )
    subprocess.run(["pdflatex", "-interaction=batchmode", "all.tex"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("stop", ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028"])
def test_a_line_break_in_a_name_or_note_does_not_leave_its_line(report, tmp_path, stop):
    text = f"a{stop}\\input{{/etc/passwd}}"
    hostile = replace(report, system=text, collection=text, notes=(text,))
    for ending, starts in ((".tex", "%"), (".md", ("# ", "Note: "))):
        lines = hostile.save(tmp_path / f"r{ending}").read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if "passwd" in line and not line.startswith(starts)] == []
        assert sum("passwd" in line for line in lines) == 2


def test_latex_escapes(report, tmp_path):
    table = report.save(tmp_path / "r.tex").read_text()
    assert r"image $\to$ text" in table and table.count(r"\begin{tabular}") == table.count(r"\end{tabular}") == 2


def test_unknown_ending(report, tmp_path):
    with pytest.raises(LimnerError, match="unknown report file ending '.docx'"):
        report.save(tmp_path / "r.docx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not a limner report"),
        ('{"limner": "report", "format": 99}', "of format 1"),
        ('{"limner": "report", "format": 1}', "not a valid limner report"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(LimnerError, match=message):
        Report.load(tmp_path / "r.json")


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(LimnerError, match="limner evaluate"):
        Report.load(tmp_path / "none.json")


def test_infinite_ranks_have_no_interval_and_still_print(tmp_path):
    toy = toys.collection(n=5)
    report = evaluate(toys.scores(toy, noise=9).top(1), toy, measures="MeanR R@1", unretrieved="never")
    assert np.isinf(report.value("MeanR")) and "inf" in str(report)
    assert Report.load(report.save(tmp_path / "r.json")).value("MeanR") == np.inf
    assert "Infinity" not in (tmp_path / "r.json").read_text()  # JSON knows no infinity


def test_minus_infinity_and_huge_grades_are_saved(tmp_path):
    scores = Scores.from_matrix(np.array([[1.0, -np.inf, -np.inf], [0.0, 2.0, -np.inf]]), "pq", "abc")
    truth = Judgements.from_pairs([("p", "a", 1e300), ("p", "b", 2000.0), ("q", "c", 1.7e308)])
    report = evaluate(scores, truth, measures="nDCG nDCG(linear) P@2(graded) R@1(graded) MeanR RP(graded)")
    reloaded = Report.load(report.save(tmp_path / "r.json"))
    assert str(reloaded) == str(report)
    for a, b in zip(report.results, reloaded.results, strict=True):
        assert a.values.tolist() == b.values.tolist() and np.isfinite(a.values).all()
    assert reloaded.top["run"].scores.tolist() == report.top["run"].scores.tolist()
    text = (tmp_path / "r.json").read_text()
    assert "Infinity" not in text and "NaN" not in text
    for ending in ("csv", "md", "tex", "html"):
        report.save(tmp_path / f"r.{ending}")


def test_rsum_of_a_loaded_report_is_still_the_sum_of_its_parts(report, tmp_path):
    reloaded = Report.load(report.save(tmp_path / "r.json"))
    for view in ("pairs", "complete"):
        ours, theirs = (r.find("rsum", view=view) for r in (report, reloaded))
        assert len(theirs.parts) == 6 and theirs.value == ours.value and theirs.interval == ours.interval


def test_a_report_of_an_earlier_version_still_loads(report, tmp_path):
    content = json.loads(report.save(tmp_path / "r.json").read_text())
    for result in content["results"]:
        result.pop("images", None)
    for setting in ("truth", "pool"):
        content["settings"].pop(setting)
    (tmp_path / "old.json").write_text(json.dumps(content))
    old = Report.load(tmp_path / "old.json")
    assert old.value("rsum", view="pairs") == pytest.approx(report.value("rsum", view="pairs"))
    assert old.find("rsum", view="pairs").interval is not None


def test_no_interval_is_a_point(tmp_path):
    """Neither where every query succeeds, nor where every query fails, nor if there is one query."""
    toy = toys.collection(n=30)
    for noise in (0.0, 50.0):
        for r in evaluate(toys.scores(toy, noise=noise), toy).results:
            assert r.interval is None or r.interval.low < r.interval.high or r.measure.name == "MedR", r
    one = evaluate(Ranking.from_lists({"q": "ab"}, candidates="ab"), Judgements.from_pairs([("q", "b")]))
    assert all(r.interval is None or r.interval.high - r.interval.low > 0.5 for r in one.results)
    assert one.find("MedR").interval is None and "[0.0, 0.0]" not in str(one) and "[100.0, 100.0]" not in str(one)
