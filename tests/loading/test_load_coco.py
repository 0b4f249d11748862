"""COCO's JSON, the 5,000-image test split, CxC, ECCV Caption and plausible matches."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pictures import png, put

import limner
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.core.judgements import Judgements
from limner.datasets import coco_judgements as extended
from limner.datasets.coco import load_captions, load_karpathy_5k, read_instances, with_folds
from limner.datasets.karpathy import load_precomp
from limner.encoders.contract import scores_of_model
from limner.evaluation import protocols

DATA = Path(os.environ.get("LIMNER_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")

IMAGES = [{"id": 7, "file_name": "000007.jpg", "width": 40, "height": 30}, {"id": 9, "file_name": "000009.jpg"}]
CAPTIONS = [{"id": 70, "image_id": 7, "caption": " A dog.\n"}, {"id": 90, "image_id": 9, "caption": "A cat."}]
INSTANCES = {
    "annotations": [{"image_id": 7, "category_id": 18, "bbox": [1.5, 2, 10, 20], "area": 150.5, "iscrowd": 1}],
    "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}],
}


def coco_json(folder, images=IMAGES, captions=CAPTIONS, name="captions_val2017.json"):
    put(folder)
    (folder / name).write_text(json.dumps({"images": images, "annotations": captions}))
    return folder / name


def test_captions_and_objects(tmp_path):
    file = coco_json(tmp_path)
    (tmp_path / "instances_val2017.json").write_text(json.dumps(INSTANCES))
    loaded = load_captions(file, objects=True)
    assert (list(loaded.images.ids), list(loaded.texts.ids)) == (["7", "9"], ["70", "90"])
    assert (loaded.texts.values, loaded.splits) == (("A dog.", "A cat."), {"dev": ("7", "9")})
    assert loaded.images.field("width") == (40, None)
    expected = {
        "name": "dog",
        "supercategory": "animal",
        "category": 18,
        "box": (1.5, 2, 11.5, 22),
        "area": 150.5,
        "crowd": True,
    }
    assert loaded.images.field("objects") == ((expected,), ())


def test_the_usual_layout_with_a_folder_of_pictures_per_split(tmp_path):
    coco_json(tmp_path / "annotations", name="captions_val2017.json")
    second_split = [{"id": 8, "file_name": "000008.jpg"}], [{"id": 80, "image_id": 8, "caption": "A cow."}]
    coco_json(tmp_path / "annotations", *second_split, name="captions_train2017.json")
    put(tmp_path / "val2017", **{"000007__jpg": png()})
    put(tmp_path / "train2017", **{"000008__jpg": png()})
    loaded = load_captions(tmp_path)
    assert {k: list(v) for k, v in loaded.splits.items()} == {"train": ["8"], "dev": ["7", "9"]}
    assert [loaded.images.open(i).size for i in ("7", "8")] == [(4, 3), (4, 3)]
    assert any("the image is not in" in w for w in loaded.warnings)


@pytest.mark.parametrize(
    ("images", "captions", "message"),
    [
        (
            IMAGES,
            [{"id": 1, "image_id": 5, "caption": "x"}],
            r"annotations\[0\] .caption 1. names image 5, which 'images' does not list",
        ),
        (IMAGES, [*CAPTIONS, CAPTIONS[0]], "caption id '70' was already used"),
        ([*IMAGES, IMAGES[0]], CAPTIONS, r"images\[2\] has the id 7 of an earlier image"),
        (IMAGES, [{"id": 1, "caption": "x"}], r"annotations\[0\] has no 'image_id'; it has 'id', 'caption'"),
        ([{"id": 1}], [], r"images\[0\] has no 'file_name'"),
    ],
)
def test_contradictions(tmp_path, images, captions, message):
    with pytest.raises(LimnerError, match=message):
        load_captions(coco_json(tmp_path, images, captions))


def test_an_image_nobody_described_is_kept_and_listed(tmp_path):
    loaded = load_captions(coco_json(tmp_path, captions=CAPTIONS[:1]))
    assert len(loaded.images) == 2
    assert "1 images without captions ('9')" in loaded.warnings[0]


def test_instances_of_an_unknown_category(tmp_path):
    (tmp_path / "i.json").write_text(json.dumps({**INSTANCES, "categories": []}))
    with pytest.raises(LimnerError, match=r"annotations\[0\] has category 18, which 'categories' does not list"):
        read_instances(tmp_path / "i.json")
    with pytest.raises(LimnerError, match="no folder with|no COCO instances at"):
        read_instances(tmp_path / "nothing.json")


def five_k(folder, images=10):
    rows = [(100 + i, 1000 + 5 * i + n, f'caption {n} of "{i}"') for i in range(images) for n in range(5)]
    put(
        folder,
        karpathy_test_5k__tsv="image_id\tcaption_id\tcaption\n"
        + "".join("\t".join(map(str, r)) + "\n" for r in reversed(rows)),
    )
    np.save(folder / "coco_test_ids.npy", np.array([r[1] for r in rows]))
    return folder


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(extended.importlib.util, "find_spec", lambda name: None)


def test_folds_follow_the_ids_not_the_table(tmp_path, no_package):
    loaded = load_karpathy_5k(five_k(tmp_path))
    assert list(loaded.texts.ids) == [str(n) for n in range(1000, 1050)]
    assert loaded.images.field("fold") == (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)
    assert loaded.texts.field("fold") == tuple(n // 10 for n in range(50))
    assert loaded.texts.values[0] == 'caption 0 of "0"'
    assert (set(loaded.extra), loaded.splits["test"]) == (set(), tuple(loaded.images.ids))


def test_ratings_near_the_table_and_a_folder_of_eccv(tmp_path, no_package):
    five_k(tmp_path / "coco")
    put(
        tmp_path / "cxc",
        sits_test__csv="caption,image,agg_score,sampling_method\nC:sentid:1005,COCO_val2014_000000000100.jpg,3.0,x\nC:sentid:1000,COCO_val2014_000000000100.jpg,2.9,x\n",
    )
    put(
        tmp_path / "eccv",
        eccv_image_to_caption__json='{"100": [1000, 1007, 99]}',
        eccv_caption_to_image__json='{"1003": [101, 100]}',
    )
    loaded = load_karpathy_5k(tmp_path / "coco", eccv=tmp_path / "eccv")
    assert loaded.ratings["cxc"].grade("100", "1000") == 2.9
    assert [(i, c) for i, c, g in loaded.extra["cxc"] if g] == [("100", "1005")]
    assert sorted(c for _, c, _ in loaded.judged("eccv", "i2t")) == ["1000", "1007", "99"]
    assert [(c, i) for c, i, _ in loaded.judged("eccv", "t2i")] == [("1003", "100"), ("1003", "101")]


@pytest.mark.parametrize(("folder", "name"), [("", "COCO_val2014_000000000100.jpg"), ("val2017/", "000000000100.jpg")])
def test_pictures_of_either_year(tmp_path, no_package, folder, name):
    put(tmp_path / "pictures" / folder, **{name.replace(".", "__"): png()})
    loaded = load_karpathy_5k(five_k(tmp_path), images=tmp_path / "pictures")
    assert loaded.images.open("100").size == (4, 3)


def test_plausible_matches_come_with_instances(tmp_path, no_package):
    (tmp_path / "i.json").write_text(
        json.dumps(
            {**INSTANCES, "annotations": [{"image_id": i, "category_id": 18, "bbox": [0, 0, 1, 1]} for i in (100, 101)]}
        )
    )
    loaded = load_karpathy_5k(five_k(tmp_path), instances=tmp_path / "i.json")
    assert {n: len(j) for n, j in loaded.extra.items()} == {
        "plausible-0": 20,
        "plausible-1": 20,
        "plausible-2": 20,
        "plausible-eccv": 10,
    }


def test_without_ids_the_order_of_the_table_is_used_and_said(tmp_path, no_package):
    (five_k(tmp_path) / "coco_test_ids.npy").unlink()
    loaded = load_karpathy_5k(tmp_path)
    assert loaded.texts.ids[0] == "1049"
    assert "folds follow the order of this file" in loaded.warnings[0]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (range(1000, 1049), "49 ids here, 50 captions in .*; 0 without a caption, 1 captions unlisted"),
        (range(1001, 1051), "1 without a caption, 1 captions unlisted"),
        ([*range(1000, 1050), 1000], "51 ids here, 50 captions"),
    ],
)
def test_ids_that_do_not_fit_the_captions(tmp_path, no_package, ids, message):
    np.save(five_k(tmp_path) / "coco_test_ids.npy", np.array(list(ids)))
    with pytest.raises(LimnerError, match=message):
        load_karpathy_5k(tmp_path)


def karpathy_json(folder):
    """Karpathy's file with two images of the test split, the second with one caption more, and one of another split."""
    images = [
        {"cocoid": 100 + i, "filename": f"COCO_val2014_{100 + i:012}.jpg", "split": split,
         "sentences": [{"raw": f" caption {n} of {i}", "sentid": 1000 + 10 * i + n} for n in range(5 + (i == 1))]}
        for i, split in enumerate(("test", "test", "restval"))
    ]  # fmt: skip
    return put(folder, dataset_coco__json=json.dumps({"images": images, "dataset": "coco"}))


