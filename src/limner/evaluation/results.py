"""Results: one measure in one direction under one view, query by query, with a confidence interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from limner import stats
from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError, shown
from limner.core.ids import Ids
from limner.core.options import OptionValues
from limner.core.paths import JsonObject
from limner.evaluation.measures import Measure
from limner.evaluation.measures.kinds import Statistic
from limner.evaluation.protocols import View
from limner.stats.paired import PairedTest, randomisation_of

DIRECTIONS = {"i2t": "image -> text", "t2i": "text -> image", "both": "both directions", "run": "query -> candidate"}
ALONE = (
    "queries count as independent: if some belong together, such as captions of one image, pass groups "
    "(-O groups=FILE), or intervals are too narrow and p-values too small"
)
LEAST = 20
"""With fewer queries or clusters there is no interval of a median, a mean rank or another unbounded statistic."""
CAUTION = 4.0
"""Weight of the worst rank in the variance of a mean rank; `proofs/few_clusters.py` measures the coverage."""

WIDEST = 0.999
"""The largest share of resamples inside an interval: more depends on single resamples."""


@dataclass(frozen=True)
class StoredValue:
    """A value and its interval, as stored in a file."""

    value: float
    interval: stats.Interval | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """One measure in one direction under one view: a value per query, and their summary.

    Args:
        view: Protocol view or judgements.
        direction: A key of `DIRECTIONS`.
        measure: The measure.
        queries: The queries that count.
        values: One value per query.
        clusters: Cluster of each query (captions of one image); None if queries are independent.
        folds: Fold of each query; the value is then the mean over folds.
        left_out: Number of queries without a relevant candidate, which do not count.
        parts: The parts of a composite measure, such as rsum, whose value is a multiple of the sum of theirs; each has
            its images as clusters. Empty for other measures.
        stored: The number and its interval as stored in a file, if the summary is unknown in this process.
        possible: The lowest and the highest value over all ways to judge the unjudged pairs; None if all were judged,
            or if it cannot be computed.
        pool: The largest number of candidates that a query was ranked against; None if unknown.
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
    stored: StoredValue | None = None
    possible: tuple[float, float] | None = None
    pool: int | None = None

    def summarise(self, values: FloatArray) -> float:
        """Summarises one value per query: mean or median; with folds, the mean of this over folds."""
        if self.folds is None or not len(values):
            return self.measure.summarise(values)
        return float(np.mean([self.measure.summarise(values[self.folds == f]) for f in np.unique(self.folds)]))

    @cached_property
    def value(self) -> float:
        """The summary over all queries."""
        composite = self.measure.kind.composite
        if composite is not None and self.parts:
            return composite.value(part.value for part in self.parts)
        return self.stored.value if self.stored is not None else self.summarise(self.values)

    @cached_property
    def contributions(self) -> FloatArray:
        """The contribution of each query to a mean: its value, weighted if folds of unequal size count equally."""
        if self.folds is None:
            return self.values
        _, fold, sizes = np.unique(self.folds, return_inverse=True, return_counts=True)
        return np.asarray(self.values * (len(self.values) / (len(sizes) * sizes[fold])))

    @cached_property
    def interval(self) -> stats.Interval | None:
        """95% interval of the value; None if a query's value is infinite, or as `why_none` says.

        For means of bounded values (also ranks, whose bound is the number of candidates) and composites, it is Wilson's
        with the effective number of queries; for others, a bootstrap interval.
        """
        if self.stored is not None:
            return self.stored.interval
        if not self._has_interval:
            return None
        if (composite := self.measure.kind.composite) is not None and self.parts:
            return composite.interval([part._addend(part.values, composite.weight) for part in self.parts])
        if (bounds := self._bounds) is not None:
            return self._mean_interval(self.values, bounds)
        return self._unless_point(stats.bootstrap(self.values, **self._bootstrap_options))

    def difference(self, baseline: Result) -> stats.Interval | None:
        """95% interval of this value minus that of another system on the same queries; None as for `interval`."""
        if not (self._has_interval and baseline._has_interval):
            return None
        if (composite := self.measure.kind.composite) is not None and self.parts and baseline.parts:
            pairs = zip(self.parts, baseline.parts, strict=True)
            return composite.difference([a._addend(a.values - b.values, composite.weight) for a, b in pairs])
        if (bounds := self._bounds) is not None and (other_bounds := baseline._bounds) is not None:
            reach = max(bounds[1] - bounds[0], other_bounds[1] - other_bounds[0])
            return self._mean_interval(self.values - baseline.values, (-reach, reach))
        return self._unless_point(stats.bootstrap_difference(self.values, baseline.values, **self._bootstrap_options))

    def _mean_interval(self, values: FloatArray, bounds: tuple[float, float]) -> stats.Interval:
        caution = CAUTION if self._of_ranks else 1.0
        return stats.mean_interval(values, clusters=self.clusters, folds=self.folds, bounds=bounds, caution=caution)

    def _unless_point(self, drawn: stats.Interval) -> stats.Interval | None:
        """The interval, or None for a mean whose resamples are all identical."""
        return replace(drawn, level=0.95) if drawn.low < drawn.high or self.statistic != "mean" else None

    def _addend(self, values: FloatArray, weight: float) -> stats.Part:
        """These values of the queries as a part of a composite measure."""
        clusters = np.arange(len(values)) if self.clusters is None else self.clusters
        return stats.Part(values, clusters, weight, self.folds)

    @property
    def _bootstrap_options(self) -> OptionValues:
        """Options of the bootstrap."""
        return {"statistic": self.statistic, "clusters": self._drawn, "folds": self.folds, "level": self._widened}

    @property
    def _widened(self) -> float:
        """The level of a percentile interval that covers 95% over few queries or clusters (Hesterberg 2015)."""
        from scipy.special import ndtr, stdtrit

        sizes = np.ones(len(self.values)) if self._drawn is None else np.unique(self._drawn, return_counts=True)[1]
        n = max(float(sizes.sum() ** 2 / (sizes**2).sum()), 2.0)
        return min(1 - 2 * float(ndtr(-stdtrit(n - 1, 0.975) * np.sqrt(n / (n - 1)))), WIDEST)

    @property
    def _drawn(self) -> IntArray | None:
        """The clusters that the bootstrap resamples, each within one fold."""
        if self.clusters is None or self.folds is None:
            return self.clusters
        return np.asarray(self.clusters * (int(self.folds.max(initial=0)) + 1) + self.folds)

    @property
    def _has_interval(self) -> bool:
        """Whether there can be an interval."""
        if not len(self.values) or not np.isfinite(self.values).all() or not all(len(p.values) for p in self.parts):
            return False
        return self.stored is None and not self.why_none

    @property
    def why_none(self) -> str:
        """Why finite values have no interval; "" if they have one."""
        if self.parts or self.stored is not None or (self._bounds is not None and not self._of_ranks):
            return ""
        if self._fewest < LEAST:
            return f"fewer than {LEAST} queries or clusters"
        return "the number of candidates is unknown" if self._of_ranks and self._bounds is None else ""

    @property
    def _of_ranks(self) -> bool:
        """Whether the value is a mean of ranks."""
        return self.measure.kind.rank and self.statistic == "mean"

    @property
    def _fewest(self) -> int:
        """The number of queries, or of clusters, in the smallest fold."""
        units = np.arange(len(self.values)) if self._drawn is None else self._drawn
        folds = np.zeros(len(units)) if self.folds is None else self.folds
        return min((len(np.unique(units[folds == fold])) for fold in np.unique(folds)), default=0)

    @property
    def _bounds(self) -> tuple[float, float] | None:
        """Bounds of the values of a mean; None if unbounded or unknown, or not a mean."""
        bounds = (1.0, max(2.0, self.pool)) if self._of_ranks and self.pool else self.measure.kind.bounds
        if bounds is None or self.statistic != "mean" or not len(self.values):
            return None
        return bounds if bounds[0] <= self.values.min() and self.values.max() <= bounds[1] else None

    @property
    def statistic(self) -> Statistic:
        """The summary statistic over the queries of a fold: "mean", "median" or a function."""
        return self.measure.statistic

    def reordered(self, queries: Ids) -> Result:
        """The same result with its queries in another order."""
        if self.queries == queries:
            return self
        rows = self.queries.positions(queries)
        moved = {"clusters": self.clusters, "folds": self.folds}
        grouped: OptionValues = {name: None if codes is None else codes[rows] for name, codes in moved.items()}
        return replace(self, queries=queries, values=self.values[rows], **grouped)

    def restricted(self, rows: IntArray) -> Result:
        """The result for some of its queries; the candidates stay the same.

        Unknown is what unjudged pairs could change: other queries of the part may have a match among them.
        """
        groupings = {"clusters": self.clusters, "folds": self.folds}
        some: OptionValues = {name: None if codes is None else codes[rows] for name, codes in groupings.items()}
        some["possible"] = None
        return replace(self, queries=self.queries[rows], values=self.values[rows], **some)

    @property
    def key(self) -> tuple[str, str, str]:
        """(view, direction, measure): results of two reports with the same key are comparable."""
        return self.view, self.direction, str(self.measure)

    def __repr__(self) -> str:
        return f"Result({' '.join(self.key)} = {self.measure.show(self.value)} over {len(self.queries):,} queries)"


