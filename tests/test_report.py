"""Reports: finding numbers, saving and loading, tables in every form."""

import csv
import io
import shutil
import subprocess

import numpy as np
import pytest

import toys
from limner import LimnerError, Report, evaluate


@pytest.fixture(scope="module")
def report():
    toy = toys.collection(extra=True)
    return evaluate(toys.scores(toy), toy, name="a_system & more")


def test_find_refuses_what_is_not_one(report):
    assert report.find("R@1", direction="i2t", view="pairs").value == report.value("R@1", direction="i2t", view="pairs")
    with pytest.raises(LimnerError, match="4 results fit R@1"):
        report.find("R@1")
    with pytest.raises(LimnerError, match="0 results fit P@7"):
        report.find("P@7")


def test_json_holds_everything(report, tmp_path):
    again = Report.load(report.save(tmp_path / "r.json"))
    assert str(again) == str(report) and again.settings == report.settings
    for a, b in zip(report.results, again.results, strict=True):
        assert a.key == b.key and np.array_equal(a.values, b.values) and a.queries == b.queries
    assert again.hubs["t2i"].describe() == report.hubs["t2i"].describe()


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


def test_latex_escapes(report, tmp_path):
    table = report.save(tmp_path / "r.tex").read_text()
    assert r"image $\to$ text" in table and table.count(r"\begin{tabular}") == table.count(r"\end{tabular}") == 2


def test_unknown_ending(report, tmp_path):
    with pytest.raises(LimnerError, match="unknown report file ending '.pdf'"):
        report.save(tmp_path / "r.pdf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "no limner report"),
        ('{"limner": "report", "format": 99}', "of format 1"),
        ('{"limner": "report", "format": 1}', "no limner report, or a damaged one"),
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