def test_the_file_of_karpathy_gives_the_first_five_captions(tmp_path, no_package):
    loaded = limner.load(f"coco-5k:{karpathy_json(tmp_path)}")
    assert list(loaded.texts.ids) == [*map(str, range(1000, 1005)), *map(str, range(1010, 1015))]
    assert loaded.texts.values[0] == "caption 0 of 0"
    np.save(tmp_path / "coco_test_ids.npy", np.array([*range(1011, 1016), *range(1000, 1005)]))
    listed = load_karpathy_5k(tmp_path / "dataset_coco.json")
    assert list(listed.texts.ids) == [*map(str, range(1011, 1016)), *map(str, range(1000, 1005))]
    assert list(listed.images.ids) == ["101", "100"]


def test_the_file_of_karpathy_without_a_test_split_is_refused(tmp_path, no_package):
    put(tmp_path, dataset_coco__json=json.dumps({"images": [{"sentences": [], "split": "train"}]}))
    with pytest.raises(LimnerError, match="no image of the split 'test'"):
        load_karpathy_5k(tmp_path)
    with pytest.raises(LimnerError, match="no captions in .*: expected Karpathy's dataset_coco.json"):
        load_karpathy_5k(put(tmp_path / "empty"))


def test_the_whole_test_split_from_the_file_of_karpathy(tmp_path, shared_data):
    pytest.importorskip("eccv_caption")
    table = load_karpathy_5k(shared_data / "coco" / "karpathy_test_5k.tsv")
    images = [
        {"cocoid": int(image), "split": "test", "sentences": [{"raw": text, "sentid": int(key)} for key, text in texts]}
        for image, texts in _captions_of(table).items()
    ]
    put(tmp_path, dataset_coco__json=json.dumps({"images": images[::-1]}))
    loaded = load_karpathy_5k(tmp_path)
    assert (len(loaded.images), len(loaded.texts), set(loaded.extra)) == (5000, 25_000, {"cxc", "eccv"})
    assert list(loaded.texts.ids) == list(table.texts.ids) and loaded.texts.values == table.texts.values
    assert loaded.texts.field("fold") == table.texts.field("fold")


