"""A judge's sure labels are taken, people check the others: is the bound on errors kept, and how many labels are saved?

A pool of pairs has a truth and a judge's probabilities. People, who are right, answer a random sample of the pool, and
`limner.annotate.trusted_labels` certifies two thresholds. A draw breaks the promise if on either side more than the
budget of all pairs beyond the threshold are wrong; that may happen in at most 5 percent of draws. Beside it: the same
for the pairs that got the judge's label alone, which are those that nobody has sampled.

Labels saved are the judge's labels, as a share of the pool: people alone, without an error, need a label for every
pair. Trusting the judge everywhere saves all, with a single threshold that is the best one for the truth.

Pools: the first five of two systems on `scenes`, whose truth is complete, with one of these systems as the judge, a
simulated good judge (the truth with noise), and random numbers; CxC's pairs that were chosen by similarity (people's
ratings, 3 or more is a match) and the ten images that are nearest to each caption of ECCV Caption (its positives and
COCO's; other pairs count as no match, which nobody has checked), with limner's judge `captions` on MiniLM's vectors.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main
from limner.annotate.judges import ScoresJudge
from limner.annotate.pool import merged, proposed
from limner.annotate.trusted_labels import trusted_labels
from limner.core.collection import Items
from limner.datasets.coco_judgements import CXC_THRESHOLD, read_coco_pairs, read_eccv

DRAWS = 1000
NEAREST = 10
"""Images of each caption in the pool of ECCV Caption."""


@dataclass(frozen=True)
class Pool:
    """Pairs by number: what is true, and what a judge says.

    Args:
        name: Pool and judge.
        true: Whether each pair is a match.
        chance: The judge's probabilities.
        sample: How many pairs people answer first.
        errors: The budget.
        saved: The goal for the labels saved, in percent; nothing if there is none.
    """

    name: str
    true: np.ndarray
    chance: np.ndarray
    sample: int
    errors: float
    saved: float = 0.0


def scenes() -> Iterator[Pool]:
    """The pool of two systems, and three judges."""
    collection = limner.load("scenes")
    test = collection.test
    systems = {name: limner.train(collection, name).scores(test) for name in ("histograms", "colours")}
    pairs = list(merged(proposed(systems)))
    matches = {(image, text) for image, text, _ in test.judged("complete", "i2t").relevant}
    true = np.array([pair in matches for pair in pairs])
    rng = np.random.default_rng(0)
    good = np.clip(0.7 * true + 0.15 + 0.2 * rng.normal(size=len(true)), 0, 1)
    judges = {"histograms": ScoresJudge(systems["histograms"]).probabilities(pairs), "the truth with noise": good}
    for name, chance in {**judges, "random numbers": rng.random(len(true))}.items():
        goal = 50.0 if chance is good else 0.0
        yield Pool(f"scenes, {name}", true, chance, min(1000, len(true) // 3), 0.05, goal)


@dataclass(frozen=True)
class Captions:
    """The captions of COCO's test split with vectors, and the similarities that the judge `captions` uses."""

    vectors: np.ndarray
    at: dict[str, int]
    by_image: dict[str, list[int]]

    @classmethod
    def read(cls, folder: Path, vectors: Path | None) -> Captions:
        """From the data; vectors that are not in a file are computed, in minutes."""
        lines = (folder / "coco/karpathy_test_5k.tsv").read_text(encoding="utf-8").splitlines()[1:]
        rows = [line.split("\t") for line in lines]
        by_image: dict[str, list[int]] = {}
        for number, (image, _, _) in enumerate(rows):
            by_image.setdefault(image, []).append(number)
        if vectors is None:
            from limner.encoders import encoder

            texts = Items([key for _, key, _ in rows], [text for _, _, text in rows], kind="text")
            unscaled = np.asarray(encoder("minilm").encode(texts))
        else:
            unscaled = np.load(vectors)
        scaled = unscaled / np.linalg.norm(unscaled, axis=1, keepdims=True)
        return cls(scaled, {key: number for number, (_, key, _) in enumerate(rows)}, by_image)

    def probability(self, image: str, caption: str) -> float:
        """`(1 + cosine) / 2` of a caption and the nearest of the image's other captions."""
        other_rows = [row for row in self.by_image[image] if row != self.at[caption]]
        return float(np.clip((1 + (self.vectors[other_rows] @ self.vectors[self.at[caption]]).max()) / 2, 0, 1))


