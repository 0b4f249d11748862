"""--json and --trust: options of the program, like --help. Every command takes them, before its name or after it."""

from __future__ import annotations

import copy
import functools
from typing import Annotated, Any

import typer

NAMES = ("trust", "as_json")
"""The parameters of a command that the program sets, if the command has them."""
NOTE = "Every command takes --json, --trust and --help: limner help."


def _before_or_after(context: typer.Context, parameter: typer.CallbackParam, value: bool) -> bool:
    """Whether the option is before the name of the command or after it."""
    return value or bool(context.find_root().params.get(str(parameter.name)))


def _option(name: str, about: str) -> Any:
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
