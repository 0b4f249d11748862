"""Simulated studies for `few_labels.py`: units are drawn as a plan draws them, and the truth answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from labelling_worlds import Leveled, Target
from sklearn.isotonic import IsotonicRegression

from limner.annotate.allocation import cut, shares_of, spread_of, strata_for
from limner.annotate.design import PILOT, STRATA
from limner.annotate.estimate import Predicted
from limner.annotate.levels import EXPECTED, LEAST, OF_DIFFERENCES, PRIOR, least_labels
from limner.stats import Estimate, chained_means, sequential, stratified
from limner.stats.estimators import sum_of_means
from limner.stats.sampling import Drawn, draw

SEARCHED = 100
"""Studies of each number of labels that is tried for a wanted half-width."""
NORMAL = 1.96
"""Half-width of a 95% interval in standard errors."""
Found = dict[str, list[tuple[float, float, float]]]


@dataclass(frozen=True)
class Job:
    """Simulated studies of one design: what one worker does.

    Args:
        kind: "fixed", "anytime", "two draws", "judge alone", "late", "levels", "labels for" a half-width, "two draws
            for" one, or "changes for" one, without the regression of each level on the one above.
        world: Name of the world.
        judge: Name of the judge.
        labels: Labels that people give.
        studies: How many are simulated.
        targets: What is estimated.
        scores: What the judge says of every unit.
        deeper: Whether each unit is a pair that no system returns first.
        drawn: Units that are drawn.
    """

    kind: str
    world: str
    judge: str
    labels: int
    studies: int
    targets: tuple[Target, ...] | tuple[Leveled, ...]
    scores: np.ndarray | None = None
    deeper: np.ndarray | None = None
    drawn: int = 0

    @property
    def head(self) -> dict[str, Any]:
        """What every row of it begins with."""
        return {"kind": self.kind, "world": self.world, "judge": self.judge, "labels": self.labels,
                "studies": self.studies}  # fmt: skip

    @cached_property
    def codes(self) -> np.ndarray:
        """The stratum of every unit."""
        judged = None if self.kind == "judge alone" else self.scores
        return cut(self.deeper, judged, strata_for(self.drawn, len(self.deeper), STRATA))

    @cached_property
    def shares(self) -> np.ndarray:
        """How a first draw is shared among strata."""
        size = np.bincount(self.codes)
        spread = spread_of(self.codes, size, {}, None if self.kind == "judge alone" else self.scores)
        return shares_of(size * spread, size, self.drawn, answered=False)


def done(job: Job) -> list[dict[str, Any]]:
    """The rows of a job: how often the interval holds the truth, its half-width and the bias, for each target."""
    if job.kind.startswith(("labels for", "two draws for", "changes for")):
        return [{**job.head, "target": job.targets[0].name, "needed": _labels_for(job)}]
    simulate = _by_levels if job.kind == "levels" else _by_units
    return [{**job.head, "target": name, **row} for name, row in simulate(job).items()]


def _row(intervals: list[tuple[float, float, float]], true: float) -> dict[str, float]:
    value, low, high = np.array(intervals).T
    half = float((high - low).mean() / 2)
    covered = float(((low <= true + 1e-12) & (true <= high + 1e-12)).mean())
    return {"covered": covered, "half": 100 * half, "bias": float(value.mean() - true) / half if half else 0.0}


# --- pairs and queries in strata --------------------------------------------------------------------------------


def _by_units(job: Job) -> dict[str, dict[str, float]]:
    """Studies of pairs or queries."""
    prepared = [_Prepared.of(target, job) for target in job.targets]
    estimates_of: Found = {t.name: [] for t in job.targets}
    for seed in range(job.studies):
        drawn = draw(job.codes, job.drawn, shares=job.shares, pilot=PILOT, seed=seed)
        if job.kind == "two draws":
            drawn = _further(job.codes, drawn, prepared[0].values, job.drawn, seed)
        for each in prepared:
            e = each.estimate(job, drawn)
            beyond = each.target.outside  # may be anything: in the middle it goes on as inside
            estimates_of[each.target.name].append((e.value + beyond * e.value, e.low, e.high + beyond))
    return {t.name: _row(estimates_of[t.name], t.true) for t in job.targets}


def _further(codes: np.ndarray, first: Drawn, answers: np.ndarray, number: int, seed: int) -> Drawn:
    """Half of a draw, and a second half that follows the answers of the first."""
    before = first.units[: number // 2]
    size, answer_of = np.bincount(codes), {int(n): float(answers[n]) for n in before if np.isfinite(answers[n])}
    remaining = number - len(before)
    shares = shares_of(size * spread_of(codes, size, answer_of, None), size, remaining, answered=True)
    second_half = draw(codes, remaining, shares=shares, before=before, seed=seed + 1_000_000)
    return Drawn(
        np.concatenate([before, second_half.units]),
        np.concatenate([first.probabilities[: len(before)], second_half.probabilities]),
    )


@dataclass(frozen=True)
class _Prepared:
    """A target with all that does not change from study to study."""

    target: Target
    values: np.ndarray
    size: np.ndarray
    compact: np.ndarray
    predicted: Predicted | None

    @classmethod
    def of(cls, target: Target, job: Job) -> _Prepared:
        values = np.full(len(job.codes), np.nan)
        values[target.units] = target.values
        scores, signs = job.scores, target.signs
        if job.kind == "judge alone" and scores is not None:  # its yes and no instead of people's
            yes = scores[target.units] >= 0.5
            values[target.units] = yes if signs is None else yes == (signs > 0)
            scores = None
        size = np.bincount(job.codes[target.units], minlength=job.codes.max() + 1).astype(float)
        predicted = Predicted.of(target.units, job.codes, scores, signs)
        return cls(target, values, size, np.searchsorted(np.flatnonzero(size), job.codes), predicted)

    def estimate(self, job: Job, drawn: Drawn) -> Estimate:
        units, predicted = drawn.units, self.predicted
        has_value = ~np.isnan(self.values[units])
        estimator: dict[str, Any] = {"bounds": self.target.bounds}
        if job.kind == "anytime":
            if predicted is not None:
                estimator |= {
                    "predictions": predicted.columns[units],
                    "expected": predicted.means,
                    "corners": predicted.corners,
                }
            pilot = int((drawn.probabilities == 1).argmin())
            e = sequential(np.nan_to_num(self.values[units]), job.codes[units], self.size, shares=job.shares,
                           pilot=pilot, frame=np.bincount(job.codes), member=has_value, **estimator)  # fmt: skip
        else:
            units = units[has_value]
            if predicted is not None:
                estimator |= {
                    "predictions": predicted.columns[units],
                    "expected": predicted.means[self.size > 0],
                    "tuned": True,
                }
            e = stratified(self.values[units], self.compact[units], self.size[self.size > 0], **estimator)
        return e.scaled(self.target.scale, self.target.shift)


# --- queries by levels ------------------------------------------------------------------------------------------


def _by_levels(job: Job) -> dict[str, dict[str, float]]:
    """Studies of queries down to a level, as far as the budget goes."""
    query_count = job.targets[0].values.shape[1]
    costs = job.targets[0].costs
    codes = np.repeat(np.arange(len(costs)), query_count)
    shares = np.array(EXPECTED) / np.sqrt(costs)
    draw_size = int(job.labels / (shares / shares.sum() @ costs)) + LEAST * len(costs)
    estimates_of: Found = {t.name: [] for t in job.targets}
    for seed in range(job.studies):
        units = draw(codes, draw_size, shares=shares / shares.sum(), pilot=LEAST, seed=seed).units
        units = units[: int(np.searchsorted(np.cumsum(costs[codes[units]]), job.labels * (1 + 1e-9), side="right"))]
        for t in job.targets:
            e = (_of_changes if job.kind == "changes" else _of_level_sample)(t, codes[units], units % query_count)
            estimates_of[t.name].append((e.value, e.low, e.high))
    return {t.name: _row(estimates_of[t.name], t.true) for t in job.targets}


def _of_level_sample(target: Leveled, at: np.ndarray, queries: np.ndarray) -> Estimate:
    """The estimate from queries labelled down to a level."""
    before, after = target.values[at, queries], target.values[at + 1, queries]
    of_two = target.name.endswith("difference")
    bounds, prior = (-1.0 if of_two else 0.0, 1.0), np.array(PRIOR) * (OF_DIFFERENCES if of_two else 1.0)
    sizes, start_value = [target.values.shape[1]] * len(target.costs), float(target.values[0].mean())
    return chained_means(before, after, at, sizes, start=start_value, prior=prior, bounds=bounds)


def _of_changes(target: Leveled, at: np.ndarray, queries: np.ndarray) -> Estimate:
    """The same as a sum of the mean changes of all levels: every factor is 1."""
    moved = target.values[at + 1, queries] - target.values[at, queries]
    sizes, start_value = [target.values.shape[1]] * len(target.costs), float(target.values[0].mean())
    return sum_of_means(moved, at, sizes, prior=PRIOR, bounds=(-start_value, 1 - start_value)).scaled(1.0, start_value)


# --- how many labels --------------------------------------------------------------------------------------------


_STUDY = {
    (True, "labels"): "levels",
    (True, "changes"): "changes",
    (False, "labels"): "fixed",
    (False, "two"): "two draws",
}
"""The kind of study whose labels are counted, for designs of levels or not, by the first word of the job's kind."""


