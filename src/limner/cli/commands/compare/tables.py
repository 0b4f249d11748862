"""limner compare: the differences of systems; or a board, ranks or systems, which are shown instead of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.commands.evaluate.one_system import labels_of
from limner.cli.console import progress, table, tell
from limner.cli.options import refuse_ending, saved
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limner.evaluation.boards.board import Board
    from limner.evaluation.comparison import Comparison
    from limner.evaluation.reports.report import Report
    from limner.evaluation.reports.report_tables import SystemTable
    from limner.papers.published_tables import Direction, Placement


def differences(
    results: list[str], show: Sequence[str], *, estimate: str | None, fail_if_worse: bool, files: list[Path], **how: Any
) -> tuple[list[str | Comparison], dict[str, object], bool]:
    """Compares reports query by query.

    Args:
        results: Files of reports.
        show: What to show: differences, agreement, published.
        estimate: A store of answers to a plan.
        fail_if_worse: Whether to check that the first is not significantly worse.
        files: The files to write.
        how: Options of `limner.compare`.

    Returns:
        What is printed, the same as plain values, and whether the check failed.
    """
    from limner.evaluation.comparison import COMPARISON_FORMATS

    refuse_ending(files, tuple(COMPARISON_FORMATS), "comparison")
    reports = _loaded(results, "published" in show)
    with labels_of(estimate) as labels:
        compared = _compared(reports, labels=labels, **how) if len(reports) > 1 else None
    lone = {"--show agreement": "agreement" in show, "--fail-if-worse": fail_if_worse, "--output": bool(files)}
    _refuse_lone(compared, {**lone, "--estimate": estimate is not None})
    placed = [(report, placements(report)) for report in reports] if "published" in show else []
    if compared is not None:
        saved([compared.save(file) for file in files])
    parts: list[str | Comparison] = [compared] if compared else []
    parts += [agreement_text(compared)] if compared and "agreement" in show else []
    parts += [published_text(report, places) for report, places in placed]
    worse = _worse(compared) if fail_if_worse and compared is not None else []
    if compared is not None and worse:
        tell(f"check failed: {compared.systems[0]} is significantly worse: {'; '.join(worse)}")
    return parts, _data(compared, "agreement" in show, placed), bool(worse)


def _loaded(paths: list[str], published: bool) -> list[Report]:
    from limner.evaluation.reports.report import load_reports

    if len(paths) < 2 and not published:
        raise typer.BadParameter("got one report: give two or more to compare, or --show published")
    return load_reports(paths)


def _refuse_lone(compared: Comparison | None, pair_options: dict[str, bool]) -> None:
    lost = [name for name, is_set in pair_options.items() if is_set]
    if compared is None and lost:
        raise typer.BadParameter(f"{' and '.join(lost)} with one report: give two or more")


def _compared(reports: list[Report], **how: Any) -> Comparison:
    import limner

    with progress(f"comparing {len(reports)} systems", "results") as step:
        return limner.compare(reports, progress=step, **how)


def _worse(compared: Comparison) -> list[str]:
    """The measures on which another system is significantly better than the first."""
    lost = [n for n in compared.lines if any(0 in n.beaten(i, compared.level) for i in range(1, len(compared.systems)))]
    return [f"{n.view} {n.direction} {n.measure}" for n in lost]


def agreement_text(compared: Comparison) -> str:
    """Kendall's tau-b between the rankings of the systems under each pair of measures, as a triangle."""
    names, taus = compared.agreement
    head = ["", *(str(number + 1) for number in range(len(names)))]
    rows = [
        [f"{row + 1} {name}", *(f"{tau:.2f}" if column <= row else "" for column, tau in enumerate(taus[row]))]
        for row, name in enumerate(names)
    ]
    title = f"agreement of the measures on {len(compared.systems)} systems (Kendall's tau-b; 1: the same order)"
    return f"{title}\n{table([head, *rows])}"


def placements(report: Report) -> list[Placement]:
    """The report's rank among published systems, for each published measure."""
    from limner.core.errors import LimnerError
    from limner.papers import published_tables as published

    places = []
    directions: tuple[Direction, ...] = ("i2t", "t2i", "mean")
    for direction in directions:
        values = _published_values(report, direction)
        places += published.place(values, direction=direction, unit="percent") if values else []
    if not places:
        names = ", ".join(published.measures())
        raise LimnerError(
            f"{report.system!r} has no published measure ({names}): evaluate it on COCO's 5,000 test images "
            "with --protocol coco-5k --protocol coco-1k --protocol cxc --protocol eccv"
        )
    return places


def _published_values(report: Report, direction: Direction) -> dict[str, float]:
    """The report's numbers in the published form: in percent, and for "mean" the mean of both directions."""
    from limner.papers import published_tables as published

    report_values = {
        (f"{r.view} {r.measure}", r.direction): r.value * (100 if r.measure.kind.percent else 1) for r in report.results
    }
    values = {}
    for name in published.measures(direction):
        if direction == "mean" and (name, "both") not in report_values:
            parts = [(name, "i2t"), (name, "t2i")]
        else:
            parts = [(name, "both" if direction == "mean" else direction)]
        if all(part in report_values for part in parts):
            values[name] = sum(report_values[part] for part in parts) / len(parts)
    return values


def published_text(report: Report, places: list[Placement]) -> str:
    """One line per measure: the rank, and the systems next to it."""
    return "\n".join(
        [f"{report.system} among published systems (Chun et al. 2022)", *(f"  {place}" for place in places)]
    )


def _data(
    compared: Comparison | None, agreement: bool, placed: list[tuple[Report, list[Placement]]]
) -> dict[str, object]:
    data: dict[str, object] = {}
    if compared is not None:
        data |= compared.describe()
    if compared is not None and agreement:
        names, taus = compared.agreement
        data["agreement"] = {"measures": names, "tau_b": taus.tolist()}
    if placed:
        data["published"] = {report.system: [_place(p) for p in places] for report, places in placed}
    return data


def _place(p: Placement) -> dict[str, object]:
    return {"measure": p.measure, "direction": p.direction, "value": p.value, "rank": p.rank, "of": p.models + 1}


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
        how: Further options of `limner.evaluation.leaderboard`.
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
    from limner.evaluation.boards.board_tables import of_reports
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
