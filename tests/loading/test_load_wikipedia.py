"""WIT and Kaggle's Wikipedia files."""

from __future__ import annotations

import base64
import gzip

import pytest
from pictures import png, put

from limner.core.errors import LimnerError, UnknownName
from limner.datasets.wikipedia import clean_file_name, load_wit

COLUMNS = [
    "language",
    "page_url",
    "image_url",
    "page_title",
    "section_title",
    "caption_reference_description",
    "caption_attribution_description",
    "caption_alt_text_description",
    "mime_type",
    "original_height",
    "original_width",
    "context_page_description",
]


def shard(*rows: dict[str, str]) -> str:
    lines = ["\t".join(row.get(name, "") for name in COLUMNS) for row in rows]
    return "\n".join(["\t".join(COLUMNS), *lines]) + "\n"


def row(image: str, reference: str = "", language: str = "en", **more: str) -> dict[str, str]:
    return {"image_url": f"https://x/{image}", "caption_reference_description": reference, "language": language, **more}


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        (
            "https://x/commons/8/8e/Plaque_Bombardements_1918%2C_81_boulevard.jpg",
            "Plaque Bombardements 1918, 81 boulevard",
        ),
        ("http://x/M94_group.gif", "M94 group"),
        ("%D0%A3%D0%BA%D1%80.svg.png", "Укр.svg"),
        ("St._Mary", "St. Mary"),
        ("a%2Fb.jpg?width=300#top", "a/b"),
        ("folder/", "folder"),
        ("", ""),
    ],
)
def test_clean_file_name(name, clean):
    assert clean_file_name(name) == clean


def test_shards_of_several_splits_gzipped_or_not(tmp_path):
    put(
        tmp_path, **{"wit_v1__train__all-00000-of-00002__tsv__gz": gzip.compress(shard(row("a_b.jpg", "one")).encode())}
    )
    put(
        tmp_path,
        **{"wit_v1__train__all-00001-of-00002__tsv": shard(row("a_b.jpg", "zwei", "de"), row("c.jpg", "drei", "de"))},
    )
    put(tmp_path, **{"wit_v1__val__all-00000-of-00001__tsv": shard(row("d.jpg", "four", original_width="30"))})
    loaded = load_wit(tmp_path)
    assert loaded.splits == {"train": ("https://x/a_b.jpg", "https://x/c.jpg"), "dev": ("https://x/d.jpg",)}
    assert list(loaded.texts.ids)[:2] == ["https://x/a_b.jpg#0", "https://x/a_b.jpg#1"]
    assert loaded.texts.field("language") == ("en", "de", "de", "en")
    assert loaded.images.field("file_name") == ("a b", "c", "d")
    assert loaded.images.field("width")[2] == 30
    assert len(load_wit(tmp_path, languages=["de"]).texts) == 2
    assert load_wit(tmp_path, split="val").texts.values == ("four",)
    with pytest.raises(LimnerError, match="no tsv of split 'test' in .*; it has 'dev', 'train'"):
        load_wit(tmp_path, split="test")


def test_several_kinds_of_captions_and_a_row_without_any(tmp_path):
    rows = (
        row("a.jpg", "seen", caption_alt_text_description="alt"),
        row("b.jpg", caption_alt_text_description="only alt"),
    )
    put(tmp_path, train__tsv=shard(*rows))
    loaded = load_wit(tmp_path)
    assert (loaded.texts.values, list(loaded.images.ids)) == (("seen",), ["https://x/a.jpg"])
    assert loaded.warnings == (f"{tmp_path / 'train.tsv'}, line 3: no reference caption; row left out",)
    both_kinds = load_wit(tmp_path, captions=["reference", "alt_text"])
    assert (both_kinds.texts.values, both_kinds.texts.field("kind")) == (
        ("seen", "alt", "only alt"),
        ("reference", "alt_text", "alt_text"),
    )
    with pytest.raises(UnknownName, match="did you mean 'reference'"):
        load_wit(tmp_path, captions=["referenc"])


def test_quoted_cells_hold_line_breaks_and_lines_count_on(tmp_path):
    put(
        tmp_path,
        train__tsv=shard(
            row("a.jpg", "one", context_page_description='"two\nlines, ""quoted"""'),
            row("", "lost", image_url=""),
            row("b.jpg", "two"),
        ),
    )
    loaded = load_wit(tmp_path)
    assert loaded.texts.values == ("one", "two")
    assert loaded.warnings == (f"{tmp_path / 'train.tsv'}, line 4: no image_url; row left out",)


