"""Estimates for complete judgements from the answers of a designed sample.

`limner.evaluate(scores, collection, labels=store)` and `limner evaluate ... --estimate STORE` use this. Answers are
used in the order of the draws, up to the first gap, so that they form a valid sample of the design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limner.annotate import levels
from limner.annotate.aggregate import by_majority
from limner.annotate.frames import needed, values
from limner.annotate.given import LabelQuality, quality
from limner.annotate.merge import taken_out
from limner.annotate.predicted import Predicted
from limner.annotate.reliability import JudgeQuality, agreement_words, judge_quality, people_agree
from limner.annotate.scale import relevant
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import LEVEL, Design, designs
from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.estimated import Estimated
from limner.evaluation.measures import Measure
from limner.stats import Estimate, chained_means, sequential, stratified


@dataclass(frozen=True)
class Sample:
    """The answered part of a design.

    Args:
        design: The design.
        known: The given positives, query -> candidate.
        truth: The same plus the matches that people found.
        said: The human label of each pair, (image, caption).
        units: The drawn units up to the first unanswered one, in order of draw.
        open: Number of drawn units without answers.
    """

    design: Design
    known: Judgements
    truth: Judgements
    said: Mapping[Key, bool]
    units: tuple[int, ...]
    open: int

    @property
    def labels(self) -> int:
        """The number of judged pairs."""
        return len({pair for n in self.units for pair in self.design.units[n].pairs(self.design.direction)})


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
    sources: Mapping[str, object],
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
    found: list[Estimated] = []
    notes: list[str] = []
    given = answers(store)
    for direction, source in sources.items():
        sample = read_sample(store, collection, direction, given)
        if sample is None:
            notes.append(f"estimated ({direction}): no design in the store; make one with 'limner annotate plan'")
            continue
        planned = [Measure.parse(m) for m in sample.design.settings["measures"]]
        wanted = [m for m in planned if measures is None or m in measures] or planned
        if sample.design.unit == LEVEL:
            found += _by_levels(sample, source, wanted, mode, level)
        else:
            ranking = _lists(source, max(m.k or 1 for m in planned))
            found += [_estimated(sample, ranking, m, mode, level) for m in wanted]
        notes += _notes(sample, [e for e in found if e.direction == direction], mode)
        labels = quality(given, collection, sample.design, sample.units, sample.said, level)
        notes += [f"estimated ({direction}): {line}" for line in str(labels).splitlines()]
    return found, notes + ([agreement_words(people_agree(given))] if found else [])


def difference(
    store: Store,
    one: object,
    other: object,
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
        other: Scores or a ranking of the other system.
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
        first, second = (_steps(sample, each, [chosen])[chosen] for each in (one, other))
        apart = {n: (a - c, b - d) for (n, (a, b)), (c, d) in zip(first[1].items(), second[1].values(), strict=True)}
        return _chained(sample, apart, first[0] - second[0], (-1.0, 1.0), mode, level)
    depth = chosen.k or 1
    return _solved(sample, _sought(sample, _lists(one, depth), chosen, _lists(other, depth)), mode, level)


def label_quality(store: Store, collection: Collection, *, direction: str, level: float = 0.95) -> LabelQuality:
    """Precision and recall of the given pairs, from people's answers.

    Args:
        store: With answers; recall needs answers to a design of levels in this direction.
        collection: The collection with the given pairs.
        direction: "i2t" or "t2i".
        level: Coverage of the intervals.
    """
    given = answers(store)
    sample = read_sample(store, collection, direction, given)
    made, units, said = (sample.design, sample.units, sample.said) if sample else (None, (), {})
    return quality(given, collection, made, units, said, level)


def read_sample(
    store: Store, collection: Collection, direction: str, given: Sequence[Answer] | None = None
) -> Sample | None:
    """The last design of a direction with its answers (read from the store by default); None if there is no design."""
    made = [d for d in designs(store) if d.direction == direction]
    if not made:
        return None
    design = made[-1]
    said = {(x.image, x.caption): relevant(x.grade) for x in by_majority(answers(store) if given is None else given)}
    images, captions = map(set, taken_out(store))
    drawn, done = design.drawn, set(said)
    if design.unit == LEVEL:  # a whole pool stays complete: excluded pairs count as no match
        done |= {p for n in drawn for p in design.units[n].pairs(direction) if _barred([p], images, captions)}
    else:
        drawn = [n for n in drawn if not _barred(design.units[n].pairs(direction), images, captions)]
    whole = [all(pair in done for pair in design.units[n].pairs(direction)) for n in drawn]
    units = drawn[: whole.index(False)] if False in whole else drawn
    known = collection.judged("pairs", direction)
    yes = [pair if direction == "i2t" else pair[::-1] for pair, right in said.items() if right]
    here = [p for p in yes if p[0] in known.queries and p[1] in known.candidates]
    found = Judgements.from_pairs(here, queries=known.queries, candidates=known.candidates)
    return Sample(design, known, known.relevant | found, said, tuple(units), len(drawn) - len(units))


def _barred(pairs: Sequence[Key], images: set[str], captions: set[str]) -> bool:
    """Whether a unit is excluded because its image or caption is."""
    return any(image in images or caption in captions for image, caption in pairs)


def _lists(source: Any, depth: int) -> Ranking:
    ranking: Ranking = source.top(depth)
    if ranking.depth < depth and isinstance(source, Ranking) and ranking.depth < (ranking.n_candidates or depth):
        raise LimnerError(f"the lists have {ranking.depth} ranks, the design needs {depth}: use deeper rankings")
    return ranking


def _estimated(sample: Sample, ranking: Ranking, measure: Measure, mode: str, level: float) -> Estimated:
    sought = _sought(sample, ranking, measure)
    given = float(values(ranking, sample.known, measure).mean())
    number = _solved(sample, sought, mode, level)
    return Estimated(
        sample.design.direction, measure, number, len(ranking.queries), sample.labels, given, sought.outside
    )


def _by_levels(sample: Sample, source: object, measures: Sequence[Measure], mode: str, level: float) -> list[Estimated]:
    """Estimates of the measures from a design of levels."""
    found = []
    for measure, (given, seen) in _steps(sample, source, measures).items():
        number = _chained(sample, seen, given, (0.0, 1.0), mode, level)
        found.append(Estimated(sample.design.direction, measure, number, sample.design.queries, sample.labels, given))
    return found


def _steps(sample: Sample, source: Any, measures: Sequence[Measure]) -> dict[Measure, tuple[float, levels.Steps]]:
    """Each measure under the given positives, and of each labelled unit's query without and with its labels."""
    known = levels.with_positives(sample.known)
    given = levels.given_values(source, known, measures)
    seen = levels.before_and_after(source, sample.design, sample.units, known, sample.said, measures)
    return {measure: (given[measure], seen[measure]) for measure in measures}