def cxc(data: Path, captions: Captions) -> Iterator[Pool]:
    """The pairs that were chosen by similarity, and what people say."""
    with (data / "cxc/sits_test.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["sampling_method"] == "c2i_intrasim"]
    pairs = [(str(int(row["image"][-16:-4])), row["caption"].rpartition(":")[2]) for row in rows]
    true = np.array([float(row["agg_score"]) >= CXC_THRESHOLD for row in rows])
    chance = np.array([captions.probability(*pair) for pair in pairs])
    yield Pool("CxC, captions", true, chance, 2000, 0.05)
    yield Pool("CxC, captions", true, chance, 2000, 0.1, 10.0)


def eccv(captions: Captions) -> Iterator[Pool]:
    """The images whose captions are nearest to each caption that is a query."""
    matches = {(text, image) for judged in (read_eccv()[1], read_coco_pairs()[1]) for text, image, _ in judged.relevant}
    images = list(captions.by_image)
    owner = np.zeros(len(captions.at), dtype=np.int64)
    for number, image in enumerate(images):
        owner[captions.by_image[image]] = number
    true, chance = [], []
    for text in read_eccv()[1].queries:
        likeness = captions.vectors @ captions.vectors[captions.at[text]]
        likeness[captions.at[text]] = -1
        nearest = np.full(len(images), -1.0)
        np.maximum.at(nearest, owner, likeness)
        for number in np.argsort(-nearest)[:NEAREST]:
            true.append((text, images[number]) in matches)
            chance.append(np.clip((1 + nearest[number]) / 2, 0, 1))
    yield Pool("ECCV Caption, captions", np.array(true), np.array(chance), 2000, 0.1)


def measured(pool: Pool, draws: int) -> Iterator[Claim]:
    """How often the promise is broken, and what is saved, over draws of the sample."""
    chances = {("", str(n)): float(p) for n, p in enumerate(pool.chance)}
    keys = list(chances)
    broken, broken_alone, saved, wrong = 0, 0, [], []
    for seed in range(draws):
        chosen = np.random.default_rng(seed).choice(len(keys), pool.sample, replace=False)
        people: dict[tuple[str, str], bool | None] = {keys[n]: bool(pool.true[n]) for n in chosen}
        trusted = trusted_labels(chances, people, errors=pool.errors, seed=seed)
        alone = np.ones(len(keys), dtype=bool)
        alone[chosen] = False
        sides = [
            (pool.chance >= (2 if trusted.yes.value is None else trusted.yes.value), ~pool.true),
            (1 - pool.chance >= (2 if trusted.no.value is None else trusted.no.value), pool.true),
        ]
        broken += any(_rate(error[beyond]) > pool.errors for beyond, error in sides)
        broken_alone += any(_rate(error[beyond & alone]) > pool.errors for beyond, error in sides)
        saved.append(sum(int((beyond & alone).sum()) for beyond, _ in sides) / len(keys))
        wrong.append(sum(int(error[beyond & alone].sum()) for beyond, error in sides) / len(keys))
        assert round(saved[-1] * len(keys)) == len(trusted.labels)
    name = f"{pool.name}, budget {100 * pool.errors:g}%"
    share, errors, all_errors = 100 * float(np.mean(saved)), 100 * float(np.mean(wrong)), 100 * _trusting_all(pool)
    low, high = 100 * np.quantile(saved, [0.025, 0.975])
    note = (
        f"{len(keys):,} pairs, {100 * pool.true.mean():.0f}% matches, {pool.sample:,} answered first; {share:.1f}% of "
        f"the labels saved ({low:.1f} to {high:.1f}% in 95% of draws); {errors:.2f}% of all labels wrong, "
        f"{all_errors:.1f}% if the judge is trusted everywhere; of the labels nobody sampled, the budget is broken in "
        f"{100 * broken_alone / draws:.1f}% of draws"
    )
    log(f"{name}: broken {100 * broken / draws:.1f}%; {note}")
    yield Claim(f"{name}: draws that break it, percent", 100 * broken / draws, goal="<= 5", note=note)
    if pool.saved:
        yield Claim(f"{name}: labels saved, percent", share, goal=f">= {pool.saved:g}")
        claim = f"{name}: labels that are wrong, percent, beside trusting the judge everywhere"
        yield Claim(claim, errors, all_errors, goal="<= 0.5", source="limner")


def _rate(wrong: np.ndarray) -> float:
    """The share of errors; 0 of no labels."""
    return float(wrong.mean()) if len(wrong) else 0.0


def _trusting_all(pool: Pool) -> float:
    """The share of errors if the judge labels everything, with the best threshold for the truth."""
    order = np.argsort(pool.chance)
    missed = np.concatenate([[0], np.cumsum(pool.true[order])])
    false = np.concatenate([np.cumsum(~pool.true[order][::-1])[::-1], [0]])
    return float((missed + false).min() / len(order))


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """All pools."""
    draws = 40 if options.quick else DRAWS
    for pool in scenes():
        yield from measured(pool, draws)
    if options.data is not None:
        captions = Captions.read(Path(options.data), options.vectors)
        for pool in (*cxc(Path(options.data), captions), *eccv(captions)):
            yield from measured(pool, draws)


def configure(parser: argparse.ArgumentParser) -> None:
    """Where vectors are."""
    parser.add_argument("--vectors", type=Path, help="MiniLM's vectors of COCO's test captions (.npy); else computed")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
