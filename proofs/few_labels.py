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
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import labelling_worlds as worlds
from labelling_studies import NORMAL, SEARCHED, Job, done, fewest_units, simple_queries
from labelling_worlds import World

import limner
from claims import Claim, log, main, result_file
from limner.annotate.levels import least_labels
from limner.annotate.sample import values
from limner.core.judgements import Judgements
from limner.evaluation.measures import Measure, parse

BUDGETS = (100, 300, 1000)
TIMES = (1, 2, 5)
"""Budgets of the measures that need all matches: so many times the least."""
MEASURES = ("R@1", "P@5", "R@5", "MRR@5")
PAIRED = ("R@1", "P@5")
FEWEST = 20
"""Units that are drawn at least."""
PLANNED_HALF = 2.0
REDRAWN = ("good", "captions")
"""Judges whose studies are also drawn in two parts, the second by the answers of the first."""
WHOLE_HALVES = (2.0, 5.0)


# --- jobs -------------------------------------------------------------------------------------------------------


def jobs(world: World, studies: int) -> Iterator[Job]:
    """Everything that is simulated of a world."""
    for text in MEASURES:
        sampled, target_list = worlds.targets(world, parse(text))
        each = float(np.mean([len(c) for _, c in sampled.units]))
        for name, scores in worlds.judges(world, sampled).items():
            for budget in BUDGETS:
                number = int(budget / each)
                if FEWEST <= number < len(sampled.units):
                    job = Job(
                        "fixed", world.name, name, budget, studies, tuple(target_list), scores, sampled.deeper, number
                    )
                    yield from _kinds(job, text)
    yield from _level_jobs(world, studies)
    yield from _efficiency_jobs(world)
    yield from _late_jobs(world, studies)


def _kinds(job: Job, measure: str) -> Iterator[Job]:
    """One design looked at once, at any time, drawn in two parts, and with nobody but the judge."""
    yield job
    if measure in PAIRED:
        yield replace(job, kind="anytime", targets=job.targets[::2])
        if job.scores is not None:
            yield replace(job, kind="judge alone")
    if measure == "R@1" and job.labels == 300:
        yield replace(job, kind="two draws")


def _level_jobs(world: World, studies: int) -> Iterator[Job]:
    """Measures that need all matches; a judge takes no part."""
    levels = tuple(worlds.leveled(world))
    fewest = least_labels(levels[0].costs)
    for times in TIMES:
        yield Job("levels", world.name, "none", times * fewest, studies, levels)
    for half in WHOLE_HALVES:
        for kind in ("labels", "changes"):
            yield Job(f"{kind} for {half}", world.name, "none", 0, SEARCHED, levels[:1])


def _efficiency_jobs(world: World) -> Iterator[Job]:
    """Labels for a half-width of two points of the first system's R@1, in a study of that system alone."""
    name = next(iter(world.lists))
    sampled, target_list = worlds.targets(world, parse("R@1"), {name: world.lists[name]})
    for judge, scores in worlds.judges(world, sampled).items():
        job = Job(
            f"labels for {PLANNED_HALF}", world.name, judge, 0, SEARCHED, (target_list[0],), scores, sampled.deeper
        )
        yield job
        if judge in REDRAWN:
            yield replace(job, kind=f"two draws for {PLANNED_HALF}")


def _late_jobs(world: World, studies: int) -> Iterator[Job]:
    """The second system in studies that were planned for the first alone."""
    first, second = world.lists
    sampled, target_list = worlds.targets(world, parse("R@1"), {first: world.lists[first]})
    late = next(t for t in target_list if t.name == f"R@1 {second}")
    yield Job("late", world.name, "none", 300, studies, (late,), None, sampled.deeper, min(300, len(sampled.units) - 1))
    alone = [t for t in worlds.leveled(world, (first,)) if t.name.endswith(second)]
    fewest = least_labels(alone[0].costs)
    yield Job("levels", f"{world.name} late", "none", 2 * fewest, studies, tuple(alone))


def _flickr_jobs(data: Path, studies: int) -> Iterator[Job]:
    target, judges = worlds.flickr(data)
    deeper = np.zeros(len(target.units), dtype=bool)
    for name, scores in judges.items():
        for budget in BUDGETS:
            job = Job("fixed", "Flickr8k experts", name, budget, studies, (target,), scores, deeper, budget)
            yield from _kinds(job, "P@5")