def _chained(
    sample: Sample, seen: levels.Steps, given: float, bounds: tuple[float, float], mode: str, level: float
) -> Estimate:
    """The mean with all labels, predicted level by level from the known value."""
    if mode != "fixed":
        raise LimnerError(
            "anytime intervals of measures that need all matches of a query need hundreds of fully labelled queries: "
            "use mode 'fixed' when the labelling is finished"
        )
    strata = np.array([sample.design.units[n].stratum for n in seen], dtype=np.int64)
    count = np.bincount(strata, minlength=len(levels.PRIOR))
    if count.min() < 2:
        raise LimnerError(
            f"queries labelled at each level: {count.tolist()}; an interval needs at least 2 per level: label "
            f"more of the drawn pairs first"
        )
    sizes = [sample.design.queries] * len(count)
    before, after = zip(*seen.values(), strict=True)
    prior = np.array(levels.PRIOR) * (levels.OF_DIFFERENCES if bounds[0] < 0 else 1.0)
    return chained_means(before, after, strata, sizes, start=given, prior=prior, bounds=bounds, level=level)


def _sought(sample: Sample, ranking: Ranking, measure: Measure, rival: Ranking | None = None) -> _Sought:
    parts = [_parts(sample, each, measure) for each in ([ranking] if rival is None else [ranking, rival])]
    (inside, outside, shift), *others = parts
    total = float(len(ranking.queries) * (measure.k or 1 if sample.design.unit == "pair" else 1))
    if not others:
        return _Sought(inside, len(inside) / total, shift, outside / total)
    ((theirs, beyond, back),) = others
    if sample.design.unit == "pair":  # pairs that both systems return cancel
        both = inside.keys() & theirs.keys()
        signs = {n: sign for side, sign in ((inside, 1.0), (theirs, -1.0)) for n in side if n not in both}
        apart = {n: inside[n] if sign > 0 else 1 - theirs[n] for n, sign in signs.items()}  # no match counts 1
        back += sum(sign < 0 for sign in signs.values()) / total
        return _Sought(apart, len(apart) / total, shift - back, (outside + beyond) / total, (0.0, 1.0), signs)
    return _query_difference(sample, ranking, rival, measure, inside.keys() | theirs.keys(), (outside + beyond) / total)


