"""limner explain slices: groups of queries on which a system is weak, or worse than another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress
from limner.cli.options import (
    Json,
    Loading,
    Split,
    command_options,
    load,
    out_word,
    part,
    refuse_ending,
    saved,
    whole_numbers,
    word,
)

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.reports.report import Report
    from limner.evaluation.slices import Slices


SlicedBy = Annotated[
    list[str] | None,
    word("length, words, objects, or a field, such as language. Repeatable.", show_default="what there is"),
]


def slices(
    file: Annotated[Path, typer.Argument(metavar="REPORT", help="A report that 'limner evaluate -o FILE.json' wrote.")],
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="What was evaluated.")],
    by: SlicedBy = None,
    baseline: Annotated[
        Path | None, word("Report of a second system, to slice the difference.", metavar="FILE")
    ] = None,
    measures: Annotated[str | None, word("What to slice.", show_default="the headline, such as R@1")] = None,
    view: Annotated[str | None, word("The judgements.", show_default="the first of the report")] = None,
    level: Annotated[float, word("Confidence: 0.95 allows 5% false discoveries.", metavar="P", min=0, max=1)] = 0.95,
    seed: Annotated[int, word("Random seed.", metavar="N")] = 0,
    split: Split = None,
    option: Loading = None,
    save: Annotated[list[Path] | None, out_word("Write it: .json .csv .md .tex .txt. Repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Show slices of the queries that differ from the rest, with control of false discoveries.

    A slice is compared with all other queries by a permutation test of whole images. 'limner report --slices' puts the
    table on the page of a report. -O min_size=30 is the fewest queries of a slice, and of the rest. False discoveries
    are controlled by -O control=by (any dependence of slices) or bh (finds more; positive dependence).

    Examples:
      $ limner explain slices ours.json flickr8k:DIR
      $ limner explain slices ours.json multi30k:DIR --by language --by length -O min_size=50
      $ limner explain slices ours.json flickr8k:DIR --baseline baseline.json -o slices.csv
    """
    from limner.evaluation.reports.report import Report
    from limner.evaluation.tables import FORMATS

    refuse_ending(save, tuple(FORMATS), "table of slices")
    report, baseline_report = Report.load(file), None if baseline is None else Report.load(baseline)
    slice_options, loader = command_options(option, "slices")
    whole_numbers(slice_options, min_size=2)
    control, min_size = str(slice_options.get("control", "by")), slice_options.get("min_size", 30)
    chosen = part(load(collection, loader), split)
    settings: dict[str, object] = {"against": baseline_report, "measure": measures, "view": view, "min_size": min_size}
    report_slices = sliced(report, chosen, by or (), **settings, level=round(1 - level, 12), control=control, seed=seed)
    for each in save or []:
        report_slices.save(each)
    saved(save or [])
    answer(report_slices, report_slices.describe(), as_json=as_json)


def sliced(report: Report, collection: Collection, by: list[str] | tuple[str, ...], **how: Any) -> Slices:
    """The slices of a report, with progress."""
    from limner.evaluation.slices import slices as tested

    with progress("testing slices") as step:
        return tested(report, collection, by=by, progress=step, **how)
