"""The rank of every system under each measure, as a table and a chart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limner.cli.options import refuse_ending, saved
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.papers.published_tables import Direction

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