def _captions_of(collection):
    captions = {}
    for row, column in zip(collection.judgements.rows, collection.judgements.columns, strict=True):
        text = collection.texts.ids[column], collection.texts.values[column]
        captions.setdefault(collection.images.ids[row], []).append(text)
    return captions


def test_a_model_is_refused_where_only_ids_are_known(tmp_path):
    pytest.importorskip("eccv_caption")
    with pytest.raises(LimnerError, match="all 25,000 texts are empty.*dataset_coco.json .*'coco-5k:DIR'"):
        scores_of_model(Words(), limner.load("coco-5k"))


class Words:
    def encode_texts(self, items, /):
        raise AssertionError("texts without words are encoded")

    encode_images = encode_texts


def test_only_a_test_split(tmp_path):
    with pytest.raises(UnknownName, match="unknown split 'train' of 'coco-5k'"):
        load_karpathy_5k(tmp_path, split="train")


def test_no_package_and_no_folder(no_package):
    with pytest.raises(MissingExtra, match=r"needs the package 'eccv_caption'.*limner\[eccv\]"):
        extended.read_eccv()


def test_folds_of_another_form(tmp_path):
    folder = put(tmp_path, testall_caps__txt="".join(f"c{n}\n" for n in range(50)))
    folded = with_folds(load_precomp(folder, split="testall"))
    assert folded.texts.field("fold")[9:11] == (0, 1)
    with pytest.raises(LimnerError, match="10 images of .* cannot be split into 3 equal folds"):
        with_folds(folded, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("caption,image\n1,2\n", "line 1: no column 'agg_score'; the header has caption, image"),
        ("caption,image,agg_score\n1,2,high\n", "line 2: agg_score is 'high', expected a number"),
        ("caption,image,agg_score\n1,2,3\n1,2,4\n", "line 3: image 2 and caption 1 are rated a second time"),
        ("caption,image,agg_score\nx,2,3\n", "line 2: 'x' does not end in a COCO number"),
        ("caption,image,agg_score\n1,2\n", "line 2: 2 columns, the header has 3"),
    ],
)
def test_bad_ratings(tmp_path, content, message):
    with pytest.raises(LimnerError, match=message):
        extended.read_cxc(put(tmp_path, sits_test__csv=content))


