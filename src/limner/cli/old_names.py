"""Warnings on the command line, one line each on stderr; old option names still work with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from limner.cli.console import tell
from limner.core.errors import LimnerWarning
from limner.core.renamed import RenamedOption, old_names


def with_new_names(command: object, arguments: Sequence[str]) -> list[str]:
    """The arguments of a command with the old names of its options replaced.

    The old names of the command or subcommand come from `limner.core.renamed.renamed`.
    """
    found: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            return [*found, *arguments[place:]]
        command = getattr(command, "commands", {}).get(word, command)
        found.append(_new_name(word, _options(command)))
    return found


def _options(command: object) -> dict[str, str]:
    names = old_names(getattr(command, "callback", None))
    return {_option(old): _option(new) for old, new in names.items()}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _new_name(word: str, names: dict[str, str]) -> str:
    name, equals, value = word.partition("=")
    if name not in names:
        return word
    tell(f"warning: option {name} is now called {names[name]}")
    return names[name] + equals + value


@contextmanager
def warnings_told() -> Iterator[None]:
    """Shows each of limner's warnings as one line on stderr."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, (RenamedOption, LimnerWarning)):
            tell(f"warning: {message}")
        else:
            plain(message, category, *rest, **more)

    with warnings.catch_warnings():
        for kind in (RenamedOption, LimnerWarning):
            warnings.simplefilter("always", kind)
        plain, warnings.showwarning = warnings.showwarning, show
        yield
