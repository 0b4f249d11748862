"""The index of a folder of photographs: made in the cache, brought up to date, never stopped by a bad file."""

from __future__ import annotations

import os

import pytest
from photo_toys import COLOURS, MeanColour, bad_files, photograph
from PIL import Image

from limner.core.errors import LimnerError
from limner.search.photo_fields import PhotoMetadata, with_photo_fields
from limner.search.photo_index import FILES, PhotoIndex

pytest.importorskip("lancedb")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "cache"))
    for name in COLOURS:
        photograph(tmp_path / "photos" / "2019" / f"{name}.jpg", name)
    return tmp_path / "photos"


def refreshed(folder, model=None):
    """The index after a refresh, and what was encoded for it."""
    model = model or MeanColour()
    return PhotoIndex.of(folder, "mean:Colour").refresh(model), sorted(model.encoded)


def best(index, text):
    hits = index.search([text], 1)
    return hits[hits.queries.ids[0]][0]


def test_the_first_run_makes_the_index_in_the_cache(folder, tmp_path):
    before = sorted(str(path) for path in folder.rglob("*"))
    index, encoded = refreshed(folder)
    assert len(index) == len(encoded) == 3 and best(index, "red").id == "2019/red.jpg"
    assert best(index, "blue").value == str(folder / "2019" / "blue.jpg")
    assert sorted(str(path) for path in folder.rglob("*")) == before
    assert (PhotoIndex.of(folder, "mean:Colour").path / FILES).is_relative_to(tmp_path / "cache")


def test_only_new_and_changed_files_are_encoded_again(folder):
    refreshed(folder)
    target = PhotoIndex.of(folder, "mean:Colour")
    assert str(target.changes()) == "" and refreshed(folder)[1] == []
    photograph(folder / "2019" / "red.jpg", "blue", size=(50, 30))
    photograph(folder / "new.jpg", "red")
    (folder / "2019" / "green.jpg").unlink()
    target = PhotoIndex.of(folder, "mean:Colour")
    assert str(target.changes()) == "1 new, 1 changed, 1 deleted"
    index, encoded = refreshed(folder)
    assert encoded == ["2019/red.jpg", "new.jpg"] and set(index.ids) == {"2019/red.jpg", "2019/blue.jpg", "new.jpg"}
    assert best(index, "red").id == "new.jpg"


def test_another_model_or_folder_has_an_index_of_its_own(folder, tmp_path):
    paths = {PhotoIndex.of(folder, name).path for name in ("a", "b")} | {PhotoIndex.of(tmp_path, "a").path}
    assert len(paths) == 3


def test_bad_files_are_left_out_and_listed_and_stop_no_run(folder):
    bad = bad_files(folder)
    index, encoded = refreshed(folder)
    assert len(index) == len(encoded) == 3
    target = PhotoIndex.of(folder, "mean:Colour")
    left_out = target.left_out()
    assert set(left_out) == bad and all(left_out.values()) and left_out["empty.jpg"] == "it is empty"
    assert str(target.changes()) == "" and refreshed(folder)[1] == []
    photograph(folder / "empty.jpg", "red")
    assert refreshed(folder)[1] == ["empty.jpg"]
    (folder / "empty.jpg").write_bytes(b"\xff\xd8\xff and nothing else")
    assert set(refreshed(folder)[0].ids) == {f"2019/{name}.jpg" for name in COLOURS}


def test_tiff_and_avif_are_read_and_heic_is_read_or_counted(folder):
    from PIL import features

    photograph(folder / "scan.tif", "red", form="TIFF")
    names = {"scan.tif"}
    if features.check("avif"):
        photograph(folder / "phone.avif", "red", form="AVIF")
        names.add("phone.avif")
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(40))
    index, _ = refreshed(folder)
    assert names < set(index.ids) and set(PhotoIndex.of(folder, "mean:Colour").left_out()) == {"phone.heic"}
    assert {hit.id for hit in index.search(["red"], len(names) + 1)["0"]} == {*names, "2019/red.jpg"}


@pytest.mark.skipif(os.name != "posix", reason="names are bytes there")
def test_a_name_that_is_not_utf_8_is_left_out_and_listed(folder):
    try:
        os.rename(folder / "2019" / "red.jpg", os.fsencode(folder / "2019") + b"/\xff.jpg")
    except OSError:
        pytest.skip("the file system wants UTF-8")
    index, _ = refreshed(folder)
    assert len(index) == 2 and "UTF-8" in PhotoIndex.of(folder, "mean:Colour").left_out()["2019/\\xff.jpg"]


def test_an_interrupted_run_continues(folder, monkeypatch):
    class Interrupted(MeanColour):
        def encode(self, items):
            if "2019/green.jpg" in items.ids:
                raise KeyboardInterrupt
            return super().encode(items)

    monkeypatch.setattr("limner.search.photo_index.AT_ONCE", 1)
    with pytest.raises(KeyboardInterrupt):
        refreshed(folder, Interrupted())
    index, encoded = refreshed(folder)
    assert encoded == ["2019/green.jpg", "2019/red.jpg"] and len(index) == 3