def _parts(sample: Sample, ranking: Ranking, measure: Measure) -> tuple[dict[int, float], int, float]:
    """The value of each relevant unit, the weight outside the design, and the part known without labels."""
    asked = needed(ranking, sample.known, measure)
    design = sample.design
    answered = set(sample.units)
    given = values(ranking, sample.known, measure)
    if design.unit == "pair":
        index = {(u.query, u.candidates[0]): n for n, u in enumerate(design.units)}
        wanted = [(query, candidate) for query, candidates in asked.items() for candidate in candidates]
        inside = {index[p]: _pair_value(sample, p) if index[p] in answered else np.nan for p in wanted if p in index}
        return inside, len(wanted) - len(inside), float(given.mean())
    rows = {query: row for row, query in enumerate(ranking.queries)}
    units = {u.query: n for n, u in enumerate(design.units)}
    now = values(ranking, sample.truth, measure)
    reach = {q for q, c in asked.items() if q in units and set(c) <= set(design.units[units[q]].candidates)}
    inside = {units[q]: float(now[rows[q]]) if units[q] in answered else np.nan for q in reach}
    known = given.sum() - sum(given[rows[q]] for q in asked)
    return inside, len(asked) - len(reach), float(known) / len(given)


def _pair_value(sample: Sample, pair: Key) -> float:
    image, caption = pair if sample.design.direction == "i2t" else pair[::-1]
    return float(sample.said[image, caption])


def _query_difference(
    sample: Sample, one: Ranking, other: Ranking | None, measure: Measure, units: Iterable[int], outside: float
) -> _Sought:
    """Differences over whole queries; a query's difference is known if neither system has an unjudged rank."""
    if other is None:
        raise LimnerError("a difference needs two systems, got one")
    rows = [{query: row for row, query in enumerate(each.queries)} for each in (one, other)]
    now = [values(each, sample.truth, measure) for each in (one, other)]
    given = [values(each, sample.known, measure) for each in (one, other)]
    answered = set(sample.units)
    query = {n: sample.design.units[n].query for n in units}
    open_ = {q for each in (one, other) for q in needed(each, sample.known, measure)}
    apart = {n: float(now[0][rows[0][q]] - now[1][rows[1][q]]) if n in answered else np.nan for n, q in query.items()}
    known = sum(given[0][rows[0][q]] - given[1][rows[1][q]] for q in one.queries if q not in open_)
    n = len(one.queries)
    return _Sought(apart, len(apart) / n, float(known) / n, outside, (-1.0, 1.0))


def _solved(sample: Sample, sought: _Sought, mode: str, level: float) -> Estimate:
    codes = np.array([u.stratum for u in sample.design.units])
    matter = np.array(sorted(sought.values), dtype=np.int64)
    here = [n for n in sample.units if n in sought.values]
    if not len(matter):
        exact = Estimate(sought.shift, sought.shift, sought.shift, level, 0.0, 0, 0, float("nan"), _mode(mode))
        return _beyond(exact, sought)
    if not here:
        raise LimnerError("no answers yet to the pairs that this measure needs: label some of the drawn pairs first")
    sizes = np.bincount(codes[matter], minlength=int(codes.max()) + 1).astype(np.float64)
    predicted = _predicted(sample, sought, matter, codes)
    if mode == "fixed":
        found = _fixed(sought, here, codes, sizes, predicted, level)
    else:
        found = _anytime(sample, sought, codes, sizes, predicted, level)
    return _beyond(found.scaled(sought.scale, sought.shift), sought)


