"""Reference pages: a line `<!-- modules: limner.match -->` becomes the public modules of that package.

A line may leave modules out (`<!-- modules: limner.core, without: kernels -->`) or name a few (`only: serving`).
Nothing is imported: the names are read from the source, so that a page cannot fall behind the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"
MARK = re.compile(
    r"^<!-- modules: (?P<package>[\w.]+)(?:, (?P<how>without|only): (?P<names>[\w ]+))? -->$", re.MULTILINE
)
OPTIONS = "    options:\n      heading_level: 2\n      show_root_full_path: true\n      members: [{members}]\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return MARK.sub(lambda mark: _shown(mark["package"], mark["how"], (mark["names"] or "").split()), markdown)


def _shown(package: str, how: str | None, names: list[str]) -> str:
    chosen = {name: tree for name, tree in modules(package) if (name.rpartition(".")[2] in names) == (how == "only")}
    found = {name: tree for name, tree in chosen.items() if public(tree)}
    rows = [f"| [`{name.rpartition('.')[2]}`][{name}] | {_about(tree)} |" for name, tree in found.items()]
    parts = [f"::: {name}\n{OPTIONS.format(members=', '.join(public(tree)))}" for name, tree in found.items()]
    return "\n".join(["| module | what it holds |", "|---|---|", *rows, "", *parts])


def modules(package: str) -> Iterator[tuple[str, ast.Module]]:
    """A package and its public modules, without those of its subpackages."""
    folder = SOURCE.joinpath(*package.split("."))
    for path in sorted(folder.glob("*.py"), key=lambda path: (path.name != "__init__.py", path.name)):
        if path.name == "__init__.py" or not path.name.startswith("_"):
            name = package if path.name == "__init__.py" else f"{package}.{path.stem}"
            yield name, ast.parse(path.read_text(encoding="utf-8"))
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").exists() and not inner.name.startswith("_"):
            yield f"{package}.{inner.name}", ast.parse((inner / "__init__.py").read_text(encoding="utf-8"))


def public(tree: ast.Module) -> list[str]:
    """The public functions and classes that a module defines, and its constants that have a docstring."""
    named = (_name(node, after) for node, after in zip(tree.body, [*tree.body[1:], None], strict=True))
    return [name for name in named if name and not name.startswith("_")]


def _name(node: ast.stmt, after: ast.stmt | None) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name if ast.get_docstring(node) else None
    target = (
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
    )
    told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    return target.id if isinstance(target, ast.Name) and told else None


def _about(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").partition("\n")[0].replace("|", "\\|")
