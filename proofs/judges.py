"""Judges that may be wrong: do the intervals cover, what does a bad judge cost, how many labels does a good one save?

Studies are simulated on arrays: two systems, each query's first result of both, a true answer for each pair, and a
judge. Pairs are drawn as `limner annotate plan` draws them, the truth answers, and the interval is made as `limner
evaluate --estimate` makes it. Judges: none; good (the truth with noise); useless (random numbers); adversarial (one
less the good one); two that favour a system (a judge whose scores are higher for all pairs of one system, and one that
says yes to exactly these pairs). The last claims are on the warning of `limner annotate judge`: how often it is shown
for the judges that favour a system, and for the others in a world whose two systems are equally good.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from labelling_studies import Job, done
from labelling_worlds import Target

from claims import Claim, log, main
from limner.annotate.design import PILOT
from limner.stats import stratified
from limner.stats.sampling import draw

QUERIES = 5000
SHARED = 0.5
"""The share of queries for which both systems return the same pair first."""
DECIDED = 0.3
"""The share of first results that are given positives, which need no label."""
WORLDS = {"half of the pairs true": (0.55, 0.45), "one pair in seven true": (0.18, 0.12)}
"""The share of true pairs among the undecided first results of each system."""
BUDGETS = (100, 300, 1000)
FAVOURING = ("favours a system", "says yes to a system")
NEUTRAL = ("good", "useless", "adversarial")


def world(rates: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, list[Target]]:
    """Which system returns each undecided pair (columns), what is true, and the numbers to estimate."""
    random = np.random.default_rng(0)
    number = round(QUERIES * (1 - DECIDED))
    shared = round(number * SHARED)
    returned = np.repeat(
        [[True, True], [True, False], [False, True]], [shared, number - shared, number - shared], axis=0
    )
    chances = np.select([returned.all(axis=1), returned[:, 0]], [sum(rates) / 2, rates[0]], rates[1])
    true = (random.random(len(chances)) < chances).astype(float)
    scale = number / QUERIES
    targets = []
    for system, name in enumerate("AB"):
        units = np.flatnonzero(returned[:, system])
        targets.append(Target(f"R@1 {name}", units, true[units], scale, DECIDED))
    alone = np.flatnonzero(~returned.all(axis=1))
    signs = np.where(returned[alone, 0], 1.0, -1.0)
    values = np.where(signs > 0, true[alone], 1 - true[alone])
    share = len(alone) / QUERIES
    targets.append(Target("R@1 difference", alone, values, share, -share / 2, signs=signs))
    return returned, true, targets


def judges(returned: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray | None]:
    """The scores of each judge."""
    random = np.random.default_rng(1)
    good = np.clip(0.7 * true + 0.15 + 0.2 * random.normal(size=len(true)), 0, 1)
    first_alone = returned[:, 0] & ~returned[:, 1]
    by_name: dict[str, np.ndarray | None] = {"none": None, "good": good, "useless": random.random(len(true))}
    by_name["adversarial"] = 1 - good
    noisy = 0.4 * true + 0.2 + 0.2 * random.normal(size=len(true))
    by_name[FAVOURING[0]] = np.clip(noisy + 0.3 * first_alone, 0, 1)
    by_name[FAVOURING[1]] = np.where(first_alone, 0.9, 0.1)
    return by_name


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Coverage, widths, labels at equal width, and warnings."""
    studies = 100 if options.quick else options.studies
    rows: list[dict[str, Any]] = []
    alarms: dict[str, list[float]] = {}
    needed: list[Claim] = []
    for name, rates in WORLDS.items():
        returned, true, targets = world(rates)
        deeper = np.zeros(len(true), dtype=bool)
        for judge, scores in judges(returned, true).items():
            for labels in BUDGETS:
                job = Job("fixed", name, judge, labels, studies, tuple(targets), scores, deeper, labels)
                rows += done(job)
                if judge in FAVOURING and labels == BUDGETS[-1]:
                    rows += done(replace(job, kind="judge alone"))
                if judge in FAVOURING and labels == 300:
                    alarms.setdefault(judge, []).append(_warned(job, returned, true))
            log(f"{name}, {judge}: {rows[-1]}")
        for judge in NEUTRAL:
            alarms.setdefault(judge, []).append(_false_alarms(name, judge, returned, true, studies))
        needed += _labels(name, deeper, targets[0], judges(returned, true))
    yield from _coverage(rows, studies)
    yield from _widths(rows)
    yield from needed
    yield from _alarms(alarms, studies)


def _warned(job: Job, returned: np.ndarray, true: np.ndarray) -> float:
    """The share of studies in which the judge's errors are shown to depend on the system."""
    errors = ((job.scores >= 0.5) - true) * (returned[:, 0].astype(float) - returned[:, 1])
    inside = ~returned.all(axis=1)
    sizes = np.bincount(job.codes[inside])
    warned = 0
    for seed in range(job.studies):
        units = draw(job.codes, job.drawn, shares=job.shares, pilot=PILOT, seed=seed).units
        units = units[inside[units]]
        estimate = stratified(errors[units], job.codes[units], sizes, bounds=(-1.0, 1.0))
        warned += estimate.low > 0 or estimate.high < 0
    return warned / job.studies


