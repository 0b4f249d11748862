"""Estimates for complete judgements from the answers of a designed sample, for `limner.evaluate(..., labels=store)`.

A design draws units: pairs, queries, or levels of a query's pool. `known` are the pairs given beforehand, `said` what
people answered, `truth` both. Intervals hold whenever somebody stops ("anytime"), or after the planned answers
("fixed"). A measure is the mean over the queries that have a given match, as in the view "pairs"; notes say how many
others have one at least. Answers are used in the order of the draws, up to the first gap: a valid sample of the design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner.annotate import levels
from limner.annotate.estimate_notes import (
    LabelQuality,
    agreement_words,
    left_out_note,
    notes_of,
    over_all,
    people_agree,
    quality,
)
from limner.annotate.judge_report import design_warnings
from limner.annotate.sample import Sample, needed, read_sample, values
from limner.annotate.store import Store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL
from limner.core.arrays import BoolArray, FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.ranking import Ranking
from limner.evaluation.label_estimates import Estimated
from limner.evaluation.measures import Measure
from limner.scores import Scores
from limner.stats import Estimate, chained_means, sequential, stratified

Source = Scores | Ranking


@dataclass(frozen=True)
class Predicted:
    """Predictions for each unit before it is labelled, for `limner.stats.stratified` and `sequential`.

    They are a judge's score and, for a difference between two systems, which of them returns the pair. An estimate
    multiplies them by factors learned from the answers (`limner.stats.power_tuning`), so useless predictions cost
    almost nothing.

    Args:
        columns: One row for each unit of the design; 0 for units that the measure does not need.
        means: The mean of each column in each stratum, over the units that the measure needs.
        corners: Extreme predictions that enclose all others of the stratum.
    """

    columns: FloatArray
    means: FloatArray
    corners: FloatArray

    @classmethod
    def of(
        cls, matter: IntArray, codes: IntArray, scores: FloatArray | None, signs: FloatArray | None
    ) -> Predicted | None:
        """The judge's scores and, for a difference over pairs, which system returns each; None if there is neither.

        Args:
            matter: The numbers of the units that the measure needs.
            codes: The stratum of every unit.
            scores: The judge's score of every unit.
            signs: For each of these units, whether a match increases or decreases the difference, 1 or -1.
        """
        if scores is None and signs is None:
            return None
        side = np.ones(len(matter)) if signs is None else signs
        columns = [] if signs is None else [side]
        columns += [] if scores is None else [side * scores[matter]]
        predictors, stratum_of = np.column_stack(columns), codes[matter]
        strata, order = int(codes.max()) + 1, np.abs(predictors[:, -1])
        every = np.zeros((len(codes), len(columns)))
        every[matter] = predictors
        means, corners = np.zeros((strata, len(columns))), np.zeros((strata, 4, len(columns)))
        for h in np.unique(stratum_of).tolist():
            by_side = [np.flatnonzero((stratum_of == h) & (side == sign)) for sign in (1.0, -1.0)]
            ends = [part[end(order[part])] for part in by_side if len(part) for end in (np.argmin, np.argmax)]
            means[h], corners[h] = predictors[stratum_of == h].mean(axis=0), predictors[np.resize(ends, 4)]
        return cls(every, means, corners)


@dataclass(frozen=True)
class _Sought:
    """A measure as a sum: `shift + scale * (mean over units)`, plus the part outside the design.

    Args:
        values: Values of every relevant unit, by unit id; NaN if it was not answered.
        scale: Weight of these units in the measure.
        shift: The known part.
        outside: Weight of the part outside the design.
        bounds: Bounds of a unit's value.
        signs: For a difference over pairs: 1 if a match of the unit increases it; -1 if a match decreases it, in which
            case the value is 1 for no match.
    """

    values: Mapping[int, float]
    scale: float
    shift: float
    outside: float
    bounds: tuple[float, float] = (0.0, 1.0)
    signs: Mapping[int, float] | None = None


def estimates(
    store: Store,
    sources: Mapping[str, Source],
    collection: Collection,
    measures: Sequence[Measure] | None = None,
    *,
    mode: str = "fixed",
    level: float = 0.95,
) -> tuple[list[Estimated], list[str]]:
    """Estimates of every measure of the store's designs, in every direction of the sources.

    Args:
        store: A store with designs (`limner.annotate.plan`) and answers.
        sources: Scores or rankings by direction.
        collection: Its pairs are the given positives.
        measures: The measures to estimate; all measures of the design by default.
        mode: "fixed" or "anytime".
        level: Level of the intervals.

    Returns: The estimates, and notes.
    """
    estimated: list[Estimated] = []
    notes: list[str] = []
    collected = answers(store)
    for direction, source in sources.items():
        sample = read_sample(store, collection, direction, collected)
        if sample is None:
            notes.append(f"estimated ({direction}): no design in the store; make one with 'limner annotate plan'")
            continue
        planned = [Measure.parse(m) for m in sample.design.settings["measures"]]
        chosen = [m for m in planned if measures is None or m in measures] or planned
        if sample.design.unit == LEVEL:
            estimated += _by_levels(sample, source, chosen, mode, level)
        else:
            ranking = _lists(source, max(m.k or 1 for m in planned))
            estimated += [_estimated(sample, ranking, m, mode, level) for m in chosen]
        notes += notes_of(sample, [e for e in estimated if e.direction == direction], mode)
        notes += design_warnings(store, sample)
        notes += _left_out(sample, source, chosen, mode, level)
        labels = quality(collected, collection, sample.design, sample.units, sample.said, level)
        notes += [f"estimated ({direction}): {line}" for line in str(labels).splitlines()]
    return estimated, notes + ([agreement_words(people_agree(collected))] if estimated else [])


def difference(
    store: Store,
    one: Source,
    rival: Source,
    collection: Collection,
    measure: str | Measure,
    *,
    direction: str,
    mode: str = "fixed",
    level: float = 0.95,
) -> Estimate:
    """The difference between two systems under complete judgements; only pairs on which they differ matter.

    Args:
        store: A store with a design for both systems, and answers.
        one: Scores or a ranking of one system in this direction.
        rival: Scores or a ranking of the other system.
        collection: Its pairs are the given positives.
        measure: One of the design's measures.
        direction: "i2t" or "t2i".
        mode: "fixed" or "anytime".
        level: Level of the interval.
    """
    sample = read_sample(store, collection, direction)
    if sample is None:
        raise LimnerError(f"{direction}: no design in the store; make one with 'limner annotate plan'")
    chosen = Measure.parse(measure)
    if sample.design.unit == LEVEL:
        first, second = (_steps(sample, each, [chosen])[chosen] for each in (one, rival))
        differences = {
            n: (a - c, b - d) for (n, (a, b)), (c, d) in zip(first[1].items(), second[1].values(), strict=True)
        }
        return _chained(sample, differences, first[0] - second[0], (-1.0, 1.0), mode, level)
    depth = chosen.k or 1
    return _solved(sample, _sought(sample, _lists(one, depth), chosen, _lists(rival, depth)), mode, level)


def label_quality(store: Store, collection: Collection, *, direction: str) -> LabelQuality:
    """Precision and recall of the given pairs, from people's answers.

    Args:
        store: With answers; recall needs answers to a design of levels in this direction.
        collection: The collection with the given pairs.
        direction: "i2t" or "t2i".
    """
    collected = answers(store)
    sample = read_sample(store, collection, direction, collected)
    design, units, labels = (sample.design, sample.units, sample.said) if sample else (None, (), {})
    return quality(collected, collection, design, units, labels, 0.95)


def _lists(source: Source, depth: int) -> Ranking:
    ranking: Ranking = source.top(depth)
    if ranking.depth < depth and isinstance(source, Ranking) and ranking.depth < (ranking.n_candidates or depth):
        raise LimnerError(f"the lists have {ranking.depth} ranks, the design needs {depth}: use deeper rankings")
    return ranking


def _estimated(sample: Sample, ranking: Ranking, measure: Measure, mode: str, level: float) -> Estimated:
    sought = _sought(sample, ranking, measure)
    counted = _counted(sample, ranking)
    judged_value = float(values(ranking, sample.known, measure)[counted].mean())
    number = _solved(sample, sought, mode, level)
    return Estimated(
        sample.design.direction, measure, number, int(counted.sum()), sample.labels, judged_value, sought.outside,
        int((~counted).sum()),
    )  # fmt: skip


def _counted(sample: Sample, ranking: Ranking, *, left_out: bool = False) -> BoolArray:
    """The queries that a measure is the mean over; or the others, which have no given match."""
    return np.asarray(levels.has_positive(ranking.queries, sample.known) != left_out)


def _left_out(sample: Sample, source: Source, measures: Sequence[Measure], mode: str, level: float) -> list[str]:
    """A note on the queries without a given match, if there are any."""
    if sample.design.unit == LEVEL:
        return left_out_note(sample, (len(sample.known.queries) - sample.left_out, sample.left_out))
    ranking = _lists(source, max(m.k or 1 for m in measures))
    counted = _counted(sample, ranking)
    sizes = int(counted.sum()), int((~counted).sum())
    if not sizes[1]:
        return []
    together = 1 - (1 - level) / 2  # two intervals that hold at once
    ends = {}
    try:
        for measure in measures:
            each = [_sought(sample, ranking, measure, left_out=part) for part in (False, True)]
            ends[measure] = [_solved(sample, sought, mode, together) for sought in each]
    except LimnerError:  # no answers yet
        return left_out_note(sample, sizes)
    deepest = max(measures, key=lambda m: (m.kind.hit, m.k or 1))
    with_match = int(np.ceil(sizes[1] * ends[deepest][1].low - 1e-6))
    ranges = []
    for measure, (matched, unmatched) in ends.items():
        low, high = (measure.show(end) for end in over_all(matched, unmatched, sizes))
        ranges.append(f"{measure} is between {low} and {high}")
    return left_out_note(sample, sizes, with_match, deepest.k or 1, ranges, level)


def _by_levels(sample: Sample, source: Source, measures: Sequence[Measure], mode: str, level: float) -> list[Estimated]:
    """Estimates of the measures from a design of levels."""
    estimated = []
    for measure, (start, steps) in _steps(sample, source, measures).items():
        number = _chained(sample, steps, start, (0.0, 1.0), mode, level)
        about = sample.design.direction, measure, number, sample.design.queries, sample.labels, start
        estimated.append(Estimated(*about, left_out=sample.left_out))
    return estimated


def _steps(sample: Sample, source: Source, measures: Sequence[Measure]) -> dict[Measure, tuple[float, levels.Steps]]:
    """Each measure under the given positives, and of each labelled unit's query without and with its labels."""
    judgements = levels.with_positives(sample.known)
    starts = levels.given_values(source, judgements, measures)
    steps = levels.before_and_after(source, sample.design, sample.units, judgements, sample.said, measures)
    return {measure: (starts[measure], steps[measure]) for measure in measures}


