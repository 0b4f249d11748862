"""Worlds of one to six scenes, and empty parts: every command and system gives a result or says what is missing."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app

COMMANDS = (
    *(
        f"{command} scenes --model {system}"
        for command in ("evaluate", "explain gap")
        for system in ("aligned", "nearest")
    ),
    *(f"{c} scenes --model colours" for c in ("evaluate", "explain failures", "explain attack", "explain gap")),
    *("explain map scenes --model colours -o OUT/map.html", "index OUT/index scenes --model colours"),
    *("train histograms scenes -o OUT/model", "train towers scenes -o OUT/towers -O epochs=1"),
    *(f"annotate {c} OUT/{c}.db scenes --model colours" for c in ("pool", "plan", "failures", "study")),
    *("evaluate scenes --model colours --correct csls -O tune=dev", "evaluate scenes --model towers(epochs=1)"),
    *(f"evaluate scenes --model colours --split {split}" for split in ("train", "dev", "test", "all")),
    *("evaluate scenes --model histograms --by meaning -o OUT/r.html", "data audit scenes", "data describe scenes"),
)


@pytest.mark.parametrize("images", range(1, 7))
def test_few_scenes_give_a_result_or_a_message(tmp_path, images):
    faults = []
    for words in COMMANDS:
        line = words.replace("OUT", str(tmp_path)).split()
        done = CliRunner().invoke(app, [*line, "-O", f"images={images}"])
        if done.exit_code not in (0, 2, 3):
            faults.append((words, done.exit_code, done.stderr[-200:]))
    assert faults == []


def test_a_split_without_images_is_none():
    world = limner.load("scenes", images=3)
    assert list(world.splits) == ["train"]
    with pytest.raises(limner.LimnerError, match="unknown split 'test' of 'scenes': known: train"):
        world.split("test")
    with pytest.raises(limner.LimnerError, match="no images|unknown split"):
        limner.load("scenes", images=3, split="dev")


@pytest.mark.parametrize("name", ["histograms", "colours", "aligned", "nearest", "kcca"])
def test_a_system_and_an_empty_part(name):
    world = limner.load("scenes", images=30)
    model = limner.train(world.train, name)
    scores = model.scores(world.restrict([]))
    assert (len(scores.queries), len(scores.candidates)) == (0, 0)


@pytest.mark.parametrize("name", ["towers", "pcme"])
def test_towers_refuse_an_empty_part(name):
    pytest.importorskip("torch")
    world = limner.load("scenes", images=30)
    model = limner.train(world.train, name, epochs=1)
    with pytest.raises(limner.LimnerError, match="no texts to encode: expected at least one"):
        model.scores(world.restrict([]))