def test_a_lost_or_damaged_list_of_files_is_made_again(folder):
    refreshed(folder)
    target = PhotoIndex.of(folder, "mean:Colour")
    for content in ("{", '{"format": 1, "files": {"a": 3}}', "[]"):
        (target.path / FILES).write_text(content)
        assert len(refreshed(folder)[0]) == 3
    (target.path / FILES).unlink()
    assert len(refreshed(folder)[0]) == 3


def test_a_folder_where_nothing_opens_is_refused(tmp_path, folder):
    for name in COLOURS:
        (folder / "2019" / f"{name}.jpg").write_bytes(b"")
    with pytest.raises(LimnerError, match="none of 3 images in .* opens: 2019/blue.jpg: it is empty"):
        refreshed(folder)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(LimnerError, match="no images in .*nothing: expected files that end in .jpg"):
        refreshed(tmp_path / "nothing")


def test_an_unchanged_folder_is_searched_without_the_database(folder, monkeypatch):
    from limner.search import search_words
    from limner.search.photo_index import HEAD, VECTORS, SnapshotStore

    made, _ = refreshed(folder)
    target = PhotoIndex.of(folder, "mean:Colour")
    copied = target.open(model=MeanColour())
    assert isinstance(copied.store, SnapshotStore) and len(copied) == 3 and copied.about == made.about
    expected, hits = (each.search(["red", "blue"], 3) for each in (made, copied))
    assert hits.as_dict() == expected.as_dict() and "table" not in vars(copied.store)
    assert [hit.id for hit in search_words(copied, "red width>50", 3, by="vectors")["0"]] == []
    assert "table" in vars(copied.store)
    for name, content in ((HEAD, "{"), (HEAD, "{}"), (VECTORS, "")):
        sound = (target.path / name).read_bytes()
        (target.path / name).write_text(content)
        assert not isinstance(target.open().store, SnapshotStore) and len(target.open()) == 3
        (target.path / name).write_bytes(sound)
    earlier = target.open(model=MeanColour())
    (folder / "2019" / "red.jpg").unlink()
    refreshed(folder)
    with pytest.raises(LimnerError, match="has changed during this search"):
        search_words(earlier, "red width>50", 3, by="vectors")


# --- fields -------------------------------------------------------------------------------------------------------


def exif(**tags):
    """EXIF with a date, a camera, an orientation and a place."""
    data = Image.Exif()
    data[271], data[272] = "Canon", "Canon EOS 5D"
    data.get_ifd(0x8769)[36867] = "2020:05:17 10:22:11"
    data.get_ifd(0x8825).update({1: "N", 2: (48.0, 51.0, 30.0), 3: "W", 4: (2.0, 30.0, 0.0)})
    for number, value in tags.items():
        data[int(number[1:])] = value
    return data


def test_the_fields_of_a_photograph(folder):
    photograph(folder / "2020" / "paris.jpg", "red", exif=exif(), size=(60, 40))
    index, _ = refreshed(folder)
    from limner.search import search_words
    from limner.search.item_texts import ItemTexts

    fields = dict(zip(index.ids, ItemTexts.of_index(index).fields, strict=True))
    assert fields["2020/paris.jpg"] == {
        "date": "2020-05-17T10:22:11", "year": 2020, "camera": "Canon EOS 5D", "latitude": 48.858333, "longitude": -2.5,
        "width": 60, "height": 40, "folder": "2020",
    }  # fmt: skip
    assert fields["2019/red.jpg"] == {"width": 40, "height": 30, "folder": "2019"}

    def ids(query):
        hits = search_words(index, query, 9, by="vectors")
        return [hit.id for hit in hits[hits.queries.ids[0]]]

    assert ids("red date:2020-05..") == ids("red year:2019..2021 latitude:48..49") == ["2020/paris.jpg"]
    assert ids("red date:2021..") == [] and ids('red camera:"canon eos 5d" width>50') == ["2020/paris.jpg"]


@pytest.mark.parametrize(
    ("tags", "size", "date"),
    [
        ({"_274": 6}, (30, 40), "2020-05-17T10:22:11"),
        ({"_306": "0000:00:00 00:00:00"}, (40, 30), "2020-05-17T10:22:11"),
    ],
)
def test_width_and_height_are_those_of_the_upright_image(tmp_path, tags, size, date):
    photograph(tmp_path / "a.jpg", "red", exif=exif(**tags))
    metadata = PhotoMetadata.read(tmp_path / "a.jpg")
    assert (metadata.size, metadata.date) == (size, date)


def test_damaged_metadata_are_no_metadata(tmp_path):
    photograph(tmp_path / "a.jpg", "red", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + bytes(40))
    assert PhotoMetadata.read(tmp_path / "a.jpg").fields() == {"width": 40, "height": 30}
    (tmp_path / "b.jpg").write_bytes(b"no image")
    assert PhotoMetadata.read(tmp_path / "b.jpg") is None


def test_items_that_are_no_files_keep_their_fields():
    from limner import Items

    items = Items(["a", "b"], [None, "https://example.org/b.jpg"], {"year": [1, 2]})
    assert with_photo_fields(items).fields == items.fields
    texts = Items(["a"], ["a dog"], kind="text")
    assert with_photo_fields(texts) is texts