def _mode(mode: str) -> Any:
    return mode


def _predicted(sample: Sample, sought: _Sought, matter: IntArray, codes: IntArray) -> Predicted | None:
    scores = [u.score for u in sample.design.units]
    judged = None if None in scores else np.array(scores, dtype=np.float64)
    signs = None if sought.signs is None else np.array([sought.signs[n] for n in matter])
    return Predicted.of(matter, codes, judged, signs)


def _fixed(
    sought: _Sought, here: list[int], codes: IntArray, sizes: FloatArray, predicted: Predicted | None, level: float
) -> Estimate:
    """The fixed estimate over the non-empty strata; predictions are used as far as they help."""
    held = np.flatnonzero(sizes > 0)
    how: dict[str, Any] = {"bounds": sought.bounds, "level": level}
    if predicted is not None:
        how |= {"predictions": predicted.columns[here], "expected": predicted.means[held], "tuned": True}
    return stratified([sought.values[n] for n in here], np.searchsorted(held, codes[here]), sizes[held], **how)


def _anytime(
    sample: Sample, sought: _Sought, codes: IntArray, sizes: FloatArray, predicted: Predicted | None, level: float
) -> Estimate:
    design, units = sample.design, list(sample.units)
    certain = [design.units[n].probability == 1.0 for n in units]
    how: dict[str, Any] = {} if predicted is None else {
        "predictions": predicted.columns[units], "expected": predicted.means, "corners": predicted.corners
    }  # fmt: skip
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
        **how,
    )


def _beyond(found: Estimate, sought: _Sought) -> Estimate:
    """The interval widened by the part outside the design, which may have any value."""
    low = -1.0 if sought.signs is not None else sought.bounds[0]
    middle = sought.outside * (found.value if low == 0 else 0.0)
    ends = max(found.low + low * sought.outside, low), min(found.high + sought.outside, 1.0)
    return replace(found, value=min(max(found.value + middle, ends[0]), ends[1]), low=ends[0], high=ends[1])


# --- notes on the estimates --------------------------------------------------------------------------------------


def _notes(sample: Sample, found: Sequence[Estimated], mode: str) -> list[str]:
    design, head = sample.design, f"estimated ({sample.design.direction})"
    how = "valid for one look" if mode == "fixed" else "valid after every answer"
    effects = [e.estimate.effect for e in found if np.isfinite(e.estimate.effect)]
    effect = f", design effect {np.mean(effects):.2f}" if effects else ""
    notes = [
        f"{head}: complete truth of this collection from {sample.labels:,} labels, {mode} intervals ({how}){effect}; "
        "given pairs count as true"
    ]
    if design.unit == LEVEL and any(e.estimate.low < e.estimate.high for e in found):
        notes.append(
            f"{head}: intervals of measures that need all matches are approximate: 95% ones held the truth in "
            "90 to 100% of simulated studies, least where the last level has few matches"
        )
    if sample.open:
        notes.append(
            f"{head}: {sample.open:,} drawn {design.unit}s wait for answers; only units drawn before them count"
        )
    notes += [
        f"{head}: {e.outside:.1%} of {e.measure} is decided by pairs outside the design (a system that was not planned "
        "for); the interval is wider by that"
        for e in found
        if e.outside
    ]
    quality = judged(sample)
    return notes + ([] if quality is None else [str(quality)])


def judged(sample: Sample) -> JudgeQuality | None:
    """How well the judge agrees with people on the labelled units; None without a judge or labels."""
    design = sample.design
    name, units = design.settings.get("judge"), [design.units[n] for n in sample.units]
    scores = [unit.score for unit in units if unit.score is not None]
    if name is None or not units or len(scores) < len(units):
        return None
    people = [any(sample.said.get(p) for p in unit.pairs(design.direction)) for unit in units]
    return judge_quality(str(name), design.direction, scores, people)
