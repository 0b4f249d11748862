"""limner compare --show board, ranks or systems: tables that are shown instead of differences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress
from limner.cli.options import refuse_ending, saved
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limner.evaluation.boards.board import Board
    from limner.evaluation.reports.report_tables import SystemTable
    from limner.papers.published_tables import Direction


def board(
    results: list[str],
    *,
    files: list[Path],
    qrels: Path | None,
    groups: str | None,
    queries: list[str] | None,
    clusters: list[str] | None,
    **how: Any,
) -> Board:
    """A leaderboard of results, written to files; a folder gets MTEB results of the reports.

    Args:
        results: Reports, MTEB results, tables, runs, or published:NAME.
        files: The files to write, and folders for MTEB results.
        qrels: The judgements of runs.
        groups: The file with the group of each query of the runs.
        queries: Numbers of queries, as N or NAME=N.
        clusters: Numbers of clusters, as N or NAME=N.
        how: Further options of `limner.evaluation.board_reading.leaderboard`.
    """
    from limner.datasets.trec import read_groups, read_qrels
    from limner.evaluation.boards.board import BOARD_FORMATS
    from limner.evaluation.boards.board_reading import leaderboard

    folders = [file for file in files if not file.suffix]
    files = [file for file in files if file.suffix]
    refuse_ending(files, tuple(BOARD_FORMATS), "leaderboard")
    with progress(f"reading {len(results)} results", "results") as step:
        new_board = leaderboard(
            results,
            judgements=None if qrels is None else read_qrels(qrels, name=qrels.stem),
            groups=None if groups is None else read_groups(groups),
            queries=counts(queries, "--queries"),
            clusters=counts(clusters, "--clusters"),
            progress=step,
            **how,
        )
    _write(new_board, results, files, folders)
    return new_board


def counts(words: list[str] | None, option_name: str) -> dict[str, int] | int | None:
    """Parses values of the form N or NAME=N.

    >>> counts(["5000"], "--queries"), counts(["a=5", "b=7"], "--queries")
    (5000, {'a': 5, 'b': 7})
    """
    numbers: dict[str, int] = {}
    for text in words or []:
        name, _, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit() or not int(number[:12]):
            raise typer.BadParameter(f"{option_name} got {text!r}: expected a number of 1 or more, or NAME=NUMBER")
        numbers[name] = int(number[:12])
    if "" in numbers and len(numbers) > 1:
        raise typer.BadParameter(f"{option_name}: give one number for all, or NAME=NUMBER for each")
    return numbers.get("", numbers or None)


def _write(leaderboard: Board, results: Sequence[str], files: Sequence[Path], folders: Sequence[Path]) -> None:
    from limner.evaluation.boards.mteb import write_mteb
    from limner.evaluation.reports.report import Report

    written = [leaderboard.save(file) for file in files]
    reports = [Report.load(result) for result in results] if folders else []
    saved([*written, *(file for folder in folders for report in reports for file in write_mteb(report, folder))])


PUBLISHED = "published:"
"""Before a direction (mean, i2t, t2i): the 25 published models of ECCV Caption."""


def ranks(results: list[str], *, measures: list[str], files: list[Path]) -> tuple[str, dict[str, object]]:
    """The ranks of reports, or of the published models, and whether measures agree.

    Args:
        results: Files of reports, or one of published:mean, published:i2t, published:t2i.
        measures: Only these measures, named as in the table.
        files: The charts to write.
    """
    from limner.core.files import write_text
    from limner.evaluation.boards.ranks import of_reports
    from limner.evaluation.reports.report import load_reports
    from limner.papers.published_tables import ranks_of, scores

    refuse_ending(files, (".svg",), "chart")
    if results[0].startswith(PUBLISHED):
        if len(results) > 1:
            raise LimnerError(f"{results[0]} beside other results: its systems are ranked among themselves")
        direction: Direction = results[0].removeprefix(PUBLISHED)  # type: ignore[assignment]  # another word is refused there
        table = ranks_of(scores(direction))
    else:
        table = of_reports(load_reports(results))
    table = table.only(columns=measures)
    for file in files:
        write_text(file, table.svg())
    saved(files)
    data = {
        "systems": list(table.systems), "measures": list(table.columns), "values": table.values.tolist(),
        "ranks": table.ranks.tolist(), "tau": table.tau.tolist(),
    }  # fmt: skip
    return str(table), data


def systems(results: list[str], *, measures: str | None, files: list[Path]) -> tuple[SystemTable, dict[str, object]]:
    """The systems of reports as rows, written to files.

    Args:
        results: Files of reports.
        measures: Only these.
        files: The files to write.
    """
    from limner.evaluation.reports.report import load_reports
    from limner.evaluation.reports.report_tables import system_table
    from limner.evaluation.tables import FORMATS

    refuse_ending(files, tuple(FORMATS), "table of systems")
    table = system_table(load_reports(results), measures=measures)
    saved([table.save(file) for file in files])
    return table, table.describe()
