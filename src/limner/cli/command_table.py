"""The commands of `limner`, by their file names. Only the command that runs is imported and built."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

from limner.cli import commands
from limner.cli.attached_options import attached
from limner.cli.program_options import with_program_options

GROUPS = {
    "Start": ("demo", "data", "list"),
    "Measure": ("evaluate", "compare", "report"),
    "Understand": ("explain",),
    "Build": ("train", "encode", "match"),
    "Use": ("index", "search", "serve"),
    "Label": ("annotate",),
}
"""The commands in the order of the help, by group. Commands that are not listed follow in alphabetical order."""
ORDER = tuple(name for names in GROUPS.values() for name in names)

CommandTable = Mapping[str, Callable[..., object] | typer.Typer]


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
    own_commands = _in_file(file) if file in _files() else {}
    command = own_commands[name] if name in own_commands else _all()[name]
    group = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    group.callback()(lambda: None)
    if isinstance(command, typer.Typer):
        group.add_typer(command, name=name)
    else:
        group.command(name)(command)
    built: Any = typer.main.get_command(group)
    _lay_out(built.commands[name])
    built.commands[name].rich_help_panel = next((group for group, names in GROUPS.items() if name in names), "Further")
    return built.commands[name]


def _lay_out(command: Any) -> None:
    """Sets the help of a command and of its subcommands for a terminal."""
    command.help = laid_out(command.help or "")
    if any("-O" in getattr(param, "opts", ()) for param in getattr(command, "params", ())):
        parse_args = command.parse_args
        command.parse_args = lambda context, words: parse_args(context, attached(list(words), command))
    if not hasattr(command, "commands"):
        with_program_options(command)
    for each in getattr(command, "commands", {}).values():
        _lay_out(each)


def laid_out(text: str, width: int = 78) -> str:
    r"""A help text whose paragraphs can be wrapped to any width, and whose examples fit 80 columns.

    A line of an example that is too long ends in a backslash, and its rest is indented, as a shell reads it. An empty
    line before the second paragraph keeps Typer from removing the indent of the examples.

    >>> print(laid_out("Encode items.\n\nExamples:\n  $ limner encode scenes --side texts -o texts.npz", width=40))
    Encode items.
    <BLANKLINE>
    <BLANKLINE>
    Examples:
      $ limner encode scenes --side texts \
          -o texts.npz
    """
    first, *paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        [first, *(("\n" if n == 0 else "") + _paragraph(each, width) for n, each in enumerate(paragraphs))]
    )


@cache
def _files() -> tuple[str, ...]:
    return tuple(name for _, name, _ in pkgutil.iter_modules(commands.__path__))


@cache
def _in_file(file: str) -> CommandTable:
    module = import_module(f"{commands.__name__}.{file}")
    command = getattr(module, "app", getattr(module, file, None))
    file_commands: CommandTable = getattr(module, "COMMANDS", {file: command} if command is not None else {})
    return file_commands


@cache
def _all() -> CommandTable:
    return {name: command for file in _files() for name, command in _in_file(file).items()}


def _paragraph(text: str, width: int) -> str:
    if not text.startswith("Examples:"):
        return " ".join(text.split()) if "\n " not in text else text
    return "\n".join(each for line in text.split("\n") for each in _example(line, width))


def _example(line: str, width: int) -> list[str]:
    """A line of the examples, cut between words; an option stays with its value."""
    if len(line) <= width:
        return [line]
    parts = re.findall(r"-\S+ (?:'[^']*'|\"[^\"]*\"|[^-'\"\s]\S*)|'[^']*'|\"[^\"]*\"|\S+", line)
    lines = ["  " + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 > width:
            lines.append("     ")
        lines[-1] += " " + part
    return [*(f"{each} \\" for each in lines[:-1]), lines[-1]]
