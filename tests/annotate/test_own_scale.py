"""A store with its own grades and reasons: read and checked, kept before the first answer, in answers and files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import websites
from limner.annotate.answer_files import read_answers, read_judgements
from limner.annotate.export import export, failure_labels, import_answers
from limner.annotate.form_files import as_toml, parse_scale, read_scale
from limner.annotate.guideline import GuidelineExample, newest, revise, scale_of, set_scale
from limner.annotate.sample import ORIGINAL
from limner.annotate.scale import SCALE, ImportedAnswer
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.contents import Listed, add_pool
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.cli import app as command
from limner.core.errors import LimnerError, UnknownName
from limner.explain.failures import Failure
from limner.scores import Scores

OWN = """
question = "Is this the right photo of the product?"

[[grades]]
label = "other product"
counts_as = "no"
key = "x"
reasons = true

[[grades]]
label = "same product"
counts_as = "yes"
meaning = "Model and colour are the same."

[[grades]]
label = "variant"
counts_as = "weak yes"

[[reasons]]
label = "Another colour"
key = "C"
failure = "colour"

[[reasons]]
label = "<b>another size</b>"
key = "v"
name = "size"
"""


@pytest.fixture
def own_scale():
    return parse_scale(OWN)[0]


@pytest.fixture
def store(tmp_path, own_scale):
    """Two tasks of five pairs, for two people each, and own grades."""
    path = websites.filled(tmp_path / "own.db")
    with open_store(path) as opened:
        set_scale(opened, own_scale)
        yield opened


def answered(store, name, grades, reasons=()):
    annotator = add_annotator(store, name).id
    assignment = lease(store, annotator)
    for item, grade in zip(assignment.items, grades, strict=True):
        why = reasons if scale_of(store).asks(grade) else ()
        submit(
            store, annotator, item.id, key=f"{name}-{item.id:06}", grade=grade, reasons=why, comment=f"=said of {grade}"
        )
    return assignment.items


def test_grades_come_best_first_with_keys_from_the_worst_and_the_values_of_the_measures(own_scale):
    assert [(g.value, g.label, g.key, g.reasons) for g in own_scale.grades] == [
        (4, "same product", "3", False), (3, "variant", "2", True), (1, "other product", "x", True),
    ]  # fmt: skip
    assert [(r.name, r.key, r.failure) for r in own_scale.reasons] == [
        ("another-colour", "c", "colour"),
        ("size", "v", ""),
    ]
    assert own_scale.question == "Is this the right photo of the product?" and own_scale.custom and not SCALE.custom


@pytest.mark.parametrize("scale", [SCALE, parse_scale(OWN)[0], parse_scale("reasons = []", form="toml")[0]])
def test_a_scale_written_as_toml_is_read_again(scale, tmp_path):
    rules = 'Look "twice".\nThen \\n say """ it.'
    assert parse_scale(as_toml(scale, guideline=rules)) == (scale, rules + "\n")
    (tmp_path / "s.toml").write_text(as_toml(scale), encoding="utf-8")
    assert read_scale(tmp_path / "s.toml") == (scale, "")


def test_what_a_file_leaves_out_is_as_built_in(tmp_path):
    (tmp_path / "two.json").write_text(json.dumps({"grades": [YES, {**NO, "reasons": True}]}))
    scale, rules = read_scale(tmp_path / "two.json")
    assert [g.key for g in scale.grades] == ["2", "1"] and scale.reasons == SCALE.reasons and rules == ""
    assert scale.asks(1) and not scale.asks(4) and not scale.asks(3)
    assert parse_scale("")[0] == SCALE


