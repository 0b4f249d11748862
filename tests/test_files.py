"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest

import limner
from limner.files import replacing, write_text


def _write_half(path, error):
    with replacing(path) as file:
        file.write_text("half")
        raise error


def test_a_failing_write_leaves_what_was_there(tmp_path):
    target = tmp_path / "numbers.txt"
    target.write_text("before")
    with pytest.raises(RuntimeError):
        _write_half(target, RuntimeError)
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["numbers.txt"]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        _write_half(tmp_path / "new.npy", KeyboardInterrupt)
    assert os.listdir(tmp_path) == []


def test_a_file_gets_the_usual_rights_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_text(tmp_path / "link.txt", "after")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"
    usual = tmp_path / "usual.txt"
    usual.touch()
    assert stat.S_IMODE((tmp_path / "real.txt").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_a_device_is_written_to_directly():
    write_text("/dev/null", "anything")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(OSError, match="none"):
        write_text(tmp_path / "none" / "x.txt", "text")


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "parquet"])
def test_embeddings_that_fail_to_write_leave_the_old_ones(tmp_path, monkeypatch, ending):
    path = tmp_path / f"e.{ending}"
    limner.Embeddings(["a"], np.ones((1, 2), dtype=np.float32)).save(path)
    before = sorted(os.listdir(tmp_path))
    monkeypatch.setattr(os, "replace", _fails)
    with pytest.raises(OSError, match="no space"):
        limner.Embeddings(["b"], np.ones((1, 2), dtype=np.float32)).save(path)
    assert sorted(os.listdir(tmp_path)) == before
    assert limner.Embeddings.load(path).ids[0] == "a"


def _fails(*_):
    raise OSError("no space left")
