"""ECCV Caption's side tables, stages with and without reasons, subsampled queries, people's judgements kept apart."""

from __future__ import annotations

import json
import random
from collections import Counter

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.merge import Label, merge, precision_recall
from limner.annotate.pool import fill, subsampled, waiting
from limner.annotate.quality import review
from limner.annotate.scale import SCALE
from limner.annotate.side_tables import (
    WORKLOADS,
    WRONG_WAYS,
    by_rank,
    by_workload,
    refuted_originals,
    shortcomings,
    wrong_ways,
)
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.contents import add_collection, proposals
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import Draft, TaskPair, add_tasks, lease
from limner.annotate.tasks import make_tasks
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40, seed=7).test


@pytest.fixture(scope="module")
def systems(world):
    draw = np.random.default_rng(1)
    shape = (len(world.images), len(world.texts))
    return {n: limner.Scores.from_matrix(draw.normal(size=shape), world.images.ids, world.texts.ids) for n in "ab"}


@pytest.fixture
def store(tmp_path, world, systems):
    """A pool of two systems, judged at random with reasons."""
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, world, spec="scenes")
        opened.set("original", [[i, t, g] for i, t, g in world.judgements.relevant])
        fill(opened, systems, depth=3, keep=4)
        close_pairs = {(p.image, p.caption) for p in proposals(opened)}
        add_tasks(opened, make_tasks(waiting(opened), world.judgements, avoid=close_pairs, pooled=6), replication=2)
        draw, ways = (
            random.Random(3),
            ("not-in-image", "not-in-caption", "grammar", *WRONG_WAYS),
        )
        for name in ("ada", "bob"):
            annotator, done = add_annotator(opened, name).id, 0
            while (assignment := lease(opened, annotator)) is not None and done < 7:
                done += 1
                for item in assignment.items:
                    grade = draw.randint(1, 4)
                    why = draw.sample(ways, draw.randint(0, 3)) if grade in (2, 3) else ()
                    submit(opened, annotator, item.id, key=f"{annotator}-{item.id}", grade=grade, reasons=why)
        yield opened


# --- tables -----------------------------------------------------------------------------------------------------


def test_answers_by_system_and_rank_are_those_counted_by_hand(store):
    stored, lists = answers(store), proposals(store)
    counted = by_rank(stored, lists, depth=3)
    assert set(counted) == {"a", "b"}
    for system, rows in counted.items():
        for rank in (1, 2, 3):
            pairs = [(p.image, p.caption) for p in lists if p.system == system and p.rank == rank]
            by_label = Counter(
                SCALE.label(a.grade)
                for pair in pairs
                for a in stored
                if (a.image, a.caption) == pair and a.role == "real"
            )
            assert rows[rank].counts == {words: by_label[words] for words in (grade.label for grade in SCALE.grades)}
            assert sum(rows[rank].shares.values()) == pytest.approx(1)
        assert rows[None].total == sum(rows[rank].total for rank in (1, 2, 3))
    assert by_rank([], lists, depth=1)["a"][1].total == 0
    assert np.isnan(by_rank([], lists, depth=1)["a"][1].shares["100% yes"])


def test_reasons_by_system_are_those_counted_by_hand(store):
    stored, lists = answers(store), proposals(store)
    short, wrong = shortcomings(stored, lists, depth=3), wrong_ways(stored, lists, depth=3)
    for system in "ab":
        pairs = {(p.image, p.caption) for p in lists if p.system == system and p.rank <= 3}
        of_system = [a for a in stored if (a.image, a.caption) in pairs and a.role == "real"]
        ways = Counter(r.removeprefix("wrong-") for a in of_system for r in a.reasons if r.startswith("wrong-"))
        assert wrong[system].counts == {name: ways[name] for name in WRONG_WAYS.values()}
        assert short[system].counts["wrong"] == sum(any(r.startswith("wrong-") for r in a.reasons) for a in of_system)
        assert short[system].counts["grammar"] == sum("grammar" in a.reasons for a in of_system)


def test_people_by_workload(store):
    before = by_workload(store)
    assert [(w.least, w.most) for w in before] == list(WORKLOADS)
    assert {w.people for w in before if w.least == 6} == {2}
    assert sum(w.submitted for w in before) == sum(w.approved for w in before) == 14
    finished = answers(store)[0].assignment
    review(store, finished, "reject", reason="guessed")
    after = by_workload(store)
    assert [w.approved for w in after] == [w.approved - (w.least == 6) for w in before]
    assert [w.submitted for w in after] == [w.submitted for w in before]
    assert after[2].ratio == pytest.approx(13 / 14) and np.isnan(after[5].ratio)


