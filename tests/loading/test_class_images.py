"""Images of classes: a text for each class, prompts that are averaged, and zero-shot accuracy as R@1."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pictures import png, put

import limner
from limner.core.errors import LimnerError
from limner.encoders.contract import encoded, scores_of_model


class Colours:
    """Encodes an image by its colour and a text by the colours it names; drawings are misleading."""

    fingerprint = "colours of a test"
    names = ("red", "lime", "blue")

    def encode_images(self, items, /):
        return np.array([np.asarray(items.open(row), dtype=float)[0, 0] / 255 for row in range(len(items))]) + 0.01

    def encode_texts(self, items, /):
        return np.array([[(name in text) + 3.0 * ("drawing" in text and name == "red") for name in self.names]
                         for text in items.values]) + 0.01  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for split, name, colours in (
        ("train", "red_ball", ["red"]), ("test", "red_ball", ["red", "red"]), ("test", "blue_ball", ["blue"]),
        ("test", "lime_ball", ["blue"]),
    ):  # fmt: skip
        files = {f"{number}__png": png(colour) for number, colour in enumerate(colours)}
        put(tmp_path / "balls" / split / name, **files)
    put(tmp_path / "balls" / "test" / "red_ball", bad__png=b"")
    return tmp_path / "balls"


def test_r_at_1_of_images_is_zero_shot_accuracy(folder):
    loaded = limner.load(f"classes:{folder}", split="test")
    assert sorted(loaded.texts.values) == [
        "a photo of a blue ball.",
        "a photo of a lime ball.",
        "a photo of a red ball.",
    ]
    report = limner.evaluate(scores_of_model(Colours(), loaded), loaded, measures="R@1", direction="i2t")
    assert report.value("R@1", direction="i2t") == pytest.approx(0.75)


def test_splits_bad_files_and_classes_that_a_split_lacks(folder):
    loaded = limner.load(f"classes:{folder}")
    assert {name: len(ids) for name, ids in loaded.splits.items()} == {"test": 4, "train": 1}
    assert "1 file left out: it is empty ('test/red_ball/bad.png')" in loaded.warnings[0]
    assert "2 classes have no image in split 'train' ('blue_ball', 'lime_ball')" in loaded.warnings[1]


def test_unit_vectors_of_several_prompts_are_averaged(folder):
    templates = ["a photo of a {}.", "a drawing of a {c}."]
    texts = limner.load(f"classes:{folder}", templates=templates).texts
    vectors = encoded(Colours(), texts).matrix
    for row, prompts in enumerate(texts.field("prompts")):
        assert prompts[0] == texts.values[row] and len(prompts) == 2
        each = encoded(Colours(), list(prompts)).matrix
        unit = each / np.linalg.norm(each, axis=1, keepdims=True)
        assert vectors[row] == pytest.approx(unit.mean(axis=0), abs=1e-6)


def test_templates_and_names_come_from_files(folder, tmp_path):
    (folder / "templates.txt").write_text("{c}\nphoto: {}\n")
    names = put(tmp_path, names__json=json.dumps({"red_ball": "tomato"})) / "names.json"
    loaded = limner.load(f"classes:{folder}", names=names)
    assert loaded.texts.field("prompts")[loaded.texts.ids.index("red_ball")] == ("tomato", "photo: tomato")
    with pytest.raises(LimnerError, match=r"templates 'no place': expected \{\} for the class"):
        limner.load(f"classes:{folder}", templates=["no place"])


def test_a_table_of_images_and_classes(tmp_path):
    put(tmp_path, a__png=png(), labels__csv="image,class,split\na.png,dog,test\nb.png,cat,test\nc.png,,test\n")
    loaded = limner.load(f"classes:{tmp_path / 'labels.csv'}")
    assert (list(loaded.texts.ids), len(loaded.images)) == (["dog", "cat"], 2)
    assert any("no class in this row; image left out" in warning for warning in loaded.warnings)
    put(tmp_path, captions__csv="image,caption\na.png,x\n")
    with pytest.raises(LimnerError, match="no column class or label; there are 'image', 'caption'"):
        limner.load(f"classes:{tmp_path / 'captions.csv'}")
