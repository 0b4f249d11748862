"""limner report: turns a saved report into an HTML page, or a table for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands.evaluate.one_system import labels_of
from limner.cli.commands.explain.slices import sliced
from limner.cli.console import answer, progress
from limner.cli.options import (
    FIGURES,
    Json,
    Loading,
    Split,
    command_options,
    flag,
    load,
    out_word,
    part,
    refuse_report_ending,
    store_and_mode,
    word,
)
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.evaluation.reports.report import Report

OTHERS = "several reports"
TABLES = (".csv", ".json", ".md", ".tex", ".txt")
FOR = {
    "--collection": "it is for an .html page",
    "--slices": "it is for an .html page",
    "--baseline": "it is for an .html page",
    "--estimate": "it is for an .html page",
    OTHERS: "they are for an .html page, a table or a figure (.pdf .svg .png)",
    "-O figure": "it is for a figure (.pdf .svg .png)",
    "-O width": "it is for a figure (.pdf .svg .png)",
}

Output = Annotated[
    Path,
    out_word(
        "A page (.html), table (.md .tex .csv .txt .json), figure (.pdf .svg .png), README.md: a model card, or "
        ".eval_results/NAME.yaml."
    ),
]
SlicedBy = Annotated[
    list[str] | None,
    word("With --collection: slices by length, words, objects or a field (html). Repeatable.", metavar="BY"),
]
Estimate = Annotated[
    str | None,
    word("With several reports: answers to a plan, for differences under complete judgements.", metavar="STORE"),
]
HUB_OPTIONS = ("dataset", "task", "measure", "view")
"""What -O takes for a result of the hub."""
CARD = "README.md"
"""A model card, to whose metadata the results are added."""


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="REPORT...",
            help="What 'limner evaluate -o FILE.json' wrote; others are compared (html, figures) or rows of a table.",
        ),
    ],
    out: Output = Path("report.html"),
    collection: Annotated[str | None, word("The collection, for captions and thumbnails (html).")] = None,
    baseline: Annotated[Path | None, word("Report of a baseline, beside the headline (html).", metavar="FILE")] = None,
    slices: SlicedBy = None,
    estimate: Estimate = None,
    split: Split = None,
    option: Loading = None,
    show: Annotated[bool, flag("--open", "Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write one self-contained page, a LaTeX, Markdown or CSV table, or a figure for a paper from a saved report.

    A figure is -O figure=recall (the default), measures or hubs, of -O width=column (the default), page, or inches. A
    table of several reports has a row for each. A result for the hub (.yaml) needs the benchmark's data set and task:
    -O dataset=OWNER/NAME -O task=NAME -O measure='t2i R@1'.

    Examples:
      $ limner report ours.json -o ours.html
      $ limner report ours.json baseline.json --collection flickr8k:DIR -o ours.html --open
      $ limner report ours.json --collection flickr8k:DIR --slices length --slices words -o ours.html
      $ limner report ours.json baseline.json --estimate work.db -o ours.html
      $ limner report ours.json -o table.tex
      $ limner report ours.json baseline.json -o table.tex
      $ limner report ours.json baseline.json -o recall.pdf
      $ limner report ours.json -o measures.svg -O figure=measures -O width=page
      $ limner report ours.json -o README.md
    """
    from limner.evaluation.reports.report import load_reports
    from limner.evaluation.reports.report_tables import system_table

    file, *other_files = files
    figure_options, loader = command_options(option, "report")
    hub_options = {name: str(figure_options.pop(name)) for name in HUB_OPTIONS if name in figure_options}
    if out.name == CARD or out.suffix.lower() in (".yaml", ".yml"):
        _refuse_others(out, other_files)
        return _for_hub(file, out, hub_options, as_json=as_json)
    if hub_options:
        raise typer.BadParameter(f"-O {' and '.join(hub_options)}: for a result of the hub, -o .eval_results/NAME.yaml")
    refuse_report_ending([out])
    chosen: dict[str, object] = {
        "--collection": collection,
        OTHERS: other_files,
        "--slices": slices,
        "--baseline": baseline,
    }
    chosen |= {"--estimate": estimate, **{f"-O {name}": True for name in figure_options}}
    _refuse_ignored(out, [name for name, value in chosen.items() if value])
    if slices and collection is None:
        raise typer.BadParameter("--slices needs the captions and fields: give --collection too")
    if estimate is not None and not other_files:
        raise typer.BadParameter("--estimate compares systems: give several reports")
    reports = load_reports(files)
    main_report = reports[0]
    if other_files and out.suffix.lower() in TABLES:
        system_table(reports).save(out)
        return answer(f"wrote {out}", {"wrote": str(out), "bytes": out.stat().st_size}, as_json=as_json)
    options = _further_reports(reports, baseline, estimate)
    if collection is not None:
        options["collection"] = part(load(collection, loader), split)
    if slices:
        options["sliced"] = sliced(main_report, options["collection"], slices)
    options |= {name: str(value) for name, value in figure_options.items()}
    with progress(f"writing {out}"):
        main_report.save(out, **options)
    answer(f"wrote {out}", {"wrote": str(out), "bytes": out.stat().st_size}, as_json=as_json)
    if show:
        typer.launch(out.resolve().as_uri())
    return None


