"""Wrong pairs in training: R@1 of every loss when 0 to 40% of the captions are given to other images (Flickr8k).

Liu & Ye (2019) name robustness to noisy pairs as their next step. A share of the 30,000 training captions, drawn with a
fixed seed, is shuffled among the images of that share; dev and test stay as they are. Towers and test pool as in
`tower_losses.py`, but trained for 12 epochs with one schedule for all losses: it compares how much each loss loses, not
which is best. `--picture FILE` draws the plot of the documentation.

Needs `--data`. On a processor alone the towers are smaller.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import training_runs
from training_runs import (
    DIRECTIONS,
    QUICK_IMAGES,
    SMALLEST,
    Job,
    Trained,
    all_trained,
    data_folder,
    keep_tables,
    sizes,
    spread,
)

from claims import Claim, log, main
from limner import Collection, Judgements

LOSSES: Mapping[str, dict[str, Any]] = {
    "sum": {"loss": "sum"},
    "max": {"loss": "max"},
    "kNN (k = 3)": {"loss": "knn", "k": 3},
    "semi-hard": {"loss": "semi-hard"},
    "adaptive k": {"loss": "adaptive"},
}
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4)
SMALLER = {**SMALLEST, "lr_decay_every": 2}
"""On a processor alone: towers that learn in a minute; in the third and last epoch at a tenth of the rate."""


def shuffled(collection: Collection, job: Job) -> Collection:
    """The captions of a share of the pairs, given to each other's images."""
    if not job.noise:
        return collection
    rng = np.random.default_rng(job.seed)
    judged = collection.judgements
    moved = np.flatnonzero(rng.random(len(judged.rows)) < job.noise)
    rows = judged.rows.copy()
    rows[moved] = rows[rng.permutation(moved)]
    wrong = Judgements(judged.queries, judged.candidates, rows, judged.columns, judged.grades, judged.name)
    return replace(collection, judgements=wrong, extra={}, reverse={}, ratings={})


def r1(run: Trained) -> float:
    """R@1 on the test pool, mean of both directions."""
    return float(np.mean([run.mean("none", direction, "R@1") for direction in DIRECTIONS]))


def table(runs: Mapping[tuple[str, float], list[Trained]], shares: list[float]) -> str:
    """A row per loss, a column per share."""
    lines = ["| loss | " + " | ".join(f"{share:.0%} wrong" for share in shares) + " |", "|---|" + "---|" * len(shares)]
    for label in dict.fromkeys(label for label, _ in runs):
        cells = (spread(r1(r) for r in runs[label, share]) for share in shares)
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(runs: Mapping[tuple[str, float], list[Trained]], shares: list[float], target: Path) -> None:
    """The plot of the documentation, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "limner"  # the same plot is the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for label, marker in zip(dict.fromkeys(label for label, _ in runs), "osD^v", strict=False):
        heights = [np.mean([r1(r) for r in runs[label, share]]) for share in shares]
        axes.plot([100 * s for s in shares], heights, marker=marker, label=label)
    axes.set(xlabel="wrong training pairs, %", ylabel="R@1 on the test pool, mean of both directions, %")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper")
    figure.savefig(target, metadata={"Date": None})


def claims(runs: Mapping[tuple[str, float], list[Trained]], most: float) -> Iterator[Claim]:
    """At the largest share: which losses hold, beside the max loss; and what adaptive k is worth beside kNN."""
    values = {label: float(np.mean([r1(r) for r in each])) for (label, share), each in runs.items() if share == most}
    clean = {label: float(np.mean([r1(r) for r in each])) for (label, share), each in runs.items() if share == 0}
    for label, value in values.items():
        if label != "max":
            yield Claim(f"{label} vs max loss: R@1 with {most:.0%} wrong pairs", value, values["max"], goal="> 1",
                        source="limner")  # fmt: skip
    for share, held in ((0, clean), (most, values)):
        if "adaptive k" in held:
            ours, other = held["adaptive k"], held["kNN (k = 3)"]
            yield Claim(f"adaptive k vs kNN (k = 3): R@1 with {share:.0%} wrong pairs", ours, other, goal=">= 1",
                        source="limner")  # fmt: skip


def run(options: argparse.Namespace) -> Iterator[Claim]:
    folder = data_folder(options)
    shares = [0.0, 0.4] if options.quick else sorted(options.shares)
    losses = list(LOSSES)[1:3] if options.quick else options.losses
    settings = {**sizes(options), **(SMALLER if options.device == "cpu" and not options.quick else {})}
    seeds = range(1 if options.quick else options.seeds)
    jobs = [
        Job(label, seed, {**settings, **LOSSES[label]}, noise=share, images=QUICK_IMAGES if options.quick else None)
        for share in reversed(shares)
        for label in losses
        for seed in seeds
    ]
    done = all_trained(jobs, folder, workers=options.workers, kept=options.kept, changed=shuffled)
    runs = {(label, share): [r for r in done if (r.job.label, r.job.noise) == (label, share)]
            for share in shares for label in losses}  # fmt: skip
    text = table(runs, shares) + f"\n\nSeeds: {len(seeds)}. Trained on {done[0].device}.\n"
    log(text)
    if options.save and not options.quick:
        keep_tables(text, options)
    if options.picture:
        draw(runs, shares, options.picture)
    yield from claims(runs, shares[-1])


def configure(parser: argparse.ArgumentParser) -> None:
    training_runs.configure(parser, list(LOSSES))
    parser.set_defaults(seeds=1)
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES, help="shares of wrong pairs, 0 among them")
    parser.add_argument("--picture", type=Path, help="also draw the plot of the documentation into this file")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
