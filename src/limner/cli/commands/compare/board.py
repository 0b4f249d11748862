"""A leaderboard that shows which ranks are statistically distinguishable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress
from limner.cli.options import refuse_ending, saved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limner.evaluation.boards.board import Board


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
