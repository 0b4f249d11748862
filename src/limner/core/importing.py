"""Imports "module:thing" names, reads their documentation, and refuses such names in files.

Importing a module runs it. So a user may name a module, on the command line or in Python, but a file may not.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from limner.core.errors import LimnerError, Untrusted


def imported(place: str, *, what: str, name: str | None = None) -> Any:
    """Imports the object named by "module:thing".

    Args:
        place: The import path, "module:thing".
        what: The kind of object, for error messages.
        name: The name that the user gave; `place` by default.

    >>> imported("json:loads", what="reader")("[1]")
    [1]
    """
    module, _, thing = place.partition(":")
    name = name or place
    if not all(part.isidentifier() for part in module.split(".")):
        raise LimnerError(f"{what} {name!r}: {module!r} is not a module name")
    try:
        found = _module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its imports is missing
        raise LimnerError(
            f"{what} {name!r}: there is no module {module!r}; expected 'module:thing' or a known name. Is it "
            "installed, in this folder, or on PYTHONPATH?"
        ) from error
    except SyntaxError as error:
        raise LimnerError(f"{what} {name!r}: module {module!r} is not valid Python: {error}") from error
    if not hasattr(found, thing):
        raise LimnerError(f"{what} {name!r}: module {module!r} has no {thing!r}; check the name after the colon")
    return getattr(found, thing)


def documented(place: str) -> str:
    """The docstring of "module:thing", read from its source; empty if it has none or the source is missing."""
    module, _, thing = place.partition(":")
    file = source_file(module)
    if file is None:
        return ""
    defined = {getattr(node, "name", None): node for node in ast.parse(file.read_text(encoding="utf-8")).body}
    node = defined.get(thing)
    return (ast.get_docstring(node) or "") if isinstance(node, ast.ClassDef | ast.FunctionDef) else ""


def source_file(module: str) -> Path | None:
    """The source file of a module, found without importing it or its parent packages; None if there is none.

    >>> source_file("json.decoder").name, source_file("no_such_module")
    ('decoder.py', None)
    """
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin)
    if below:
        place = place.parent.joinpath(*below)
        place = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return place if place.suffix == ".py" and place.is_file() else None


def _module(name: str) -> types.ModuleType:
    """Imports an installed module, or else one in the current folder, as a script there would."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        here = os.getcwd()
        if error.name != name.partition(".")[0] or here in sys.path:
            raise
        sys.path.append(here)
        try:
            importlib.invalidate_caches()
            return importlib.import_module(name)
        finally:
            sys.path.remove(here)


def refuse_code(values: Mapping[str, object], *, where: object) -> None:
    """Refuses "module:thing" anywhere in options read from a file, before anything can import it.

    >>> refuse_code({"device": "cuda:1", "features": "photos.npy"}, where="options.toml")
    >>> refuse_code({"features": {"encoder": "os:system"}}, where="options.toml")
    Traceback (most recent call last):
    limner.core.errors.Untrusted: option features.encoder in options.toml 'os:system' is named by a file, ...
    """
    for path, value in _strings(values, ""):
        module, _, thing = value.partition(":")
        if module and thing and not set(value) & set("/\\") and path.rpartition(".")[2] != "device":
            raise Untrusted(f"option {path} in {where}", value, ())


def _strings(value: object, path: str) -> Iterable[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from _strings(held, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for held in value:
            yield from _strings(held, path)