def labelled(labels: list[set[int]], captions: int = 2) -> tuple[Collection, dict[str, set[int]]]:
    ids = [f"i{n}" for n in range(len(labels))]
    pairs = [(i, f"{i}#{n}") for i in ids for n in range(captions)]
    texts = Items([t for _, t in pairs], ["x"] * len(pairs), kind="text")
    collection = Collection("c", Items(ids, [None] * len(ids)), texts, Judgements.from_pairs(pairs))
    return collection, dict(zip(ids, labels, strict=True))


@pytest.mark.parametrize("zeta", [0, 1, 2, 3])
@pytest.mark.parametrize("form", ["pcme", "eccv"])
def test_plausible_matches_against_a_slow_loop(zeta, form):
    draw = np.random.default_rng(zeta)
    collection, labels = labelled(
        [set(draw.choice(90, draw.integers(0, 4)).tolist()) for _ in range(40)] + [{1}, {1, 2}, {1}, set()]
    )
    expected = {
        (a, f"{b}#{n}")
        for a in labels
        for b in labels
        for n in range(2)
        if labels[a] and labels[b] and len(labels[a] ^ labels[b]) <= zeta and (form == "pcme" or a != b)
    }
    plausible = extended.plausible_matches(collection, zeta=zeta, form=form, labels=labels)
    assert {(q, c) for q, c, _ in plausible} == expected
    assert set(plausible.grades) <= {1.0}


def test_plausible_matches_by_name():
    collection, labels = labelled([{1}, {2}])
    assert extended.plausible_matches(collection, labels=labels).name == "plausible-0"
    assert extended.plausible_matches(collection, labels=labels, form="eccv") == extended.plausible_matches(
        collection, labels=labels, form="eccv", zeta=2
    )
    with pytest.raises(UnknownName, match="did you mean 'pcme'"):
        extended.plausible_matches(collection, labels=labels, form="pcm")
    with pytest.raises(LimnerError, match="zeta=-1"):
        extended.plausible_matches(collection, labels=labels, zeta=-1)
    with pytest.raises(UnknownName, match="'objects'"):
        extended.plausible_matches(collection)


