"""Report: all results of an evaluation. Prints as a table; saves as JSON, CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.errors import LimnerError, UnknownName
from limner.core.ranking import Ranking
from limner.core.registry import Registry
from limner.evaluation.comparison import Comparison, compare
from limner.evaluation.hubs import Hubs
from limner.evaluation.label_estimates import Estimated
from limner.evaluation.measures import Measure
from limner.evaluation.results import Evaluated, Result, written
from limner.evaluation.tables import FORMATS, TableReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_FORMATS: Registry[Callable[..., str | bytes]] = Registry(
    "report file ending",
    {
        **FORMATS,
        ".json": "limner.evaluation.reports.storage:write",
        ".html": "limner.evaluation.reports.page:render",
        ".pdf": "limner.evaluation.reports.figures:report_pdf",
        ".svg": "limner.evaluation.reports.figures:report_svg",
        ".png": "limner.evaluation.reports.figures:report_png",
    },
)
"""File formats of a report, by file extension: `(report, **options) -> str or bytes`. `print` shows ".txt"."""

_FIGURE: Registry[Callable[..., Figure]] = Registry(
    "figure", {"report": "limner.evaluation.reports.figures:report_figure"}
)
_STORAGE: Registry[Callable[..., Any]] = Registry(
    "use of a stored report",
    {"read": "limner.evaluation.reports.storage:read", "data": "limner.evaluation.reports.storage:to_json"},
)


@dataclass(frozen=True, eq=False)
class Report(TableReport):
    """All results of one evaluation.

    Args:
        system: Name of the system.
        collection: Name of the collection.
        results: The results, in order of view, direction and measure.
        top: The top candidates of every query, by direction, for hubs and examples.
        settings: The settings of the evaluation: ties, unretrieved, version.
        notes: Remarks to read before comparing the numbers.
        estimates: Values estimated for complete judgements, from labels of a designed sample.
    """

    kind = "report"
    formats = REPORT_FORMATS
    system: str
    collection: str
    results: tuple[Result, ...]
    top: Mapping[str, Ranking] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    estimates: tuple[Estimated, ...] = ()

    def find(self, measure: str | Measure, *, direction: str | None = None, view: str | None = None) -> Result:
        """The only matching result; if none or several match, the error lists them."""
        canonical = written(measure, self.results)
        matches = [
            r
            for r in self.results
            if str(r.measure) == canonical and direction in (None, r.direction) and view in (None, r.view)
        ]
        if len(matches) != 1:
            available = "; ".join(" ".join(r.key) for r in (matches or self.results))
            raise LimnerError(
                f"{len(matches)} results match {canonical} ({direction or 'any direction'}, {view or 'any view'}); "
                f"there are: {available}"
            )
        return matches[0]

    def value(self, measure: str | Measure, *, direction: str | None = None, view: str | None = None) -> float:
        """The value of the only matching result."""
        return self.find(measure, direction=direction, view=view).value

    @cached_property
    def hubs(self) -> dict[str, Hubs]:
        """Hub statistics by direction, for k = 10, or less if the stored lists are shorter."""
        return {d: Hubs.of(r, k=min(10, r.depth)) for d, r in self.top.items() if r.depth}

    def groups(self) -> Iterator[tuple[str, str, list[Result]]]:
        """(view, direction, results), in order: the rows of a table."""
        for view, direction in dict.fromkeys((r.view, r.direction) for r in self.results):
            yield view, direction, [r for r in self.results if (r.view, r.direction) == (view, direction)]

    def compare(self, baseline: Evaluated, **options: Any) -> Comparison:
        """The differences of this report minus another, with intervals and p-values."""
        return compare([self, baseline], **options)

    def rows(self) -> list[dict[str, object]]:
        """One flat record per result, as in the CSV file."""
        named = {"system": self.system, "collection": self.collection}
        return [*(_row(self, r) for r in self.results), *({**named, **e.row()} for e in self.estimates)]

    def figure(
        self, name: str = "recall", *, width: str | float = "column", other_reports: Sequence[Report] = ()
    ) -> Figure:
        """A figure for a paper, as a matplotlib `Figure`; `save("figure.pdf", figure=name)` writes one.

        Args:
            name: "recall" (R@k by k), "measures" (numbers with intervals) or "hubs".
            width: "column" (3.35 inches), "page" (7 inches), or a number of inches.
            other_reports: Reports of other systems on the same collection.
        """
        drawn: Figure = _FIGURE["report"](self, name, width=width, other_reports=other_reports)
        return drawn

    def renamed(self, names: Mapping[str, str]) -> Report:
        """The report with other names for directions and views in its tables.

        Args:
            names: Names in tables for a direction ("i2t", "t2i", "run") or a view, such as {"i2t": "caption
                retrieval"}.
        """
        labels = {*(r.direction for r in self.results), *(r.view for r in self.results)}
        for name in names:
            if name not in labels:
                raise UnknownName("direction or view", name, sorted(labels), of="the report")
        return replace(self, settings={**self.settings, "names": {**self.settings.get("names", {}), **names}})

    def describe(self) -> dict[str, object]:
        """The whole report as plain values."""
        content: dict[str, object] = _STORAGE["data"](self)
        return content

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Reads a report that was saved as JSON."""
        report: Report = _STORAGE["read"](path)
        return report

    def __repr__(self) -> str:
        return f"Report({self.system!r} on {self.collection!r}: {len(self.results)} results)"


def _row(report: Report, r: Result) -> dict[str, object]:
    interval = r.interval
    return {
        "system": report.system,
        "collection": report.collection,
        "view": r.view,
        "direction": r.direction,
        "measure": str(r.measure),
        "value": r.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "lowest": r.possible[0] if r.possible else None,
        "highest": r.possible[1] if r.possible else None,
        "queries": len(r.queries),
        "left_out": r.left_out,
    }


def load_reports(paths: Iterable[str | Path]) -> list[Report]:
    """Reads several saved reports."""
    return [Report.load(path) for path in paths]


CURVE_DEPTH = 100
"""The largest k of a curve."""


def first_ranks(report: Report) -> dict[tuple[str, str], Result]:
    """The results whose values are ranks of first relevant candidates, without options, by view and direction."""
    ranks: dict[tuple[str, str], Result] = {}
    for r in report.results:
        if r.measure.kind.rank and not dict(r.measure.options).get("min_grade") and len(r.values):
            ranks.setdefault((r.view, r.direction), r)
    return ranks


def curve_depth(report: Report, direction: str, ranks: Sequence[Result]) -> int:
    """The largest k of a curve: at most 100, the depth of the lists, and the number of candidates."""
    top = report.top.get(direction)
    values = np.concatenate([r.values for r in ranks])
    finite = values[np.isfinite(values)]
    deepest = (
        int(finite.max(initial=1))
        if len(finite) < len(values) or top is None
        else top.n_candidates or int(finite.max(initial=1))
    )
    return max(1, min(CURVE_DEPTH, deepest))


def recall_curve(report: Report, ranks: Result, limit: int) -> dict[int, Result]:
    """R@k for every k up to the limit: as measured if available, else from the first ranks."""
    measured = {r.measure: r for r in report.results if (r.view, r.direction) == (ranks.view, ranks.direction)}
    return {k: measured.get(Measure("R", k)) or _recall_at(ranks, k) for k in range(1, limit + 1)}


def _recall_at(ranks: Result, k: int) -> Result:
    values = (ranks.values <= k).astype(np.float64)
    return replace(ranks, measure=Measure("R", k), values=values, possible=None)
