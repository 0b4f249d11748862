"""Every import of limner in code, documentation and strings names something that exists."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "proofs", "benchmarks", "tools", "docs")
FROM = re.compile(r"\bfrom (limner[\w.]*) import (\([^)]*\)|\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)")
MODULE = re.compile(r"^\s*import (limner(?:\.\w+)+)", re.MULTILINE)
PATH = re.compile(r"[\"'](limner(?:\.\w+)+):(\w+)[\"']")
"""The import path of an entry of a registry."""


def imports(text: str) -> Iterator[tuple[str, str]]:
    """Every module of limner that a text imports, each with a name of it, or with none."""
    yield from ((module, "") for module in MODULE.findall(text))
    yield from PATH.findall(text)
    for module, names in FROM.findall(text):
        words = re.sub(r"#[^\n]*", "", names.strip("()")).split(",")
        yield from ((module, word.split()[0]) for word in words if word.strip())


def source_of(module: str) -> Path | None:
    """The file of a module."""
    path = ROOT / "src" / Path(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


@cache
def names_of(module: str) -> frozenset[str]:
    """The names that a module defines or imports outside functions and classes."""
    source = source_of(module)
    nodes: list[ast.AST] = [] if source is None else list(ast.parse(source.read_text(encoding="utf-8")).body)
    names: set[str] = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        nodes.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def exists(module: str, name: str) -> bool:
    """Whether there is this module, and this name in it."""
    if source_of(module) is None:
        return False
    if not name or name in names_of(module) or source_of(f"{module}.{name}") is not None:
        return True
    return "__getattr__" in names_of(module) and hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_import_names_something_that_exists(folder):
    files = [file for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".ipynb")]
    wrong = [
        f"{file.relative_to(ROOT)}: {module} {name}"
        for file in files
        for module, name in sorted(set(imports(file.read_text(encoding="utf-8"))))
        if file != Path(__file__) and not exists(module, name)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_guard_sees_wrong_imports():
    text = 'from limner.core.ids import Ids, nothing\nimport limner.none\nx = "limner.match.corrections:Absent"\n'
    assert [each for each in sorted(imports(text)) if not exists(*each)] == [
        ("limner.core.ids", "nothing"),
        ("limner.match.corrections", "Absent"),
        ("limner.none", ""),
    ]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda page: page.stem)
def test_pages_of_the_reference_name_modules_that_exist(page):
    text = page.read_text(encoding="utf-8")
    for package, words in re.findall(r"<!-- modules: (limner[\w.]*), (?:only|without): ([\w ]+?) *-->", text):
        gone = [name for name in words.split() if source_of(f"{package}.{name}") is None]
        assert not gone, f"{page.name}: no modules {', '.join(gone)} in {package}"
