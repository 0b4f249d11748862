"""Captioning systems against references: metrics with intervals by image, and paired tests between systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress
from limner.evaluation.captions.caption_metrics import CaptionMetric, MetricInputs
from limner.evaluation.tables import Document, Grid, TableReport, json_ready, percent, shown_p
from limner.language.caption_overlap import bleu_counts, bleu_of_counts
from limner.stats import Interval, holm
from limner.stats.jackknife import Jackknife


@dataclass(frozen=True)
class CaptionLine:
    """One metric of one system: its name, and the value of the corpus with its interval."""

    system: str
    metric: str
    value: Interval


@dataclass(frozen=True)
class CaptionDifference:
    """The difference of two systems on one metric.

    Args:
        metric: The metric.
        first: A system.
        second: The system that is subtracted from it.
        difference: With its interval.
        p_value: Corrected for all comparisons of the report (Holm).
    """

    metric: str
    first: str
    second: str
    difference: Interval
    p_value: float


@dataclass(frozen=True)
class CaptionReport(TableReport):
    """Captioning systems by metrics. Prints as tables.

    Args:
        name: The collection.
        images: Number of images.
        lines: By system and metric.
        differences: By metric and pair of systems.
        level: The coverage of the intervals.
        notes: Remarks.
    """

    kind = "captions"
    name: str
    images: int
    lines: tuple[CaptionLine, ...]
    differences: tuple[CaptionDifference, ...] = ()
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def value(self, system: str, metric: str) -> Interval:
        """The value with its interval."""
        for line in self.lines:
            if (line.system, line.metric) == (system, metric):
                return line.value
        listed = "; ".join(f"{line.system} {line.metric}" for line in self.lines)
        raise LimnerError(f"no value {system} {metric}: there are {listed}")

    def rows(self) -> list[dict[str, object]]:
        """One flat record per value and per difference: the form of the CSV file."""
        values = [("", "", line.system, line.metric, line.value, None) for line in self.lines]
        gaps = [(d.first, d.second, "", d.metric, d.difference, d.p_value) for d in self.differences]
        return [
            {"system": system or f"{first} - {second}", "metric": metric, "value": value.estimate, "low": value.low,
             "high": value.high, "p": p}
            for first, second, system, metric, value, p in (*values, *gaps)
        ]  # fmt: skip

    def describe(self) -> dict[str, object]:
        """Plain values that hold the whole report."""
        lines = self.rows()
        return {
            "collection": self.name, "images": self.images, "lines": json_ready(lines[: len(self.lines)]),
            "differences": json_ready(lines[len(self.lines) :]), "level": self.level, "notes": list(self.notes),
        }  # fmt: skip

    def document(self) -> Document:
        """What the report shows."""
        systems = list(dict.fromkeys(line.system for line in self.lines))
        metrics = list(dict.fromkeys(line.metric for line in self.lines))
        title = f"{self.name}: captions of {self.images:,} images"
        rows = [(metric, *(percent(self.value(system, metric)) for system in systems)) for metric in metrics]
        grids = [Grid(title, (("metric, times 100", *systems), *rows))]
        if self.differences:
            pairs = [(d.metric, d.first, d.second, percent(d.difference), shown_p(d.p_value)) for d in self.differences]
            head = ("metric", "system", "minus", "difference, times 100", "p (Holm)")
            grids.append(Grid("differences", (head, *pairs), "differences"))
        foot = [f"intervals ({100 * self.level:g}%) and tests: jackknife by image"]
        return Document(title, grids, self.notes, foot)


def evaluate_captions(
    systems: Sequence[MetricInputs],
    metrics: Sequence[CaptionMetric],
    *,
    name: str = "captions",
    level: float = 0.95,
    progress: ProgressLike = None,
) -> CaptionReport:
    """Metrics of captioning systems for the same images, and the differences between systems.

    BLEU is that of the corpus; the others are means over captions. Intervals and tests leave out one image at a time.

    Args:
        systems: The captions of each system, with the same images in the same order.
        metrics: The metrics.
        name: Name of the collection.
        level: The coverage of the intervals.
        progress: Called with (metrics done, metrics in total).
    """
    progress = as_progress(progress)
    _refuse_different(systems)
    values: dict[tuple[str, str], Jackknife] = {}
    total = len(systems) * len(metrics)
    for inputs in systems:
        for metric in metrics:
            values[inputs.candidates.name, metric.name] = corpus_value(metric, inputs)
            progress(len(values), total)
    lines = [CaptionLine(*key, value.interval(level=level)) for key, value in values.items()]
    images = len(set(systems[0].candidates.images))
    notes = tuple(dict.fromkeys(note for inputs in systems for note in inputs.candidates.notes))
    return CaptionReport(name, images, tuple(lines), _differences(values, level), level, notes)


def corpus_value(metric: CaptionMetric, inputs: MetricInputs) -> Jackknife:
    """The metric of all captions, and without each image."""
    candidates = inputs.candidates
    if not metric.order:
        return Jackknife.of_mean(metric.of(inputs), clusters=candidates.images)
    counts = bleu_counts(candidates.captions, candidates.references, order=metric.order)
    clusters = np.unique(candidates.images, return_inverse=True)[1]
    by_image = np.zeros((int(clusters.max()) + 1, counts.shape[1]))
    np.add.at(by_image, clusters, counts)
    total = by_image.sum(axis=0)
    every = bleu_of_counts(np.vstack([total, total - by_image]), order=metric.order)
    return Jackknife(float(every[0]), every[1:])


def _differences(values: Mapping[tuple[str, str], Jackknife], level: float) -> tuple[CaptionDifference, ...]:
    systems = dict.fromkeys(system for system, _ in values)
    metrics = dict.fromkeys(metric for _, metric in values)
    gaps = [
        (metric, first, second, values[first, metric] - values[second, metric])
        for metric in metrics
        for first, second in combinations(systems, 2)
    ]
    corrected = holm([gap.p_value for *_, gap in gaps]) if gaps else ()
    return tuple(
        CaptionDifference(metric, first, second, gap.interval(level=level), float(p))
        for (metric, first, second, gap), p in zip(gaps, corrected, strict=True)
    )


def _refuse_different(systems: Sequence[MetricInputs]) -> None:
    if not systems:
        raise LimnerError("got no captions, expected those of at least one system")
    names = [inputs.candidates.name for inputs in systems]
    if len(set(names)) < len(names):
        raise LimnerError(f"two systems have the same name ({', '.join(names)}): rename a file, or give NAME=FILE")
    first = systems[0].candidates
    for inputs in systems[1:]:
        if inputs.candidates.images != first.images or inputs.candidates.references != first.references:
            raise LimnerError(
                f"{inputs.candidates.name!r} and {first.name!r} have different images or references: expected the same"
            )
