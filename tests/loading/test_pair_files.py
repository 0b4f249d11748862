"""Runs and judgements in the forms of other programs: JSON, tables with a header, MTEB's predictions."""

from __future__ import annotations

import gzip
import json

import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError
from limner.datasets.runs import read_run, run_name
from limner.datasets.trec import is_pair_file, read_qrels

GRADES = {"q1": {"a": 2, "b": 0}, "q2": {"c": 1}}
SCORES = {"q1": {"a": 0.1, "b": 0.9}, "q2": {"c": 0.5, "a": 0.5}}
PREDICTIONS = {"mteb_model_meta": {"model_name": "org/m", "revision": "1"}, "default": {"test": SCORES}}


def rows(of, names):
    return [dict(zip(names, (q, c, n), strict=True)) for q, row in of.items() for c, n in row.items()]


def written(folder, of, form, names=("query-id", "corpus-id", "score")):
    """A file of pairs in one of the forms."""
    listed = rows(of, names)
    if form == "parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow.parquet import write_table

        write_table(pa.Table.from_pylist(listed), folder / "f.parquet")
        return folder / "f.parquet"
    separators = {"tsv": "\t", "csv": ",", "txt": "\t", "tsv.gz": "\t"}
    if form in separators:
        lines = [names, *([str(cell) for cell in row.values()] for row in listed)]
        text = "".join(separators[form].join(line) + "\n" for line in lines)
    else:
        text = json.dumps(of) if form == "json" else "".join(json.dumps(row) + "\n" for row in listed)
    content = text.encode()
    (folder / f"f.{form}").write_bytes(gzip.compress(content) if form.endswith("gz") else content)
    return folder / f"f.{form}"


FORMS = ("json", "jsonl", "csv", "tsv", "tsv.gz", "txt", "parquet")


@pytest.mark.parametrize("form", FORMS)
def test_judgements(tmp_path, form):
    read = read_qrels(written(tmp_path, GRADES, form))
    assert {(q, c): g for q, c, g in read} == {("q1", "a"): 2, ("q1", "b"): 0, ("q2", "c"): 1}


@pytest.mark.parametrize(
    "names", [("query-id", "corpus-id", "score"), ("query_id", "doc_id", "relevance"), ("q_id", "doc_id", "score")]
)
def test_judgements_of_beir_ir_datasets_and_ranx(tmp_path, names):
    assert len(read_qrels(written(tmp_path, GRADES, "parquet", names))) == 2
    assert len(read_qrels(written(tmp_path, GRADES, "tsv", names))) == 2


def test_judgements_as_lists(tmp_path):
    (tmp_path / "j.json").write_text('{"q1": ["a", 7], "q2": []}')
    assert [tuple(j) for j in read_qrels(tmp_path / "j.json")] == [("q1", "a", 1), ("q1", "7", 1)]


@pytest.mark.parametrize("form", FORMS)
def test_runs(tmp_path, form):
    run = read_run(written(tmp_path, SCORES, form))
    assert dict(run) == {"q1": ["b", "a"], "q2": ["c", "a"]}
    assert run.scores is not None and run.scores.tolist() == [[0.9, 0.1], [0.5, 0.5]]


def test_lists_have_no_scores(tmp_path):
    (tmp_path / "r.json").write_text('{"q1": ["b", "a"]}')
    assert read_run(tmp_path / "r.json").scores is None


def test_equal_scores_of_a_json_run_are_ties(tmp_path):
    """A candidate that is listed first is no better than one with the same score."""
    (tmp_path / "r.json").write_text(json.dumps({"q": dict.fromkeys("abcd", 1.0)}))
    report = limner.evaluate(read_run(tmp_path / "r.json", candidates="abcd"), {"q": {"a": 1}}, measures="R@1")
    assert report.value("R@1") == 0.25 and not any("equal scores" in note for note in report.notes)
    unknown_pool = limner.evaluate(read_run(tmp_path / "r.json"), {"q": {"a": 1}}, measures="R@1")
    assert unknown_pool.value("R@1") == 0.25
    assert "1 lists end among equal scores: ties count within the list alone" in unknown_pool.notes


