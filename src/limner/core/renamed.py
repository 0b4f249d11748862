"""Renamed options: the old name still works, and a warning says what to write instead.

`@renamed(least="min_count")` on a function, a class or the function of a command keeps the old keyword as an alias.
In Python the old name gives a `RenamedOption` warning, on the command line a line on stderr. Files are read with
`current`, without a warning, because users should not have to edit a saved model.
"""

from __future__ import annotations

import functools
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from limner.core.errors import LimnerError

T = TypeVar("T")
Value = TypeVar("Value")


class RenamedOption(DeprecationWarning):
    """An option was given under its old name."""


def renamed(**names: str) -> Callable[[T], T]:
    """Keeps the old names of keyword arguments as aliases.

    Args:
        names: New names by old name.

    >>> @renamed(least="min_count")
    ... def fit(*, min_count: int = 2) -> int:
    ...     return min_count
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(fit(least=5), "|", caught[0].message)
    5 | option least is now called min_count: write min_count=
    """

    def mark(thing: Any) -> Any:
        marked: Any = thing if isinstance(thing, type) else _translating(thing, names)
        if isinstance(thing, type) and not typing.is_typeddict(thing):
            thing.__init__ = _translating(thing.__init__, names)  # type: ignore[misc]
        marked.__renamed__ = {**old_names(thing), **names}
        return marked

    return mark


def _translating(function: Callable[..., object], names: Mapping[str, str]) -> Callable[..., object]:
    @functools.wraps(function)
    def call(*args: object, **options: object) -> Any:
        return function(*args, **translated(options, names))

    return call


def old_names(thing: object) -> dict[str, str]:
    """New names of the options of a function or class, by old name."""
    return dict(getattr(thing, "__renamed__", {}))


def translated(options: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Options by their new names, with a warning for each old one.

    Args:
        options: Values by name.
        names: New names by old name.
    """
    for old in options.keys() & names.keys():
        if names[old] in options:
            raise LimnerError(f"{old}= and {names[old]}= are the same option: leave out {old}=, its old name")
        warn(old, names[old], f"{names[old]}=")
    return current(options, names)


def current(options: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    """Options by their new names, without a warning: for saved files.

    >>> current({"least": 2, "name": "towers"}, {"least": "min_count"})
    {'min_count': 2, 'name': 'towers'}
    """
    return {names.get(name, name): value for name, value in options.items()}


def warn(old: str, new: str, written: str) -> None:
    """Warns that an option was renamed."""
    warnings.warn(f"option {old} is now called {new}: write {written}", RenamedOption, stacklevel=4)
