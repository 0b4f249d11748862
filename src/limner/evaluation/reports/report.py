"""Report: all results of an evaluation. Prints as a table; saves as JSON, CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.paths import JsonObject
from limner.core.ranking import Ranking
from limner.core.registry import Registry
from limner.evaluation.comparison import Comparison, compare
from limner.evaluation.label_estimates import Estimated
from limner.evaluation.measures import Measure
from limner.evaluation.results import Evaluated, Result, written
from limner.evaluation.tables import FORMATS, TableReport, json_ready

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_FORMATS: Registry[Callable[..., str | bytes]] = Registry(
    "report file ending",
    {
        **FORMATS,
        ".json": "limner.evaluation.reports.report:to_json_text",
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
_STORED: Registry[Callable[[str | Path], Report]] = Registry(
    "stored report", {"read": "limner.evaluation.reports.storage:read"}
)
FORMAT = 1
"""The version of saved reports."""


@dataclass(frozen=True, eq=False)
class Hubs:
    """How often each candidate is among the k nearest of a query, and how unequal these counts are.

    N_k(c) = number of queries that have candidate c among their k nearest. In a space without hubs it is close to its
    mean, queries times k over candidates; in high dimensions a few candidates get most of the total (Radovanovic et al.
    2010) and many are never retrieved.

    >>> hubs = Hubs.of(Ranking.from_lists({"q1": ["a"], "q2": ["a"], "q3": ["b"]}, candidates="abc"), k=1)
    >>> hubs.counts.tolist(), hubs.largest, round(hubs.robin_hood, 3), hubs.shares([0, 1, 2])
    ([2, 1, 0], 2, 0.333, {'0': 0.333..., '1': 0.333..., '>=2': 0.333...})
    """

    candidates: Ids
    counts: IntArray
    k: int

    @classmethod
    def of(cls, ranking: Ranking, *, k: int = 10) -> Hubs:
        """Counts the candidates at the first k ranks."""
        if k < 1 or k > ranking.depth:
            raise LimnerError(
                f"hubs at {k} from a ranking of depth {ranking.depth}: expected 1 to {ranking.depth}; rank deeper"
            )
        neighbours = ranking.indices[:, :k]
        counts = np.bincount(neighbours[neighbours >= 0].ravel(), minlength=len(ranking.candidates))
        return cls(ranking.candidates, counts.astype(np.int64), k)

    @cached_property
    def skewness(self) -> float:
        """Third standardised moment of N_k: E[(N - mean)^3] / sd^3; 0 if all counts are equal."""
        centred = self.counts - self.counts.mean()
        spread = float(np.sqrt(np.mean(centred**2)))
        return float(np.mean(centred**3) / spread**3) if spread > 0 else 0.0

    @property
    def largest(self) -> int:
        """The count of the largest hub."""
        return int(self.counts.max(initial=0))

    @cached_property
    def robin_hood(self) -> float:
        """Share of all entries that would have to move for equal counts: sum |N - mean| / (2 sum N) (Hoover 1936)."""
        total = self.counts.sum()
        return float(np.abs(self.counts - self.counts.mean()).sum() / (2 * total)) if total else 0.0

    @cached_property
    def gini(self) -> float:
        """Gini coefficient of the counts: 0 if all are equal, close to 1 if one candidate has all."""
        ordered, n = np.sort(self.counts), len(self.counts)
        total = ordered.sum()
        return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * total)) if total else 0.0

    def shares(self, steps: tuple[int, ...] | list[int] = (0, 1, 2, 5, 10)) -> dict[str, float]:
        """Share of candidates with count 0, 1, and at least 2, 5, 10, ... (the table of Liu & Ye 2019)."""
        exact = {str(s): float((self.counts == s).mean()) for s in steps if s < 2}
        return exact | {f">={s}": float((self.counts >= s).mean()) for s in steps if s >= 2}

    def greatest(self, n: int = 10) -> list[tuple[str, int]]:
        """The n candidates with the highest counts."""
        order = np.argsort(-self.counts, kind="stable")[:n]
        return [(self.candidates[int(c)], int(self.counts[c])) for c in order]

    def describe(self) -> dict[str, float | int | dict[str, float]]:
        """The statistics as plain values."""
        return {
            "k": self.k,
            "skewness": self.skewness,
            "largest": self.largest,
            "robin hood": self.robin_hood,
            "gini": self.gini,
            "shares": self.shares(),
        }


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
    settings: JsonObject = field(default_factory=dict)
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
        return to_json(self)

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Reads a report that was saved as JSON."""
        return _STORED["read"](path)

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


def to_json_text(report: Report) -> str:
    """The whole report as JSON text."""
    return json.dumps(to_json(report), allow_nan=False)


def to_json(report: Report) -> dict[str, object]:
    """The whole report as plain values."""
    id_lists: dict[int, list[str]] = {}
    results = [_result_to_json(r, id_lists) for r in report.results]
    measured = dict.fromkeys([*(r.measure for r in report.results), *(e.measure for e in report.estimates)])
    return {
        "limner": "report",
        "format": FORMAT,
        "system": report.system,
        "collection": report.collection,
        "settings": dict(report.settings),
        "notes": list(report.notes),
        "hubs": {d: h.describe() for d, h in report.hubs.items()},
        "measures": {str(m): m.traits() for m in measured},
        "ids": {str(k): v for k, v in id_lists.items()},
        "results": results,
        "top": {d: _top_to_json(r) for d, r in report.top.items()},
        "estimates": [json_ready(e.to_json()) for e in report.estimates],
    }


def _result_to_json(r: Result, id_lists: dict[int, list[str]]) -> dict[str, object]:
    key = next((k for k, v in id_lists.items() if v == list(r.queries)), len(id_lists))
    id_lists.setdefault(key, list(r.queries))
    interval = r.interval
    content = {
        "view": r.view,
        "direction": r.direction,
        "measure": str(r.measure),
        "value": json_ready(r.value),
        "interval": [json_ready(interval.low), json_ready(interval.high)] if interval else None,
        "left_out": r.left_out,
        "queries": str(key),
        "values": json_ready(r.values.tolist()),
        "clusters": None if r.clusters is None else r.clusters.tolist(),
        "folds": None if r.folds is None else r.folds.tolist(),
    }
    if r.pool is not None:
        content["pool"] = r.pool
    if r.possible is not None:
        content["possible"] = json_ready(list(r.possible))
    images = next((part.clusters for part in r.parts if part.direction == "i2t"), None)
    return content if images is None else {**content, "images": images.tolist()}


def _top_to_json(ranking: Ranking) -> dict[str, object]:
    return {
        "queries": list(ranking.queries),
        "candidates": list(ranking.candidates),
        "indices": ranking.indices.tolist(),
        "scores": None if ranking.scores is None else json_ready(ranking.scores.tolist()),
        "n_candidates": ranking.n_candidates,
    }


def load_reports(paths: Iterable[str | Path]) -> list[Report]:
    """Reads several saved reports; systems of the same name are told apart by the names of their files."""
    files = [Path(path) for path in paths]
    reports = [Report.load(file) for file in files]
    counts = Counter(report.system for report in reports)
    if len({file.stem for file in files}) < len(files):
        return reports
    return [
        replace(report, system=f"{report.system} ({file.stem})") if counts[report.system] > 1 else report
        for report, file in zip(reports, files, strict=True)
    ]


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
