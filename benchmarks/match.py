"""Matching at the speed of the matrix product: exact top-k and corrected top-k in bounded memory.

limner, the bare blocked product of the same size, faiss and plain numpy, in turn, on the same cores. Every task runs
in a fresh process; memory is what the work adds to what the inputs take. `--only` picks parts: top, csls, wikipedia,
low: the same answers from int8 products, beside the float32 way, and long: the same for lists of 100.
`--cores 2 16` measures each part on two cores and then on sixteen. `--quick` takes a fraction of the sizes.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import local
from typing import Any

import numpy as np

from claims import Claim, Cost, Task, interleaved, log, main, measured
from filter_choice import filter_passes, has_units

PARTS = ("top", "csls", "low", "long", "wikipedia")
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
BLOCK = 2048
WARM = 8192
"""Queries of the pass before the one that is measured: enough for the same choices, so that it loads the same loops."""
OUTLYING = 15.0
"""What is added to one dimension: the largest number is then 12 times the root mean square, as in CLIP's vectors."""


def vectors(n: int, d: int, seed: int, outlying: float = 0.0) -> np.ndarray:
    """Rows of length 1 around a centre, so that there are hubs; with the same large number in each, if asked for."""
    rows = np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32) + np.float32(0.3)
    rows[:, 0] += np.float32(outlying)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def scores_of(n: int, m: int, d: int, outlying: float = 0.0) -> Any:
    """limner's scores, with the loops compiled."""
    from limner import Embeddings, Scores

    warm = Scores.from_embeddings(*(Embeddings(range(300), vectors(300, 8, s)) for s in (0, 1)))
    for name in (None, "csls", "inverted_softmax"):
        (warm.correct(name) if name else warm).top(10)
    sides = (Embeddings(range(rows), vectors(rows, d, seed, outlying)) for rows, seed in ((n, 0), (m, 1)))
    return Scores.from_embeddings(*sides, similarity="dot")


def extra(work: Callable[[], Any]) -> Callable[[], Any]:
    """Work that says how much memory it took beyond what was there before, in MB, with its answer."""

    def run() -> Any:
        before = _resident()
        answer = work()
        return answer, before

    return run


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def ours(n: int, m: int, d: int, k: int, name: str | None, outlying: float = 0.0) -> Callable[[], Any]:
    scores = scores_of(n, m, d, outlying)

    def best(of: Any) -> Any:
        top = (of.correct(name) if name else of).top(k)
        return top.indices, top.scores

    best(scores.restrict(queries=scores.queries[:WARM]))
    return extra(lambda: best(scores))


def by_setting(
    n: int, m: int, d: int, k: int, name: str | None, setting: str, outlying: float = 0.0
) -> Callable[[], Any]:
    """As `ours`, with the low-precision way chosen by measuring ("auto") or left out ("never")."""
    if setting != "never":
        _warm_filter(d)
    filter_passes(setting)
    return ours(n, m, d, k, name, outlying)


def compiled() -> Callable[[], None]:
    """Compiles what any part may load in its measured pass, once on this machine: later processes find it on disk."""
    filter_passes("always")
    scores = scores_of(300, 2000, 16)
    for name in (None, "csls", "inverted_softmax"):
        (scores.correct(name) if name else scores).top(10)
    return lambda: None


def _warm_filter(d: int) -> None:
    """Compiles the loops of the filter, and measures what it goes by."""
    filter_passes("always")
    scores_of(300, 2000, 16).top(10)
    log(f"  int8 product: {share_of_int8(d):.3f} of the float32 one" if has_units(d) else "  no int8 units here")


def share_of_int8(d: int) -> float:
    """The time of an int8 product, as a share of the float32 one."""
    from limner.scores.lowprecision.int8_products import product_share

    return product_share(d)