def written(measure: str | Measure, results: Iterable[Measured]) -> str:
    """The name of a measure in results: as given if a result has that name, else in its canonical form."""
    names = {str(result.measure) for result in results}
    return str(measure) if str(measure) in names else str(Measure.parse(measure))


def without_interval(results: Iterable[Result]) -> list[str]:
    """A note for each reason why results have no interval, with their measures."""
    named: dict[str, dict[str, None]] = {}
    for result in results:
        if len(result.values) and np.isfinite(result.values).all() and (why := result.why_none):
            named.setdefault(why, {})[str(result.measure)] = None
    return [f"no interval of {', '.join(measures)}: {why}" for why, measures in named.items()]


def main_result(results: Sequence[Result]) -> Result:
    """The headline number: hits at the smallest k, else the first measure."""
    hits = [r for r in results if r.measure.kind.hit and not r.measure.options]
    return min(hits, key=lambda r: r.measure.k or 0) if hits else results[0]


class Measured(Protocol):
    """Anything with a measure: a result, or a line of a comparison."""

    @property
    def measure(self) -> Measure:
        """What was measured."""


class Evaluated(Protocol):
    """Anything that can be compared: a report, or another object with results."""

    @property
    def system(self) -> str:
        """Name of the system."""

    @property
    def collection(self) -> str:
        """Name of the collection."""

    @property
    def results(self) -> tuple[Result, ...]:
        """The results, in order of view, direction and measure."""

    @property
    def settings(self) -> JsonObject:
        """The settings of the evaluation."""


