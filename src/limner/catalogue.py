"""Catalogues: names for things that are imported only when asked for.

A catalogue is a plain mapping from a name to "module:thing". Wherever limner takes a name from one, it takes
"module:thing" too, so a data set, system or encoder of one's own needs no registration.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from limner.errors import LimnerError, UnknownName


def resolve(name: str, catalogue: Mapping[str, str], *, what: str) -> Any:
    """The thing behind a name, imported now.

    Args:
        name: A name in the catalogue, or "module:thing".
        catalogue: Names and where each lives, as "module:thing".
        what: What the names name; used in messages only.

    >>> resolve("json:loads", {}, what="data set")("[1]")
    [1]
    """
    target = catalogue.get(name, name)
    module, colon, thing = target.partition(":")
    if not colon or not module or not thing:
        raise UnknownName(what, name, catalogue)
    try:
        return getattr(importlib.import_module(module), thing)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module is there, but something that it needs is not
        raise LimnerError(
            f"{what} {name!r}: there is no module {module!r}; expected 'module:thing' or a known name"
        ) from error
    except AttributeError as error:
        raise LimnerError(
            f"{what} {name!r}: module {module!r} has no {thing!r}; check the name after the colon"
        ) from error