def test_real_cxc_is_the_file_that_eccv_caption_ships(shared_data):
    pytest.importorskip("eccv_caption")
    ours = extended.read_cxc(shared_data / "cxc").at_least(extended.CXC_THRESHOLD).relevant
    images, texts = extended.read_cxc_positives()
    pairs = {(i, c) for i, c, _ in ours}
    assert pairs == {(i, c) for i, c, _ in images} == {(i, c) for c, i, _ in texts}
    assert (len(ours), int((ours.T.counts > 0).sum()), int((ours.counts > 0).sum())) == (35585, 24972, 5000)
    with (shared_data / "cxc" / "sits_test.csv").open() as file:
        assert sum(float(row["agg_score"]) >= 3 for row in csv.DictReader(file)) == 35585


def test_real_eccv_caption():
    pytest.importorskip("eccv_caption")
    images, texts = extended.read_eccv()
    assert (len(images.queries), len(images), images.counts.min(), images.counts.max()) == (1261, 22550, 6, 48)
    assert (len(texts.queries), len(texts), texts.counts.min(), texts.counts.max()) == (1332, 11279, 1, 19)


@pytest.mark.parametrize("source", ["folder", "package"])
def test_real_coco_5k(shared_data, source):
    pytest.importorskip("eccv_caption")
    loaded = load_karpathy_5k(shared_data / "coco") if source == "folder" else load_karpathy_5k()
    assert (len(loaded.images), len(loaded.texts), len(loaded.judgements)) == (5000, 25000, 25000)
    order = np.load(shared_data / "coco" / "coco_test_ids.npy")
    assert list(loaded.texts.ids) == [str(n) for n in order]
    assert Counter(loaded.images.field("fold")) == dict.fromkeys(range(5), 1000)
    assert loaded.texts.field("fold") == tuple(n // 5000 for n in range(25000))
    assert {name: len(j) for name, j in loaded.extra.items() if "ratings" not in name} == {"cxc": 35585, "eccv": 22550}
    outside = set(loaded.extra["eccv"].candidates) - set(loaded.texts.ids)
    assert outside == {"144675", "467259"}
    assert len(loaded.judged("eccv", "t2i")) == 11279
    assert set(loaded.texts.values[:1]) == (
        {""} if source == "package" else {"A man with a red helmet on a small moped on a dirt road."}
    )
    assert len(loaded.warnings) == (source == "package")


def test_the_5k_of_folder_and_package_agree(shared_data):
    pytest.importorskip("eccv_caption")
    folder, package = load_karpathy_5k(shared_data / "coco"), load_karpathy_5k()
    assert folder.judgements == package.judgements
    assert folder.extra["cxc"].relevant == package.extra["cxc"].relevant


def test_real_coco_mini_boxes_lie_in_their_images(shared_data):
    loaded = load_captions(shared_data / "coco-mini", objects=True)
    assert (len(loaded.images), len(loaded.texts)) == (159, 795)
    assert {name: len(ids) for name, ids in loaded.splits.items()} == {"train": 80, "dev": 79}
    assert sum(map(len, loaded.images.field("objects"))) == 739 + 624
    for width, height, objects in zip(*map(loaded.images.field, ("width", "height", "objects")), strict=True):
        for boxes in objects:
            left, top, right, bottom = boxes["box"]
            assert 0 <= left < right <= width + 1
            assert 0 <= top < bottom <= height + 1
    assert loaded.images.values.count(None) == 0


def test_real_val2017(shared_data):
    loaded = load_captions(shared_data / "coco" / "captions_val2017.json")
    assert (len(loaded.images), len(loaded.texts), loaded.warnings) == (5000, 25014, ())


@pytest.mark.skipif(not (DATA / "coco").is_dir(), reason=f"needs COCO in {DATA / 'coco'} (LIMNER_DATA)")
def test_the_manual_counts_the_repeated_captions_of_coco_right():
    captions = list(limner.load(f"coco-5k:{DATA / 'coco'}").texts.values)
    different = len(set(captions))
    page = (Path(__file__).parents[2] / "docs" / "measures.md").read_text()
    page = " ".join(page.split())
    assert f"The {len(captions):,} captions of the COCO test set are {different:,} different texts" in page
    assert f"{len(captions) - different} repeat an earlier one" in page and f"{different:,} different texts)" in page
    assert ("coco-5k", different) in protocols._VARIANTS
