"""Hostile surroundings: closed and full streams, odd locales, named pipes, terminals, spreadsheets, places to write."""

# ruff: noqa: F811  (the fixture `folder` is imported)

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import IMAGES, PER_IMAGE, folder, limner_process, refused, shell  # noqa: F401

from limner import LimnerError
from limner.cli.console import as_text, escaped
from limner.core import markup, paths

EMBEDDINGS = ("evaluate", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--measures", "R@1")


# --- streams ----------------------------------------------------------------------------------------------------


def test_a_closed_stdout_is_told():
    command = f"{sys.executable} -m limner list datasets >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert "standard output is closed" in done.stderr


def test_a_closed_stderr_is_borne():
    command = f"{sys.executable} -m limner data describe nowhere 2>&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [("list", "datasets"), ("--version",), ("list", "datasets", "--json")])
def test_a_full_stdout_is_told(words):
    with open("/dev/full", "w") as full:
        done = limner_process(*words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "limner: error: standard output: No space left on device; the result was not printed\n"


def test_an_ascii_locale(folder):
    (folder / "captions.csv").write_text("image,caption\na.jpg,ein grüner Hund → 犬\n", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = limner_process("data", "describe", "captions.csv", capture_output=True, env=ascii_only)
    assert done.returncode == 0, done.stderr
    assert rb"gr\xfcner Hund \u2192 \u72ac" in done.stdout
    done = limner_process("data", "describe", "d\u00fcnn.csv", capture_output=True, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, b"d\\xfcnn.csv" in done.stderr) == (3, True)


def test_a_command_line_that_is_not_utf8():
    done = subprocess.run(
        [sys.executable.encode(), b"-m", b"limner", b"data", b"describe", b"caf\xe9"], capture_output=True
    )
    assert (done.returncode, b"caf\\udce9" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("p.csv", ("data", "describe", "p.csv")),
        ("p.parquet", ("data", "describe", "p.parquet")),
        ("p.npy", ("evaluate", "captions.csv", "--scores", "p.npy")),
        ("p.npz", ("evaluate", "captions.csv", "--images", "p.npz", "--texts", "T.npy")),
        ("p.safetensors", ("evaluate", "captions.csv", "--images", "p.safetensors", "--texts", "T.npy")),
        ("p.run", ("evaluate", "captions.csv", "--run", "p.run")),
        ("p.json", ("compare", "p.json", "p.json")),
        ("p.ids", (*EMBEDDINGS, "--ids", "p.ids")),
        ("p.toml", ("train", "histograms", "scenes", "--config", "p.toml", "-o", "m")),
        ("m/config.json", ("evaluate", "captions.csv", "--model", "m")),
        ("p.db", ("annotate", "status", "p.db")),
        ("p.txt", ("encode", "p.txt", "--model", "minilm", "-o", "o.npy")),
        ("p.jpg", ("encode", "p.jpg", "--model", "histograms", "-o", "o.npy")),
        ("p.qrels", ("evaluate", "p.qrels", "--run", "a.run")),
    ],
)
def test_a_named_pipe_is_not_waited_for(folder, name, words):
    (folder / name).parent.mkdir(exist_ok=True)
    os.mkfifo(folder / name)
    done = limner_process(*words, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 3, done.stderr
    lines = [line for line in done.stderr.splitlines() if not re.match(r"limner: .*: [\d,]+ s\b", line)]
    assert len(lines) == 1 and Path(name).name in lines[0], done.stderr


def test_what_the_shell_puts_in_place_of_a_file_is_read(folder):
    command = f"{sys.executable} -m limner evaluate a.qrels --run <(cat a.run) --measures R@1 --json"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"][0]["value"] == 1.0


# --- terminals --------------------------------------------------------------------------------------------------

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eabc\x7f"


def test_no_control_character_reaches_a_terminal(folder):
    (folder / "captions.csv").write_text(f"image,caption\na.jpg,red {ESCAPES} dog\n", encoding="utf-8")
    for words in (
        ("data", "describe", "captions.csv"),
        ("data", "describe", "captions.csv", "--json"),
        ("data", "describe", f"nothing{ESCAPES}"),
        ("data", "describe", f"{ESCAPES}:x"),
        (f"{ESCAPES}",),
        ("data", "describe", "captions.csv", f"--{ESCAPES}"),
        ("evaluate", "captions.csv", "--model", f"x{ESCAPES}"),
    ):
        done = shell(*words)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", done.stdout + done.stderr), words
    report = json.loads(shell("data", "describe", "captions.csv", "--json").stdout)
    assert report["example"]["texts"] == [f"red {ESCAPES} dog"], "JSON still says what it was"


def test_what_is_shown():
    assert escaped("a\tb\nc é 犬 \N{GRINNING FACE}") == "a\tb\nc é 犬 \N{GRINNING FACE}"
    assert escaped("\x1b\x00\x85\u202e\udce9\r") == r"\x1b\x00\x85\u202e\udce9\x0d"
    assert json.loads(as_text({"a\x9b": "\u202e\x7f"})) == {"a\x9b": "\u202e\x7f"}


def test_markup_in_a_name_is_no_markup(folder):
    from limner.cli.console import progress

    with progress("loading [bold]x[/] [/red] \x1b[2J") as report:
        report(1, 2)


# --- errors for machines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("data", "describe", "nowhere.csv", "--json"), 3),
        (("evaluate", "--json"), 2),
        (("evaluate", "--json", "--no-such-option"), 2),
        (("data", "describe", "--json"), 2),
        (("annotate", "status", "none.db", "--json"), 3),
    ],
)
def test_errors_are_json_with_json(folder, words, status):
    done = shell(*words)
    assert done.exit_code == status
    report = json.loads(done.stdout)["error"]
    assert report["status"] == status and report["message"] in done.stderr
    assert done.stderr.startswith("limner: error: ")
    assert shell(*[word for word in words if word != "--json"]).stdout == ""


# --- spreadsheets -------------------------------------------------------------------------------------------------

FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "'=1",
    "''-x",
    "plain",
    "a=b",
    "-1.5",
    "",
    "'",
    "-",
]


