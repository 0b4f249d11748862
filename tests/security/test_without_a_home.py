"""A user without a home and without rights, and an installation that nobody can write to: everything still works."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import limner
from limner.core import paths

NOBODY = 65534
SOURCE = Path(limner.__file__).parents[1]


def open_to_all(program: str) -> bool:
    """Whether anybody may run a program: it, and every folder on the way to it."""
    real = Path(program).resolve()
    return real.is_file() and all(path.stat().st_mode & 0o005 == 0o005 for path in (real, *real.parents))


PROGRESS = re.compile(r"limner: .*: [\d,]+ s\b")  # a line every five seconds, on a slow machine


@pytest.fixture(scope="module")
def interpreter():
    """A Python of this version that anybody may run, and where its packages are."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for program in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        if open_to_all(program):
            packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
            return program, [] if program == sys.executable else packages
    pytest.skip(f"no Python {version} that a user without rights may run")


@pytest.fixture(scope="module")
def as_nobody(interpreter):
    """Runs words as a user without rights, from a read-only copy of limner, with HOME unset, in a folder of its own."""
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to become a user without rights")
    top = Path(tempfile.mkdtemp(prefix="limner-readonly-"))
    top.chmod(0o755)
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(SOURCE / "limner", top / "src" / "limner", ignore=ignored)
    work, temporary = top / "work", top / "tmp"
    for folder in (work, temporary):
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
    for path in (top / "src").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (top / "src").chmod(0o555)

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        paths = os.pathsep.join([str(top / "src"), *interpreter[1]])
        environment = {**inherited, "PYTHONPATH": paths, "TMPDIR": str(temporary), **more}
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
        command = [*drop, interpreter[0], *words]
        return subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)

    run.work, run.temporary = work, temporary
    yield run
    for path in [top / "src", *(top / "src").rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(top)


def test_the_demos_story(as_nobody):
    done = as_nobody("-m", "limner", "demo", "-O", "images=25", "-o", "story")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not PROGRESS.match(line)] == []
    assert "Where to look" in done.stdout
    assert (as_nobody.work / "story" / "report.html").stat().st_size > 10_000


def test_compiled_loops_are_kept_for_the_next_run(as_nobody):
    words = "evaluate", "scenes", "-O", "images=40", "--model", "histograms", "--correct", "csls", "-o", "r.json"
    done = as_nobody("-m", "limner", *words)
    assert (done.returncode, [x for x in done.stderr.splitlines() if "limner: " not in x]) == (0, []), done.stderr
    cache = as_nobody.temporary / f"limner-{NOBODY}"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert any(cache.rglob("*.nbi"))


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "attack", "scenes", "-O", "images=20", "-o", "edits.csv"),
        ("data", "convert", "scenes", "world", "--to", "folder", "-O", "images=6"),
        ("train", "kcca", "scenes", "-O", "images=40", "-o", "model"),
    ],
    ids=lambda words: words[0],
)
def test_commands(as_nobody, words):
    done = as_nobody("-m", "limner", *words)
    assert (done.returncode, [x for x in done.stderr.splitlines() if "limner: " not in x]) == (0, []), done.stderr


def test_without_any_place_for_temporary_files(as_nobody):
    """Then there is no cache, and everything is compiled anew."""
    code = "import tempfile; tempfile._candidate_tempdir_list = lambda: ['/']; "
    code += "from limner import Scores; from limner.core import paths; import limner.scores.block_kernels; "
    code += "import numpy as np; print(paths.private_folder(), "
    code += "Scores.from_matrix(np.eye(3), 'abc', 'xyz').top(1).indices.tolist())"
    done = as_nobody("-c", code)
    assert (done.returncode, done.stdout.strip()) == (0, "None [[0], [1], [2]]"), done.stderr


# --- the folder itself --------------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    paths.private_folder.cache_clear()
    yield tmp_path
    paths.private_folder.cache_clear()


def test_the_folder_is_the_same_in_every_run_and_closed_to_others(temporary):
    folder = paths.private_folder()
    assert folder == temporary / f"limner-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    paths.private_folder.cache_clear()
    assert paths.private_folder() == folder


@pytest.mark.parametrize("trap", ["open to all", "a link", "a file", "of somebody else"])
def test_a_folder_that_others_could_have_filled_is_not_used(temporary, trap):
    """numba unpickles its cache: what others may write there would be run."""
    name = temporary / f"limner-{os.getuid()}"
    if trap == "open to all":
        name.mkdir()
        name.chmod(0o777)
    elif trap == "a link":
        (temporary / "theirs").mkdir(mode=0o700)
        name.symlink_to(temporary / "theirs")
    elif trap == "a file":
        name.touch()
    else:
        if os.geteuid() != 0:
            pytest.skip("needs root, to give a folder away")
        name.mkdir(mode=0o700)
        os.chown(name, NOBODY, NOBODY)
    used = paths.private_folder()
    assert used.parent == temporary and used != name and not used.is_symlink()
    assert stat.S_IMODE(used.stat().st_mode) == 0o700
