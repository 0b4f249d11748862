"""Files that limner 0.1.0 wrote open in this version and give the answers that 0.1.0 gave.

`old/limner-0.1.0.tar.xz` holds a collection of 8 drawn pictures and everything 0.1.0 saved for it: models of every
kind, a report, the statistics of a correction, embeddings, an index, a store of answers with its exports. What 0.1.0
computed with them is in `answers.json`, rounded to 4 places. What is read is compared exactly; what is computed from
pixels is compared within `FROM_PIXELS`: pictures are described in whole numbers since then, which moves a cosine by
up to 0.0007.
"""

from __future__ import annotations

import csv
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

import limner
from limner import systems
from limner.cli import app

ARCHIVE = Path(__file__).parent / "old" / "limner-0.1.0.tar.xz"
ROUNDED = 1e-4
"""Half a unit of the fourth place, and the single precision of another machine."""
FROM_PIXELS = 2e-3
MODELS = ("histograms.npz", "nearest", "kcca")
LEARNED = ("towers", "pvse", "pcme")


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def answers(old):
    return json.loads((old / "answers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def held(old):
    return limner.load(str(old / "collection"))


def named(collection):
    """The collection with file names: every second word of an image's first caption."""
    pairs = collection.judgements
    first = {int(row): int(column) for row, column in zip(pairs.rows[::-1], pairs.columns[::-1], strict=True)}
    names = [" ".join(collection.texts.values[first[r]].split()[::2]) for r in range(len(collection.images))]
    return replace(collection, images=collection.images.with_fields(file_name=names))


def same(found, expected, *, within):
    np.testing.assert_allclose(np.asarray(found, dtype=float), np.asarray(expected), rtol=0, atol=within)


@pytest.mark.parametrize("name", MODELS)
def test_a_model(old, answers, held, name):
    same(systems.load(old / name).scores(held).matrix(), answers[name], within=FROM_PIXELS)


@pytest.mark.parametrize("name", LEARNED)
def test_a_learned_model(old, answers, held, name):
    pytest.importorskip("torch", reason="learned models need torch")
    same(systems.load(old / name).scores(held).matrix(), answers[name], within=FROM_PIXELS)


def test_models_that_read_file_names(old, answers, held):
    pytest.importorskip("torch", reason="learned models need torch")
    images = named(held)
    mcprop, crank = (systems.load(old / name) for name in ("mcprop", "crank"))
    same(mcprop.scores(images).matrix(), answers["mcprop"], within=FROM_PIXELS)
    queries = [crank.queries(images)[0]] * 4
    same(crank.score_pairs(queries, list(held.texts.values[:4])), answers["crank"], within=ROUNDED)


@pytest.mark.parametrize("name", [*MODELS, *LEARNED, "mcprop", "crank"])
def test_an_old_model_saved_again_gives_the_same(old, held, tmp_path, name):
    """Reading the old format and writing the new one loses nothing."""
    if name not in MODELS:
        pytest.importorskip("torch", reason="learned models need torch")
    model = systems.load(old / name)
    model.save(tmp_path / "again")
    again, images = systems.load(tmp_path / "again"), named(held)
    assert again.fingerprint == model.fingerprint
    if name == "crank":
        asked = [[m.queries(images)[0]] for m in (model, again)]
        found = [m.score_pairs(q, [held.texts.values[0]]) for m, q in zip((model, again), asked, strict=True)]
    else:
        found = [m.scores(images).matrix() for m in (model, again)]
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("name", ["nearest", "kcca"])
def test_the_fingerprint_of_a_model_outlives_a_move_of_its_kernels(old, name):
    """An index knows its model by the fingerprint: that of what 0.1.0 wrote, names of its modules included."""
    from limner.encoders.contract import digest

    config = json.loads((old / name / "config.json").read_text(encoding="utf-8"))
    assert "limner.classic." in json.dumps(config)
    content = {key: value for key, value in config.items() if key not in ("limner", "format", "name")}
    arrays = load_file(old / name / "model.safetensors")
    ordered = [arrays[tensor] for tensor in tensors_in(content)]
    assert systems.load(old / name).fingerprint == f"{name} {digest(json.dumps(content), *ordered)}"


def tensors_in(value):
    """The names of tensors, in the order in which a config mentions them."""
    if isinstance(value, dict):
        return [value["tensor"]] if set(value) == {"tensor"} else [n for v in value.values() for n in tensors_in(v)]
    return [n for v in value for n in tensors_in(v)] if isinstance(value, list) else []


def test_a_report(old, answers):
    report = limner.Report.load(old / "report.json")
    assert {" ".join(result.key): result.value for result in report.results} == answers["report"]
    assert report.system == "old"


def test_statistics_of_a_correction(old, answers, held):
    """The statistics are those of 0.1.0: only the scores they correct are computed now."""
    from limner.match import Statistics

    scores = systems.load(old / "histograms.npz").scores(held)
    same(scores.correct(Statistics.load(old / "csls.npz")).matrix(), answers["csls"], within=2 * FROM_PIXELS)


def test_embeddings(old, held):
    vectors = limner.Embeddings.load(old / "images.safetensors")
    assert list(vectors.ids) == list(held.images.ids)
    now = systems.load(old / "histograms.npz").encode_images(held.images)  # of length 1, which they were not
    unit = vectors.matrix / np.linalg.norm(vectors.matrix, axis=1, keepdims=True)
    same(unit, now.matrix, within=FROM_PIXELS)


def test_an_index(old):
    """Its vectors and its model are read; vectors of queries are rounded to 11 bits since then."""
    pytest.importorskip("lancedb", reason="an index needs lancedb")
    words = ["search", str(old / "pictures.index"), "a red ball", "-k", "3", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found, expected = json.loads(done.stdout), json.loads((old / "search.json").read_text(encoding="utf-8"))
    keys = ("query", "query_value", "rank", "id", "value")
    assert [[hit[k] for k in keys] for hit in found["hits"]] == [[hit[k] for k in keys] for hit in expected["hits"]]
    same([h["score"] for h in found["hits"]], [h["score"] for h in expected["hits"]], within=2**-11)
    assert {k: found[k] for k in ("searched", "kind", "exact")} == {
        k: expected[k] for k in ("searched", "kind", "exact")
    }


def test_a_store_of_answers(old):
    """The store is migrated where need be; its answers and what is merged from them are those that were exported."""
    pytest.importorskip("sqlalchemy", reason="a store needs SQLAlchemy")
    from limner.annotate.store import open_store
    from limner.annotate.store.answers import answers as kept

    with (old / "answers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with open_store(old / "work.db", create=False) as store:
        found = kept(store)
    assert len(rows) > 0
    expected = [(row["annotator"], row["image"], row["caption"], int(row["grade"])) for row in rows]
    assert sorted((a.annotator, a.image, a.caption, a.grade) for a in found) == sorted(expected)


def test_merged_judgements(old, held, tmp_path):
    pytest.importorskip("sqlalchemy", reason="a store needs SQLAlchemy")
    out = tmp_path / "merged.qrels"
    done = CliRunner().invoke(app, ["annotate", "merge", str(old / "work.db"), "--save", str(out)])
    assert done.exit_code == 0, done.output
    before = sorted((old / "merged.qrels").read_text(encoding="utf-8").splitlines())
    assert sorted(out.read_text(encoding="utf-8").splitlines()) == before
    assert before and {line.split()[0] for line in before} <= set(held.images.ids)
