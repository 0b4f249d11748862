"""A form that limner does not know: one file of data, from a sample over the page to exported answers."""

from __future__ import annotations

import csv
import json
import re

import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.form_files import built_in_forms, parse_form, read_form
from limner.annotate.store import open_store
from limner.annotate.store.studies import study_answers
from limner.annotate.study_results import study_results
from limner.cli import app
from limner.core.errors import LimnerError

FORM = """
question = "How well is the photo made?"
hint = "Judge the photo, not what it shows."
rules = ["Look at the whole image.", "Zoom in before you call it blurred."]

[[shown]]
name = "photo"
kind = "image"
caption = "The photo"

[[shown]]
name = "others"
kind = "captions"
caption = "What people say about it"

[[parts]]
name = "use"
kind = "one"
label = "What can it be used for?"
noun = "use"
options = [{ name = "print", label = "Print", key = "p" }, { name = "web", label = "The web", key = "w" }]

[[parts]]
name = "faults"
kind = "several"
label = "Its faults"
noun = "fault"
least = 0
alone = "none"
options = [
  { name = "blurred", label = "Blurred" }, { name = "dark", label = "Dark" }, { name = "none", label = "None" },
]

[[parts]]
name = "beauty"
kind = "number"
low = 1
high = 5

[[parts]]
name = "remark"
kind = "text"
"""
WORLD = ("scenes", "-O", "images=60")


def run(*args, status=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, args)])
    assert done.exit_code == status, done.output
    return done.output