def _labels_for(job: Job) -> int:
    """The least number of labels whose mean half-width is what the job's name says, by halving."""
    target_width = float(job.kind.split()[-1])
    by_level = job.deeper is None
    if by_level:
        costs = job.targets[0].costs
        low, high = least_labels(costs), int(costs.sum() * job.targets[0].values.shape[1])
    else:
        low, high = 20, len(job.deeper)
    while high - low > max(low // 20, 5):
        middle = (low + high) // 2
        kind = _STUDY[by_level, job.kind.split()[0]]
        part = replace(job, kind=kind, labels=middle, studies=SEARCHED, drawn=middle)
        wide = next(iter((_by_levels if by_level else _by_units)(part).values()))["half"] > target_width
        low, high = (middle, high) if wide else (low, middle)
    return high


def simple_queries(values: np.ndarray, half: float) -> int:
    """The least number of random queries, labelled with the whole pool, whose interval has this half-width in points.

    The interval is the one of designs of levels, with one level: the normal interval of a dozen queries does not cover.
    """

    def wide(number: int) -> float:
        estimates = []
        for seed in range(SEARCHED):
            drawn = np.random.default_rng(seed).choice(values, number, replace=False)
            estimates.append(sum_of_means(drawn, np.zeros(number, dtype=int), [len(values)], bounds=(0.0, 1.0)))
        return 100 * float(np.mean([e.high - e.low for e in estimates])) / 2

    low, high = 2, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) > half else (low, middle)
    return high


def fewest_units(target: Target, scores: np.ndarray | None, half: float) -> float:
    """Labels that a simple sample of the target's units needs, if it is known how right the judge is.

    The judge's scores become probabilities by an isotonic regression on the truth itself; what is left is noise that no
    estimate from the same judge can remove. n = N^2 S^2 / (V + N S^2) for N units of variance S^2 and a variance V.
    """
    true, size = target.values, len(target.values)
    likely = np.full(size, true.mean())
    if scores is not None:
        judge_scores = scores[target.units]
        is_scored = np.isfinite(judge_scores)
        fitted = IsotonicRegression(increasing="auto", out_of_bounds="clip").fit_transform(
            judge_scores[is_scored], true[is_scored]
        )
        likely[is_scored], likely[~is_scored] = fitted, true[~is_scored].mean() if (~is_scored).any() else 0.0
    noise = float((likely * (1 - likely)).mean())
    target_variance = (half / 100 / target.scale * size / NORMAL) ** 2
    return size**2 * noise / (target_variance + size * noise)
