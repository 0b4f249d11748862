"""limner report: a saved report as a page worth opening, or as a table for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from limner.cli.commands.evaluate import ENDINGS, labels_of
from limner.cli.console import answer, progress
from limner.cli.options import Json, Loading, Split, flag, load, part, refuse_ending, word


def report(
    file: Annotated[
        Path, typer.Argument(metavar="REPORT", help="A report that 'limner evaluate --save FILE.json' wrote.")
    ],
    out: Annotated[Path, word("What to write: .html .md .tex .csv .json.", "--out", "-o", metavar="FILE")] = Path(
        "report.html"
    ),
    collection: Annotated[str | None, word("The collection, for captions and thumbnails (html).")] = None,
    others: Annotated[list[Path] | None, word("Report of another system (html). Repeatable.", metavar="FILE")] = None,
    estimate: Annotated[
        str | None, word("With --others: answers to a plan, for differences under the complete truth.", metavar="STORE")
    ] = None,
    mode: Annotated[str, word("Of estimated intervals: fixed (looked at once) or anytime.", metavar="HOW")] = "fixed",
    split: Split = None,
    option: Loading = None,
    show: Annotated[bool, flag("--open", "Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write one self-contained page (or a LaTeX, Markdown or CSV table) from a saved report.

    Examples:
      $ limner report ours.json -o ours.html
      $ limner report ours.json --collection flickr8k:DIR --others baseline.json -o ours.html --open
      $ limner report ours.json --others baseline.json --estimate work.db -o ours.html
      $ limner report ours.json -o table.tex
    """
    from limner.evaluation.comparison import compare
    from limner.evaluation.report import Report, load_reports

    refuse_ending([out], ENDINGS, "report")
    beside = {"--collection": collection, "--others": others}
    _refuse_ignored(out, [name for name, value in beside.items() if value])
    if estimate is not None and not others:
        raise typer.BadParameter("--estimate compares systems: give --others too")
    held = Report.load(file)
    options: dict[str, Any] = {"others": load_reports(others)} if others else {}
    if estimate is not None:
        with labels_of(estimate) as labels:
            options["comparison"] = compare([held, *options["others"]], labels=labels, mode=mode)
    if collection is not None:
        options["collection"] = part(load(collection, option), split)
    with progress(f"writing {out}"):
        held.save(out, **options)
    answer(f"wrote {out}", {"wrote": str(out), "bytes": out.stat().st_size}, as_json=as_json)
    if show:
        typer.launch(out.resolve().as_uri())


def _refuse_ignored(out: Path, given: list[str]) -> None:
    if given and out.suffix.lower() != ".html":
        raise typer.BadParameter(f"{' and '.join(given)} are for an .html page, and {out} is none")
