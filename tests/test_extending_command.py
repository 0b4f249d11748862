"""Adding a command as the page tells it: one file in a copy of the source, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import codeblocks
from limner.cli.command_table import ORDER, Commands

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending_command.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The source with the command of the page saved where the page says."""
    source = tmp_path_factory.mktemp("clone") / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    (code,) = (block.text for block in codeblocks.blocks(PAGE) if block.language == "python")
    (source / "limner" / "cli" / "commands" / "longest.py").write_text(code, encoding="utf-8")
    return source


def run(source: Path, *words: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(source), "COLUMNS": "120", "NO_COLOR": "1"}
    return subprocess.run([sys.executable, "-m", "limner", *words], capture_output=True, text=True, env=environment)


def test_the_command_of_the_page_runs_and_is_listed(source):
    (command,) = (block.text for block in codeblocks.blocks(PAGE) if block.language == "console")
    done = run(source, *command.split()[2:])
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["characters"] == len(answer["text"]) > 20
    listed = run(source, "--help").stdout
    assert listed.index(" demo ") < listed.index(" annotate ") < listed.index(" longest ")


def test_its_errors_are_one_line(source):
    done = run(source, "longest", "no-such-file.csv")
    assert done.returncode == 3
    assert done.stderr.startswith("limner: error: ") and done.stderr.count("\n") == 1


def test_every_command_of_the_order_is_there():
    assert list(Commands())[: len(ORDER)] == list(ORDER)
