"""Plain tables and folders of images."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import png, put

from limner.core.errors import LimnerError, UnknownName
from limner.datasets import load
from limner.datasets.caption_tables import load_folder, load_table
from limner.datasets.wikipedia import image_names

ROWS = [
    {"image": "a.jpg", "caption": 'A "dog",\trunning.', "id": "t1", "split": "train", "language": "en"},
    {"image": "a.jpg", "caption": "Ein Hund\nläuft.", "id": "t2", "split": "train", "language": "de"},
    {"image": "b.jpg", "caption": "A cat.", "id": "t3", "split": "val", "language": "en"},
]


def separated(delimiter: str) -> str:
    quote = lambda cell: '"' + cell.replace('"', '""') + '"'  # noqa: E731
    return (
        "\n".join(delimiter.join(map(quote, cells)) for cells in [list(ROWS[0]), *(row.values() for row in ROWS)])
        + "\n"
    )


def make(folder, form: str):
    put(folder)
    file = folder / f"mine.{form}"
    content = {
        "csv": separated(","),
        "tsv": separated("\t"),
        "txt": separated(","),
        "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
        "csv.gz": separated(","),
    }
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    else:
        raw = content[form].encode()
        file.write_bytes(gzip.compress(raw) if form.endswith("gz") else raw)
    return file


@pytest.mark.parametrize("form", ["csv", "tsv", "txt", "jsonl", "parquet", "csv.gz"])
def test_every_form_gives_the_same(tmp_path, form):
    loaded = load_table(make(tmp_path, form))
    assert loaded.name == "mine"
    assert loaded.texts.values == tuple(row["caption"] for row in ROWS)
    assert (list(loaded.images.ids), list(loaded.texts.ids)) == (["a.jpg", "b.jpg"], ["t1", "t2", "t3"])
    assert loaded.texts.field("language") == ("en", "de", "en")
    assert loaded.splits == {"train": ("a.jpg",), "dev": ("b.jpg",)}
    assert {(i, t, g) for i, t, g in loaded.judgements} == {("a.jpg", "t1", 1), ("a.jpg", "t2", 1), ("b.jpg", "t3", 1)}
    assert list(load_table(make(tmp_path, form), split="dev").texts.ids) == ["t3"]


def csv_file(folder, text: str):
    return put(folder, t__csv=text) / "t.csv"


def test_ids_are_made_where_none_are_given(tmp_path):
    loaded = load_table(csv_file(tmp_path, "image,caption\na,x\nb,y\na,z\n"))
    assert list(loaded.texts.ids) == ["a#0", "b#0", "a#1"]


def test_other_names_for_columns(tmp_path):
    assert load_table(csv_file(tmp_path, "file_name,text\na,x\n")).texts.values == ("x",)
    assert load_table(
        csv_file(tmp_path, "photo,alt,caption\na,x,no\n"), columns={"image": "photo", "caption": "alt"}
    ).texts.values == ("x",)
    with pytest.raises(UnknownName, match="unknown column role 'picture'"):
        load_table(csv_file(tmp_path, "a,b\n1,2\n"), columns={"picture": "a"})
    with pytest.raises(LimnerError, match="no column 'c' for 'image'; there are 'a', 'b'"):
        load_table(csv_file(tmp_path, "a,b\n1,2\n"), columns={"image": "c"})


def test_further_columns_are_fields(tmp_path):
    loaded = load_table(csv_file(tmp_path, "image,caption,annotator,image_place\na,x,7,Rome\nb,y,8,Bern\n"))
    assert (loaded.texts.field("annotator"), loaded.images.field("place")) == (("7", "8"), ("Rome", "Bern"))


def test_a_further_name_of_the_file_is_a_field_of_the_image(tmp_path):
    """Systems that read the names of files find it there."""
    loaded = load_table(csv_file(tmp_path, "image,file_name,caption\n1.jpg,red dog,x\n2.jpg,blue cat,y\n"))
    assert loaded.images.field("file_name") == ("red dog", "blue cat") and "file_name" not in loaded.texts.fields
    assert image_names(loaded.images) == ["red dog", "blue cat"]


def test_grades_judge_one_caption_with_several_images(tmp_path):
    loaded = load_table(csv_file(tmp_path, "image,caption,id,grade\na,x,t1,1\nb,x,t1,0.5\nb,y,t2,\na,y,t2,0\n"))
    assert [tuple(j) for j in loaded.judgements] == [
        ("a", "t1", 1.0),
        ("a", "t2", 0.0),
        ("b", "t1", 0.5),
        ("b", "t2", 1.0),
    ]


def test_grades_without_ids_go_by_the_words(tmp_path):
    loaded = load_table(csv_file(tmp_path, "image,caption,grade\na,x,1\nb,x,2\nb,y,1\n"))
    assert (list(loaded.texts.ids), loaded.judgements.grade("b", "a#0")) == (["a#0", "b#0"], 2)


def test_a_list_of_captions(tmp_path):
    file = (
        put(tmp_path, t__jsonl='{"image": "a", "captions": ["x", "y"]}\n\n{"image": "b", "captions": ["z"]}\n')
        / "t.jsonl"
    )
    assert load_table(file).judgements.counts.tolist() == [2, 1]


def test_pictures_inside_parquet(tmp_path):
    rows = [
        {"image": {"bytes": png(), "path": "a.png"}, "text": "x"},
        {"image": {"bytes": png(), "path": None}, "text": "y"},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    loaded = load_table(tmp_path / "t.parquet", check_images=True)
    assert list(loaded.images.ids) == ["a.png", "row-2"]
    assert loaded.images.open("row-2").size == (4, 3)


def test_pictures_beside_the_table_or_in_a_given_folder(tmp_path):
    file = csv_file(tmp_path, "image,caption\na.png,x\nb.png,y\n")
    assert load_table(file).images.values == (None, None)
    put(tmp_path / "images", a__png=png())
    loaded = load_table(file)
    assert loaded.images.values == (tmp_path / "images" / "a.png", None)
    assert loaded.warnings == (f"{file}, line 3: the image is not in {tmp_path / 'images'}; kept without pixels",)
    image_folder = put(tmp_path / "else", b__png=png())
    assert load_table(file, images=image_folder).images.values[1] == image_folder / "b.png"
    with pytest.raises(LimnerError, match="none of the 2 images is in .*: expected e.g. .*a.png"):
        load_table(file, images=put(tmp_path / "void"))


def test_image_ids_apart_from_files(tmp_path):
    put(tmp_path, a__png=png())
    loaded = load_table(csv_file(tmp_path, "image,image_id,caption\na.png,17,x\n"))
    assert (list(loaded.images.ids), loaded.images.open("17").size) == (["17"], (4, 3))


def test_images_that_do_not_open_are_left_out_with_their_captions(tmp_path):
    put(tmp_path, a__png=png(), b__png=b"no picture", d__png=png()[:-30])
    rows = "image,caption,split\na.png,x,train\nb.png,y,train\nc.png,z,train\nd.png,w,test\n"
    file = csv_file(tmp_path, rows)
    calls = []
    loaded = load_table(file, check_images=lambda rows: calls.append(len(rows)) or rows)
    assert calls == [4]
    assert (list(loaded.images.ids), loaded.texts.values, loaded.splits) == (
        ["a.png"],
        ("x",),
        {"train": ("a.png",)},
    )
    warnings = "\n".join(loaded.warnings)
    assert "t.csv, line 3: image 'b.png'" in warnings
    assert "does not open" in warnings
    assert "t.csv, line 4: image 'c.png' has only an id, no pixels" in warnings
    assert "t.csv, line 5: image 'd.png'" in warnings
    assert "left out with its captions" in warnings
    assert list(load_table(file, split="test").images.ids) == ["d.png"]
    with pytest.raises(LimnerError, match="line 4: the image is not in .*strict=True makes this an error"):
        load_table(file, check_images=True, strict=True)
    with pytest.raises(LimnerError, match="has only ids, no images; give their folder"):
        load_table(csv_file(put(tmp_path / "void"), rows), check_images=True)


def test_a_folder_of_images(tmp_path):
    put(tmp_path / "mine", a__jpg=png(), b__jpg=png(), captions__csv="image,caption\na.jpg,x\n")
    loaded = load_folder(tmp_path / "mine")
    assert (loaded.name, list(loaded.images.ids)) == ("mine", ["a.jpg"])
    assert "images without a caption: 1 ('b.jpg')" in loaded.warnings[0]


def test_a_folder_whose_table_names_images_with_their_path(tmp_path):
    put(tmp_path / "images", a__jpg=png(), b__jpg=png())
    put(tmp_path, captions__csv="image,caption\nimages/a.jpg,x\n")
    loaded = load_folder(tmp_path)
    assert (list(loaded.images.ids), loaded.images.open(0).size) == (["images/a.jpg"], (4, 3))
    assert "images without a caption: 1 ('b.jpg')" in loaded.warnings[0]


def test_a_folder_with_the_table_beside_it(tmp_path):
    put(tmp_path / "photos", a__jpg=png())
    put(tmp_path, metadata__jsonl='{"file_name": "a.jpg", "text": "x"}\n')
    assert load_folder(tmp_path / "photos").images.open(0).size == (4, 3)
    assert load_folder(tmp_path / "photos", captions=tmp_path / "metadata.jsonl").texts.values == ("x",)
    with pytest.raises(LimnerError, match="no table of captions in .* or next to it"):
        load_folder(put(tmp_path / "deep" / "er"))


def test_another_encoding_only_when_asked_for(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes("image,caption\na,Hündchen\n".encode("latin-1"))
    with pytest.raises(LimnerError, match="line 2: byte 0xfc after 'a,H' is not UTF-8; save the file as UTF-8"):
        load_table(file)
    assert load_table(file, encoding="latin-1").texts.values == ("Hündchen",)


def test_quotes_as_plain_text(tmp_path):
    file = put(tmp_path, t__tsv='image\tcaption\na\t"Stop" sign\n') / "t.tsv"
    with pytest.raises(LimnerError, match="line 2: broken quoting .* pass quoted=False"):
        load_table(file)
    assert load_table(file, quoted=False).texts.values == ('"Stop" sign',)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    assert load_table(csv_file(tmp_path, "\ufeffimage,caption\na,x\n")).texts.values == ("x",)


@pytest.mark.parametrize("name", ["path", "img", "file"])
def test_images_may_be_called_path_img_or_file(tmp_path, name):
    loaded = load_table(put(tmp_path, pairs__csv=f"{name};text\na.jpg;one, two\n") / "pairs.csv")
    assert (loaded.images.ids[0], loaded.texts.values) == ("a.jpg", ("one, two",))


def test_a_csv_may_be_separated_by_tabs(tmp_path):
    assert load_table(put(tmp_path, x__csv="image\tcaption\na.jpg\tone\n") / "x.csv").texts.values == ("one",)


def test_columns_by_name_on_a_command_line(tmp_path):
    file = put(tmp_path, x__csv="photo,alt\na.jpg,one\n") / "x.csv"
    assert load(file, columns="image=photo, caption=alt").texts.values == ("one",)
    with pytest.raises(LimnerError, match="expected ROLE=NAME"):
        load(file, columns="photo")
    with pytest.raises(UnknownName, match="column role 'picture'"):
        load(file, columns="picture=photo")


def test_a_list_of_json_objects_as_of_blip(tmp_path):
    rows = [{"image": "a.jpg", "caption": ["one", "two"]}, {"image": "b.jpg", "caption": "three", "image_id": "b"}]
    loaded = load(put(tmp_path, test__json=json.dumps(rows)) / "test.json")
    assert (list(loaded.images.ids), loaded.texts.values) == (["a.jpg", "b"], ("one", "two", "three"))
    for content, message in (("{}", "a JSON dict, expected a list of objects"), ("[1]", "line 1: a JSON int")):
        with pytest.raises(LimnerError, match=message):
            load(put(tmp_path, odd__json=content) / "odd.json")
