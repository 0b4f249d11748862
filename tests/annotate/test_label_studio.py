"""Tasks of Label Studio: written by limner, imported, answered and exported by the real program, and read again.

`label_studio.json` was made by `freeze_label_studio.py`, which says how: by the running server of label-studio.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import freeze_label_studio as frozen
import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.answer_files import read_answers, read_judgements
from limner.annotate.export import export, import_answers, judgements
from limner.annotate.labelling_tools import collection_tasks, interface, read_tasks, tasks, write_tasks
from limner.annotate.scale import SCALE, Grade, ImportedAnswer, Reason, Scale
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import add_collection, add_pairs
from limner.cli import app
from limner.core.errors import LimnerError

REAL: dict[str, Any] = json.loads(Path(__file__).with_name("label_studio.json").read_text(encoding="utf-8"))
PAIRS = [("i0", "t0"), ("i0", "t1"), ("i1", "t1")]


@pytest.fixture
def world():
    texts = limner.Items(["t0", "t1"], ["a dog", 'a "cat" & more'], kind="text")
    pairs = limner.Judgements.from_pairs([("i0", "t0", 1), ("i0", "t1", 0.5), ("i1", "t1", 0)], candidates=["t0", "t1"])
    return limner.Collection("toy", limner.Items(["i0", "i1"], [None, None]), texts, pairs)


@pytest.fixture
def store(world, tmp_path):
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, world)
        yield opened


def saved(folder, content, name="export.json"):
    (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder / name


# --- the real program -------------------------------------------------------------------------------------------


def test_the_export_of_label_studio_is_read(tmp_path):
    annotations, left_out = read_tasks(saved(tmp_path, REAL["own"]))
    first, second = ((f"photos/i {n}.jpg", f"t{n}") for n in range(2))
    assert annotations[:2] == [
        ImportedAnswer("ann", *first, 4, (), 1500),
        ImportedAnswer("bob", *first, 3, ("wrong-colour",), 2000),
    ]
    assert [(g.image, g.caption, g.grade, g.reasons, g.milliseconds) for g in annotations[2:]] == [
        (*second, 2, ("not-in-image", "wrong-size"), 2500),
        (*second, 1, (), 2500),
    ]
    assert len({g.annotator for g in annotations}) == 4
    assert sorted(left_out) == [
        "1 annotations without a choice left out",
        "1 skipped annotations left out",
        "1 without an annotation left out",
    ]


def test_label_studio_keeps_what_limner_wrote(tmp_path):
    ours = frozen.written()
    assert [task["data"] for task in REAL["own"]] == [task["data"] for task in ours]
    assert REAL["own"][0]["data"]["image"] == "/data/local-files/?d=photos/i%200.jpg"
    results = [a["result"] for a in REAL["own"][0]["annotations"]]
    assert results == [a["result"] for a in ours[0]["annotations"]]
    assert not any(a["ground_truth"] for a in REAL["own"][0]["annotations"])
    assert REAL["predictions"] == [len(task["predictions"]) for task in frozen.predicted()]


def test_choices_and_ratings_of_another_interface_get_grades(tmp_path):
    source = saved(tmp_path, REAL["stars"])
    fields = {"image_field": "photo", "caption_field": "sentence"}
    with pytest.raises(LimnerError, match="task 1: the choice 'match' has no grade"):
        read_tasks(source, **fields)
    grades = {"match": 4, "no match": 1, "unclear": None, "5": 4}
    annotations, left_out = read_tasks(source, choices=grades, **fields)
    assert [(g.image, g.caption, g.grade) for g in annotations] == [
        ("p0.jpg", "sentence 0", 4), ("p1.jpg", "sentence 1", 1), ("p3.jpg", "sentence 3", 4),
    ]  # fmt: skip
    assert left_out == ("1 annotations with the choice 'unclear' left out",)
    assert len(read_tasks(source, choices=grades, control="stars", **fields)[0]) == 1


# --- store and collection ---------------------------------------------------------------------------------------


def test_answers_of_a_store_go_there_and_back(store, world, tmp_path):
    add_pairs(store, PAIRS)
    submitted = [
        ImportedAnswer("ann", *PAIRS[0], 4, (), 900),
        ImportedAnswer("bob", *PAIRS[0], 2, ("wrong-age",)),
        ImportedAnswer("ann", *PAIRS[1], 1),
    ]
    import_answers(store, submitted, key="first")
    assert export(store, tmp_path / "t.json", image_url="http://host/{image}?full") == 3
    exported_tasks = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert [len(task["annotations"]) for task in exported_tasks] == [2, 1, 0]
    assert exported_tasks[1]["data"] == {
        "image": "http://host/i0?full", "caption": 'a "cat" & more', "image_id": "i0", "caption_id": "t1",
    }  # fmt: skip
    assert (tmp_path / "t.xml").read_text(encoding="utf-8") == interface()
    back = read_answers(tmp_path / "t.json")
    assert sorted(back, key=str) == sorted(submitted, key=str)
    with open_store(tmp_path / "other.db") as second_store:
        add_collection(second_store, world)
        import_answers(second_store, back, key="t.json")
        assert judgements(second_store) == judgements(store)
        assert len(answers(second_store)) == 3
    assert read_judgements(tmp_path / "t.json").grade(*PAIRS[1]) == 0


def test_a_collection_becomes_tasks_with_predictions(world):
    drafts = collection_tasks(world)
    predictions = {
        (t["data"]["image_id"], t["data"]["caption_id"]): t["predictions"][0]["result"][0]["value"]["choices"]
        for t in drafts
    }
    assert predictions == {("i0", "t0"): ["100% yes"], ("i0", "t1"): ["partially yes"], ("i1", "t1"): ["100% no"]}
    assert all(task["annotations"] == [] for task in drafts)
    graded = limner.Judgements.from_pairs([("i0", "t0", 3)], candidates=["t0", "t1"])
    with pytest.raises(LimnerError, match=r"grades '3.0': expected 0, 0.5 or 1"):
        collection_tasks(limner.Collection("toy", world.images, world.texts, graded))


def test_the_interface_has_every_grade_and_reason():
    view = ElementTree.fromstring(interface())
    values = [[c.get("value") for c in block] for block in view.iter("Choices")]
    assert values == [[SCALE.label(g) for g in (1, 2, 3, 4)], [reason.name for reason in SCALE.reasons]]


# --- bad files --------------------------------------------------------------------------------------------------


def annotated(*results, **more):
    return [{"data": {"image": "i0", "caption": "t0"}, "annotations": [{"result": list(results), **more}]}]


def picked(*words, control="grade"):
    return {"from_name": control, "type": "choices", "value": {"choices": list(words)}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"tasks": []}, "got dict, expected a list of tasks"),
        ([7], "task 1: the task has no 'data'"),
        ([{"id": 1, "image": "i", "grade": "100% yes"}], "export as JSON"),
        ([{"data": {"caption": "t"}, "annotations": []}], "neither image_id nor image; got 'caption'"),
        ([{"data": {"image": True, "caption": "t"}, "annotations": []}], "neither image_id nor image"),
        ([{"data": {"image": "i", "caption": "t"}}], "expected a list of annotations"),
        (annotated(picked("100% yes", "100% no")), "2 choices ('100% yes', '100% no'), expected one"),
        (annotated(picked("100% yes"), picked("100% no", control="again")), "several controls ('again', 'grade')"),
        (annotated(picked("perhaps")), "the choice 'perhaps' has no grade"),
        (annotated({"from_name": "s", "type": "rating", "value": {"rating": 4}}), "the choice '4' has no grade"),
        (annotated(picked("100% yes"), picked("grammar", control="reasons")), "grade 4 with reasons"),
        (annotated(picked("mostly no"), picked("ugly", control="reasons")), "unknown reason 'ugly'"),
        (annotated(picked(["100% yes"])), "expected a list of words, or a rating"),
        (annotated("100% yes"), "without a list 'result'"),
        (annotated(picked("100% yes")) * 2, "task 2: 'unknown' answers this pair twice"),
    ],
)
def test_bad_exports_are_refused_by_task(tmp_path, content, message):
    with pytest.raises(LimnerError) as error:
        read_tasks(saved(tmp_path, content))
    assert message in str(error.value)


def test_an_answer_without_its_parts_is_no_answer(tmp_path):
    blank = {"from_name": "grade", "type": "choices"}
    annotations, left_out = read_tasks(saved(tmp_path, annotated(blank) + annotated() + annotated(picked())))
    assert (annotations, left_out) == ([], ("3 annotations without a choice left out",))
    odd = annotated(picked("100% yes"), lead_time=-3, completed_by={"id": 7, "email": "a@example.org"})
    assert read_tasks(saved(tmp_path, odd))[0] == [ImportedAnswer("a@example.org", "i0", "t0", 4)]


def test_tasks_need_pairs_and_a_place_for_the_image(tmp_path):
    with pytest.raises(LimnerError, match="expected {image} in it"):
        tasks(PAIRS, {"t0": "", "t1": ""}, image_url="http://host")
    with pytest.raises(LimnerError, match="no pairs"):
        write_tasks([], tmp_path / "t.json")


# --- the command ------------------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_commands_export_and_import(store, tmp_path):
    add_pairs(store, PAIRS)
    done = run("annotate", "export", store.location, tmp_path / "t.json", "--image-url", "x/{image}")
    assert (done.exit_code, "3 rows" in done.output) == (0, True)
    labelled = annotated(picked("match"), completed_by=3) + annotated(picked("match"), was_cancelled=True)
    source = saved(tmp_path, labelled)
    done = run("annotate", "import", store.location, source, "--choice", "match=4")
    assert done.exit_code == 0
    assert "1 answer added" in done.output
    assert "1 skipped annotations left out" in done.output
    for words in (["--choice", "match=9"], ["--choice", "match"]):
        assert run("annotate", "import", store.location, source, *words).exit_code == 2
    assert run("annotate", "import", store.location, tmp_path / "a.csv", "-O", "control=c").exit_code == 2
    assert run("annotate", "export", store.location, tmp_path / "a.csv", "--image-url", "x/{image}").exit_code == 3


def test_the_command_converts_a_collection(tmp_path):
    words = ["data", "convert", "scenes", tmp_path / "t", "--to", "label-studio", "-O", "images=3"]
    done = run(*words)
    assert done.exit_code == 0, done.output
    exported_tasks = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert {task["predictions"][0]["result"][0]["value"]["choices"][0] for task in exported_tasks} == {"100% yes"}
    assert run("data", "convert", "scenes", tmp_path / "o", "-O", "images=3", "--image-url", "{image}").exit_code == 2


def test_an_own_scale_and_comments_make_the_round_trip(tmp_path):
    scale = Scale(
        (Grade(4, 'yes, "all" of it', "y"), Grade(1, "no & <never>", "n", reasons=True)), (Reason("a&b", "<x>", "x"),)
    )
    submitted = [
        ImportedAnswer("ann", *PAIRS[0], 4, (), None, "two boats"),
        ImportedAnswer("ann", *PAIRS[1], 1, ("a&b",)),
    ]
    written = tasks(PAIRS, {"t0": "a dog", "t1": "a cat"}, answers=submitted, scale=scale)
    write_tasks(written, tmp_path / "t.json", scale=scale)
    assert read_tasks(tmp_path / "t.json", scale=scale)[0] == submitted
    view = ElementTree.parse(tmp_path / "t.xml")
    assert [c.get("value") for c in view.iter("Choice")] == ["no & <never>", 'yes, "all" of it', "a&b"]
    with pytest.raises(LimnerError, match="has no grade"):
        read_tasks(tmp_path / "t.json")
