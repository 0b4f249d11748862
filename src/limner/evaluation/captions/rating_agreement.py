"""How well metrics of captions agree with people: rank correlations with intervals by image, and their differences.

Published correlations on Flickr8k differ in the coefficient, in how the ratings of a caption are combined, and in which
pairs count. Here every coefficient is computed for every combination, with the jackknife by image, and the differences
between metrics are tested on the same captions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from limner.core.arrays import FloatArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import ProgressLike, as_progress
from limner.datasets.candidate_captions import JudgedCaptions
from limner.evaluation.tables import Document, Grid, TableReport, json_ready, percent, shown_p
from limner.stats import Interval, holm
from limner.stats.jackknife import COEFFICIENTS, Jackknife, clustered_correlation

AGGREGATIONS = ("each", "mean", "median")
"""Every rating counts, with the metric's value repeated; or one number for each caption."""


@dataclass(frozen=True)
class AgreementLine:
    """The rank correlation of a metric with people, by coefficient and combination of ratings."""

    metric: str
    coefficient: str
    aggregation: str
    value: Interval


@dataclass(frozen=True)
class MetricDifference:
    """The difference of two metrics in their correlation with people.

    Args:
        first: The metric that agrees more.
        second: The other one.
        difference: With its interval.
        p_value: Corrected for all pairs of metrics (Holm).
    """

    first: str
    second: str
    difference: Interval
    p_value: float