def test_original_pairs_called_no_are_listed_the_most_refused_first(store, world):
    stored = answers(store)
    pairs = {(i, t) for i, t, _ in world.judgements.relevant}
    by_hand = Counter((a.image, a.caption) for a in stored if a.grade == 1 and (a.image, a.caption) in pairs)
    refuted = refuted_originals(store, stored, world.judgements)
    assert {(r.image, r.caption): r.refusals for r in refuted} == by_hand and by_hand
    assert [r.refusals for r in refuted] == sorted((r.refusals for r in refuted), reverse=True)
    assert all(r.text and r.answers >= r.refusals and not r.elsewhere for r in refuted)
    one = next(pair for pair in sorted(pairs) if pair not in by_hand)
    further = Judgements.from_pairs([(*one, 0.0)])
    extended = refuted_originals(store, stored, world.judgements, further=[further])
    assert {(r.image, r.caption) for r in extended} == {*by_hand, one}


def test_the_tables_from_the_shell(store, tmp_path):
    done = CliRunner().invoke(app, ["annotate", "study", "tables", str(tmp_path / "work.db"), "--depth", "3", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert set(document["ranks"]["a"]) == {"1", "2", "3", "all"} and document["workload"][2]["people"] == 2
    text = CliRunner().invoke(app, ["annotate", "study", "tables", str(tmp_path / "work.db"), "--depth", "3"]).stdout
    assert "tasks each" in text and "shortcomings" in text and "original pairs that someone called 100% no" in text
    assert CliRunner().invoke(app, ["annotate", "study", "tables", str(tmp_path / "none.db")]).exit_code in (2, 3)


# --- stages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reasons", "good", "bad"),
    [
        ("required", [(4, ()), (2, ("grammar",))], [(2, ()), (3, ())]),
        ("off", [(4, ()), (2, ())], [(2, ("grammar",))]),
        ("optional", [(2, ()), (3, ("grammar",))], []),
    ],
)
def test_a_stage_may_require_reasons_or_ask_for_none(tmp_path, world, reasons, good, bad):
    with open_store(tmp_path / "s.db") as store:
        add_collection(store, world)
        add_tasks(store, [Draft((TaskPair(world.images.ids[0], world.texts.ids[0]),), "pairs", 0, reasons)])
        annotator = add_annotator(store, "ada").id
        assignment = lease(store, annotator)
        assert assignment.reasons == reasons
        for n, (grade, why) in enumerate(bad):
            with pytest.raises(LimnerError, match="reason"):
                submit(store, annotator, assignment.items[0].id, key=f"bad-{n}", grade=grade, reasons=why)
        for n, (grade, why) in enumerate(good):
            submit(store, annotator, assignment.items[0].id, key=f"good-{n}", grade=grade, reasons=why)
        with pytest.raises(UnknownName):
            add_tasks(store, [Draft((TaskPair(world.images.ids[1], world.texts.ids[0]),), "pairs", 0, "perhaps")])


def test_two_stages_from_the_shell_ask_for_all_pairs_once(tmp_path, world, systems):
    path = tmp_path / "work.db"
    with open_store(path) as store:
        add_collection(store, world, spec="scenes")
        store.set("original", [[i, t, g] for i, t, g in world.judgements.relevant])
        fill(store, systems, depth=5, keep=8)
        every = len(waiting(store))
    pair_counts = []
    for direction, reasons in (("i2t", "required"), ("t2i", "off")):
        args = ["annotate", "tasks", str(path), "--direction", direction, "-O", f"reasons={reasons}", "--json"]
        done = CliRunner().invoke(app, args)
        assert done.exit_code == 0, done.output
        pair_counts.append(json.loads(done.stdout)["pairs"])
    assert sum(pair_counts) == every and pair_counts[0] == 5 * 2 * len(world.images) - _shared_top(systems, "i2t")
    with open_store(path) as store:
        assert lease(store, add_annotator(store, "ada").id).reasons == "required"
    for bad in (["--direction", "up"], ["-O", "reasons=perhaps"], ["--form", "captions", "-O", "reasons=off"]):
        done = CliRunner().invoke(app, ["annotate", "tasks", str(path), *bad])
        assert done.exit_code in (2, 3) and "Traceback" not in done.output


def _shared_top(systems, direction):
    """Pairs that both systems have among their first five."""
    one, two = (
        {(q, c) for q in r.queries for c in r[q]}
        for r in ((s if direction == "i2t" else s.T).top(5) for s in systems.values())
    )
    return len(one & two)


def test_the_page_shows_reasons_as_the_stage_wants_them(tmp_path, world):
    from starlette.testclient import TestClient

    from limner.web import make_app

    with open_store(tmp_path / "s.db") as store:
        add_collection(store, world, spec="scenes")
        add_tasks(store, [Draft((TaskPair(world.images.ids[0], world.texts.ids[0]),), "pairs", 0, "off")])
    site = make_app([world], systems=(), store=tmp_path / "s.db")
    client = TestClient(site, base_url="http://localhost", follow_redirects=False)
    assert 'id="reasons" hidden' in client.get("/judge").text
    task = client.post("/api/task", json={}).json()["task"]
    assert task["reasons"] == "off"
    body = {"item": task["items"][0]["id"], "key": "k" * 10, "grade": 2, "reasons": ["grammar"]}
    assert client.post("/api/answers", json=body).status_code == 409
    assert client.post("/api/answers", json={**body, "reasons": []}).status_code == 200


# --- queries ----------------------------------------------------------------------------------------------------


def test_only_some_queries_are_pooled_the_same_for_every_system(systems, world):
    subsampled_lists = subsampled(systems, {"i2t": 3, "t2i": 5}, depth=4, seed=2)
    for direction, number in (("i2t", 3), ("t2i", 5)):
        one, two = (tuple(lists[direction].queries) for lists in subsampled_lists.values())
        assert one == two and len(one) == number
        for name, lists in subsampled_lists.items():
            full = (systems[name] if direction == "i2t" else systems[name].T).top(4)
            assert all(lists[direction][q] == full[q] for q in one)
    only = subsampled(systems, {"t2i": 5}, depth=4)
    assert len(only["a"]["i2t"].queries) == len(world.images)
    assert subsampled(systems, {"t2i": 5}, seed=1)["a"]["t2i"].queries != only["a"]["t2i"].queries
    for bad in ({"up": 1}, {"i2t": 0}, {"i2t": 10_000}):
        with pytest.raises(LimnerError):
            subsampled(systems, bad)


def test_queries_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = ["annotate", "pool", "work.db", "scenes", "-O", "images=60", "--model", "colours"]
    done = CliRunner().invoke(app, [*base, "--queries", "i2t=2", "--queries", "t2i=3", "--depth", "4", "--json"])
    assert json.loads(done.stdout)["proposals"] == (2 + 3) * 4
    for bad in ("i2t", "i2t=x", "up=3", "i2t=99999"):
        done = CliRunner().invoke(app, [*base, "--queries", bad])
        assert done.exit_code in (2, 3) and "Traceback" not in done.output


# --- people's judgements apart ----------------------------------------------------------------------------------


def test_precision_and_recall_of_every_data_set_against_what_people_verified(tmp_path):
    """Table 2: of the original and of any other judgements, over the pairs that people judged."""
    original = Judgements.from_pairs([("i", "a"), ("j", "b")], queries="ij", candidates="abcd")
    cxc = Judgements.from_pairs([("i", "a"), ("i", "c"), ("j", "d")], name="cxc")
    labels = [Label("i", "a", 4, 1, 1), Label("i", "c", 1, 1, 1), Label("i", "b", 3, 1, 1), Label("j", "d", 4, 1, 1)]
    merged_labels = merge(labels, original, further=[cxc])
    assert merged_labels.quality["original"]["i2t"] == precision_recall(original, merged_labels.verified)
    # i: CxC's judged positives a and c, people say a and b: precision 1/2, recall 1/2; j: d is right: 1 and 1.
    assert merged_labels.quality["cxc"]["i2t"] == (0.75, 0.75)
    assert "cxc: i2t precision 75.0, recall 75.0" in str(merged_labels)
    assert merged_labels.verified.grade("j", "b") is None and merged_labels.judgements.grade("j", "b") == 1
    assert merged_labels.verified.grade("i", "c") == 0


def test_what_people_judged_is_written_apart(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        app, ["annotate", "merge", "work.db", "-o", "all.qrels", "-o", "verified=people.qrels", "--json"]
    )
    assert done.exit_code == 0, done.output
    all_labels, people = (limner.load(name).judgements for name in ("all.qrels", "people.qrels"))
    assert 0 < len(people) < len(all_labels)
    assert {(i, t) for i, t, g in people if g > 0} <= {(i, t) for i, t, g in all_labels if g > 0}
    assert set(json.loads(done.stdout)["quality"]) == {"original"}
