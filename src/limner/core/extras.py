"""Imports on first use: optional packages, each named with the extra that installs it, and submodules."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from limner.core.errors import LimnerError, MissingExtra


def needed(module: str, *, what: str, extra: str, package: str = "") -> ModuleType:
    """Imports an optional module.

    Args:
        module: Its name.
        what: The feature that needs it; used in error messages only.
        extra: The extra of limner that installs the package.
        package: The package that contains it; by default the one of the same name.

    >>> needed("no_such_module", what="a page", extra="web")
    Traceback (most recent call last):
    limner.core.errors.MissingExtra: a page needs the package 'no_such_module', which is not installed: pip install ...
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != top:
            raise LimnerError(
                f"{what} needs {module!r}, which is installed but does not load ({error}): install the missing package"
            ) from error
        raise MissingExtra(what, package or top, extra) from error
    except RuntimeError as error:  # a compiled extension built for another torch version
        raise LimnerError(
            f"{what} needs {module!r}, which is installed but does not load ({error}): its compiled parts were built "
            "for another torch; install matching versions"
        ) from error


def require(*modules: str, what: str, extra: str) -> None:
    """Refuses a feature before its work starts, unless all modules of its extra are installed; imports none of them.

    >>> require("json", what="a page", extra="web")
    """
    absent = missing(*modules)
    if absent:
        raise MissingExtra(what, absent, extra)


def missing(*modules: str) -> str | None:
    """The first of the modules that is not installed; imports none of them.

    >>> missing("json", "no_such_module")
    'no_such_module'
    """
    return next((module for module in modules if find_spec(module) is None), None)


def submodules(package: str) -> Callable[[str], object]:
    """The `__getattr__` of a package: imports a public submodule by its name.

    Args:
        package: Name of the package.

    >>> submodules("limner.language")("word_overlap").__name__
    'limner.language.word_overlap'
    """

    def attribute(name: str) -> ModuleType:
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return attribute
