"""Flickr8k: the standard folder in small, and the real one."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import png, put

from limner.core.errors import LimnerError
from limner.datasets.flickr import BOGUS_IMAGE, crowd_votes, expert_scores, load_flickr8k, load_tokens


def tokens(images=("a.jpg", "b.jpg", "c.jpg")) -> str:
    return "".join(f"{image}#{n}\t{image[0]} caption {n} .\n" for image in images for n in range(5))


@pytest.fixture
def folder(tmp_path):
    put(tmp_path / "text", Flickr8k__token__txt=tokens() + f"{BOGUS_IMAGE}#0\tbogus\n")
    put(tmp_path / "text", Flickr8k__lemma__token__txt=tokens().replace("caption", "lemma"))
    put(tmp_path / "text", Flickr_8k__trainImages__txt="c.jpg\n", Flickr_8k__testImages__txt="b.jpg\na.jpg\n")
    put(
        tmp_path / "text",
        ExpertAnnotations__txt="a.jpg\tb.jpg#2\t1\t1\t2\nb.jpg\tb.jpg#2\t3\t3\t4\nb.jpg\ta.jpg#2\t3\t3\t3\n",
    )
    put(
        tmp_path / "text",
        CrowdFlowerAnnotations__txt="a.jpg\ta.jpg#2\t0.666666666666667\t2\t1\na.jpg\tb.jpg#2\t0.6\t3\t2\n",
    )
    return tmp_path


def test_captions_splits_and_lemmas(folder):
    loaded = load_flickr8k(folder)
    assert list(loaded.images.ids) == ["a.jpg", "b.jpg", "c.jpg"]
    assert loaded.texts.values[:2] == ("a caption 0 .", "a caption 1 .")
    assert loaded.texts.field("lemmas")[7] == "b lemma 2 ."
    assert loaded.splits == {"train": ("c.jpg",), "test": ("b.jpg", "a.jpg")}
    assert {(i, t) for i, t, _ in loaded.judgements} == {(t.split("#")[0], t) for t in loaded.texts.ids}
    assert loaded.images.values == (None, None, None)


def test_the_bogus_image_is_left_out_and_listed(folder):
    (warning,) = load_flickr8k(folder).warnings
    assert "Flickr8k.token.txt, line 16" in warning
    assert BOGUS_IMAGE in warning
    with pytest.raises(LimnerError, match="line 16.*strict=True makes this an error"):
        load_flickr8k(folder, strict=True)


def test_human_judgements_raw_and_at_the_papers_thresholds(folder):
    loaded = load_flickr8k(folder)
    extra = loaded.extra
    assert loaded.ratings["expert"].grade("a.jpg", "b.jpg#2") == pytest.approx(4 / 3)
    assert [(i, c, g) for i, c, g in extra["expert"]] == [
        ("a.jpg", "b.jpg#2", 0),
        ("b.jpg", "a.jpg#2", 0),
        ("b.jpg", "b.jpg#2", 1),
    ]
    assert loaded.ratings["crowd"].grade("a.jpg", "b.jpg#2") == pytest.approx(0.6)
    assert (extra["crowd"].grade("a.jpg", "a.jpg#2"), extra["crowd"].grade("a.jpg", "b.jpg#2")) == (1, 0)
    assert len(loaded.ratings["crowd"].at_least(0.5)) == 2


def test_raw_answers_keep_the_order_of_the_file(folder):
    experts, crowd = expert_scores(folder), crowd_votes(folder / "text" / "CrowdFlowerAnnotations.txt")
    assert experts.images == ("a.jpg", "b.jpg", "b.jpg")
    assert experts.values.tolist() == [[1, 1, 2], [3, 3, 4], [3, 3, 3]]
    assert (len(crowd), crowd.captions, crowd.values.tolist()) == (2, ("a.jpg#2", "b.jpg#2"), [[2, 1], [3, 2]])


def test_one_caption_of_each_test_image(folder):
    loaded = load_flickr8k(folder, split="test", captions=[2])
    assert list(loaded.images.ids) == ["b.jpg", "a.jpg"]
    assert sorted(loaded.texts.ids) == ["a.jpg#2", "b.jpg#2"]
    assert loaded.judgements.counts.tolist() == [1, 1]
    assert len(loaded.extra["expert"]) == 1
    with pytest.raises(LimnerError, match=r"captions=\[7\]: no caption has number 7; there are \[0, 1, 2, 3, 4\]"):
        load_flickr8k(folder, captions=[7])


def test_pictures_beside_are_found_and_a_missing_one_is_listed(folder):
    put(folder / "images", a__jpg=png(), b__jpg=png())
    loaded = load_flickr8k(folder)
    assert loaded.images.open("a.jpg").size == (4, 3)
    assert loaded.images.values[2] is None
    assert "Flickr8k.token.txt, line 11: the image is not in" in loaded.warnings[-1]


def test_judged_pairs_of_unknown_images_are_listed(folder):
    with (folder / "text" / "ExpertAnnotations.txt").open("a") as file:
        file.write("z.jpg\ta.jpg#2\t1\t1\t1\n")
    loaded = load_flickr8k(folder)
    assert len(loaded.ratings["expert"]) == 3
    assert any("1 judged pairs name an unknown image or caption" in w for w in loaded.warnings)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (
            "Flickr8k.token.txt",
            tokens().replace("#3", "", 1),
            "line 4: caption id 'a.jpg', expected an image, '#' and a number",
        ),
        ("Flickr8k.token.txt", tokens().replace("\t", " ", 1), "line 1: 1 columns, expected 2 separated by tabs"),
        (
            "Flickr8k.token.txt",
            tokens() + "a.jpg#4\tagain\n",
            "line 16: caption id 'a.jpg#4' was already used at .*line 5",
        ),
        (
            "Flickr8k.token.txt",
            tokens(("a.jpg", "b.jpg")) + "c.jpg#0\tone\n",
            "line 11: image 'c.jpg' has 1 captions, expected 5",
        ),
        ("Flickr_8k.trainImages.txt", "a.jpg\n", r"image 'a.jpg' is in split 'test' here and in 'train'"),
        (
            "ExpertAnnotations.txt",
            "a.jpg\tb.jpg#2\t1\t5\t1\n",
            "line 1: expert scores 1, 5, 1: expected three whole numbers from 1 to 4",
        ),
        ("ExpertAnnotations.txt", "a.jpg\tb.jpg#2\t1\tx\t1\n", "line 1: expert score is 'x', expected a number"),
        ("ExpertAnnotations.txt", "a.jpg\tb.jpg#2\t1\t1\t1\n" * 2, "line 2: .* are judged a second time"),
        (
            "CrowdFlowerAnnotations.txt",
            "a.jpg\tb.jpg#2\t0.9\t1\t2\n",
            "line 1: share 0.9 of yes does not match 1 yes and 2 no",
        ),
    ],
)
def test_contradictions_are_refused(folder, file, content, message):
    (folder / "text" / file).write_text(content)
    with pytest.raises(LimnerError, match=message):
        load_flickr8k(folder)


def test_an_image_of_a_split_without_captions_is_listed(folder):
    (folder / "text" / "Flickr_8k.devImages.txt").write_text("q.jpg\n")
    assert any(
        "devImages.txt, line 1: image of split 'dev' without captions; left out" in w
        for w in load_flickr8k(folder).warnings
    )


def test_flickr30k_tokens(tmp_path):
    put(tmp_path, results_20130124__token=tokens(("1.jpg", "2.jpg")), test__txt="2.jpg\n")
    loaded = load_tokens(tmp_path)
    assert (loaded.name, len(loaded.texts), loaded.splits) == ("flickr30k", 10, {"test": ("2.jpg",)})
    assert len(load_tokens(tmp_path / "results_20130124.token", split="test").texts) == 5


def test_the_real_flickr8k(shared_data):
    loaded = load_flickr8k(shared_data / "flickr8k")
    assert (len(loaded.images), len(loaded.texts), len(loaded.judgements)) == (8091, 40455, 40455)
    assert {name: len(ids) for name, ids in loaded.splits.items()} == {"train": 6000, "dev": 1000, "test": 1000}
    assert (len(loaded.ratings["expert"].grades), len(loaded.ratings["crowd"].grades)) == (5822, 47830)
    assert loaded.images.values.count(None) == 0
    assert all(lemma for lemma in loaded.texts.field("lemmas"))
    (warning,) = loaded.warnings
    assert "lines 6,731, 6,732, 6,733, 6,734, 6,735" in warning
    assert {t.split("#")[1] for t in expert_scores(shared_data / "flickr8k").captions} == {"2"}


def test_the_real_judgements_lie_within_the_one_caption_test_pool(shared_data):
    pool = load_flickr8k(shared_data / "flickr8k", split="test", captions=[2])
    assert (len(pool.images), len(pool.texts)) == (1000, 1000)
    assert (len(pool.ratings["expert"].grades), len(pool.ratings["crowd"].grades)) == (5822, 47830)
    raw = expert_scores(shared_data / "flickr8k").values
    assert len(pool.extra["expert"]) == int((raw.sum(axis=1) >= 10).sum()) == 382
    votes = crowd_votes(shared_data / "flickr8k").values
    assert len(pool.extra["crowd"]) == int(np.sum(3 * votes[:, 0] >= 2 * votes.sum(axis=1))) == 2696