def _chained(
    sample: Sample, steps: levels.Steps, start: float, bounds: tuple[float, float], mode: str, level: float
) -> Estimate:
    """The mean with all labels, predicted level by level from the known value."""
    if mode != "fixed":
        raise LimnerError(
            "anytime intervals of measures that need all matches of a query need hundreds of fully labelled queries: "
            "use mode 'fixed' when the labelling is finished"
        )
    strata = np.array([sample.design.units[n].stratum for n in steps], dtype=np.int64)
    count = np.bincount(strata, minlength=len(levels.PRIOR))
    if count.min() < 2:
        raise LimnerError(
            f"queries labelled at each level: {count.tolist()}; an interval needs at least 2 per level: label "
            f"more of the drawn pairs first"
        )
    sizes = [sample.design.queries] * len(count)
    before, after = zip(*steps.values(), strict=True)
    prior = np.array(levels.PRIOR) * (levels.OF_DIFFERENCES if bounds[0] < 0 else 1.0)
    return chained_means(before, after, strata, sizes, start=start, prior=prior, bounds=bounds, level=level)


def _sought(
    sample: Sample, ranking: Ranking, measure: Measure, rival: Ranking | None = None, *, left_out: bool = False
) -> _Sought:
    """The measure, or a difference, over the queries with a given match; or over those without one."""
    every = [(each, _counted(sample, each, left_out=left_out)) for each in (ranking, rival) if each is not None]
    (inside, outside, shift), *rivals = (_parts(sample, each, measure, counted) for each, counted in every)
    total = float(every[0][1].sum() * (measure.k or 1 if sample.design.unit == "pair" else 1))
    if not rivals:
        return _Sought(inside, len(inside) / total, shift, outside / total)
    ((theirs, beyond, back),) = rivals
    if sample.design.unit == "pair":  # pairs that both systems return cancel
        shared = inside.keys() & theirs.keys()
        signs = {n: sign for side, sign in ((inside, 1.0), (theirs, -1.0)) for n in side if n not in shared}
        differences = {n: inside[n] if sign > 0 else 1 - theirs[n] for n, sign in signs.items()}  # no match counts 1
        back += sum(sign < 0 for sign in signs.values()) / total
        return _Sought(
            differences, len(differences) / total, shift - back, (outside + beyond) / total, (0.0, 1.0), signs
        )
    return _query_difference(sample, ranking, rival, measure, inside.keys() | theirs.keys(), (outside + beyond) / total)


