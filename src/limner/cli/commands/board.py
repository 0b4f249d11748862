"""limner board: a leaderboard that shows which ranks are statistically distinguishable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limner.cli.commands.explain.slices import SlicedBy, SliceSize
from limner.cli.console import answer, progress
from limner.cli.options import Json, Loading, Split, load, out_word, part, refuse_ending, saved, word, writable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limner.evaluation.boards.board import Board


Results = Annotated[
    list[str],
    typer.Argument(
        metavar="RESULT",
        help="Reports (.json), MTEB results (.json or a folder), tables (.csv, .tsv), runs, published:eccv-d2.",
    ),
]
Queries = Annotated[
    list[str] | None,
    word("Number of queries, for results that lack it: 5000, or by collection or view.", metavar="[NAME=]N"),
]
Clusters = Annotated[
    list[str] | None,
    word("Number of independent clusters of queries, such as images with several captions.", metavar="[NAME=]N"),
]
Evaluated = Annotated[str | None, word("The evaluated collection: adds a table for every slice of its queries.")]


def board(
    results: Results,
    qrels: Annotated[Path | None, word("Relevance judgements for runs: a qrels file.", metavar="FILE")] = None,
    groups: Annotated[
        Path | None, word("For runs: the group of each query, 'query group' per line, or json.", metavar="FILE")
    ] = None,
    unretrieved: Annotated[
        str, word("Candidates missing from a truncated run: refuse, or never (found).", metavar="HOW")
    ] = "refuse",
    measures: Annotated[str | None, word("Only these measures, such as 'R@1 nDCG@10(linear)'.", metavar="LIST")] = None,
    view: Annotated[str | None, word("Only this view, such as pairs or eccv.")] = None,
    direction: Annotated[str | None, word("Only this direction: i2t or t2i.", metavar="WAY")] = None,
    queries: Queries = None,
    clusters: Clusters = None,
    unit: Annotated[str | None, word("Unit of tables: percent or fraction.", metavar="UNIT")] = None,
    collection: Evaluated = None,
    by: SlicedBy = None,
    min_size: SliceSize = 30,
    split: Split = None,
    option: Loading = None,
    level: Annotated[float, word("Joint confidence of all rank sets of a table.", metavar="P")] = 0.95,
    samples: Annotated[int, word("Number of bootstrap draws for the critical value.", metavar="N", min=100)] = 10_000,
    seed: Annotated[int, word("Random seed.", metavar="N", min=0)] = 0,
    save: Annotated[list[Path] | None, out_word("Write it: .json .csv .md .tex .txt .html. Repeatable.")] = None,
    save_mteb: Annotated[
        Path | None, out_word("Write reports as MTEB results into it.", metavar="FOLDER", callback=writable)
    ] = None,
    as_json: Json = False,
) -> None:
    """Rank systems, with a confidence set for the rank of each.

    Reports are compared query by query, clustered by image if several captions share one. Tables and MTEB results
    contain only means: give their number of queries, or no ranks can be distinguished.

    Examples:
      $ limner board a.json b.json c.json --measures R@1 --save board.html
      $ limner board results/ --measures "R@1 nDCG@10(linear)" --queries 5000
      $ limner board table.csv --queries coco-5k=25000 --clusters coco-5k=5000
      $ limner board a.run b.run --qrels pairs.qrels --measures MAP --unretrieved never
      $ limner board published:eccv-d2 --measures R@1
      $ limner board a.json b.json --collection flickr8k:DIR --by length --measures R@1
      $ limner board a.json b.json --save-mteb results
    """
    from limner.datasets.trec import read_groups, read_qrels
    from limner.evaluation.boards.board import BOARD_FORMATS
    from limner.evaluation.boards.board_reading import leaderboard

    refuse_ending(save, tuple(BOARD_FORMATS), "leaderboard")
    if collection is None and (by or split or option):
        raise typer.BadParameter("--by, --split and --option belong to --collection: give it too")
    held = None if collection is None else part(load(collection, option), split)
    with progress(f"reading {len(results)} results", "results") as told:
        made = leaderboard(
            results,
            judgements=None if qrels is None else read_qrels(qrels, name=qrels.stem),
            groups=None if groups is None else read_groups(groups),
            measures=measures,
            view=view,
            direction=direction,
            queries=counts(queries, "--queries"),
            clusters=counts(clusters, "--clusters"),
            unit=unit,
            unretrieved=unretrieved,
            level=level,
            samples=samples,
            seed=seed,
            collection=held,
            by=by or (),
            min_size=min_size,
            progress=told,
        )
    _write(made, results, save or [], save_mteb)
    answer(str(made), made.describe(), as_json=as_json)


def counts(words: list[str] | None, what: str) -> dict[str, int] | int | None:
    """Parses values of the form N or NAME=N.

    >>> counts(["5000"], "--queries"), counts(["a=5", "b=7"], "--queries")
    (5000, {'a': 5, 'b': 7})
    """
    found: dict[str, int] = {}
    for text in words or []:
        name, _, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit() or not int(number[:12]):
            raise typer.BadParameter(f"{what} got {text!r}: expected a number of 1 or more, or NAME=NUMBER")
        found[name] = int(number[:12])
    if "" in found and len(found) > 1:
        raise typer.BadParameter(f"{what}: give one number for all, or NAME=NUMBER for each")
    return found.get("", found or None)


def _write(made: Board, results: Sequence[str], files: Sequence[Path], folder: Path | None) -> None:
    from limner.evaluation.boards.mteb import write_mteb
    from limner.evaluation.reports.report import Report

    written = [made.save(file) for file in files]
    if folder is not None:
        reports = [Report.load(result) for result in results]
        written += [file for report in reports for file in write_mteb(report, folder)]
    saved(written)
