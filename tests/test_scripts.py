"""Every script in benchmarks/ and proofs/ imports, and answers --help: all in one process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("benchmarks", "proofs")
SCRIPTS = sorted(path.relative_to(ROOT).as_posix() for name in FOLDERS for path in (ROOT / name).glob("*.py"))

# Runs each script with --help, or imports it where it takes no arguments; prints what happened to each as JSON.
HELPER = """
import contextlib, io, json, runpy, sys
from pathlib import Path

def answered(script):
    sys.path[:0] = [str(Path(script).parent), "benchmarks"]
    sys.argv = [script, "--help"]
    printed = io.StringIO()
    text = Path(script).read_text()
    takes_arguments = "\\nif __name__ ==" in text and ("main(run" in text or "ArgumentParser(" in text)
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(script, run_name="__main__" if takes_arguments else "imported")
    except SystemExit as end:
        return "fine" if end.code in (0, None) and "--help" in printed.getvalue() else f"exit {end.code}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        del sys.path[:2]
    return "no help" if takes_arguments else "fine"

print(json.dumps({script: answered(script) for script in sys.argv[1:]}))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", HELPER, *SCRIPTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_imports_and_answers_help(answers, script):
    assert answers[script] == "fine"


def test_the_index_on_disk_and_the_shards_of_the_benchmarks_fit_the_library(tmp_path):
    code = f"""
from pathlib import Path
import cluster, growth
from limner.search import open_index
growth.write_index(Path({str(tmp_path)!r}) / "index", 50)
print(len(open_index(Path({str(tmp_path)!r}) / "index").search(growth.random_queries(2), 3).queries))
for cores in range(2, 129):
    cluster.usable = lambda: cores
    assert cluster.items(False) % (4 * 1024) == 0, cores
"""
    paths = os.pathsep.join(str(ROOT / each) for each in ("src", "benchmarks"))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
