"""A page of one account, in a browser where another one is logged in now: nothing is stored, nothing changes."""

from __future__ import annotations

import re

import pytest
from starlette.routing import Route

import websites
from limner.annotate.store.answers import history
from limner.annotate.store.people import add_annotator, by_name
from limner.web.app import routes
from limner.web.site import HERE

OPEN = ("/name", "/login", "/logout", "/invite/{token}", "/reset/{token}")
"""Addresses that act for whoever is named in the form, or has its password or link, and for nobody who is logged in."""
POSTS = [
    route.path
    for route in routes()
    if isinstance(route, Route) and "POST" in (route.methods or ()) and route.path not in OPEN
]
FROM_A_PAGE = {"sec-fetch-site": "same-origin"}


@pytest.fixture(scope="module")
def admins(tmp_path_factory):
    """Two who may do everything, on a site where everything that they send is refused."""
    visitor = websites.client(websites.filled(tmp_path_factory.mktemp("refused") / "answers.db"), team=True)
    yield [websites.enrolled(visitor, name, "admin") for name in ("ann", "bob")]
    visitor.app.state.site.close()


@pytest.fixture
def team(database):
    visitor = websites.client(websites.filled(database), team=True)
    yield visitor
    visitor.app.state.site.close()


@pytest.fixture
def ann(team):
    return websites.enrolled(team, "ann", "annotator")


@pytest.fixture
def bob(team, ann):
    return websites.enrolled(team, "bob", "annotator")


def sent(person, address: str, **fields):
    body = {"json": fields} if address.startswith("/api/") else {"data": fields}
    return person.post(address, headers=FROM_A_PAGE, **body)


@pytest.mark.parametrize("address", POSTS)
def test_every_form_and_call_of_another_account_s_page_is_refused(admins, address):
    ann, bob = admins
    reply = sent(bob, address, account=websites.account(ann))
    assert reply.status_code == 409
    assert "opened for another account" in websites.words(reply) and "bob is logged in" in websites.words(reply)
    assert "ann" not in websites.words(reply)


@pytest.mark.parametrize("address", POSTS)
def test_a_page_that_does_not_say_whose_it_is_is_refused(admins, address):
    for bad in ({}, {"account": "bob"}, {"account": "0" * 31}):
        reply = sent(admins[1], address, **bad)
        assert reply.status_code == 400
        assert "account" in websites.words(reply)


def test_an_answer_of_one_person_is_not_stored_as_another_s(team, ann, bob):
    tasks = {person: person.post("/api/task", json={}).json()["task"] for person in (ann, bob)}
    item = tasks[ann]["items"][0]["id"]
    assert item in [each["id"] for each in tasks[bob]["items"]]
    fields = {"account": websites.account(ann), "assignment": tasks[ann]["assignment"], "item": item}
    bobs = {"account": websites.account(bob), "assignment": tasks[bob]["assignment"], "item": item}
    assert sent(bob, "/api/answers", **bobs, key="bobs-answer", grade=1).status_code == 200
    refused = sent(bob, "/api/answers", **fields, key="anns-answer", grade=4)
    assert (refused.status_code, refused.json()["reason"]) == (409, "account")
    assert sent(bob, "/api/answers/undo", **fields, key="anns-undoing").status_code == 409
    assert sent(ann, "/api/answers", **fields, key="anns-answer", grade=4).status_code == 200
    stored = [(row["annotator"], row["grade"]) for row in history(team.app.state.site.store, item_id=item)]
    assert stored == [("bob", 1), ("ann", 4)]


def test_an_answer_is_for_the_assignment_it_names(team, ann, bob):
    tasks = {person: person.post("/api/task", json={}).json()["task"] for person in (ann, bob)}
    answer = {"item": tasks[ann]["items"][0]["id"], "assignment": tasks[bob]["assignment"]}
    refused = ann.post("/api/answers", json={**answer, "key": "anns-answer", "grade": 4})
    assert refused.status_code == 409 and "assignment" in refused.json()["error"]
    assert "reason" not in refused.json(), "the browser does not keep it"
    form = {**answer, "key": "anns-answer", "grade": 4, "guideline": "1", "account": websites.account(ann)}
    assert sent(ann, "/judge", **form).status_code == 409
    assert history(team.app.state.site.store) == []
    full_answer = {**answer, "assignment": tasks[ann]["assignment"]}
    assert ann.post("/api/answers", json={**full_answer, "key": "anns-answer", "grade": 4}).status_code == 200
    assert ann.post("/api/answers/undo", json={**answer, "key": "anns-undoing"}).status_code == 409
    assert ann.post("/api/answers/undo", json={**full_answer, "key": "anns-undoing"}).status_code == 200


def test_the_same_id_in_another_store_is_another_account(ann, tmp_path):
    """Two studies one after the other at one address: answers kept in the browser belong to the first."""
    second_site = websites.client(websites.filled(tmp_path / "another.db"), team=True)
    second_visitor = websites.enrolled(second_site, "ann", "annotator")
    reply = sent(second_visitor, "/api/answers", account=websites.account(ann), item=1, key="anns-answer", grade=4)
    assert reply.status_code == 409


def test_without_accounts_the_name_is_the_account(tmp_path):
    visitor = websites.client(websites.filled(tmp_path / "answers.db"))
    visitor.cookies.set("limner_name", "ann")
    anns = websites.account(visitor)
    visitor.cookies.set("limner_name", "bob")
    item = visitor.post("/api/task", json={}).json()["task"]["items"][0]["id"]
    answer = {"item": item, "key": "anns-answer", "grade": 4}
    assert sent(visitor, "/api/answers", **answer, account=anns).status_code == 409
    assert sent(visitor, "/api/answers", **answer, account=websites.account(visitor)).status_code == 200


def test_a_program_with_a_session_of_its_own_need_not_say_whose_it_is(ann):
    assert ann.post("/api/task", json={}).status_code == 200
    assert ann.post("/api/task", json={"account": websites.account(ann)}).status_code == 200
    assert ann.get("/api/mine").json()["account"] == websites.account(ann)


def test_an_account_is_not_told_by_its_number(team, ann):
    """What a page sends back is made with the secret of the store: nobody can guess another one's."""
    store = team.app.state.site.store
    ids = [add_annotator(store, f"person {n}").id for n in range(3)]
    assert websites.account(ann) not in {str(number) for number in (*ids, by_name(store, "ann").id)}
    assert re.fullmatch(r"[0-9a-f]{32}", websites.account(ann))


def test_every_form_of_every_page_says_whose_it_is():
    without_account = []
    for path in sorted((HERE / "templates").glob("*.html")):
        for form in re.findall(r'<form[^>]*method="post".*?</form>', path.read_text(encoding="utf-8"), re.DOTALL):
            address = re.search(r'action="([^"]*)"', form)[1]
            free = address in OPEN or address.startswith(("/invite/", "/reset/"))
            if ("{{ account_field() }}" in form) == free:
                without_account.append((path.name, address))
    assert without_account == []
