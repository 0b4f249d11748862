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
    page_text = words(patient(site, "/map"))
    assert (
        "Distances on a map are not distances in the embedding" in page_text
        and "its trustworthiness is 0." in page_text
    )
    reply = site.get("/map/points?s=colours")
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    head, *parts = map(json.loads, reply.text.splitlines())
    test_part = websites.world().test
    assert head["points"] == len(test_part.images) + len(test_part.texts) == sum(len(part["ids"]) for part in parts)
    assert [each["name"] for each in head["colours"]] == ["kind", "failure", "hubness", "background"]
    assert site.get("/map/map.js").status_code == 200 and site.get("/map/map.css").status_code == 200
    assert site.get("/map/secret.py").status_code == 404 and site.get("/map?s=nobody").status_code == 404


def test_a_region_becomes_tasks_of_its_own_pairs(site, store):
    test_part = websites.world().test
    chosen = [f"i{test_part.images.ids[0]}", f"t{test_part.texts.ids[9]}"]
    form = {"s": "colours", "items": "\r\n".join(chosen), "depth": "2", "account": websites.account(site)}
    assert site.post("/map/label", data=form, headers={"origin": "http://localhost"}).status_code == 303
    page_text = words(websites.settled(site))
    for _ in range(100):
        if "tasks created" in page_text:
            break
        page_text = words(websites.settled(site))
    assert "4 pairs of the region, 4 without a task; 1 task created" in page_text
    with open_store(store) as opened:
        pool_pairs = [pair for pair in pairs(opened) if pair.origin == "pool"]
    assert len(pool_pairs) == 4
    assert all(pair.image == test_part.images.ids[0] or pair.caption == test_part.texts.ids[9] for pair in pool_pairs)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("", "nothing is selected"),
        ("x1", "nothing is selected"),
        ("\n".join(f"i{n}" for n in range(600)), "at most 500"),
    ],
)
def test_what_is_no_region_is_refused(site, items, message):
    form = {"s": "colours", "items": items, "account": websites.account(site)}
    reply = site.post("/map/label", data=form, headers={"origin": "http://localhost"})
    assert reply.status_code == 400 and message in words(reply)
