"""Imports LanceDB without the parts that an index does not need."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from limner.core.errors import MissingExtra

UNUSED = ("lance_namespace_urllib3_client", "lance_namespace_urllib3_client.models", "lance_namespace")
"""The client of a catalogue server and its data classes, half of LanceDB's import; an index has no such server."""


def lancedb() -> Any:
    """The package."""
    try:
        if "lancedb" not in sys.modules:
            _postpone()
        import lancedb as package
    except ImportError:
        raise MissingExtra("the index", "lancedb", "store") from None
    return package


def _postpone() -> None:
    for name in UNUSED:
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = made = (_PostponedClasses if name == UNUSED[-1] else _Postponed)(spec)
            parent, _, child = name.rpartition(".")
            if parent:
                sys.modules[parent].__dict__[child] = made


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


class _PostponedClasses(_Postponed):
    """A package whose classes are stood in for until one is called, compared or looked into."""

    def __getattr__(self, name: str) -> Any:
        if self.__dict__.get("_run") or not (name[:1].isupper() or name == "connect"):
            return super().__getattr__(name)
        if name == "connect":
            return lambda *given, **named: _Postponed.__getattr__(self, "connect")(*given, **named)
        return self.__dict__.setdefault(name, _StandIn(name, (), {"package": self}))


class _StandIn(type):
    """A class that takes the place of one of a postponed package."""

    @property
    def real(cls) -> Any:
        """The class that it stands in for; the package takes its place when its code runs."""
        package = cls.__dict__["package"]
        if not package.__dict__.get("_run"):
            _Postponed.__getattr__(package, cls.__name__)
        if package.__dict__[cls.__name__] is cls:
            raise AttributeError(f"module {package.__name__!r} has no attribute {cls.__name__!r}")
        return package.__dict__[cls.__name__]

    def __call__(cls, *given: object, **named: object) -> Any:
        return cls.real(*given, **named)

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, cls.real)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cls.real, name)
