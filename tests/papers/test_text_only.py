"""limner text-only: the numbers of Python, and a word where captions are sorted by length."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.datasets.runs import read_run
from limner.encoders import encoded, encoder
from limner.explain.adversarial import attack
from limner.explain.blind_baselines import ranks
from limner.explain.failures import explain, failures
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
    rows += [f"7.jpg,{LONG} dog dog", "7.jpg,a cat cat thing here", "7.jpg,dog"]  # another image is found
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


# --- as a system of other commands --------------------------------------------------------------------------------

MODEL = ("--model", "word-vectors", "-O", "file=glove.txt")
SPEC = ("text-only:captions.csv", "-O", "corpus=joined", "-O", "query=1")


@pytest.fixture
def scored(collection):
    return text_only(collection, encoder("word-vectors", file="glove.txt"), query=1, corpus="joined")[0]


def test_the_run_of_text_only_retrieval(collection, scored):
    done = run("evaluate", *SPEC, *MODEL, "-o", "t2i.run", "-o", "report.json")
    assert done.exit_code == 0, done.output
    lists = read_run("t2i.run")
    assert {q: lists[q] for q in lists.queries} == {q: scored.ranking()[q] for q in scored.queries}
    again = run("evaluate", "captions.csv", "--run", "t2i=t2i.run", "--missing", "skip", "--measures", "R@1", "--json")
    assert again.exit_code == 0, again.output
    right = json.loads(run("evaluate", *SPEC, *MODEL, "--measures", "R@1", "--json").stdout)["results"]
    values = {r["measure"]: r["value"] for r in json.loads(again.stdout)["results"]}
    assert values == {r["measure"]: r["value"] for r in right}
    assert run("evaluate", *SPEC[:3], "-O", "query=each", *MODEL, "-o", "t2i.run").exit_code == 2


def test_failures_of_text_only_retrieval(collection, scored):
    done = run("explain", "failures", *SPEC, *MODEL, "--json", "-o", "page.html")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    expected = explain(failures(scored, collection, direction="t2i"), collection)
    assert 0 < document["failures"] == len(expected) and "page.html" in done.stderr
    means = {name: None if math.isnan(row["mean"]) else row["mean"] for name, row in expected.summary.items()}
    assert {name: row["mean"] for name, row in document["scores"].items()} == means
    assert document["totals"]["object hits"] == expected.totals["object hits"] > 0
    run("evaluate", *SPEC, *MODEL, "-o", "t2i.run")
    by_run = run("explain", "failures", "captions.csv", "--run", "t2i=t2i.run", "--json")
    assert json.loads(by_run.stdout)["totals"] == document["totals"]


def test_an_attack_on_text_only_retrieval(collection, scored):
    done = run("explain", "attack", *SPEC, *MODEL, "--kind", "colour-all", "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["attacks"]
    captions = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    queries = [captions[q] for q in scored.queries]
    edits = [attack(text, "colour-all") for text in queries]
    words = encoder("word-vectors", file="glove.txt")
    corpus = [" ".join([captions[q[:-1] + "0"], captions[q[:-1] + "2"]]) for q in scored.queries]

    def unit(texts):
        vectors = encoded(words, texts).matrix
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    before = [edit.after if edit else text for edit, text in zip(edits, queries, strict=True)]
    right = np.arange(len(queries))
    first = [100 * np.mean(ranks(unit(texts) @ unit(corpus).T, right) <= 1) for texts in (queries, before)]
    assert row["queries"] == len(queries) and row["changed"] == sum(edit is not None for edit in edits) > 0
    assert [row["R@1"]["before"], row["R@1"]["after"]] == pytest.approx(first)
    text = run("explain", "attack", *SPEC, *MODEL, "--kind", "colour-all").stdout
    assert re.search(r"^ +R@1 +R@5 +R@10 +MRR@10 +MRR +fails$", text, re.M)
    assert re.search(rf"^original +{first[0]:.2f} .* {100 - first[0]:.2f}$", text, re.M)
    assert re.search(rf"^colour-all +{first[1]:.2f} .* {100 - first[1]:.2f}$", text, re.M)


@pytest.mark.parametrize("command", ["failures", "attack"])
def test_text_only_refuses_what_it_is_not(collection, command):
    assert run("explain", command, *SPEC, "--model", "histograms").exit_code not in (0, 70)
    done = run("explain", command, "text-only:captions.csv", "-O", "query=each", *MODEL)
    assert done.exit_code == 2 and "one caption" in done.stderr.replace("\n", " ")
    done = run("explain", "failures", *SPEC, "--scores", "s.npy")
    assert done.exit_code == 2 and "text-only needs an encoder of texts" in done.stderr
    done = run("explain", "failures", *SPEC, *MODEL, "--direction", "i2t")
    assert done.exit_code != 0 and "no system for 'i2t'" in done.stderr