def test_predictions_of_mteb(tmp_path):
    file = tmp_path / "T_predictions.json"
    file.write_text(json.dumps(PREDICTIONS))
    assert dict(read_run(file)) == {"q1": ["b", "a"], "q2": ["c", "a"]}
    assert run_name(file) == "org/m" and run_name(tmp_path / "plain.json") == "plain"


def test_one_of_several_subsets(tmp_path):
    file = tmp_path / "T_predictions.json"
    german = {"test": {"q1": {"x": 1.0}}, "dev": {"q1": {"y": 1.0}}}
    file.write_text(json.dumps({**PREDICTIONS, "de": german}))
    assert dict(read_run(f"{file}#de/dev")) == {"q1": ["y"]}
    assert dict(read_run(f"{file}#default")) == dict(read_run(f"{file}#default/test"))
    assert run_name(f"{file}#de/dev") == "org/m"
    with pytest.raises(LimnerError, match=r"3 subsets \('default/test', 'de/test', 'de/dev'\): name one, as in"):
        read_run(file)
    with pytest.raises(LimnerError, match="unknown subset 'ed'"):
        read_run(f"{file}#ed")


def test_a_file_name_with_a_hash(tmp_path):
    (tmp_path / "a.json#1.json").write_text('{"q": ["a"]}')
    assert dict(read_run(tmp_path / "a.json#1.json")) == {"q": ["a"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.json", '{"q": "a"}', "expected a run"),
        ("r.json", '[["q", "a"]]', "expected a run"),
        ("r.json", '{"q": ["a"], "p": {"a": 1}}', "expected a run"),
        ("r.json", '{"q": [{"corpus_id": 1, "score": 2}]}', "expected a run"),
        ("r.json", '{"q": {"a": "0.5"}}', "score of candidate 'a' is '0.5': expected a number"),
        ("r.json", '{"q": {"a": NaN}}', "score of candidate 'a' is nan: expected a number"),
        ("r.json", f'{{"q": {{"a": 1{"0" * 400}}}}}', "score of candidate 'a' is a huge number"),
        ("r.json", '{"mteb_model_meta": {}}', r"0 subsets"),
        ("r.tsv", "query-id\tcorpus-id\tscore\nq\ta\t1\nq\ta\t2\n", "line 3: query 'q' ranks candidate 'a' a second"),
        ("r.csv", "query-id,corpus-id,score\nq,a,high\n", "line 2: score is 'high', expected a number"),
        ("r.jsonl", '{"image": "a.jpg"}\n', "columns 'image': expected query and candidate"),
    ],
)
def test_bad_runs(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(LimnerError, match=message):
        read_run(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("j.json", '{"q": 1}', "judgements of query 'q' are '1'"),
        ("j.json", '{"q": {"a": "yes"}}', "grade of 'a' is 'yes', expected a number"),
        ("j.json", '{"q": [["a", 1]]}', "expected an id"),
        ("j.json", "{}", "no judgements"),
        ("j.tsv", "query-id\tcorpus-id\tscore\nq\ta\t-1\n", "line 2: grade -1 is negative"),
        ("j.tsv", "query-id\tcorpus-id\tscore\nq\ta\t1\nq\ta\t0\n", "line 3: .* a second time"),
    ],
)
def test_bad_judgements(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(LimnerError, match=message):
        read_qrels(tmp_path / name)


def test_what_is_no_file_of_pairs(tmp_path):
    (tmp_path / "captions.csv").write_text("image,caption\na.jpg,a dog\n")
    (tmp_path / "captions_val.json").write_text('{"info": {"year": 2014, "description": "COCO"}, "images": []}')
    (tmp_path / "p.qrels").write_text("q 0 a 1\n")
    assert not any(map(is_pair_file, tmp_path.iterdir())) and not is_pair_file(tmp_path / "none.json")


@pytest.mark.parametrize("form", FORMS)
def test_a_run_against_judgements_at_the_shell(tmp_path, form):
    (tmp_path / "j").mkdir()
    files = written(tmp_path / "j", GRADES, form), written(tmp_path, SCORES, form)
    words = ["evaluate", str(files[0]), "--run", str(files[1]), "--measures", "R@1", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["value"] == pytest.approx((0 + 0.5) / 2)
