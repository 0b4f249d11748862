"""The command `limner`: parse, one public call, print."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from limner import __version__
from limner.cli import commands
from limner.cli.console import put
from limner.cli.errors import STATUSES, Shell

__all__ = ["app"]

app = typer.Typer(
    name="limner",
    cls=Shell,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        put(f"limner {__version__}")
        raise typer.Exit


_STATUSES = "\n".join(["Exit status:", *(f"{status:>5}  {meaning}" for status, meaning in STATUSES.items())])


@app.callback(epilog=_STATUSES)
def limner(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="LIMNER_DEBUG", hidden=True)] = False,
) -> None:
    """Match images with text, measure the match honestly, and show why it fails.

    Start with [bold]limner demo[/]; every command has help with examples: [bold]limner evaluate --help[/].
    """


# The order of the help. A command that is not listed comes after these, by name.
ORDER = (
    "demo", "train", "evaluate", "compare", "ranks", "board", "report", "explain", "attack", "probe", "text-only",
    "uncertainty", "index", "search", "serve",
    "encode", "rerank", "fuse", "assign", "measures", "protocols", "systems", "encoders", "corrections",
    "fusions", "scorers", "losses", "datasets", "data", "audit", "annotate",
)  # fmt: skip


def found_commands() -> dict[str, Callable[..., object] | typer.Typer]:
    """The commands in the files of `limner.cli.commands`, by name.

    A file NAME.py holds the command NAME: a function NAME, or a Typer called `app` for a command with subcommands.
    A file with other commands lists them in `COMMANDS`, name to function.
    """
    found: dict[str, Any] = {}
    for _, name, _ in pkgutil.iter_modules(commands.__path__):
        module = import_module(f"{commands.__name__}.{name}")
        own = getattr(module, "app", getattr(module, name, None))
        found |= getattr(module, "COMMANDS", {name: own} if own is not None else {})
    return {
        name: found[name] for name in sorted(found, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), n))
    }


for _name, _command in found_commands().items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(_command)
