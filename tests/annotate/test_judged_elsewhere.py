"""Pairs that are judged in a spreadsheet or in Argilla: written without answers, filled in, imported."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.answer_files import SHEET
from limner.annotate.export import export, import_answers, open_pairs
from limner.annotate.labelling_tools import read_tasks, write_records
from limner.annotate.scale import ImportedAnswer
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import add_collection, add_pairs
from limner.annotate.store.tasks import Draft, TaskPair, add_tasks
from limner.cli import app
from limner.core.errors import LimnerError

PAIRS = [("i0", "t0"), ("i0", "t1"), ("i1", "t1")]
TEXTS = {"t0": "a dog", "t1": '=a "cat"; & more'}
ANN = "0f0e0d0c-0000-4000-8000-000000000001"


@pytest.fixture
def store(tmp_path):
    texts = limner.Items(list(TEXTS), list(TEXTS.values()), kind="text")
    judged = limner.Judgements.from_pairs([("i0", "t0"), ("i1", "t1")], candidates=list(TEXTS))
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, limner.Collection("toy", limner.Items(["i0", "i1"], [None, None]), texts, judged))
        add_pairs(opened, PAIRS)
        yield opened


def run(*words, status=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, words)])
    assert done.exit_code == status, done.output
    return done


def filled(source, target, grades, *, delimiter=",", annotator=""):
    """What a spreadsheet saves after some rows were filled in."""
    with source.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == SHEET
    with target.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, SHEET, delimiter=delimiter)
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "grade": grades.get((row["image"], row["caption"]), ""), "annotator": annotator})
    return target


def judged(store):
    return {(a.annotator, a.image, a.caption): a.grade for a in answers(store)}


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_sheet_is_filled_in_and_imported(store, tmp_path, delimiter):
    assert "3 rows" in run("export", store.location, tmp_path / "sheet.csv", "--unanswered").output
    grades = {PAIRS[0]: "4", PAIRS[1]: "Mostly no"}
    sheet = filled(tmp_path / "sheet.csv", tmp_path / "done.csv", grades, delimiter=delimiter)
    done = run("import", store.location, sheet, "-O", "annotator=ann")
    assert "2 answers added" in done.output and "1 rows without a grade left out" in done.output
    assert judged(store) == {("ann", *PAIRS[0]): 4, ("ann", *PAIRS[1]): 2}
    assert open_pairs(store) == [PAIRS[2]]
    run("export", store.location, tmp_path / "rest.csv", "--unanswered")
    rest = filled(tmp_path / "rest.csv", tmp_path / "rest_done.csv", {PAIRS[2]: "1"}, annotator="bob")
    run("import", store.location, rest)
    assert judged(store)["bob", *PAIRS[2]] == 1 and open_pairs(store) == []
    assert "nothing to write" in run("export", store.location, tmp_path / "x.csv", "--unanswered", status=3).output


def test_pairs_of_tasks_need_as_many_answers_as_were_asked_for(store, tmp_path):
    add_tasks(store, [Draft((TaskPair(*PAIRS[0]), TaskPair("i1", "t0", "gold_neg")))], replication=2)
    first = [ImportedAnswer("ann", *PAIRS[0], 4), ImportedAnswer("ann", *PAIRS[1], 1)]
    import_answers(store, first, key="first")
    assert open_pairs(store) == [PAIRS[0], PAIRS[2]], "one of two answers, none"
    import_answers(store, [ImportedAnswer("bob", *PAIRS[0], 3)], key="second")
    assert open_pairs(store) == [PAIRS[2]], "controls are not exported"


def test_label_studio_gets_the_open_pairs(store, tmp_path):
    import_answers(store, [ImportedAnswer("ann", *PAIRS[0], 4)], key="first")
    assert export(store, tmp_path / "t.json", only_open=True) == 2
    listed = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert [(t["data"]["image_id"], t["data"]["caption_id"]) for t in listed] == PAIRS[1:]
    with pytest.raises(LimnerError, match="not as qrels"):
        export(store, tmp_path / "t.qrels", only_open=True)


# --- Argilla ----------------------------------------------------------------------------------------------------


def answered(records, **by_question):
    """The records as Argilla exports them: with server ids, a status and responses."""
    return [
        {
            **record, "_server_id": ANN, "status": "completed",
            "responses": {name: [{"value": v, "user_id": person} for person, v in values[number].items()]
                          for name, values in by_question.items()},
        }
        for number, record in enumerate(records)
    ]  # fmt: skip


def test_records_of_argilla_there_and_back(store, tmp_path):
    file = tmp_path / "records.json"
    run("export", store.location, file, "--form", "argilla", "--image-url", "https://x.org/{image}", "--unanswered")
    records = json.loads(file.read_text(encoding="utf-8"))
    assert records[0]["fields"] == {"image": "https://x.org/i0", "caption": "a dog"}
    reasons = [{}, {ANN: ["wrong-colour"]}, {}]
    grades = [{ANN: "100% yes", "bob": "mostly no"}, {ANN: "mostly no"}, {}]
    file.write_text(json.dumps(answered(records, grade=grades, reasons=reasons, comment=[{ANN: "blurred"}, {}, {}])))
    done = run("import", store.location, file)
    assert "3 answers added" in done.output and "1 without a response left out" in done.output
    assert judged(store) == {(ANN, *PAIRS[0]): 4, ("bob", *PAIRS[0]): 2, (ANN, *PAIRS[1]): 2}
    details = {(a.annotator, a.caption): (a.comment, a.reasons) for a in answers(store)}
    assert details[ANN, "t0"] == ("blurred", ()) and details[ANN, "t1"] == ("", ("wrong-colour",))


def test_another_question_needs_grades(tmp_path):
    write_records(PAIRS, TEXTS, tmp_path / "r.json")
    ratings = [{ANN: 5}, {ANN: 1}, {ANN: 3}]
    records = answered(json.loads((tmp_path / "r.json").read_text(encoding="utf-8")), match=ratings)
    (tmp_path / "r.json").write_text(json.dumps(records))
    with pytest.raises(LimnerError, match="record 1: the choice '5' has no grade; known: '100% yes'"):
        read_tasks(tmp_path / "r.json")
    read, left_out = read_tasks(tmp_path / "r.json", choices={"5": 4, "1": 1, "3": None})
    assert [a.grade for a in read] == [4, 1] and left_out == ("1 responses with the choice '3' left out",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"fields": {}}], "expected a list of records with fields and responses"),
        ([{"fields": {"image": "i0"}, "responses": {}}], "neither caption_id nor caption"),
        ([{"fields": {"image": "i", "caption": "t"}, "responses": []}], "responses: expected an object"),
        ([{"fields": {"image": "i", "caption": "t"}, "responses": {"grade": ["yes"]}}], "a value and a user_id"),
        (
            [{"fields": {"image": "i", "caption": "t"}, "responses": {"a": [{"value": 1}], "b": [{"value": 1}]}}],
            "several questions",
        ),
        (
            [{"fields": {"image": "i", "caption": "t"}, "responses": {"grade": [{"value": "100% yes"}] * 2}}],
            "one person answers a question twice",
        ),
        (
            [{"fields": {"image": "i", "caption": "t"}, "responses": {"grade": [{"value": "100% yes"}]}}] * 2,
            "record 2: 'unknown' answers this pair twice",
        ),
    ],
)  # fmt: skip
def test_bad_records(tmp_path, content, message):
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(LimnerError, match=message):
        read_tasks(tmp_path / "r.json")
