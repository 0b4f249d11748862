"""The commands of `limner`, found by their file names. Only the command that runs is imported and built."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

from limner.cli import commands

# The order in the help. Commands that are not listed follow in alphabetical order.
ORDER = (
    "demo", "train", "evaluate", "compare", "ranks", "board", "slices", "report", "languages", "explain", "attack",
    "probe", "composed", "text-only", "uncertainty", "gap", "mixed", "map", "index", "search", "serve",
    "encode", "rerank", "fuse", "assign", "measures", "protocols", "systems", "encoders", "corrections",
    "fusions", "scorers", "losses", "datasets", "data", "audit", "annotate",
)  # fmt: skip

Found = Mapping[str, Callable[..., object] | typer.Typer]


class Commands(Mapping[str, Any]):
    """All commands by name, in the order of `limner --help`.

    A file NAME.py contains the command NAME: a function NAME, or a Typer called `app` for a command with subcommands. A
    file with other commands lists them in `COMMANDS`, name to function.
    """

    def __getitem__(self, name: str) -> object:
        if name.startswith("-"):  # an option
            raise KeyError(name)
        return _built(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(_all(), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name)))

    def __len__(self) -> int:
        return len(_all())


@cache
def _built(name: str) -> object:
    """The command for the parser; KeyError if there is no command of this name."""
    file = name.replace("-", "_")
    found = _in_file(file) if file in _files() else {}
    command = found[name] if name in found else _all()[name]
    group = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    group.callback()(lambda: None)
    if isinstance(command, typer.Typer):
        group.add_typer(command, name=name)
    else:
        group.command(name)(command)
    built: Any = typer.main.get_command(group)
    return built.commands[name]


@cache
def _files() -> tuple[str, ...]:
    return tuple(name for _, name, _ in pkgutil.iter_modules(commands.__path__))


@cache
def _in_file(file: str) -> Found:
    module = import_module(f"{commands.__name__}.{file}")
    own = getattr(module, "app", getattr(module, file, None))
    found: Found = getattr(module, "COMMANDS", {file: own} if own is not None else {})
    return found


@cache
def _all() -> Found:
    return {name: command for file in _files() for name, command in _in_file(file).items()}