YES, NO = {"label": "fits", "counts_as": "yes"}, {"label": "does not", "counts_as": "no"}
WHY = {"label": "blurred", "key": "b"}
BAD = {
    "a list": ([], "expected a table with question, guideline, grades, reasons"),
    "unknown": ({"grade": []}, "unknown key 'grade'"),
    "no list": ({"grades": {}}, "expected a list of tables"),
    "one": ({"grades": [YES]}, "one that counts as yes and one that counts as no"),
    "none": ({"grades": []}, "one that counts as yes and one that counts as no"),
    "no no": ({"grades": [YES, {**NO, "counts_as": "weak no"}]}, "one that counts as yes and one that counts as no"),
    "twice": ({"grades": [YES, YES, NO]}, "two grades count as yes"),
    "same label": ({"grades": [YES, {**NO, "label": "fits"}]}, "the label 'fits'"),
    "counts as": ({"grades": [YES, {**NO, "counts_as": ["no"]}]}, "expected one of yes, weak yes, weak no, no"),
    "empty label": ({"grades": [YES, {**NO, "label": " "}]}, "expected 1 to 60 characters"),
    "two lines": ({"grades": [YES, {**NO, "label": "a\nb"}]}, "on one line"),
    "key": ({"grades": [YES, {**NO, "key": "ab"}]}, "expected one letter or digit"),
    "taken": ({"grades": [YES, {**NO, "key": "Z"}]}, "already means zoom"),
    "shared": ({"grades": [{**YES, "key": "1"}, NO]}, "have the same key '1'"),
    "letter": ({"grades": [{**YES, "key": "b"}, NO], "reasons": [WHY]}, "have the same key 'b'"),
    "digit": ({"reasons": [{**WHY, "key": "5"}]}, "expected one letter"),
    "no key": ({"reasons": [{"label": "blurred"}]}, "expected one letter"),
    "no name": ({"reasons": [{**WHY, "label": "размыто"}]}, "give one of 1 to 40 small letters"),
    "names": ({"reasons": [WHY, {**WHY, "key": "v"}]}, "the name 'blurred'"),
    "class": ({"reasons": [{**WHY, "failure": "alternative"}]}, "expected one of object, colour"),
    "many": ({"reasons": [WHY] * 21}, "at most 20"),
    "asks": ({"grades": [{**YES, "reasons": True}, NO], "reasons": []}, "asks for reasons, but there are none"),
    "yes or no": ({"grades": [{**YES, "reasons": 1}, NO]}, "expected true or false"),
    "question": ({"question": 3}, "question 3"),
    "guideline": ({"guideline": []}, "expected text"),
    "long": ({"question": "?" * 50_001}, "at most 50,000"),
}


