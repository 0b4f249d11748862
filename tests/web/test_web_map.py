"""The map on the page: its frame, its stream, and a region that becomes tasks."""

from __future__ import annotations

import json

import pytest

import websites
from limner.annotate.store import open_store
from limner.annotate.store.contents import pairs
from websites import patient, words


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("map") / "answers.db"


@pytest.fixture(scope="module")
def site(store):
    return websites.client(store)


def test_the_page_says_how_far_it_can_be_trusted_and_streams_its_points(site):
    shown = words(patient(site, "/map"))
    assert "Distances on a map are not distances in the embedding" in shown and "its trustworthiness is 0." in shown
    reply = site.get("/map/points?s=colours")
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    head, *parts = map(json.loads, reply.text.splitlines())
    held = websites.world().test
    assert head["points"] == len(held.images) + len(held.texts) == sum(len(part["ids"]) for part in parts)
    assert [each["name"] for each in head["colours"]] == ["kind", "failure", "hubness", "background"]
    assert site.get("/map/map.js").status_code == 200 and site.get("/map/map.css").status_code == 200
    assert site.get("/map/secret.py").status_code == 404 and site.get("/map?s=nobody").status_code == 404


def test_a_region_becomes_tasks_of_its_own_pairs(site, store):
    held = websites.world().test
    chosen = [f"i{held.images.ids[0]}", f"t{held.texts.ids[9]}"]
    asked = {"s": "colours", "items": "\r\n".join(chosen), "depth": "2", "account": websites.account(site)}
    assert site.post("/map/label", data=asked, headers={"origin": "http://localhost"}).status_code == 303
    told = words(websites.settled(site))
    for _ in range(100):
        if "tasks created" in told:
            break
        told = words(websites.settled(site))
    assert "4 pairs of the region, 4 without a task; 1 task created" in told
    with open_store(store) as opened:
        asked_for = [pair for pair in pairs(opened) if pair.origin == "pool"]
    assert len(asked_for) == 4
    assert all(pair.image == held.images.ids[0] or pair.caption == held.texts.ids[9] for pair in asked_for)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("", "nothing is selected"),
        ("x1", "nothing is selected"),
        ("\n".join(f"i{n}" for n in range(600)), "at most 500"),
    ],
)
def test_what_is_no_region_is_refused(site, items, said):
    asked = {"s": "colours", "items": items, "account": websites.account(site)}
    reply = site.post("/map/label", data=asked, headers={"origin": "http://localhost"})
    assert reply.status_code == 400 and said in words(reply)
