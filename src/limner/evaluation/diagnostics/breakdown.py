"""A report by a field of the queries, and a collection with captions in several languages, language by language.

Each language has only its own texts, with the same images for all. The macro mean gives every language the same weight.
Its interval treats an image with all its captions, in all languages, as one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from limner import stats
from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import Progress, ProgressLike, Stages
from limner.evaluation.evaluate import evaluate
from limner.evaluation.measures import Measure, parse
from limner.evaluation.reports.report import Report
from limner.evaluation.reports.report_tables import with_interval
from limner.evaluation.results import DIRECTIONS, Result
from limner.evaluation.tables import Block, Document, Grid, TableReport, blocks_text, json_ready, percent
from limner.scores import Scores

if TYPE_CHECKING:
    from collections.abc import Mapping


MOST = 50
"""Number of field values shown; the rest is summarised together."""


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Results of parts of the queries.

    Args:
        field: Field of the query items.
        parts: Results by value of the field, each restricted to the queries of that part. The candidate pool is not
            restricted.
    """

    field: str
    parts: Mapping[str, tuple[Result, ...]]

    def rows(self) -> list[dict[str, object]]:
        """One flat record per value of the field, view, direction and measure."""
        return [
            {
                self.field: value,
                "view": r.view,
                "direction": r.direction,
                "measure": str(r.measure),
                "value": r.value,
                "low": r.interval.low if r.interval else None,
                "high": r.interval.high if r.interval else None,
                "queries": len(r.queries),
            }
            for value, results in self.parts.items()
            for r in results
        ]

    def blocks(self) -> list[Block]:
        """Rows are parts of the queries, columns are measures; one table per view and direction."""
        keys = dict.fromkeys((r.view, r.direction) for results in self.parts.values() for r in results)
        return [self._grid(*key) for key in keys]

    def __str__(self) -> str:
        return blocks_text(self.blocks())

    def _grid(self, view: str, direction: str) -> Grid:
        cells = {
            value: [r for r in results if (r.view, r.direction) == (view, direction)]
            for value, results in self.parts.items()
        }
        named = next(results for results in cells.values() if results)
        head = (f"{view}, {DIRECTIONS[direction]}, by {self.field}", "queries", *(str(r.measure) for r in named))
        rows = [(v, f"{len(rs[0].queries):,}", *map(with_interval, rs)) for v, rs in cells.items() if rs]
        return Grid(head[0], (head, *rows))


def breakdown(report: Report, collection: Collection, field: str) -> Breakdown:
    """Breaks a report down by a field of the queries; the candidate pool is not restricted.

    Args:
        report: A report from `limner.evaluate`.
        collection: The evaluated collection.
        field: A field of the texts (for text queries) or of the images (for image queries), such as "language".

    >>> import limner
    >>> world = limner.load("scenes", images=20)
    >>> texts = world.texts.with_fields(half=["first"] * 50 + ["second"] * 50)
    >>> from dataclasses import replace
    >>> world = replace(world, texts=texts)
    >>> report = limner.evaluate(limner.train(world).scores(world), world, measures="R@1")
    >>> list(breakdown(report, world, "half").parts)
    ['first', 'second']
    """
    labels = {
        direction: dict(zip(items.ids, map(_label_text, items.field(field)), strict=True))
        for direction, items in (("i2t", collection.images), ("t2i", collection.texts))
        if field in items.fields
    }
    if not labels:
        fields = sorted({*collection.images.fields, *collection.texts.fields})
        raise UnknownName("field", field, fields, of=f"the images or texts of {collection.name!r}")
    parts: dict[str, list[Result]] = {}
    for result in report.results:
        if result.direction in labels and result.direction in DIRECTIONS:
            values = np.array([labels[result.direction].get(query, "") for query in result.queries], dtype=object)
            for value in dict.fromkeys(values):
                parts.setdefault(str(value), []).append(result.restricted(np.flatnonzero(values == value)))
    largest = dict(sorted(parts.items(), key=lambda part: -len(part[1][0].queries))[:MOST])
    return Breakdown(field, {value: tuple(results) for value, results in sorted(largest.items())})


def _label_text(value: object) -> str:
    return "(none)" if value is None or value != value or value == "" else str(value)


MACRO = "macro mean"
MEASURES = "R@1 R@5 R@10"


@dataclass(frozen=True)
class LanguageLine:
    """One measure of one language.

    Args:
        language: The language, or `MACRO`.
        direction: "i2t" or "t2i".
        measure: Such as "R@10".
        images: Images with a text in this language.
        queries: Number of queries.
        value: The mean with its interval.
    """

    language: str
    direction: str
    measure: str
    images: int
    queries: int
    value: stats.Interval


