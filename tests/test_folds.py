"""Folds: the same number for images and texts, whatever the values of the field are."""

import numpy as np
import pytest

from limner import Collection, Ids, Items, Judgements
from limner.evaluation.protocols import Folds


def collection(images, texts):
    sides = [
        Items(Ids([f"{kind}{n}" for n in range(len(values))]), [""] * len(values), {"fold": values}, kind)
        for kind, values in (("image", images), ("text", texts))
    ]
    return Collection("c", *sides, Judgements.from_pairs([("image0", "text0")]))


@pytest.mark.parametrize(
    ("images", "texts", "expected"),
    [
        ([0, 1, 1], [1, 0], ([0, 1, 1], [1, 0])),
        ([7.0, "7", np.int64(7)], [np.float32(7), 8], ([0, 0, 0], [0, 1])),
        (["b", None, float("nan")], ["a", "b"], ([0, -1, -1], [1, 0])),
        ([True, 1, "True"], [1.0, False], ([0, 1, 0], [1, 2])),
        (np.array([np.nan, 2.0, np.nan]), np.array([2.5, 2.0]), ([-1, 0, -1], [1, 0])),
        ([[1], [1], [2]], [[2], [1]], ([0, 0, 1], [1, 0])),
    ],
)
def test_values_of_folds(images, texts, expected):
    world = collection(images, texts)
    folds = Folds(world, "fold")
    actual = [folds.of(world.images.ids, "image").tolist(), folds.of(world.texts.ids, "text").tolist()]
    assert actual == list(expected)


def test_unknown_ids():
    world = collection([0, 1], [0, 1])
    some = Ids(["image1", "elsewhere"])
    assert Folds(world, "fold").of(some, "image").tolist() == [1, -1]
