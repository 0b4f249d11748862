"""How often does a 95% interval hold the truth? Rates of 1 to 99 percent, 50 to 1,000 queries, alone or by image.

For independent hits and misses the coverage is exact: the chance of every number of hits is known. For captions that
share the luck of their image, for folds, for reciprocal ranks and for differences, it is counted over simulations. The
goal is at least 93.5 percent; more than 96.5 is caution, which few queries near 0 and 100 percent need. The percentile
bootstrap, which limner used before, stands in the notes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner import stats

RATES = (0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98, 0.99)
QUERIES = (50, 100, 200, 500, 1000)
CAPTIONS = 5
SHARED = (0.0, 0.3, 0.7, 0.95)
"""How much of a caption's luck is its image's."""


@dataclass(frozen=True)
class Case:
    """One cell of the table: what is drawn, and how its interval is made."""

    kind: str
    rate: float
    queries: int
    shared: float = 0.0


def luck(rng: np.random.Generator, case: Case, size: int = CAPTIONS) -> np.ndarray:
    """A normal number per query; those of one image have `shared` of it in common."""
    images = case.queries // size
    together, alone = rng.standard_normal((images, 1)), rng.standard_normal((images, size))
    return (np.sqrt(case.shared) * together + np.sqrt(1 - case.shared) * alone).ravel()


def upper_end(rate: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - rate))


def captions(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, float, dict]:
    images = np.repeat(np.arange(case.queries // CAPTIONS), CAPTIONS)
    return (luck(rng, case) > upper_end(case.rate)) * 1.0, case.rate, {"clusters": images}


def folds(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, float, dict]:
    """The same in five folds, some of which are twice as hard to hit as others."""
    values, _, options = captions(rng, case)
    fold = options["clusters"] * 5 // (case.queries // CAPTIONS)
    kept_values = np.where(fold % 2, values * (rng.random(len(values)) < 0.5), values)
    return kept_values, case.rate * (3 + 2 * 0.5) / 5, {**options, "folds": fold}


def reciprocal_ranks(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, float, dict]:
    """1 / rank, where ranks are the larger the smaller the rate: very skewed near 0."""
    spread = 1.5
    middle = spread * upper_end(case.rate)
    drawn = _reciprocal(middle - spread * luck(rng, case, 1))
    grid = np.linspace(-8, 8, 200_001)
    density = np.exp(-(grid**2) / 2)
    return drawn, float((_reciprocal(middle - spread * grid) * density).sum() / density.sum()), {}


def _reciprocal(log_rank: np.ndarray) -> np.ndarray:
    return 1 / np.ceil(np.exp(log_rank)).clip(1, 1e6)


def differences(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, float, dict]:
    """Two systems, the second of which hits a fifth less often."""
    images = np.repeat(np.arange(case.queries // CAPTIONS), CAPTIONS)
    a = luck(rng, case) > upper_end(case.rate)
    b = luck(rng, case) > upper_end(0.8 * case.rate)
    return 1.0 * a - b, 0.2 * case.rate, {"clusters": images, "bounds": (-1, 1)}


KINDS: dict[str, Callable[[np.random.Generator, Case], tuple[np.ndarray, float, dict]]] = {
    "captions by image": captions,
    "captions by image in folds": folds,
    "reciprocal ranks": reciprocal_ranks,
    "differences by image": differences,
}


def exact(case: Case) -> tuple[float, float]:
    """Coverage of independent hits and misses, and that of the percentile bootstrap, over every number of hits."""
    from scipy.stats import binom

    hits = np.arange(case.queries + 1)
    chance = binom.pmf(hits, case.queries, case.rate)
    ours = [case.rate in stats.mean_interval(np.arange(case.queries) < h) for h in hits]
    drawn = binom.ppf([[0.025], [0.975]], case.queries, hits / case.queries) / case.queries
    theirs = (drawn[0] <= case.rate) & (case.rate <= drawn[1])
    return 100 * float(chance[ours].sum()), 100 * float(chance[theirs].sum())


def simulated(case: Case, simulations: int, bootstrapped: int) -> tuple[float, float]:
    """The same, counted; the bootstrap, which is slow, on fewer."""
    draw, covered_share = KINDS[case.kind], np.zeros((2, simulations))
    for n in range(simulations):
        rng = np.random.default_rng([n, case.queries, int(1000 * case.rate), int(100 * case.shared)])
        values, truth, options = draw(rng, case)
        covered_share[0, n] = truth in stats.mean_interval(values, **options)
        if n < bootstrapped:
            options.pop("bounds", None)
            covered_share[1, n] = truth in stats.bootstrap(values, samples=500, seed=n, **options)
    return 100 * float(covered_share[0].mean()), 100 * float(covered_share[1, :bootstrapped].mean())


def cases(*, quick: bool) -> Iterator[Case]:
    rates, queries, shared = (RATES[::4], QUERIES[1::2], SHARED[1::2]) if quick else (RATES, QUERIES, SHARED)
    yield from (Case("hits and misses", rate, n) for n in queries for rate in rates)
    for kind in KINDS:
        some = shared if kind != "reciprocal ranks" else (0.0,)
        yield from (Case(kind, rate, n, s) for s in some for n in queries for rate in rates)


def covered(job: tuple[Case, int, int]) -> tuple[float, float]:
    case, simulations, bootstrapped = job
    return exact(case) if case.kind == "hits and misses" else simulated(case, simulations, bootstrapped)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    simulations, bootstrapped = (200, 50) if options.quick else (2000, 200)
    every = list(cases(quick=options.quick))
    with ProcessPoolExecutor() as pool:
        coverages = list(pool.map(covered, [(case, simulations, bootstrapped) for case in every], chunksize=4))
    groups: dict[tuple[str, float], list[tuple[Case, float, float]]] = {}
    for case, (ours, drawn) in zip(every, coverages, strict=True):
        groups.setdefault((case.kind, case.shared), []).append((case, ours, drawn))
        log(f"{case.kind}, shared {case.shared:g}, rate {case.rate:g}, n {case.queries}: {ours:.1f}, was {drawn:.1f}")
    for (kind, shared), rows in groups.items():
        yield from summed(kind, shared, rows, simulations)


def summed(kind: str, shared: float, rows: list[tuple[Case, float, float]], simulations: int) -> Iterator[Claim]:
    """The worst cell and the mean of a part of the table."""
    worst, ours, _ = min(rows, key=lambda row: row[1])
    before = min(row[2] for row in rows)
    method = "exact" if kind == "hits and misses" else f"{simulations:,} simulations of each of {len(rows)} cells"
    title = f"{kind}, {shared:.0%} of luck shared" if kind != "hits and misses" else kind
    note = (
        f"at rate {worst.rate:g}, {worst.queries} queries; the percentile bootstrap's worst is {before:.1f}; {method}"
    )
    yield Claim(f"{title}: least coverage, percent", ours, goal=">= 93.5", note=note)
    mean = float(np.mean([row[1] for row in rows]))
    yield Claim(f"{title}: mean coverage, percent", mean, goal="<= 98.5", note="not needlessly wide")


if __name__ == "__main__":
    main(run, __doc__)
