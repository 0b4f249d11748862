"""The photographs' size: what Tri5 and Tri5Sem lose with smaller ones, and what larger ones may bring to Tri5Sem.

Hodosh, Young & Hockenmaier (2013) had photographs with a shorter side of about 375 pixels; those that are here have
192. The ingredient cannot be had, but its weight can be measured downwards: the same system with visual words from the
same photographs at 192, 96 and 48 pixels, with all 6,000 training images. What each doubling of the side gains, by
query, has a 95% interval. One more doubling is almost the paper's size (375 / 192 = 1.95); if it gained as much as the
last one, the missing points would be explained or not. What a doubling gains may fall with the size, so this is more
likely too much than too little.

Tri5, without similarities of words, is trained with each size too: if what the similarities gain grew with the
photographs, their size would be a cause of what is missing in Table 6.

Kernels, settings and options are those of `ranking_paper.py`. Needs `--data`; with `--rank 1000` the texts' kernel is
cut, and a CPU is enough.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from lexical_ablation import gain, per_query
from ranking_bench import SIDES, TASKS, Reports, configure, opened, values
from ranking_paper import EXCHANGED, PUBLISHED, settings

from claims import Claim, log, main, result_file
from limner.stats import bootstrap
from limner.systems.classic import system

NAME, BASE = "Tri5Sem", "Tri5"
PAPER = 375
"""The shorter side of most of the paper's photographs."""
MEASURES = ("R@10", "RP")
MEASURED = [(measure, task) for task in TASKS for measure in MEASURES]


def header(first: str) -> list[str]:
    """The head of a table with both measures of both tasks."""
    columns = " | ".join(f"{TASKS[task]} {measure}" for measure, task in MEASURED)
    return [f"| {first} | {columns} |", "|---" + "|---:" * len(MEASURED) + "|"]


def shown(moved: tuple[float, float, float]) -> str:
    """A difference with its 95% interval."""
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*moved)


def table(rows: Mapping[str, Reports], name: str) -> str:
    """A row for each size: both measures of both tasks, and what the doubling before gained."""
    lines = header(f"{name}: shorter side")
    before = None
    for source in reversed(rows):
        cells = [f"{values(*rows[source])[task, measure]:.1f}" for measure, task in MEASURED]
        if before is not None:
            moved = [gain(rows, source, before, measure, task) for measure, task in MEASURED]
            cells = [f"{cell} {shown(each)}" for cell, each in zip(cells, moved, strict=True)]
        lines.append(f"| {SIDES[source]} pixels | {' | '.join(cells)} |")
        before = source
    published = [f"{PUBLISHED[name, task, measure]:g}" for measure, task in MEASURED]
    return "\n".join([*lines, f"| published, about {PAPER} | {' | '.join(published)} |"])


def ahead(best: Reports, base: Reports, measure: str, task: str) -> np.ndarray:
    """What Tri5Sem has more than Tri5, query by query, in percent."""
    return per_query(best, measure, task) - per_query(base, measure, task)


def interval(each: np.ndarray) -> tuple[float, float, float]:
    """The mean and its 95% interval over queries."""
    ends = bootstrap(each)
    return float(each.mean()), ends.low, ends.high


def gains(best: Mapping[str, Reports], base: Mapping[str, Reports]) -> str:
    """A row for each size with what Tri5Sem has more than Tri5, and what each doubling adds to that."""
    lines = header(f"{NAME} minus {BASE}: shorter side")
    held = {source: [ahead(best[source], base[source], *each) for each in MEASURED] for source in best}
    rows = {f"{SIDES[source]} pixels": held[source] for source in reversed(held)}
    for small, large in pairwise(reversed(held)):
        more = [one - other for one, other in zip(held[large], held[small], strict=True)]
        rows[f"{SIDES[large]} minus {SIDES[small]} pixels"] = more
    lines += [f"| {label} | {' | '.join(shown(interval(each)) for each in row)} |" for label, row in rows.items()]
    printed = [PUBLISHED[NAME, task, m] - PUBLISHED[BASE, task, m] for m, task in MEASURED]
    return "\n".join([*lines, f"| published, about {PAPER} | {' | '.join(f'{each:+.1f}' for each in printed)} |"])


def grown(best: Mapping[str, Reports], base: Mapping[str, Reports]) -> Iterator[Claim]:
    """Whether what the similarities gain grows with the photographs."""
    largest, half = list(best)[:2]
    for measure, task in MEASURED:
        one, other = (ahead(best[source], base[source], measure, task) for source in (largest, half))
        moved = interval(one - other)
        what = f"gain of {NAME} over {BASE} in {measure}, {TASKS[task]}: more with {SIDES[largest]} pixels"
        what += f" than with {SIDES[half]}"
        note = f"{shown(moved)}; {one.mean():+.1f} and {other.mean():+.1f} points"
        yield Claim(f"{what}, lower end of the 95% interval, points", moved[1], goal="> 0", note=note)


def claimed(rows: Mapping[str, Reports]) -> Iterator[Claim]:
    """What the last doubling gains, and what Tri5Sem would have if it gained as much once more."""
    largest, half = list(rows)[:2]
    doublings = np.log2(PAPER / SIDES[largest])
    for task, title in TASKS.items():
        for measure in MEASURES:
            moved = gain(rows, largest, half, measure, task)
            what = f"{NAME} {measure}, {title}: gained from {SIDES[half]} to {SIDES[largest]} pixels"
            yield Claim(f"{what}, lower end of the 95% interval, points", moved[1], goal="> 0", note=shown(moved))
            one, other = (per_query(rows[source], measure, task) for source in (largest, half))
            reached = one + doublings * (one - other)
            ends = bootstrap(reached)
            note = f"{one.mean():.1f} with {SIDES[largest]}; 95% interval {ends.low:.1f} to {ends.high:.1f}"
            if (exchanged := EXCHANGED.get((NAME, task, measure))) is not None:
                note += f"; {exchanged:g} if the text exchanges the two tasks"
            what = f"{NAME} {measure}, {title}, if {PAPER} pixels gained as much again"
            yield Claim(what, float(reached.mean()), PUBLISHED[NAME, task, measure], ">= 1", note, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Tri5Sem and Tri5 with every size, the largest first."""
    bench = opened(options)
    best, base = ({source: bench.reports(system(name), source) for source in SIDES} for name in (NAME, BASE))
    parts = table(best, NAME), table(base, BASE), gains(best, base), settings(options)
    text = "\n\n".join(parts) + "\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    yield from claimed(best)
    yield from grown(best, base)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
