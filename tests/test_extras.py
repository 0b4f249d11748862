"""Without the packages that are extras: what does not need them works, and the rest says what to install."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from limner import Embeddings, Judgements, LimnerError, Scores, evaluate
from limner.cli import app
from limner.core import paths
from limner.core.extras import EXTRAS, PACKAGES, of_an_extra
from limner.core.registry import Registry
from limner.datasets.runs import read_run


@pytest.fixture
def hide_packages(monkeypatch):
    """Hides packages from the imports that follow."""

    def hide(*names):
        for loaded in [key for key in sys.modules if key.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, loaded)
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        paths.settle_matplotlib.cache_clear()

    yield hide
    paths.settle_matplotlib.cache_clear()


@pytest.fixture
def vectors():
    return Embeddings(["a", "b"], np.eye(2))


def test_parquet_files_name_their_extra(hide_packages, tmp_path, vectors):
    vectors.save(tmp_path / "kept.parquet")
    hide_packages("pyarrow")
    for work in (lambda: vectors.save(tmp_path / "new.parquet"), lambda: Embeddings.load(tmp_path / "kept.parquet")):
        with pytest.raises(
            LimnerError, match=r"a Parquet file needs the package 'pyarrow'.*pip install 'limner\[arrow\]'"
        ):
            work()
    assert not (tmp_path / "new.parquet").exists()
    vectors.save(tmp_path / "new.safetensors")


@pytest.fixture
def report():
    ids = ["a", "b", "c"]
    judged = Judgements.from_pairs(zip(ids, ids, strict=True))
    return evaluate(Scores.from_matrix(np.eye(3), ids, ids), judged, measures="R@1")


@pytest.mark.parametrize(("method", "extra"), [("to_arrow", "arrow"), ("to_pandas", "frames"), ("to_polars", "frames")])
def test_tables_name_their_extra(method, extra, hide_packages, report):
    hide_packages("pyarrow", "pandas", "polars")
    with pytest.raises(LimnerError, match=rf"a table as .*pip install 'limner\[{extra}\]'"):
        getattr(report, method)()


def test_run_files_are_read_without_pyarrow(hide_packages, tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("q Q0 a 1 1.5e-3 x\nq Q0 b 2 0.0012345678901234567890123 x\nq Q0 c 3 1e-300 x\n")
    with_pyarrow = read_run(path)
    hide_packages("pyarrow")
    without_pyarrow = read_run(path)
    assert np.array_equal(with_pyarrow.scores, without_pyarrow.scores)
    assert list(with_pyarrow.candidates) == list(without_pyarrow.candidates)
    assert with_pyarrow.scores[0].tolist() == [1.5e-3, 0.0012345678901234567890123, 1e-300]


def test_a_figure_names_its_extra(hide_packages, tmp_path, report):
    report.save(tmp_path / "report.json")
    hide_packages("matplotlib")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "report.json"), "-o", str(tmp_path / "figure.pdf")])
    output = " ".join(done.output.split())
    assert done.exit_code == 3 and "a figure needs the package 'matplotlib'" in output
    assert "pip install 'limner[figures]'" in output
    assert not (tmp_path / "figure.pdf").exists()


def test_attacks_need_no_matplotlib(hide_packages):
    from limner.explain import noun_heads

    hide_packages("matplotlib")
    noun_heads.css_colours.cache_clear()
    assert noun_heads.css_colours()["red"] == (1.0, 0.0, 0.0)


# --- one place ------------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[1]


def declared():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return {(extra, re.match(r"[\w-]+", entry)[0]) for extra, entries in extras.items() for entry in entries}


def test_the_extra_of_every_module_installs_it():
    assert {(extra, PACKAGES.get(module, module)) for module, extra in EXTRAS.items()} - declared() == set()


def test_every_package_of_an_extra_is_known_by_its_module():
    packages = {PACKAGES.get(module, module) for module in EXTRAS}
    assert {package for _, package in declared()} - packages == set()


def imports_of_extras(tree):
    """The modules of extras that a file imports when it is imported itself."""
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in names if name.partition(".")[0] in EXTRAS)


def test_a_module_that_imports_an_extra_asks_for_it_first():
    """In its own file, or in the package that is imported before it."""
    source = ROOT / "src" / "limner"
    unguarded = []
    for file in source.rglob("*.py"):
        before = [file, *(folder / "__init__.py" for folder in file.parents if folder.is_relative_to(source))]
        before = [each for each in before if each.exists()]
        if any(imports_of_extras(ast.parse(file.read_text()))):
            guarded = any(re.search(r"^if (\w+ := )?missing\(", each.read_text(), re.M) for each in before)
            unguarded += [] if guarded or file.parent.name == "migrations" else [str(file.relative_to(source))]
    assert unguarded == []


def test_an_import_that_nobody_guards_names_the_extra_too(hide_packages, tmp_path, monkeypatch):
    (tmp_path / "own_encoder.py").write_text("import polars\n\ndef encode(texts): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    hide_packages("polars")
    monkeypatch.setattr("limner.core.extras.missing", lambda *modules: modules[0])
    with pytest.raises(LimnerError, match=r"encoder 'own_encoder:encode' needs the package 'polars'.*limner\[frames\]"):
        Registry("encoder", {}).find("own_encoder:encode")
    assert of_an_extra(ModuleNotFoundError(name="no_such_module"), what="this command") is None
    assert of_an_extra(ValueError("torch"), what="this command") is None