def _parts(
    sample: Sample, ranking: Ranking, measure: Measure, counted: BoolArray
) -> tuple[dict[int, float], int, float]:
    """The value of each relevant unit, the weight outside the design, and the part known without labels."""
    queries = {ranking.queries[row] for row in np.flatnonzero(counted).tolist()}
    open_candidates = {
        query: each for query, each in needed(ranking, sample.known, measure).items() if query in queries
    }
    design = sample.design
    answered = set(sample.units)
    judged_values = np.where(counted, values(ranking, sample.known, measure), 0.0)
    if design.unit == "pair":
        index = {(u.query, u.candidates[0]): n for n, u in enumerate(design.units)}
        open_pairs = [(query, candidate) for query, candidates in open_candidates.items() for candidate in candidates]
        inside = {
            index[p]: _pair_value(sample, p) if index[p] in answered else np.nan for p in open_pairs if p in index
        }
        return inside, len(open_pairs) - len(inside), float(judged_values.sum()) / len(queries)
    rows = {query: row for row, query in enumerate(ranking.queries)}
    units = {u.query: n for n, u in enumerate(design.units)}
    current = values(ranking, sample.truth, measure)
    reach = {q for q, c in open_candidates.items() if q in units and set(c) <= set(design.units[units[q]].candidates)}
    inside = {units[q]: float(current[rows[q]]) if units[q] in answered else np.nan for q in reach}
    settled = judged_values.sum() - sum(judged_values[rows[q]] for q in open_candidates)
    return inside, len(open_candidates) - len(reach), float(settled) / len(queries)


