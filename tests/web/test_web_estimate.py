"""The page of the true numbers: what it says before, while and after people label, and to whom."""

from __future__ import annotations

import time
import uuid

import numpy as np
import pytest

import websites
from limner.annotate import plan
from limner.annotate.results import studies
from limner.annotate.store import open_store
from limner.annotate.store.answers import submit
from limner.annotate.store.contents import add_collection
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.scores import Scores


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.db"


def planned(path, *, half_width=5.0, budget=40, name="mine", **more):
    """A study of one system on the captions of the tests' world."""
    held = websites.world().test
    matrix = np.random.default_rng(1).normal(size=(len(held.images), len(held.texts)))
    scores = Scores.from_matrix(matrix, held.images.ids, held.texts.ids)
    with open_store(path) as store:
        add_collection(store, held, spec="scenes")
        plan(store, held, {name: scores}, measures="R@1", direction="t2i", half_width=half_width, budget=budget, **more)
    return path


def label(path, *, tasks=100, name="ada"):
    """Somebody answers by the complete truth."""
    complete = websites.world().extra["complete"]
    with open_store(path) as store:
        who = add_annotator(store, name, existing=True).id
        for _ in range(tasks):
            held = lease(store, who)
            if held is None:
                return
            for item in held.items:
                grade = 4 if (complete.grade(item.image, item.caption) or 0) > 0 else 1
                submit(store, who, item.id, key=uuid.uuid4().hex, grade=grade)


def newest(asked, *, labels):
    """What machines are told once so many labels are counted."""
    for _ in range(600):
        told = asked.get("/api/study").json()
        if told["newest"] and told["studies"] and told["studies"][0]["labels"] >= labels:
            return told
        time.sleep(0.05)
    raise AssertionError("the answers were never counted")


def test_without_a_plan_the_page_says_how_to_make_one(path):
    asked = websites.client(websites.filled(path))
    assert "limner annotate plan" in websites.patient(asked, "/estimate").text
    assert asked.get("/api/study").json() == {"newest": True, "narrow": False, "studies": []}


def test_before_the_first_answer_nothing_is_claimed(path):
    asked = websites.client(planned(path))
    said = websites.words(websites.patient(asked, "/estimate"))
    assert "No answer counts yet" in said and "Narrow enough" not in said
    assert "label some of the drawn pairs first" in said


def test_the_page_shows_the_estimate_beside_the_usual_number_and_every_stratum(path):
    asked = websites.client(planned(path, half_width=0.5))
    label(path, tasks=1)
    newest(asked, labels=1)
    reply = asked.get("/estimate")
    with open_store(path) as store:
        (study,) = studies(store)
    (row,) = study.rows
    e, said = row.found.estimate, websites.words(reply)
    assert f"{100 * e.low:.1f} to {100 * e.high:.1f}" in said and f"{100 * row.found.given:.1f}" in said
    assert "Not narrow enough yet" in said and "anytime" in said and f"{study.labels} labels count" in said
    assert reply.text.count("<meter") == len(study.strata)
    assert 'role="img"' in reply.text and "usual number, by the given pairs" in said
    assert f"mine, R@1: usual {100 * row.found.given:.1f}%" in said  # the drawing in words


def test_narrow_enough_is_said_to_the_lead_and_to_those_who_judge(path):
    asked = websites.client(planned(path, half_width=0.5, budget=60))
    label(path, tasks=2)
    planned(path, half_width=45.0)  # draws nothing more, but less is wanted
    told = newest(asked, labels=30)
    assert told["narrow"] and "Narrow enough: you can stop." in asked.get("/estimate").text
    judging = websites.words(asked.get("/judge"))
    assert "Narrow enough: you can stop." in judging
    estimate = told["studies"][0]["rows"][0]["estimate"]["estimate"]
    assert f"{100 * estimate['low']:.1f}" not in judging, "who judges is shown no number"


def test_a_fixed_interval_is_no_reason_to_stop(path, monkeypatch):
    from limner.annotate import results
    from limner.core.errors import LimnerError

    usual = results.estimates

    def only_fixed(*args, mode, **more):
        if mode == "anytime":
            raise LimnerError("no such interval")
        return usual(*args, mode=mode, **more)

    monkeypatch.setattr(results, "estimates", only_fixed)
    asked = websites.client(planned(path, half_width=0.5, budget=60))
    label(path, tasks=2)
    planned(path, half_width=45.0)  # draws nothing more, but less is wanted
    assert not newest(asked, labels=30)["narrow"]
    said = websites.words(asked.get("/estimate"))
    assert "to be looked at once, at the end" in said and "no reason to stop" in said and "you can stop" not in said


def test_a_further_draw_is_seen_without_a_new_answer(path):
    asked = websites.client(planned(path, half_width=0.5, budget=20))
    label(path)
    before = newest(asked, labels=20)["studies"][0]
    planned(path, half_width=0.5, budget=15)
    for _ in range(600):
        now = asked.get("/api/study").json()
        if now["studies"][0]["waiting"]:
            break
        time.sleep(0.05)
    assert before["waiting"] == 0 and now["studies"][0]["waiting"] > 0


def test_names_of_systems_are_words_not_markup(path):
    asked = websites.client(planned(path, name=websites.EVIL))
    label(path, tasks=1)
    newest(asked, labels=1)
    assert "<script>window" not in asked.get("/estimate").text


def test_numbers_are_for_those_who_look_after_the_judging(path):
    from limner.annotate.store.people import invite_first_admin

    asked = websites.client(planned(path), team=True)
    token = invite_first_admin(asked.app.state.site.store)
    asked.post(f"/invite/{token}", data={"name": "lead", "password": websites.PASSWORD, "again": websites.PASSWORD})
    assert websites.patient(asked, "/estimate").status_code == 200
    ann = websites.enrolled(asked, "ann", "annotator")
    assert ann.get("/estimate").status_code == 403 and ann.get("/api/study").status_code == 403
    assert "/estimate" not in ann.get("/").text
    assert websites.enrolled(asked, "rev", "reviewer").get("/api/study").status_code == 200
