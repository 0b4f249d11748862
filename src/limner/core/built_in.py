"""Built-in objects are declared where they are defined, and found without importing their modules.

A module of limner marks an object with `@built_in("correction", "csls")`. The registry of corrections searches the
source files of its packages for such lines. So a new built-in object touches only one file, and listing the names does
not import anything heavy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

from limner.core.errors import LimnerError
from limner.core.importing import source_file

T = TypeVar("T")

_DECLARATION = re.compile(r"^@built_in\((.*?)\)\n(?=@|class |def )", flags=re.MULTILINE | re.DOTALL)
_DEFINITION = re.compile(r"^(?:class|def) (\w+)", flags=re.MULTILINE)


@dataclass(frozen=True)
class Declaration:
    """A built-in object, as declared in the source.

    Args:
        kind: The kind of object: "correction".
        name: Its name in the registry.
        home: Where it is, as "module:thing".
        order: Sort key in lists, before the name: lower numbers first.
        facts: Further declared values, such as the file patterns of a data set.
    """

    kind: str
    name: str
    home: str
    order: int = 100
    facts: Mapping[str, object] = field(default_factory=dict)


def built_in(kind: str, name: str, /, *, order: int = 100, **facts: object) -> Callable[[T], T]:
    """Declares a class or function as built in; it is returned unchanged.

    The arguments must be literals, because they are read from the source. For several names, use several decorators.

    Args:
        kind: The kind of object, as its registry calls it: "correction".
        name: Its name in the registry.
        order: Sort key in lists, before the name: lower numbers first.
        facts: Further values that the registry of this kind needs.
    """
    return lambda thing: thing


def declarations(packages: Iterable[str]) -> Iterator[Declaration]:
    """All declarations in packages or modules of limner and the packages below them, by file and line.

    >>> [each.name for each in declarations(["limner.match.corrections"])][:2]
    ['csls', 'inverted_softmax']
    """
    return (each for package in packages for each in _in_package(package))


@cache
def _in_package(package: str) -> tuple[Declaration, ...]:
    first = source_file(package)
    if first is None:
        raise LimnerError(f"{package}: the source files are missing; install limner again")
    found: list[Declaration] = []
    for path in sorted(first.parent.rglob("*.py")) if first.name == "__init__.py" else [first]:
        source = path.read_text(encoding="utf-8")
        if "\n@built_in(" in source:  # most files have none, and this check is faster than the regular expression
            found.extend(_declared(source, _module_name(package, first, path)))
    return tuple(found)


def _module_name(package: str, first: Path, path: Path) -> str:
    below = path.relative_to(first.parent).with_suffix("").parts
    return package if path == first else ".".join([package, *below]).removesuffix(".__init__")


def _declared(source: str, module: str) -> Iterator[Declaration]:
    for found in _DECLARATION.finditer(source):
        defined = _DEFINITION.search(source, found.end())
        call = ast.parse(f"built_in({found[1]})", mode="eval").body
        if defined is None or not isinstance(call, ast.Call):  # the regular expression above excludes both
            continue
        kind, name = (ast.literal_eval(argument) for argument in call.args)
        facts = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        yield Declaration(kind, name, f"{module}:{defined[1]}", facts.pop("order", 100), facts)