def test_a_sixth_form_is_one_file_of_data(tmp_path, monkeypatch):
    from starlette.testclient import TestClient

    from limner.web import make_app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos.toml").write_text(FORM)
    world = limner.load("scenes", images=60)
    images, texts = list(world.test.images.ids), list(world.test.texts.ids)
    rows = [f"{images[n]},{texts[2 * n]};{texts[2 * n + 1]},batch {n}\n" for n in range(3)]
    (tmp_path / "items.csv").write_text("photo,others,batch\n" + "".join(rows))

    added = run("study", "add", "s.db", "photos.toml", *WORLD, "--items", "items.csv", "--people", 2, "--json")
    assert json.loads(added) == {"questions": 3, "study": "photos", "people": 2, "answers": 6}
    assert json.loads(run("study", "form", "photos.toml", "--json"))["question"] == "How well is the photo made?"
    site = make_app([world], systems=(), store=tmp_path / "s.db")
    client = TestClient(site, base_url="http://localhost", follow_redirects=False)
    for number in range(3):
        page = client.get("/study").text
        assert "How well is the photo made?" in page and "Zoom in before" in page and "batch" not in page
        assert page.count('name="use"') == 2 and page.count('name="beauty"') == 5 and "<textarea" in page
        assert re.search(r'<img src="/image\?[^"]*id=', page) and page.count('<li><span class="rank">') == 2
        fields = dict(re.findall(r'name="(question|key)" value="([^"]+)"', page))
        sent = {**fields, "use": "web", "faults": ["dark", "blurred"], "beauty": str(number + 2), "remark": " so\nso "}
        for bad in ({"use": "wall"}, {"beauty": "6"}, {"faults": ["dark", "none"]}, {"faults": ["dull"]}):
            assert client.post("/study", data={**sent, **bad}).status_code in (400, 404)
        for _ in range(2):
            assert client.post("/study", data=sent).status_code == 303
    assert "Nothing left to answer" in client.get("/study").text
    by_api = {"question": 1, "key": "k" * 10, "answer": {"use": "print", "beauty": 3}}
    assert client.post("/api/study-answers", json=by_api).status_code == 409, "one answer of each person"

    assert run("study", "export", "s.db", "photos", "-o", "answers.csv").startswith("wrote")
    rows = list(csv.DictReader((tmp_path / "answers.csv").open()))
    assert [row["photo"] for row in sorted(rows, key=lambda row: images.index(row["photo"]))] == images[:3]
    assert {(row["use"], row["faults"], row["remark"], row["annotator"]) for row in rows} == {
        ("web", "blurred;dark", "so so", "local")
    }
    for row in rows:
        row["annotator"], row["use"] = "ada", "print"
    with (tmp_path / "more.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert run("study", "import", "s.db", "photos", "more.csv").startswith("3 answers added")
    results = json.loads(run("study", "results", "s.db", "photos", "--json"))
    assert (results["answers"], results["asked"]) == (6, 6)
    use = {row["use"]: (row["answers"], row["share"]) for row in results["parts"]["use"]}
    assert use == {"print": ("3", "50.00%"), "web": ("3", "50.00%")}
    assert results["alpha"]["beauty"] == 1 and results["alpha"]["use"] < 0
    page = client.get("/studies").text
    assert "6 of 6 answers" in page and "blurred" in page and "alpha 1.000" in page
    with open_store("s.db") as store:
        assert {each.question.hidden["batch"] for each in study_answers(store)} == {"batch 0", "batch 1", "batch 2"}


def test_the_five_forms_of_limner_are_files_too(tmp_path):
    assert built_in_forms() == ("captions", "experts", "failures", "pairs", "preference")
    graded = read_form("pairs")
    assert graded.check({"grade": "3", "reasons": ["wrong-colour"]}, {}) == {"grade": "3", "reasons": ["wrong-colour"]}
    with pytest.raises(LimnerError, match="reasons are only for 3, 2"):
        graded.check({"grade": "4", "reasons": ["wrong-colour"]}, {})
    assert "preference" in run("study", "form") and "Ranking A" in run("study", "form", "preference")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('kind = "image"', 'kind = "sound"'), "kind 'sound': expected text, image"),
        (('kind = "one"', 'kind = "number"'), "part 'use' is 'number'"),
        (('alone = "none"', 'alone = "nothing"'), "alone 'nothing' of 'faults'"),
        (('key = "w"', 'key = "p"'), "the same key 'p'"),
        (('name = "beauty"', 'name = "use"'), "the name 'use' is used twice"),
        (("high = 5", "high = 0"), "'beauty' from 1 to 0"),
        (('question = "How', 'questions = "How'), "unknown key 'questions'"),
        (('hint = "', 'results = "failures"\nhint = "'), "needs the names, kinds and options of the form 'failures'"),
    ],
)
def test_files_that_are_no_form_are_refused_in_a_line(tmp_path, change, words):
    (tmp_path / "photos.toml").write_text(FORM.replace(*change))
    with pytest.raises(LimnerError, match=words) as error:
        read_form(str(tmp_path / "photos.toml"))
    assert "photos.toml" in str(error.value) and "\n" not in str(error.value)
    assert parse_form(FORM).part("use").noun == "use"


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("preference", ("--model", "colours", "--model", "histograms", "--limit", 4)),
        ("failures", ("--model", "colours")),
    ],
)
def test_a_form_of_limner_in_other_words_keeps_its_sample_and_results(tmp_path, monkeypatch, name, sample):
    monkeypatch.chdir(tmp_path)
    text, question = run("study", "form", name), read_form(name).question
    (tmp_path / "other.toml").write_text(text.replace(question, "Welche?").replace('label = "', 'label = "Ä '))
    for form in (name, "other.toml"):
        run("study", "add", "s.db", form, *WORLD, *sample, "--people", 1)
    with open_store("s.db") as store:
        usual, other = (study_results(store, study) for study in (name, "other"))
    assert (usual.question, other.question) == (question, "Welche?")
    assert [table.title for table in other.tables] == [table.title for table in usual.tables]
    assert other.asked == usual.asked > 0
    (tmp_path / "more.toml").write_text(
        text.replace("[[parts]]", '[[parts]]\nname = "sure"\nkind = "text"\n[[parts]]', 1)
    )
    with pytest.raises(LimnerError, match=f"more.toml: results = '{name}' needs the names, kinds and options"):
        read_form("more.toml")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("photos.toml", *WORLD), "give --items FILE"),
        (("photos.toml", *WORLD, "--items", "nosuch.csv"), "no file nosuch.csv"),
        (("photos.toml", *WORLD, "--items", "bad.csv"), "line 3: no photo"),
        (("preference", *WORLD, "--items", "bad.csv"), "leave --items out"),
        (("failures", *WORLD, "--model", "colours", "--model", "histograms"), "those of one --model"),
        (("nosuch", *WORLD), "form 'nosuch': expected captions"),
    ],
)
def test_studies_that_cannot_be_are_refused_at_the_shell(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos.toml").write_text(FORM)
    (tmp_path / "bad.csv").write_text("photo,others\n1,2\n,3\n")
    done = CliRunner().invoke(app, ["annotate", "study", "add", "s.db", *args])
    output = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code in (2, 3) and words in output and "Traceback" not in output
