"""Multi30K in both forms, and Flickr8k-CN."""

from __future__ import annotations

import gzip

import pytest
from pictures import png, put

from limner.core.errors import LimnerError, UnknownName
from limner.datasets.multilingual import load_flickr8k_cn, load_multi30k


@pytest.fixture
def folder(tmp_path):
    put(tmp_path / "raw", train__en="a dog\na cat\n", train__de="ein Hund\neine Katze\n", val__en="a cow\n")
    put(tmp_path / "raw", test_2016_flickr__fr__gz=gzip.compress(b"une vache\n"))
    put(tmp_path / "raw", test_2017_mscoco__en="a car\n")
    put(
        tmp_path / "image_splits",
        train__txt="1.jpg\n2.jpg\n",
        val__txt="3.jpg\n",
        test_2017_mscoco__txt="COCO_5.jpg#77\n",
    )
    put(tmp_path / "image_splits", test_2016_flickr_images__txt="4.jpg\n")
    return tmp_path


def test_text_files(folder):
    loaded = load_multi30k(folder)
    assert loaded.splits == {
        "train": ("1.jpg", "2.jpg"),
        "dev": ("3.jpg",),
        "test": ("4.jpg",),
        "test_2017_mscoco": ("COCO_5.jpg",),
    }
    assert loaded.texts.values[loaded.texts.ids.index("2.jpg#de")] == "eine Katze"
    assert loaded.judgements.grade("2.jpg", "2.jpg#en") == 1
    german = load_multi30k(folder, languages=["de"])
    assert (german.texts.values, set(german.texts.field("language"))) == (("ein Hund", "eine Katze"), {"de"})
    with pytest.raises(UnknownName, match="unknown language 'xx' of Multi30K"):
        load_multi30k(folder, languages=["xx"])


def test_five_captions_of_task_2(tmp_path):
    put(tmp_path, **{f"train__{n}__en": f"a{n}\nb{n}\n" for n in range(1, 6)}, train__txt="1.jpg\n2.jpg\n")
    put(tmp_path / "images", **{"1__jpg": png(), "2__jpg": png()})
    loaded = load_multi30k(tmp_path)
    assert loaded.judgements.counts.tolist() == [5, 5]
    assert loaded.texts.values[loaded.texts.ids.index("2.jpg#en3")] == "b3"
    assert loaded.images.open("2.jpg").size == (4, 3)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train__en": "a\nb\nc\n"}, "train.en: 3 captions for the 2 images of split 'train'"),
        (
            {"test_2018_flickr__en": "a\n"},
            "no list of images for split 'test_2018_flickr' in .*: expected test_2018_flickr.txt",
        ),
    ],
)
def test_wrong_counts_and_missing_lists(folder, files, message):
    put(folder / "raw", **files)
    with pytest.raises(LimnerError, match=message):
        load_multi30k(folder)


def test_an_empty_folder(tmp_path):
    with pytest.raises(LimnerError, match="no Multi30K text files in .*: expected e.g. train.en"):
        load_multi30k(tmp_path)


def test_a_table_with_two_kinds_of_splits(tmp_path):
    header = "multi30k_split\tflickr8k_image\tflickr8k_split\ten\tde\n"
    file = (
        put(tmp_path, m__tsv=header + 'train\ta.jpg\ttest\t"Stop," he says\tHalt\nval\tb.jpg\tnone\tcow\tKuh\n')
        / "m.tsv"
    )
    loaded = load_multi30k(file)
    assert loaded.splits == {"train": ("a.jpg",), "dev": ("b.jpg",)}
    assert loaded.images.field("flickr8k_split") == ("test", "none")
    assert loaded.texts.values == ('"Stop," he says', "Halt", "cow", "Kuh")
    assert load_multi30k(file, splits="flickr8k").splits == {"test": ("a.jpg",)}
    with pytest.raises(UnknownName, match="unknown split column 'flickr'"):
        load_multi30k(file, splits="flickr")
    with pytest.raises(LimnerError, match="line 1: expected a column of images and of 'en'"):
        load_multi30k(put(tmp_path, n__tsv="a\tb\n1\t2\n") / "n.tsv")


def test_flickr8k_cn(tmp_path):
    put(
        tmp_path,
        chinese_human__txt="a.jpg#zhc#0 一群人在看金鱼。\nb.jpg#zhc#0\t街上很多人。\n",
        Flickr_8k__testImages__txt="b.jpg\n",
    )
    loaded = load_flickr8k_cn(tmp_path)
    assert (loaded.texts.values, loaded.texts.field("language")) == (("一群人在看金鱼。", "街上很多人。"), ("zh", "zh"))
    assert list(load_flickr8k_cn(tmp_path, split="test").texts.ids) == ["b.jpg#zhc#0"]
    put(tmp_path, chinese_human__txt="a.jpg 一群人\n")
    with pytest.raises(LimnerError, match="line 1: expected 'image.jpg#zhc#0 caption', got 'a.jpg"):
        load_flickr8k_cn(tmp_path)


def test_the_real_files(shared_data):
    table = shared_data / "flickr8k" / "multilingual_en_de_fr_cs.tsv"
    loaded = load_multi30k(table, images=shared_data / "flickr8k" / "images")
    assert (len(loaded.images), len(loaded.texts), loaded.images.values.count(None)) == (7478, 4 * 7478, 0)
    assert {name: len(ids) for name, ids in loaded.splits.items()} == {"train": 6993, "dev": 242, "test": 243}
    train, test = set(loaded.splits["train"]), set(load_multi30k(table, splits="flickr8k").splits["test"])
    assert len(train & test) == 871
    chinese = load_flickr8k_cn(shared_data / "flickr8k")
    assert (len(chinese.images), len(chinese.texts), len(chinese.splits["test"])) == (8091, 40455, 1000)