def ranks(images: int, d: int, setting: str) -> Callable[[], Any]:
    """The places of all captions of 5 to an image, in both directions: what `evaluate` counts."""
    from limner import Judgements, Scores
    from limner.evaluation.placements import RankRequest, place

    by_setting(300, 300, 8, 1, None, setting)
    pictures, rng = vectors(images, d, 0), np.random.default_rng(2)
    captions = np.repeat(pictures, 5, axis=0) + rng.standard_normal((5 * images, d), dtype=np.float32) * np.float32(
        0.12
    )
    pairs = Judgements.from_pairs([(str(n // 5), str(n)) for n in range(5 * images)])
    scores = Scores.from_embeddings(pictures, captions)

    def evaluate_both(of: Any, judged: Any) -> Any:
        placed = [place(s, [RankRequest(j)])[0][0] for s, j in ((of, judged), (of.T, judged.T))]
        return [p.above for p in placed], [p.tied for p in placed]

    evaluate_both(scores, pairs)  # loads the loops
    return extra(lambda: evaluate_both(scores, pairs))


def low_product(n: int, m: int, d: int) -> Callable[[], Any]:
    """The low-precision product alone, in limner's blocks and threads, each thrown away."""
    from limner.scores.lowprecision.int8_products import Int8, stored
    from limner.scores.parallel_blocks import TILE_ROWS, threads

    form = Int8()
    a, b, local_setup = vectors(n, d, 0), stored(form, vectors(m, d, 1)), local()
    queries = {start: form.round(a[start : start + TILE_ROWS]) for start in range(0, n, TILE_ROWS)}

    def block(start: int) -> None:
        if not hasattr(local_setup, "out"):
            local_setup.out = np.empty((TILE_ROWS, m), dtype=np.uint16)
        rows = queries[start]
        b.multiply(rows, local_setup.out[: len(rows.codes)])

    def work() -> None:
        with threads(None) as work_on:
            list(work_on(block, queries))

    work()
    return extra(work)


def bare(n: int, m: int, d: int) -> Callable[[], Any]:
    """The product alone, in blocks of rows, each thrown away; numpy's own threads."""
    a, b = vectors(n, d, 0), vectors(m, d, 1)

    def work() -> None:
        out = np.empty((BLOCK, m), dtype=np.float32)
        for start in range(0, n, BLOCK):
            rows = a[start : start + BLOCK]
            np.matmul(rows, b.T, out=out[: len(rows)])

    np.matmul(a[:64], b[:64].T)
    return extra(work)


def faiss_top(n: int, m: int, d: int, k: int) -> Callable[[], Any]:
    import faiss

    faiss.omp_set_num_threads(CORES)
    a, index = vectors(n, d, 0), faiss.IndexFlatIP(d)
    index.add(vectors(m, d, 1))
    index.search(a[:8], k)
    return extra(lambda: index.search(a, k)[::-1])


def numpy_corrected(n: int, m: int, d: int, k: int, name: str) -> Callable[[], Any]:
    """As one would write it: the whole matrix in memory, partitions and sums over it."""
    a, b = vectors(n, d, 0), vectors(m, d, 1)

    def csls() -> np.ndarray:
        s = a @ b.T
        column_means = np.partition(s, -10, axis=0)[-10:].mean(axis=0)
        row_means = np.partition(s, -10, axis=1)[:, -10:].mean(axis=1)
        return 2 * s - column_means - row_means[:, None]

    def inverted_softmax() -> np.ndarray:
        s = 30 * (a @ b.T)
        highest = s.max(axis=0)
        terms = np.exp(s - highest)
        return s - highest - np.log(np.maximum(terms.sum(axis=0) - terms, 1e-38))

    def work() -> Any:
        s = {"csls": csls, "inverted_softmax": inverted_softmax}[name]()
        chosen = np.argpartition(-s, k, axis=1)[:, :k]
        values = np.take_along_axis(s, chosen, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1)

    return extra(work)


def grown(cost: Cost) -> float:
    """MB beyond the inputs."""
    return cost.peak - cost.value[1]


def agreement(one: Cost, second: Cost) -> tuple[float, float]:
    """Share of lists that hold the same candidates in the same order, and the largest difference of their scores."""
    (a, x), (b, y) = one.value[0], second.value[0]
    largest_difference = np.abs(np.asarray(x) - np.asarray(y)).max()
    return float((np.asarray(a) == np.asarray(b)).all(axis=1).mean()), float(largest_difference)


def load() -> str:
    return f"load average when measured {os.getloadavg()[0]:.1f} on {CORES} cores"


def on(size: str, cores: int) -> str:
    """A size, and the cores if they are not all."""
    return size if cores == CORES else f"{size}, {cores} core" + "s" * (cores > 1)


def top(quick: bool, rounds: int, cores: int) -> Iterator[Claim]:
    n, m, d = (5_000, 20_000, 512) if quick else (25_000, 100_000, 512)
    tasks = {"limner": Task(ours, n, m, d, 10, None), "bare": Task(bare, n, m, d)}
    if find_spec("faiss"):
        tasks["faiss"] = Task(faiss_top, n, m, d, 10)
    costs, note = interleaved(tasks, rounds=rounds, cores=cores), load()
    limner_cost, size = costs["limner"], on(f"top-10 of {n:,} queries over {m:,} items, d = {d}", cores)
    yield Claim(f"{size}: seconds vs the bare product", limner_cost.wall, costs["bare"].wall, goal="<= 1.15", note=note)
    yield Claim(
        f"{size}: CPU seconds vs the bare product", limner_cost.cpu, costs["bare"].cpu, goal="<= 1.15", note=note
    )
    yield Claim(f"{size}: memory beyond the inputs, MB", grown(limner_cost), goal="< 600")
    if "faiss" not in costs:
        log("faiss is not installed (pip install faiss-cpu): no claim beside it")
        return
    peer, (equal_lists, largest_difference) = costs["faiss"], agreement(limner_cost, costs["faiss"])
    yield Claim(f"{size}: seconds vs faiss IndexFlatIP", limner_cost.wall, peer.wall, goal="< 1", note=note)
    yield Claim(f"{size}: CPU seconds vs faiss IndexFlatIP", limner_cost.cpu, peer.cpu, goal="< 1", note=note)
    equal = f"{equal_lists:.3%} of the lists are the same"
    yield Claim(f"{size}: largest difference of a score from faiss", largest_difference, goal="< 1e-5", note=equal)


def csls(quick: bool, rounds: int, cores: int) -> Iterator[Claim]:
    n, d = (4_000, 512) if quick else (25_000, 512)
    names = ("csls", "inverted_softmax")
    tasks = {name: Task(ours, n, n, d, 10, name) for name in names} | {"bare": Task(bare, n, n, d)}
    costs, note = interleaved(tasks, rounds=rounds, cores=cores), load()
    plain = interleaved({name: Task(numpy_corrected, n, n, d, 10, name) for name in names}, rounds=1, cores=cores)
    for name in names:
        limner_cost, size = costs[name], on(f"{name} of {n:,} x {n:,}, d = {d}, top-10", cores)
        equal_lists, largest_difference = agreement(limner_cost, plain[name])
        equal = (
            f"{equal_lists:.3%} of the lists are the same; the others differ where scores are equal but for rounding"
        )
        yield Claim(
            f"{size}: seconds vs the bare product", limner_cost.wall, costs["bare"].wall, goal="<= 2.0", note=note
        )
        yield Claim(
            f"{size}: CPU seconds vs the bare product", limner_cost.cpu, costs["bare"].cpu, goal="<= 2.0", note=note
        )
        yield Claim(f"{size}: seconds vs plain numpy", limner_cost.wall, plain[name].wall, goal="<= 1", note=note)
        yield Claim(f"{size}: memory beyond the inputs, MB", grown(limner_cost), goal="< 400")
        yield Claim(
            f"{size}: memory beyond the inputs vs plain numpy, MB",
            grown(limner_cost),
            grown(plain[name]),
            goal="<= 0.1",
        )
        yield Claim(
            f"{size}: largest difference of a top-10 score from plain numpy",
            largest_difference,
            goal="< 1e-4",
            note=equal,
        )


def low(quick: bool, rounds: int, cores: int) -> Iterator[Claim]:
    """Filter and verify: the answers of the float32 way, to the bit, from low-precision products."""
    n, m, d = (5_000, 20_000, 512) if quick else (25_000, 100_000, 512)
    yield from _beside_float32(
        on(f"top-10 of {n:,} queries over {m:,} items, d = {d}", cores), (n, m, d, 10, None), rounds, cores, "<= 0.5"
    )
    size = on(f"top-10 of {n:,} queries over {m:,} items with an outlying number, d = {d}", cores)
    yield from _beside_float32(size, (n, m, d, 10, None), rounds, cores, "<= 0.5", OUTLYING)
    n = 4_000 if quick else 25_000
    for name, goal in (("csls", "<= 1.5"), ("inverted_softmax", "<= 2")):
        size = on(f"{name} of {n:,} x {n:,}, d = {d}, top-10", cores)
        yield from _beside_float32(size, (n, n, d, 10, name), rounds, cores, goal)
    images, d = (1_000, 256) if quick else (5_000, 256)
    tasks = {mode: Task(ranks, images, d, mode) for mode in ("auto", "never")} | {
        "bare": Task(bare, images, 5 * images, d),
        "low": Task(low_product, images, 5 * images, d),
    }
    costs = interleaved(tasks, rounds=rounds, cores=cores)
    size = on(f"ranks of {images:,} x {5 * images:,}, d = {d}", cores)
    ours, plain = costs["auto"], costs["never"]
    yield Claim(
        f"{size}, both ways: seconds vs two bare products",
        ours.wall,
        2 * costs["bare"].wall,
        goal="<= 0.6",
        note=load(),
    )
    alone, bare_product = costs["low"], costs["bare"]
    yield Claim(f"{size}: int8 product alone vs the bare product, CPU s", alone.cpu, bare_product.cpu, goal="<= 0.6")
    yield Claim(f"{size}, both ways: seconds vs the float32 way", ours.wall, plain.wall, goal="<= 1.05", note=load())
    differing = sum(
        int((x != y).sum())
        for a, b in zip(ours.value[0], plain.value[0], strict=True)
        for x, y in zip(a, b, strict=True)
    )
    yield Claim(f"{size}: places that differ from the float32 way", differing, goal="== 0")


def long(quick: bool, rounds: int, cores: int) -> Iterator[Claim]:
    """Lists of 100, as re-ranking and assignment read them, from fewer candidates: more of them has to be verified."""
    n = 5_000 if quick else 10_000
    for d in (64, 256):
        tasks = {mode: Task(by_setting, n, n, d, 100, None, mode, 0.0) for mode in ("auto", "never")}
        tasks |= {"faiss": Task(faiss_top, n, n, d, 100)} if find_spec("faiss") else {}
        costs, note = interleaved(tasks, rounds=rounds, cores=cores), load()
        size, ours, plain = on(f"top-100 of {n:,} x {n:,}, d = {d}", cores), costs["auto"], costs["never"]
        equal_lists = all(np.array_equal(x, y) for x, y in zip(ours.value[0], plain.value[0], strict=True))
        case = f"{size}, low precision"
        yield Claim(f"{case}: CPU seconds vs the float32 way", ours.cpu, plain.cpu, goal="<= 0.8", note=note)
        yield Claim(f"{case}: lists and scores that differ in any bit", float(not equal_lists), goal="== 0")
        if "faiss" in costs:
            yield Claim(f"{case}: seconds vs faiss", ours.wall, costs["faiss"].wall, goal="< 1", note=note)


def _beside_float32(
    size: str, case: tuple[Any, ...], rounds: int, cores: int, goal: str, outlying: float = 0.0
) -> Iterator[Claim]:
    n, m, d, k, name = case
    tasks = {mode: Task(by_setting, *case, mode, outlying) for mode in ("auto", "never")} | {
        "bare": Task(bare, n, m, d)
    }
    if name is None and not outlying and find_spec("faiss"):
        tasks["faiss"] = Task(faiss_top, n, m, d, k)
    costs, note = interleaved(tasks, rounds=rounds, cores=cores), load()
    ours, plain = costs["auto"], costs["never"]
    equal_lists = all(np.array_equal(x, y) for x, y in zip(ours.value[0], plain.value[0], strict=True))
    yield Claim(
        f"{size}, low precision: seconds vs the bare product", ours.wall, costs["bare"].wall, goal=goal, note=note
    )
    yield Claim(
        f"{size}, low precision: CPU seconds vs the bare product", ours.cpu, costs["bare"].cpu, goal=goal, note=note
    )
    yield Claim(f"{size}, low precision: seconds vs the float32 way", ours.wall, plain.wall, goal="<= 1.05", note=note)
    yield Claim(
        f"{size}, float32 way: seconds vs the bare product",
        plain.wall,
        costs["bare"].wall,
        goal="<= 2.0" if name else "<= 1.15",
        note=note,
    )
    yield Claim(f"{size}, low precision: memory beyond the inputs, MB", grown(ours), goal="< 1500")
    yield Claim(f"{size}, low precision: lists and scores that differ in any bit", float(not equal_lists), goal="== 0")
    if "faiss" in costs:
        yield Claim(f"{size}, low precision: seconds vs faiss", ours.wall, costs["faiss"].wall, goal="< 1", note=note)
        yield Claim(f"{size}, float32 way: seconds vs faiss", plain.wall, costs["faiss"].wall, goal="< 1", note=note)


def wikipedia(quick: bool, rounds: int, cores: int) -> Iterator[Claim]:
    n, d = (92_367 // 16, 768) if quick else (92_367, 768)
    cost = interleaved({"limner": Task(ours, n, n, d, 5, "csls")}, rounds=1, cores=cores)["limner"]
    size = on(f"CSLS top-5 of {n:,} x {n:,}, d = {d}", cores)
    log(f"{size}: {cost.wall:.1f} s, {cost.cpu:.1f} CPU s")
    paper = "the paper took 8 CPU-minutes for the similarities alone"
    yield Claim(
        f"{size}: CPU minutes vs the paper's for the bare similarities", cost.cpu / 60, 8.0, goal="<= 2", note=paper
    )
    yield Claim(f"{size}: minutes", cost.wall / 60, goal="< 60", note=load())
    yield Claim(f"{size}: memory beyond the inputs, MB", grown(cost), goal="< 1000")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    started = time.perf_counter()
    rounds = options.rounds or (1 if options.quick else 3)
    parts = {"top": top, "csls": csls, "low": low, "long": long, "wikipedia": wikipedia}
    measured(Task(compiled))
    for cores in options.cores:
        for name in options.only:
            yield from parts[name](options.quick, rounds, cores)
    log(f"{time.perf_counter() - started:.0f} s in all; medians of {rounds} rounds")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--cores", type=int, nargs="+", default=[CORES], help="how many cores, one after another")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
