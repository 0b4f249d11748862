"""limner text-only: the numbers of Python, and a word where captions are sorted by length."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.encoders import encoder
from limner.papers.text_only import length_note, text_only, words_by_number

LONG = "a red dog and a cat run over green grass"


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("red", "dog", "cat", "run", "green", "grass", "blue")
    (tmp_path / "glove.txt").write_text("".join(f"{w} {' '.join(str(float(w == v)) for v in words)}\n" for w in words))
    rows = ["image,caption"]
    for n, word in enumerate(words):
        rows += [f"{n}.jpg,{LONG} {word} {word}", f"{n}.jpg,a {word} {word} thing here", f"{n}.jpg,{word}"]
    (tmp_path / "captions.csv").write_text("\n".join(rows))
    return limner.load("captions.csv")


@pytest.mark.parametrize("corpus", ["mean", "joined"])
def test_the_command_gives_what_python_gives(collection, corpus):
    words = (
        "evaluate",
        "text-only:captions.csv",
        "--model",
        "word-vectors",
        "-O",
        "file=glove.txt",
        "-O",
        f"corpus={corpus}",
    )
    done = run(*words, "-O", "query=1", "--measures", "R@1 MRR", "--cache", "kept", "--json")
    assert done.exit_code == 0, done.output
    scores, right = text_only(collection, encoder("word-vectors", file="glove.txt"), query=1, corpus=corpus)
    expected = limner.evaluate(scores, right, measures="R@1 MRR")
    values = {r["measure"]: r["value"] for r in json.loads(done.stdout)["results"]}
    assert values == {str(r.measure): r.value for r in expected.results}


def test_each_caption_asks_in_turn_and_sorted_captions_are_told(collection):
    words = ("evaluate", "text-only:captions.csv", "--model", "word-vectors", "-O", "file=glove.txt")
    done = run(*words, "-O", "query=each", "--json")
    assert [row["query"] for row in json.loads(done.stdout)["captions"]] == [0, 1, 2]
    assert words_by_number(collection) == [12, 5, 1]
    output = run(*words).stdout
    assert "captions are sorted by length (mean words #0 12.0, #1 5.0, #2 1.0)" in output
    assert length_note(limner.load("scenes", images=40), 0) == []


def test_wrong_words(collection):
    words = ("evaluate", "text-only:captions.csv", "--model", "word-vectors", "-O", "file=glove.txt")
    assert run(*words, "-O", "query=first").exit_code == 2
    assert run(*words, "-O", "query=7").exit_code == 3
    assert run(*words, "-O", "query=each", "-o", "r.json").exit_code == 2
    assert run(*words, "-O", "corpus=sum").exit_code == 3