def _false_alarms(name: str, judge: str, returned: np.ndarray, true: np.ndarray, studies: int) -> float:
    """The share of warnings if both systems, and the judge's errors for them, are exactly alike."""
    scores = np.array(judges(returned, true)[judge])
    first, second = (np.flatnonzero(returned[:, side] & ~returned[:, 1 - side]) for side in (0, 1))
    equal = true.copy()
    equal[second], scores[second] = true[first], scores[first]
    job = Job("fixed", name, judge, 300, studies, (), scores, np.zeros(len(true), dtype=bool), 300)
    return _warned(job, returned, equal)


def _coverage(rows: list[dict[str, Any]], studies: int) -> Iterator[Claim]:
    error = 196 * float(np.sqrt(0.95 * 0.05 / studies))
    for judge in dict.fromkeys(row["judge"] for row in rows):
        covered = np.array([100 * r["covered"] for r in rows if r["judge"] == judge and r["kind"] == "fixed"])
        span = f"{len(covered)} rows of {studies:,} studies, {covered.min():.1f} to {covered.max():.1f}%"
        note = f"{span}; simulation error of a row {error:.1f}"
        words = f"judge {judge}: mean coverage of 95% intervals, %"
        yield Claim(words, float(covered.mean()), 95, "within 1.5", note, source="theory")
        inside = (covered >= 93.5 - error) & (covered <= 96.5 + error)
        words = f"judge {judge}: rows covered 93.5 to 96.5%, give or take the error, %"
        strictly = f"within 93.5 to 96.5 itself: {np.mean((covered >= 93.5) & (covered <= 96.5)):.0%}"
        yield Claim(words, 100 * float(inside.mean()), goal=">= 100", note=strictly)
    for judge in FAVOURING:
        alone = [100 * r["covered"] for r in rows if r["judge"] == judge and r["kind"] == "judge alone"]
        words = f"judge {judge}, its answers alone: mean coverage, %"
        note = "without people's answers the intervals do not cover"
        yield Claim(words, float(np.mean(alone)), goal="< 50", note=note)


def _widths(rows: list[dict[str, Any]]) -> Iterator[Claim]:
    plain = {(r["world"], r["target"], r["labels"]): r["half"] for r in rows if r["judge"] == "none"}
    for judge in (*NEUTRAL, *FAVOURING):
        chosen = [r for r in rows if r["judge"] == judge and r["kind"] == "fixed"]
        ratios = [r["half"] / plain[r["world"], r["target"], r["labels"]] for r in chosen]
        note = f"{len(ratios)} rows, mean {np.mean(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}"
        goal = "<= 0.75" if judge in ("good", "adversarial") else "<= 1.03"
        value = float(np.mean(ratios)) if judge in ("good", "adversarial") else max(ratios)
        statistic = "mean" if judge in ("good", "adversarial") else "at most"
        yield Claim(f"judge {judge}: width over that without a judge, {statistic}", value, goal=goal, note=note)


def _labels(name: str, deeper: np.ndarray, target: Target, scores: dict[str, Any]) -> list[Claim]:
    """Labels for a half-width of 3 points with each judge, over those without one."""
    counts = {
        judge: done(Job("labels for 3.0", name, judge, 0, 100, (target,), each, deeper))[0]["needed"]
        for judge, each in scores.items()
        if judge in ("none", "good", "useless")
    }
    log(f"{name}: labels for 3 points {counts}")
    claims = []
    for judge, goal in (("good", "<= 0.5"), ("useless", "<= 1.06")):
        words = f"{name}, judge {judge}: labels for R@1 to 3 points, over those without a judge"
        claims.append(Claim(words, counts[judge], counts["none"], goal, source="limner"))
    return claims


def _alarms(alarms: dict[str, list[float]], studies: int) -> Iterator[Claim]:
    error = 196 * float(np.sqrt(0.95 * 0.05 / studies))
    for judge, shares in alarms.items():
        percentages = ", ".join(f"{100 * share:.1f}" for share in shares)
        words = f"judge {judge}: studies that warn of errors that depend on the system, %"
        goal = ">= 80" if judge in FAVOURING else f"<= {6.5 + error:.1f}"
        value = 100 * (min(shares) if judge in FAVOURING else max(shares))
        yield Claim(words, value, goal=goal, note=f"{studies:,} studies each, 300 labels: {percentages}")


def configure(parser: argparse.ArgumentParser) -> None:
    """How many studies."""
    parser.add_argument("--studies", type=int, default=1000, help="simulated studies of each row (default: 1000)")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
