"""Differences between reports: which system is better, by how much, and is the difference significant?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.commands.evaluate.one_system import labels_of
from limner.cli.console import progress, table, tell
from limner.cli.options import refuse_ending, saved

if TYPE_CHECKING:
    from limner.evaluation.comparison import Comparison
    from limner.evaluation.reports.report import Report
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
