"""Items and Collection: alignment, splits, opening images."""

import io

import numpy as np
import pytest
from PIL import Image

from limner import Collection, Ids, Items, Judgements, LimnerError


def picture(size=(4, 4), form="PNG"):
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, form)
    return out.getvalue()


@pytest.fixture
def small():
    images = Items(["i0", "i1", "i2"], [picture(), None, picture()], {"size": np.array([1, 2, 3])})
    texts = Items(["t0", "t1", "t2", "t3"], ["a", "b", "c", "d"], kind="text")
    pairs = Judgements.from_pairs([("i2", "t3"), ("i0", "t0"), ("i0", "t1"), ("i1", "t2")])
    complete = pairs | Judgements.from_pairs([("i0", "t3"), ("i0", "elsewhere")])
    return Collection("small", images, texts, pairs, {"train": ["i0"], "test": ["i2", "i1"]}, {"complete": complete})


def test_judgements_are_aligned_with_the_items(small):
    assert small.judgements.queries == small.images.ids and small.judgements.candidates == small.texts.ids
    assert "elsewhere" in small.extra["complete"].candidates  # a judged candidate outside the pool is not lost


def test_a_split_takes_its_texts_along_in_order(small):
    test = small.test
    assert list(test.images.ids) == ["i2", "i1"] and list(test.texts.ids) == ["t2", "t3"]
    assert list(test.images.field("size")) == [3, 2]
    assert len(test.extra["complete"]) == 2 and "elsewhere" not in test.extra["complete"].candidates


def test_reverse_judgements_are_used_for_text_queries(small):
    reverse = Judgements.from_pairs([("t0", "i1")])
    collection = Collection(
        "x", small.images, small.texts, small.judgements, extra={"more": small.judgements}, reverse={"more": reverse}
    )
    assert (
        collection.judged("more", "t2i").grade("t0", "i1") == 1
        and collection.judged("more", "i2t").grade("i1", "t0") is None
    )
    assert collection.judged("pairs", "t2i").grade("t0", "i0") == 1


def test_describe_counts(small):
    assert small.describe()["judgements"] == {"pairs": 4, "complete": 6}
    assert small.describe()["splits"] == {"train": 1, "test": 2}


def test_open_by_position_and_id(small):
    assert small.images.open("i0").size == (4, 4) and small.images.open(2).mode == "RGB"


def bomb():
    """A PNG head that promises a picture of 200 megapixels."""
    head = bytearray(picture())
    head[16:24] = (20000).to_bytes(4, "big") + (10000).to_bytes(4, "big")
    return bytes(head)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "has only an id, no pixels"),
        (b"<svg></svg>", "does not open"),
        (picture(form="JPEG")[:-40], "does not open"),
        (picture(form="PPM"), "does not open"),
        (picture()[:41] + bytes(8) + picture()[49:], "does not open"),
        ("/nowhere/x.jpg", "no file /nowhere/x.jpg"),
        (bomb(), r"does not open|pixels"),
    ],
)
def test_images_that_do_not_open_are_named(value, message):
    with pytest.raises(LimnerError, match=message) as caught:
        Items(["odd"], [value]).open("odd")
    assert "'odd'" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Items(["a", "b"], ["x"], kind="text"), "2 ids but 1 values"),
        (lambda: Items(["a"], ["x"], {"language": []}, kind="text"), "0 language"),
        (lambda: Items(["a"], [3], kind="text"), "expected a string"),
        (lambda: Items(["a"], ["x"], kind="sound"), "unknown kind"),
        (lambda: Items(["a"], ["x"], kind="text").field("colour"), "unknown field"),
    ],
)
def test_items_refused(make, message):
    with pytest.raises(LimnerError, match=message):
        make()


def test_collections_refused(small):
    with pytest.raises(LimnerError, match="images come first"):
        Collection("x", small.texts, small.images, small.judgements)
    with pytest.raises(LimnerError, match="names 1 unknown images, e.g. 'zz'"):
        Collection("x", small.images, small.texts, small.judgements, {"test": ["zz"]})
    with pytest.raises(LimnerError, match="did you mean 'test'"):
        small.split("tets")


def test_a_split_of_a_collection_without_splits_is_refused_with_advice():
    texts = Items("x", ["a dog"], kind="text")
    gallery = Collection("gallery", Items("a", [None]), texts, Judgements.from_pairs(["ax"]))
    with pytest.raises(LimnerError, match="no split 'dev': 'gallery' has no splits; leave out the split"):
        gallery.split("dev")
    with pytest.raises(LimnerError, match="unknown field 'language' of the texts: there are none"):
        gallery.texts.field("language")


def test_judgements_of_a_collection_share_what_is_derived_from_its_ids():
    """Look-ups and hashes of 25,000 texts are computed once, not once for every set of judgements."""
    images, texts = Items(Ids(["a", "b"]), [None] * 2), Items(Ids(["1", "2", "3"]), [""] * 3, kind="text")
    pairs = Judgements.from_pairs([("a", "1"), ("b", "2")])
    extra = {"further": Judgements.from_pairs([("b", "3"), ("a", "2")])}
    collection = Collection("c", images, texts, pairs, extra=extra)
    first, second = collection.judged("pairs", "i2t"), collection.judged("further", "t2i")
    assert first.candidates.hashes is second.queries.hashes
    assert list(Ids(texts.ids, what="other")) == ["1", "2", "3"]
    assert Ids(texts.ids, what="other").what == "other"
