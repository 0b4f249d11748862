"""The project itself: a light import, the floors of the house, pins that any machine can use."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HEAVY = {
    "PIL",
    "jinja2",
    "matplotlib",
    "numba",
    "pandas",
    "pyarrow",
    "rich",
    "safetensors",
    "scipy",
    "sklearn",
    "torch",
    "typer",
}


def run(*command: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


def loaded_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter holds after a statement."""
    code = f"{statement}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_import_is_light():
    assert loaded_by("import limner") & HEAVY == set()


def test_the_guard_of_the_light_import_sees_a_heavy_one():
    assert "scipy" in loaded_by("import scipy") & HEAVY


def test_every_public_name_is_there():
    import limner

    assert len(limner.__all__) == len(set(limner.__all__)) <= 30
    assert [name for name in limner.__all__ if not hasattr(limner, name)] == []


def test_the_version_is_said_once_and_the_same():
    import limner

    assert limner.__version__ == PROJECT["project"]["version"]
    assert f"## [{limner.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_versions_of_python_are_the_same_everywhere():
    versions = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if ":: Python :: 3." in line]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.15"
    makefile = (ROOT / "Makefile").read_text()
    assert "(3, 11) <= sys.version_info[:2] <= (3, 14)" in makefile
    pages = [makefile, (ROOT / "README.md").read_text(), (ROOT / "docs" / "contributing.md").read_text()]
    assert all("3.11, 3.12, 3.13 or 3.14" in page for page in pages)


def test_floors_of_the_house():
    done = run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_but_the_root_has_a_floor_at_most_once():
    layers = next(c["layers"] for c in PROJECT["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    names = [name.strip(" ()") for layer in layers for name in re.split(r"[|:]", layer)]
    assert len(names) == len(set(names))


def test_pins_are_exact_and_name_no_place():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    exact = re.compile(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.!]*( ; .+)?")
    assert [pin for pin in pins if not exact.fullmatch(pin)] == []


def test_everything_declared_is_pinned():
    declared = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]
    declared += PROJECT["dependency-groups"].values()
    flat = [entry for each in declared for entry in ([each] if isinstance(each, str) else each)]
    requirements = {_name(entry) for entry in flat if isinstance(entry, str)}
    pinned = {_name(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert requirements - pinned == set()


def _locked(name: str) -> dict[str, tuple[str, int]]:
    """The version and the number of hashes of every package in a lock."""
    pins: dict[str, tuple[str, int]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / "locks" / f"{name}.txt").read_text()):
        pin = re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", entry)
        assert pin, entry[:80]
        pins[_name(pin[1])] = pin[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry))
    return pins


@pytest.mark.parametrize("name", ["core", "dev", "s3", "croissant"])
def test_locks_have_the_pins_and_a_hash_for_every_file(name):
    locked = _locked(name)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.partition(" ")[0].split("==") for line in lines if "==" in line)
    pinned = {_name(package): version for package, version in pins}
    mismatches = {name: version for name, (version, _) in locked.items() if pinned.get(name, version) != version}
    assert mismatches == {}
    assert [package for package, (_, hashes) in locked.items() if not hashes] == []
    assert "torch" not in locked and not any("nvidia" in package for package in locked)
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    assert "://" not in text and "--index" not in text, "a lock names no index"


def test_locks_are_complete():
    """`make` installs them with --no-deps: what they lack would be missing."""
    groups = PROJECT["dependency-groups"]
    core = [_name(entry) for entry in [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]]
    dev = [_name(e) for group in ("test", "lint", "docs") for e in groups[group]]
    assert set(core) - set(_locked("core")) == set()
    assert set(core + dev) - set(_locked("dev")) - {"torch"} == set()
    assert set(_locked("core")) <= set(_locked("dev"))
    for aside in ("s3", "croissant"):
        assert set(map(_name, groups[aside])) == set(_locked(aside))


def test_make_installs_by_hash():
    text = (ROOT / "Makefile").read_text()
    assert "--require-hashes --no-deps" in text
    assert "$(LOCKED) locks/core.txt" in text and "$(LOCKED) locks/dev.txt" in text


PROGRAMS_OF_MAKE = ("make", "sh", "touch", "id", "mkdir", "rmdir", "sleep", "getconf", "cat", "awk")