@dataclass(frozen=True)
class LanguageReport(TableReport):
    """Results by language. Prints as a table for each direction.

    Args:
        system: Name of the system.
        collection: Name of the collection.
        lines: By language, direction and measure; the macro mean last.
        notes: Notes for readers.
    """

    kind = "languages"
    system: str
    collection: str
    lines: tuple[LanguageLine, ...]
    notes: tuple[str, ...] = ()

    def value(self, language: str, measure: str, *, direction: str = "t2i") -> stats.Interval:
        """The value with its interval."""
        for line in self.lines:
            if (line.language, line.measure, line.direction) == (language, measure, direction):
                return line.value
        available = ", ".join(dict.fromkeys(line.language for line in self.lines))
        raise LimnerError(f"no value {language} {direction} {measure}: there are the languages {available}")

    def rows(self) -> list[dict[str, object]]:
        """One flat record per line: the form of the CSV file."""
        return [
            {"system": self.system, "language": line.language, "direction": line.direction, "measure": line.measure,
             "images": line.images, "queries": line.queries, "value": line.value.estimate, "low": line.value.low,
             "high": line.value.high}
            for line in self.lines
        ]  # fmt: skip

    def describe(self) -> dict[str, object]:
        """Plain values that hold the whole report."""
        names = {"system": self.system, "collection": self.collection}
        return {**names, "lines": json_ready(self.rows()), "notes": list(self.notes)}

    def document(self) -> Document:
        """What the report shows."""
        directions = dict.fromkeys(line.direction for line in self.lines)
        title = f"{self.system} on {self.collection}, by language"
        return Document(title, [self._grid(each) for each in directions], self.notes)

    def _grid(self, direction: str) -> Grid:
        of_direction = [line for line in self.lines if line.direction == direction]
        measures = list(dict.fromkeys(line.measure for line in of_direction))
        rows = [(DIRECTIONS[direction], "images", "queries", *measures)]
        for language in dict.fromkeys(line.language for line in of_direction):
            by_measure = {line.measure: line for line in of_direction if line.language == language}
            first = by_measure[measures[0]]
            cells = (percent(by_measure[measure].value) for measure in measures)
            rows.append((language, f"{first.images:,}", f"{first.queries:,}", *cells))
        return Grid(rows[0][0], tuple(rows))


def evaluate_languages(
    scores: Scores,
    collection: Collection,
    *,
    measures: str = MEASURES,
    name: str = "system",
    field: str = "language",
    progress: ProgressLike = None,
) -> LanguageReport:
    """Evaluates a system on every language of a collection.

    Args:
        scores: Images by texts of the collection, all languages together.
        collection: A collection whose texts have a field with their language.
        measures: Means of values between 0 and 1: R@k, MRR, nDCG, MAP, ...
        name: Name of the system in the table.
        field: The field of the language.
        progress: Called with (queries done, queries in total), over all languages and both directions.

    Returns:
        The measures of each language in both directions, with intervals, and the macro mean.
    """
    chosen = parse(measures)
    _refuse_unbounded(chosen)
    text_languages = [str(value) for value in collection.texts.field(field)]
    languages = sorted(dict.fromkeys(text_languages))
    restricted = scores.restrict(queries=collection.images.ids, candidates=collection.texts.ids)
    queries = len(collection.images) * len(languages) + len(text_languages)
    stages = Stages(progress, **{each: queries // len(languages) for each in languages})
    results = {
        each: _results(restricted, collection, [t == each for t in text_languages], chosen, stages[each])
        for each in languages
    }
    lines = [_line(each, result) for each, measured in results.items() for result in measured]
    lines += _macro(results)
    notes = ["for each language the texts are those of that language alone, the images the same for all"]
    covered = {line.language: line.images for line in lines if line.direction == "i2t" and line.language != MACRO}
    if len(set(covered.values())) > 1:
        notes.append("languages have captions of different images: their values are not of the same queries")
    return LanguageReport(name, collection.name, tuple(lines), tuple(notes))


def _refuse_unbounded(measures: Iterable[Measure]) -> None:
    for measure in measures:
        if measure.kind.composite or measure.kind.bounds != (0.0, 1.0) or measure.statistic != "mean":
            raise LimnerError(
                f"measure {measure} by language: expected means of values from 0 to 1, such as R@1 or MRR"
            )


def _results(
    scores: Scores,
    collection: Collection,
    chosen: Sequence[bool],
    measures: Sequence[Measure],
    progress: Progress,
) -> tuple[Result, ...]:
    """The results of one language in both directions; the clusters are the rows of the images."""
    texts = collection.texts[np.flatnonzero(chosen)]
    judged = collection.judgements.restrict(candidates=texts.ids)
    part = replace(collection, texts=texts, judgements=judged, extra={}, reverse={}, splits={})
    restricted = scores.restrict(candidates=texts.ids)
    sources, stages = (
        {"i2t": restricted, "t2i": restricted.T},
        Stages(progress, i2t=restricted.shape[0], t2i=restricted.shape[1]),
    )
    measured = [
        result
        for direction, source in sources.items()
        for result in evaluate({direction: source}, part, measures=measures, keep=0, progress=stages[direction]).results
    ]
    rows = collection.images.ids
    return tuple(
        each if each.clusters is not None else replace(each, clusters=rows.find(each.queries)) for each in measured
    )


def _line(language: str, result: Result) -> LanguageLine:
    value = stats.mean_interval(result.values, clusters=_rows(result))
    images = len(np.unique(_rows(result)))
    return LanguageLine(language, result.direction, str(result.measure), images, len(result.queries), value)


def _rows(result: Result) -> IntArray:
    """The row of each query's image."""
    return np.arange(len(result.queries)) if result.clusters is None else result.clusters


def _macro(results: dict[str, tuple[Result, ...]]) -> list[LanguageLine]:
    """The mean over languages, each with the same weight; an image with all its captions is one cluster."""
    lines = []
    for number, first in enumerate(next(iter(results.values()))):
        parts = [measured[number] for measured in results.values()]
        value = stats.sum_interval([stats.Part(part.values, _rows(part), 1 / len(parts)) for part in parts])
        images = np.unique(np.concatenate([_rows(part) for part in parts]))
        counts = len(images), sum(len(part.values) for part in parts)
        lines.append(LanguageLine(MACRO, first.direction, str(first.measure), *counts, value))
    return lines
