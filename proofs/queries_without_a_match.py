"""Do the intervals of estimates hold the truth where some queries have no match?

A collection of 60 images has 60 texts of theirs and 60 others, of which none, a third or two thirds match an image all
the same; 70 pairs are labelled. Three statements of `limner evaluate --estimate` are checked: the estimate over the
queries with a given match, the range over all queries with a match, and the most queries without one.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main
from limner.annotate import open_store, plan
from limner.annotate.estimate import estimates
from limner.annotate.store import Store
from limner.annotate.store.answers import submit
from limner.annotate.store.contents import add_collection
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.core.collection import Collection, Items
from limner.core.judgements import Judgements
from limner.scores import Scores

IMAGES = 60
BUDGET = 70
MATCHED = (0.0, 1 / 3, 2 / 3)
MEASURES = ("R@1", "R@3")


@dataclass(frozen=True)
class World:
    """Images, texts of which half have no image of their own, a system, and every true match (images, texts)."""

    collection: Collection
    scores: Scores
    truth: np.ndarray

    @classmethod
    def drawn(cls, matched: float, seed: int) -> World:
        """A world in which this share of the texts without an image of their own match one all the same."""
        random = np.random.default_rng(seed)
        images, texts = [f"i{n:03}" for n in range(IMAGES)], [f"t{n:03}" for n in range(2 * IMAGES)]
        truth = np.zeros((IMAGES, 2 * IMAGES), dtype=bool)
        truth[:, :IMAGES] = np.eye(IMAGES, dtype=bool) | (random.random((IMAGES, IMAGES)) < 0.05)
        matched_rows = IMAGES + random.permutation(IMAGES)[: round(matched * IMAGES)]
        truth[random.integers(0, IMAGES, len(matched_rows)), matched_rows] = True
        pairs = Judgements.from_pairs(zip(images, texts, strict=False), queries=images, candidates=texts, name="pairs")
        collection = Collection("half", Items(images, [None] * IMAGES), Items(texts, texts, kind="text"), pairs)
        noisy = truth + random.choice([0.45, 0.9]) * random.normal(size=truth.shape)
        return cls(collection, Scores.from_matrix(noisy, images, texts), truth)

    def value(self, measure: str, *, given_matches: bool) -> float:
        """The true value over the texts with an image of their own, or over all texts with a match."""
        rows = self.truth.T[: IMAGES if given_matches else None]
        right = Judgements.from_pairs((f"t{t:03}", f"i{i:03}") for t, i in np.argwhere(rows))
        texts = self.scores.T.restrict(queries=[f"t{t:03}" for t in np.flatnonzero(rows.any(axis=1))])
        return limner.evaluate(texts, right, measures=measure).results[0].value

    def label(self, store: Store) -> None:
        """Answers all tasks by the truth."""
        annotator = add_annotator(store, "truth", existing=True).id
        while (task := lease(store, annotator)) is not None:
            for item in task.items:
                grade = 4 if self.truth[int(item.image[1:]), int(item.caption[1:])] else 1
                submit(store, annotator, item.id, key=uuid.uuid4().hex, grade=grade, milliseconds=900)


def holds(measure: str, matched: float, seed: int) -> tuple[bool, bool, bool]:
    """Whether the estimate, the range over all queries with a match, and the number without one hold the truth."""
    world = World.drawn(matched, seed)
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "answers.db") as store:
        add_collection(store, world.collection)
        plan(
            store,
            world.collection,
            {"system": world.scores},
            measures=measure,
            direction="t2i",
            budget=BUDGET,
            seed=seed,
        )
        world.label(store)
        (estimate,), notes = estimates(store, {"t2i": world.scores.T}, world.collection)
    note = " ".join(notes)
    low, high = map(float, re.search(rf"{measure} is between ([\d.]+) and ([\d.]+)", note).groups())  # type: ignore[union-attr]
    upper_count = int(re.search(r"at most (\d+) have no match at all", note)[1])  # type: ignore[index]
    return (
        estimate.estimate.low <= world.value(measure, given_matches=True) <= estimate.estimate.high,
        low - 0.05 <= 100 * world.value(measure, given_matches=False) <= high + 0.05,
        int((~world.truth.T.any(axis=1)).sum()) <= upper_count,
    )


def run(options: argparse.Namespace) -> Iterator[Claim]:
    simulations = 5 if options.quick else 200
    with ProcessPoolExecutor() as workers:
        for measure in MEASURES:
            rates = {}
            for matched in MATCHED:
                cell = ([measure] * simulations, [matched] * simulations, range(simulations))
                rates[matched] = 100 * np.mean(list(workers.map(holds, *cell, chunksize=5)), axis=0)
                log(f"{measure}, {matched:.0%} of the other texts match: {rates[matched]}")
            titles = ("the estimate over queries with a given match", "the range over all queries with a match")
            for at, title in enumerate((*titles, "the most queries without a match")):
                shares = ", ".join(f"{matched:.0%}: {rate[at]:.1f}" for matched, rate in rates.items())
                note = f"by the share of the other texts that match: {shares}; {simulations} studies each"
                lowest_rate = min(rate[at] for rate in rates.values())
                yield Claim(
                    f"{measure}: {title} holds the truth, least percent", lowest_rate, goal=">= 92.5", note=note
                )


if __name__ == "__main__":
    main(run, __doc__)