def heading(view: str, direction: str) -> str:
    """`pairs, image -> text`."""
    return f"{view}, {DIRECTIONS.get(direction, direction)}"


def paired(first: Result, second: Result) -> Result:
    """The result of another system in the order of the first; refuses different queries, groups or folds."""
    lone = set(first.queries) ^ set(second.queries)
    if lone:
        raise LimnerError(
            f"{' '.join(first.key)}: {len(lone)} queries are in only one report ({shown(sorted(lone))}): evaluate all "
            "systems on the same collection"
        )
    aligned = second.reordered(first.queries)
    for grouping, one, two in (("grouped", first.clusters, aligned.clusters), ("in folds", first.folds, aligned.folds)):
        if (one is None) != (two is None):
            raise LimnerError(f"{' '.join(first.key)}: queries are {grouping} in one report and not in the other")
        if one is not None and two is not None and not np.array_equal(_numbered(one), _numbered(two)):
            raise LimnerError(
                f"{' '.join(first.key)}: queries are {grouping} in different ways: evaluate all systems with the "
                f"same settings"
            )
    parts = {part.key: part for part in second.parts}
    return replace(aligned, parts=tuple(paired(part, parts[part.key]) for part in first.parts if part.key in parts))


def _numbered(codes: IntArray) -> IntArray:
    """Groups as integers, numbered in order of appearance."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group].astype(np.int64)


def comparable(a: Result, b: Result) -> bool:
    """Whether both have a finite value per query."""
    summed_up = a.stored is None and b.stored is None
    return bool(summed_up and len(a.values) and np.isfinite(a.values).all() and np.isfinite(b.values).all())


def paired_test(a: Result, b: Result, *, test: str = "auto", samples: int = 100_000, seed: int = 0) -> PairedTest:
    """Tests two results on the same queries, as `compare` does: clustered by image if captions share one."""
    binary = bool(np.isin([a.values, b.values], (0.0, 1.0)).all())
    if test == "auto":
        test = "mcnemar" if binary and a.clusters is None else "randomisation"
    named = {"mcnemar": stats.mcnemar, "sign": stats.sign_test, "wilcoxon": stats.wilcoxon}
    if test in named and (binary or test != "mcnemar"):
        return named[test](a.values, b.values, clusters=a.clusters)
    options: OptionValues = {"clusters": a.clusters, "seed": seed}
    if a.statistic != "mean":
        return randomisation_of(a.summarise, a.values, b.values, samples=min(samples, 2_000), **options)
    return stats.randomisation(a.contributions, b.contributions, samples=samples, **options)


def effect_size(a: Result, b: Result) -> float:
    """Cohen's d of the paired differences; 0 if nothing differs."""
    difference = a.values - b.values
    spread = float(np.std(difference, ddof=1)) if len(difference) > 1 else 0.0
    return float(difference.mean() / spread) if spread > 0 else 0.0


