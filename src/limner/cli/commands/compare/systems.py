"""A table with a row per system, for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limner.cli.options import refuse_ending, saved

if TYPE_CHECKING:
    from limner.evaluation.reports.system_table import SystemTable


def systems(results: list[str], *, measures: str | None, files: list[Path]) -> tuple[SystemTable, dict[str, object]]:
    """The systems of reports as rows, written to files.

    Args:
        results: Files of reports.
        measures: Only these.
        files: The files to write.
    """
    from limner.evaluation.reports.report import load_reports
    from limner.evaluation.reports.system_table import system_table
    from limner.evaluation.tables import FORMATS

    refuse_ending(files, tuple(FORMATS), "table of systems")
    table = system_table(load_reports(results), measures=measures)
    saved([table.save(file) for file in files])
    return table, table.describe()
