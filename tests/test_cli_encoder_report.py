"""From the name of an encoder to a report in one command; several encoders are compared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app

sys.path.insert(0, str(Path(__file__).parent / "encoders"))

import tiny

pytest.importorskip("transformers")
WORLD = ("scenes", "-O", "images=40", "--measures", "R@1 R@10")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return tiny.clip(folder / "one"), tiny.clip(folder / "two", kind="siglip")


def shell(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def values(content):
    return {(r["view"], r["direction"], r["measure"]): r["value"] for r in content["results"]}


def test_one_command_gives_what_encoding_and_evaluating_by_hand_gives(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"clip(model={models[0]})"
    done = shell("evaluate", *WORLD, "--model", name, "--cache", "vectors", "-o", "r.json", "--json")
    assert done.exit_code == 0, done.stderr
    world = limner.load("scenes", images=40).test
    clip = limner.encoders.encoder("clip", model=str(models[0]))
    sides = [limner.encoders.encoded(clip, items) for items in (world.images, world.texts)]
    by_hand = limner.evaluate(limner.Scores.from_embeddings(*sides), world, measures="R@1 R@10")
    actual = values(json.loads(done.stdout))
    assert actual == {r.key: pytest.approx(r.value) for r in by_hand.results}
    assert limner.Report.load("r.json").system == name and any(Path("vectors").rglob("*"))
    cached = shell("evaluate", *WORLD, "--model", name, "--cache", "vectors", "--json")
    assert json.loads(cached.stdout) == json.loads(done.stdout)


def test_several_encoders_become_a_comparison(models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = [word for kind, model in zip(("clip", "siglip"), models, strict=True)
             for word in ("--model", f"{kind}(model={model})")]  # fmt: skip
    done = shell("evaluate", *WORLD, *named, "--cache", "vectors", "-o", "r.json", "--json")
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    assert [report["system"] for report in content["reports"]] == named[1::2]
    assert content["comparison"]["systems"] == ["one", "two"]
    files = [f"r-{name}.json" for name in ("one", "two")]
    assert [limner.Report.load(file).system for file in files] == named[1::2]
    text = shell("evaluate", *WORLD, *named, "--cache", "vectors")
    assert "significant" in text.stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--model", "histograms-x"), 3, "histograms-x"),
        (("--model", "colours", "--cache", "vectors"), 2, "--cache with colours"),
        (("--model", "clip(model=a)", "--model", "clip(model=b)", "--name", "x"), 2, "--name"),
    ],
)
def test_what_is_refused(words, status, says):
    done = shell("evaluate", *WORLD, *words)
    assert done.exit_code == status and says in done.stderr and "Traceback" not in done.stderr, done.stderr
