"""The map: positions, trustworthiness, colours, files, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import Scores
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.explain.embedding_map import class_of, classified, embedding_map, failure_classes
from limner.explain.failure_classes import CAPTION_CLASSES
from limner.explain.failures import Failure, failures
from limner.explain.map_projection import project


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def drawn():
    world = limner.load("scenes", images=60)
    test_set = world.test
    model = limner.train(world, "colours")
    scores = Scores.from_embeddings(model.encode_images(test_set.images), model.encode_texts(test_set.texts))
    return scores, test_set


def slow_trust(rows, points, k):
    """1 - 2 / (n k (2 n - 3 k - 1)) * the sum of r(i, j) - k over neighbours on the map that are none in the rows."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    far, on_map = 1 - rows @ rows.T, np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(far, -1)
    np.fill_diagonal(on_map, -1)
    ranks = np.argsort(np.argsort(far, axis=1), axis=1)
    lost = sum(max(0, ranks[i, j] - k) for i in range(len(rows)) for j in np.argsort(on_map[i])[1 : k + 1])
    n = len(rows)
    return 1 - 2 / (n * k * (2 * n - 3 * k - 1)) * lost


def test_trustworthiness_is_its_formula_and_one_where_nothing_is_lost():
    rows = np.random.default_rng(0).standard_normal((60, 12)).astype(np.float32)
    projection = project(rows, "pca")
    assert projection.trustworthiness == pytest.approx(slow_trust(rows, projection.points, 10), abs=1e-6)
    angles = np.sort(np.random.default_rng(1).random(50))
    half = np.c_[np.cos(angles), np.sin(angles)].astype(np.float32)
    assert project(half, "pca").trustworthiness == pytest.approx(1.0, abs=0.02)


def test_an_unknown_projection_is_refused():
    with pytest.raises(UnknownName, match="umap"):
        project(np.eye(5), "umap")


def test_near_vectors_are_near_on_the_map():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), 30)
    rows = rng.standard_normal((3, 16))[groups] + 0.05 * rng.standard_normal((90, 16))
    points = project(rows, "tsne").points
    centres = np.array([points[groups == g].mean(axis=0) for g in range(3)])
    nearest = np.linalg.norm(points[:, None] - centres[None], axis=2).argmin(axis=1)
    assert (nearest == groups).all()


def test_positions_are_kept_and_a_broken_file_is_made_again(cache, monkeypatch):
    from limner.explain import map_projection

    rows = np.random.default_rng(0).standard_normal((30, 5))
    first = project(rows, "tsne").points
    (file,) = (cache / "maps").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(map_projection, "_reduced", None)
        assert np.array_equal(project(rows, "tsne").points, first)
    file.write_bytes(b"PK not a zip")
    assert np.allclose(project(rows, "tsne").points, first)
    monkeypatch.setenv("LIMNER_CACHE", "")
    assert np.allclose(project(rows, "tsne").points, first)


def test_points_carry_failures_hubness_and_fields(drawn):
    scores, test_set = drawn
    classes = failure_classes(scores, test_set)
    layout = embedding_map(scores, test_set, classes=classes, method="pca")
    assert len(layout) == len(test_set.images) + len(test_set.texts) == layout.total
    colours = {each.name: each for each in layout.colours}
    assert list(colours) == ["kind", "failure", "hubness", "background"]
    wrong = {each.query for each in failures(scores.T, test_set, direction="t2i", judgements=test_set.judgements.name)}
    verdicts = [colours["failure"].values[code] for code in colours["failure"].codes]
    for key, text, verdict in zip(layout.ids, layout.is_text, verdicts, strict=True):
        assert not text or (verdict != "right") == (key in wrong)
    nearest = scores.T.top(10).indices
    assert colours["hubness"].codes[0] == sum(0 in row for row in nearest)
    row = layout.ids.index(test_set.texts.ids[3])
    assert layout.labels[row] == test_set.texts.values[3] and layout.labels[0] in test_set.texts.values
    assert class_of(frozenset({"size", "colour"})) == "colour" and class_of(None) == "wrong, no class"


