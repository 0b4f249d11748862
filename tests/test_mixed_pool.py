"""Mixed pools against a slow version: lists sorted item by item, the query left out, matches of either modality."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from limner import Collection, Items, Judgements, LimnerError
from limner.cli import app
from limner.evaluation.diagnostics.modality_gap import ALONE, CENTRED, MIXED, evaluate_mixed

CAPTIONS = [("a", "0"), ("a", "1"), ("b", "2"), ("b", "3"), ("c", "4"), ("c", "5"), ("d", "6"), ("d", "7"), ("d", "0")]


def world():
    """Four images and nine texts; text 0 belongs to two images, text a to none, and a is also the id of an image."""
    texts = [*map(str, range(8)), "a"]
    return Collection(
        "small",
        Items(list("abcd"), [None] * 4),
        Items(texts, [f"text {key}" for key in texts], kind="text"),
        Judgements.from_pairs(CAPTIONS, queries=list("abcd"), candidates=texts),
    )


def vectors(gap=0.0, *, seed=0, d=5):
    rng = np.random.default_rng(seed)
    images, texts = rng.standard_normal((4, d)), rng.standard_normal((9, d))
    for row, (image, text) in enumerate(CAPTIONS[:8]):
        texts[row] = images["abcd".index(image)] + 0.7 * texts[int(text)]
    return images + gap * np.eye(d)[0], texts - gap * np.eye(d)[0]


def slow(collection, images, texts, *, centred):
    """Every number of both modalities by hand, for vectors without ties."""
    pool = []
    for kind, side, ids in (("image", images, collection.images.ids), ("text", texts, collection.texts.ids)):
        unit = [v / np.linalg.norm(v) for v in np.asarray(side, np.float32).astype(float)]
        if centred:
            mean = sum(unit) / len(unit)
            unit = [(v - mean) / np.linalg.norm(v - mean) for v in unit]
        pool += [(kind, key, v) for key, v in zip(ids, unit, strict=True)]
    matched = {(("image", i), ("text", t)) for i, t in CAPTIONS} | {(("text", t), ("image", i)) for i, t in CAPTIONS}
    siblings = {(a, c) for a, b in matched for b2, c in matched if b == b2 and a != c}
    hits = {}
    for kind in ("image", "text"):
        for query in [each for each in pool if each[0] == kind]:
            key = query[:2]
            candidates = [each for each in pool if each is not query]
            order = sorted(candidates, key=lambda each: -(each[2] @ query[2]))
            crossing = [each for each in order if each[0] != kind]
            hits.setdefault((kind, "other@10"), []).append(np.mean([each[0] != kind for each in order[:10]]))
            if not any(a == key for a, _ in matched):
                continue
            for k in (1, 5, 10):
                right = [(key, each[:2]) in matched for each in order[:k]]
                either = [(key, each[:2]) in matched | siblings for each in order[:k]]
                hits.setdefault((kind, f"R@{k}"), []).append(any(right))
                hits.setdefault((kind, f"any R@{k}"), []).append(any(either))
                alone = any((key, each[:2]) in matched for each in crossing[:k])
                hits.setdefault((kind, f"alone R@{k}"), []).append(alone)
    return {key: np.mean(values) for key, values in hits.items()}


@pytest.mark.parametrize("gap", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_against_lists_sorted_by_hand(gap, seed):
    sides = vectors(gap, seed=seed)
    report = evaluate_mixed(world(), *sides)
    for pool in (MIXED, CENTRED):
        expected = slow(world(), *sides, centred=pool == CENTRED)
        for (kind, measure), value in expected.items():
            key = (ALONE, measure.removeprefix("alone ")) if measure.startswith("alone") else (pool, measure)
            if key[0] == ALONE and pool == CENTRED:
                continue
            assert report.value(kind, *key).estimate == pytest.approx(value, abs=1e-12), (kind, key)
    assert report.shares == {"image": 9 / 12, "text": 4 / 12}


def test_a_gap_hides_the_other_modality_and_centring_brings_it_back():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 16))
    ids = [str(n) for n in range(60)]
    collection = Collection(
        "points",
        Items(ids, [None] * 60),
        Items(ids, ids, kind="text"),
        Judgements.from_pairs(zip(ids, ids, strict=True)),
    )
    far = 4 * np.eye(16)[0]
    report = evaluate_mixed(collection, points + 0.3 * rng.standard_normal(points.shape) + far, points - far)
    for kind in ("image", "text"):
        assert report.value(kind, ALONE, "R@1").estimate > 0.6
        assert report.value(kind, MIXED, "R@10").estimate < 0.1
        assert report.value(kind, MIXED, "other@10").estimate < 0.05
        assert report.value(kind, CENTRED, "R@1").estimate > 0.8


def test_equal_vectors_share_a_rank_in_expectation():
    collection = world()
    report = evaluate_mixed(collection, np.ones((4, 3)), np.ones((9, 3)))
    assert report.value("image", ALONE, "R@1").estimate == pytest.approx(np.mean([2 / 9, 2 / 9, 2 / 9, 3 / 9]))
    assert report.value("image", MIXED, "R@1").estimate == pytest.approx(np.mean([2 / 12, 2 / 12, 2 / 12, 3 / 12]))


@pytest.mark.parametrize(
    ("images", "texts", "message"),
    [
        (np.ones((4, 3)), np.ones((9, 2)), "images of 3 dimensions and texts of 2"),
        (np.ones((3, 3)), np.ones((9, 3)), "3 image embeddings for 4 images"),
        (np.ones((4, 3)), np.zeros((9, 3)), "all zeros"),
    ],
)
def test_what_does_not_fit_is_refused(images, texts, message):
    with pytest.raises(LimnerError, match=message):
        evaluate_mixed(world(), images, texts)


def test_a_value_that_is_not_there():
    with pytest.raises(LimnerError, match="no value for image, mixed, R@3: there are image, other modality, R@1"):
        evaluate_mixed(world(), *vectors()).value("image", MIXED, "R@3")


def test_from_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i}.jpg,caption {n}\n" for n, i in enumerate("aabbccdd"))
    (tmp_path / "captions.csv").write_text("image,caption\n" + rows)
    images, texts = vectors(2.0)
    np.save("i.npy", images.astype(np.float32))
    np.save("t.npy", texts[:8].astype(np.float32))
    words = ["explain", "gap", "captions.csv", "--images", "i.npy", "--texts", "t.npy"]
    done = CliRunner().invoke(app, [*words, "-o", "m.csv", "-o", "m.json"])
    assert done.exit_code == 0, done.output
    assert "image queries" in done.stdout and "mixed, centred" in done.stdout
    assert json.loads((tmp_path / "m.json").read_text())["limner"] == "mixed pool"
    assert (tmp_path / "m.csv").read_text().startswith("query,pool,measure,queries,value,low,high")
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert len(document["pool"]["lines"]) == 2 * (3 + 7 + 7)
    for wrong in (words[:5], words[:2], [*words, "--model", "histograms"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    np.save("t.npy", texts[:3].astype(np.float32))
    assert CliRunner().invoke(app, words).exit_code == 3
