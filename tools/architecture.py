"""Facts about the structure of the package: what is at its root, circles of imports, floors, repeated names, `Any`.

    python tools/architecture.py                  # the facts as a table
    python tools/architecture.py --json           # the same for machines
    python tools/architecture.py --source DIR     # of another checkout: the folder that holds the package
    python tools/architecture.py --before DIR     # a Markdown table: another checkout beside this one

Imports are read from the syntax tree, those inside functions and under TYPE_CHECKING included, so a circle that only
opens when a function runs is counted too. Importing a name from a package counts as importing the module that defines
the name, so a package's list of public names does not join its modules into a circle. A registry names modules in
strings, which are no imports: it is how a lower floor reaches a higher one without knowing it.
"""

from __future__ import annotations

import argparse
import ast
import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "limner"
LONG_FUNCTION, LONG_FILE = 60, 450
RUN = 6
"""Lines of code in a row that make a repetition."""


@dataclass
class Module:
    """One source file: what it imports, defines and exports.

    Args:
        name: The dotted name.
        path: The file.
        text: Its source.
        tree: The same, parsed.
        imports: Other modules of the package that it imports, anywhere in the file.
    """

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path, source: Path) -> Module:
        """A file below the folder that holds the package."""
        parts = list(path.relative_to(source).with_suffix("").parts)
        text = path.read_text(encoding="utf-8")
        return cls(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path, text, ast.parse(text))

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of a folder."""
        return self.path.name == "__init__.py"

    @property
    def wing(self) -> str:
        """The folder or module at the root of the package that it belongs to; nothing for the root itself."""
        return self.name.split(".")[1] if "." in self.name else ""

    @property
    def classes(self) -> list[str]:
        """Public classes at the top level."""
        return [n.name for n in self.tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]

    @property
    def public(self) -> list[str]:
        """The names in `__all__`."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
            ):
                return list(ast.literal_eval(node.value))
        return []

    @property
    def code(self) -> list[str]:
        """Lines that do something: no blank lines, comments, imports, docstrings or lone brackets."""
        silent = {line for node in ast.walk(self.tree) if _is_silent(node) for line in _span(node)}
        lines = ((number, line.strip()) for number, line in enumerate(self.text.splitlines(), 1))
        return [line for number, line in lines if number not in silent and any(c.isalnum() for c in line.split("#")[0])]

    @property
    def untyped(self) -> set[int]:
        """Lines of code that name `Any`."""
        return {node.lineno for node in ast.walk(self.tree) if isinstance(node, ast.Name) and node.id == "Any"}

    def functions(self) -> Iterator[tuple[str, int]]:
        """Every function with its number of lines, its docstring not counted."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                doc = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
                yield f"{self.name}.{node.name}", (node.end_lineno or 0) - node.lineno + 1 - doc


def _is_silent(node: ast.AST) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return text or isinstance(node, ast.Import | ast.ImportFrom)


def _span(node: ast.AST) -> range:
    return range(getattr(node, "lineno", 1), getattr(node, "end_lineno", 0) + 1)


def modules(source: Path = ROOT / "src", package: str = PACKAGE) -> dict[str, Module]:
    """Every module of the package by its dotted name, with its imports inside the package."""
    read = (Module.read(path, source) for path in sorted((source / package).rglob("*.py")))
    by_name = {module.name: module for module in read}
    homes = {name: _handed_on(module, package) for name, module in by_name.items() if module.is_package}
    for module in by_name.values():
        module.imports = set(_targets(module, by_name, homes)) - {module.name}
    return by_name


def _handed_on(module: Module, package: str) -> dict[str, str]:
    """Where the names that a package hands on come from."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package
        for alias in node.names
    }


def _targets(module: Module, by_name: Mapping[str, Module], homes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in by_name)
        elif isinstance(node, ast.ImportFrom) and node.module in by_name:
            yield from (_home(str(node.module), alias.name, by_name, homes) for alias in node.names)


def _home(package: str, name: str, by_name: Mapping[str, Module], homes: Mapping[str, Mapping[str, str]]) -> str:
    """The module that a name imported from a package comes from."""
    while f"{package}.{name}" not in by_name:
        further = homes.get(package, {}).get(name)
        if further is None or further == package or further not in by_name:
            return package
        package = further
    return f"{package}.{name}"


