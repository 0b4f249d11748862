"""A collection written and read back is the same, and what a form cannot hold is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import png, put
from PIL import Image

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.datasets import load, write
from limner.datasets.caption_tables import load_folder, load_table

FORMS = (".csv", ".tsv", ".jsonl", ".parquet")


def small(values=(None, None), **more) -> Collection:
    images = Items(["a.jpg", "b.jpg"], list(values), {"place": ["Rome", "Bern"]})
    texts = Items(["t0", "t1", "t2"], ['x, "y"\tz', "two\nlines", "=1+1"], {"language": ["en", "de", "en"]}, "text")
    pairs = Judgements.from_pairs([("a.jpg", "t0"), ("a.jpg", "t1"), ("b.jpg", "t2")])
    return Collection("small", images, texts, pairs, {"train": ["a.jpg"], "dev": ["b.jpg"]}, **more)


def assert_equal(a: Collection, b: Collection) -> None:
    assert (a.images.ids, a.texts.ids, a.texts.values) == (b.images.ids, b.texts.ids, b.texts.values)
    assert (a.judgements, dict(a.splits)) == (b.judgements, dict(b.splits))
    assert {**a.texts.fields, **a.images.fields} == {**b.texts.fields, **b.images.fields}


@pytest.mark.parametrize("form", FORMS)
def test_there_and_back(tmp_path, form):
    assert write(small(), tmp_path / f"t{form}") == ()
    assert_equal(load(tmp_path / f"t{form}"), small())


@pytest.mark.parametrize("form", FORMS)
def test_grades_and_texts_of_several_images(tmp_path, form):
    pairs = [("a", "x", 1), ("a", "y", 0.25), ("b", "x", 1), ("b", "y", 0)]
    texts = Items(["x", "y"], ["one", "two"], kind="text")
    collection = Collection("c", Items(["a", "b"], [None] * 2), texts, Judgements.from_pairs(pairs))
    assert write(collection, tmp_path / f"t{form}") == ()
    assert load_table(tmp_path / f"t{form}").judgements == collection.judgements


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)


@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from(FORMS))
def test_any_caption_survives(tmp_path_factory, captions, form):
    file = tmp_path_factory.mktemp("w") / f"t{form}"
    ids = [f"t{n}" for n in range(len(captions))]
    collection = Collection(
        "c", Items(["a"], [None]), Items(ids, captions, kind="text"), Judgements.from_pairs(("a", t) for t in ids)
    )
    write(collection, file)
    assert load_table(file).texts.values == tuple(captions)


def test_pictures_beside_and_elsewhere(tmp_path):
    inside, outside = put(tmp_path / "here" / "images", a__jpg=png()), put(tmp_path / "there", b__jpg=png())
    collection = small((inside / "a.jpg", outside / "b.jpg"))
    assert write(collection, tmp_path / "here" / "t.csv") == ()
    loaded = load(tmp_path / "here" / "t.csv", check_images=True)
    assert_equal(loaded, collection)
    assert loaded.warnings == ()
    assert f",{tmp_path}" not in (tmp_path / "here" / "t.csv").read_text().splitlines()[1]


def test_what_a_table_cannot_hold_is_said(tmp_path):
    collection = small(
        (png(), lambda: Image.new("RGB", (5, 5))), extra={"expert": Judgements.from_pairs([("a.jpg", "t2")])}
    )
    images = Items(
        [*collection.images.ids, "c"], [*collection.images.values, None], {"objects": [({"name": "dog"},), (), ()]}
    )
    texts = collection.texts.with_fields(split=["x", "y", "z"])
    larger = Collection(
        "m",
        images,
        texts,
        collection.judgements,
        {"a": ["a.jpg"], "b": ["a.jpg"]},
        collection.extra,
        {"eccv": collection.judgements.T},
    )
    warnings = "\n".join(write(larger, tmp_path / "t.csv"))
    for part in (
        "further judgements were left out: 'expert', 'eccv (text to image)'",
        "fields of images that this format cannot store were left out: 'objects' (.jsonl can store lists and dicts)",
        "images without any text were left out: 1 ('c')",
        "some images are in several splits",
        "fields of texts with names of columns were left out: 'split'",
        "2 images are not files",
    ):
        assert part in warnings
    assert not any("objects" in sentence for sentence in write(larger, tmp_path / "t.jsonl"))
    assert load(tmp_path / "t.jsonl").images.field("objects")[0] == [{"name": "dog"}]


def test_empty_texts_are_announced(tmp_path):
    collection = Collection(
        "c",
        Items(["a"], [None]),
        Items(["t", "u"], ["", "x"], kind="text"),
        Judgements.from_pairs([("a", "t"), ("a", "u")]),
    )
    assert "1 texts are empty and will be left out on reading" in write(collection, tmp_path / "t.csv")


def test_numpy_fields_are_plain_values(tmp_path):
    collection = small()
    collection = Collection(
        "c", collection.images.with_fields(fold=np.array([0, 1])), collection.texts, collection.judgements
    )
    assert write(collection, tmp_path / "t.jsonl") == ()
    assert load(tmp_path / "t.jsonl").images.field("fold") == (0, 1)


def test_values_that_no_form_can_hold(tmp_path):
    collection = small()
    odd = collection.images.with_fields(
        thing=[object(), object()], box=[(np.float32(1.5), 2), (3, 4)], mixed=[1, "one"]
    )
    collection = Collection("c", odd, collection.texts, collection.judgements)
    (sentence,) = write(collection, tmp_path / "t.jsonl")
    assert "fields of images that this format cannot store were left out: 'thing'" in sentence
    assert load(tmp_path / "t.jsonl").images.field("box") == ([1.5, 2], [3, 4])
    (tmp_path / "t.parquet").write_bytes(b"what was there")
    with pytest.raises(LimnerError, match="t.parquet: a column mixes types .*; write .jsonl instead"):
        write(collection, tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").read_bytes() == b"what was there"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.jsonl", "t.parquet"]


def test_the_built_in_world_can_be_converted(tmp_path):
    world = load("scenes", images=5)
    for form in (*FORMS, ""):
        write(world, tmp_path / f"world{form}")
        assert load(tmp_path / f"world{form}").judgements == world.judgements


def test_a_folder(tmp_path):
    file = put(tmp_path / "from", a__jpg=png("blue")) / "a.jpg"
    collection = small((file, lambda: Image.new("RGB", (5, 5))))
    assert write(collection, tmp_path / "out") == ()
    loaded = load_folder(tmp_path / "out", check_images=True)
    assert_equal(loaded, collection)
    assert (loaded.images.open("a.jpg").getpixel((0, 0)), loaded.images.open("b.jpg").size) == ((0, 0, 255), (5, 5))
    with pytest.raises(LimnerError, match="out is not empty: give a new folder"):
        write(collection, tmp_path / "out")


def test_a_folder_never_writes_outside_itself(tmp_path):
    ids = ["../up.png", "https://x/y.png", ".hidden", "a b"]
    texts = Items([f"t{n}" for n in range(4)], list("wxyz"), kind="text")
    collection = Collection(
        "c", Items(ids, [png()] * 4), texts, Judgements.from_pairs(zip(ids, texts.ids, strict=True))
    )
    write(collection, tmp_path / "out")
    assert sorted(f.name for f in (tmp_path / "out" / "images").iterdir()) == [f"0000000{n}.png" for n in range(4)]
    assert [f.name for f in tmp_path.iterdir()] == ["out"]
    assert_equal(load_folder(tmp_path / "out", check_images=True), collection)


def test_qrels_and_unknown_endings(tmp_path):
    (sentence,) = write(small(), tmp_path / "j.qrels")
    assert "qrels store only judgements" in sentence
    assert load(tmp_path / "j.qrels").judgements == small().judgements
    with pytest.raises(
        LimnerError, match=r"write '.xlsx'; expected .csv, .tsv, .jsonl, .parquet, .qrels, .trec, .tar, or a folder"
    ):
        write(small(), tmp_path / "t.xlsx")
    with pytest.raises(LimnerError, match="has no judged pairs"):
        write(Collection("c", Items([], []), Items([], [], kind="text"), Judgements.from_pairs([])), tmp_path / "t.csv")
