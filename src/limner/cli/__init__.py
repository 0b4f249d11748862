"""The command `limner`: parse, one public call, print."""

from __future__ import annotations

from typing import Annotated

import typer

from limner import __version__
from limner.cli.commands import (
    annotate,
    attack,
    compare,
    data,
    demo,
    encode,
    evaluate,
    explain,
    fuse,
    index,
    lists,
    report,
    rerank,
    search,
    serve,
    text_only,
    train,
)
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

    Begin with [bold]limner demo[/]; every command explains itself, with examples: [bold]limner evaluate --help[/].
    """


app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("explain")(explain.explain)
app.command("attack")(attack.attack)
app.command("text-only")(text_only.text_only)
app.command("index")(index.index)
app.command("search")(search.search)
app.command("serve")(serve.serve)
app.command("encode")(encode.encode)
app.command("rerank")(rerank.rerank)
app.command("fuse")(fuse.fuse)
app.command("assign")(fuse.assign)
app.add_typer(data.app, name="data")
app.add_typer(annotate.app, name="annotate")
for _name, _command in lists.COMMANDS.items():
    app.command(_name)(_command)
