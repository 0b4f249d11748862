"""Croissant: written folders opened by mlcroissant itself, read again, and files of other layouts."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError
from limner.datasets import write
from limner.datasets.croissant import load_croissant
from limner.datasets.croissant_writing import write_croissant


@pytest.fixture(scope="module")
def mlcroissant():
    with pytest.MonkeyPatch.context() as path:
        path.setattr(sys, "path", [*sys.path, str(Path(sys.prefix) / "croissant")])  # where `make test` puts it
        logging.getLogger("absl").setLevel(logging.ERROR)
        yield pytest.importorskip("mlcroissant", reason="no mlcroissant: 'make test' installs locks/croissant.txt")


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=10)


@pytest.fixture(scope="module")
def written(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("croissant") / "out"
    about = {"license": "https://spdx.org/licenses/CC0-1.0", "version": "1.0.0", "url": "https://example.org"}
    assert write_croissant(world, folder, about=about) == ("fields of images and texts were left out",)
    return folder


# --- the other library ------------------------------------------------------------------------------------------


def test_mlcroissant_opens_and_iterates_a_written_folder(mlcroissant, world, written):
    opened = mlcroissant.Dataset(str(written / "croissant.json"))
    assert not opened.metadata.issues.errors
    assert opened.metadata.license == ["https://spdx.org/licenses/CC0-1.0"]
    rows = {name: list(opened.records(name)) for name in ("splits", "images", "captions", "judgements")}
    assert [row["splits/name"] for row in rows["splits"]] == list(world.splits)
    for row, row_images in enumerate(rows["images"]):
        assert row_images["images/id"].decode() == world.images.ids[row]
        assert np.array_equal(np.asarray(row_images["images/content"]), np.asarray(world.images.open(row)))
        assert row_images["images/id"].decode() in world.splits[row_images["images/split"].decode()]
    captions = {row["captions/id"].decode(): row["captions/text"].decode() for row in rows["captions"]}
    assert captions == dict(zip(world.texts.ids, world.texts.values, strict=True))
    for name, judged in world.all_judgements.items():
        row_images = {
            (row["judgements/image"].decode(), row["judgements/caption"].decode(), row["judgements/grade"])
            for row in rows["judgements"]
            if row["judgements/set"].decode() == name
        }
        assert row_images == set(judged)


def test_ids_and_captions_stay_as_they_are_in_mlcroissant(mlcroissant, tmp_path):
    texts = limner.Items(["001", "1e5", "NA"], ["nan", "", "2020-01-01"], kind="text")
    images = limner.Items(["007", "8"], [None, None])
    pairs = limner.Judgements.from_pairs([("007", "001", 0), ("8", "NA", 0.5)], candidates=texts.ids)
    collection = limner.Collection("odd", images, texts, pairs)
    assert write(collection, tmp_path / "out", form="croissant") == (
        "2 images have no file, so the folder has only their ids",
    )
    rows = list(mlcroissant.Dataset(str(tmp_path / "out" / "croissant.json")).records("captions"))
    assert [(r["captions/id"], r["captions/text"]) for r in rows] == [
        (b"001", b"nan"),
        (b"1e5", b""),
        (b"NA", b"2020-01-01"),
    ]
    reloaded = limner.load(tmp_path / "out")
    assert (reloaded.texts.values, reloaded.judgements, list(reloaded.images.ids)) == (
        texts.values,
        collection.judgements,
        ["007", "8"],
    )


def test_a_collection_without_judgements(tmp_path):
    none = limner.Judgements.from_pairs([], queries=["a"], candidates=["t"])
    texts = limner.Items(["t"], ["a dog"], kind="text")
    write_croissant(limner.Collection("bare", limner.Items(["a"], [None]), texts, none), tmp_path / "out")
    reloaded = limner.load(tmp_path / "out")
    assert (len(reloaded.judgements), reloaded.texts.values, list(reloaded.images.ids)) == (0, ("a dog",), ["a"])


# --- reading again ----------------------------------------------------------------------------------------------


def test_a_written_folder_comes_back(world, written):
    for path in (written, written / "croissant.json", f"croissant:{written}"):
        reloaded = limner.load(path)
        assert reloaded.judgements == world.judgements and reloaded.texts.values == world.texts.values
        assert dict(reloaded.splits) == dict(world.splits) and reloaded.warnings == ()
        assert {name: reloaded.extra[name] == judged for name, judged in world.extra.items()} == {"complete": True}
    assert np.array_equal(np.asarray(reloaded.images.open(3)), np.asarray(world.images.open(3)))
    assert list(limner.load(written, split="test").images.ids) == list(world.test.images.ids)


def test_a_changed_table_is_told(world, tmp_path):
    write_croissant(world, tmp_path / "out")
    captions = tmp_path / "out" / "captions.parquet"
    pq.write_table(pq.read_table(captions).slice(1), captions)
    with pytest.raises(LimnerError, match=r"text 'scene-.*' of a judgement is not in the table of texts"):
        limner.load(tmp_path / "out")
    pq.write_table(pa.table({"id": list(world.texts.ids), "text": ["x"] * len(world.texts)}), captions)
    assert "its SHA-256 is not the one in croissant.json" in limner.load(tmp_path / "out").warnings[0]


# --- other layouts ----------------------------------------------------------------------------------------------


def field(name, source, **extract):
    return {"@type": "cr:Field", "@id": f"pairs/{name}", "dataType": "sc:Text",
            "source": {"fileObject": {"@id": source}, "extract": extract}}  # fmt: skip


def described(fields, *distribution, **more):
    metadata = {"@type": "sc:Dataset", "name": "theirs", "distribution": list(distribution)}
    return {**metadata, "recordSet": [{"@type": "cr:RecordSet", "@id": "pairs", "field": fields, **more}]}


def saved(folder, content):
    (folder / "croissant.json").write_text(json.dumps(content))
    return folder


TABLE = {"@type": "cr:FileObject", "@id": "t", "contentUrl": "data/t.csv", "encodingFormat": "text/csv"}
PHOTOS = {"@type": "cr:FileSet", "@id": "photos", "includes": "photos/*.png", "encodingFormat": "image/png"}


@pytest.fixture
def theirs(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "data" / "t.csv").write_text("file,alt,part\na.png,A dog.,train\nb.png,../A cat.,test\n")
    for name in "ab":
        Image.new("RGB", (4, 4)).save(tmp_path / "photos" / f"{name}.png")
    return tmp_path


def fields_of(image="image", caption="caption"):
    named = field(image, "t", column="file")
    named["references"] = {"fileSet": {"@id": "photos"}, "extract": {"fileProperty": "filename"}}
    return [named, field(caption, "t", column="alt"), field("split", "t", column="part")]


def test_a_table_beside_a_set_of_images(theirs):
    loaded = limner.load(saved(theirs, described(fields_of(), TABLE, PHOTOS)))
    assert loaded.name == "theirs" and loaded.texts.values == ("A dog.", "../A cat.")
    assert [Path(value).name for value in loaded.images.values] == ["a.png", "b.png"]
    assert loaded.images.open(1).size == (4, 4) and dict(loaded.splits) == {"train": ("a.png",), "test": ("b.png",)}


def test_fields_get_their_roles_by_options(theirs):
    saved(theirs, described(fields_of("picture", "words"), TABLE, PHOTOS))
    with pytest.raises(
        LimnerError, match="no record set has images and captions .pairs: 'picture', 'words', 'split'.; name"
    ):
        limner.load(theirs)
    loaded = load_croissant(theirs, columns={"image": "picture", "caption": "words"})
    assert loaded.texts.values == ("A dog.", "../A cat.")
    roles = json.dumps({"image": "picture", "caption": "words"})
    done = CliRunner().invoke(app, ["data", "describe", str(theirs), "-O", f"columns={roles}", "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["texts"] == 2


def test_parquet_of_the_hub_with_bytes_and_a_split_by_pattern(theirs, tmp_path):
    content = (theirs / "photos" / "a.png").read_bytes()
    (tmp_path / "default" / "train").mkdir(parents=True)
    table = pa.table({"image": [{"bytes": content, "path": "x.png"}], "text": ["a dog"]})
    pq.write_table(table, tmp_path / "default" / "train" / "0.parquet")
    parts = {"@type": "cr:FileSet", "@id": "parts", "containedIn": {"@id": "repo"}, "includes": "default/*/*.parquet"}
    repo = {"@type": "cr:FileObject", "@id": "repo", "contentUrl": "https://example.org/x", "sha256": "see elsewhere"}

    def of(name, **extract):
        parts_field = field(name, "parts", **extract)
        parts_field["source"]["fileSet"] = parts_field["source"].pop("fileObject")
        return parts_field

    image = of("image", column="image")
    image["source"]["transform"] = {"jsonPath": "bytes"}
    split = of("split", fileProperty="fullpath")
    split["source"]["transform"] = {"regex": "default/(.+)/"}
    loaded = limner.load(saved(tmp_path, described([image, of("text", column="text"), split], repo, parts)))
    assert loaded.images.open(0).size == (4, 4) and loaded.texts.values == ("a dog",)
    assert "fields that are no columns of a table were left out: 'split'" in loaded.warnings[0]


def test_records_inside_the_file(tmp_path):
    rows = [{"pairs/image": "a", "pairs/caption": "x"}, {"pairs/image": "b", "pairs/caption": "y"}]
    bare = [{"@id": "pairs/image"}, {"@id": "pairs/caption"}]
    loaded = limner.load(saved(tmp_path, described(bare, data=rows)))
    assert (list(loaded.images.ids), loaded.texts.values) == (["a", "b"], ("x", "y"))


# --- bad files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recordSet": None}, "no record sets"),
        ({"recordSet": ["pairs"]}, "expected objects"),
        ({"distribution": []}, "source 't' is not in the distribution"),
        ({"distribution": [{**TABLE, "contentUrl": "/etc/passwd"}]}, "leads out of"),
        ({"distribution": [{**TABLE, "contentUrl": "../t.csv"}]}, "leads out of"),
        ({"distribution": [{"@id": "t", "includes": "../*.csv"}]}, "leads out of"),
        ({"distribution": [{**TABLE, "contentUrl": "https://example.org/other.csv"}]}, "download it there first"),
        ({"distribution": [{"@id": "t", "includes": "none/*.csv"}]}, "no file 'none/"),
    ],
)
def test_bad_files_are_refused(theirs, changed, message):
    plain = [field("image", "t", column="file"), field("caption", "t", column="alt")]
    saved(theirs, {**described(plain, TABLE), **changed})
    with pytest.raises(LimnerError, match=message):
        limner.load(theirs)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([field("image", "t", column="file"), field("caption", "u", column="alt")], "several tables"),
        ([field("image", "t", fileProperty="x"), field("caption", "t", jsonPath="$.a")], "no table"),
        ([field("image", "t", column="file"), field("caption", "t", column="gone")], "no column 'gone'"),
    ],
)
def test_fields_that_cannot_be_read_are_refused(theirs, fields, message):
    with pytest.raises(LimnerError, match=message):
        limner.load(saved(theirs, described(fields, TABLE)))


def test_transforms_and_unknown_names_are_refused(theirs):
    fields = [field("image", "t", column="file"), field("caption", "t", column="alt")]
    fields[1]["source"]["transform"] = {"regex": "(.*)"}
    with pytest.raises(LimnerError, match=r"'caption' has a transform \('regex'\)"):
        limner.load(saved(theirs, described(fields, TABLE)))
    with pytest.raises(LimnerError, match="unknown record set"):
        load_croissant(theirs, record_set="others")


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hosts", "photos/link.png"])
def test_no_image_outside_the_folder_is_read(theirs, tmp_path_factory, name):
    outside = tmp_path_factory.mktemp("outside") / "x.png"
    Image.new("RGB", (4, 4)).save(outside)
    (theirs / "photos" / "link.png").symlink_to(outside)
    (theirs / "data" / "t.csv").write_text(f"file,alt,part\n{name},A dog.,train\n")
    with pytest.raises(LimnerError, match="leads out of"):
        limner.load(saved(theirs, described(fields_of(), TABLE, PHOTOS)))


def test_the_command_writes_and_refuses(tmp_path):
    def run(*words):
        return CliRunner().invoke(app, ["data", "convert", "scenes", str(tmp_path / "out"), "-O", "images=5", *words])

    assert run("--to", "croissant", "--about", "license").exit_code == 2
    assert "unknown property" in run("--to", "croissant", "--about", "colour=red").output
    assert run("--about", "license=x").exit_code == 2
    done = run("--to", "croissant", "--about", "license=CC-BY-4.0")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out" / "croissant.json").read_text())["license"] == "CC-BY-4.0"
    assert "is not empty" in run("--to", "croissant").output
