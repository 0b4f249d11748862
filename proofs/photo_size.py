"""The photographs' size: what Tri5Sem of the ranking paper loses with smaller ones, and what larger ones may bring.

Hodosh, Young & Hockenmaier (2013) had photographs with a shorter side of about 375 pixels; those that are here have
192. The ingredient cannot be had, but its weight can be measured downwards: the same system with visual words from the
same photographs at 192, 96 and 48 pixels, with all 6,000 training images. What each doubling of the side gains, by
query, has a 95% interval. One more doubling is almost the paper's size (375 / 192 = 1.95); if it gained as much as the
last one, the missing points would be explained or not. What a doubling gains may fall with the size, so this is more
likely too much than too little.

Kernels, settings and options are those of `ranking_paper.py`. Needs `--data`; with `--rank 1000` the texts' kernel is
cut, and a CPU is enough.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from lexical_ablation import gain, per_query
from ranking_bench import SIDES, TASKS, Reports, configure, opened, values
from ranking_paper import EXCHANGED, PUBLISHED, settings

from claims import Claim, log, main, result_file
from limner.stats import bootstrap
from limner.systems.classic import system

NAME = "Tri5Sem"
PAPER = 375
"""The shorter side of most of the paper's photographs."""
MEASURES = ("R@10", "RP")


def table(rows: Mapping[str, Reports]) -> str:
    """A row for each size: both measures of both tasks, and what the doubling before gained."""
    columns = [(measure, task) for task in TASKS for measure in MEASURES]
    lines = [f"| shorter side | {' | '.join(f'{TASKS[task]} {measure}' for measure, task in columns)} |"]
    lines.append("|---" + "|---:" * len(columns) + "|")
    before = None
    for source in reversed(rows):
        cells = [f"{values(*rows[source])[task, measure]:.1f}" for measure, task in columns]
        if before is not None:
            moved = [gain(rows, source, before, measure, task) for measure, task in columns]
            cells = [f"{c} {{:+.1f}} [{{:+.1f}}, {{:+.1f}}]".format(*m) for c, m in zip(cells, moved, strict=True)]
        lines.append(f"| {SIDES[source]} pixels | {' | '.join(cells)} |")
        before = source
    published = [f"{PUBLISHED[NAME, task, measure]:g}" for measure, task in columns]
    return "\n".join([*lines, f"| published, about {PAPER} | {' | '.join(published)} |"])


def claimed(rows: Mapping[str, Reports]) -> Iterator[Claim]:
    """What the last doubling gains, and what Tri5Sem would have if it gained as much once more."""
    largest, half = list(rows)[:2]
    doublings = np.log2(PAPER / SIDES[largest])
    for task, title in TASKS.items():
        for measure in MEASURES:
            moved = gain(rows, largest, half, measure, task)
            note = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*moved)
            what = f"{NAME} {measure}, {title}: gained from {SIDES[half]} to {SIDES[largest]} pixels"
            yield Claim(f"{what}, lower end of the 95% interval, points", moved[1], goal="> 0", note=note)
            one, other = (per_query(rows[source], measure, task) for source in (largest, half))
            reached = one + doublings * (one - other)
            ends = bootstrap(reached)
            note = f"{one.mean():.1f} with {SIDES[largest]}; 95% interval {ends.low:.1f} to {ends.high:.1f}"
            if (exchanged := EXCHANGED.get((NAME, task, measure))) is not None:
                note += f"; {exchanged:g} if the text exchanges the two tasks"
            what = f"{NAME} {measure}, {title}, if {PAPER} pixels gained as much again"
            yield Claim(what, float(reached.mean()), PUBLISHED[NAME, task, measure], ">= 1", note, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Tri5Sem with every size, the largest first."""
    bench = opened(options)
    rows = {source: bench.reports(system(NAME), source) for source in SIDES}
    text = f"{table(rows)}\n\n{settings(options)}\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    yield from claimed(rows)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
