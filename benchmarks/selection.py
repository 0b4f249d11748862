"""The k best of every row of a matrix in memory, in order: limner's loop beside argpartition and argsort of numpy.

The scores are normal: 2,000 rows of 10,000. Both use one core. numpy's choice among equal scores is arbitrary, and
limner keeps candidate order, so lists are compared by their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from claims import Claim, Task, interleaved, main

ROWS, WIDTH = 2_000, 10_000
DEPTHS = (10, 100, 1_000)


def block(rows: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, WIDTH), dtype=np.float32)


def ours(rows: int, k: int) -> Any:
    from limner.core import kernels

    scores = block(rows)
    indices, best = np.zeros((rows, k), dtype=np.int32), np.zeros((rows, k), dtype=np.float32)
    kernels.best(scores[:1], indices[:1], best[:1])  # compiles

    def work() -> np.ndarray:
        kernels.best(scores, indices, best)
        return best.sum(axis=1)

    return work


def numpys(rows: int, k: int) -> Any:
    scores = block(rows)

    def work() -> np.ndarray:
        places = np.argpartition(scores, WIDTH - k, axis=1)[:, -k:]
        best = np.take_along_axis(scores, places, axis=1)
        order = np.argsort(-best, axis=1)
        np.take_along_axis(places, order, axis=1)
        return np.take_along_axis(best, order, axis=1).sum(axis=1)

    return work


def claims(options: Any) -> Iterator[Claim]:
    rows, rounds = (200, 1) if options.quick else (ROWS, 3)
    for k in DEPTHS:
        found = interleaved({"limner": Task(ours, rows, k), "numpy": Task(numpys, rows, k)}, rounds=rounds)
        what = f"the {k:,} best of {rows:,} rows of {WIDTH:,}"
        yield Claim(f"{what}: CPU-seconds vs numpy", found["limner"].cpu, found["numpy"].cpu, goal="< 1")
        differ = int((found["limner"].value != found["numpy"].value).sum())
        yield Claim(f"{what}: rows whose scores differ from numpy's", differ, goal="<= 0")


if __name__ == "__main__":
    main(claims, __doc__)
