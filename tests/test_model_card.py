"""Model cards: a report in the metadata, as huggingface_hub reads it, back on a board, and bad cards."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError
from limner.evaluation import leaderboard
from limner.evaluation.boards.hub_results import TASKS, read_model_card, write_model_card

hub = pytest.importorskip("huggingface_hub", reason="model cards are read and written by huggingface_hub")


@pytest.fixture(scope="module")
def report():
    rng = np.random.default_rng(0)
    images = rng.standard_normal((30, 8))
    return limner.evaluate(images, images + rng.standard_normal((30, 8)), measures="R@1 R@5", name="ours")


def test_the_hub_reads_what_is_written_and_the_rest_of_the_card_stays(tmp_path, report):
    card = tmp_path / "README.md"
    card.write_text("---\nlicense: mit\ntags:\n- vision\n---\n\n# My model\n\nWords.\n")
    write_model_card(report, card, model="me/mine")
    read = hub.ModelCard.load(card)
    assert read.data.license == "mit" and "Words." in read.text and read.data.model_name == "me/mine"
    entries = {(each.task_type, each.metric_type): each for each in read.data.eval_results}
    assert len(entries) == 4
    for result in report.results:
        each = entries[TASKS[result.direction], str(result.measure)]
        assert each.metric_value == pytest.approx(result.value)
        assert each.metric_args["low"] == pytest.approx(result.interval.low) and each.metric_args["queries"] == 30
    write_model_card(report, card)  # again: replaced, not doubled
    assert len(hub.ModelCard.load(card).data.eval_results) == 4


def test_a_card_comes_back_on_a_board(tmp_path, report):
    write_model_card(report, tmp_path / "a.md", model="first")
    write_model_card(report, tmp_path / "b.md", model="second")
    board = leaderboard([tmp_path / "a.md", tmp_path / "b.md"], measures="R@1", direction="t2i")
    assert [row.system for row in board.tables[0].rows] == ["first", "second"]
    assert board.tables[0].rows[0].value == pytest.approx(report.value("R@1", direction="t2i"))
    assert board.tables[0].rows[0].queries == 30


def test_numbers_of_others_may_be_percent_or_no_numbers(tmp_path):
    rows = [
        hub.EvalResult("retrieval", "flickr8k", "Flickr8k", metric, value)
        for metric, value in (("R@1", 62.5), ("R@5", 0.9), ("R@10", "high"))
    ]
    data = hub.ModelCardData(model_name="theirs", eval_results=rows)
    (tmp_path / "c.md").write_text(f"---\n{data.to_yaml()}\n---\n")
    assert [(str(e.measure), e.value) for e in read_model_card(tmp_path / "c.md")] == [("R@1", 0.625), ("R@5", 0.9)]


@pytest.mark.parametrize(
    "text", ["---\nmodel-index: 3\n---\n", "---\na: [\n---\n", "---\nmodel-index:\n- name: x\n  results:\n  - 4\n---\n"]
)
def test_bad_cards_are_refused_in_one_line(tmp_path, text):
    (tmp_path / "bad.md").write_text(text)
    with pytest.raises(LimnerError, match="bad.md"):
        read_model_card(tmp_path / "bad.md")
    done = CliRunner().invoke(app, ["compare", "--show", "board", str(tmp_path / "bad.md")])
    assert done.exit_code == 3 and "Traceback" not in done.output


def test_from_the_shell(tmp_path, report):
    report.save(tmp_path / "ours.json")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "ours.json"), "-o", str(tmp_path / "README.md")])
    assert done.exit_code == 0 and "model-index" in (tmp_path / "README.md").read_text(), done.output
    write_model_card(report, tmp_path / "other.md", model="theirs")
    done = CliRunner().invoke(
        app, ["compare", "--show", "board", str(tmp_path / "README.md"), str(tmp_path / "other.md")]
    )
    assert done.exit_code == 0 and "ours" in done.stdout, done.output
    assert CliRunner().invoke(app, ["compare", "--show", "board", str(tmp_path / "none.md")]).exit_code == 3
