"""`limner explain` and the failures on the page: what the commands print is what Python computes."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.cli.commands.explain.hard_negatives import _ignored
from limner.explain.adversarial import FURTHER, KINDS
from limner.explain.blind_baselines import Attack
from limner.explain.failure_classes import CLASSES, shown_failures
from limner.explain.failures import explain, failures
from limner.explain.text_edits import Edit

WORLD = ["scenes", "-O", "images=40", "--split", "all"]


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40)


@pytest.fixture(scope="module")
def matrix(world, tmp_path_factory):
    """A system that answers at random."""
    file = tmp_path_factory.mktemp("explain") / "scores.npy"
    np.save(file, np.random.default_rng(0).random((len(world.images), len(world.texts))))
    return file


def call(*words) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code not in (0, 70), done.output
    return done.stderr


def test_explain_gives_the_numbers_of_python(world, matrix):
    document = json.loads(call("explain", "failures", *WORLD, "--scores", matrix, "--json", "--limit", 2))
    scores = limner.Scores.load(matrix, queries=world.images.ids, candidates=world.texts.ids)
    done = explain(failures(scores.T, world), world)
    assert document["failures"] == len(done)
    assert document["scores"]["CA"]["mean"] == pytest.approx(done.summary["CA"]["mean"])
    assert len(document["told"]) == 2
    shares = {name: row["failures"] for name, row in document["classes"].items()}
    assert set(shares) == {*CLASSES, "none found"} and sum(shares.values()) >= len(done)


def test_explain_one_query_in_words(world, matrix):
    query = json.loads(call("explain", "failures", *WORLD, "--scores", matrix, "--json", "--limit", 1))["told"][0][
        "query"
    ]
    text = call("explain", "failures", *WORLD, "--scores", matrix, "--query", query)
    caption = world.texts.values[world.texts.ids.index(query)]
    assert repr(caption) in text and "only the truth shows" in text and "95% interval" not in text


def test_explain_the_other_way_informed_and_by_class(matrix):
    text = call(
        "explain",
        "failures",
        *WORLD,
        "--scores",
        matrix,
        "--direction",
        "i2t",
        "-O",
        "informed=true",
        "--only",
        "object",
        "--limit",
        1,
    )
    assert "query-informed" in text
    assert re.search(r"^\[.*object.*\] scene-", text, re.M)


def test_explain_with_labels_of_people(world, matrix, tmp_path):
    query = json.loads(call("explain", "failures", *WORLD, "--scores", matrix, "--json", "--limit", 1))["told"][0][
        "query"
    ]
    file = tmp_path / "labels.csv"
    file.write_text(f"query,label\n{query},colour;size\n")
    document = json.loads(call("explain", "failures", *WORLD, "--scores", matrix, "--labels", file, "--json"))
    assert document["classes"]["colour"]["share"] == 1
    assert document["rules"][0]["confidence"] == 1
    file.write_text("query,label\nnobody,colour\n")
    assert "labels no query that failed" in refused("explain", "failures", *WORLD, "--scores", matrix, "--labels", file)


def test_explain_with_answers_of_a_store(world, matrix, tmp_path):
    pytest.importorskip("sqlalchemy")
    from limner.annotate.answer_files import ImportedAnswer
    from limner.annotate.export import import_answers
    from limner.annotate.store import open_store
    from limner.annotate.store.contents import add_collection

    scores = limner.Scores.load(matrix, queries=world.images.ids, candidates=world.texts.ids)
    failure = failures(scores.T, world)[0]
    file = tmp_path / "answers.db"
    with open_store(file) as store:
        add_collection(store, world)
        import_answers(
            store, [ImportedAnswer("one", failure.returned, failure.query, 2, ("wrong-colour",))], key="test"
        )
    document = json.loads(call("explain", "failures", *WORLD, "--scores", matrix, "--labels", file, "--json"))
    assert document["classes"]["colour"] == {"failures": 1, "share": 1}
    assert "no store" in refused("explain", "failures", *WORLD, "--scores", matrix, "--labels", tmp_path / "none.db")
    (tmp_path / "words.txt").write_text("no database")
    assert "is damaged (file is not a database)" in refused(
        "explain", "failures", *WORLD, "--scores", matrix, "--labels", tmp_path / "words.txt"
    )


def test_objects_from_a_file(world, matrix, tmp_path):
    file = tmp_path / "objects.csv"
    file.write_text("image,name\n" + "".join(f"{i},dog\n" for i in world.images.ids))
    document = json.loads(call("explain", "failures", *WORLD, "--scores", matrix, "--objects", file, "--json"))
    assert document["scores"]["CA"]["mean"] == 1
    file.write_text("image,name\nother,dog\n")
    assert "contains none of the images" in refused(
        "explain", "failures", *WORLD, "--scores", matrix, "--objects", file
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--only", "colours"], "did you mean 'colour'"),
        (["--direction", "up"], "unknown direction"),
        (["--query", "nope"], "is not a failed query"),
        (["-o", "failures.json"], "a page with failures is written as .html"),
    ],
)
def test_explain_refuses(matrix, words, expected):
    assert expected in " ".join(refused("explain", "failures", *WORLD, "--scores", matrix, *words).split())


def test_attack_writes_its_edits(world, tmp_path):
    file = tmp_path / "edits.csv"
    text = call("explain", "attack", *WORLD, "-o", file, "--kind", "number")
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert f"{len(rows):8,} of {len(world.texts):,} queries changed" in text
    for row in rows:
        start, old = int(row["start"]), row["old"]
        assert row["before"][start : start + len(old)] == old and row["new"] in row["after"]


def test_attack_asks_again():
    document = json.loads(
        call("explain", "attack", "scenes", "-O", "images=60", "--model", "colours", "--kind", "colour-in", "--json")
    )
    (row,) = document["attacks"]
    assert row["kind"] == "colour-in" and row["changed"] > 0
    assert row["lower"] + row["higher"] + row["same"] == pytest.approx(1)
    assert set(row["R@1"]) == {"before", "after"}


def test_attack_leaves_out_texts_without_an_image_and_ignored_words_that_keep_the_meaning(tmp_path, monkeypatch):
    world = limner.load("scenes", images=60)
    texts = limner.Items([*world.texts.ids, "lone"], [*world.texts.values, "two red circles"], kind="text")
    pairs = limner.Judgements.from_pairs(world.judgements.relevant, queries=world.images.ids, candidates=texts.ids)
    extended = limner.Collection("scenes", world.images, texts, pairs)
    monkeypatch.setattr("limner.cli.commands.explain.hard_negatives.load", lambda *_: extended)
    text = call("explain", "attack", "scenes", "--kind", "colour-in", "-o", tmp_path / "edits.csv")
    assert f"of {len(world.texts):,} queries changed" in text

    edits = tuple(Edit(kind, "a", "b", 0, "a", "b", "red") for kind in ("synonym", "colour-in") for _ in range(5))
    ones = np.ones(5)
    attacks = [Attack(part[0].kind, part, 5, ones, ones, ones, ones[:0]) for part in (edits[:5], edits[5:])]
    assert _ignored(attacks) == ["colour-in, most ignored: red 100% of 5"]


def test_attack_changes_clauses():
    """`colours` reads only which colours a text names: the order of the words cannot move it."""
    kinds = [word for kind in ("negation", "word-order", "relation") for word in ("--kind", kind)]
    rows = json.loads(call("explain", "attack", "scenes", "-O", "images=60", "--model", "colours", *kinds, "--json"))[
        "attacks"
    ]
    assert [each["kind"] for each in rows] == kinds[1::2]
    assert all(each["changed"] > 0 for each in rows)
    assert rows[1]["same"] == 1


def test_the_help_of_attack_names_every_kind():
    help_text = " ".join(call("explain", "attack", "--help").split())
    assert [kind for kind in (*KINDS, *FURTHER) if kind not in help_text] == []


def test_attack_refuses():
    assert "give --model" in " ".join(refused("explain", "attack", *WORLD).split())
    assert "did you mean 'plural'" in refused("explain", "attack", *WORLD, "-o", "x.csv", "--kind", "plurals")
    assert "list of edits" in refused("explain", "attack", *WORLD, "-o", "x.txt")


# --- the page ---------------------------------------------------------------------------------------------------


def test_failures_on_the_page(world, matrix, tmp_path):
    file = tmp_path / "page.html"
    call("explain", "failures", *WORLD, "--scores", matrix, "-o", file)
    page = file.read_text()
    assert 'id="failures"' in page and "What went wrong" in page
    assert page.count('<rect class="common"') and page.count('<rect class="apart"')
    assert 'id="failures-object"' in page and 'href="#failures-object"' in page


def test_a_page_without_failures_has_no_such_section(world, matrix, tmp_path):
    scores = limner.Scores.load(matrix, queries=world.images.ids, candidates=world.texts.ids)
    file = limner.evaluate(scores, world).save(tmp_path / "page.html", collection=world)
    assert 'id="failures"' not in file.read_text()


def test_what_comes_from_outside_is_escaped(world, matrix, tmp_path):
    scores = limner.Scores.load(matrix, queries=world.images.ids, candidates=world.texts.ids)
    evil = '<script>alert("x")</script>'
    done = explain(failures(scores.T, world), world)
    done = replace(done, failures=[replace(f, text=evil) for f in done.failures])
    labels = {f.query: frozenset({"object"}) for f in done.failures}
    report = limner.evaluate(scores, world)
    page = report.save(tmp_path / "p.html", collection=world, failures=shown_failures(done, labels)).read_text()
    assert evil not in page and "&lt;script&gt;" in page


def test_a_thumbnail_carries_boxes_in_its_own_units(world):
    from limner.evaluation.reports.page.gallery import Gallery, section

    done = explain(failures(limner.Scores.from_matrix(
        np.random.default_rng(1).random((len(world.texts), len(world.images))),
        queries=world.texts.ids, candidates=world.images.ids), world), world)  # fmt: skip
    labels = {f.query: frozenset({"object"}) for f in done.failures}
    laid = section(shown_failures(done, labels, each=1), world, Gallery(world))
    ((_, rows),) = laid.groups
    x, _, w, _, marked = rows[0].truth.boxes[0]
    scale = rows[0].truth.item.thumbnail.width / 160
    assert float(x) == pytest.approx(marked.box[0] * scale, abs=0.06)
    assert float(w) == pytest.approx((marked.box[2] - marked.box[0]) * scale, abs=0.06)
