"""Karpathy's JSON and the folders of VSE++ and SCAN."""

from __future__ import annotations

import json

import pytest
from pictures import png, put

from limner.core.errors import LimnerError, UnknownName
from limner.datasets.karpathy import load_json, load_precomp


def entry(number: int, split: str, captions: int = 5, **more):
    sentences = [{"raw": f"image {number}, caption {n}", "sentid": 10 * number + n} for n in range(captions)]
    return {"filename": f"{number}.jpg", "split": split, "imgid": number, "sentences": sentences, **more}


def write(folder, entries, name="coco"):
    file = folder / f"dataset_{name}.json"
    file.write_text(json.dumps({"dataset": name, "images": entries}))
    return file


def test_flickr30k(tmp_path):
    file = write(tmp_path, [entry(1, "train"), entry(2, "val"), entry(3, "test")], "flickr30k")
    loaded = load_json(file)
    assert loaded.name == "flickr30k"
    assert loaded.splits == {"train": ("1.jpg",), "dev": ("2.jpg",), "test": ("3.jpg",)}
    assert loaded.texts.values[loaded.texts.ids.index("32")] == "image 3, caption 2"
    assert load_json(tmp_path, split="val").name == "flickr30k/dev"


def test_coco_goes_by_coco_numbers_and_finds_pictures_below_filepath(tmp_path):
    put(tmp_path / "val2014", **{"3__jpg": png()})
    loaded = load_json(write(tmp_path, [entry(3, "test", cocoid=391895, filepath="val2014")]))
    assert list(loaded.images.ids) == ["391895"]
    assert loaded.images.open(0).size == (4, 3)


@pytest.mark.parametrize(
    ("restval", "splits"), [("train", {"train": 2}), ("restval", {"train": 1, "restval": 1}), ("drop", {"train": 1})]
)
def test_restval(tmp_path, restval, splits):
    loaded = load_json(write(tmp_path, [entry(1, "train"), entry(2, "restval")]), restval=restval)
    assert {name: len(ids) for name, ids in loaded.splits.items()} == splits


def test_first_five_captions(tmp_path):
    file = write(tmp_path, [entry(1, "test", 7), entry(2, "test", 5)])
    assert (len(load_json(file).texts), len(load_json(file, first=5).texts)) == (12, 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "dataset_x.json is not JSON"),
        ("[]", "a JSON list, expected an object"),
        ('{"dataset": "x"}', "no 'images' in this JSON; it has 'dataset'"),
        (json.dumps({"images": [{"filename": "a.jpg"}]}), "image 0 has no 'sentences', 'split'; it has 'filename'"),
        (json.dumps({"images": ["a.jpg"]}), "image 0 is a str, expected an object"),
        (json.dumps({"images": [entry(1, "test"), entry(1, "test")]}), "image 1 has the id '1.jpg' of an earlier one"),
        (
            json.dumps({"images": [entry(1, "test"), {**entry(1, "test"), "filename": "2.jpg"}]}),
            "caption id '10' was already used",
        ),
        (
            json.dumps({"images": [{**entry(1, "test"), "sentences": [{"tokens": []}]}]}),
            "a sentence of image 0 .1.jpg. has no 'raw', 'sentid'",
        ),
    ],
)
def test_bad_json(tmp_path, content, message):
    (tmp_path / "dataset_x.json").write_text(content)
    with pytest.raises(LimnerError, match=message):
        load_json(tmp_path)


def test_unknown_choices(tmp_path):
    file = write(tmp_path, [entry(1, "test")])
    with pytest.raises(UnknownName, match="did you mean 'train'"):
        load_json(file, restval="trains")
    with pytest.raises(UnknownName, match="unknown split 'dev' of 'coco'"):
        load_json(file, split="dev")


def captions(count: int) -> str:
    return "".join(f"caption {n}\n" for n in range(count))


def test_precomp_without_ids(tmp_path):
    loaded = load_precomp(put(tmp_path / "f30k_precomp", test_caps__txt=captions(10), dev_caps__txt=captions(5)))
    assert loaded.name == "f30k"
    assert loaded.splits == {"dev": ("dev-0",), "test": ("test-0", "test-1")}
    assert loaded.judgements.grade("test-1", "test-1#4") == 1
    assert loaded.texts.values[loaded.texts.ids.index("test-1#4")] == "caption 9"


@pytest.mark.parametrize(
    ("ids", "image", "text"),
    [
        ("7\n9\n", "9", "9#4"),  # one per image
        ("7\n" * 5 + "9\n" * 5, "9", "9#4"),  # repeated for every caption
        ("".join(f"{n}\n" for n in range(100, 110)), "test-1", "109"),  # one per caption
    ],
)
def test_precomp_ids(tmp_path, ids, image, text):
    loaded = load_precomp(put(tmp_path, test_caps__txt=captions(10), test_ids__txt=ids))
    assert loaded.images.ids[1] == image
    assert loaded.texts.ids[9] == text
    assert loaded.judgements.grade(image, text) == 1


@pytest.mark.parametrize(
    ("ids", "count", "message"),
    [
        (
            "7\n8\n9\n",
            10,
            "test_ids.txt: 3 ids for 10 captions in test_caps.txt; expected one per caption or one per 5",
        ),
        (None, 11, "test_caps.txt: 11 captions are not a multiple of 5 per image"),
        ("7\n7\n9\n" + "7\n" * 7, 10, "test_ids.txt, line 1: image ids change within 5 lines"),
        ("7\n7\n", 10, "caption id '7#0' was already used"),
    ],
)
def test_precomp_wrong_counts(tmp_path, ids, count, message):
    put(tmp_path, test_caps__txt=captions(count), **({} if ids is None else {"test_ids__txt": ids}))
    with pytest.raises(LimnerError, match=message):
        load_precomp(tmp_path)


def test_an_empty_caption_does_not_shift_the_others(tmp_path):
    loaded = load_precomp(put(tmp_path, test_caps__txt="a\n\nc\nd\n"), captions_per_image=2)
    assert loaded.texts.values == ("a", "c", "d")
    assert loaded.judgements.grade("test-1", "test-1#0") == 1
    assert "test_caps.txt, line 2: empty caption, left out" in loaded.warnings[0]


def test_testall_is_read_on_request(tmp_path):
    put(tmp_path, test_caps__txt=captions(5), testall_caps__txt=captions(25))
    assert len(load_precomp(tmp_path).texts) == 5
    assert len(load_precomp(tmp_path, split="testall").images) == 5
    with pytest.raises(LimnerError, match=r"no train_caps.txt in .*; it has 'test_caps.txt', 'testall_caps.txt'"):
        load_precomp(tmp_path, split="train")
