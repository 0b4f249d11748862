"""Late interaction (ColBERT, ColPali): exact top-10 of MaxSim, beside the bare product, a loop over pairs and packages.

64 queries of 32 vectors over 2,000 items of 300 vectors, 128 dimensions, all on the same cores, each task in a fresh
process. `maxsim-cpu` computes all scores, exactly; `fast-plaid` searches an index that it has built before, and is
approximate: its recall is beside its time. A package that is not installed, or fails, is left out.
An index on disk (`limner.search`) is read in pieces, none of which is kept in memory.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from claims import Claim, Cost, Task, interleaved, log, main
from match import CORES, agreement, bare, extra, grown, load, on, vectors

K = 10
Each = tuple[int, int]
"""Vectors of a query, and of an item."""


def tokens(items: int, each: int, d: int, seed: int) -> dict[str, np.ndarray]:
    """Items of as many vectors each."""
    rows = vectors(items * each, d, seed)
    return {f"{seed}-{n}": part for n, part in enumerate(np.split(rows, items))}


def ours(n: int, m: int, each: Each, d: int) -> Callable[[], Any]:
    from limner import Scores

    Scores.from_sets(tokens(3, 2, 8, 0), tokens(3, 2, 8, 1), pooling="maxsim").top(2)
    sides = tokens(n, each[0], d, 0), tokens(m, each[1], d, 1)
    scores = Scores.from_sets(*sides, similarity="dot", pooling="maxsim")

    def work() -> Any:
        top = scores.top(K)
        return top.indices, top.scores

    return extra(work)


def from_index(n: int, m: int, each: Each, d: int) -> Callable[[], Any]:
    """From an index on disk, of which no vector is held in memory; it is made before the clock starts."""
    from limner.scores import VectorSets
    from limner.search import index, open_index

    queries, folder = VectorSets.of(tokens(n, each[0], d, 0)), tempfile.mkdtemp()
    index(folder, VectorSets.of(tokens(m, each[1], d, 1)), similarity="dot")
    opened = open_index(folder, memory=0)
    opened.search(queries.part(0, 2), K)

    def work() -> Any:
        ranking = opened.search(queries, K).ranking
        places = np.array([[int(key.partition("-")[2]) for key in ranking[query]] for query in queries.ids])
        return places, ranking.scores

    return extra(work)


def loop(n: int, m: int, each: Each, d: int) -> Callable[[], Any]:
    """As one would write it: a product, a maximum and a sum for every pair of items."""
    from threadpoolctl import threadpool_limits

    queries, items = tokens(n, each[0], d, 0), tokens(m, each[1], d, 1)

    def work() -> Any:
        with threadpool_limits(1, user_api="blas"):  # products this small are slower on several threads
            return _best(np.array([[(q @ i.T).max(axis=1).sum() for i in items.values()] for q in queries.values()]))

    return extra(work)


def maxsim_cpu(n: int, m: int, each: Each, d: int) -> Callable[[], Any]:
    """The package of that name: all scores of one query at a time."""
    import maxsim_cpu as package

    queries = list(tokens(n, each[0], d, 0).values())
    items = vectors(m * each[1], d, 1).reshape(m, each[1], d)
    package.maxsim_scores(queries[0], items[:8])
    return extra(lambda: _best(np.stack([package.maxsim_scores(query, items) for query in queries])))


def fast_plaid(n: int, m: int, each: Each, d: int) -> Callable[[], Any]:
    """The package of that name: its index is built before the clock starts."""
    import torch
    from fast_plaid import search

    folder = tempfile.mkdtemp()
    queries = torch.from_numpy(vectors(n * each[0], d, 0).reshape(n, each[0], d))
    index = search.FastPlaid(index=folder, device="cpu")
    index.create(documents_embeddings=list(torch.from_numpy(vectors(m * each[1], d, 1).reshape(m, each[1], d))))
    index.search(queries_embeddings=queries[:2], top_k=K)

    def work() -> Any:
        answers = index.search(queries_embeddings=queries, top_k=K)
        places = np.array([[place for place, _ in row] for row in answers])
        return places, np.array([[score for _, score in row] for row in answers])

    return extra(work)


def _best(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :K]
    return order, np.take_along_axis(scores, order, axis=1)


PEERS = {"maxsim_cpu": maxsim_cpu, "fast_plaid": fast_plaid}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    case = (16, 300, (32, 200), 128) if options.quick else (64, 2_000, (32, 300), 128)
    for cores in options.cores:
        yield from measured_on(case, options.rounds or (1 if options.quick else 3), cores)


def measured_on(case: tuple[int, int, Each, int], rounds: int, cores: int) -> Iterator[Claim]:
    n, m, each, d = case
    tasks = {"limner": Task(ours, *case), "loop": Task(loop, *case), "bare": Task(bare, n * each[0], m * each[1], d)}
    costs, note = interleaved(tasks, rounds=rounds, cores=cores), load()
    size = on(f"late interaction, {n} queries of {each[0]} over {m:,} items of {each[1]} vectors, d = {d}", cores)
    limner_cost, plain = costs["limner"], costs["loop"]
    equal_lists, largest_difference = agreement(limner_cost, plain)
    product = f"{size}: %s vs the bare product of all pairs of vectors"
    yield Claim(product % "seconds", limner_cost.wall, costs["bare"].wall, goal="<= 1.3", note=note)
    yield Claim(product % "CPU seconds", limner_cost.cpu, costs["bare"].cpu, goal="<= 1.3", note=note)
    yield Claim(f"{size}: CPU seconds vs a loop over pairs", limner_cost.cpu, plain.cpu, goal="< 1", note=note)
    yield Claim(f"{size}: memory beyond the inputs, MB", grown(limner_cost), goal="< 200")
    equal = f"{equal_lists:.3%} of the lists are the same"
    yield Claim(f"{size}: largest difference of a score from the loop", largest_difference, goal="< 1e-4", note=equal)
    if find_spec("lancedb"):
        yield from stored(case, rounds, cores, size)
    for name, task in PEERS.items():
        if (cost := of_package(name, Task(task, *case), rounds, cores)) is not None:
            share = f"{recall(cost, plain):.3f} of its top-{K} are in the exact one; {note}"
            label_format = f"{size}: %s vs {name.replace('_', '-')}"
            yield Claim(label_format % "seconds", limner_cost.wall, cost.wall, goal="< 1", note=share)
            yield Claim(label_format % "CPU seconds", limner_cost.cpu, cost.cpu, goal="< 1", note=share)


def stored(case: tuple[int, int, Each, int], rounds: int, cores: int, size: str) -> Iterator[Claim]:
    """From an index on disk, beside the same scores in memory."""
    tasks = {"disk": Task(from_index, *case), "memory": Task(ours, *case)}
    costs, note = interleaved(tasks, rounds=rounds, cores=cores), load()
    disk, memory, name = costs["disk"], costs["memory"], f"{size}, from an index on disk"
    yield Claim(f"{name}: seconds vs from memory", disk.wall, memory.wall, goal="<= 1.5", note=note)
    yield Claim(f"{name}: CPU seconds vs from memory", disk.cpu, memory.cpu, goal="<= 1.5", note=note)
    yield Claim(f"{name}: memory beyond the start, MB", grown(disk), goal="< 500")
    equal_lists = all(np.array_equal(a, b) for a, b in zip(disk.value[0], memory.value[0], strict=True))
    yield Claim(f"{name}: lists and scores that differ in any bit", float(not equal_lists), goal="== 0")


def of_package(name: str, task: Task, rounds: int, cores: int) -> Cost | None:
    """What a package costs; None where it is not installed, or fails."""
    if not find_spec(name):
        log(f"{name} is not installed: no claim beside it")
        return None
    try:
        return interleaved({name: task}, rounds=rounds, cores=cores)[name]
    except RuntimeError as error:
        log(f"{name} failed: no claim beside it\n{error}")
        return None


def recall(one: Cost, second: Cost) -> float:
    """The share of the other's lists that the one has."""
    pairs = zip(one.value[0][0], second.value[0][0], strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--cores", type=int, nargs="+", default=[CORES], help="how many cores, one after another")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
