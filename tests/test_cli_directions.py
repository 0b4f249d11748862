"""From the shell: images and texts that share ids, queries in groups, reports that are not comparable, families."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
import toys
from limner.cli import app

N = 12


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(w) for w in words])
    assert done.exit_code == status, done.output
    return done


def data(*words):
    return json.loads(run(*words, "--json").stdout)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Images and texts that are both called 0, 1, 2, ..., one text to an image, with objects; scores that lean."""
    matrix = np.random.default_rng(3).random((N, N)) + 0.4 * np.eye(N)
    np.save(tmp_path / "S.npy", matrix)
    np.save(tmp_path / "I.npy", matrix.astype(np.float32))
    np.save(tmp_path / "T.npy", np.eye(N, dtype=np.float32))
    rows = [f"{k},caption number {k},{k}" for k in range(N)]
    (tmp_path / "captions.csv").write_text("image,caption,id\n" + "\n".join(rows) + "\n")
    scores = limner.Scores.from_matrix(matrix, range(N), range(N))
    scores.ranking().save(tmp_path / "i2t.run")
    scores.T.ranking().save(tmp_path / "t2i.run")
    (tmp_path / "objects.csv").write_text("image,name\n" + "".join(f"{k},dog\n{k},ball\n" for k in range(N)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def expected(folder):
    world = limner.load("captions.csv")
    scores = limner.Scores.load("S.npy", world.images.ids, world.texts.ids)
    report = limner.evaluate(scores, world, direction="i2t", measures="R@1 MeanR")
    values = {(r.direction, str(r.measure)): r.value for r in report.results}
    assert values["i2t", "MeanR"] != values["t2i", "MeanR"], "or a swap would not be seen"
    return values


def measured(*words):
    report = data("evaluate", "captions.csv", *words, "--measures", "R@1 MeanR")
    return {(r["direction"], r["measure"]): r["value"] for r in report["results"]}


def test_a_matrix_is_images_by_texts_whatever_the_ids(expected):
    assert measured("--scores", "S.npy") == pytest.approx(expected)


def test_a_run_with_shared_ids_needs_a_word(expected):
    refused = run("evaluate", "captions.csv", "--run", "i2t.run", status=3).stderr
    assert "could be images or texts" in refused and "--run i2t=FILE" in " ".join(refused.split())
    forth = measured("--run", "i2t=i2t.run")
    assert forth == pytest.approx({key: value for key, value in expected.items() if key[0] == "i2t"})
    both_directions = measured("--run", "t2i=t2i.run", "--run", "i2t=i2t.run")
    assert both_directions == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--run", "i2i=i2t.run"], "i2i=i2t.run"),
        (["--run", "i2t=i2t.run", "--run", "t2i.run"], "name it for all"),
    ],
)
def test_a_direction_goes_with_a_run(folder, words, message):
    done = CliRunner().invoke(app, ["evaluate", "captions.csv", *words])
    assert done.exit_code in (2, 3) and message in " ".join(done.stderr.split())


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_failures_with_shared_ids_are_those_of_the_direction(folder, direction):
    world = limner.load("captions.csv")
    scores = limner.Scores.load("S.npy", world.images.ids, world.texts.ids)
    source = scores if direction == "i2t" else scores.T
    wrong = int((source.matrix().argmax(axis=1) != np.arange(N)).sum())
    answer = data(
        "explain", "failures", "captions.csv", "--scores", "S.npy", "--objects", "objects.csv", "--direction", direction
    )
    assert answer["failures"] == wrong
    run_file = f"{direction}.run"
    answer = data(
        "explain", "failures", "captions.csv", "--run", run_file, "--objects", "objects.csv", "--direction", direction
    )
    assert answer["failures"] == wrong
    refused = run("explain", "failures", "captions.csv", "--run", run_file, "--objects", "objects.csv", status=3).stderr
    assert "--direction" in refused


# --- groups -----------------------------------------------------------------------------------------------------