def test_a_large_map_is_a_random_choice_and_says_so(drawn):
    scores, test_set = drawn
    layout = embedding_map(scores, test_set, method="pca", limit=20)
    assert len(layout) == 20 and str(layout).startswith("20 of 72 points") and len(set(layout.ids)) == 20
    assert embedding_map(scores, test_set, method="pca", limit=20).ids == layout.ids


def test_lines_and_files_hold_the_same_points(drawn, tmp_path):
    scores, test_set = drawn
    layout = embedding_map(scores, test_set, method="pca")
    head, part = map(json.loads, layout.lines())
    assert head["points"] == 72 and len(part["ids"]) == len(part["colours"][0]) == 72
    assert np.allclose(np.array([part["x"], part["y"]]).T / 65535, layout.points, atol=1e-4)
    data = json.loads(layout.save(tmp_path / "m.json").read_text())
    assert data["items"][0]["id"] == layout.ids[0] and data["items"][0]["kind"] == "image"
    page = layout.save(tmp_path / "m.html").read_text()
    assert "</script><b>" not in page and "trustworthiness" in page
    with pytest.raises(LimnerError, match="written as .html, .json"):
        layout.save(tmp_path / "m.png")


def test_what_cannot_be_drawn_is_refused(drawn):
    scores, test_set = drawn
    with pytest.raises(UnknownName, match="tsnee"):
        embedding_map(scores, test_set, method="tsnee")
    with pytest.raises(LimnerError, match="needs embeddings"):
        embedding_map(Scores.from_matrix(scores.matrix(), scores.queries, scores.candidates), test_set)
    with pytest.raises(LimnerError, match="3 or more"):
        project(np.eye(2))

    class ThreeColumns:
        def fit_transform(self, rows):
            return rows[:, :3]

    with pytest.raises(LimnerError, match="ThreeColumns gave points of shape"):
        embedding_map(scores, test_set, method=ThreeColumns())


def test_the_command(tmp_path):
    def run(*words):
        return CliRunner().invoke(app, ["explain", "map", *map(str, words)])

    done = run(
        "scenes", "-O", "images=40", "--model", "colours", "--method", "pca", "-o", tmp_path / "m.html", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["points"] == 48 and "map-data" in (tmp_path / "m.html").read_text()
    assert run("scenes", "--model", "colours", "-o", tmp_path / "m.pdf").exit_code in (2, 3)
    wrong = run("scenes", "-O", "images=40", "--model", "colours", "--method", "umap", "-O", "failures=false")
    assert wrong.exit_code in (2, 3) and "umap" in wrong.output


def test_without_annotated_objects_the_classes_come_from_the_captions(drawn):
    scores, test_set = drawn
    images = limner.Items(test_set.images.ids, [None] * len(test_set.images))
    bare = limner.Collection(test_set.name, images, test_set.texts, test_set.judgements)
    classes = failure_classes(scores, bare)
    assert {*classes["t2i"].values(), *classes["i2t"].values()} <= {*CAPTION_CLASSES, "alternative"}
    assert len({*classes["t2i"].values()}) > 1  # the colour says more than that it failed


def test_the_classes_of_captions():
    texts = ["a dog and a cat", "two dogs", "a dog and a bird", "a red car", "a dog near a cat"]
    images = [f"i{n}" for n in range(5)]
    pairs = limner.Judgements.from_pairs(zip(images, texts, strict=True), queries=images, candidates=texts)
    toy = limner.Collection("toy", limner.Items(images, [None] * 5), limner.Items(texts, texts, kind="text"), pairs)
    wrong = [Failure(texts[0], texts[0], "i0", returned) for returned in ("i4", "i2", "i3")]
    wrong.append(Failure(texts[1], texts[1], "i1", "i0"))
    labels = [classified([each], toy, toy)[each.query] for each in wrong]
    assert labels == ["captions fit", "some objects wrong", "no object in common", "number, colour or detail wrong"]
