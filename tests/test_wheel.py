"""The built package: nothing is missing from it, and it works where only the core is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from limner.core.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(os.environ.get("LIMNER_CORE_ONLY") or Path(sys.prefix) / "core-only") / "bin" / "python"
core_only = pytest.mark.skipif(not PYTHON.exists(), reason="no environment with the core alone: 'make test' makes it")


def built(kind: str, folder: Path) -> Path:
    """The file that hatchling writes."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert build.returncode == 0, build.stdout + build.stderr
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def wheel_path(tmp_path_factory) -> Path:
    return built("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def wheel(wheel_path) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheel_path)


def test_the_wheel_holds_every_file_of_the_package(wheel):
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    expected = {name for name in files if "__pycache__" not in name and not name.endswith((".pyc", ".nbi", ".nbc"))}
    packed = {name for name in wheel.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert packed == expected
    endings = {Path(name).suffix for name in packed}
    assert {".toml", ".html", ".css", ".js", ".json", ".csv", ".npy", ".xz"} <= endings
    assert "limner/py.typed" in packed


def test_the_wheel_brings_the_command_and_asks_for_no_torch(wheel):
    read = {Path(name).name: wheel.read(name).decode() for name in wheel.namelist() if ".dist-info/" in name}
    assert "limner = limner.__main__:main" in read["entry_points.txt"]
    needed = [
        line for line in read["METADATA"].splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line
    ]
    assert needed
    assert not any("torch" in line for line in needed)


def test_the_wheel_runs_on_any_machine(wheel_path):
    assert wheel_path.name == f"limner-{VERSION}-py3-none-any.whl"


def test_the_source_distribution_holds_what_its_tests_read(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    tops = {path.removeprefix("/") for path in declared["include"]}
    assert tops - {name.partition("/")[0] for name in packed} == set(), "an entry that names nothing"
    needed = ["LICENSE", "README.md", "pyproject.toml", "src/limner/__init__.py", "tests/test_release.py"]
    needed += ["CITATION.cff", "CONTRIBUTING.md", "Dockerfile", "recipe/recipe.yaml", ".github/workflows/tests.yml"]
    assert [name for name in needed if name not in packed] == []


# --- installed from the wheel, where only the core is -------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(wheel_path, tmp_path_factory) -> Path:
    """A folder with limner alone, to be put in front of the packages of the core."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel_path]
    install = subprocess.run(pip, capture_output=True, text=True)
    assert install.returncode == 0, install.stderr
    return folder


@pytest.fixture
def limner(installed, tmp_path):
    """Runs the installed command in an empty folder, which is also the home."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LIMNER_")}
    environment |= {"PYTHONPATH": str(installed), "HOME": str(tmp_path), "COLUMNS": "100"}

    def run(*words: str, program: Path = installed / "bin" / "limner") -> str:
        process = subprocess.run([program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return process.stdout

    return run


@core_only
def test_the_installed_command_is_the_one_of_the_wheel(limner, installed):
    place = limner("-c", "import limner; print(limner.__file__)", program=PYTHON)
    assert Path(place.strip()).is_relative_to(installed)
    assert VERSION in limner("--version")
    assert "limner demo" in limner("--help")


@core_only
def test_the_installed_command_measures(limner, tmp_path):
    rows = [f"{number}.jpg,a photograph of number {number}" for number in range(6)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    np.save(tmp_path / "images.npy", np.eye(6, dtype=np.float32))
    np.save(tmp_path / "texts.npy", np.eye(6, dtype=np.float32)[[1, 0, 2, 3, 4, 5]])  # two captions change places
    words = ["evaluate", "captions.csv", "--images", "images.npy", "--texts", "texts.npy", "--measures", "R@1 R@2"]
    results = json.loads(limner(*words, "--json"))["results"]
    # The other two are second to sixth with equal chances: all their similarities but the first are ties at zero.
    expected = {"R@1": 4 / 6, "R@2": 4 / 6 + 2 / 6 / 5}
    values = {(each["direction"], each["measure"]): each["value"] for each in results}
    for direction in ("i2t", "t2i"):
        assert {name: values[direction, name] for name in expected} == pytest.approx(expected)


@core_only
def test_the_installed_command_shows_its_demo(limner, tmp_path):
    limner("demo", "-O", "images=40", "-o", "demo")
    assert "<svg" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "demo" / "report.json").read_text())
