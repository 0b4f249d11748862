"""The registry: named objects that are imported on first use, and their options.

Data sets, encoders, systems, corrections, measures, fusions, losses and pair scorers are each a `Registry`, which lists
the import paths of the built-in objects. On the command line and in Python, "module:thing" works in place of a name, so
your own code needs no registration; `register` gives it a name in this process. A file may not use "module:thing":
names in a model, index, store or data set must be in the registry, unless the user trusts the file, because importing a
module runs it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from limner.core.errors import LimnerError, MissingExtra, UnknownName, Untrusted
from limner.core.extras import of_an_extra
from limner.core.options import Option, OptionValues, checked, options_of, parsed_call, takes, typed

__all__ = ["Entry", "Option", "Registry", "checked", "options_of", "refuse_code", "takes", "typed"]

T = TypeVar("T")
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Entry:
    """The description of a registered object: its name, documentation and options."""

    name: str
    doc: str
    options: tuple[Option, ...]

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return self.doc.partition("\n")[0]


class Registry(Mapping[str, Thing]):
    """Named objects of one kind.

    Args:
        what: The kind of object, for error messages: "correction".
        homes: Import paths of objects, as "module:thing"; imported on first use.
        filled: Leading positional arguments, which are not options.

    >>> readers: Registry[Callable[[str], Any]] = Registry("reader", {"json": "json:loads"})
    >>> readers["json"]("[1]"), readers.find("math:sqrt")(4.0)
    ([1], 2.0)
    >>> @readers.register("upper")
    ... def upper(text: str) -> str:
    ...     return text.upper()
    >>> list(readers), readers.name_of(upper)
    (['json', 'upper'], 'upper')
    >>> readers.find("jsn")
    Traceback (most recent call last):
    limner.core.errors.UnknownName: unknown reader 'jsn': did you mean 'json'?
    """

    def __init__(self, what: str, homes: Mapping[str, str], *, filled: int = 0) -> None:
        self.what = what
        self.homes = homes
        self.filled = filled
        self._own: dict[str, Thing] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Registers your own object under a name: `@corrections.register("mine")`."""
        if not isinstance(name, str) or not name or ":" in name:
            raise LimnerError(f"{self.what} {name!r}: expected a name without a colon")
        if name in self:
            raise LimnerError(f"{self.what} {name!r} is already registered: choose another name")

        def keep(definition: T) -> T:
            self._own[name] = typing.cast(Thing, definition)
            return definition

        return keep

    def parsed(self, text: str, options: Mapping[str, object] | None = None) -> tuple[str, dict[str, object]]:
        """Parses a name, or a name with options in parentheses, as users write them in Python and at the shell.

        Args:
            text: "csls", "csls(k=5)" or "module:thing(k=5)".
            options: Options given as keyword arguments; they take precedence over those in parentheses.

        >>> Registry("correction", {}).parsed("csls(k=5)", {"weight": 0.5})
        ('csls', {'k': 5, 'weight': 0.5})
        """
        if not isinstance(text, str):
            raise LimnerError(f"{self.what} {text!r} is {type(text).__name__}: expected a name")
        name, written = parsed_call(text, what=self.what)
        return name, {**written, **(options or {})}

    def names(self, text: str) -> bool:
        """Whether a text is a name in the registry, with or without options in parentheses."""
        return text.partition("(")[0].strip() in self

    def find(self, name: str, *, trusted: bool = True) -> Thing:
        """Imports the object with this name.

        Args:
            name: A name of the registry, or "module:thing".
            trusted: Whether "module:thing" may be imported. False for a name that was read from a file.

        >>> Registry("reader", {}).find("json:loads", trusted=False)
        Traceback (most recent call last):
        limner.core.errors.Untrusted: reader 'json:loads' is named by a file, and is code from outside...
        """
        if not isinstance(name, str):
            raise LimnerError(f"{self.what} {name!r} is {type(name).__name__}: expected a name")
        if name in self._own:
            return self._own[name]
        module, colon, attribute = self.homes.get(name, name).partition(":")
        if not colon or not module or not attribute:
            raise UnknownName(self.what, name, self)
        if not trusted and name not in self.homes:
            raise Untrusted(self.what, name, self)
        try:
            return typing.cast(Thing, imported(f"{module}:{attribute}", what=self.what, name=name))
        except MissingExtra as error:  # the module may hold several, and names itself
            raise MissingExtra(f"{self.what} {name!r}", error.package, error.extra) from error
        except ModuleNotFoundError as error:
            raise of_an_extra(error, what=f"{self.what} {name!r}") or error from error

    def make(self, name: str, options: Mapping[str, object], *, trusted: bool = True) -> Any:
        """Calls the object with options; unknown options and values of the wrong type are refused."""
        definition: Any = self.find(name, trusted=trusted)
        return definition(**self.checked(name, options, trusted=trusted))

    def checked(self, name: str, options: Mapping[str, object], *, trusted: bool = True) -> OptionValues:
        """Checks the options of an object: see `checked`."""
        definition: Any = self.find(name, trusted=trusted)
        return checked(definition, options, what=f"{self.what} {name!r}", filled=self.filled)

    def name_of(self, definition: Any) -> str:
        """The name of an object; "module:thing" if it is not registered."""
        home = f"{definition.__module__}:{definition.__qualname__}"
        named = [name for name, place in self.homes.items() if place == home]
        named += [name for name, registered in self._own.items() if registered is definition]
        return named[0] if named else home

    def finds(self, definition: object) -> bool:
        """Whether the name of an object leads back to the same object in this process."""
        try:
            return self.find(self.name_of(definition)) is definition
        except LimnerError:
            return False

    def about(self, name: str) -> Entry:
        """The description of one object; imports it."""
        definition: object = self.find(name)
        doc = (inspect.getdoc(definition) or "").strip()
        options = options_of(definition, filled=self.filled) if callable(definition) else ()
        return Entry(name, doc, options)

    def summaries(self) -> dict[str, str]:
        """The first line of every docstring, read without importing the modules.

        >>> Registry("reader", {"json": "json:loads"}).summaries()["json"][:11]
        'Deserialize'
        """
        docs = {name: documented(place) for name, place in self.homes.items()}
        docs |= {name: inspect.getdoc(registered) or "" for name, registered in self._own.items()}
        return {name: doc.strip().partition("\n")[0] for name, doc in docs.items()}

    def __getitem__(self, name: str) -> Thing:
        if name not in self:
            raise KeyError(name)
        return self.find(name)

    def __contains__(self, name: object) -> bool:
        return name in self.homes or name in self._own

    def __iter__(self) -> Iterator[str]:
        yield from self.homes
        yield from self._own

    def __len__(self) -> int:
        return len(self.homes) + len(self._own)


