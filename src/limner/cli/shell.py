"""The command `limner` itself: its options and its help. `limner.cli.command_table` has the subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from limner import __version__
from limner.cli.console import put
from limner.cli.errors import STATUSES, Shell
from limner.cli.program_options import Json, Trust

__all__ = ["app"]

app = typer.Typer(
    name="limner",
    cls=Shell,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(is_set: bool) -> None:
    if is_set:
        put(f"limner {__version__}")
        raise typer.Exit


_STATUSES = "\n".join(["Exit status:", *(f"{status:>5}  {meaning}" for status, meaning in STATUSES.items())])


@app.callback(epilog=_STATUSES)
def limner(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    trust: Trust = False,
    as_json: Json = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="LIMNER_DEBUG", hidden=True)] = False,
) -> None:
    """Match images with text, evaluate the result, and explain failures.

    Start with [bold]limner demo[/]; every command has help with examples: [bold]limner evaluate --help[/].
    """