@pytest.fixture
def grouped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    queries = [f"img{k // 5}#{k % 5}" for k in range(60)]
    truth = limner.Judgements.from_pairs([(q, f"d{k % 7}") for k, q in enumerate(queries)])
    for name in "ab":
        scores = limner.Scores.from_matrix(rng.random((60, 7)), queries, [f"d{c}" for c in range(7)])
        scores.ranking().save(f"{name}.run")
    (tmp_path / "pairs.qrels").write_text("".join(f"{q} 0 {c} 1\n" for q, c, _ in truth))
    (tmp_path / "groups.txt").write_text("".join(f"{q} {q.partition('#')[0]}\n" for q in queries))
    (tmp_path / "groups.csv").write_text("query,group\n" + "".join(f"{q},{q.partition('#')[0]}\n" for q in queries))
    (tmp_path / "groups.json").write_text(json.dumps({q: q.partition("#")[0] for q in queries}))
    return queries


@pytest.mark.parametrize("file", ["groups.txt", "groups.csv", "groups.json"])
def test_queries_of_a_run_go_by_group(grouped, file):
    for name in "ab":
        done = run("evaluate", "pairs.qrels", "--run", f"{name}.run", "-O", f"groups={file}", "--measures", "R@2", "-o",
                   f"{name}.json")  # fmt: skip
        assert "independent" not in done.stdout
    assert limner.Report.load("a.json").results[0].interval.unit == "clusters"
    assert "by cluster" in run("compare", "a.json", "b.json", "--test", "mcnemar").stdout


def test_without_groups_ids_say_what_belongs_together(grouped):
    done = run("evaluate", "pairs.qrels", "--run", "a.run", "--measures", "R@2", "-o", "a.json")
    assert "count as one cluster: 60 queries, 12 clusters" in done.stdout
    assert limner.Report.load("a.json").results[0].interval.unit == "clusters"
    assert "by cluster" in run("compare", "a.json", "a.json").stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"img0#0\n", "groups.txt, line 1: 1 columns, expected 2"),
        (b"img0#0 img0\nimg0#0 img1\n", "line 2: query 'img0#0' is already in a group"),
        (b"img0#0 img0\n", "59 queries have no group"),
        (b"\xff\xfe\n", "groups.txt, line 1"),
        (None, "no file of groups at groups.txt"),
    ],
)
def test_bad_groups(grouped, tmp_path, content, message):
    (tmp_path / "groups.txt").unlink()
    if content is not None:
        (tmp_path / "groups.txt").write_bytes(content)
    done = run("evaluate", "pairs.qrels", "--run", "a.run", "-O", "groups=groups.txt", status=3)
    assert message in " ".join(done.stderr.split())


def test_groups_are_for_plain_judgements(folder):
    (folder / "groups.txt").write_text("0 a\n")
    done = run("evaluate", "captions.csv", "--scores", "S.npy", "-O", "groups=groups.txt", status=2)
    assert "-O groups is for a qrels file" in " ".join(done.stderr.split())


# --- families, and reports that were measured differently -------------------------------------------------------


@pytest.fixture
def reports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toy = toys.collection(n=20)
    for name, noise in (("a", 1.0), ("b", 1.6)):
        limner.evaluate(toys.scores(toy, noise=noise), toy, name=name, measures="R@1 MRR").save(f"{name}.json")
    limner.evaluate(toys.scores(toy), toy, name="c", measures="R@1 MRR", ties="order").save("c.json")


def test_the_family_is_chosen_and_told(reports):
    table, line = (run("compare", "a.json", "b.json", "--samples", "500", *w) for w in ([], ["--family", "line"]))
    assert "p (Holm, table)" in table.stdout and "over all 4 comparisons of the table" in table.stdout
    assert "p (Holm, line)" in line.stdout and "not over the lines" in line.stdout
    comparison = data("compare", "a.json", "b.json", "--samples", "500", "--family", "line")
    assert comparison["family"] == "line" and {"p", "p_holm", "p_holm_table"} <= comparison["rows"][0].keys()
    assert "unknown family" in run("compare", "a.json", "b.json", "--family", "all", status=3).stderr


def test_different_reports_are_refused_and_can_be_allowed(reports):
    refused = run("compare", "a.json", "c.json", status=3).stderr
    assert "ties is 'expected' in one and 'order' in another" in " ".join(refused.split())
    assert "--allow-different" in refused
    done = run("compare", "a.json", "c.json", "--samples", "200", "--allow-different")
    assert "note: ties is 'expected' in one" in done.stdout
