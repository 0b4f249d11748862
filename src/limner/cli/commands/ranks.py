"""limner ranks: the ranking of systems under each measure, as a table and a chart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.console import answer
from limner.cli.options import Json, out_word, refuse_ending, saved, word

if TYPE_CHECKING:
    from limner.papers.published_tables import Direction


def ranks(
    reports: Annotated[
        list[Path] | None, typer.Argument(metavar="[REPORT]", help="Reports of 'limner evaluate --save FILE.json'.")
    ] = None,
    published: Annotated[
        str | None, word("Use the 25 published models of ECCV Caption instead: mean, i2t or t2i.", metavar="WAY")
    ] = None,
    system: Annotated[list[str] | None, word("Only this system, ranked among the selected ones. Repeatable.")] = None,
    measure: Annotated[
        list[str] | None, word("Only this measure, named as in the table. Repeatable.", metavar="'VIEW WAY MEASURE'")
    ] = None,
    save: Annotated[Path | None, out_word("Write the chart: .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Show the rank of every system under every measure, and whether measures agree (Kendall's tau-b).

    Examples:
      $ limner ranks a.json b.json c.json --save ranks.svg
      $ limner ranks --published mean --measure "coco-5k R@1" --measure "eccv mAP@R"
    """
    from limner.core.files import write_text
    from limner.evaluation.boards.ranks import of_reports
    from limner.evaluation.reports.report import load_reports
    from limner.papers.published_tables import ranks_of, scores

    if bool(reports) == (published is not None):
        raise typer.BadParameter("give either reports or --published")
    refuse_ending([save] if save else None, (".svg",), "chart")
    way: Direction = published  # type: ignore[assignment]  # another word is refused there
    found = ranks_of(scores(way)) if published is not None else of_reports(load_reports(reports or []))
    found = found.only(systems=system or (), columns=measure or ())
    if save is not None:
        write_text(save, found.svg())
        saved([save])
    data = {
        "systems": list(found.systems), "measures": list(found.columns), "values": found.values.tolist(),
        "ranks": found.ranks.tolist(), "tau": found.tau.tolist(),
    }  # fmt: skip
    answer(str(found), data, as_json=as_json)
