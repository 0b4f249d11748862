"""The demo: a small world, told to the end, with numbers that are those of the report."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.cli.demo_chapters import BASELINE, BETTER, FILES, chapters


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    stages = []

    def stage(name):
        from contextlib import nullcontext

        stages.append(name)
        return nullcontext(lambda done, total: None)

    return folder, list(chapters(folder, images=100, stage=stage)), stages


def test_the_story_has_its_chapters_in_order(demo_run):
    _, chapters, _ = demo_run
    assert [c.title for c in chapters] == [
        "A data set in which all matches are known",
        "Two simple systems",
        "How often is the first answer right?",
        "What one-to-five labels hide",
        "Is the difference significant?",
        "Where to look",
    ]


def test_the_files_are_there_and_the_last_line_names_the_report(demo_run):
    folder, chapters, _ = demo_run
    assert sorted(p.name for p in folder.iterdir()) == sorted(FILES)
    assert chapters[-1].text.splitlines()[-1].endswith(f"The report: {folder / 'report.html'}")


def test_the_numbers_of_the_story_are_those_of_the_reports(demo_run):
    folder, chapters, _ = demo_run
    better, baseline = (limner.Report.load(folder / name) for name in ("report.json", "baseline.json"))
    assert (better.system, baseline.system) == (BETTER, BASELINE)
    numbers = chapters[2]
    for view in ("pairs", "complete"):
        for direction in ("i2t", "t2i"):
            cell = numbers.data[f"{view} {direction}"]
            assert cell[BETTER] == better.value("R@1", direction=direction, view=view)
            assert f"{100 * cell[BASELINE]:.1f}" in numbers.text


def test_what_labels_hide_against_a_slow_count(demo_run):
    """The share of first answers counted as wrong that are right, query by query."""
    folder, chapters, _ = demo_run
    report = limner.Report.load(folder / "report.json")
    for direction, share in chapters[3].data["wrong that are right"].items():
        pairs, complete = (report.find("R@1", direction=direction, view=v) for v in ("pairs", "complete"))
        wrong = right = 0.0
        for query, hit in zip(pairs.queries, pairs.values, strict=True):
            wrong += 1 - hit
            right += complete.values[complete.queries.index(query)] - hit
        assert share == pytest.approx(right / wrong)


def test_the_world_chapter_counts_the_pairs(demo_run):
    world = limner.load("scenes", images=100)
    data = demo_run[1][0].data
    assert (data["labelled"], data["true"]) == (500, len(world.extra["complete"]))
    assert f"miss {1 - 500 / data['true']:.0%}" in demo_run[1][0].text


def test_chance_is_the_share_of_right_answers(demo_run):
    unseen = limner.load("scenes", images=100).test
    complete = unseen.extra["complete"].restrict(queries=unseen.images.ids, candidates=unseen.texts.ids)
    cells = demo_run[1][2].data
    assert cells["pairs i2t"]["chance"] == pytest.approx(5 / 100)
    assert cells["complete t2i"]["chance"] == pytest.approx(len(complete) / (20 * 100))


def test_everything_that_lasts_shows_progress(demo_run):
    assert demo_run[2] == [
        "composing 100 scenes",
        "drawing the images",
        "training histograms",
        "evaluating histograms",
        "training colours",
        "evaluating colours",
        "comparing the two systems",
        "writing the report",
    ]


def test_the_page_shows_both_systems(demo_run):
    page = (demo_run[0] / "report.html").read_text()
    assert BETTER in page
    assert BASELINE in page


@pytest.fixture
def outputs_fit_their_schemas():
    """Not here: the only JSON in this file is of chapters that no demo has."""


def test_the_command_tells_it_and_speaks_json(tmp_path, monkeypatch):
    from limner.cli import demo_chapters as demo

    chapters = [demo.Chapter("One", "first\nsecond", {"n": 1}), demo.Chapter("Two", "third")]
    monkeypatch.setattr(demo, "chapters", lambda out, **options: iter(chapters))
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert done.stdout == "1. One\n   first\n   second\n\n2. Two\n   third\n\n"
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path), "--json"])
    assert json.loads(done.stdout) == {"One": {"n": 1}, "Two": {}}


def test_a_world_too_small_is_a_usage_error(tmp_path):
    assert CliRunner().invoke(app, ["demo", "-O", "images=3"]).exit_code == 2