def test_an_unclosed_quote_that_swallows_rows_is_listed(tmp_path):
    put(
        tmp_path,
        train__tsv=shard(
            row("a.jpg", "one", context_page_description='"open'), row("b.jpg", "two"), row("c.jpg", "three")
        ),
    )
    assert (
        "line 2: a cell holds a column separator: an unclosed quote may have merged rows"
        in load_wit(tmp_path).warnings[0]
    )


def test_an_image_in_two_splits_stays_in_the_first(tmp_path):
    put(tmp_path, train__tsv=shard(row("a.jpg", "one")), val__tsv=shard(row("a.jpg", "two")))
    loaded = load_wit(tmp_path)
    assert loaded.splits == {"train": ("https://x/a.jpg",)}
    assert "val.tsv, line 2: image of split 'dev' is already in 'train'; kept there" in loaded.warnings[0]


@pytest.fixture
def kaggle(tmp_path):
    column = "caption_title_and_reference_description"
    put(
        tmp_path / "train",
        **{"train-00000-of-00005__tsv": f"language\timage_url\t{column}\nen\thttps://x/a.jpg\tTitle [SEP] \n"},
    )
    put(
        tmp_path / "test",
        test__tsv="id\timage_url\n12\thttps://x/b.jpg\n",
        test_caption_list__csv=f'{column}\n"B, or C"\nD\n',
    )
    pixels = f"https://x/b.jpg\t{base64.b64encode(png()).decode()}\thttps://m\nhttps://x/z.jpg\tAAAA\thttps://m\n"
    put(tmp_path / "test" / "image_data_test" / "image_pixels", test_image_pixels__csv=pixels)
    return tmp_path


def test_kaggle(kaggle):
    train, test = load_wit(kaggle, split="train"), load_wit(kaggle, split="test")
    assert (train.texts.values, train.texts.field("kind")) == (("Title [SEP] ",), ("title_and_reference",))
    assert (list(test.images.ids), test.images.field("file_name"), test.texts.values) == (
        ["12"],
        ("b",),
        ("B, or C", "D"),
    )
    assert len(test.judgements) == 0


def test_kaggle_pixels(kaggle):
    loaded = load_wit(kaggle, pixels=True)
    assert loaded.images.open("12").size == (4, 3)
    assert "no pixels for 1 of 2 images ('https://x/a.jpg'); kept without pixels" in loaded.warnings[0]
    checked = load_wit(kaggle, pixels=True, check_images=True)
    assert list(checked.images.ids) == ["12"]
    (kaggle / "test" / "image_data_test" / "image_pixels" / "test_image_pixels.csv").write_text(
        "https://x/b.jpg\t%%\t\n"
    )
    with pytest.raises(LimnerError, match="test_image_pixels.csv, line 1: the image is not base64"):
        load_wit(kaggle, pixels=True)


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "no tsv or tsv.gz in"),
        ({"train__tsv": ""}, {}, "train.tsv: the file is empty"),
        (
            {"train__tsv": "language\turl\nen\tx\n"},
            {},
            "line 1: no column 'image_url'; the header has 'language', 'url'",
        ),
        ({"train__tsv": shard(row("a", "b"))}, {"pixels": True}, "pixels=True, but no image_pixels"),
    ],
)
def test_bad_folders(tmp_path, files, options, message):
    with pytest.raises(LimnerError, match=message):
        load_wit(put(tmp_path, **files), **options)


def test_real_rows(shared_data):
    wit = load_wit(shared_data / "wit-format" / "wit", captions=["reference", "attribution", "alt_text"])
    assert {name: len(ids) for name, ids in wit.splits.items()} == {"test": 1, "train": 3, "dev": 1}
    assert sorted(set(wit.texts.field("language"))) == ["de", "es", "it", "nl", "ru"]
    assert "Kleines Hasenmaul" in wit.texts.field("page_title")
    assert any("16 columns, the header has 17" in w for w in wit.warnings)
    kaggle = load_wit(shared_data / "wit-format" / "wit_kaggle", pixels=True)
    assert kaggle.texts.values == ("Republic P-43 Lancer [SEP] ", "Deer Park, Wisconsin [SEP] Downtown Deer Park")
    assert "78150" in kaggle.images.ids
    assert kaggle.train.images.open(0).size == (300, 225)
