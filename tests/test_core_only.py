"""With the core alone installed, as README's first command leaves it: nothing ends as a bug, and every extra is named.

`make test` makes the environment; core_only.py runs in it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from limner.cli import app
from limner.core.extras import EXTRAS, PACKAGES

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(os.environ.get("LIMNER_CORE_ONLY") or Path(sys.prefix) / "core-only") / "bin" / "python"
NEED_AN_EXTRA = {"index", "search", "serve"}
"""The commands that do nothing without an extra, besides the help."""

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no environment with the core alone: 'make test' makes it")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core-only")
    home = {"HOME": str(folder), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [PYTHON, ROOT / "tests" / "core_only.py", folder],
        env={**{name: value for name, value in os.environ.items() if not name.startswith("LIMNER_")}, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def leaves(command, path=()):
    """The words of every command."""
    subcommands = getattr(command, "commands", None)
    for name in subcommands or ():
        yield from leaves(subcommands[name], (*path, name))
    if subcommands is None:
        yield path


def test_nothing_ends_as_a_bug(runs):
    assert len(runs) > 2000
    assert [run for run in runs if run["status"] not in (0, 1, 2, 3) or "Traceback" in run["messages"]] == []


def test_every_command_and_what_works_without_an_extra(runs):
    commands = set(leaves(typer.main.get_command(app)))
    words = [run["ran"].split() for run in runs]
    assert [path for path in commands if not any(tuple(ran[: len(path)]) == path for ran in words)] == []
    working = {run["ran"].split()[0] for run in runs if run["status"] == 0}
    assert {path[0] for path in commands} - working == NEED_AN_EXTRA


def test_a_missing_package_is_named_with_the_extra_that_brings_it(runs):
    refused = [run for run in runs if "not installed" in run["messages"]]
    assert len(refused) > 800
    assert [run for run in refused if "pip install" not in run["messages"]] == []
    pattern = r"needs the package '([\w-]+)', which is not installed: pip install 'limner\[(\w+)\]'"
    named = {match.groups() for run in refused for match in re.finditer(pattern, run["messages"])}
    assert named <= {(PACKAGES.get(module, module), extra) for module, extra in EXTRAS.items()}
    assert len({extra for _, extra in named}) >= 9


def test_what_is_wrong_with_a_command_is_told_before_anything_is_trained(runs):
    wrong = [run for run in runs if re.search(r" no[/.]\w|nothing|out\.xyz", run["ran"])]
    assert len(wrong) > 10 and {run["status"] for run in wrong} == {3}
    assert [run["ran"] for run in wrong if run["trained"]] == []


def test_a_missing_package_is_named_before_anything_is_trained(runs):
    assert sum(run["trained"] for run in runs) > 20
    assert [run["ran"] for run in runs if "not installed" in run["messages"] and run["trained"]] == []