APT_GET = """#!/bin/sh
mkdir lists || { echo "E: Could not get lock" >&2; exit 100; }
sleep 0.3
rmdir lists
"""


def test_make_never_runs_apt_get_twice_at_a_time(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS_OF_MAKE:
        (programs / name).symlink_to(shutil.which(name))
    for name, text in {"apt-get": APT_GET, "sudo": '#!/bin/sh\nshift\nexec "$@"\n', "true": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "made.stamp").touch()
    stamps = ["venv/browser.stamp", "venv/latex.stamp"]
    process = subprocess.run(
        ["make", "-j3", "VENV=venv", *stamps],
        cwd=tmp_path,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == 0, process.stderr
    assert [stamp for stamp in stamps if not (tmp_path / stamp).is_file()] == [], process.stdout


def test_torch_reads_weights_safely():
    """A crafted file runs code up to 2.5.1 (CVE-2025-32434) and corrupts memory up to 2.9.1 (CVE-2026-24747)."""
    requirements = [
        e for each in PROJECT["project"]["optional-dependencies"].values() for e in each if _name(e) == "torch"
    ]
    assert requirements == ["torch>=2.10"]


def test_the_server_is_limited_to_versions_that_held_floods():
    """Run the tests of `web/connections.py` before raising either end."""
    (declared,) = (each for each in PROJECT["project"]["optional-dependencies"]["web"] if _name(each) == "uvicorn")
    (pinned,) = re.findall(r"^uvicorn==0\.(\d+)\.\d+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert declared == f"uvicorn>=0.34.3,<0.{int(pinned) + 1}"
    assert declared in PROJECT["dependency-groups"]["test"]


def test_every_package_that_the_code_imports_is_declared():
    provided = packages_distributions()
    files = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "src").rglob("*.py")]
    imported = {name.partition(".")[0] for tree in files for node in ast.walk(tree) for name in _imported(node)}
    outside = imported - set(sys.stdlib_module_names) - {"limner"}
    project = PROJECT["project"]
    declared = {_name(entry) for each in project["optional-dependencies"].values() for entry in each}
    declared |= {_name(entry) for entry in project["dependencies"]}
    assert {name for name in outside if not {_name(d) for d in provided.get(name, [name])} & declared} == set()


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", requirement)[0]).lower()


def test_every_tier_names_files_that_are_there():
    from tiers import TESTS, TIERS

    patterns = [pattern for patterns in TIERS.values() for pattern in patterns]
    assert [pattern for pattern in patterns if not list(TESTS.glob(pattern))] == []
    markers = [line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    assert set(markers) == {"long", *TIERS}


def test_each_process_starts_with_long_tests_and_none_is_lost():
    from tiers import LONGEST, TESTS, longest_first

    names = ["test_board.py", "test_docs.py", "test_gap.py", "browser/test_a.py", "test_kills.py", "test_kill_loops.py"]
    files = [TESTS / name for name in names for _ in range(4)] + [ROOT / "src" / "limner" / "run.py"] * 24
    tests = list(range(len(files)))
    for processes in (2, 3, 4):
        order = longest_first(tests, files, processes)
        assert sorted(order) == tests
        starts = [order[len(tests) * n // processes] for n in range(processes)]
        assert starts[:3] == [20, 4, 12][:processes]
    assert sorted(longest_first(tests, files, 40)) == tests
    assert longest_first(tests, files, 3)[:8] == [20, 21, 22, 23, 16, 17, 18, 19], (
        "what shares a server is in one process"
    )
    assert [each for row in LONGEST for each in row if not any(TESTS.glob(each))] == []


def test_tiers_go_by_file_and_by_fixture():
    from tiers import TESTS, tiers

    assert tiers(TESTS / "cluster" / "test_passes.py", ()) == {"cluster"}
    assert tiers(TESTS / "test_measures.py", ()) == set()
    assert tiers(TESTS / "test_measures.py", ("postgres", "browser")) == {"subprocess", "browser"}
    assert tiers(ROOT / "src" / "limner" / "core" / "ids.py", ()) == set()


def test_ci_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o100
    assert script.read_text().splitlines()[-1] == "make test"
