"""Leaderboards: what is read, what is told apart, what is said where little is known, and the page."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import runpy
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
import toys
from limner import LimnerError, Measure, stats
from limner.cli import app
from limner.evaluation import leaderboard
from limner.evaluation.boards.board import MEANS, NO_CLUSTERS, NO_QUERIES, PAIRED, UNPAIRED, BoardEntry, ranked
from limner.evaluation.boards.board_tables import foot
from limner.evaluation.boards.mteb import read_mteb, task_results, write_mteb
from limner.stats.rank_sets import rank_sets_of_means

EVIL = "<script>window.hacked = 1</script> \" ' & {{ 7 * 7 }}"


@pytest.fixture(scope="module")
def reports():
    toy = toys.collection()
    noises = {"good": 0.6, "fair": 1.2, "fair too": 1.2, "poor": 2.5}
    measures = "R@1 R@10 MedR nDCG@10(linear) rsum"
    return [
        limner.evaluate(toys.scores(toy, noise=noise, seed=at % 2), toy, name=name, measures=measures)
        for at, (name, noise) in enumerate(noises.items())
    ]


def shell(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def ranks_of(table):
    return {row.system: (row.lowest, row.highest) for row in table.rows}


# --- reports ----------------------------------------------------------------------------------------------------


def test_reports_are_ranked_query_by_query_and_by_image(reports):
    table = leaderboard(reports).table("R@1", direction="t2i")
    results = [r.find("R@1", direction="t2i") for r in reports]
    expected = stats.rank_sets(np.column_stack([r.values for r in results]), clusters=results[0].clusters)
    lows, highs = expected.lowest.tolist(), expected.highest.tolist()
    assert ranks_of(table) == {r.system: (lo, hi) for r, lo, hi in zip(reports, lows, highs, strict=True)}
    assert (table.known, table.method) == (PAIRED, "paired, max-t by cluster")
    assert table.first == ("good",) and table.rows[-1].system == "poor"
    assert [row.value for row in table.rows] == sorted((row.value for row in table.rows), reverse=True)


def test_a_view_and_a_direction(reports):
    board = leaderboard(reports, view="pairs", direction="t2i", measures="R@1 R@10")
    assert [table.title for table in board.tables] == ["toy, pairs, t2i, R@1", "toy, pairs, t2i, R@10"]
    with pytest.raises(LimnerError, match="no result has eccv: there are pairs i2t R@1"):
        leaderboard(reports, view="eccv")


def test_queries_in_another_order_are_aligned(reports):
    last = reports[-1]
    shuffled = replace(last, results=tuple(r.reordered(type(r.queries)(list(r.queries)[::-1])) for r in last.results))
    plain, reordered = leaderboard(reports), leaderboard([*reports[:-1], shuffled])
    assert ranks_of(plain.table("R@1", direction="i2t")) == ranks_of(reordered.table("R@1", direction="i2t"))


def test_a_sum_of_recalls_has_rank_sets_and_a_median_has_none(reports):
    board = leaderboard(reports)
    assert board.table("rsum").known == PAIRED and board.table("rsum").first == ("good",)
    median = board.table("MedR", direction="i2t")
    assert median.known == MEANS and set(ranks_of(median).values()) == {(1, 4)}
    assert [row.value for row in median.rows] == sorted(row.value for row in median.rows), "lower is better"
    assert "not a mean" in median.notes[0]


def test_needed_queries_are_about_the_next_system_and_stated_once(reports):
    table = leaderboard(reports).table("R@1", direction="i2t")
    assert table.rows[-1].needed is None and all(row.needed > 0 for row in table.rows[:-1])
    neighbours = [
        (a.highest < b.lowest, a.detectable < a.value - b.value)
        for a, b in zip(table.rows[:-1], table.rows[1:], strict=True)
    ]
    assert all(separate for separate, enough in neighbours if enough)


def test_two_reports_of_one_name_and_lone_numbers(reports):
    with pytest.raises(LimnerError, match="'good' twice"):
        leaderboard([reports[0], reports[0]])
    with pytest.raises(LimnerError, match="no measure has two systems"):
        leaderboard([reports[0]])


def test_other_queries_cannot_be_paired(reports):
    small = toys.collection(40)
    small_report = limner.evaluate(toys.scores(small, noise=0.1), small, name="other", measures="R@1")
    table = leaderboard([reports[-1], small_report]).table("R@1", direction="i2t")
    assert table.known == UNPAIRED and {row.queries for row in table.rows} == {40, 60}


# --- means only -------------------------------------------------------------------------------------------------

WIDE = "model,kind,coco-5k R@1,coco-5k rsum,accuracy\na,x,60.5,500,3\nb,y,40.0,450,2\nc,z,39.9,440,1\n"


def test_a_table_without_queries_tells_nothing_apart_and_says_so(tmp_path):
    (tmp_path / "t.csv").write_text(WIDE)
    board = leaderboard([tmp_path / "t.csv"])
    table = board.table("R@1")
    assert (table.collection, table.view, table.known) == ("t", "coco-5k", MEANS)
    assert set(ranks_of(table).values()) == {(1, 3)} and NO_QUERIES in table.notes
    assert table.rows[0].value == pytest.approx(0.605) and table.rows[0].needed < table.rows[1].needed
    assert {str(t.measure) for t in board.tables} == {"R@1", "rsum", "accuracy"}


def test_queries_that_are_given_tell_systems_apart(tmp_path):
    (tmp_path / "t.csv").write_text(WIDE)
    table = leaderboard([tmp_path / "t.csv"], queries={"coco-5k": 25_000}, clusters={"coco-5k": 5000}).table("R@1")
    assert ranks_of(table) == {"a": (1, 1), "b": (2, 3), "c": (2, 3)} and table.known == UNPAIRED
    expected = rank_sets_of_means([0.605, 0.4, 0.399], [5000] * 3)
    assert table.rows[0].detectable == pytest.approx(expected.detectable(0, 1))
    # As many queries as needed make the difference detectable.
    needed = round(table.rows[1].needed)
    assert NO_CLUSTERS not in table.notes
    assert NO_CLUSTERS in leaderboard([tmp_path / "t.csv"], queries=25_000).table("R@1").notes
    enough_queries = leaderboard([tmp_path / "t.csv"], queries=needed, clusters=needed // 5).table("R@1")
    assert enough_queries.rows[1].detectable == pytest.approx(0.001, rel=0.02)


def test_the_csv_of_a_report_is_read_back(reports, tmp_path):
    files = [report.save(tmp_path / f"{report.system}.csv") for report in reports]
    table = leaderboard(files).table("R@1", direction="i2t")
    assert {row.system: row.value for row in table.rows} == {
        r.system: pytest.approx(r.value("R@1", direction="i2t")) for r in reports
    }
    assert {row.queries for row in table.rows} == {60} and table.known == UNPAIRED


def test_published_tables_with_their_sizes():
    table = leaderboard(["published:eccv-d3"], measures="R@1").table
    eccv = next(t for t in leaderboard(["published:eccv-d3"], measures="R@1").tables if t.view == "eccv")
    assert len(eccv.rows) == 25 and eccv.rows[0].queries == 1332 and eccv.known == UNPAIRED
    assert eccv.rows[0].system == "BLIP" and len(eccv.first) > 1
    with pytest.raises(LimnerError, match="4 tables match"):
        table("R@1")
    means = leaderboard(["published:eccv-4"], measures="R@1").tables
    assert {t.known for t in means} == {MEANS}, "the mean of two directions has no known number of queries"


# --- runs -------------------------------------------------------------------------------------------------------


def test_runs_with_judgements(tmp_path):
    rng = np.random.default_rng(0)
    queries, docs = [f"q{n}" for n in range(30)], [f"d{n}" for n in range(30)]
    (tmp_path / "p.qrels").write_text("".join(f"q{n} 0 d{n} 1\n" for n in range(30)))
    for name, noise in (("good", 0.05), ("bad", 3.0)):
        rows = []
        for at, query in enumerate(queries):
            scores = np.eye(30)[at] + noise * rng.standard_normal(30)
            order = np.argsort(-scores)
            rows += [f"{query} Q0 {docs[d]} {r + 1} {scores[d]:.6f} x\n" for r, d in enumerate(order)]
        (tmp_path / f"{name}.run").write_text("".join(rows))
    files = tmp_path / "good.run", tmp_path / "bad.run"
    done = shell(
        "compare", "--show", "board", *files, "--qrels", tmp_path / "p.qrels", "--measures", "R@1 MAP", "--json"
    )
    tables = json.loads(done.stdout)["tables"]
    assert [(t["measure"], t["known"]) for t in tables] == [("R@1", PAIRED), ("MAP", PAIRED)], done.stderr
    assert [(r["system"], r["highest_rank"]) for r in tables[1]["rows"]] == [("good", 1), ("bad", 2)]
    refused = shell("compare", "--show", "board", *files)
    assert refused.exit_code == 3 and "--qrels" in refused.stderr


# --- MTEB -------------------------------------------------------------------------------------------------------


def test_mteb_results_are_written_and_read_back(reports, tmp_path):
    for report in reports:
        write_mteb(report, tmp_path)
    file = tmp_path / "fair__too" / "limner" / "toyT2IRetrieval.json"
    assert {e.system for e in read_mteb(file)} == {"fair too"}
    board = leaderboard([tmp_path])
    for report in reports:
        for direction in ("I2T", "T2I"):
            for measure in ("R@1", "R@10", "nDCG@10(linear)"):
                table = board.table(measure, collection=f"toy{direction}Retrieval")
                row = next(row for row in table.rows if row.system == report.system)
                assert row.value == report.value(measure, direction=direction.lower())
                assert table.known == MEANS and row.queries is None
    assert leaderboard([tmp_path], measures="R@1", queries=60).tables[0].known == UNPAIRED


def test_the_form_is_that_of_mteb(reports):
    content = task_results(reports[0])["toyI2TRetrieval"]
    (scores,) = content["scores"]["test"]
    assert set(scores) == {
        "cv_recall_at_1", "cv_recall_at_5", "cv_recall_at_10", "ndcg_at_10", "main_score", "hf_subset", "languages"
    }  # fmt: skip
    assert scores["main_score"] == scores["ndcg_at_10"]


def test_mteb_itself_opens_what_is_written(reports, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(sys.prefix) / "mteb")])  # where `make test` puts it
    if find_spec("pytrec_eval") is None:  # no wheel for aarch64; mteb imports it, its class of results does not use it
        monkeypatch.setitem(sys.modules, "pytrec_eval", ModuleType("pytrec_eval"))
    mteb = pytest.importorskip("mteb", reason="no mteb: 'make test' installs locks/mteb.txt", exc_type=ImportError)
    for file in write_mteb(reports[0], tmp_path):
        assert mteb.TaskResult.from_disk(file).task_name == file.stem


def test_tasks_of_mteb_have_their_numbers_of_queries(tmp_path):
    for model, score in (("org__a", 0.9), ("org__b", 0.4)):
        scores = [{"hit_rate_at_1": score, "hf_subset": subset} for subset in ("default", "de")]
        for task in ("Flickr30kT2IRetrieval", "XM3600T2IRetrieval", "MyRetrieval"):
            (tmp_path / model / "1").mkdir(parents=True, exist_ok=True)
            content = {"task_name": task, "scores": {"test": scores}}
            (tmp_path / model / "1" / f"{task}.json").write_text(json.dumps(content))
    sizes = {
        (t.collection, t.view): (t.rows[0].queries, NO_CLUSTERS in t.notes, ranks_of(t)["org/a"])
        for t in leaderboard([tmp_path], measures="R@1").tables
    }
    assert sizes["Flickr30kT2IRetrieval", ""] == (5000, False, (1, 1))
    assert sizes["XM3600T2IRetrieval", "de"] == (8643, False, (1, 1))
    assert sizes["MyRetrieval", ""] == sizes["XM3600T2IRetrieval", ""] == (None, False, (1, 2))
    smaller = leaderboard([tmp_path], measures="R@1", queries={"Flickr30kT2IRetrieval": 50}).tables
    assert {table.rows[0].queries for table in smaller if table.collection == "Flickr30kT2IRetrieval"} == {50}


def test_the_sizes_are_those_of_the_installed_mteb():
    package = Path(sys.prefix) / "mteb"
    if not package.is_dir():
        pytest.skip("no mteb: 'make test' installs locks/mteb.txt")
    tool = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "mteb_sizes.py"))
    written = [tuple(line.split("\t")) for line in tool["TABLE"].read_text().splitlines()]
    assert written == [tool["HEAD"], *tool["rows"](package)]


def test_a_measure_that_results_have_under_another_name_is_suggested(tmp_path):
    for model, score in (("org__a", 0.9), ("org__b", 0.4)):
        content = {"task_name": "T", "scores": {"test": [{"ndcg_at_10": score, "recall_at_10": score}]}}
        (tmp_path / model / "1").mkdir(parents=True)
        (tmp_path / model / "1" / "T.json").write_text(json.dumps(content))
    for name, meant in (
        ("nDCG@10", r"nDCG@10\(linear\)"),
        ("ndcg_at_10", r"nDCG@10\(linear\)"),
        ("recall_10", "Recall@10"),
    ):
        with pytest.raises(LimnerError, match=f"did you mean '{meant}'"):
            leaderboard([tmp_path], measures=name)


def test_a_task_without_known_measures_has_its_main_score(tmp_path):
    for model, score in (("org__a", 0.9), ("org__b", 0.4)):
        content = {"task_name": "T", "scores": {"test": [{"main_score": score, "accuracy": score, "x": float("nan")}]}}
        (tmp_path / model / "1").mkdir(parents=True)
        (tmp_path / model / "1" / "T.json").write_text(json.dumps(content))
    table = leaderboard([tmp_path]).table("main_score")
    assert [row.system for row in table.rows] == ["org/a", "org/b"] and table.known == MEANS


# --- what is written --------------------------------------------------------------------------------------------


def test_every_format_holds_the_same_rows(reports, tmp_path):
    files = [report.save(tmp_path / f"{n}.json") for n, report in enumerate(reports)]
    targets = [tmp_path / f"out.{ending}" for ending in ("json", "csv", "md", "txt", "html")]
    done = shell("compare", "--show", "board", *files, "--measures", "R@1", *(w for t in targets for w in ("-o", t)))
    assert done.exit_code == 0, done.stderr
    content = json.loads(targets[0].read_text())
    rows = list(csv.DictReader(io.StringIO(targets[1].read_text())))
    named = [(r["system"], r["lowest_rank"], r["highest_rank"]) for t in content["tables"] for r in t["rows"]]
    assert named == [(r["system"], int(r["lowest_rank"]), int(r["highest_rank"])) for r in rows]
    assert targets[3].read_text().strip() == done.stdout.strip()
    for target in targets[2:]:
        assert all(report.system in target.read_text() for report in reports)
    assert leaderboard(files, measures="R@1").to_arrow().num_rows == len(rows)


def test_the_page_is_one_file_and_nothing_gets_through(reports, tmp_path):
    evil = [replace(reports[0], system=EVIL, collection=EVIL), replace(reports[1], collection=EVIL)]
    page = leaderboard(evil, measures="R@1").save(tmp_path / "b.html").read_text()
    assert "<script>window" not in page and page.count("<script") == 1 and "49" not in re.findall(r"&amp; (\S+)", page)
    assert "src=" not in page and "http" not in page.replace("http-equiv", "")
    assert page.count("<table") == page.count("</table>") == 2
    assert "data-queries" in page and 'aria-label="Contents"' in page


def test_a_real_results_folder():
    folder = Path(os.environ.get("LIMNER_DATA", "/nowhere")) / "mteb-results"
    if not folder.is_dir():
        pytest.skip("needs $LIMNER_DATA/mteb-results")
    board = leaderboard([folder], measures="R@1")
    assert {table.known for table in board.tables} == {UNPAIRED}
    widths = [row.highest - row.lowest + 1 for table in board.tables for row in table.rows]
    assert np.mean(widths) < 20, "ranks are told apart without --queries"
    assert len(board.table("R@1", collection="Flickr30kI2TRetrieval").rows) >= 40


# --- the shell --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("t.csv", "--queries", "none"), 2, "expected a number"),
        (("t.csv", "--queries", "5", "--queries", "a=5"), 2, "one number for all"),
        (("t.csv", "-O", "unit=permille"), 3, "'percent' or 'fraction'"),
        (("t.csv", "-O", "unit=fraction"), 3, "R@1 is 60.5"),
        (("t.csv", "--measures", "nDCG@3"), 3, "no result has nDCG@3: there are coco-5k R@1"),
        (("t.csv", "--level", "1"), 3, "level"),
        (("published:eccv-9",), 3, "eccv-9"),
        (("none.json",), 3, "no result none.json"),
        (("t.csv", "-o", "b.pdf"), 3, ".pdf"),
        (("t.csv", "-o", "out"), 3, "not JSON"),
    ],
)
def test_what_is_refused_at_the_shell(tmp_path, monkeypatch, words, status, says):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(WIDE)
    done = shell("compare", "--show", "board", *words)
    assert done.exit_code == status and says in done.stderr and "Traceback" not in done.stderr, done.stderr


class TestSlices:
    """A table for every slice, as if only its queries had been evaluated."""

    def test_each_table_is_that_of_its_queries(self, reports):
        toy = toys.collection(folds=4)
        board = leaderboard(reports, measures="R@1 R@10", collection=toy, by="fold", min_size=5)
        unsliced = leaderboard(reports, measures="R@1 R@10")
        assert board.tables[: len(unsliced.tables)] == unsliced.tables
        parts = board.tables[len(unsliced.tables) :]
        assert parts and all("; fold: " in table.view for table in parts)
        for table in parts:
            groups = {g.name: g for g in groups_of(toy, reports[0], table)}
            members = groups[table.view.partition("; ")[2]].members
            for row in table.rows:
                result = result_of(next(r for r in reports if r.system == row.system), table)
                assert row.value == pytest.approx(result.values[members].mean())
                assert row.queries == members.sum()

    def test_rank_sets_of_all_slices_hold_together(self, reports):
        toy = toys.collection(folds=4)
        board = leaderboard(reports, measures="R@1", direction="t2i", collection=toy, by="fold", min_size=5)
        slices = len(board.tables) - 1
        assert slices > 1
        assert f"{slices} slices: each has rank sets of {100 * (1 - 0.05 / slices):.6g}% confidence" in board.notes[-1]
        alone = leaderboard(
            reports, measures="R@1", direction="t2i", collection=toy, by="fold", min_size=5, level=1 - 0.05 / slices
        )
        stricter = {row.system: (row.lowest, row.highest) for row in alone.tables[0].rows}
        assert stricter  # a single table at the stricter level is as wide or wider
        for row in board.tables[0].rows:
            assert stricter[row.system][0] <= row.lowest and row.highest <= stricter[row.system][1]

    def test_what_cannot_be_sliced(self, reports):
        toy = toys.collection(folds=4)
        with pytest.raises(LimnerError, match="give collection="):
            leaderboard(reports, by="length")
        with pytest.raises(LimnerError, match="no slice by length has 10000 queries"):
            leaderboard(reports, collection=toy, by="length", min_size=10000)
        with pytest.raises(LimnerError, match="min_size=1: expected 2 or more"):
            leaderboard(reports, collection=toy, by="length", min_size=1)
        with pytest.raises(LimnerError, match="unknown .*'lenght'.*did you mean 'length'"):
            leaderboard(reports, collection=toy, by="lenght")
        with pytest.raises(LimnerError, match="which 'scenes.*' lacks: give the collection and split"):
            leaderboard(reports, collection=limner.load("scenes", images=20), by="length", min_size=2)


def result_of(report, table):
    key = table.view.partition("; ")[0], table.direction, str(table.measure)
    return next(r for r in report.results if (r.view, r.direction, str(r.measure)) == key)


def groups_of(collection, report, table):
    from limner.evaluation.query_groups import query_groups

    queries = result_of(report, table).queries
    return query_groups(collection, table.direction, queries, ["fold"], min_size=5)


def test_what_stands_under_a_board_is_not_rounded_to_certainty():
    entries = [BoardEntry(n, "toy", "", "", Measure("R", 1), v, 400) for n, v in (("a", 0.9), ("b", 0.5))]
    footer = foot(ranked(entries, level=0.999)).splitlines()
    assert "with 99.9% confidence" in footer[0]
    assert footer[1] == "interval: of the value alone, 95%"
    assert "with 80% probability" in footer[-1]


def test_the_queries_needed_are_for_the_confidence_of_the_board():
    entries = [BoardEntry(n, "toy", "", "", Measure("R", 1), v, None) for n, v in (("a", 0.9), ("b", 0.5))]
    bold, usual, careful = (ranked(entries, level=level).tables[0].rows[0].needed for level in (0.8, 0.95, 0.999))
    assert bold < usual < careful