def composite_results(requested: Sequence[View], results: Sequence[Result], images: Ids) -> list[Result]:
    """The composite measures of every view of which both directions were measured."""
    composites = []
    for view in requested:
        for measure in (m for m in view.measures if m.kind.composite):
            parts = [r for r in results if r.view == view.name and r.measure in measure.parts]
            if len(parts) == 2 * len(measure.parts):
                composites.append(_composite(view.name, measure, parts, images))
    return composites


def _composite(view: str, measure: Measure, parts: Sequence[Result], ids: Ids) -> Result:
    """Computes a composite measure and its parts, clustered by image; a text without an image is its own cluster.

    The value of a cluster is the number of clusters times what its queries add, so the mean of all is the measure.
    """
    weight = measure.kind.composite.weight if measure.kind.composite else 1.0
    images = [ids.positions(r.queries) if r.clusters is None else r.clusters for r in parts]
    units = np.flatnonzero(np.bincount(np.concatenate(images)))
    place = np.zeros(int(units.max(initial=-1)) + 1, np.int64)
    place[units] = np.arange(len(units))
    added = [weight * part.contributions / max(len(part.queries), 1) for part in parts]
    shares = np.asarray(np.bincount(place[np.concatenate(images)], np.concatenate(added), len(units)), np.float64)
    by_image = tuple(replace(part, clusters=image) for part, image in zip(parts, images, strict=True))
    names = _unit_names(units, parts, images, ids)
    ends = [part.possible for part in parts if part.possible]
    low, high = (weight * sum(end[side] for end in ends) for side in (0, 1))
    reach = (low, high) if len(ends) == len(parts) else None
    return Result(view, "both", measure, names, len(units) * shares, parts=by_image, possible=reach)


def _unit_names(units: IntArray, parts: Sequence[Result], image: Sequence[IntArray], images: Ids) -> Ids:
    """The ids of images, and names for texts without an image that do not collide with them."""
    names = images[units[units < len(images)]]
    if len(names) == len(units):
        return names
    lone = {
        int(unit): part.queries[int(at)]
        for part, clusters in zip(parts, image, strict=True)
        for at, unit in zip(np.flatnonzero(clusters >= len(images)), clusters[clusters >= len(images)], strict=True)
    }
    new = [f"text {lone[int(unit)]}" for unit in units[units >= len(images)]]
    return Ids([*names, *(f"{name} without image" if name in images else name for name in new)], what="image")
