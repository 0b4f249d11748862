"""BEIR folders: read, written, read again, and what is wrong with them."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError
from limner.datasets import write
from limner.datasets.beir import load_beir, write_beir


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path):
    lines(tmp_path / "corpus.jsonl", [{"_id": "a", "image": "a.jpg"}, {"_id": "b", "image": "b.jpg"}, {"_id": "c"}])
    lines(tmp_path / "queries.jsonl", [{"_id": 1, "text": "a dog"}, {"_id": "2", "text": "a cat"}])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\tb\t1\n")
    return tmp_path


def test_texts_ask_for_images(folder):
    loaded = limner.load(folder)
    assert list(loaded.images.ids) == ["a", "b", "c"] and loaded.texts.values == ("a dog", "a cat")
    assert (
        loaded.images.values[:2] == (str(folder / "a.jpg"), str(folder / "b.jpg")) and loaded.images.values[2] is None
    )
    assert sorted(loaded.judgements) == [("a", "1", 2.0), ("b", "1", 0.0), ("b", "2", 1.0)]


def test_images_may_ask_and_titles_come_before_texts(folder):
    lines(folder / "queries.jsonl", [{"_id": "1", "image": "x.jpg"}, {"_id": "2"}])
    lines(folder / "corpus.jsonl", [{"_id": k, "title": "T", "text": k} for k in "abc"])
    loaded = load_beir(folder)
    assert loaded.texts.values == ("T a", "T b", "T c") and list(loaded.images.ids) == ["1", "2"]


def test_without_images_the_direction_is_asked_for(folder):
    lines(folder / "corpus.jsonl", [{"_id": k, "text": k} for k in "abc"])
    with pytest.raises(LimnerError, match="give the side of the images"):
        load_beir(folder)
    assert len(load_beir(folder, direction="i2t").texts) == 3


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_a_collection_comes_back(tmp_path, direction):
    world = limner.load("scenes", images=20)
    lost = write_beir(world, tmp_path / "out", direction=direction)
    assert any("20 images are no files" in note for note in lost) and any("complete" in note for note in lost)
    reloaded = load_beir(tmp_path / "out", direction=direction)
    assert reloaded.judgements == world.judgements and reloaded.texts.values == world.texts.values
    assert {name: set(ids) for name, ids in reloaded.splits.items()} == {n: set(i) for n, i in world.splits.items()}
    only = load_beir(tmp_path / "out", direction=direction, split="dev")
    assert len(only.judgements) == 20 and len(only.images) == 20


def test_the_files_are_those_that_beir_reads(tmp_path):
    """As BEIR's GenericDataLoader reads them: JSON lines, and a tsv whose header is skipped."""
    write(limner.load("scenes", images=5), tmp_path / "out", form="beir")
    corpus = {row["_id"]: row for row in map(json.loads, (tmp_path / "out" / "corpus.jsonl").open())}
    queries = {row["_id"]: row["text"] for row in map(json.loads, (tmp_path / "out" / "queries.jsonl").open())}
    assert all({"text", "title"} <= set(row) for row in corpus.values()) and len(queries) == 25
    with (tmp_path / "out" / "qrels" / "test.tsv").open() as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL)
        next(reader)
        rows = [(query, document, int(score)) for query, document, score in reader]
    assert len(rows) == 5 and all(query in queries and document in corpus for query, document, _ in rows)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", '{"text": "x"}\n', "no '_id' here"),
        ("corpus.jsonl", '{"_id": "a", "image": 3}\n', "are texts; got something else"),
        ("corpus.jsonl", '{"_id": "a", "image": "a"}\n{"_id": "a"}\n', "is there twice"),
        ("queries.jsonl", "", "no entries"),
        ("qrels/test.tsv", "a\tb\tc\n1\ta\t1\n", "expected query-id, corpus-id, score"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n9\ta\t1\n", "'9' is not in queries.jsonl"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\ta\tx\n", "score"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\ta\t-1\n", "is negative"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n1\ta\t1\n1\ta\t1\n", "a second time"),
    ],
)
def test_bad_files_are_refused(folder, file, content, message):
    (folder / file).write_text(content)
    with pytest.raises(LimnerError, match=message):
        load_beir(folder)


def test_from_the_shell(tmp_path, folder):
    done = CliRunner().invoke(
        app, ["data", "convert", "scenes", str(tmp_path / "out"), "--to", "beir", "-O", "images=5"]
    )
    assert done.exit_code == 0 and (tmp_path / "out" / "corpus.jsonl").is_file(), done.output
    done = CliRunner().invoke(app, ["data", "describe", f"beir:{tmp_path / 'out'}", "-O", "direction=t2i"])
    assert done.exit_code == 0 and "25" in done.stdout, done.output
    done = CliRunner().invoke(app, ["data", "describe", f"beir:{tmp_path / 'out'}"])
    assert done.exit_code == 3 and "direction" in done.output
    with pytest.raises(LimnerError, match="form of a folder 'x'"):
        write(limner.load(folder), tmp_path / "y", form="x")


def test_a_folder_without_queries_says_which_file_is_missing(tmp_path):
    lines(tmp_path / "corpus.jsonl", [{"_id": "a", "image": "a.jpg"}])
    with pytest.raises(LimnerError, match=r"has no queries.jsonl: expected the queries of BEIR.*it has 'corpus.jsonl'"):
        load_beir(tmp_path)


def test_queries_without_a_file_of_their_own_are_the_ids_in_the_qrels(tmp_path):
    lines(tmp_path / "corpus.jsonl", [{"_id": key, "image": f"{key}.jpg"} for key in "ab"])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n")
    (tmp_path / "run.json").write_text(json.dumps({"q1": {"a": 0.9, "b": 0.1}, "q2": {"a": 0.8, "b": 0.2}}))
    loaded = load_beir(tmp_path)
    assert list(loaded.texts.ids) == ["q1", "q2"] and loaded.texts.values == ("", "")
    assert len(loaded.judgements) == 2 and "only the ids of the queries" in loaded.warnings[0]
    run = ["evaluate", str(tmp_path), "--run", str(tmp_path / "run.json"), "--measures", "R@1", "--json"]
    assert json.loads(CliRunner().invoke(app, run).stdout)["results"][0]["value"] == 0.5
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path), "--model", "offline", "--split", "all"])
    assert done.exit_code == 3 and "texts are empty" in done.output, done.output