@dataclass(frozen=True)
class AgreementReport(TableReport):
    """How well metrics agree with people. Prints as tables.

    Args:
        name: The judgements.
        captions: Number of judged captions.
        images: Number of images.
        coefficient: The coefficient of the differences.
        aggregation: The combination of ratings of the differences.
        lines: By metric, coefficient and combination.
        differences: By pair of metrics.
        level: The coverage of the intervals.
        notes: Remarks.
    """

    kind = "caption metrics"
    name: str
    captions: int
    images: int
    coefficient: str
    aggregation: str
    lines: tuple[AgreementLine, ...]
    differences: tuple[MetricDifference, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()

    def value(self, metric: str, *, coefficient: str | None = None, aggregation: str | None = None) -> Interval:
        """One correlation with its interval; that of the differences by default."""
        key = (metric, coefficient or self.coefficient, aggregation or self.aggregation)
        for line in self.lines:
            if (line.metric, line.coefficient, line.aggregation) == key:
                return line.value
        listed = ", ".join(dict.fromkeys(line.metric for line in self.lines))
        raise LimnerError(f"no correlation {' '.join(key)}: there are {listed}, with {', '.join(COEFFICIENTS)}")

    def not_separable(self) -> list[tuple[str, str]]:
        """Pairs of metrics whose order is not significant."""
        return [(d.first, d.second) for d in self.differences if d.p_value >= 1 - self.level]

    def rows(self) -> list[dict[str, object]]:
        """One flat record per correlation and per difference: the form of the CSV file."""
        values = [(line.metric, line.coefficient, line.aggregation, line.value, None) for line in self.lines]
        gaps = [
            (f"{d.first} - {d.second}", self.coefficient, self.aggregation, d.difference, d.p_value)
            for d in self.differences
        ]
        return [
            {"metric": metric, "coefficient": coefficient, "ratings": aggregation, "value": value.estimate,
             "low": value.low, "high": value.high, "p": p}
            for metric, coefficient, aggregation, value, p in (*values, *gaps)
        ]  # fmt: skip

    def describe(self) -> dict[str, object]:
        """Plain values that hold the whole report."""
        rows = self.rows()
        counts = {"captions": self.captions, "images": self.images}
        usual = {"coefficient": self.coefficient, "ratings": self.aggregation}
        return {
            "judgements": self.name, **counts, **usual, "lines": json_ready(rows[: len(self.lines)]),
            "differences": json_ready(rows[len(self.lines) :]), "level": self.level, "notes": list(self.notes),
        }  # fmt: skip

    def document(self) -> Document:
        """What the report shows."""
        title = f"{self.name}: {self.captions:,} judged captions of {self.images:,} images"
        metrics = list(dict.fromkeys(line.metric for line in self.lines))
        ranked = sorted(metrics, key=lambda metric: -self.value(metric).estimate)
        readings = list(dict.fromkeys((line.coefficient, line.aggregation) for line in self.lines))
        usual = f"{self.coefficient}, {self.aggregation}"
        further = [reading for reading in readings if reading != (self.coefficient, self.aggregation)]
        head = ("metric, times 100", usual, *(f"{c}, {a}" for c, a in further))
        cells = [
            (
                m,
                percent(self.value(m)),
                *(f"{100 * self.value(m, coefficient=c, aggregation=a).estimate:.1f}" for c, a in further),
            )
            for m in ranked
        ]
        pairs = [(d.first, d.second, percent(d.difference), shown_p(d.p_value)) for d in self.differences]
        grids = [Grid(title, (head, *cells), "agreement with people")]
        if pairs:
            names = ("metric", "minus", f"difference of {self.coefficient}, times 100", "p (Holm)")
            grids.append(Grid("differences", (names, *pairs), "differences"))
        foot = [f"intervals ({100 * self.level:g}%) and tests: jackknife by image"]
        return Document(title, grids, self.notes, foot)


def metric_agreement(
    judged: JudgedCaptions,
    scores: Mapping[str, npt.ArrayLike],
    *,
    coefficient: str | None = None,
    aggregation: str | None = None,
    every: bool = True,
    level: float = 0.95,
    progress: ProgressLike = None,
) -> AgreementReport:
    """The rank correlations of metrics with people, and which differences between metrics are significant.

    Args:
        judged: The captions with their ratings.
        scores: For each metric a number per caption.
        coefficient: The one of the differences: tau-b, tau-c or spearman; by default the usual one of the judgements.
        aggregation: The combination of ratings of the differences, one of `AGGREGATIONS`; likewise.
        every: Whether the other coefficients and combinations are computed too.
        level: The coverage of the intervals.
        progress: Called with (correlations done, correlations in total).

    >>> ratings = ((1,), (3,), (2,), (4,))
    >>> judged = JudgedCaptions("four", ("a", "a", "b", "b"), ("v", "x", "y", "z"), ((),) * 4, ratings=ratings)
    >>> report = metric_agreement(judged, {"length": [1, 4, 2, 3], "random": [2, 1, 3, 4]}, every=False)
    >>> [(d.first, d.second, round(d.difference.estimate, 2)) for d in report.differences]
    [('length', 'random', 0.33)]
    """
    progress = as_progress(progress)
    usual = coefficient or judged.coefficient, aggregation or judged.aggregation
    for kind, word, words in (("coefficient", usual[0], COEFFICIENTS), ("aggregation", usual[1], AGGREGATIONS)):
        if word not in words:
            raise UnknownName(kind, word, words)
    readings = [(c, a) for c in COEFFICIENTS for a in AGGREGATIONS] if every else [usual]
    values: dict[tuple[str, str, str], Jackknife] = {}
    for metric, column in scores.items():
        for reading in readings:
            values[(metric, *reading)] = _correlation(judged, np.asarray(column, dtype=np.float64), *reading)
            progress(len(values), len(scores) * len(readings))
    lines = [AgreementLine(*key, value.interval(level=level, low=-1.0, high=1.0)) for key, value in values.items()]
    gaps = _differences({metric: values[(metric, *usual)] for metric in scores}, level)
    size = len(judged), len(set(judged.images))
    notes = (*judged.notes, *_shared_captions(judged))
    return AgreementReport(judged.name, *size, *usual, tuple(lines), gaps, level, notes)


def _shared_captions(judged: JudgedCaptions) -> list[str]:
    """A note where captions are judged with several images, so that images are not independent."""
    images = Counter(caption for _, caption in set(zip(judged.images, judged.captions, strict=True)))
    shared = sum(count > 1 for count in images.values())
    if not shared:
        return []
    return [
        f"{shared:,} of {len(images):,} captions are judged with several images: intervals by image do not count how "
        "other captions would differ"
    ]


def _correlation(judged: JudgedCaptions, scores: FloatArray, coefficient: str, aggregation: str) -> Jackknife:
    repeats = np.array([len(ratings) if aggregation == "each" else 1 for ratings in judged.ratings])
    if aggregation == "each":
        people = np.concatenate([np.asarray(ratings, dtype=np.float64) for ratings in judged.ratings])
    else:
        combine = np.mean if aggregation == "mean" else np.median
        people = np.array([float(combine(ratings)) for ratings in judged.ratings])
    images = np.unique(judged.images, return_inverse=True)[1]
    return clustered_correlation(
        np.repeat(scores, repeats), people, clusters=np.repeat(images, repeats), coefficient=coefficient
    )


def _differences(values: Mapping[str, Jackknife], level: float) -> tuple[MetricDifference, ...]:
    ranked: Sequence[str] = sorted(values, key=lambda metric: -values[metric].estimate)
    gaps = [(first, second, values[first] - values[second]) for first, second in combinations(ranked, 2)]
    corrected = holm([gap.p_value for *_, gap in gaps]) if gaps else ()
    return tuple(
        MetricDifference(first, second, gap.interval(level=level), float(p))
        for (first, second, gap), p in zip(gaps, corrected, strict=True)
    )
