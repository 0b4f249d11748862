"""Evaluates a collection with captions in several languages, language by language.

Each language has only its own texts, with the same images for all. The macro mean gives every language the same weight.
Its interval treats an image with all its captions, in all languages, as one cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner import stats
from limner.core.arrays import IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.progress import Progress, ProgressLike, Stages
from limner.evaluation.evaluate import evaluate
from limner.evaluation.measures import Measure, parse
from limner.evaluation.results import DIRECTIONS, Result
from limner.evaluation.tables import Document, Grid, TableReport, json_ready, percent
from limner.scores import Scores

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
