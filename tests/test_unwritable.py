"""An output that cannot be written is refused before anything is loaded, trained or encoded."""

from __future__ import annotations

import inspect
import os
import typing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from limner.cli import app
from limner.cli.commands import answers
from limner.cli.options import writable, writable_file
from limner.core.errors import LimnerError
from limner.core.paths import refuse_unwritable

WRITES = ("Write ", "Where to write", "Output", "Save the", "Also write", "A page (.html), table", "Add the results")
"""How the help of an option begins that names what is written."""
LATER = {"data convert out"}
"""Checked by the command itself, when it knows the ending."""


def commands(command=None, path=()):
    command = typer.main.get_command(app) if command is None else command
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield " ".join(path), command
    for name in subcommands or ():
        yield from commands(subcommands[name], (*path, name))


def outputs():
    """Every parameter of every command that names what is written, with its annotation."""
    for name, command in commands():
        hints = typing.get_type_hints(inspect.unwrap(command.callback), include_extras=True)
        for parameter in command.params:
            info = next(iter(getattr(hints.get(parameter.name), "__metadata__", ())), None)
            described = (getattr(parameter, "help", None) or "").startswith(WRITES)
            if info is not None and (described or "-o" in parameter.opts):
                yield f"{name} {parameter.name}", info


def test_every_output_of_every_command_is_checked_when_the_command_line_is_read():
    checked = {name: info.callback for name, info in outputs()}
    assert len(checked) >= 20 and {"train out", "explain map out", "encode out", "evaluate output"} <= set(checked)
    assert [
        name for name, check in checked.items() if check not in (writable, writable_file, answers.writable_judgements)
    ] == sorted(LATER)


def test_every_store_that_a_command_makes_is_checked():
    for name, command in commands():
        source = inspect.getsource(inspect.unwrap(command.callback))
        if "create=True" in source:
            hints = typing.get_type_hints(inspect.unwrap(command.callback), include_extras=True)
            assert hints["store"].__metadata__[0].callback is answers.new_store, name


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """A folder in which nothing can be written; root may write anywhere, so the question is answered for it."""
    folder = tmp_path / "locked"
    folder.mkdir()
    allowed = os.access

    def access(path, mode, **how):
        return not (Path(path) == folder and mode & os.W_OK) and allowed(path, mode, **how)

    monkeypatch.setattr(os, "access", access)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("train", "histograms", "scenes", "-o", "LOCKED/model"),
        ("index", "LOCKED/i", "scenes", "--model", "histograms"),
        ("index", "LOCKED", "scenes", "--model", "histograms"),
        ("explain", "map", "scenes", "--model", "histograms", "-o", "LOCKED/map.html"),
        ("annotate", "pool", "LOCKED/work.db", "scenes", "--model", "histograms"),
        ("annotate", "plan", "LOCKED/work.db", "scenes", "--model", "histograms"),
        ("encode", "photos", "--model", "histograms", "-o", "LOCKED/v.npy"),
        ("evaluate", "scenes", "--model", "histograms", "-o", "LOCKED/r.json"),
        ("data", "audit", "scenes", "-o", "LOCKED/a.csv"),
        ("data", "audit", "scenes", "-o", "LOCKED/a.qrels"),
        ("match", "fuse", "a.run", "b.run", "-o", "LOCKED/f.run"),
        ("match", "rerank", "a.run", "scenes", "--scorer", "levenshtein", "-o", "LOCKED/r.run"),
        ("data", "convert", "scenes", "LOCKED/world.csv"),
        ("report", "r.json", "-o", "LOCKED/r.html"),
        ("demo", "-o", "LOCKED/demo"),
        ("encode", "photos", "--model", "histograms", "--cache", "LOCKED", "-o", "v.npy"),
        ("encode", "photos", "--model", "histograms", "--cache", "LOCKED/new", "-o", "v.npy"),
        ("evaluate", "scenes", "--model", "clip(model=m)", "--cache", "LOCKED"),
        ("evaluate", "text-only:scenes", "--model", "minilm", "--cache", "LOCKED"),
        ("match", "rerank", "a.run", "scenes", "--scorer", "levenshtein", "--cache", "LOCKED", "-o", "r.run"),
        ("annotate", "export", "a.db", "LOCKED/a.csv"),
        ("serve", "scenes", "--store", "LOCKED/answers.db"),
    ],
)
def test_nothing_is_loaded_for_an_output_that_cannot_be_written(locked, monkeypatch, words):
    def loaded(*spec, **options):
        raise AssertionError("a collection is loaded before the output is checked")

    monkeypatch.setattr("limner.load", loaded)
    done = CliRunner().invoke(app, [word.replace("LOCKED", str(locked)) for word in words])
    message = " ".join(done.stderr.split())
    assert done.exit_code == 3 and f"no permission to write in {locked}; choose another folder" in message, message
    assert list(locked.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_permissions_count(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(LimnerError, match="no permission to write"):
        refuse_unwritable(tmp_path / "a.csv", is_file=True)
    tmp_path.chmod(0o755)


def test_what_can_be_written_passes_and_what_cannot_is_explained(tmp_path, locked):
    (tmp_path / "a.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    (tmp_path / "away.csv").symlink_to(locked / "a.csv")
    (tmp_path / "lost.csv").symlink_to(tmp_path / "gone" / "a.csv")
    for fine in (tmp_path / "new.csv", tmp_path / "a.csv", tmp_path / "link.csv", "/dev/null"):
        refuse_unwritable(fine, is_file=True)
    refuse_unwritable(tmp_path, is_file=False)
    refuse_unwritable(locked, is_file=False)  # it can be replaced
    for path, message in [
        (tmp_path, "is a folder: expected the name of a file"),
        (tmp_path / "gone" / "a.csv", "no folder .*gone to write 'a.csv' into: create it first"),
        (tmp_path / "lost.csv", "no folder .*gone to write"),
        (tmp_path / "a.csv" / "b.csv", "no folder .*a.csv to write"),
        (tmp_path / "away.csv", f"no permission to write in {locked}"),
        (tmp_path / ("x" * 300), "cannot be written: File name too long"),
    ]:
        with pytest.raises(LimnerError, match=message):
            refuse_unwritable(path, is_file=True)
