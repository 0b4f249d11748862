"""`import limner` is enough: names and packages as the docs write them, and types that a checker can see."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import limner

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "limner"
PACKAGES = sorted(SOURCE.rglob("__init__.py"))


def _reached(name: str) -> bool:
    value: object = limner
    for part in name.split(".")[1:]:
        if not hasattr(value, part):
            return name.startswith("limner.cli.") and find_spec(name) is not None  # the shell is no public name
        value = getattr(value, part)
    return True


def test_every_dotted_name_of_the_docs_is_there_after_import_limner():
    pages = [
        ROOT / "README.md",
        *(page for page in (ROOT / "docs").rglob("*.md") if page.name not in ("changelog.md",)),
    ]
    lines = [line for page in pages for line in page.read_text().splitlines() if not line.startswith(":::")]
    named = {name for line in lines for name in re.findall(r"(?<!\]\[)\blimner(?:\.[A-Za-z_]\w*)+", line)}
    assert len(named) > 40
    assert sorted(name for name in named if not _reached(name)) == []


def test_dir_shows_public_names_only():
    assert [name for name in dir(limner) if name.startswith("_")] == ["__version__"]
    assert {"evaluate", "Scores", "match", "web"} < set(dir(limner))
    assert not {"annotations", "importlib", "TYPE_CHECKING", "VERSION"} & set(dir(limner))


def test_a_name_that_is_not_there_is_an_attribute_error():
    for package, name in ((limner, "evalute"), (limner.match, "nothing"), (limner.explain, "_reading")):
        with pytest.raises(AttributeError, match=name):
            getattr(package, name)


def test_import_limner_loads_no_package():
    code = "import sys, limner; print(sorted(m for m in sys.modules if m.startswith('limner.') or m == 'numpy'))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "numpy" not in output and "limner.match" not in output


def _bound(tree: ast.Module) -> set[str]:
    """The names that a type checker sees at the top of a module: `else` of TYPE_CHECKING is not for it."""
    nodes = list(tree.body)
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            nodes += node.body
    names = {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [t for node in nodes if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
    return names | {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


@pytest.mark.parametrize("file", PACKAGES, ids=lambda file: file.parent.relative_to(SOURCE.parent).as_posix())
def test_no_name_of_a_package_is_any_for_a_type_checker(file):
    bound = _bound(ast.parse(file.read_text()))
    assert "__getattr__" not in bound, "a checker would take every name, also a misspelt one, as Any"
    name = ".".join(file.parent.relative_to(SOURCE.parent).parts)
    package = import_module(name)
    declared = {*getattr(package, "__all__", ()), *(limner._PACKAGES if package is limner else ())}
    assert declared - bound == set()


def test_packages_declare_their_names():
    assert (SOURCE / "py.typed").is_file()
    bare = [name for name in limner._PACKAGES if not hasattr(getattr(limner, name), "__all__")]
    assert bare == []
    for name in limner._PACKAGES:
        package = getattr(limner, name)
        assert [each for each in package.__all__ if not hasattr(package, each)] == [], name
