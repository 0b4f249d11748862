"""Bijective matching on CLIP's own embeddings: R@1 and nDCG@5 before and after, on clip-unsplash500.

Appendix A of Messina et al. (2022): k rounds of linear sum assignment, where every image has a caption of its own.
Their Table 4 has nDCG@5 0.538 before and 0.556 after on 10,000 validation pairs, and 0.421 and 0.419 on 92,367 test
pairs. Here, 500 public pairs of CLIP ViT-B/32 embeddings, as they are: nothing was trained or tuned. The gain on a
trained MCProp is in `file_names.py`. Needs `--data`; it takes seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner import Collection, Embeddings, Items, Judgements, Report, Scores, compare, evaluate
from limner.match import bijective

MEASURES = "R@1 R@5 nDCG@5"
BEFORE = 49.2
"""Image to text R@1 of these embeddings, as whoever collected them measured it."""
GAIN = 0.556 / 0.538
"""Table 4, validation: nDCG@5 after over before."""


def pairs(folder: Path) -> tuple[Collection, Scores]:
    """The 500 pairs and their cosines."""
    images, texts = (np.load(folder / f"{side}_embeddings.npy") for side in ("image", "text"))
    ids = [f"{n:03}" for n in range(len(images))]
    items = Items(ids, [None] * len(ids)), Items([f"t{key}" for key in ids], [""] * len(ids), kind="text")
    judged = Judgements.from_pairs([(key, f"t{key}") for key in ids])
    scores = Scores.from_embeddings(Embeddings(items[0].ids, images), Embeddings(items[1].ids, texts))
    return Collection("clip-unsplash500", *items, judged), scores


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Both directions, before and after."""
    if options.data is None:
        raise SystemExit("bijective needs --data DIR, the folder of real data sets (or LIMNER_DATA)")
    collection, scores = pairs(options.data / "clip-unsplash500")
    for direction, table in (("i2t", scores), ("t2i", scores.T)):
        before = evaluate({direction: table}, collection, measures=MEASURES)
        after = evaluate({direction: bijective(table, rounds=5)}, collection, measures=MEASURES)
        if direction == "i2t":
            value = 100 * before.value("R@1", direction=direction)
            yield Claim("image → text R@1 before, percent", value, BEFORE, "within 0.05", source="peer")
        yield from gains(before, after, direction)


def gains(before: Report, after: Report, direction: str) -> Iterator[Claim]:
    """R@1 and nDCG@5 after beside before."""
    title = {"i2t": "image → text", "t2i": "text → image"}[direction]
    for measure in ("R@1", "nDCG@5"):
        ours, base = (100 * report.value(measure, direction=direction) for report in (after, before))
        change = compare([after, before]).line(measure, direction=direction).between(0, 1)
        low, high = (100 * bound for bound in (change.interval.low, change.interval.high))
        note = f"difference {100 * change.value:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}"
        log(f"{title} {measure}: {base:.1f} -> {ours:.1f}; {note}")
        goal = f">= {GAIN:.3f}"
        yield Claim(f"{title} {measure}, bijective over plain, percent", ours, base, goal, note, source="limner")


if __name__ == "__main__":
    main(run, __doc__)
