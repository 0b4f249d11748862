"""Folders of images without captions: what is in the collection, and which files are left out and why."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib

import pytest
from pictures import png, put
from PIL import Image, features
from typer.testing import CliRunner

from limner.cli import app
from limner.core.errors import LimnerError
from limner.core.image_faults import image_fault
from limner.core.images import readable_formats
from limner.datasets import detect, load
from limner.datasets.image_folder import photos


def encoded(form: str, *, side: int = 40) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((side, side), 50).convert("RGB").save(buffer, form)
    return buffer.getvalue()


def wide() -> bytes:
    """The head of a PNG of 16,000 by 10,000 pixels."""
    head = bytearray(png())
    head[16:24] = struct.pack(">II", 16_000, 10_000)
    head[29:33] = struct.pack(">I", zlib.crc32(head[12:29]))
    return bytes(head)


def test_a_folder_of_images_is_a_collection_without_texts(tmp_path):
    put(tmp_path, b__png=png(), notes__txt="words")
    put(tmp_path / "2019", a__JPG=encoded("JPEG"))
    put(tmp_path / ".thumbnails", b__png=png())
    assert detect(tmp_path).name == "images"
    loaded = load(tmp_path)
    assert loaded.images.ids.array.tolist() == ["b.png", "2019/a.JPG"]
    assert (len(loaded.texts), len(loaded.judgements), loaded.warnings) == (0, 0, ())
    assert loaded.images.open("2019/a.JPG").size == (40, 40)


BAD = {
    "empty.jpg": (b"", "it is empty"),
    "words.png": (b"these are words", "it is of another kind"),
    "._dog.jpg": (b"\0\5\26\7", "macOS"),
    "cut.jpg": (encoded("JPEG")[:-300], "truncated"),
    "cut.png": (encoded("PNG")[:-300], ""),
    "cut.webp": (encoded("WEBP")[:-200], ""),
    "cut.tif": (encoded("TIFF")[:-300], ""),
    "wide.png": (wide(), "the limit is 128,000,000"),
    "raw.NEF": (b"II*\0", "does not read .nef"),
    "drawing.svg": (b"<svg/>", "does not read .svg"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_left_out_and_listed(tmp_path, name):
    content, reason = BAD[name]
    (tmp_path / name).write_bytes(content)
    put(tmp_path, good__png=png())
    loaded = load(tmp_path)
    assert list(loaded.images.ids) == ["good.png"]
    (warning,) = loaded.warnings
    assert "1 file left out" in warning and repr(name) in warning and reason in warning


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not have such names")
def test_a_name_that_is_not_utf_8_is_left_out_and_printable(tmp_path):
    put(tmp_path, good__png=png())
    with open(os.fsencode(tmp_path) + b"/caf\xe9.png", "wb") as file:
        file.write(png())
    (warning,) = load(tmp_path).warnings
    assert "its name is not UTF-8" in warning and "caf\\\\xe9.png" in warning
    warning.encode()


def test_many_bad_files_are_one_sentence(tmp_path):
    put(tmp_path, good__png=png(), **{f"empty{number:02}__png": b"" for number in range(30)})
    (warning,) = load(tmp_path).warnings
    assert "30 files left out: it is empty" in warning and "and 10 more" in warning


def test_nothing_but_bad_files_is_refused(tmp_path):
    put(tmp_path, a__jpg=b"")
    with pytest.raises(LimnerError, match=r"no images in .*1 file left out: it is empty \('a.jpg'\)"):
        load(tmp_path)
    with pytest.raises(LimnerError, match="1 file left out"):
        load(put(tmp_path, b__png=png()), strict=True)


def test_damage_inside_of_a_file_takes_decoding(tmp_path):
    content = bytearray(encoded("PNG"))
    start = content.index(b"IDAT") + 4
    content[start : start + 40] = bytes(40)
    put(tmp_path, good__png=png(), odd__png=bytes(content))
    assert len(load(tmp_path).images) == 2
    assert list(load(tmp_path, check_images=True).images.ids) == ["good.png"]


def test_listing_opens_no_file(tmp_path, monkeypatch):
    put(tmp_path, a__jpg=b"", b__png=png())
    monkeypatch.setattr(Image, "open", None)
    assert photos(tmp_path).names == ("a.jpg", "b.png")


@pytest.mark.parametrize("form", ["TIFF", "WEBP", "GIF", "BMP"])
def test_every_format_opens(tmp_path, form):
    put(tmp_path, **{f"a__{form.lower()}": encoded(form)})
    assert load(tmp_path).images.open(0).size == (40, 40)


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow reads no AVIF")
def test_avif_is_read_and_a_short_one_is_noticed(tmp_path):
    put(tmp_path, a__avif=encoded("AVIF"), b__avif=encoded("AVIF")[:-20])
    loaded = load(tmp_path)
    assert list(loaded.images.ids) == ["a.avif"] and loaded.images.open(0).size == (40, 40)


def test_heic_is_read_or_says_what_it_needs(tmp_path):
    if "HEIF" not in readable_formats():
        put(tmp_path, a__heic=b"\0\0\0\x18ftypheic")
        assert "pip install 'limner[heic]'" in image_fault(tmp_path / "a.heic")
        return
    Image.new("RGB", (40, 30)).save(tmp_path / "a.heic", "HEIF")
    assert load(tmp_path).images.open(0).size == (40, 30)


def test_evaluating_images_alone_is_refused_before_anything_is_encoded(tmp_path):
    put(tmp_path / "photos", a__png=png())
    refused = CliRunner().invoke(app, ["evaluate", str(tmp_path / "photos"), "--model", "efficientnet-lite"])
    assert refused.exit_code == 3
    assert "'photos' has 1 images and no texts, so there is nothing to measure" in " ".join(refused.output.split())


def test_captions_of_other_images_next_to_the_folder_are_left_alone(tmp_path):
    put(tmp_path, captions__csv="image,caption\nother.jpg,words\n")
    loaded = load(put(tmp_path / "photos", a__png=png()))
    assert (list(loaded.images.ids), len(loaded.texts)) == (["a.png"], 0)
