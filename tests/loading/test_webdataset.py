"""WebDataset shards: read as img2dataset writes them, written and read back, and tars that are not what they seem."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

import limner
from limner import LimnerError


def picture(number=0):
    out = io.BytesIO()
    Image.new("RGB", (20, 10), (number * 20 % 256, 90, 10)).save(out, "PNG")
    return out.getvalue()


def shard(path, files, *, links=()):
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for name in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)
    return path


def sample(key, caption, number=0, **more):
    return {f"{key}.png": picture(number), f"{key}.txt": caption.encode(), f"{key}.json": json.dumps(more).encode()}


def test_shards_of_img2dataset(tmp_path):
    shard(tmp_path / "train-00000.tar", sample("000000001", "a dog", 1, url="x", status="success"))
    shard(
        tmp_path / "test-00000.tar",
        sample("000000002", "a cat", 2) | sample("a/3", "sea", 3, captions=["the sea", "blue"]),
    )
    loaded = limner.load(f"webdataset:{tmp_path}")
    assert list(loaded.images.ids) == ["000000002", "a/3", "000000001"]
    assert set(loaded.texts.values) == {"a dog", "a cat", "the sea", "blue"}
    assert loaded.splits == {"test": ("000000002", "a/3"), "train": ("000000001",)}
    assert np.asarray(loaded.images.open("000000001"))[0, 0, 0] == 20
    assert limner.load(tmp_path).name == limner.load(tmp_path / "test-00000.tar").name.replace(
        "test-00000", tmp_path.stem
    )


def test_a_collection_is_written_and_read_back(tmp_path):
    world = limner.load("scenes", images=6)
    lost = limner.datasets.write(world, tmp_path / "w.tar")
    back = limner.load(tmp_path / "w.tar")
    assert sorted(back.texts.values) == sorted(world.texts.values) and len(back.judgements) == len(world.judgements)
    assert (np.asarray(back.images.open(2)) == np.asarray(world.images.open(2))).all()
    assert any("splits" in sentence for sentence in lost)
    with tarfile.open(tmp_path / "w.tar") as tar:
        assert tar.getnames()[:3] == ["000000000.png", "000000000.txt", "000000000.json"]


def test_webdataset_itself_opens_what_is_written(tmp_path):
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    limner.datasets.write(limner.load("scenes", images=3), tmp_path / "w.tar")
    rows = list(webdataset.WebDataset(str(tmp_path / "w.tar"), shardshuffle=False).decode("pil").to_tuple("png", "txt"))
    assert len(rows) == 3 and rows[0][0].size == (160, 160)


def test_what_is_incomplete_is_skipped_and_told(tmp_path):
    files = sample("1", "a dog") | {"2.png": picture(), "3.txt": b"alone"} | sample("4", "  ")
    loaded = limner.load(shard(tmp_path / "x.tar", files, links=["5.png", "../../6.txt"]))
    assert list(loaded.images.ids) == ["1"] and len(loaded.warnings) == 2
    with pytest.raises(LimnerError, match="strict=True"):
        limner.load(tmp_path / "x.tar", strict=True)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"1.png": b"x", "1.txt": b"\xff\xfe"}, "not UTF-8"),
        ({"1.png": b"x", "1.json": b"{"}, "not JSON"),
        ({"1.png": b"x", "1.txt": b"a" * ((1 << 20) + 1)}, "bytes"),
        ({"readme.md": b"hello"}, "no image with a caption"),
    ],
)
def test_bad_shards_are_refused(tmp_path, files, says):
    with pytest.raises(LimnerError, match=says):
        limner.load(shard(tmp_path / "x.tar", files))


def test_a_name_in_two_shards_and_a_file_that_is_no_tar(tmp_path):
    for n in (1, 2):
        shard(tmp_path / f"{n}.tar", sample("1", "a dog"))
    with pytest.raises(LimnerError, match="occurs twice"):
        limner.load(f"webdataset:{tmp_path}")
    (tmp_path / "bad.tar").write_bytes(b"no tar at all" * 100)
    with pytest.raises(LimnerError, match=r"bad\.tar"):
        limner.load(tmp_path / "bad.tar")


def test_an_image_that_is_damaged_is_named(tmp_path):
    loaded = limner.load(shard(tmp_path / "x.tar", {"1.png": picture()[:40], "1.txt": b"a dog"}))
    with pytest.raises(LimnerError, match="'1'"):
        loaded.images.open(0)
