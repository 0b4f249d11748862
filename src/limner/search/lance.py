"""Imports LanceDB without the parts that an index does not need."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from limner.core.errors import MissingExtra

UNUSED = "lance_namespace_urllib3_client"
"""The client of a catalogue server. LanceDB needs only its data classes; the rest is half of LanceDB's import time."""


def lancedb() -> Any:
    """The package."""
    try:
        if "lancedb" not in sys.modules and UNUSED not in sys.modules and (spec := find_spec(UNUSED)):
            sys.modules[UNUSED] = _Postponed(spec)
        import lancedb as package
    except ImportError:
        raise MissingExtra("the index", "lancedb", "store") from None
    return package


class _Postponed(ModuleType):
    """A package whose code runs when one of its names is first used; its submodules can be imported before that."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__, self.__loader__, self.__package__ = spec, spec.loader, spec.name
        self.__path__ = list(spec.submodule_search_locations or [])
        self.__file__ = spec.origin

    def __getattr__(self, name: str) -> Any:
        run = self.__dict__.get("__loader__")
        if name.startswith("__") or run is None or self.__dict__.get("_run"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._run = True
        run.exec_module(self)
        return getattr(self, name)