def imported(place: str, *, what: str, name: str | None = None) -> Any:
    """Imports the object named by "module:thing".

    Args:
        place: The import path, "module:thing" or "module:thing.part".
        what: The kind of object, for error messages.
        name: The name that the user gave; `place` by default.

    >>> imported("json:loads", what="reader")("[1]")
    [1]
    """
    module, _, attribute = place.partition(":")
    name = name or place
    if not all(part.isidentifier() for part in module.split(".")):
        raise LimnerError(f"{what} {name!r}: {module!r} is not a module name")
    try:
        loaded = _module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its imports is missing
        raise LimnerError(
            f"{what} {name!r}: there is no module {module!r}; expected 'module:thing' or a known name. Is it "
            "installed, in this folder, or on PYTHONPATH?"
        ) from error
    except SyntaxError as error:
        raise LimnerError(f"{what} {name!r}: module {module!r} is not valid Python: {error}") from error
    try:
        return operator.attrgetter(attribute)(loaded)
    except AttributeError:
        raise LimnerError(
            f"{what} {name!r}: module {module!r} has no {attribute!r}; check the name after the colon"
        ) from None


def documented(place: str) -> str:
    """The docstring of "module:thing", read from its source; empty if it has none or the source is missing."""
    module, _, attribute = place.partition(":")
    file = source_file(module)
    if file is None:
        return ""
    defined = {getattr(node, "name", None): node for node in ast.parse(file.read_text(encoding="utf-8")).body}
    node = defined.get(attribute)
    return (ast.get_docstring(node) or "") if isinstance(node, ast.ClassDef | ast.FunctionDef) else ""


def source_file(module: str) -> Path | None:
    """The source file of a module, found without importing it or its parent packages; None if there is none.

    >>> source_file("json.decoder").name, source_file("no_such_module")
    ('decoder.py', None)
    """
    top, *submodules = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin)
    if submodules:
        place = place.parent.joinpath(*submodules)
        place = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return place if place.suffix == ".py" and place.is_file() else None


def _module(name: str) -> types.ModuleType:
    """Imports an installed module, or else one in the current folder, as a script there would."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        folder = os.getcwd()
        if error.name != name.partition(".")[0] or folder in sys.path:
            raise
        sys.path.append(folder)
        try:
            importlib.invalidate_caches()
            return importlib.import_module(name)
        finally:
            sys.path.remove(folder)


def refuse_code(values: Mapping[str, object], *, where: object) -> None:
    """Refuses "module:thing" anywhere in options read from a file, before anything can import it.

    >>> refuse_code({"device": "cuda:1", "features": "photos.npy"}, where="options.toml")
    >>> refuse_code({"features": {"encoder": "os:system"}}, where="options.toml")
    Traceback (most recent call last):
    limner.core.errors.Untrusted: option features.encoder in options.toml 'os:system' is named by a file, ...
    """
    for path, value in _strings(values, ""):
        module, _, attribute = value.partition(":")
        if module and attribute and not set(value) & set("/\\") and path.rpartition(".")[2] != "device":
            raise Untrusted(f"option {path} in {where}", value, ())


def _strings(value: object, path: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, path)
