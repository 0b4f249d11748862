"""Report: what was measured, query by query. Prints as a table; saves as JSON, CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.errors import LimnerError, UnknownName
from limner.core.files import write_text
from limner.core.ids import Ids, IntArray
from limner.core.judgements import FloatArray
from limner.core.paths import damage_told, place_for, read_json
from limner.core.ranking import Ranking
from limner.evaluation.estimated import Estimated
from limner.evaluation.hubs import Hubs
from limner.evaluation.measures import RSUM_PARTS, Measure

if TYPE_CHECKING:
    from limner.evaluation.comparison import Comparison
    from limner.stats import Interval, Part

DIRECTIONS = {"i2t": "image -> text", "t2i": "text -> image", "both": "both directions", "run": "query -> candidate"}
FORMAT = 1
ALONE = "queries count as independent: where some belong together, such as captions of one image, say so with groups"
LEAST_FOR_MEDIAN = 6
"""Of fewer queries, all lie on one side of the median more often than one time in twenty: there is no 95% interval."""


@dataclass(frozen=True, eq=False)
class Result:
    """One measure in one direction under one view: a value per query, and what they sum up to.

    Args:
        view: Protocol view or judgements.
        direction: A key of `DIRECTIONS`.
        measure: What was measured.
        queries: The queries that count.
        values: One value per query.
        clusters: What each query belongs with (captions of one image); None where queries are independent.
        folds: Fold of each query; the value is then the mean over folds.
        left_out: Queries without any relevant candidate, which do not count.
        parts: The recalls that rsum is the sum of, each with its images as clusters; empty for all other measures.
    """

    view: str
    direction: str
    measure: Measure
    queries: Ids
    values: FloatArray
    clusters: IntArray | None = None
    folds: IntArray | None = None
    left_out: int = 0
    parts: tuple[Result, ...] = ()

    def summarise(self, values: FloatArray) -> float:
        """One number from one value per query: mean or median; with folds, the mean over folds of that."""
        if self.folds is None or not len(values):
            return self.measure.summarise(values)
        return float(np.mean([self.measure.summarise(values[self.folds == f]) for f in np.unique(self.folds)]))

    @cached_property
    def value(self) -> float:
        """The one number."""
        return 100 * math.fsum(part.value for part in self.parts) if self.parts else self.summarise(self.values)

    @cached_property
    def contributions(self) -> FloatArray:
        """What each query adds to a mean: its value, weighted where folds of unequal size count alike."""
        if self.folds is None:
            return self.values
        _, fold, sizes = np.unique(self.folds, return_inverse=True, return_counts=True)
        return np.asarray(self.values * (len(self.values) / (len(sizes) * sizes[fold])))

    @cached_property
    def interval(self) -> Interval | None:
        """95% interval of the number; None where a value is infinite, or so few queries tell nothing.

        Shares and rsum: Wilson's, by the effective number of queries. Ranks: by the bootstrap.
        """
        from limner import stats

        if not self._known:
            return None
        if self.parts:
            return stats.sum_interval([part._addend(part.values) for part in self.parts])
        if self._bounded:
            return stats.mean_interval(self.values, clusters=self.clusters, folds=self.folds)
        how: dict[str, Any] = {"statistic": self.statistic, "clusters": self._drawn, "folds": self.folds}
        return self._unless_point(stats.bootstrap(self.values, **how))

    def difference(self, other: Result) -> Interval | None:
        """95% interval of this number less that of another system on the same queries; None as for `interval`."""
        from limner import stats

        if not (self._known and other._known):
            return None
        if self.parts:
            addends = [a._addend(a.values - b.values) for a, b in zip(self.parts, other.parts, strict=True)]
            return stats.sum_interval(addends, bounds=(-1, 1))
        if self._bounded and other._bounded:
            apart = self.values - other.values
            return stats.mean_interval(apart, clusters=self.clusters, folds=self.folds, bounds=(-1, 1))
        how: dict[str, Any] = {"statistic": self.statistic, "clusters": self._drawn, "folds": self.folds}
        return self._unless_point(stats.bootstrap_difference(self.values, other.values, **how))

    def _unless_point(self, drawn: Interval) -> Interval | None:
        """Draws that are all alike do not say how sure a mean is; of a median they do, if there are enough queries."""
        return drawn if drawn.low < drawn.high or self.measure.name == "MedR" else None

    def _addend(self, values: FloatArray) -> Part:
        from limner.stats import Part

        return Part(values, np.arange(len(values)) if self.clusters is None else self.clusters, 100.0, self.folds)

    @property
    def _drawn(self) -> IntArray | None:
        """What the bootstrap draws as one: a cluster, as far as it lies in one fold."""
        if self.clusters is None or self.folds is None:
            return self.clusters
        return np.asarray(self.clusters * (int(self.folds.max(initial=0)) + 1) + self.folds)

    @property
    def _known(self) -> bool:
        """Whether there is enough to say how sure the number is."""
        if not len(self.values) or not np.isfinite(self.values).all() or not all(len(p.values) for p in self.parts):
            return False
        return self.measure.name != "MedR" or self._fewest >= LEAST_FOR_MEDIAN

    @property
    def _fewest(self) -> int:
        """How many queries, or clusters of them, there are in the smallest fold."""
        units = np.arange(len(self.values)) if self._drawn is None else self._drawn
        folds = np.zeros(len(units)) if self.folds is None else self.folds
        return min(len(np.unique(units[folds == fold])) for fold in np.unique(folds))

    @property
    def _bounded(self) -> bool:
        """Whether the value of a query lies between 0 and 1."""
        return bool(self.parts) or bool(self.measure.kind.share and self.values.max(initial=0) <= 1)

    @property
    def statistic(self) -> Any:
        """What sums up the queries of a fold, as `limner.stats` takes it: "mean", "median" or a function."""
        if self.measure.name != "MedR":
            return "mean"
        return self.measure.summarise if self.measure.option("floor") else "median"

    @property
    def key(self) -> tuple[str, str, str]:
        """(view, direction, measure): what makes results of two reports comparable."""
        return self.view, self.direction, str(self.measure)

    def __repr__(self) -> str:
        return f"Result({' '.join(self.key)} = {self.measure.show(self.value)} over {len(self.queries):,} queries)"


@dataclass(frozen=True, eq=False)
class Report:
    """Everything one evaluation measured.

    Args:
        system: Name of the system.
        collection: Name of the collection.
        results: The results, in order of view, direction and measure.
        top: The best candidates of every query by direction, for hubs and examples.
        settings: How it was measured: ties, unretrieved, version.
        notes: What a reader must know before comparing the numbers.
        estimates: Numbers under the complete truth, from labels drawn by design.
    """

    system: str
    collection: str
    results: tuple[Result, ...]
    top: Mapping[str, Ranking] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    estimates: tuple[Estimated, ...] = ()

    def find(self, measure: str | Measure, *, direction: str | None = None, view: str | None = None) -> Result:
        """The one result that fits; refuses when none or several do, and says which there are."""
        wanted = str(Measure.parse(measure))
        found = [
            r
            for r in self.results
            if str(r.measure) == wanted and direction in (None, r.direction) and view in (None, r.view)
        ]
        if len(found) != 1:
            there = "; ".join(" ".join(r.key) for r in (found or self.results))
            raise LimnerError(
                f"{len(found)} results fit {wanted} ({direction or 'any direction'}, {view or 'any view'}); "
                f"there are: {there}"
            )
        return found[0]

    def value(self, measure: str | Measure, *, direction: str | None = None, view: str | None = None) -> float:
        """The number of the one result that fits."""
        return self.find(measure, direction=direction, view=view).value

    @cached_property
    def hubs(self) -> dict[str, Hubs]:
        """Hub statistics by direction, at 10 or as deep as lists were kept."""
        return {d: Hubs.of(r, k=min(10, r.depth)) for d, r in self.top.items() if r.depth}

    def groups(self) -> Iterator[tuple[str, str, list[Result]]]:
        """(view, direction, results), in order: the rows of a table."""
        for view, direction in dict.fromkeys((r.view, r.direction) for r in self.results):
            yield view, direction, [r for r in self.results if (r.view, r.direction) == (view, direction)]

    def compare(self, other: Report, **options: Any) -> Comparison:
        """Differences to another report, this one minus the other, with intervals and p-values."""
        from limner.evaluation.comparison import compare

        return compare([self, other], **options)

    def rows(self) -> list[dict[str, Any]]:
        """One flat record per result: the form of the CSV file."""
        named = {"system": self.system, "collection": self.collection}
        return [*(_row(self, r) for r in self.results), *({**named, **e.row()} for e in self.estimates)]

    def save(self, path: str | Path, **options: Any) -> Path:
        """Writes the report by the file's ending: .json (whole, can be loaded), .csv, .md, .tex or .html."""
        from limner.evaluation import tables

        target = Path(path)
        writers: dict[str, Callable[[], str]] = {
            ".json": lambda: json.dumps(self.to_json(), allow_nan=False),
            ".csv": lambda: tables.to_csv(self.rows()),
            ".md": lambda: tables.report_markdown(self),
            ".tex": lambda: tables.report_latex(self),
            ".html": lambda: _page(self, **options),
        }
        if target.suffix.lower() not in writers:
            raise UnknownName("report file ending", target.suffix or target.name, writers)
        write_text(place_for(target), writers[target.suffix.lower()]())
        return target

    def to_json(self) -> dict[str, Any]:
        """Plain values that hold the whole report."""
        id_lists: dict[int, list[str]] = {}
        results = [_result_to_json(r, id_lists) for r in self.results]
        return {
            "limner": "report",
            "format": FORMAT,
            "system": self.system,
            "collection": self.collection,
            "settings": dict(self.settings),
            "notes": list(self.notes),
            "hubs": {d: h.describe() for d, h in self.hubs.items()},
            "ids": {str(k): v for k, v in id_lists.items()},
            "results": results,
            "top": {d: _top_to_json(r) for d, r in self.top.items()},
            "estimates": [plain(e.to_json()) for e in self.estimates],
        }

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Reads a report that was saved as JSON."""
        source = Path(path)
        if not source.exists():
            raise LimnerError(f"no report {source}: make one with 'limner evaluate ... --save {source}'")
        content = read_json(source, what="report")
        if not isinstance(content, dict) or content.get("limner") != "report" or content.get("format") != FORMAT:
            raise LimnerError(
                f"{source} is no limner report of format {FORMAT}: expected a file made by 'limner evaluate --save'"
            )
        with damage_told(source, what="limner report", mend="make it again"):
            return _sound(_from_json(content))

    def __str__(self) -> str:
        from limner.evaluation import tables

        return tables.report_text(self)

    def __repr__(self) -> str:
        return f"Report({self.system!r} on {self.collection!r}: {len(self.results)} results)"


def _row(report: Report, r: Result) -> dict[str, Any]:
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
        "queries": len(r.queries),
        "left_out": r.left_out,
    }


def _page(report: Report, **options: Any) -> str:
    from limner.evaluation.page import render

    return render(report, **options)


def _result_to_json(r: Result, id_lists: dict[int, list[str]]) -> dict[str, Any]:
    key = next((k for k, v in id_lists.items() if v == list(r.queries)), len(id_lists))
    id_lists.setdefault(key, list(r.queries))
    interval = r.interval
    content = {
        "view": r.view,
        "direction": r.direction,
        "measure": str(r.measure),
        "value": plain(r.value),
        "interval": [plain(interval.low), plain(interval.high)] if interval else None,
        "left_out": r.left_out,
        "queries": str(key),
        "values": plain(r.values.tolist()),
        "clusters": None if r.clusters is None else r.clusters.tolist(),
        "folds": None if r.folds is None else r.folds.tolist(),
    }
    images = next((part.clusters for part in r.parts if part.direction == "i2t"), None)
    return content if images is None else {**content, "images": images.tolist()}


def plain(value: Any) -> Any:
    """The same data with only what JSON knows: it has no infinity, which is the rank of what was never found.

    >>> plain({"ranks": [1.0, float("inf")], "score": float("-inf")})
    {'ranks': [1.0, None], 'score': '-inf'}
    """
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if value == math.inf else str(value)


def _numbers(values: Any) -> FloatArray:
    """What `plain` made of an array of numbers, as numbers again."""
    return np.array([math.inf if v is None else float(v) for v in values], dtype=np.float64)


def _top_to_json(ranking: Ranking) -> dict[str, Any]:
    return {
        "queries": list(ranking.queries),
        "candidates": list(ranking.candidates),
        "indices": ranking.indices.tolist(),
        "scores": None if ranking.scores is None else plain(ranking.scores.tolist()),
        "n_candidates": ranking.n_candidates,
    }


def _from_json(content: Mapping[str, Any]) -> Report:
    ids = {key: Ids(values, what="query") for key, values in content["ids"].items()}
    results = tuple(
        Result(
            r["view"],
            r["direction"],
            Measure.parse(r["measure"]),
            ids[r["queries"]],
            _numbers(r["values"]),
            _codes(r["clusters"]),
            _codes(r["folds"]),
            r["left_out"],
        )
        for r in content["results"]
    )
    results = tuple(
        _with_parts(r, saved.get("images"), results) for r, saved in zip(results, content["results"], strict=True)
    )
    top = {d: _top_from_json(t) for d, t in content["top"].items()}
    estimates = tuple(Estimated.from_json(each) for each in content.get("estimates", ()))
    named = content["system"], content["collection"]
    return Report(*named, results, top, content["settings"], tuple(content["notes"]), estimates)


def _with_parts(result: Result, images: Sequence[int] | None, every: Sequence[Result]) -> Result:
    """rsum with the recalls it is the sum of; files of earlier versions do not say which image a query is."""
    if images is None:
        return result
    found = [r for r in every if r.view == result.view and r.measure in RSUM_PARTS and r.direction in ("i2t", "t2i")]
    return replace(
        result, parts=tuple(replace(r, clusters=_codes(images)) if r.direction == "i2t" else r for r in found)
    )


def _codes(values: Sequence[int] | None) -> IntArray | None:
    return None if values is None else np.asarray(values, dtype=np.int64)


def _top_from_json(content: Mapping[str, Any]) -> Ranking:
    indices = np.asarray(content["indices"], dtype=np.int32).reshape(len(content["queries"]), -1)
    listed = content["scores"]
    scores = None if listed is None else np.array([_numbers(row) for row in listed]).reshape(indices.shape)
    return Ranking(Ids(content["queries"]), Ids(content["candidates"]), indices, scores, content["n_candidates"])


def _sound(report: Report) -> Report:
    """The report, if everything in it is of the kind and length that it should be; a file may say anything."""
    words = [
        report.system,
        report.collection,
        *report.notes,
        *(w for r in report.results for w in (r.view, r.direction)),
    ]
    if not all(isinstance(word, str) for word in words) or not isinstance(report.settings, Mapping):
        raise TypeError("a name, a note or the settings are of another kind")
    for r in report.results:
        columns = [r.values, *(each for each in (r.clusters, r.folds) if each is not None)]
        if r.direction not in DIRECTIONS or not isinstance(r.left_out, int):
            raise ValueError(f"a result of direction {r.direction!r}, {r.left_out!r} queries left out")
        if any(np.shape(column) != (len(r.queries),) for column in columns):
            raise ValueError(f"{len(r.queries)} queries with columns of {', '.join(str(np.shape(c)) for c in columns)}")
    return report


def load_reports(paths: Iterable[str | Path]) -> list[Report]:
    """Reads several saved reports."""
    return [Report.load(path) for path in paths]
