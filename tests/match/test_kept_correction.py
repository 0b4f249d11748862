"""A correction inside an index: kept, applied, refused after a change, at the shell and on the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import limner
import websites
from limner import Embeddings, Items
from limner.cli import app
from limner.core.errors import LimnerError
from limner.search import index, keep_correction, kept_correction, open_index
from limner.web import make_app

RNG = np.random.default_rng(0)
ROWS, BANK, ASKED = RNG.standard_normal((40, 6)), RNG.standard_normal((30, 6)), RNG.standard_normal((3, 6))


@pytest.fixture
def made(tmp_path):
    return index(tmp_path / "i", Embeddings(range(40), ROWS))


@pytest.mark.parametrize("how", ["csls", "nnn"])
def test_a_kept_correction_is_that_of_the_scores(made, how):
    keep_correction(made, how, BANK)
    again = open_index(made.store.path)
    found = again.search(ASKED, 40, correct=kept_correction(again)).ranking
    scores = limner.Scores.from_embeddings(ASKED, ROWS)
    right = scores.correct(how, bank=limner.Scores.from_embeddings(BANK, ROWS)).top(40)
    assert [found[str(n)] for n in range(3)] == [right[str(n)] for n in range(3)]
    assert np.allclose(found.scores, right.scores)


def test_it_is_refused_after_a_change_and_where_there_is_none(made):
    with pytest.raises(LimnerError, match="keeps no correction"):
        kept_correction(made)
    keep_correction(made, "csls", BANK)
    assert kept_correction(made).correction.name == "csls"
    keep_correction(made, "nnn", BANK)
    assert kept_correction(made).correction.name == "nnn"
    made.delete([3])
    with pytest.raises(LimnerError, match="has changed since its correction was gathered"):
        kept_correction(made)


def test_damaged_statistics_are_refused(made):
    import pyarrow as pa

    from limner.search.store import connect

    about = json.dumps({"version": made.version, "rows": 40, "correction": "csls"})
    for held in ({"statistics": [b"PK no zip"]}, {"other": [1]}, {"statistics": [3]}):
        connect(made.store.path).create_table(
            "correction", pa.table(held).replace_schema_metadata({"limner": about}), mode="overwrite"
        )
        with pytest.raises(LimnerError):
            kept_correction(made)


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_command(made, tmp_path):
    np.save(tmp_path / "bank.npy", BANK)
    np.save(tmp_path / "q.npy", ASKED)
    path = made.store.path
    assert "keeps no correction" in run("search", path, "--queries", tmp_path / "q.npy", "--correct", "kept").output
    kept = run("index", path, "--correct", "csls(k=5)", "--bank", tmp_path / "bank.npy", "--json")
    assert kept.exit_code == 0, kept.output
    assert json.loads(kept.stdout)["corrected"].startswith("csls(k=5), with 30 queries of ")
    found = json.loads(run("search", path, "--queries", tmp_path / "q.npy", "--correct", "kept", "--json").stdout)
    once = run("search", path, "--queries", tmp_path / "q.npy", "--correct", "csls", "-O", "k=5", "--bank",
               tmp_path / "bank.npy", "--json")  # fmt: skip
    assert found["correction"] == "csls" and found["hits"] == json.loads(once.stdout)["hits"]
    for words in (["--correct", "csls"], ["--bank", tmp_path / "bank.npy"]):
        refused = run("index", path, *words)
        assert refused.exit_code == 2 and "go together" in refused.output
    both = run("search", path, "--queries", tmp_path / "q.npy", "--correct", "kept", "--bank", tmp_path / "bank.npy")
    assert both.exit_code in (2, 3) and "leave out --bank" in both.output


def test_the_page_offers_the_kept_correction_beside_the_plain_results(tmp_path):
    world = websites.world()
    model = limner.train(world.train, "colours")
    model.save(tmp_path / "model")
    photos = index(
        tmp_path / "photos.index", model.encode_images(world.images), Items(world.images.ids, world.images.values),
        system=model, system_name=str(tmp_path / "model"),
    )  # fmt: skip
    known = keep_correction(photos, "csls", world.train.texts)
    site = make_app([], systems=(), store=tmp_path / "a.db", indexes=[str(tmp_path / "photos.index")])
    asked = TestClient(site, base_url="http://localhost")
    assert "<option>csls</option>" in asked.get("/search?q=a red fish").text
    assert "<option>nnn</option>" not in asked.get("/search?q=a red fish").text
    plain, fixed = asked.get("/api/search?q=a red fish&fix=csls&k=9").json()["columns"]
    right = photos.search(["a red fish"], 9, correct=known)["0"]
    assert [each["id"] for each in fixed["answers"]] == [hit.id for hit in right] and fixed["correction"] == "csls"
    ranks = {each["id"]: each["rank"] for each in plain["answers"]}
    assert all(each["before"] == ranks.get(each["id"]) for each in fixed["answers"])
    refused = asked.get("/api/search?q=a red fish&fix=nnn")
    assert refused.status_code == 400 and "keeps no correction 'nnn'" in refused.json()["error"]
