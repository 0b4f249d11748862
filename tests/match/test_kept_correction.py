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
def vector_index(tmp_path):
    return index(tmp_path / "i", Embeddings(range(40), ROWS))


@pytest.mark.parametrize("name", ["csls", "nnn"])
def test_a_kept_correction_is_that_of_the_scores(vector_index, name):
    keep_correction(vector_index, name, BANK)
    reopened = open_index(vector_index.store.path)
    ranking = reopened.search(ASKED, 40, correct=kept_correction(reopened)).ranking
    scores = limner.Scores.from_embeddings(ASKED, ROWS)
    right = scores.correct(name, bank=limner.Scores.from_embeddings(BANK, ROWS)).top(40)
    assert [ranking[str(n)] for n in range(3)] == [right[str(n)] for n in range(3)]
    assert np.allclose(ranking.scores, right.scores)


def test_it_is_refused_after_a_change_and_where_there_is_none(vector_index):
    with pytest.raises(LimnerError, match="keeps no correction"):
        kept_correction(vector_index)
    keep_correction(vector_index, "csls", BANK)
    assert kept_correction(vector_index).correction.name == "csls"
    keep_correction(vector_index, "nnn", BANK)
    assert kept_correction(vector_index).correction.name == "nnn"
    vector_index.delete([3])
    with pytest.raises(LimnerError, match="has changed since its correction was gathered"):
        kept_correction(vector_index)


def test_damaged_statistics_are_refused(vector_index):
    import pyarrow as pa

    from limner.search.store import connect

    about = json.dumps({"version": vector_index.version, "rows": 40, "correction": "csls"})
    for columns in ({"statistics": [b"PK no zip"]}, {"other": [1]}, {"statistics": [3]}):
        connect(vector_index.store.path).create_table(
            "correction", pa.table(columns).replace_schema_metadata({"limner": about}), mode="overwrite"
        )
        with pytest.raises(LimnerError):
            kept_correction(vector_index)


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_command(vector_index, tmp_path):
    np.save(tmp_path / "bank.npy", BANK)
    np.save(tmp_path / "q.npy", ASKED)
    path = vector_index.store.path
    assert "keeps no correction" in run("search", path, "--queries", tmp_path / "q.npy", "--correct", "kept").output
    result = run("index", path, "--correct", "csls(k=5)", "-O", f"bank={tmp_path / 'bank.npy'}", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["corrected"].startswith("csls(k=5), with 30 queries of ")
    document = json.loads(run("search", path, "--queries", tmp_path / "q.npy", "--correct", "kept", "--json").stdout)
    once = run("search", path, "--queries", tmp_path / "q.npy", "--correct", "csls", "-O", "k=5", "-O",
               f"bank={tmp_path / 'bank.npy'}", "--json")  # fmt: skip
    assert document["correction"] == "csls" and document["hits"] == json.loads(once.stdout)["hits"]
    for words in (["--correct", "csls"], ["-O", f"bank={tmp_path / 'bank.npy'}"]):
        refused = run("index", path, *words)
        assert refused.exit_code == 2 and "go together" in refused.output
    with_bank = run(
        "search", path, "--queries", tmp_path / "q.npy", "--correct", "kept", "-O", f"bank={tmp_path / 'bank.npy'}"
    )
    assert with_bank.exit_code in (2, 3) and "leave out -O" in with_bank.output


def test_the_page_offers_the_kept_correction_beside_the_plain_results(tmp_path):
    world = websites.world()
    model = limner.train(world.train, "colours")
    model.save(tmp_path / "model")
    photos = index(
        tmp_path / "photos.index", model.encode_images(world.images), Items(world.images.ids, world.images.values),
        system=model, system_name=str(tmp_path / "model"),
    )  # fmt: skip
    statistics = keep_correction(photos, "csls", world.train.texts)
    site = make_app([], systems=(), store=tmp_path / "a.db", indexes=[str(tmp_path / "photos.index")])
    client = TestClient(site, base_url="http://localhost")
    assert "<option>csls</option>" in client.get("/search?q=a red fish").text
    assert "<option>nnn</option>" not in client.get("/search?q=a red fish").text
    plain, fixed = client.get("/api/search?q=a red fish&fix=csls&k=9").json()["columns"]
    right = photos.search(["a red fish"], 9, correct=statistics)["0"]
    assert [each["id"] for each in fixed["answers"]] == [hit.id for hit in right] and fixed["correction"] == "csls"
    ranks = {each["id"]: each["rank"] for each in plain["answers"]}
    assert all(each["before"] == ranks.get(each["id"]) for each in fixed["answers"])
    refused = client.get("/api/search?q=a red fish&fix=nnn")
    assert refused.status_code == 400 and "keeps no correction 'nnn'" in refused.json()["error"]
