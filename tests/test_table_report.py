"""Reports of flat records: one way to save them, whatever they hold."""

from __future__ import annotations

import csv
import json

import pytest

import limner
from limner.core.errors import LimnerError
from limner.evaluation.diagnostics.breakdown import LanguageLine, LanguageReport
from limner.evaluation.diagnostics.composed import ComposedLine, ComposedReport
from limner.explain.audit import audit
from limner.explain.probe_results import PAIR, ProbeLine, ProbeReport
from limner.stats import mean_interval

VALUE = mean_interval([0.0, 1.0, 1.0])
BLIND = {"bigrams": VALUE, "length": VALUE}
REPORTS = {
    "composed": lambda: ComposedReport("CIRR", (ComposedLine("sum", "all", "R@1", 3, VALUE),), ("α",)),
    "languages": lambda: LanguageReport("x", "XTD10", (LanguageLine("de", "t2i", "R@1", 3, 3, VALUE),), ("ü",)),
    "probe": lambda: ProbeReport("x", "VALSE", (ProbeLine("all", PAIR, 3, 0.5, VALUE, BLIND),)),
    "audit": lambda: audit(limner.load("scenes", images=6)),
}


@pytest.mark.parametrize("kind", REPORTS)
def test_every_format_holds_the_report(kind, tmp_path):
    report = REPORTS[kind]()
    assert json.loads(report.save(tmp_path / "r.json").read_text()) == {"limner": kind, **report.describe()}
    assert report.save(tmp_path / "r.TXT").read_text() == str(report)
    for ending, start in ((".md", "# "), (".tex", "% ")):
        assert report.save(tmp_path / f"r{ending}").read_text().startswith(start + report.document().title)
    with report.save(tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row for row in rows if any(row.values())] == [{k: str(v) for k, v in row.items()} for row in report.rows()]
    assert list(report.to_arrow().column_names) == (list(report.rows()[0]) if report.rows() else [])


@pytest.mark.parametrize("kind", REPORTS)
def test_an_unknown_ending_and_a_missing_folder_are_refused(kind, tmp_path):
    with pytest.raises(LimnerError, match=r"file ending '\.pdf': expected one of \.json, \.csv, \.md, \.tex, \.txt"):
        REPORTS[kind]().save(tmp_path / "r.pdf")
    with pytest.raises(LimnerError, match="nowhere"):
        REPORTS[kind]().save(tmp_path / "nowhere" / "r.csv")
    assert list(tmp_path.iterdir()) == []
