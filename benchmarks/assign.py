"""Bijective matching from vectors: 10,000 x 10,000 beside dense solvers, and 92,367 x 92,367 on candidate lists.

limner streams the scores, solves on each query's 100 best candidates, and proves the optimum over all pairs; the dense
solvers get the matrix, whose product counts for everybody. limner's loops are loaded before, those of low-precision
products too, which it uses where the CPU has units for them. Vectors are drawn around random centres: pairs with little
noise, as a good system sees them, and with much, as a weak one does, which is the harder problem. The large problem has
the size of the Wikipedia matching challenge, in 64 dimensions, not 768: the product, which is the same work for
everybody, would drown the assignment.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from claims import Claim, Task, interleaved, log, main, measured
from filter_choice import filter_passes, has_units

SMALL, LARGE, DIM, CANDIDATES = 10_000, 92_367, 64, 100
KINDS = {"good system": 0.5, "weak system": 2.0}  # the noise of a pair


def vectors(n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Images and texts of n pairs: points around group centres, seen twice with noise, of length 1."""
    rng, groups = np.random.default_rng(n), max(2, n // 20)
    centres = rng.standard_normal((groups, DIM), dtype=np.float32)
    point = centres[rng.integers(groups, size=n)] + 0.7 * rng.standard_normal((n, DIM), dtype=np.float32)
    sides = [point + noise * rng.standard_normal((n, DIM), dtype=np.float32) for _ in range(2)]
    first, second = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides)
    return first, second


def scores_of(n: int, noise: float) -> Any:
    from limner import Embeddings, Scores

    images, texts = vectors(n, noise)
    return Scores.from_embeddings(Embeddings(range(n), images), Embeddings(range(n), texts), similarity="dot")


def ours(n: int, noise: float, rounds: int) -> Any:
    """limner from vectors: lists, rounds, proof."""
    from limner.match import bijective

    for mode in ("always", "auto"):  # compiles or loads both ways
        filter_passes(mode)
        bijective(scores_of(600, noise), rounds=2, candidates=5)
    bijective(scores_of(3_000, noise), rounds=1, candidates=CANDIDATES)  # also what checks long lists
    scores = scores_of(n, noise)
    has_units(DIM)  # measured once in a process

    def work() -> tuple[float, bool]:
        assigned = bijective(scores, rounds=rounds, candidates=CANDIDATES)
        return assigned.totals[0], assigned.exact

    return work


def dense_scipy(n: int, noise: float) -> Any:
    from scipy.optimize import linear_sum_assignment

    sides = vectors(n, noise)

    def work() -> float:
        matrix = sides[0] @ sides[1].T
        rows, columns = linear_sum_assignment(matrix, maximize=True)
        return float(matrix[rows, columns].sum(dtype=np.float64))

    return work


def dense_lapx(n: int, noise: float) -> Any:
    import lap

    sides = vectors(n, noise)
    return lambda: -float(lap.lapjvs(-sides[0] @ sides[1].T)[0])


def product(n: int, noise: float) -> Any:
    """The pass alone: every score computed once and looked at once."""
    scores = scores_of(n, noise)
    scores_of(600, noise).top(1)
    return lambda: scores.top(1).depth


def lists_only(n: int, noise: float) -> Any:
    """Both sparse solvers on the very same lists, in one process; returns seconds and totals of both."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    from limner.match import assignment as assign
    from limner.match import bijective

    bijective(scores_of(600, noise), rounds=1, candidates=5)
    top = scores_of(n, noise).top(CANDIDATES)
    lists = np.array(top.indices).ravel(), np.array(top.scores).ravel()
    edges = assign.Edges(np.arange(0, n * CANDIDATES + 1, CANDIDATES), *lists)

    def work() -> dict[str, float]:
        began = time.process_time()
        solution, _ = assign._solve_lists(edges, np.zeros(n), -np.inf, assign._Steps(None))
        middle = time.process_time()
        costs = csr_matrix((2.0 - edges.worths.astype(np.float64), edges.items, edges.indptr), shape=(n, n))
        rows, columns = min_weight_full_bipartite_matching(costs)
        theirs = float((2.0 - np.asarray(costs[rows, columns])).sum())
        total = np.nan if solution is None else solution.total
        return {"ours": middle - began, "scipy": time.process_time() - middle, "total": total, "their total": theirs}

    return work


def small(options: Any) -> Iterator[Claim]:
    n, rounds = (2_000, 3) if options.quick else (SMALL, 5)
    for kind, noise in KINDS.items():
        tasks = {
            "limner": Task(ours, n, noise, 1),
            "scipy": Task(dense_scipy, n, noise),
            "lapx": Task(dense_lapx, n, noise),
        }
        costs = interleaved(tasks, rounds=rounds)
        (total, exact), theirs = costs["limner"].value, costs["scipy"].value
        label = f"one round of {n:,} x {n:,}, {kind}"
        yield Claim(f"{label}: total vs scipy", total, theirs, goal="within 0.01", note=f"proven optimal: {exact}")
        for peer in ("scipy", "lapx"):
            yield Claim(f"{label}: seconds vs {peer}", costs["limner"].wall, costs[peer].wall, goal="< 1")
            yield Claim(f"{label}: CPU-seconds vs {peer}", costs["limner"].cpu, costs[peer].cpu, goal="< 1")
            yield Claim(f"{label}: peak MB vs {peer}", costs["limner"].peak, costs[peer].peak, goal="< 1")


def large(options: Any) -> Iterator[Claim]:
    n, rounds = (10_000, 2) if options.quick else (LARGE, 5)
    costs = {"pass": measured(Task(product, n, 2.0)), "rounds": measured(Task(ours, n, 2.0, rounds))}
    for name, cost in costs.items():
        log(f"{name}: {cost.wall:.1f} s, {cost.cpu:.1f} CPU s, {cost.peak:.0f} MB, {cost.value}")
    label = f"{rounds} rounds of {n:,} x {n:,}, {CANDIDATES} candidates each, weak system"
    note = f"lists, rounds and proof; proven optimal: {costs['rounds'].value[1]}"
    yield Claim(f"{label}: seconds", costs["rounds"].wall, goal="< 600", note=note)
    yield Claim(
        f"{label}: CPU-seconds vs one pass over the scores", costs["rounds"].cpu, costs["pass"].cpu, goal="< 10"
    )
    yield Claim(f"{label}: peak MB", costs["rounds"].peak, goal="< 2000", note="the matrix alone would take 34 GB")
    for kind, noise in KINDS.items() if options.quick else [("weak system", 2.0)]:
        sparse = measured(Task(lists_only, n, noise)).value
        log(f"on the same lists, {kind}: {sparse}")
        label = f"one round on lists of {n:,} x {CANDIDATES}, {kind}, vs scipy's LAPJVsp"
        yield Claim(f"{label}: CPU-seconds", sparse["ours"], sparse["scipy"], goal="< 1")
        yield Claim(f"{label}: total", sparse["total"], sparse["their total"], goal="within 0.01")


def run(options: Any) -> Iterator[Claim]:
    parts = {"small": small, "large": large}
    for name in options.only:
        yield from parts[name](options)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=("small", "large"), default=["small", "large"])


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