def _further_reports(reports: Sequence[Report], baseline: Path | None, estimate: str | None) -> OptionValues:
    """What a page or figure shows besides the first report: other reports, a baseline, and a comparison by labels."""
    from limner.evaluation.comparison import compare
    from limner.evaluation.reports.report import Report

    options: OptionValues = {"other_reports": reports[1:]} if len(reports) > 1 else {}
    if baseline is not None:
        options["baseline"] = Report.load(baseline)
    store, mode = store_and_mode(estimate)
    if store is not None:
        with labels_of(store) as labels:
            options["comparison"] = compare(reports, labels=labels, mode=mode)
    return options


def _for_hub(file: Path, out: Path, options: dict[str, str], *, as_json: bool) -> None:
    """Writes results into a model card or a file of evaluation results of the hub."""
    if out.name == CARD:
        if options:
            raise typer.BadParameter(f"-O {' and '.join(options)} with {out}: for a result of the hub (.yaml)")
        return _add_to_card(file, out, as_json=as_json)
    return _add_to_results(file, out, options, as_json=as_json)


def _add_to_results(file: Path, out: Path, options: dict[str, str], *, as_json: bool) -> None:
    """Writes one number into a file of evaluation results of the hub."""
    from limner.evaluation.boards.hub_results import write_eval_result
    from limner.evaluation.reports.report import Report

    missing = [name for name in HUB_OPTIONS if name not in options and name != "view"]
    if missing:
        raise typer.BadParameter(f"{out} needs -O {' and -O '.join(f'{name}=...' for name in missing)}: see --help")
    write_eval_result(Report.load(file), out, **options)
    answer(f"wrote {out}", {"wrote": str(out)}, as_json=as_json)


def _add_to_card(file: Path, card: Path, *, as_json: bool) -> None:
    """Writes the results of a report into the metadata of a model card."""
    from limner.evaluation.boards.hub_results import write_model_card
    from limner.evaluation.reports.report import Report

    write_model_card(Report.load(file), card)
    answer(f"wrote {card}", {"wrote": str(card)}, as_json=as_json)


def _refuse_others(out: Path, others: list[Path]) -> None:
    if others:
        raise typer.BadParameter(f"{out} has the results of one report: leave out {others[0]}")


def _refuse_ignored(out: Path, option_names: list[str]) -> None:
    """Refuses options that do not apply to a file of this kind."""
    ending = out.suffix.lower()
    for_page, for_figures, for_tables = ending == ".html", ending in FIGURES, ending in TABLES
    fits = {
        "--collection": for_page,
        "--slices": for_page,
        "--baseline": for_page,
        "--estimate": for_page,
        OTHERS: for_page or for_figures or for_tables,
    }
    ignored = [name for name in option_names if not fits.get(name, for_figures)]
    if ignored:
        raise typer.BadParameter(f"{out} cannot use {' and '.join(ignored)}: {FOR[ignored[0]]}")