def circles(by_name: Mapping[str, Module]) -> list[list[str]]:
    """Groups of modules that import each other in a loop (strongly connected components, Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in by_name[name].imports:
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            group, stack[at:] = sorted(stack[at:]), []
            if len(group) > 1:
                groups.append(group)

    for name in by_name:
        if name not in index:
            visit(name)
    return sorted(groups, key=len, reverse=True)


def upward(by_name: Mapping[str, Module], floors: Iterable[Iterable[str]]) -> list[str]:
    """Imports from a wing into one above it, as "importer -> imported".

    Args:
        by_name: The modules.
        floors: The wings of each floor, the highest first.
    """
    height = {wing: -at for at, wings in enumerate(floors) for wing in wings}
    pairs = ((module, by_name[target]) for module in by_name.values() for target in sorted(module.imports))
    between = ((a, b) for a, b in pairs if a.wing != b.wing and {a.wing, b.wing} <= height.keys())
    return [f"{a.name} -> {b.name}" for a, b in between if height[a.wing] < height[b.wing]]


def repeated(by_name: Mapping[str, Module]) -> int:
    """Lines of code that belong to a run which stands in the package more than once, to the letter."""
    runs: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for module in by_name.values():
        code = module.code
        for at in range(len(code) - RUN + 1):
            runs[tuple(code[at : at + RUN])].append((module.name, at))
    return len(
        {(name, at + n) for places in runs.values() if len(places) > 1 for name, at in places for n in range(RUN)}
    )


def contract(pyproject: Path = ROOT / "pyproject.toml") -> list[list[str]]:
    """The floors that the import contract names, the highest first."""
    with pyproject.open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[wing.strip() for wing in layer.split(":")] for layer in layers]


def facts(by_name: Mapping[str, Module]) -> dict[str, object]:
    """What the table shows."""
    every = list(by_name.values())
    root = sorted({module.wing for module in every} - {""})
    classes = Counter(name for module in every for name in module.classes)
    return {
        "modules": len(every),
        "lines": sum(len(module.text.splitlines()) for module in every),
        "at the root": len(root),
        "loose modules at the root": [n for n in root if not by_name[f"{PACKAGE}.{n}"].is_package and n != "__main__"],
        "circles": circles(by_name),
        "floors": len(contract()),
        "imports upward": upward(by_name, contract()),
        "public names": {m.name: len(m.public) for m in every if m.is_package and m.name.count(".") <= 1},
        f"lines in repeated runs of {RUN}": repeated(by_name),
        "lines with Any": sum(len(module.untyped) for module in every),
        "repeated class names": {name: n for name, n in sorted(classes.items()) if n > 1},
        "long functions": [name for module in every for name, size in module.functions() if size > LONG_FUNCTION],
        "long files": [module.name for module in every if len(module.text.splitlines()) > LONG_FILE],
    }


def _number(value: object) -> object:
    return len(value) if isinstance(value, list | dict) else value


def _names(value: object) -> object:
    """The sum of what packages declare."""
    return sum(value.values()) if isinstance(value, dict) else value


def compared(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    """A Markdown table of two sets of facts."""
    rows = [
        ("modules that import each other in a circle", *(sum(map(len, each["circles"])) for each in (before, after)))
    ]  # type: ignore[call-overload]
    for name in after:
        count = _names if name == "public names" else _number
        rows.append((name, count(before[name]), count(after[name])))
    head = ["| fact | before | now |", "|---|---:|---:|"]
    return "\n".join([*head, *(f"| {name} | {old:,} | {new:,} |" for name, old, new in rows[1:] + rows[:1])])


def main() -> None:
    """Prints the facts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that holds the package")
    parser.add_argument("--before", type=Path, help="the folder that holds an older package: print both as a table")
    chosen = parser.parse_args()
    measured = facts(modules(chosen.source))
    if chosen.before:
        print(compared(facts(modules(chosen.before)), measured))
        return
    if chosen.json:
        print(json.dumps(measured, indent=2))
        return
    for name, value in measured.items():
        print(f"{name:28} {_number(value)}")
        for each in value if isinstance(value, list) else ():
            print(f"    {' '.join(each) if isinstance(each, list) else each}")


if __name__ == "__main__":
    main()
