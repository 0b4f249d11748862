"""limner data: describe, convert and audit collections; 'limner list datasets' names the formats."""

from __future__ import annotations

import typer

from limner.cli.commands.data import audit, convert, describe

app = typer.Typer(
    no_args_is_help=True, help="Describe, convert and audit collections ('limner list datasets' names what is read)."
)
app.command("describe")(describe.describe)
app.command("convert")(convert.convert)
app.command("audit")(audit.audit)
