"""limner compare: which system is better, by how much, and is the difference significant?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.attached_options import COMMAND_OPTIONS
from limner.cli.commands.compare.tables import board, differences, ranks, systems
from limner.cli.console import answer
from limner.cli.options import (
    Json,
    Loading,
    chosen_options,
    flag,
    named_options,
    out_word,
    store_and_mode,
    text_option,
    word,
)
from limner.cli.shell import Status
from limner.core.errors import UnknownName
from limner.core.options import OptionValues

VIEWS = {
    "differences": "test family allow_different samples seed level fail_if_worse estimate",
    "board": "qrels missing measures view direction queries clusters unit option level samples seed",
    "ranks": "measures",
    "systems": "measures",
}
"""What can be shown, and the options that it takes."""
BESIDE = ("agreement", "published")
"""What is shown beside the differences."""
FOR_BOARD = "With --show board"

Results = Annotated[
    list[str],
    typer.Argument(
        metavar="RESULT",
        help="Reports (.json) of 'limner evaluate'; for a board also MTEB results, tables (.csv, .tsv), runs, or "
        "published:eccv-d2; for ranks also published:mean.",
    ),
]
Show = Annotated[
    list[str] | None,
    word(
        "Besides differences: agreement (of measures), published (rank among papers). Or instead: board (confidence "
        "sets of ranks), ranks (by measure), systems (a row each). Repeatable.",
        metavar="WHAT",
        show_default="differences",
    ),
]


Level = Annotated[float, word("Confidence, after correction.", metavar="P", min=0, max=1)]
Samples = Annotated[
    int | None,
    word(
        "Permutations of a test, or draws of a board.",
        metavar="N",
        min=1,
        show_default="100000, 10000",
    ),
]
Output = Annotated[
    list[Path] | None,
    out_word("Write .json .csv .md .tex .txt .pdf .svg .png, a board .html or MTEB folder. Repeatable."),
]
AllowDifferent = Annotated[bool, flag("--allow-different", "Compare reports with different settings.")]
FailIfWorse = Annotated[bool, flag("--fail-if-worse", "Status 1 if the first is significantly worse.")]
Estimate = Annotated[
    str | None,
    word(
        "Answers to a plan: complete judgements; -O mode=anytime.",
        metavar="STORE",
    ),
]
Qrels = Annotated[
    Path | None,
    word(
        "Judgements of runs: qrels; -O groups=FILE names the group of each query.",
        metavar="FILE",
        rich_help_panel=FOR_BOARD,
    ),
]
Missing = Annotated[
    str,
    word(
        "What a run lacks: refuse it, or never (found).",
        metavar="HOW",
        rich_help_panel=FOR_BOARD,
    ),
]
Direction = Annotated[str | None, word("Only this direction: i2t or t2i.", metavar="WAY", rich_help_panel=FOR_BOARD)]
Queries = Annotated[
    list[str] | None,
    word(
        "Number of queries, for results that lack it, by collection or view. Repeatable.",
        metavar="[NAME=]N",
        rich_help_panel=FOR_BOARD,
    ),
]
Clusters = Annotated[
    list[str] | None,
    word("Number of independent clusters of queries.", metavar="[NAME=]N", rich_help_panel=FOR_BOARD),
]


def compare(
    context: typer.Context,
    results: Results,
    show: Show = None,
    measures: Annotated[str | None, word("Only these, such as 'R@1 nDCG@10(linear)' (board, ranks, systems).")] = None,
    level: Level = 0.95,
    samples: Samples = None,
    seed: Annotated[int, word("Random seed.", metavar="N", min=0)] = 0,
    output: Output = None,
    test: Annotated[str, word("auto, mcnemar, randomisation, sign or wilcoxon.")] = "auto",
    family: Annotated[str, word("Correct p-values over the table, or over the pairs of a line.")] = ("table"),
    allow_different: AllowDifferent = False,
    fail_if_worse: FailIfWorse = False,
    estimate: Estimate = None,
    qrels: Qrels = None,
    missing: Missing = "refuse",
    view: Annotated[str | None, word("Only this view, such as pairs or eccv.", rich_help_panel=FOR_BOARD)] = None,
    direction: Direction = None,
    queries: Queries = None,
    clusters: Clusters = None,
    option: Loading = None,
    as_json: Json = False,
) -> None:
    """Compare systems query by query: differences with intervals, p-values and significance marks.

    A star marks a significant difference between two systems; with more systems, letters show which ones a system
    beats. Tests are clustered by image if several captions belong to one image. A board gives the rank of every system
    a confidence set; tables and MTEB results contain only means: give --queries, and -O unit=percent or fraction.

    Examples:
      $ limner compare ours.json baseline.json
      $ limner compare a.json b.json c.json --show agreement
      $ limner compare new.json old.json --fail-if-worse
      $ limner compare ours.json --show published
      $ limner compare a.json b.json --show board -o board.html
      $ limner compare table.csv --show board --queries coco-5k=25000
      $ limner compare a.run b.run --show board --qrels pairs.qrels
      $ limner compare published:mean --show ranks -o ranks.svg
      $ limner compare a.json b.json --show systems -o table.tex
    """
    shown_view = _view(show or [])
    _refuse_unused(shown_view, chosen_options(context))
    files = output or []
    if shown_view == "ranks":
        return answer(*ranks(results, measures=_columns(measures), files=files), as_json=as_json)
    board_options = named_options(option, COMMAND_OPTIONS["compare"], of="compare")
    unit, groups = text_option(board_options, "unit"), text_option(board_options, "groups")
    if shown_view == "systems":
        return answer(*systems(results, measures=measures, files=files), as_json=as_json)
    if shown_view == "board":
        leaderboard = board(
            results, files=files, qrels=qrels, groups=groups, queries=queries, clusters=clusters,
            unretrieved=missing, measures=measures, view=view, direction=direction, unit=unit, level=level,
            samples=samples or 10_000, seed=seed,
        )  # fmt: skip
        return answer(leaderboard, leaderboard.describe(), as_json=as_json)
    store, mode = store_and_mode(estimate)
    settings: OptionValues = {"test": test, "family": family, "allow_different": allow_different, "mode": mode}
    settings |= {"samples": samples or 100_000, "seed": seed, "level": round(1 - level, 12)}
    parts, data, failed = differences(
        results, show or (), estimate=store, fail_if_worse=fail_if_worse, files=files, **settings
    )
    answer(parts, data, as_json=as_json)
    if failed:
        raise typer.Exit(Status.FAILED_CHECK)
    return None


def _view(show: list[str]) -> str:
    """What is shown: differences, a board, ranks or systems."""
    for name in show:
        if name not in (*VIEWS, *BESIDE):
            raise UnknownName("comparison", name, (*VIEWS, *BESIDE))
    views = dict.fromkeys("differences" if name in BESIDE else name for name in show or ["differences"])
    if len(views) > 1:
        raise typer.BadParameter(f"--show {' and '.join(views)}: give one of them")
    return next(iter(views))


def _refuse_unused(shown_view: str, chosen: list[str]) -> None:
    """Refuses options that this view does not use."""
    in_all_views = {"results", "show", "output", "as_json"}
    unused = sorted(set(chosen) - in_all_views - set(VIEWS[shown_view].split()))
    if unused:
        names = " and ".join("--" + name.replace("_", "-") for name in unused)
        for_views = " or ".join(view for view, names in VIEWS.items() if unused[0] in names.split())
        raise typer.BadParameter(f"{names} with --show {shown_view}: it is for --show {for_views}; leave it out")


def _columns(measures: str | None) -> list[str]:
    """The columns of a table of ranks, separated by commas: 'coco-5k R@1, eccv mAP@R'."""
    return [column.strip() for column in (measures or "").split(",") if column.strip()]
