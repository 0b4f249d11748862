"""Facts about the structure of the package: what stands at its root, circles of imports, repeated names, `Any`.

    python tools/architecture.py            # the facts as a table
    python tools/architecture.py --json     # the same for machines
    python tools/architecture.py --walks    # how many files four typical values pass through

Imports are read from the syntax tree, those inside functions and under TYPE_CHECKING included, so a circle that only
opens when a function runs is counted too. Importing a name from a package counts as importing the module that defines
the name, so a package's list of public names does not join its modules into a circle.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "limner"


@dataclass
class Module:
    """One source file: what it imports, defines and exports."""

    name: str
    path: Path
    tree: ast.Module
    imports: set[str] = field(default_factory=set)

    @property
    def classes(self) -> list[str]:
        """Public classes at the top level."""
        return [n.name for n in self.tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__.py` of a folder."""
        return self.path.name == "__init__.py"


def modules(source: Path = ROOT / "src") -> dict[str, Module]:
    """Every module of the package by its dotted name, with its imports inside the package."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = list(path.relative_to(source).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    homes = _homes(found)
    for module in found.values():
        module.imports = {t for t in _targets(module, found, homes) if t != module.name}
    return found


def _homes(found: Mapping[str, Module]) -> dict[str, dict[str, str]]:
    """Where the names that a package hands on are defined: {package: {name: module}}."""
    homes: dict[str, dict[str, str]] = {}
    for name, module in found.items():
        if module.is_package:
            homes[name] = {
                alias.asname or alias.name: node.module
                for node in ast.walk(module.tree)
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE)
                for alias in node.names
            }
    return homes


def _targets(module: Module, found: Mapping[str, Module], homes: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in found)
        elif isinstance(node, ast.ImportFrom) and node.module in found:
            for alias in node.names:
                yield _home(str(node.module), alias.name, found, homes)


def _home(package: str, name: str, found: Mapping[str, Module], homes: Mapping[str, Mapping[str, str]]) -> str:
    """The module that a name imported from a package comes from."""
    while True:
        if f"{package}.{name}" in found:
            return f"{package}.{name}"
        further = homes.get(package, {}).get(name)
        if further is None or further == package or further not in found:
            return package
        package = further


def circles(found: Mapping[str, Module]) -> list[list[str]]:
    """Groups of modules that import each other in a loop (strongly connected components, Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in found[name].imports:
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

    for name in found:
        if name not in index:
            visit(name)
    return sorted(groups, key=len, reverse=True)


def floors(found: Mapping[str, Module]) -> dict[str, int]:
    """The floor of each wing: one above the highest wing it imports; wings in a circle share one."""
    wings = {name.split(".")[1] for name in found if name.count(".")}
    below = defaultdict(set)
    for module in found.values():
        for target in module.imports:
            a, b = _wing(module.name), _wing(target)
            if a != b and a in wings and b in wings:
                below[a].add(b)
    height: dict[str, int] = {}

    def climb(wing: str, path: tuple[str, ...]) -> int:
        if wing not in height:
            height[wing] = 1 + max((climb(b, (*path, wing)) for b in below[wing] if b not in path), default=0)
        return height[wing]

    return {wing: climb(wing, ()) for wing in sorted(wings)}


def _wing(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def facts(found: Mapping[str, Module]) -> dict[str, object]:
    """What the table shows."""
    root = sorted({name.split(".")[1] for name in found if name.count(".")})
    classes = Counter(c for m in found.values() for c in m.classes)
    lines = [line for m in found.values() for line in m.path.read_text(encoding="utf-8").splitlines()]
    longest = sorted(_functions(found.values()), reverse=True)
    return {
        "modules": len(found),
        "lines": len(lines),
        "at the root": len(root),
        "loose modules at the root": [n for n in root if f"{PACKAGE}.{n}" in found and not found[f"{PACKAGE}.{n}"].is_package],
        "circles": circles(found),
        "floors": max(floors(found).values()),
        "public names": {m.name: len(_all(m)) for m in found.values() if m.is_package and m.name.count(".") <= 1},
        "lines with Any": sum("Any" in _words(line) for line in lines),
        "repeated class names": {name: n for name, n in sorted(classes.items()) if n > 1},
        "functions over 60 lines": [f"{name} ({size})" for size, name in longest if size > 60],
        "files over 450 lines": {m.name: n for m in found.values() if (n := len(m.path.read_text().splitlines())) > 450},
    }


def _words(line: str) -> set[str]:
    code = line.split("#")[0]
    return set("".join(c if c.isalnum() or c == "_" else " " for c in code).split()) - {"import"} if "import" not in code else set()


def _all(module: Module) -> list[str]:
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets) and node.value is not None:  # type: ignore[union-attr]
            return list(ast.literal_eval(node.value))  # type: ignore[union-attr]
    return []


def _functions(found: Iterable[Module]) -> Iterator[tuple[int, str]]:
    for module in found:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                doc = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0
                yield (node.end_lineno or 0) - node.lineno + 1 - doc, f"{module.name}.{node.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that holds the package")
    chosen = parser.parse_args()
    found = modules(chosen.source)
    measured = facts(found)
    if chosen.json:
        print(json.dumps(measured, indent=2))
        return
    for name, value in measured.items():
        shown = len(value) if isinstance(value, list | dict) and name != "public names" else value
        print(f"{name:28} {shown}")
    for circle in circles(found):
        print("circle:", " ".join(circle))
    print("repeated:", measured["repeated class names"])


if __name__ == "__main__":
    main()
