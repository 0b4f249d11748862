"""Tables with a row per system, and results for the hub's .eval_results."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import limner
import toys
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.boards.hub_results import write_eval_result
from limner.evaluation.reports.report import load_reports
from limner.evaluation.reports.report_tables import system_table


@pytest.fixture(scope="module")
def reports():
    toy = toys.collection()
    noises = {"good": 0.6, "fair_2": 1.2, "poor": 2.5}
    return [
        limner.evaluate(toys.scores(toy, noise=noise), toy, name=name, measures="R@1 MedR")
        for name, noise in noises.items()
    ]


@pytest.fixture
def files(reports, tmp_path):
    return [str(report.save(tmp_path / f"{report.system}.json")) for report in reports]


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


def test_a_row_per_system(reports):
    table = system_table(reports)
    assert [row["system"] for row in table.rows()] == ["good", "fair_2", "poor"]
    assert table.rows()[1]["pairs t2i R@1"] == reports[1].value("R@1", direction="t2i")
    (grid,) = table.document().grids
    head = ("image -> text R@1", "image -> text MedR", "text -> image R@1", "text -> image MedR")
    assert grid.rows[0] == ("pairs", *head)
    assert grid.rows[1][:2] == ("good", f"{100 * reports[0].value('R@1', direction='i2t'):.1f}")
    only = system_table(reports, measures="R@1")
    assert list(only.rows()[0]) == ["system", "collection", "pairs i2t R@1", "pairs t2i R@1"]


def test_what_a_report_lacks_is_empty(reports):
    other = limner.evaluate(toys.scores(toys.collection()), toys.collection(), name="other", measures="MAP")
    table = system_table([reports[0], other])
    assert table.rows()[1]["pairs i2t R@1"] is None and table.document().grids[0].rows[2][1] == ""
    with pytest.raises(LimnerError, match="two reports of 'good'"):
        system_table([reports[0], reports[0]])
    with pytest.raises(UnknownName, match="R@1"):
        system_table(reports, measures="R@7")


def test_systems_of_the_same_name_are_told_apart_by_their_files(reports, tmp_path):
    files = [tmp_path / f"{name}.json" for name in ("mine", "theirs")]
    for report, file in zip(reports, files, strict=False):
        replace(report, system="images").save(file)
    assert [report.system for report in load_reports(files)] == ["images (mine)", "images (theirs)"]
    run("report", *files, "-o", tmp_path / "t.md")
    assert "| images (mine) | " in (tmp_path / "t.md").read_text()
    assert "images (mine)  images (theirs)" in run("compare", *files).stdout
    assert [report.system for report in load_reports(files[:1] * 2)] == ["images", "images"]


@pytest.mark.parametrize("command", [("compare", "--show", "systems"), ("report",)])
def test_the_commands_write_a_row_per_system(files, tmp_path, command):
    written = [tmp_path / f"t.{ending}" for ending in ("tex", "md", "csv")]
    for file in written:
        run(command[0], *files, *command[1:], "-o", file)
    latex, markdown, table = (file.read_text(encoding="utf-8") for file in written)
    assert latex.count(r"\\") == 4 and r"fair\_2 & " in latex and r"\begin{tabular}{lrrrr}" in latex
    assert [line.split(" | ")[0] for line in markdown.splitlines() if line.startswith("|")][2:] == [
        "| good", "| fair_2", "| poor"
    ]  # fmt: skip
    assert [row["system"] for row in csv.DictReader(io.StringIO(table))] == ["good", "fair_2", "poor"]


def test_the_table_is_printed(files):
    data = json.loads(run("compare", *files, "--show", "systems", "--measures", "R@1", "--json").stdout)
    assert data["columns"] == ["pairs i2t R@1", "pairs t2i R@1"] and len(data["rows"]) == 3
    assert [set(row["values"]) for row in data["rows"]] == [set(data["columns"])] * 3
    assert "fair_2" in run("compare", *files, "--show", "systems").stdout
    run("compare", *files, "--show", "systems", "-o", "t.pdf", status=3)


# --- the hub ----------------------------------------------------------------------------------------------------


def test_results_of_the_hub(reports, files, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="the hub's own reader")
    yaml = pytest.importorskip("yaml")
    (tmp_path / ".eval_results").mkdir()
    file = tmp_path / ".eval_results" / "toy.yaml"
    words = ("report", files[0], "-o", file, "-O", "dataset=owner/toy")
    run(*words, "-O", "task=t2i", "-O", "measure=t2i R@1")
    run(*words, "-O", "task=i2t", "-O", "measure=i2t R@1")
    write_eval_result(reports[1], file, dataset="owner/toy", task="i2t", measure="i2t R@1")
    first, second = hub.parse_eval_result_entries(yaml.safe_load(file.read_text(encoding="utf-8")))
    assert (first.dataset_id, first.task_id) == ("owner/toy", "t2i")
    assert first.value == reports[0].value("R@1", direction="t2i") and first.source_name.startswith("limner")
    assert second.value == reports[1].value("R@1", direction="i2t"), "the entry of this task is replaced"
    assert "pairs i2t R@1, 60 queries, 95% interval" in second.notes


def test_results_of_the_hub_need_names(reports, files, tmp_path):
    pytest.importorskip("yaml")
    missing = run("report", files[0], "-o", tmp_path / "r.yaml", "-O", "dataset=owner/toy", status=2)
    assert "needs -O task=... and -O measure=..." in missing.stderr
    assert (
        "for a result of the hub" in run("report", files[0], "-o", tmp_path / "r.md", "-O", "task=x", status=2).stderr
    )
    with pytest.raises(LimnerError, match="OWNER/NAME"):
        write_eval_result(reports[0], tmp_path / "r.yaml", dataset="toy", task="x", measure="t2i R@1")
    with pytest.raises(UnknownName, match="did you mean 't2i R@1'"):
        write_eval_result(reports[0], tmp_path / "r.yaml", dataset="o/toy", task="x", measure="t2i R1")
    (tmp_path / "bad.yaml").write_text("value: 3\n")
    with pytest.raises(LimnerError, match="expected a list of results"):
        write_eval_result(reports[0], tmp_path / "bad.yaml", dataset="o/toy", task="x", measure="t2i R@1")