def _pair_value(sample: Sample, pair: Key) -> float:
    image, caption = pair if sample.design.direction == "i2t" else pair[::-1]
    return float(sample.said[image, caption])


def _query_difference(
    sample: Sample, one: Ranking, rival: Ranking | None, measure: Measure, units: Iterable[int], outside: float
) -> _Sought:
    """Differences over whole queries; a query's difference is known if neither system has an unjudged rank."""
    if rival is None:
        raise LimnerError("a difference needs two systems, got one")
    rows = [{query: row for row, query in enumerate(each.queries)} for each in (one, rival)]
    current = [values(each, sample.truth, measure) for each in (one, rival)]
    judged_values = [values(each, sample.known, measure) for each in (one, rival)]
    answered = set(sample.units)
    query = {n: sample.design.units[n].query for n in units}
    open_ = {q for each in (one, rival) for q in needed(each, sample.known, measure)}
    counted = {q for q, is_counted in zip(one.queries, _counted(sample, one).tolist(), strict=True) if is_counted}
    differences = {
        n: float(current[0][rows[0][q]] - current[1][rows[1][q]]) if n in answered else np.nan for n, q in query.items()
    }
    settled = sum(judged_values[0][rows[0][q]] - judged_values[1][rows[1][q]] for q in counted - open_)
    n = len(counted)
    return _Sought(differences, len(differences) / n, float(settled) / n, outside, (-1.0, 1.0))


