"""How often does a test find a difference if there is none? Every test that `limner.compare` offers, by image.

Two systems of equal quality answer five captions of every image. What makes an image easy is shared by both systems;
what one system likes about an image is shared by its captions. Nothing else differs, so every significant difference
is luck, and there should be 5 percent of them, the nominal level: no test may have more than 6, and none less than 3,
or it would miss true differences. The note of each claim says what the same test finds when it takes captions as
independent. The last claims are about whole tables: how often any line is marked.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main
from limner.evaluation.measures import Measure
from limner.evaluation.reports.report import Report
from limner.evaluation.results import Result, paired_test

CAPTIONS = 5
EASY, TASTE = 1.0, 2.0  # what both systems, and what one system's captions, share, beside noise of 1
SWAPS = 999
LEVEL = 0.05
NOMINAL = 100 * LEVEL
MOST, LEAST = "<= 1.2", ">= 0.6"  # of the nominal level: 6 and 3 percent
TESTS = {
    "R@1": ("auto", "mcnemar", "randomisation", "sign", "wilcoxon"),
    "MRR": ("auto", "randomisation", "sign", "wilcoxon"),
    "MedR": ("auto", "sign", "wilcoxon"),
}

SLOW = ("MedR", "auto")


@dataclass(frozen=True)
class World:
    """The ranks that two systems give the right image of every caption, and the right caption of every image."""

    by_text: np.ndarray
    by_image: np.ndarray


def world(rng: np.random.Generator, images: int, *, hard: float = 1.2) -> World:
    """Ranks of about e^hard in the middle."""
    easy = EASY * rng.standard_normal((1, images, 1))
    taste = TASTE * rng.standard_normal((2, images, 1))
    match_scores = easy + taste + rng.standard_normal((2, images, CAPTIONS))
    ranks = np.ceil(np.exp(hard - match_scores)).clip(1, 25_000)
    return World(ranks.reshape(2, -1), ranks.min(axis=2))


def values(measure: str, ranks: np.ndarray) -> np.ndarray:
    if measure.startswith("R@"):
        return (ranks <= int(measure[2:])).astype(np.float64)
    return 1 / ranks if measure == "MRR" else ranks


def results(drawn: World, system: int, measures: tuple[str, ...], *, clustered: bool = True) -> list[Result]:
    """Text queries, grouped by image or not."""
    ranks = drawn.by_text[system]
    images = np.repeat(np.arange(len(ranks) // CAPTIONS), CAPTIONS) if clustered else None
    queries = limner.Ids(map(str, range(len(ranks))), what="query")
    return [Result("pairs", "t2i", Measure.parse(m), queries, values(m, ranks), images) for m in measures]


def p_value(drawn: World, measure: str, test: str, *, clustered: bool, seed: int) -> float:
    (ours,), (theirs,) = (results(drawn, system, (measure,), clustered=clustered) for system in (0, 1))
    return paired_test(ours, theirs, test=test, samples=SWAPS, seed=seed).p_value


def false_positives(measure: str, test: str, images: int, simulations: int) -> tuple[float, float]:
    """Percent of simulations with p below 0.05: by image, and with captions taken as independent."""
    is_significant = np.zeros((simulations, 2))
    hard = 5.0 if measure == "MedR" else 1.2  # where most first ranks are 1, 2 or 3, medians are nearly always equal
    for n in range(simulations):
        drawn = world(np.random.default_rng([images, n]), images, hard=hard)
        is_significant[n] = [p_value(drawn, measure, test, clustered=c, seed=n) < LEVEL for c in (True, False)]
    by_image, alone = 100 * is_significant.mean(axis=0)
    return float(by_image), float(alone)


def table(drawn: World) -> list[Report]:
    """Reports with nine lines, as an evaluation with the usual measures prints them."""
    measures = ("R@1", "R@5", "R@10", "MRR")
    reports = []
    for system in (0, 1):
        by_text = results(drawn, system, measures)
        ranks = drawn.by_image[system]
        queries = limner.Ids(map(str, range(len(ranks))), what="query")
        by_image = [Result("pairs", "i2t", Measure.parse(m), queries, values(m, ranks)) for m in measures]
        lines = (*by_image, *by_text, rsum(by_image[:3], by_text[:3]))
        reports.append(Report(f"system {system}", "simulated", lines))
    return reports


def rsum(by_image: list[Result], by_text: list[Result]) -> Result:
    """rsum by image, the sum of six recalls."""
    forth = sum(100 * r.values for r in by_image)
    back = sum(100 * r.values.reshape(-1, CAPTIONS).mean(axis=1) for r in by_text)
    return Result("pairs", "both", Measure.parse("rsum"), by_image[0].queries, forth + back)


def table_errors(images: int, simulations: int) -> dict[str, float]:
    """Percent of tables with at least one mark, by what p-values are corrected over; and with a mark at rsum alone."""
    marks = {"table": 0, "line": 0, "rsum": 0}
    for n in range(simulations):
        compared = limner.compare(table(world(np.random.default_rng([images, n, 7]), images)), samples=SWAPS, seed=n)
        every = [d for line in compared.lines for d in line.differences]
        marks["table"] += any(d.p_table < LEVEL for d in every)
        marks["line"] += any(d.p_line < LEVEL for d in every)
        marks["rsum"] += compared.line("rsum").differences[0].test.p_value < LEVEL
    return {name: 100 * count / simulations for name, count in marks.items()}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    simulations = 50 if options.quick else options.simulations
    sizes = (40,) if options.quick else (40, 200)
    settings = [
        (measure, test, images, simulations * (1 if (measure, test) == SLOW else 4))
        for images in sizes
        for measure in TESTS
        for test in TESTS[measure]
    ]
    with ProcessPoolExecutor() as pool:
        whole_tables = pool.submit(table_errors, 100, simulations)
        rates: dict[str, float] = {}
        results = zip(settings, pool.map(false_positives, *zip(*settings, strict=True)), strict=True)
        for (measure, test, images, repetitions), (ours, alone) in results:
            log(f"{images} images, {measure}, {test}: {ours:.1f}% by image, {alone:.1f}% by caption")
            note = f"{alone:.1f} if captions count as independent; {repetitions:,} simulations"
            title = f"{test} on {measure}, {images} images of {CAPTIONS} captions"
            rates[title] = ours
            yield Claim(f"{title}: false positives, percent", ours, NOMINAL, MOST, note, source="theory")
        errors = whole_tables.result()
    rates["rsum by image, 100 images"] = errors["rsum"]
    title = "rsum by image, 100 images: false positives, percent"
    yield Claim(title, errors["rsum"], NOMINAL, MOST, source="theory")
    lowest = min(rates, key=rates.__getitem__)
    title = "fewest false positives of all these, percent"
    yield Claim(title, rates[lowest], NOMINAL, LEAST, lowest, source="theory")
    note = f"{errors['line']:.1f} when p-values are corrected within each line only; {simulations:,} simulations"
    claim = "tables of nine lines with any false mark, corrected over the table, percent"
    yield Claim(claim, errors["table"], NOMINAL, MOST, note, source="theory")


def configure(parser: argparse.ArgumentParser) -> None:
    help = "of tables and of the test of medians, which is slow; four times as many of all others (default: 1000)"
    parser.add_argument("--simulations", type=int, default=1000, help=help)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