@pytest.mark.parametrize(("content", "words"), BAD.values(), ids=BAD)
def test_a_bad_scale_is_refused_in_words_that_name_the_file(content, words, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(LimnerError) as error:
        read_scale(tmp_path / "bad.json")
    assert words in str(error.value) and "bad.json" in str(error.value) and "\n" not in str(error.value)
    done = CliRunner().invoke(
        command, ["annotate", "study", "scale", str(tmp_path / "new.db"), str(tmp_path / "bad.json")]
    )
    assert done.exit_code == 3 and not (tmp_path / "new.db").exists()


def test_other_files_are_refused(tmp_path):
    for name, text, words in (("a.yaml", "", ".toml or .json"), ("a.toml", "a = [", "not TOML")):
        (tmp_path / name).write_text(text)
        with pytest.raises(LimnerError, match=words):
            read_scale(tmp_path / name)


def test_a_scale_is_kept_on_both_databases_and_fixed_by_the_first_answer(database, own_scale):
    websites.filled(database)
    with open_store(database) as store:
        assert scale_of(store) == SCALE
        revise(store, "Old rules.", [GuidelineExample("a", "b", 3), GuidelineExample("a", "b", 2)])
        set_scale(store, own_scale, guideline="Look at the product.")
        assert newest(store).lines == ["Look at the product."]
        assert [each.grade for each in newest(store).examples] == [3]  # the scale has no weak no
    with open_store(database) as store:
        assert scale_of(store) == own_scale
        answered(store, "ada", [4, 3, 1, 1, 4])
        set_scale(store, own_scale, guideline="Look at the product.")  # the same again
        with pytest.raises(LimnerError, match="5 answers under its present grades"):
            set_scale(store, SCALE)
        assert scale_of(store) == own_scale


def test_an_answer_is_refused_if_the_grades_change_while_it_is_submitted(database, own_scale, monkeypatch):
    """The grades are set after the first answer was checked against the old ones, and before it is stored."""
    websites.filled(database)
    with open_store(database) as store:
        annotator = add_annotator(store, "ada").id
        item = lease(store, annotator).items[0]

        def checked(store):
            before = scale_of(store)
            set_scale(store, own_scale)
            return before

        for place in ("limner.annotate.store.answers", "limner.annotate.export"):
            monkeypatch.setattr(f"{place}.scale_of", checked)
        with pytest.raises(LimnerError, match="the grades were changed meanwhile"):
            submit(store, annotator, item.id, key="k" * 8, grade=2)
        assert answers(store) == []
        set_scale(store, SCALE)
        with pytest.raises(LimnerError, match="the grades were changed meanwhile"):
            import_answers(store, [ImportedAnswer("bob", item.image, item.caption, 2)], key="a")
        assert answers(store) == []


def test_answers_have_only_grades_and_reasons_of_the_store(store):
    annotator = add_annotator(store, "ada").id
    item = lease(store, annotator).items[0].id
    for grade, reasons, error in (
        (2, (), "expected 4 \\(same product\\), 3 \\(variant\\), 1 \\(other product\\)"),
        (4, ("size",), "only for 1 and 3"),
        (1, ("wrong-colour",), "unknown reason"),
    ):
        with pytest.raises((LimnerError, UnknownName), match=error):
            submit(store, annotator, item, key="k" * 8, grade=grade, reasons=reasons)
    submit(store, annotator, item, key="k" * 8, grade=1, reasons=("size", "another-colour"))
    assert answers(store)[0].reasons == ("another-colour", "size")
    assert newest(store).lines[:2] == [
        "Read the caption, look at the image, and answer: Is this the right photo of the product?",
        "same product: Model and colour are the same.",
    ]


def test_files_name_the_own_grades_and_are_imported_where_they_fit(store, tmp_path, own_scale):
    answered(store, "ada", [4, 3, 1, 1, 4], ["another-colour"])
    export(store, tmp_path / "a.csv")
    export(store, tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == [
        "same product", "variant", "other product", "other product", "same product",
    ]  # fmt: skip
    head, first = (tmp_path / "a.csv").read_text().splitlines()[:2]
    assert '"comment","label"' in head and '"\'=said of 4"' in first  # no formula in a spreadsheet
    assert sorted(read_judgements(tmp_path / "a.csv").grades.tolist()) == [0.0, 0.0, 0.5, 1.0, 1.0]
    with pytest.raises(LimnerError, match="line 3: unknown reason 'another-colour'"):
        read_answers(tmp_path / "a.csv")
    imported = read_answers(tmp_path / "a.csv", scale=own_scale)
    with open_store(websites.filled(tmp_path / "plain.db", tasks=0)) as plain, pytest.raises(UnknownName):
        import_answers(plain, imported, key="a")
    with open_store(websites.filled(tmp_path / "like.db", tasks=0)) as like:
        set_scale(like, own_scale)
        assert import_answers(like, imported, key="a") == 5
        assert [a.reasons for a in answers(like)] == [a.reasons for a in answers(store)]
        assert [a.comment for a in answers(like)] == [f"=said of {a.grade}" for a in answers(store)]
        assert {a.guideline for a in answers(like)} == {newest(like).version} == {"2"}


def test_own_reasons_become_the_failure_classes_that_they_name(store):
    items = answered(store, "ada", [1, 1, 4, 4, 4], ["another-colour"])
    failure = Failure(items[0].caption, items[0].text, "truth", items[0].image)
    assert failure_labels(store, [failure]) == {items[0].caption: frozenset({"colour"})}


def test_the_shell_shows_and_sets_the_grades(tmp_path):
    run, database = CliRunner().invoke, str(tmp_path / "new.db")
    (tmp_path / "own.toml").write_text(OWN)
    assert (
        run(command, ["annotate", "study", "scale", database]).exit_code == 3
    )  # no store, and nothing to create it with
    done = run(command, ["annotate", "study", "scale", database, str(tmp_path / "own.toml")])
    assert done.exit_code == 0 and "3 grades and 2 reasons; guideline 2\n" in done.output
    text = run(command, ["annotate", "study", "scale", database]).output
    assert parse_scale(text)[0] == parse_scale(OWN)[0]
    document = json.loads(run(command, ["annotate", "study", "scale", database, "--json"]).output)
    assert document["own"] and document["grades"][0]["label"] == "same product"
    websites.filled(database)
    with open_store(database) as store:
        items = answered(store, "ada", [4, 3, 1, 1, 4], ["size"])
        scores = Scores.from_matrix(np.ones((1, 1)), [items[0].image], [items[0].caption])
        add_pool(store, [Listed("mine", "i2t", scores.top(1))])
        store.set(ORIGINAL, [[items[2].image, items[2].caption, 1]])
    counted = run(command, ["annotate", "estimate", database]).output
    assert "same product" in counted and "100% yes" not in counted
    tables = run(command, ["annotate", "study", "tables", database]).output
    assert "1 original pairs that someone called other product" in tables
    assert "variant" in tables and "another-colour" in tables and "quantity" not in tables