def _solved(sample: Sample, sought: _Sought, mode: str, level: float) -> Estimate:
    codes = np.array([u.stratum for u in sample.design.units])
    matter = np.array(sorted(sought.values), dtype=np.int64)
    answered = [n for n in sample.units if n in sought.values]
    if not len(matter):
        exact = Estimate(
            sought.shift,
            sought.shift,
            sought.shift,
            level,
            0.0,
            0,
            0,
            float("nan"),
            "fixed" if mode == "fixed" else "anytime",
        )
        return _beyond(exact, sought)
    if not answered:
        raise LimnerError("no answers yet to the pairs that this measure needs: label some of the drawn pairs first")
    sizes = np.bincount(codes[matter], minlength=int(codes.max()) + 1).astype(np.float64)
    predicted = _predicted(sample, sought, matter, codes)
    if mode == "fixed":
        estimate = _fixed(sought, answered, codes, sizes, predicted, level)
    else:
        estimate = _anytime(sample, sought, codes, sizes, predicted, level)
    return _beyond(estimate.scaled(sought.scale, sought.shift), sought)


def _predicted(sample: Sample, sought: _Sought, matter: IntArray, codes: IntArray) -> Predicted | None:
    scores = [u.score for u in sample.design.units]
    judged = None if None in scores else np.array(scores, dtype=np.float64)
    signs = None if sought.signs is None else np.array([sought.signs[n] for n in matter])
    return Predicted.of(matter, codes, judged, signs)


def _fixed(
    sought: _Sought, answered: list[int], codes: IntArray, sizes: FloatArray, predicted: Predicted | None, level: float
) -> Estimate:
    """The fixed estimate over the non-empty strata; predictions are used as far as they help."""
    nonempty = np.flatnonzero(sizes > 0)
    return stratified(
        [sought.values[n] for n in answered],
        np.searchsorted(nonempty, codes[answered]),
        sizes[nonempty],
        predictions=None if predicted is None else predicted.columns[answered],
        expected=None if predicted is None else predicted.means[nonempty],
        tuned=predicted is not None,
        bounds=sought.bounds,
        level=level,
    )


def _anytime(
    sample: Sample, sought: _Sought, codes: IntArray, sizes: FloatArray, predicted: Predicted | None, level: float
) -> Estimate:
    design, units = sample.design, list(sample.units)
    certain = [design.units[n].probability == 1.0 for n in units]
    return sequential(
        [sought.values.get(n, 0.0) for n in units],
        codes[units],
        sizes,
        shares=np.array([design.shares[design.units[n].phase or 0] for n in units]),
        pilot=next((place for place, each in enumerate(certain) if not each), len(units)),
        frame=np.bincount(codes, minlength=len(sizes)),
        member=[n in sought.values for n in units],
        bounds=sought.bounds,
        level=level,
        predictions=None if predicted is None else predicted.columns[units],
        expected=None if predicted is None else predicted.means,
        corners=None if predicted is None else predicted.corners,
    )


def _beyond(estimate: Estimate, sought: _Sought) -> Estimate:
    """The interval widened by the part outside the design, which may have any value: there is no point then."""
    low = -1.0 if sought.signs is not None else sought.bounds[0]
    ends = max(estimate.low + low * sought.outside, low), min(estimate.high + sought.outside, 1.0)
    value = float("nan") if sought.outside else min(max(estimate.value, ends[0]), ends[1])
    return replace(estimate, value=value, low=ends[0], high=ends[1])
