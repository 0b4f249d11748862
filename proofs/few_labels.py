"""The true number from few labels: do the intervals cover, how wide are they, what does a judge save?

Thousands of studies are simulated where the truth is known: units are drawn as `limner annotate plan` draws them, the
truth answers, the interval is made as `limner evaluate --estimate` makes it. Worlds: `scenes` (complete truth); COCO's
captions with ECCV Caption's positives as the truth, images standing for their first caption; Flickr8k's pairs that
experts judged. Judges: none, a good one (the truth with noise), useless (random numbers), adversarial (one less the
good one); on COCO also one that reads the image's other captions.

Every row of the tables is kept in `results/few_labels.KIND.rows.jsonl`; a run replaces the rows of its own worlds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import labelling_worlds as worlds
from labelling_worlds import Leveled, Target, World

import limner
from claims import Claim, log, main, result_file
from limner.annotate.design import EACH, PILOT, STRATA, spread_of
from limner.annotate.frames import values
from limner.annotate.levels import BEFORE, LEAST
from limner.core.judgements import Judgements
from limner.evaluation.measures import Measure, parse
from limner.stats import Drawn, Estimate, draw, mean_interval, neyman, sequential, strata_of, stratified, sum_of_means

BUDGETS = (100, 300, 1000)
TIMES = (1, 3, 10)
"""Budgets of the measures that need all matches: so many times the least."""
MEASURES = ("R@1", "P@5", "R@5", "MRR@5")
PLANNED_HALF = 2.0
WHOLE_HALF = 5.0


@dataclass(frozen=True)
class Job:
    """Simulated studies of one design: what one worker does."""

    kind: str
    world: str
    judge: str
    labels: int
    studies: int
    targets: tuple[Target, ...] | tuple[Leveled, ...]
    scores: np.ndarray | None = None
    units: int = 0
    drawn: int = 0

    @property
    def head(self) -> dict[str, Any]:
        """What every row of it begins with."""
        return {"kind": self.kind, "world": self.world, "judge": self.judge, "labels": self.labels,
                "studies": self.studies}  # fmt: skip


# --- studies ----------------------------------------------------------------------------------------------------


def done(job: Job) -> list[dict[str, Any]]:
    """The rows of a job: how often the interval holds the truth, its half-width and the bias, for each target."""
    if job.kind.startswith("labels for"):
        return [{**job.head, "target": job.targets[0].name, "needed": _labels_for(job)}]
    simulate = _by_levels if job.kind == "levels" else _by_units
    return [{**job.head, "target": name, **row} for name, row in simulate(job).items()]


def _row(found: list[tuple[float, float, float]], true: float) -> dict[str, float]:
    value, low, high = np.array(found).T
    half = float((high - low).mean() / 2)
    covered = float(((low <= true + 1e-12) & (true <= high + 1e-12)).mean())
    return {"covered": covered, "half": 100 * half, "bias": float(value.mean() - true) / half if half else 0.0}


def _by_units(job: Job) -> dict[str, dict[str, float]]:
    """Studies of pairs or queries in strata; half of each draw is shared by size, half by what the judge says."""
    codes, shares = _strata(job)
    prepared = [_Prepared.of(target, codes) for target in job.targets]
    found: dict[str, list[tuple[float, float, float]]] = {t.name: [] for t in job.targets}
    for seed in range(job.studies):
        drawn = draw(codes, job.drawn, shares=shares, pilot=PILOT, seed=seed)
        if job.kind == "two draws":
            drawn = _further(codes, drawn, prepared[0].values, job.drawn, seed)
        for each in prepared:
            e = each.estimate(codes, drawn, shares, job.kind)
            beyond = each.target.outside  # may be anything: in the middle it goes on as inside
            found[each.target.name].append((e.value + beyond * e.value, e.low, e.high + beyond))
    return {t.name: _row(found[t.name], t.true) for t in job.targets}


def _further(codes: np.ndarray, first: Drawn, known: np.ndarray, number: int, seed: int) -> Drawn:
    """Half of a draw, and a second half that follows the answers of the first."""
    before = first.units[: number // 2]
    size, said = np.bincount(codes), {int(n): float(known[n]) for n in before if np.isfinite(known[n])}
    shares = neyman(size, spread_of(codes, size, said, None), number)
    more = draw(codes, number - len(before), shares=shares, before=before, seed=seed + 1_000_000)
    return Drawn(
        np.concatenate([before, more.units]), np.concatenate([first.probabilities[: len(before)], more.probabilities])
    )


def _strata(job: Job) -> tuple[np.ndarray, np.ndarray]:
    if job.scores is None:
        return np.zeros(job.units, dtype=np.int64), np.ones(1)
    codes = strata_of(job.scores, max(min(STRATA, job.drawn // EACH), 1))
    size = np.bincount(codes)
    rate = np.bincount(codes, weights=np.clip(job.scores, 0.02, 0.98)) / size
    return codes, neyman(size, np.sqrt(rate * (1 - rate)), job.drawn)


@dataclass(frozen=True)
class _Prepared:
    """A target with all that does not change from study to study."""

    target: Target
    values: np.ndarray
    size: np.ndarray
    compact: np.ndarray

    @classmethod
    def of(cls, target: Target, codes: np.ndarray) -> _Prepared:
        values = np.full(len(codes), np.nan)
        values[target.units] = target.values
        size = np.bincount(codes[target.units], minlength=codes.max() + 1)
        return cls(target, values, size, np.searchsorted(np.flatnonzero(size), codes))

    def estimate(self, codes: np.ndarray, found: Any, shares: np.ndarray, kind: str) -> Estimate:
        bounds, units = self.target.bounds, found.units
        mine = ~np.isnan(self.values[units])
        if kind == "anytime":
            pilot = int((found.probabilities == 1).argmin())
            e = sequential(np.nan_to_num(self.values[units]), codes[units], self.size, shares=shares, pilot=pilot,
                           frame=np.bincount(codes), member=mine, bounds=bounds)  # fmt: skip
        else:
            chosen = units[mine]
            e = stratified(self.values[chosen], self.compact[chosen], self.size[self.size > 0], bounds=bounds)
        return e.scaled(self.target.scale, self.target.shift)


def _by_levels(job: Job) -> dict[str, dict[str, float]]:
    """Studies of queries down to a level, as far as the budget goes."""
    levels, many = job.targets[0].values.shape
    costs, codes = job.targets[0].costs, np.repeat(np.arange(levels), many)
    shares = np.array(BEFORE) / np.sqrt(costs)
    most = int(job.labels / (shares / shares.sum() @ costs)) + LEAST * levels
    found: dict[str, list[tuple[float, float, float]]] = {t.name: [] for t in job.targets}
    flat = {t.name: t.values.ravel() for t in job.targets}
    for seed in range(job.studies):
        units = draw(codes, most, shares=shares / shares.sum(), pilot=LEAST, seed=seed).units
        units = units[: int(np.searchsorted(np.cumsum(costs[codes[units]]), job.labels * (1 + 1e-9), side="right"))]
        for t in job.targets:
            ends = (-1.0 if t.name.endswith("difference") else 0.0) - t.given, 1.0 - t.given
            e = sum_of_means(flat[t.name][units], codes[units], [many] * levels, prior=BEFORE, bounds=ends)
            found[t.name].append((e.value + t.given, e.low + t.given, e.high + t.given))
    return {t.name: _row(found[t.name], t.true) for t in job.targets}


def _labels_for(job: Job) -> int:
    """The least number of labels whose mean half-width is what the job's name says, by halving, 40 studies each."""
    wanted = float(job.kind.split()[-1])
    by_level = isinstance(job.targets[0], Leveled)
    if by_level:
        costs = job.targets[0].costs
        low, high = int(np.ceil(costs.sum() * LEAST)), int(costs.sum() * job.targets[0].values.shape[1])
    else:
        low, high = 20, job.units
    while high - low > max(low // 20, 5):
        middle = (low + high) // 2
        part = Job("levels" if by_level else "fixed", job.world, job.judge, middle, 40, job.targets, job.scores,
                   job.units, middle)  # fmt: skip
        wide = next(iter((_by_levels if by_level else _by_units)(part).values()))["half"] > wanted
        low, high = (middle, high) if wide else (low, middle)
    return high


# --- jobs -------------------------------------------------------------------------------------------------------


def jobs(world: World, studies: int) -> Iterator[Job]:
    """Everything that is simulated of a world."""
    for text in MEASURES:
        units, found = worlds.targets(world, parse(text))
        each = float(np.mean([len(c) for _, c in units]))
        for name, scores in worlds.judges(world, units).items():
            for budget in BUDGETS:
                number = int(min(budget / each, len(units)))
                made = (world.name, name, budget, studies, tuple(found), scores, len(units), number)
                if number >= 20:
                    yield Job("fixed", *made)
                if number >= 20 and text in ("R@1", "P@5"):
                    yield Job("anytime", *made[:4], tuple(found[:1]), *made[5:])
                if text == "R@1" and budget == 300:
                    yield Job("two draws", *made)
    yield from _level_jobs(world, studies)
    yield from _efficiency_jobs(world)
    yield from _late_jobs(world, studies)


def _level_jobs(world: World, studies: int) -> Iterator[Job]:
    """Measures that need all matches; a judge takes no part."""
    found = tuple(worlds.leveled(world))
    least = int(np.ceil(found[0].costs.sum() * LEAST))
    for times in TIMES:
        yield Job("levels", world.name, "none", times * least, studies, found)
    yield Job(f"labels for {WHOLE_HALF}", world.name, "none", 0, 40, found[:1])


def _efficiency_jobs(world: World) -> Iterator[Job]:
    """Labels for a half-width of two points of the first system's R@1, in a study of that system alone."""
    name = next(iter(world.lists))
    units, found = worlds.targets(world, parse("R@1"), {name: world.lists[name]})
    for judge, scores in worlds.judges(world, units).items():
        yield Job(f"labels for {PLANNED_HALF}", world.name, judge, 0, 40, (found[0],), scores, len(units))


def _late_jobs(world: World, studies: int) -> Iterator[Job]:
    """The second system in studies that were planned for the first alone."""
    first, second = world.lists
    units, found = worlds.targets(world, parse("R@1"), {first: world.lists[first]})
    late = next(t for t in found if t.name == f"R@1 {second}")
    yield Job("late", world.name, "none", 300, studies, (late,), None, len(units), min(300, len(units)))
    alone = [t for t in worlds.leveled(world, (first,)) if t.name.endswith(second)]
    least = int(np.ceil(alone[0].costs.sum() * LEAST))
    yield Job("levels", f"{world.name} late", "none", 3 * least, studies, tuple(alone))


def _flickr_jobs(data: Path, studies: int) -> Iterator[Job]:
    target, judges = worlds.flickr(data)
    many = len(target.units)
    for name, scores in judges.items():
        for budget in BUDGETS:
            yield Job("fixed", "Flickr8k experts", name, budget, studies, (target,), scores, many, budget)


# --- claims -----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every table of the page, and a claim for what each has to show."""
    if options.plot:
        import labelling_plots

        labelling_plots.draw(options.plot)
        return
    studies = 100 if options.quick else options.studies
    chosen = [each.strip().lower() for each in options.only.split(",")]

    def wanted(name: str) -> bool:
        return any(name.lower().startswith(each) or each.startswith(name.lower()) for each in chosen)

    made = list(worlds.scenes()) if wanted("scenes") else []
    if options.data is not None and wanted("coco"):
        made += worlds.coco(options.data)
    made = [world for world in made if any(world.name.lower().startswith(each) for each in chosen)]
    todo = [job for world in made for job in jobs(world, studies)]
    if options.data is not None and wanted("flickr8k"):
        todo += _flickr_jobs(options.data, studies)
    rows = list(_worked(todo, options.workers))
    yield from _covered(rows)
    for world in made:
        yield from _alone(world)
        yield from _efficient(world, rows)
        yield from _pool(world, rows)
    if options.save:
        _keep(result_file(Path(__file__), options, ".rows.jsonl"), rows)


def _worked(todo: list[Job], workers: int) -> Iterator[dict[str, Any]]:
    """The rows of all jobs, the longest first; each is told as it is done."""
    todo = sorted(todo, key=lambda job: -job.labels * (10 if job.kind == "anytime" else 1))
    log(f"{len(todo)} jobs, {workers} workers")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for number, rows in enumerate(pool.map(done, todo), start=1):
            for row in rows:
                log(f"{number}/{len(todo)} " + " ".join(_written(k, v) for k, v in row.items()))
                yield row


def _written(key: str, value: Any) -> str:
    return f"{key}={value:.3f}" if isinstance(value, float) else f"{key}={value}"


def _keep(target: Path, rows: list[dict[str, Any]]) -> None:
    """Rows of worlds that were not run now stay."""
    ran = {row["world"] for row in rows}
    old = [json.loads(line) for line in target.read_text().splitlines()] if target.exists() else []
    kept = [*(row for row in old if row["world"] not in ran), *rows]
    short = [{k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()} for row in kept]
    target.write_text("".join(json.dumps(row) + "\n" for row in short))


def _covered(rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """What the tables say in a few lines for each world and kind of study."""
    groups = dict.fromkeys((r["world"], r["kind"]) for r in rows if "covered" in r)
    for world, kind in groups:
        mine = [r for r in rows if (r["world"], r["kind"]) == (world, kind)]
        covered = np.array([r["covered"] for r in mine])
        head = f"{world}, {kind}"
        note = (
            f"{len(mine)} rows of {mine[0]['studies']} studies, {100 * covered.min():.1f} to {100 * covered.max():.1f}%"
        )
        if kind == "anytime":
            yield Claim(f"{head}: lowest coverage at all times, %", 100 * float(covered.min()), goal=">= 95", note=note)
            continue
        inside = float(((covered >= 0.935) & (covered <= 0.965)).mean())
        yield Claim(
            f"{head}: mean coverage of 95% intervals, %",
            100 * float(covered.mean()),
            95,
            "within 1.5",
            note,
            source="theory",
        )
        yield Claim(f"{head}: share of rows covered 93.5 to 96.5%", inside, goal=">= 1", note=note)
        yield Claim(f"{head}: largest bias / half-width", float(max(abs(r["bias"]) for r in mine)), goal="< 0.1")
        for judge in ("useless", "adversarial"):
            ratios = _ratios(mine, judge)
            if ratios:
                yield Claim(f"{head}: width with the {judge} judge over none, at most", max(ratios), goal="<= 1.05")


def _ratios(rows: list[dict[str, Any]], judge: str) -> list[float]:
    """Half-widths with a judge over those without, row by row."""
    plain = {(r["target"], r["labels"]): r["half"] for r in rows if r["judge"] == "none"}
    both = [(r["half"], plain.get((r["target"], r["labels"]))) for r in rows if r["judge"] == judge]
    return [half / other for half, other in both if other]


def _alone(world: World) -> Iterator[Claim]:
    """A judge's yes and no taken for labels, nobody asked: how many of its intervals hold the truth."""
    studied = []
    for text in ("R@1", "P@5"):
        units, found = worlds.targets(world, parse(text))
        studied.append((found[:2], worlds.judges(world, units)))
    for judge in [name for name in studied[0][1] if name != "none"]:
        held, gaps = [], []
        for found, said_by in studied:
            said = np.asarray(said_by[judge]) >= 0.5
            for t in found:
                e = mean_interval(said[t.units].astype(float))
                ends = [t.shift + t.scale * end for end in (e.low, e.high)]
                held.append(ends[0] <= t.true <= ends[1])
                gaps.append(100 * abs(t.shift + t.scale * e.estimate - t.true))
        note = f"off by {min(gaps):.1f} to {max(gaps):.1f} points; with people's labels the intervals above"
        what = f"{world.name}: share of intervals that hold the truth, judge {judge} alone"
        yield Claim(what, float(np.mean(held)), goal="< 0.95", note=note)


def _efficient(world: World, rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """Labels for a wanted half-width against simple random queries and against a pool."""
    pooled = len({(q, c) for r in world.lists.values() for q in r.queries for c in r[q][:5]})
    many, pool = len(world.known.queries), len(world.known.candidates)
    name = next(iter(world.lists))
    true = float(values(world.lists[name], world.truth, Measure.parse("R@1")).mean())
    for row in (r for r in rows if r["world"] == world.name and "needed" in r):
        half = float(row["kind"].split()[-1])
        whole = half == WHOLE_HALF
        spread = worlds.leveled(world)[0].spread if whole else np.sqrt(true * (1 - true))
        free = (1.96 * spread) ** 2
        simple = free / ((half / 100) ** 2 + free / many) * (pool if whole else 1)
        note = f"+- {half:g} points of {row['target']}; simple random queries {simple:,.0f} labels, pool {pooled:,}"
        what = f"{world.name}: labels for {row['target'].split()[0]}, judge {row['judge']}"
        yield Claim(f"{what}, against simple random queries", row["needed"], simple, "<= 0.2", note, source="theory")
        if not whole:
            yield Claim(
                f"{what}, against a pool of the first five", row["needed"], pooled, "<= 0.1", note, source="limner"
            )


def _pool(world: World, rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """A system that was not in the pool, on labels pooled by the other; and in studies planned for the other."""
    first, second = world.lists
    pool = {(q, c) for q in world.lists[first].queries for c in world.lists[first][q][:5]}
    yes = [pair for pair in pool if pair in world.matches]
    ids = {"queries": world.known.queries, "candidates": world.known.candidates}
    pooled = world.known | Judgements.from_pairs(yes, **ids)
    mine = [r for r in rows if r["world"] in (world.name, f"{world.name} late") and "covered" in r]
    for text, kind in (("R@1", "fixed"), ("mAP@R", "levels")):
        true, seen = (
            100 * limner.evaluate(world.scores[second], judged, measures=text).results[0].value
            for judged in (world.truth, pooled)
        )
        target = f"{text} {second}"
        late = next(r for r in mine if r["target"] == target and (r["kind"] == "late" or r["world"].endswith("late")))
        same = [r for r in mine if r["target"] == target and r["kind"] == kind and r["judge"] == "none"]
        plain = min((r for r in same if r["world"] == world.name), key=lambda r: abs(r["labels"] - late["labels"]))
        bias = abs(plain["bias"]) * plain["half"]
        note = f"true {text} {true:.1f}, by the pool of {first} {seen:.1f}; designed: {plain['labels']:,} labels"
        what = f"{world.name}: bias of {target} in points, designed against pooled by {first}"
        yield Claim(what, bias, abs(true - seen), "<= 0.1", note, source="limner")
        note = (
            f"half-width {late['half']:.2f} instead of {plain['half']:.2f} points, covered {100 * late['covered']:.1f}%"
        )
        what = f"{world.name}: width of {target} in a study planned for {first} alone, over planned for both"
        yield Claim(what, late["half"], plain["half"], "<= 10", note, source="limner")


def configure(parser: argparse.ArgumentParser) -> None:
    """How many studies, of which world."""
    parser.add_argument(
        "--only", default="", help="only worlds whose name begins so, e.g. 'scenes t2i' or 'coco,flickr'"
    )
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies of each row (default: 2000)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--plot", type=Path, help="draw the saved rows of all machines into this SVG, and end")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
