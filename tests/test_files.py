"""Files appear whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

import limner
from killing import deaths, no_larger
from limner.core import files
from limner.core.errors import NotWritten
from limner.core.files import replacing, replacing_model, write_text


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


# --- folders ----------------------------------------------------------------------------------------------------

PARTS = ("config.json", "model.safetensors", "README.md")


def save(folder, text):
    """A model of three files that all say the same."""
    with replacing_model(folder) as draft:
        for name in PARTS:
            (draft / name).write_text(config_text(text))


def config_text(text):
    return f'{{"limner": "{text}"}}'


def contents(folder):
    """What the files of a model say; None if it counts for nothing."""
    if not (folder / "config.json").is_file():
        return None
    return {(folder / name).read_text() for name in PARTS}


def test_a_folder_is_the_old_or_the_new_one_whenever_it_is_killed(tmp_path):
    complete = {text: {config_text(text)} for text in ("old", "new")}
    states = set()
    for _ in deaths(_save_in, tmp_path, "new", folder=tmp_path):
        state = contents(tmp_path / "m")
        assert state in (complete["old"], complete["new"], None)
        assert state is not None or "old" not in states, "the old one was lost before the new one was there"
        states.add("new" if state == complete["new"] else "old" if state else "nothing")
        save(tmp_path / "m", "old")
        states.add("old")
    assert states == {"nothing", "old", "new"}
    assert os.listdir(tmp_path) == ["m"], "what killed processes left is removed by the next one"


def _save_in(folder, text):
    save(folder / "m", text)


def test_a_folder_with_files_of_others_is_never_a_mixture_and_keeps_them(tmp_path):
    for _ in deaths(_save_in, tmp_path, "new", folder=tmp_path):
        state = contents(tmp_path / "m")
        assert state is None or len(state) == 1
        save(tmp_path / "m", "old")
        (tmp_path / "m" / "notes.txt").write_text("mine")
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert sorted(os.listdir(tmp_path / "m")) == sorted([*PARTS, "notes.txt"])


def test_without_an_exchange_the_old_folder_is_put_back(tmp_path):
    """A file system that cannot let two folders change places, as of another system or over a network."""
    (tmp_path / "there").mkdir()
    save(tmp_path / "there" / "m", "old")
    states = set()
    for _ in deaths(_save_in_steps, tmp_path / "there", folder=tmp_path / "there"):
        files._sweep.cache_clear()
        write_text(tmp_path / "there" / "x.txt", "the next one that writes here")
        (text,) = contents(tmp_path / "there" / "m")
        states.add(text)
        save(tmp_path / "there" / "m", "old")
    assert states == {config_text("old"), config_text("new")}


def _save_in_steps(folder):
    files._exchanged = lambda one, other: False
    save(folder / "m", "new")


def test_a_folder_that_cannot_be_renamed_gets_the_files_one_by_one(tmp_path, monkeypatch):
    def refused(source, target):
        raise OSError(18, "Invalid cross-device link")

    save(tmp_path / "m", "old")
    monkeypatch.setattr(files, "_exchanged", lambda one, other: False)
    monkeypatch.setattr(os, "rename", refused)
    save(tmp_path / "m", "new")
    assert contents(tmp_path / "m") == {config_text("new")} and os.listdir(tmp_path) == ["m"]


def test_a_folder_that_cannot_be_replaced_comes_back(tmp_path, monkeypatch):
    real, calls = os.rename, []

    def once(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        real(source, target)

    save(tmp_path / "m", "old")
    monkeypatch.setattr(files, "_exchanged", lambda one, other: False)
    monkeypatch.setattr(os, "rename", once)
    with pytest.raises(OSError, match="Input/output error"):
        save(tmp_path / "m", "new")
    assert contents(tmp_path / "m") == {config_text("old")} and os.listdir(tmp_path) == ["m"]


def test_files_of_the_old_model_go_and_those_of_a_stranger_stay(tmp_path):
    save(tmp_path / "m", "old")
    with replacing_model(tmp_path / "m") as draft:
        write_text(draft / "config.json", '{"limner": "kcca"}')
    assert os.listdir(tmp_path / "m") == ["config.json"], "no card of the old model beside the new one"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("of my project")
    with replacing_model(tmp_path / "mine") as draft:
        write_text(draft / "config.json", '{"limner": "kcca"}')
    assert (tmp_path / "mine" / "README.md").read_text() == "of my project"


def test_a_folder_of_somebody_else_is_not_written_over(tmp_path):
    (tmp_path / "mine" / "images").mkdir(parents=True)
    (tmp_path / "mine" / "images" / "dog.jpg").write_text("my only picture of him")
    world = limner.load("scenes", images=6)
    with pytest.raises(limner.LimnerError, match="images is a folder with other content"):
        limner.datasets.scenes.write(world, tmp_path / "mine")
    assert (tmp_path / "mine" / "images" / "dog.jpg").is_file() and os.listdir(tmp_path / "mine") == ["images"]
    limner.datasets.scenes.write(world, tmp_path / "new")
    limner.datasets.scenes.write(limner.load("scenes", images=4), tmp_path / "new")
    assert len(os.listdir(tmp_path / "new" / "images")) == 4


def test_the_current_folder_stays_the_current_folder(tmp_path, monkeypatch):
    save(tmp_path / "m", "old")
    monkeypatch.chdir(tmp_path / "m")
    save(".", "new")
    assert {(Path.cwd() / name).read_text() for name in PARTS} == {'{"limner": "new"}'}
    assert sorted(os.listdir(".")) == sorted(PARTS)


def test_a_file_in_the_way_of_a_folder_is_told(tmp_path):
    (tmp_path / "m").write_text("a file")
    with pytest.raises(limner.LimnerError, match="is a file: expected a folder"):
        save(tmp_path / "m", "new")


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    with replacing(tmp_path / "mine.txt") as draft:
        name = draft.parent.name
        dead = tmp_path / name.replace(f"-{os.getpid()}-", "-999999999-")
        of_another_machine = tmp_path / re.sub(r"\.[0-9a-f]{8}-", ".00000000-", dead.name)
        long_ago = of_another_machine.with_name(of_another_machine.name.replace("mine", "long-ago"))
        for left in (dead, of_another_machine, long_ago):
            left.mkdir()
            (left / "mine.txt").touch()
        for path in (long_ago / "mine.txt", long_ago):
            os.utime(path, (0, 0))
        files._sweep.cache_clear()
        write_text(tmp_path / "other.txt", "x")
        draft.write_text("y")
    assert sorted(os.listdir(tmp_path)) == sorted([of_another_machine.name, "mine.txt", "other.txt"])


# --- rights, and no room ------------------------------------------------------------------------------------------


def test_what_others_write_for_the_owner_alone_gets_the_usual_rights(tmp_path):
    usual, private = tmp_path / "usual.txt", tmp_path / "private.npz"
    usual.touch()
    vectors = limner.Embeddings(["a"], np.ones((1, 2), dtype=np.float32))
    assert vectors.save(tmp_path / "e.safetensors").stat().st_mode == usual.stat().st_mode
    private.touch()
    private.chmod(0o600)
    assert stat.S_IMODE(vectors.save(private).stat().st_mode) == 0o600, "a file that was made private stays so"


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "parquet", "json"])
def test_no_room_names_the_file_and_keeps_the_old_one(tmp_path, ending):
    target = tmp_path / f"e.{ending}"
    _write(target, 1)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with no_larger(4096), pytest.raises(NotWritten) as error:
        _write(target, 100_000)
    assert str(error.value).startswith(f"{target} is not written (") and isinstance(error.value, OSError)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def _write(target, rows):
    if target.suffix == ".json":
        write_text(target, "x" * rows)
    else:
        limner.Embeddings(range(rows), np.ones((rows, 2), dtype=np.float32)).save(target)


def test_no_room_for_a_file_of_a_folder_names_that_file(tmp_path):
    save(tmp_path / "m", "old")
    with no_larger(4096), pytest.raises(NotWritten, match="m/model.safetensors is not written"):
        _save_large(tmp_path / "m")
    assert contents(tmp_path / "m") == {'{"limner": "old"}'} and os.listdir(tmp_path) == ["m"]


def _save_large(folder):
    with replacing_model(folder) as draft:
        write_text(draft / "config.json", config_text("new"))
        write_text(draft / "model.safetensors", "x" * 5000)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(28, "No space left on device"), True),
        (OSError("40000 requested and 16376 written"), True),
        (Exception("I/O error: No space left on device (os error 28)"), True),
        (OSError(13, "Permission denied"), False),
        (ValueError("something else"), False),
    ],
)
def test_what_counts_as_no_room(error, full):
    assert files.is_full(error) is full


def test_a_missing_folder_is_named_and_not_the_draft(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_text(tmp_path / "none" / "x.txt", "text")
    assert error.value.filename == str(tmp_path / "none")
