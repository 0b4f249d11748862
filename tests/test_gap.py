"""The modality gap against a slow version, on spaces whose gap is known."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from limner import Embeddings, LimnerError
from limner.cli import app
from limner.evaluation import modality_gap


def space(shift, *, images=60, texts=81, d=6):
    dice = np.random.default_rng(0)
    first, second = dice.standard_normal((images, d)), dice.standard_normal((texts, d))
    return first + shift * np.eye(d)[0], second - shift * np.eye(d)[0]


def slow_distance(images, texts):
    """Vector by vector, coordinate by coordinate."""
    means = []
    for side in (images, texts):
        total = [0.0] * len(side[0])
        for vector in side:
            length = sum(float(x) ** 2 for x in vector) ** 0.5
            total = [t + float(x) / length for t, x in zip(total, vector, strict=True)]
        means.append([t / len(side) for t in total])
    return sum((a - b) ** 2 for a, b in zip(*means, strict=True)) ** 0.5


def slow_separability(images, texts):
    """Least squares with labels weighted to balance the sides has the direction of Fisher's discriminant."""
    sides = [side / np.linalg.norm(side, axis=1)[:, None] for side in (images, texts)]
    right = [[], []]
    for half in (0, 1):
        fitted, tested = [s[half::2] for s in sides], [s[1 - half :: 2] for s in sides]
        rows = np.concatenate(fitted)
        labels = np.concatenate(
            [np.full(len(s), len(rows) / len(s) * sign) for s, sign in zip(fitted, (1, -1), strict=True)]
        )
        plane = np.linalg.lstsq(np.c_[rows, np.ones(len(rows))], labels, rcond=None)[0][:-1]
        middle = plane @ (fitted[0].mean(axis=0) + fitted[1].mean(axis=0)) / 2
        right[0] += [v @ plane > middle for v in tested[0]]
        right[1] += [v @ plane < middle for v in tested[1]]
    return (np.mean(right[0]) + np.mean(right[1])) / 2


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0, 8.0])
def test_gap_by_hand(shift):
    images, texts = (side.astype(np.float32) for side in space(shift))
    gap = modality_gap(images, texts)
    assert gap.distance == pytest.approx(slow_distance(images, texts), abs=1e-6)
    assert gap.separability == pytest.approx(slow_separability(images, texts), abs=0.02)
    assert (gap.images, gap.texts) == (60, 81)


def test_no_gap_and_a_whole_gap():
    none, full_gap = modality_gap(*space(0.0, images=2000, texts=2000)), modality_gap(*space(20.0))
    assert none.distance < 0.05 and 0.45 < none.separability < 0.55
    assert full_gap.distance > 1.9 and full_gap.separability == 1


def test_a_shared_mean_is_no_gap():
    """Both sides lie in one narrow cone: their scores are high, and nothing parts them."""
    images, texts = space(0.0, images=2000, texts=2000)
    gap = modality_gap(images + 9, texts + 9)
    assert gap.distance < 0.05 and gap.separability < 0.55


def test_the_same_vectors_cannot_be_told_apart():
    vectors = np.tile([[1.0, 0.0], [0.0, 1.0]], (4, 1))
    assert modality_gap(vectors, vectors) == modality_gap(Embeddings(range(8), vectors), vectors)
    assert modality_gap(vectors, vectors).distance == 0 and modality_gap(vectors, vectors).separability == 0.5


@pytest.mark.parametrize(
    ("images", "texts", "expected"),
    [
        (np.ones((4, 3)), np.ones((4, 2)), "3 dimensions and texts of 2"),
        (np.ones((3, 2)), np.ones((4, 2)), "3 vectors of images: expected four or more"),
        (np.ones((4, 2)), np.array([[1, 1], [1, 0], [0, 0], [1, 1]]), "row 2 .* is all zeros"),
        (np.full((4, 2), np.nan), np.ones((4, 2)), "nan"),
        (np.ones(4), np.ones((4, 2)), "expected"),
    ],
)
def test_what_has_no_gap_is_refused(images, texts, expected):
    with pytest.raises(LimnerError, match=f"(?i){expected}"):
        modality_gap(images, texts)


def test_from_the_shell(tmp_path):
    sides = space(2.0)
    for name, side in zip(("i", "t"), sides, strict=True):
        np.save(tmp_path / f"{name}.npy", side.astype(np.float32))
    files = ["--images", str(tmp_path / "i.npy"), "--texts", str(tmp_path / "t.npy")]
    done = CliRunner().invoke(app, ["explain", "gap", *files, "--json"])
    document, expected = json.loads(done.stdout), modality_gap(*(side.astype(np.float32) for side in sides))
    assert (document["distance"], document["separability"]) == (expected.distance, expected.separability)
    world = ["scenes", "-O", "images=40", "--split", "all"]
    done = CliRunner().invoke(app, ["explain", "gap", *world, "--model", "test_gap:Sides"])
    assert done.exit_code == 0 and "distance of the centres  1.414" in done.stdout, done.output
    assert "separability             1.000" in done.stdout  # also where all vectors of a side are equal
    for words in (
        ["explain", "gap"],
        ["explain", "gap", *files[:2]],
        ["explain", "gap", *files, "--model", "histograms"],
        ["explain", "gap", *files, "-o", "pool.csv"],
    ):
        assert CliRunner().invoke(app, words).exit_code == 2
    assert CliRunner().invoke(app, ["explain", "gap", *files[:3], str(tmp_path / "no.npy")]).exit_code == 3


class Sides:
    """Images along one axis, texts along another."""

    def encode(self, items):
        return np.tile([1.0, 0.0] if items.kind == "image" else [0.0, 1.0], (len(items), 1))
