"""limner encode and limner match rerank: the numbers of Python, caches that resume, clear words for what cannot be."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.embeddings import Embeddings
from limner.datasets.runs import read_run


def run(*args, status=0):
    done = CliRunner().invoke(app, [str(a) for a in args])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture
def workdir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glove.txt").write_text("red 1 0\ndog 0 1\ncat 1 1\n")
    (tmp_path / "texts.txt").write_text("a red dog\ncat\nred\n")
    return tmp_path


def test_encode_writes_what_python_encodes_and_keeps_it(workdir):
    words = ("encode", "texts.txt", "--model", "word-vectors", "-O", "file=glove.txt", "--cache", "kept", "--json")
    first = json.loads(run(*words, "-o", "v.npy").stdout)
    assert (first["items"], first["dim"], first["from the cache"]) == (3, 2, 0)
    assert Embeddings.load("v.npy").matrix.tolist() == [[0.5, 0.5], [1, 1], [1, 0]]
    cached = json.loads(run(*words, "-o", "w.npz").stdout)
    assert cached["from the cache"] == 3
    assert (Embeddings.load("w.npz").matrix == Embeddings.load("v.npy").matrix).all()


def test_encode_takes_a_side_of_a_collection_and_a_saved_model(workdir):
    world = limner.load("scenes")
    model = limner.train(world.restrict(world.images.ids[:80]), "colours")
    model.save(workdir / "m.npz")
    run("encode", "scenes", "--side", "texts", "--model", "m.npz", "-o", "t.npz")
    embeddings = Embeddings.load("t.npz").subset(list(world.texts.ids[:9])).matrix
    np.testing.assert_allclose(embeddings, model.encode_texts(world.texts[:9]).matrix, atol=1e-5)


def test_rerank_is_the_cascade_of_python_and_writes_a_submission(workdir):
    pytest.importorskip("rapidfuzz")
    from limner.match import cascade
    from limner.papers.file_name_systems import Levenshtein

    world = limner.load("scenes", images=60).test
    proposer = limner.train(limner.load("scenes", images=60), "colours").scores(world)
    proposer.top(30).save("p.run")
    data = ("p.run", "scenes", "-O", "images=60", "--scorer", "levenshtein", "--depth", "20")
    outputs = ("--cache", "kept", "-o", "sub.csv", "-o", "out.run", "--json")
    summary = json.loads(run("match", "rerank", *data, *outputs).stdout)
    assert summary["pairs"] == 20 * len(world.images) and summary["from the cache"] == 0
    names = [key for key in world.images.ids]  # noqa: C416
    expected = cascade(proposer, Levenshtein(), queries=names, candidates=world.texts, depth=20)
    ranking = read_run("out.run")
    assert all(ranking[q] == expected[q] for q in expected.queries)
    lines = (workdir / "sub.csv").read_text().splitlines()
    assert lines[0] == "id,caption_title_and_reference_description" and len(lines) == 1 + 5 * len(world.images)
    assert json.loads(run("match", "rerank", *data, *outputs).stdout)["from the cache"] == summary["pairs"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["encode", "texts.txt", "--model", "clipp", "-o", "v.npy"], 3, "unknown encoder 'clipp'"),
        (["encode", "texts.txt", "--model", "word-vectors", "-o", "v.txt"], 3, "ends in '.txt'"),
        (["encode", "nothing", "--model", "minilm", "-o", "v.npy"], 3, "no file or folder nothing"),
        (["encode", "scenes", "--side", "both", "--model", "minilm", "-o", "v.npy"], 2, "expected images or texts"),
        (["match", "rerank", "p.run", "scenes", "--scorer", "none", "-o", "o.run"], 3, "no ranking file p.run"),
        (["match", "rerank", "q.json", "scenes", "--scorer", "none", "-o", "o.run"], 3, "unknown pair scorer 'none'"),
        (
            ["match", "rerank", "q.json", "scenes", "--scorer", "levenshtein", "--depth", "x", "-o", "o.run"],
            2,
            "--depth x",
        ),
        (
            ["match", "rerank", "q.json", "scenes", "--scorer", "levenshtein", "-O", "weight=2", "-o", "o.run"],
            3,
            "weight=2.0: expected",
        ),
    ],
)
def test_what_cannot_be_is_said(workdir, words, status, message):
    world = limner.load("scenes", images=40)
    (workdir / "q.json").write_text(json.dumps({world.test.images.ids[0]: [world.test.texts.ids[0]]}))
    if "scenes" in words and words[0] == "match":
        words = [*words, "-O", "images=40"]
    assert message in run(*words, status=status).output
