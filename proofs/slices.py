"""Slices with planted weak groups on scenes: how many are found, and how many discoveries are false?

A system is evaluated on scenes once: R@1 of text to image, one hit or miss for each caption. In every draw the hits of
whole images are dealt to other images, so that nothing in the captions or objects has to do with them any more. Then
fields that are drawn at random are added, some for images and some for captions, and in some of them one value is made
weak: a share of its hits becomes misses. Every slice by length, objects, background and the other fields is then a true
null, and each one that is marked is a false discovery. The false discovery rate is the mean over draws of false ones
among those found. The two values of a planted field besides the weak one are left out: they are truly stronger.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main
from limner.core.collection import Collection
from limner.core.ids import Ids
from limner.evaluation.query_groups import QueryGroup, query_groups
from limner.stats import false_discovery, group_tests

DRAWS = 150
SAMPLES = 5000
FIELDS = 6
"""Random fields of each side, with three values each."""
LEVEL = 0.05


@dataclass(frozen=True)
class Case:
    """What is planted.

    Attributes:
        name: In words.
        weak: Weak groups: how many of the image fields, and of the caption fields, have one.
        lost: The share of hits that a weak group loses.
    """

    name: str
    weak: tuple[int, int]
    lost: float


CASES = (
    Case("nothing planted", (0, 0), 0.0),
    Case("4 weak groups lose three tenths of their hits", (2, 2), 0.3),
    Case("4 weak groups lose six tenths", (2, 2), 0.6),
    Case("8 weak groups lose six tenths", (4, 4), 0.6),
)
CONTROLS = {"by": "Benjamini & Yekutieli", "bh": "Benjamini & Hochberg"}


@dataclass(frozen=True, eq=False)
class World:
    """Scenes, the hits of a system on its captions, and the slices that are there anyway."""

    held: Collection
    queries: Ids
    hits: np.ndarray
    images: np.ndarray
    groups: list[QueryGroup]


@cache
def world(images: int) -> World:
    """Scenes and one system, evaluated once in each process."""
    collection = limner.load("scenes", images=images, seed=11)
    model = limner.train(limner.load("scenes", images=300, seed=12), "histograms")
    report = limner.evaluate(model.scores(collection), collection, measures="R@10")
    result = report.find("R@10", direction="t2i", view=collection.judgements.name)
    groups = query_groups(collection, "t2i", result.queries, ["length", "objects", "background"], min_size=30)
    _, clusters = np.unique(result.clusters, return_inverse=True)
    return World(collection, result.queries, result.values, clusters, groups)


def dealt(simulated_world: World, rng: np.random.Generator) -> np.ndarray:
    """The hits of every image, given to another one, and among its captions in random order."""
    order = np.argsort(simulated_world.images, kind="stable")
    table = simulated_world.hits[order].reshape(-1, len(order) // (simulated_world.images.max() + 1))
    mixed = rng.permuted(table[rng.permutation(len(table))], axis=1)
    hits = np.empty(len(order))
    hits[order] = mixed.ravel()
    return hits


def drawn(job: tuple[Case, int, int]) -> dict[str, tuple[int, int]]:
    """One draw: planted groups that are found, and false discoveries, under each control."""
    case, images, seed = job
    simulated_world, rng = world(images), np.random.default_rng([seed, *case.weak, round(100 * case.lost)])
    hits = dealt(simulated_world, rng)
    of_images = rng.integers(3, size=(FIELDS, simulated_world.images.max() + 1))[:, simulated_world.images]
    of_texts = rng.integers(3, size=(FIELDS, len(hits)))
    weak = [of_images[n] == 0 for n in range(case.weak[0])] + [of_texts[n] == 0 for n in range(case.weak[1])]
    for members in weak:
        hits = np.where(members & (rng.random(len(hits)) < case.lost), 0.0, hits)
    planted = [*range(case.weak[0]), *(FIELDS + n for n in range(case.weak[1]))]
    fields = np.concatenate([of_images, of_texts])
    unplanted = [fields[n] == value for n in range(2 * FIELDS) for value in range(3) if n not in planted]
    null = [*(group.members for group in simulated_world.groups), *unplanted]
    tests = group_tests(hits, np.array([*weak, *null]), clusters=simulated_world.images, samples=SAMPLES, seed=seed)
    p_values = [test.p_value for test in tests]
    counted = {}
    for control in CONTROLS:
        marked = false_discovery(p_values, method=control) <= LEVEL
        right = sum(bool(marked[n]) and tests[n].difference < 0 for n in range(len(weak)))
        counted[control] = (right, int(marked.sum()) - right)
    return counted


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """One claim on false discoveries of each case and control, and what was found."""
    draws, images = (5, 100) if options.quick else (DRAWS, 300)
    simulated_world = world(images)
    log(f"{images} images, {len(simulated_world.hits):,} captions, R@10 {100 * simulated_world.hits.mean():.1f}")
    with ProcessPoolExecutor(2) as pool:
        for case in CASES:
            counted = list(pool.map(drawn, [(case, images, n) for n in range(draws)], chunksize=5))
            for control, name in CONTROLS.items():
                yield _claim(case, name, np.array([each[control] for each in counted]), len(simulated_world.groups))


def _claim(case: Case, control: str, rows: np.ndarray, groups: int) -> Claim:
    """The false discovery rate of one case, with twice its simulation error allowed."""
    shares = rows[:, 1] / np.maximum(rows.sum(axis=1), 1)
    rate, error = 100 * shares.mean(), 100 * shares.std() / np.sqrt(len(rows))
    weak, slices = sum(case.weak), groups + 6 * FIELDS - 2 * sum(case.weak)
    power = f"{100 * rows[:, 0].sum() / (weak * len(rows)):.1f}% of planted groups found; " if weak else ""
    note = (
        f"{power}{rows[:, 1].sum()} false of {rows.sum()} discoveries in {len(rows)} draws of {slices} slices; "
        f"simulation error {error:.1f}"
    )
    log(f"{case.name}, {control}: {rate:.2f}; {note}")
    title = f"{case.name}, {control}: false discovery rate, percent"
    return Claim(title, round(rate, 2), goal=f"<= {5 + 2 * error:.2f}", note=note)


if __name__ == "__main__":
    main(run, __doc__)
