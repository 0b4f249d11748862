"""The whole way of a newcomer at the shell: the script runs to its end, and the tutorial shows what it does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import codeblocks
from limner import Report

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "whole_way.sh"
PAGE = ROOT / "docs" / "tutorials" / "whole_way.md"
STEPS = ["describe", "encode", "evaluate", "explain", "index", "search", "pool", "tasks", "serve", "status", "merge"]


def commands(text: str) -> list[str]:
    """The limner commands of a text, without prompts, redirections and what only a script needs."""
    lines = re.findall(r"^(?:\$ )?(limner .*)$", text, flags=re.MULTILINE)
    return [re.sub(r"( --port 0 --json)?( > \S+)?( &)?$", "", line) for line in lines]


def test_the_tutorial_shows_the_commands_of_the_script():
    blocks = [
        block.text for block in codeblocks.blocks(PAGE.read_text(encoding="utf-8")) if block.language == "console"
    ]
    assert commands("".join(blocks)) == commands(SCRIPT.read_text(encoding="utf-8"))


def test_no_step_needs_python():
    languages = {block.language for block in codeblocks.blocks(PAGE.read_text(encoding="utf-8"))}
    assert languages == {"console"}
    assert "python" not in re.sub(r"^#.*$", "", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE).lower()
    script = " ".join(commands(SCRIPT.read_text(encoding="utf-8")))
    assert [step for step in [*STEPS, "compare"] if step not in script] == []


@pytest.mark.skipif(sys.platform == "win32", reason="a bash script")
def test_the_script_runs_to_its_end(tmp_path):
    pytest.importorskip("lancedb")
    pytest.importorskip("sqlalchemy")
    programs, work = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    (programs / "limner").write_text('#!/bin/sh\nexec "$LIMNER_PYTHON" -m limner "$@"\n')
    (programs / "limner").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    added = {"PATH": path, "LIMNER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
    done = subprocess.run(["bash", str(SCRIPT)], cwd=work, env=os.environ | added, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^1 of \d+ tasks done, 0 held; 18 of", done.stdout, re.MULTILINE), (
        "20 pairs, two of them controls"
    )
    before, after = Report.load(work / "before.json"), Report.load(work / "mine.json")
    for direction, queries in (("i2t", 200), ("t2i", 1000)):
        assert {len(r.find("R@1", direction=direction, view="pairs").values) for r in (before, after)} == {queries}
    columns = json.loads((work / "searched.json").read_text())["columns"]
    assert len(columns) == 2, "both models search on the page"
    assert "nan" not in done.stdout
    assert "captions" in done.stdout + done.stderr, "explain says that objects come from the captions"
    assert sum(1 for _ in (work / "better.qrels").open()) > 965, (
        "five captions of each of the 193 pooled pictures, and new pairs"
    )
    assert re.search(r"mine +theirs +difference", done.stdout)
    assert (work / "before.html").stat().st_size > 10_000 and (work / "found.html").stat().st_size > 1_000
