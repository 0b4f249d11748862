"""TagRank of the ranking paper with one factor d of the diagonal and with three: what the choice on dev does.

`ranking_paper.py` misses one printed figure beyond chance, R@5 of search with TagRank. There the fifteen fused models
are chosen from d = 1, 5 and 15. Here the same system is also chosen from d = 1 alone, and both are compared on the same
queries. Needs Flickr8k (`--data`); run it with `--rank 1000 --keep DIR`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from ranking_bench import TASKS, Bench, Data, configure, on_gpu, timed, values
from ranking_paper import PUBLISHED, _interval, _sure

from claims import Claim, main
from limner.systems.classic import system

NAME = "TagRank"
ONE = (1.0,)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every printed figure of TagRank with d = 1, and its difference to the choice from all d."""
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/")
    if options.gpu:
        on_gpu()
    every = tuple(options.diagonals)
    bench = Bench(timed("captions", lambda: Data.read(options.data, quick=options.quick)), options)
    found = {}
    for diagonals in (every, ONE):
        options.diagonals = diagonals
        found[diagonals] = bench.reports(system(NAME), "words")
    for (name, task, measure), printed in PUBLISHED.items():
        if name == NAME:
            _, told = _sure(found[ONE], found[every], task, measure)
            interval = _interval(found[ONE], task, measure)
            note = f"{interval}; over d = {', '.join(f'{d:g}' for d in every)}: {told}"
            ours = values(*found[ONE])[task, measure]
            what = f"{NAME} {measure}, {TASKS[task]}, d = 1 alone"
            yield Claim(what, ours, printed, ">= 1", note, source="print")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