def test_cells_compute_nothing_and_come_back_as_they_were():
    for text in FORMULAS:
        written = markup.guarded(text)
        assert markup.unguarded(written) == text
        assert not written.startswith(("=", "@", "\t", "\r")) and (written[:1] not in "+-" or text in ("", "-1.5"))
    assert markup.guarded(-3) == -3


def test_answers_of_people_with_odd_names_are_no_formulas(tmp_path):
    pytest.importorskip("sqlalchemy")
    from limner.annotate.answer_files import read_answers, write_answers
    from limner.annotate.store.answers import Answer

    fields = dict.fromkeys(Answer.__dataclass_fields__)
    commands = [
        Answer(
            **{**fields, "annotator": name, "image": name, "caption": name, "grade": 1, "reasons": (), "role": "real"}
        )
        for name in FORMULAS
        if name
    ]
    write_answers(commands, tmp_path / "a.csv")
    for line in (tmp_path / "a.csv").read_text().splitlines():
        assert not re.search(r'(^|,)"?[=@+\t]', line), line
    assert [g.annotator for g in read_answers(tmp_path / "a.csv")] == [name for name in FORMULAS if name]


def test_reports_and_hits_are_no_formulas():
    from limner.evaluation.tables import to_csv

    assert to_csv([{"system": "=1+1", "value": -0.5}]) == "system,value\n'=1+1,-0.5\n"


# --- places to write ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        (*EMBEDDINGS, "-o", "none/x.json"),
        ("train", "histograms", "scenes", "-O", "images=20", "-o", "none/m.npz"),
        ("train", "kcca", "scenes", "-O", "images=20", "-o", "none/m"),
        ("encode", "captions.csv", "--model", "minilm", "-o", "none/x.npy"),
        ("data", "convert", "captions.csv", "none/x.csv"),
        ("data", "convert", "captions.csv", "none/deep/world"),
        ("demo", "-O", "images=25", "-o", "none/demo"),
        ("annotate", "pool", "none/work.db", "scenes", "-O", "images=20", "--model", "colours"),
        ("index", "none/i", "captions.csv", "--embeddings", "I.npy"),
        ("match", "rerank", "a.run", "captions.csv", "--scorer", "levenshtein", "-o", "none/b.run"),
        ("match", "fuse", "a.run", "a.run", "-o", "none/b.run"),
    ],
    ids=lambda words: words[0] + " " + words[-1],
)
def test_folders_that_were_never_made_are_not_made(folder, words):
    refused(shell(*words), "none")
    assert not (folder / "none").exists()


def test_one_folder_is_made_but_not_its_parents(tmp_path):
    assert paths.folder_for(tmp_path / "a").is_dir()
    with pytest.raises(LimnerError, match="no folder .*b to write 'c' into: create it first"):
        paths.folder_for(tmp_path / "b" / "c")
    (tmp_path / "file").touch()
    with pytest.raises(LimnerError, match="is a file"):
        paths.folder_for(tmp_path / "file")
