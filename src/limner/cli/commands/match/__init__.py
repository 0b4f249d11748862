"""limner match: re-rank, fuse or assign what systems returned."""

from __future__ import annotations

import typer

from limner.cli.commands.match import fuse, rerank

app = typer.Typer(no_args_is_help=True, help="Re-rank, fuse or assign what systems returned.")
app.command("rerank")(rerank.rerank)
app.command("fuse")(fuse.fuse)
app.command("assign")(fuse.assign)