# --- claims -----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every table of the page, and a claim for what each has to show."""
    if options.plot:
        import labelling_plots

        labelling_plots.draw(options.plot)
        return
    studies = 100 if options.quick else options.studies
    worlds_made = list(_worlds(options))
    todo = [job for world in worlds_made for job in jobs(world, studies)]
    if options.data is not None and _is_selected("flickr8k", options):
        todo += _flickr_jobs(options.data, studies)
    todo = [job for job in todo if _has_words(f"{job.world} {job.kind}", options.rows)]
    rows_file = result_file(Path(__file__), options, ".rows.jsonl")
    if options.kept:
        rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    else:
        rows = list(_worked(todo, options.workers, options.minutes, rows_file if options.save else None))
    yield from _covered(rows)
    yield from _alone(rows)
    for world in worlds_made:
        yield from _efficient(world, rows)
        yield from _pool(world, rows)


def _worlds(options: argparse.Namespace) -> Iterator[World]:
    if _is_selected("scenes", options):
        yield from (world for world in worlds.scenes() if _is_selected(world.name, options))
    if options.data is not None and _is_selected("coco", options):
        yield from (world for world in worlds.coco(options.data) if _is_selected(world.name, options))


def _is_selected(name: str, options: argparse.Namespace) -> bool:
    """Whether a world, or one whose name begins so, was asked for."""
    chosen = [each.strip().lower() for each in options.only.split(",")]
    return any(name.lower().startswith(each) or each.startswith(name.lower()) for each in chosen)


def _has_words(name: str, words: list[str]) -> bool:
    """Whether a name has all words of one of several phrases; any name if there is no phrase."""
    return not words or any(set(phrase.split()) <= set(name.split()) for phrase in words)


def _worked(todo: list[Job], workers: int, minutes: float, rows_file: Path | None) -> Iterator[dict[str, Any]]:
    """The rows of all jobs, the longest first, told and kept as they are done; none begins after the time limit."""
    todo = sorted(todo, key=lambda job: -job.labels * (10 if job.kind == "anytime" else 1))
    end = time.monotonic() + 60 * minutes
    log(f"{len(todo)} jobs, {workers} workers")
    with _opened(rows_file, {job.world for job in todo}) as file, _Pool(workers, end) as pool:
        for number, rows in enumerate(pool.done(todo), start=1):
            for row in rows:
                log(f"{number}/{len(todo)} " + " ".join(_written(k, v) for k, v in row.items()))
                if file is not None:
                    short = {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}
                    print(json.dumps(short), file=file, flush=True)
                yield row


@contextmanager
def _opened(target: Path | None, ran: set[str]) -> Iterator[IO[str] | None]:
    """The file of rows, with those of worlds that are not run now."""
    if target is None:
        yield None
        return
    old = target.read_text().splitlines() if target.exists() else []
    with target.open("w") as file:
        file.writelines(line + "\n" for line in old if json.loads(line)["world"] not in ran)
        yield file


class _Pool:
    """Worker processes that begin no further job once the time is over."""

    def __init__(self, workers: int, end: float) -> None:
        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
        self._end = end

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def done(self, todo: list[Job]) -> Iterator[list[dict[str, Any]]]:
        """The rows of each job, as they come."""
        waiting = {self._pool.submit(done, job) for job in todo}
        while waiting:
            left = max(self._end - time.monotonic(), 0.0) if any(not f.running() for f in waiting) else None
            ready, waiting = wait(waiting, timeout=left, return_when=FIRST_COMPLETED)
            if time.monotonic() >= self._end:
                over = {future for future in waiting if future.cancel()}
                waiting -= over
                if over:
                    log(f"the time is over: {len(over)} jobs are not begun")
            yield from (future.result() for future in ready)


def _written(key: str, value: Any) -> str:
    return f"{key}={value:.3f}" if isinstance(value, float) else f"{key}={value}"


