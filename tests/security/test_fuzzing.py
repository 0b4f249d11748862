"""Spoilt files, a few of each kind in every run of the tests and a great many behind the marker `long`.

Nothing but a LimnerError may come of them. `fuzzing.py` says how to read one of them again.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner import LimnerError
from limner.core import paths

sys.path.insert(0, str(Path(__file__).parent))

import fuzzing
import mutations
from readers import READERS

FEW = 40
LEARNED = [
    "histograms model", "kcca model", "nearest model", "towers model", "pvse model",
    "pcme model", "mcprop model",
    "crank model", "finetuned model", "gru", "cache", "visual words", "index", "set index",
    "calibrated index", "store",
]  # fmt: skip
NEEDS = {
    "index": "lancedb", "set index": "lancedb", "calibrated index": "lancedb", "store": "sqlalchemy",
    "finetuned model": "transformers",
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_spoilt_files_are_refused_or_read(name, tmp_path):
    _all_refused_or_read(name, tmp_path, FEW)


@pytest.mark.parametrize("name", LEARNED)
def test_spoilt_models_indexes_and_stores(name, tmp_path):
    pytest.importorskip(NEEDS.get(name, "torch"))
    _all_refused_or_read(name, tmp_path, 5 if name in NEEDS else 15)


def _all_refused_or_read(name: str, folder: Path, count: int) -> None:
    from learned_readers import read_one

    for number in range(count):
        try:
            read_one(name, number, folder)
        except LimnerError:
            pass
        except Exception as error:
            command = f"python tests/security/fuzzing.py --reader '{name}' --number {number}"
            raise AssertionError(f"{type(error).__name__}: {error}; again: {command}") from error


def test_every_good_file_is_read(tmp_path):
    """A reader that refuses everything would pass every test above."""
    for name, reader in READERS.items():
        folder = tmp_path / name
        for file, data in reader.seeds().items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(data)
        reader.read(folder)


def test_the_same_number_spoils_in_the_same_way(tmp_path):
    for name in ("csv", "npz", "karpathy", "jpeg"):
        contents = []
        for folder in (tmp_path / name / "1", tmp_path / name / "2"):
            folder.mkdir(parents=True)
            READERS[name].written(folder, 12)
            contents.append([f.read_bytes() for f in sorted(folder.iterdir())])
        assert contents[0] == contents[1]
    assert mutations.of_text(random.Random(1), b"a,b\n1,2\n") != mutations.of_text(random.Random(2), b"a,b\n1,2\n")


# --- JSON of every shape, by hypothesis -------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec=None), max_size=8)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXTS, inside, max_size=4),
    max_leaves=20,
)
KEYS = ("limner", "format", "images", "annotations", "results", "ids", "top", "settings", "notes", "image", "caption")
FORMS = ("karpathy", "coco", "report", "run json", "jsonl", "visual genome", "eccv", "answers jsonl")


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(KEYS) | TEXTS, JSONS, max_size=6) | JSONS, st.sampled_from(FORMS))
def test_any_json_is_refused_or_read(tmp_path_factory, value, form):
    folder = tmp_path_factory.mktemp("json")
    for name in READERS[form].seeds():
        (folder / name).write_bytes(json.dumps(value).encode("utf-8", "surrogatepass"))
    with suppress(LimnerError):
        READERS[form].read(folder)


@given(JSONS)
def test_what_passes_can_be_written_again(value):
    """No half characters, no nest that would be too deep, whatever JSON allows."""
    try:
        passed = paths.parse_json(json.dumps(value), where="x")
    except LimnerError:
        return
    json.dumps(passed, ensure_ascii=False).encode()


# --- the long form ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_what_crashes_hangs_or_takes_too_much_memory_is_found(tmp_path, monkeypatch):
    """The harness itself, on readers that misbehave."""
    bad = tmp_path / "learned_readers.py"
    bad.write_text(
        "import os, ctypes\n"
        "from types import SimpleNamespace as N\n"
        "EVERY = {n: N(share=1) for n in ('good', 'fails', 'hangs', 'eats', 'dies')}\n"
        "def read_one(name, number, folder):\n"
        "    if number != 7: return\n"
        "    if name == 'fails': raise KeyError('x')\n"
        "    if name == 'hangs':\n"
        "        while True: pass\n"
        "    if name == 'eats': bytearray(3_000_000_000)\n"
        "    if name == 'dies': ctypes.string_at(0)\n"
    )
    program = tmp_path / "fuzzing.py"
    program.write_text(Path(fuzzing.__file__).read_text())
    import subprocess

    command = [sys.executable, str(program), "--inputs", "50", "--workers", "2", "--seconds", "1", "--megabytes", "500"]
    done = subprocess.run(command, capture_output=True, text=True)
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 1
    assert {f["reader"]: f["number"] for f in reports} == dict.fromkeys(("fails", "hangs", "eats", "dies"), 7)
    kinds = {f["reader"]: f["error"].partition(":")[0] for f in reports}
    assert kinds == {
        "fails": "KeyError",
        "hangs": "TooSlow",
        "eats": "MemoryError",
        "dies": "the process ended with -11",
    }
    assert "50 inputs, 5 readers, 4 found" in done.stdout


@pytest.mark.long
def test_a_million_spoilt_files():
    """An hour and more; `python tests/security/fuzzing.py` shows how far it is."""
    from learned_readers import EVERY

    done = fuzzing.run(list(EVERY), 1_000_000, workers=2, seconds=10.0, megabytes=1000)
    assert done.found == []
    assert sum(c["read"] + c["refused"] for c in done.came.values()) >= 1_000_000
