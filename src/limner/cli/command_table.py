"""The commands of `limner`, by their file names, and the options that all take. Only the one that runs is imported."""

from __future__ import annotations

import copy
import functools
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from limner.cli import commands
from limner.cli.attached_options import attached

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


NAMES = ("trust", "as_json")
"""The parameters of a command that the program sets, if the command has them."""
NOTE = "Every command takes --json, --trust and --help: limner help."


def _before_or_after(context: typer.Context, parameter: typer.CallbackParam, value: bool) -> bool:
    """Whether the option is before the name of the command or after it."""
    return value or bool(context.find_root().params.get(str(parameter.name)))


def _option(name: str, about: str) -> object:
    return typer.Option(
        name, metavar="", help=about, rich_help_panel="Options of every command", callback=_before_or_after
    )


Json = Annotated[bool, _option("--json", "Print only JSON on stdout.")]
Trust = Annotated[bool, _option("--trust", "Allow files to run code that they name (module:thing).")]


def with_program_options(command: Any) -> None:
    """Gives a command the options of the program instead of its own; its help names them in a line.

    Args:
        command: The command; its function has the parameters of `NAMES` that it uses.
    """
    own_names = {param.name for param in command.params}
    own_params, run = command.get_params, command.callback
    command.params = [param for param in command.params if param.name not in NAMES]
    in_help = copy.copy(command)
    in_help.epilog = NOTE

    def all_params(context: typer.Context) -> list[Any]:
        program = [param for param in context.find_root().command.params if param.name in NAMES]
        return [*own_params(context), *program]

    @functools.wraps(run)
    def run_with_own(**values: Any) -> object:
        return run(**{name: value for name, value in values.items() if name in own_names})

    command.get_params, command.callback, command.format_help = all_params, run_with_own, in_help.format_help