def _covered(rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """What the tables say in a few lines for each world and kind of study."""
    groups = dict.fromkeys((r["world"], r["kind"]) for r in rows if "covered" in r and r["kind"] != "judge alone")
    for world, kind in groups:
        own_rows = [r for r in rows if (r["world"], r["kind"]) == (world, kind)]
        covered, studies = np.array([100 * r["covered"] for r in own_rows]), own_rows[0]["studies"]
        error = 196 * float(np.sqrt(0.95 * 0.05 / studies))
        head, low = f"{world}, {kind}", float(covered.min())
        span = f"{low:.1f} to {covered.max():.1f}%"
        note = f"{len(own_rows)} rows of {studies} studies, {span}; simulation error {error:.1f}"
        if kind == "anytime":
            goal = f">= {95 - error:.1f}"
            yield Claim(f"{head}: lowest coverage at all times, 95 less the error, %", low, goal=goal, note=note)
        elif kind == "late":  # what the design does not hold may be anything: wide, and in the middle by convention
            yield Claim(f"{head}: coverage, 93.5 less the error, %", low, goal=f">= {93.5 - error:.1f}", note=note)
            continue
        else:
            inside = (covered >= 93.5 - error) & (covered <= 96.5 + error)
            yield Claim(f"{head}: mean coverage, %", float(covered.mean()), 95, "within 1.5", note, source="theory")
            claim = f"{head}: lowest coverage, 93.5 less the error, %"
            yield Claim(claim, low, goal=f">= {93.5 - error:.1f}", note=note)
            strictly = 100 * float(((covered >= 93.5) & (covered <= 96.5)).mean())
            note = f"within 93.5 to 96.5 itself: {strictly:.0f}%; above 96.5: {(covered > 96.5).mean():.0%}"
            claim = f"{head}: rows covered 93.5 to 96.5%, give or take the error, %"
            yield Claim(claim, 100 * float(inside.mean()), goal=">= 100", note=note)
        yield Claim(f"{head}: largest bias / half-width", float(max(abs(r["bias"]) for r in own_rows)), goal="< 0.1")
        yield from _judge_costs(head, own_rows)


def _judge_costs(head: str, own_rows: list[dict[str, Any]]) -> Iterator[Claim]:
    for judge in ("useless", "adversarial"):
        ratios = _ratios(own_rows, judge)
        if ratios:
            note = f"{len(ratios)} rows, mean {np.mean(ratios):.3f}"
            yield Claim(
                f"{head}: width with the {judge} judge over none, at most", max(ratios), goal="<= 1.05", note=note
            )
    for judge in ("good", "captions", "crowd"):
        ratios = _ratios(own_rows, judge)
        if ratios:
            note = f"{len(ratios)} rows, {min(ratios):.2f} to {max(ratios):.2f}"
            yield Claim(
                f"{head}: width with the judge {judge} over none, mean", float(np.mean(ratios)), goal="<= 1", note=note
            )


def _ratios(rows: list[dict[str, Any]], judge: str) -> list[float]:
    """Half-widths with a judge over those without, row by row."""
    plain = {(r["target"], r["labels"]): r["half"] for r in rows if r["judge"] == "none"}
    half_pairs = [(r["half"], plain.get((r["target"], r["labels"]))) for r in rows if r["judge"] == judge]
    return [half / plain_half for half, plain_half in half_pairs if plain_half]


def _alone(rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """A judge's yes and no in place of people's: how many of its intervals hold the truth, at the largest budget."""
    alone_rows = [r for r in rows if r["kind"] == "judge alone"]
    for world, judge in dict.fromkeys((r["world"], r["judge"]) for r in alone_rows):
        judge_rows = [r for r in alone_rows if (r["world"], r["judge"]) == (world, judge)]
        most_labels = max(r["labels"] for r in judge_rows)
        covered = [100 * r["covered"] for r in judge_rows if r["labels"] == most_labels]
        with_people = [
            100 * r["covered"] for r in rows
            if (r["world"], r["judge"], r["labels"], r["kind"]) == (world, judge, most_labels, "fixed")
            and r["target"] in {o["target"] for o in judge_rows}
        ]  # fmt: skip
        note = f"{most_labels:,} pairs, {min(covered):.0f} to {max(covered):.0f}%; with as many answers of people "
        note += f"{min(with_people, default=0):.1f} to {max(with_people, default=0):.1f}%"
        claim = f"{world}: mean coverage of the judge {judge} alone, %"
        yield Claim(claim, float(np.mean(covered)), 95, "< 0.95", note, source="theory")


def _efficient(world: World, rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """Labels for a wanted half-width against simple random queries, a pool, and what limits every sample."""
    pooled = len({(q, c) for r in world.lists.values() for q in r.queries for c in r[q][:5]})
    own_rows = [r for r in rows if r["world"] == world.name and "needed" in r]
    complete = worlds.leveled(world)[0].values[-1] if own_rows else np.empty(0)
    for row in (r for r in own_rows if r["kind"].startswith(("labels for", "two draws for"))):
        half = float(row["kind"].split()[-1])
        measure = row["target"].split()[0]
        if measure in map(str, worlds.WHOLE):
            claim = f"{world.name}: labels for {measure} to {half:g} points, judge {row['judge']}"
            simple = float(simple_queries(complete, half) * len(world.known.candidates))
            further_claims = _against_changes(claim, row, half, own_rows)
        else:
            drawn = ", two draws" if row["kind"].startswith("two") else ""
            claim = f"{world.name}: labels for {measure}, judge {row['judge']}{drawn}"
            simple, further_claims = _simple(world, half), _against_limits(claim, row, half, world, pooled)
        note = f"+- {half:g} points of {row['target']}; simple random queries {simple:,.0f} labels, pool {pooled:,}"
        yield Claim(f"{claim}, against simple random queries", row["needed"], simple, "<= 0.2", note, source="theory")
        yield from further_claims


def _simple(world: World, half: float) -> float:
    """Queries of a simple sample for a half-width of the first system's R@1, each with one label."""
    name = next(iter(world.lists))
    true = float(values(world.lists[name], world.truth, Measure.parse("R@1")).mean())
    spread = NORMAL**2 * true * (1 - true)
    return spread / ((half / 100) ** 2 + spread / len(world.known.queries))


def _against_changes(head: str, row: dict[str, Any], half: float, rows: list[dict[str, Any]]) -> Iterator[Claim]:
    for change_row in (r for r in rows if r["kind"] == f"changes for {half}"):
        words = f"{head}, against sums of changes (every factor 1)"
        yield Claim(words, row["needed"], change_row["needed"], "<= 1", source="limner")


def _against_limits(head: str, row: dict[str, Any], half: float, world: World, pooled: int) -> Iterator[Claim]:
    """Against a pool, and against a simple sample of the same units if it were known how right the judge is."""
    yield Claim(f"{head}, against a pool of the first five", row["needed"], pooled, "<= 0.1", source="limner")
    name = next(iter(world.lists))
    sampled, target_list = worlds.targets(world, parse("R@1"), {name: world.lists[name]})
    fewest = fewest_units(target_list[0], worlds.judges(world, sampled)[row["judge"]], half)
    note = (
        f"{fewest / _simple(world, half):.2f} of simple random queries: no simple sample of the {len(sampled.units):,} "
    )
    note += "queries that the given labels leave undecided needs fewer"
    words = f"{head}, against a sample of undecided queries if the judge's errors were known"
    yield Claim(words, row["needed"], fewest, "<= 1.25", note, source="theory")


def _pool(world: World, rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """A system that was not in the pool, on labels pooled by the other; and in studies planned for the other."""
    first, second = world.lists
    pool = {(q, c) for q in world.lists[first].queries for c in world.lists[first][q][:5]}
    yes = [pair for pair in pool if pair in world.matches]
    ids = {"queries": world.known.queries, "candidates": world.known.candidates}
    pooled = world.known | Judgements.from_pairs(yes, **ids)
    own_rows = [r for r in rows if r["world"] in (world.name, f"{world.name} late") and "covered" in r]
    for text, kind in (("R@1", "fixed"), ("mAP@R", "levels")):
        true, estimated = (
            100 * limner.evaluate(world.scores[second], judged, measures=text).results[0].value
            for judged in (world.truth, pooled)
        )
        target = f"{text} {second}"
        target_rows = [r for r in own_rows if r["target"] == target]
        late = next((r for r in target_rows if r["kind"] == "late" or r["world"].endswith("late")), None)
        designed = [r for r in target_rows if (r["kind"], r["judge"], r["world"]) == (kind, "none", world.name)]
        if late is None or not designed:
            continue
        plain = min(designed, key=lambda r: abs(r["labels"] - late["labels"]))
        bias = abs(plain["bias"]) * plain["half"]
        note = f"true {text} {true:.1f}, by the pool of {first} {estimated:.1f}; designed: {plain['labels']:,} labels"
        claim = f"{world.name}: bias of {target} in points, designed against pooled by {first}"
        yield Claim(claim, bias, abs(true - estimated), "<= 0.1", note, source="limner")
        note = (
            f"half-width {late['half']:.2f} instead of {plain['half']:.2f} points, covered {100 * late['covered']:.1f}%"
        )
        claim = f"{world.name}: width of {target} in a study planned for {first} alone, over planned for both"
        yield Claim(claim, late["half"], plain["half"], "<= 10", note, source="limner")


def configure(parser: argparse.ArgumentParser) -> None:
    """How many studies, of which world."""
    parser.add_argument("--kept", action="store_true", help="nothing is simulated: claims from the saved rows")
    parser.add_argument(
        "--only", default="", help="only worlds whose name begins so, e.g. 'scenes t2i' or 'coco,flickr'"
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=[],
        metavar="WORDS",
        help="only rows whose world and kind have these words, e.g. levels",
    )
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies of each row (default: 2000)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--minutes", type=float, default=10_000, help="begin no further work after so long; rows stay")
    parser.add_argument("--plot", type=Path, help="draw the saved rows of all machines into this SVG, and end")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
