"""Lazy submodules: imported on first use, so that `import limner` is enough to reach them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def submodules(package: str) -> Callable[[str], object]:
    """The `__getattr__` of a package: imports a public submodule by its name.

    Args:
        package: Name of the package.

    >>> submodules("limner.language")("word_overlap").__name__
    'limner.language.word_overlap'
    """

    def found(name: str) -> ModuleType:
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return found
