"""limner annotate scale: the grades and reasons of a store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from limner.cli.commands.answers import Where, opened
from limner.cli.console import answer
from limner.cli.options import Json
from limner.core.errors import count


def scale(
    store: Where,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Own grades and reasons: .toml or .json.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the grades and reasons of a store as TOML; with a file, set its own ones before the first answer.

    Each grade counts as yes, weak yes, weak no or no for the measures. A store that does not exist is created.

    Examples:
      $ limner annotate scale work.db
      $ limner annotate scale work.db products.toml
    """
    from limner.annotate.guideline import newest
    from limner.annotate.own_scale import as_toml, read_scale, set_scale
    from limner.annotate.store.scales import scale_of

    given = None if file is None else read_scale(file)
    with opened(store, create=given is not None) as db:
        if given is not None:
            set_scale(db, given[0], guideline=given[1])
        held, rules = scale_of(db), newest(db)
    shown = as_toml(held, guideline=rules.text if held.own else "")
    data = {**asdict(held), "own": held.own, "guideline": rules.version}
    set_line = f"{len(held.grades)} grades and {count(len(held.reasons), 'reason')}; guideline {rules.version}"
    answer(shown.rstrip() if given is None else set_line, data, as_json=as_json)
