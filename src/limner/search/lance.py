"""Imports LanceDB without the parts that an index does not need."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from limner.core.extras import require

UNUSED = ("lance_namespace_urllib3_client", "lance_namespace_urllib3_client.models")
"""The client of a catalogue server, half of LanceDB's import; an index has no such server."""
UNUSED_CLASSES = ("lance_namespace", "lancedb.namespace", "lancedb.remote.db")
"""Classes for a catalogue server and for LanceDB's own servers, which other modules import by name."""


def lancedb() -> ModuleType:
    """The package."""
    require_store()
    postponed = {} if "lancedb" in sys.modules else _postpone()
    import lancedb as package

    _attach(postponed)
    return package


def require_store() -> None:
    """Refuses an index before any work for it, unless the packages of the extra are installed."""
    require("lancedb", "filelock", "pyarrow", what="the index", extra="store")


def _postpone() -> dict[str, ModuleType]:
    """Puts modules that run later where an import looks first; returns them by name."""
    made: dict[str, ModuleType] = {}
    for name in (*UNUSED, *UNUSED_CLASSES):
        if name not in sys.modules and (spec := _spec(name)):
            made[name] = (_PostponedClasses if name in UNUSED_CLASSES else _Postponed)(spec)
    sys.modules.update(made)
    _attach(made)
    return made


def _attach(made: Mapping[str, ModuleType]) -> None:
    """Makes modules attributes of their packages, as an import does, where those are imported already."""
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            sys.modules[parent].__dict__[child] = module


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, found without importing its packages."""
    places: Sequence[str] | None = None
    found: ModuleSpec | None = None
    parts = name.split(".")
    for depth in range(len(parts)):
        found = PathFinder.find_spec(".".join(parts[: depth + 1]), places)
        if found is None:
            return None
        places = found.submodule_search_locations
    return found


class _Postponed(ModuleType):
    """A module whose code runs when one of its names is first used; its submodules can be imported before that."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__, self.__loader__, self.__package__ = spec, spec.loader, spec.parent
        if spec.submodule_search_locations is not None:
            self.__path__ = list(spec.submodule_search_locations)
        self.__file__ = spec.origin

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") or name == "_run" or self.__dict__.get("_run"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Runs its code, once."""
        loader = self.__spec__.loader if self.__spec__ else None
        if loader is not None and not self.__dict__.get("_run"):
            self._run = True
            loader.exec_module(self)


class _PostponedClasses(_Postponed):
    """A module whose classes are stood in for until one is called, compared or looked into."""

    def __getattr__(self, name: str) -> Any:
        connects = name.startswith("connect")
        if self.__dict__.get("_run") or not (name[:1].isupper() or connects):
            return super().__getattr__(name)
        if connects:
            return lambda *given, **named: self.loaded(name)(*given, **named)
        return self.__dict__.setdefault(name, _StandIn(name, (), {"package": self}))

    def loaded(self, name: str) -> Any:
        """A name of the module after its code has run."""
        self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Runs its code; that of LanceDB's modules first, whose signatures must name the same classes as LanceDB's."""
        others = [sys.modules.get(name) for name in UNUSED_CLASSES if name.startswith("lancedb.")]
        for other in others:
            if isinstance(other, _PostponedClasses):
                super(_PostponedClasses, other).load()
        super().load()


class _StandIn(type):
    """A class that takes the place of one of a postponed package."""

    @property
    def real(cls) -> Any:
        """The class that it stands in for; the package takes its place when its code runs."""
        package = cls.__dict__["package"]
        package.load()
        if package.__dict__[cls.__name__] is cls:
            raise AttributeError(f"module {package.__name__!r} has no attribute {cls.__name__!r}")
        return package.__dict__[cls.__name__]

    def __call__(cls, *given: object, **named: object) -> Any:
        return cls.real(*given, **named)

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, cls.real)

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(cls.real, name)
