"""Which functions use a name that says nothing about its value: `found`, `given`, `held` and the like.

    python tools/names.py src/limner              # every place, and the share of functions
    python tools/names.py tests/test_cli.py

A name counts if all its words are in `VAGUE`, prepositions left out (`held`, `_given`, `kept_for`). A variable, a
parameter, a function, a class or a module should be named after its value: `judged_pairs`, not `found`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

VAGUE_WORDS = """
told asked held kept given known found seen made said meant wanted understood wronged redeemed believed wished got
taken shown whole near beside apart elsewhere somewhere rest others other own mine yours both many few much more
most less least such same way how what which whose who here there where then now again always never towards within
without fitting passing covering failing telling asking keeping lacking wanting finding calibrating watching worded
sure cheaper above below anything nothing something everything thing things stuff
"""
PREPOSITION_WORDS = "for to of by in on at as is was be with from it them all not"
VAGUE, PREPOSITIONS = frozenset(VAGUE_WORDS.split()), frozenset(PREPOSITION_WORDS.split())
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_vague(name: str) -> bool:
    """Whether no word of a name says what its value is.

    >>> [is_vague(name) for name in ("found", "_given", "kept_for", "found_pairs", "_")]
    [True, True, True, False, False]
    """
    words = [word for word in name.strip("_").lower().split("_") if word]
    if len(words) > 1:
        words = [word for word in words if word not in PREPOSITIONS]
    return bool(words) and all(word in VAGUE for word in words)


def vague_names(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, kind and name of every vague name in a file."""
    if is_vague(path.stem):
        yield 1, "module", path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and is_vague(node.name):
            yield node.lineno, "class", node.name
        elif isinstance(node, Function):
            yield from _of_function(node)


def _of_function(node: Function) -> Iterator[tuple[int, str, str]]:
    if is_vague(node.name):
        yield node.lineno, "function", node.name
    operator = node.name.startswith("__")  # __eq__(self, other) is Python's own
    for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if is_vague(each.arg) and not (operator and each.arg == "other"):
            yield each.lineno, "parameter", each.arg
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and is_vague(each.id):
            yield each.lineno, "variable", each.id


def share(folder: Path) -> float:
    """The percentage of functions below a folder that use a vague name."""
    functions = [
        node
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, Function)
    ]
    return 100 * sum(any(True for _ in _of_function(node)) for node in functions) / max(len(functions), 1)


def main() -> None:
    """Prints every place, and the share."""
    for folder in map(Path, sys.argv[1:]):
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.py")):
            for line, kind, name in sorted(set(vague_names(path))):
                print(f"{path}:{line}: {kind} {name}")
        if folder.is_dir():
            print(f"{folder}: {share(folder):.1f}% of functions use a name that says nothing about its value")


if __name__ == "__main__":
    main()
