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
    test_part = websites.world().test
    matrix = np.random.default_rng(1).normal(size=(len(test_part.images), len(test_part.texts)))
    scores = Scores.from_matrix(matrix, test_part.images.ids, test_part.texts.ids)
    with open_store(path) as store:
        add_collection(store, test_part, spec="scenes")
        plan(
            store,
            test_part,
            {name: scores},
            measures="R@1",
            direction="t2i",
            half_width=half_width,
            budget=budget,
            **more,
        )
    return path


def label(path, *, tasks=100, name="ada"):
    """Somebody answers by the complete truth."""
    complete = websites.world().extra["complete"]
    with open_store(path) as store:
        annotator = add_annotator(store, name, existing=True).id
        for _ in range(tasks):
            task = lease(store, annotator)
            if task is None:
                return
            for item in task.items:
                grade = 4 if (complete.grade(item.image, item.caption) or 0) > 0 else 1
                submit(store, annotator, item.id, key=uuid.uuid4().hex, grade=grade)


def newest(visitor, *, labels):
    """What machines are told once so many labels are counted."""
    for _ in range(600):
        status = visitor.get("/api/study").json()
        if status["newest"] and status["studies"] and status["studies"][0]["labels"] >= labels:
            return status
        time.sleep(0.05)
    raise AssertionError("the answers were never counted")


def test_without_a_plan_the_page_says_how_to_make_one(path):
    visitor = websites.client(websites.filled(path))
    assert "limner annotate plan" in websites.patient(visitor, "/estimate").text
    assert visitor.get("/api/study").json() == {"newest": True, "narrow": False, "studies": []}


def test_before_the_first_answer_nothing_is_claimed(path):
    visitor = websites.client(planned(path))
    page_text = websites.words(websites.patient(visitor, "/estimate"))
    assert "No answer counts yet" in page_text and "Narrow enough" not in page_text
    assert "label some of the drawn pairs first" in page_text


def test_the_page_shows_the_estimate_beside_the_usual_number_and_every_stratum(path):
    visitor = websites.client(planned(path, half_width=0.5))
    label(path, tasks=1)
    newest(visitor, labels=1)
    reply = visitor.get("/estimate")
    with open_store(path) as store:
        (study,) = studies(store)
    (row,) = study.rows
    e, page_text = row.found.estimate, websites.words(reply)
    assert f"{100 * e.low:.1f} to {100 * e.high:.1f}" in page_text and f"{100 * row.found.given:.1f}" in page_text
    assert (
        "Not narrow enough yet" in page_text and "anytime" in page_text and f"{study.labels} labels count" in page_text
    )
    assert reply.text.count("<meter") == len(study.strata)
    assert 'role="img"' in reply.text and "usual number, by the given pairs" in page_text
    assert f"mine, R@1: usual {100 * row.found.given:.1f}%" in page_text  # the drawing in words


def test_narrow_enough_is_said_to_the_lead_and_to_those_who_judge(path):
    visitor = websites.client(planned(path, half_width=0.5, budget=60))
    label(path, tasks=2)
    planned(path, half_width=45.0)  # draws nothing more, but less is wanted
    status = newest(visitor, labels=30)
    assert status["narrow"] and "Narrow enough: you can stop." in visitor.get("/estimate").text
    judging = websites.words(visitor.get("/judge"))
    assert "Narrow enough: you can stop." in judging
    estimate = status["studies"][0]["rows"][0]["estimate"]["estimate"]
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
    visitor = websites.client(planned(path, half_width=0.5, budget=60))
    label(path, tasks=2)
    planned(path, half_width=45.0)  # draws nothing more, but less is wanted
    assert not newest(visitor, labels=30)["narrow"]
    page_text = websites.words(visitor.get("/estimate"))
    assert (
        "to be looked at once, at the end" in page_text
        and "no reason to stop" in page_text
        and "you can stop" not in page_text
    )


def test_a_further_draw_is_seen_without_a_new_answer(path):
    visitor = websites.client(planned(path, half_width=0.5, budget=20))
    label(path)
    before = newest(visitor, labels=20)["studies"][0]
    planned(path, half_width=0.5, budget=15)
    for _ in range(600):
        status = visitor.get("/api/study").json()
        if status["studies"][0]["waiting"]:
            break
        time.sleep(0.05)
    assert before["waiting"] == 0 and status["studies"][0]["waiting"] > 0


def test_names_of_systems_are_words_not_markup(path):
    visitor = websites.client(planned(path, name=websites.EVIL))
    label(path, tasks=1)
    newest(visitor, labels=1)
    assert "<script>window" not in visitor.get("/estimate").text


def test_numbers_are_for_those_who_look_after_the_judging(path):
    from limner.annotate.store.people import invite_first_admin

    visitor = websites.client(planned(path), team=True)
    token = invite_first_admin(visitor.app.state.site.store)
    visitor.post(f"/invite/{token}", data={"name": "lead", "password": websites.PASSWORD, "again": websites.PASSWORD})
    assert websites.patient(visitor, "/estimate").status_code == 200
    ann = websites.enrolled(visitor, "ann", "annotator")
    assert ann.get("/estimate").status_code == 403 and ann.get("/api/study").status_code == 403
    assert "/estimate" not in ann.get("/").text
    assert websites.enrolled(visitor, "rev", "reviewer").get("/api/study").status_code == 200
