"""NCS over random pairs of concept sets: limner's table and scipy's assignment beside the way of the paper, NetworkX.

Both begin with two lists of sets of synset names and end with one number per pair. The NetworkX way is that of the
paper: a complete bipartite graph with path similarities as weights, `max_weight_matching`, the mean over its edges; it
is given the same path similarities, remembered pair by pair, so that only the matching differs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from claims import Claim, Task, interleaved, log, main
from limner.explain.agreement import Concepts, agreement, match, similarities
from limner.explain.concepts import Thing
from limner.language.wordnet import Similarities, WordNet

Sets = list[tuple[list[str], list[str]]]


def random_sets(pairs: int, seed: int = 0) -> Sets:
    """Pairs of disjoint sets of 4 to 16 nouns out of 400, the sizes of scenes in Visual Genome."""
    wordnet, dice = WordNet.load(), np.random.default_rng(seed)
    nouns = [name for name in wordnet.names if ".n." in name and len(name) < 14]
    pool = [nouns[i] for i in dice.choice(len(nouns), 400, replace=False)]
    made = []
    for _ in range(pairs):
        a, b = dice.integers(4, 17, size=2)
        picked = [pool[i] for i in dice.choice(len(pool), a + b, replace=False)]
        made.append((picked[:a], picked[a:]))
    return made


def ours(pairs: int) -> Callable[[], object]:
    """limner: the table is made inside the clock."""
    sets, wordnet = random_sets(pairs), WordNet.load()
    match(*sets[0], Similarities(wordnet, {name for side in sets[0] for name in side}))  # warm: imports

    def work() -> list[float]:
        similar = Similarities(wordnet, {name for pair in sets for side in pair for name in side})
        return [_mean([s for *_, s in match(a, b, similar)]) for a, b in sets]

    return work


def networkx_way(pairs: int) -> Callable[[], object]:
    """The paper's way."""
    import networkx

    sets, wordnet = random_sets(pairs), WordNet.load()
    path_similarity = lru_cache(maxsize=None)(wordnet.path_similarity)
    for a, b in sets:  # remembered before the clock starts, in favour of NetworkX
        for one in a:
            for other in b:
                path_similarity(one, other)

    def one_pair(a: list[str], b: list[str]) -> float:
        graph = networkx.Graph()
        graph.add_weighted_edges_from((one, other, path_similarity(one, other)) for one in a for other in b)
        chosen = networkx.max_weight_matching(graph, maxcardinality=True)
        return _mean([graph.edges[edge]["weight"] for edge in chosen])

    return lambda: [one_pair(a, b) for a, b in sets]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def paper_sized(failures: int) -> Callable[[], object]:
    """All scores of as many failures as the paper has: 15 concepts an image, with counts and boxes."""
    wordnet, dice = WordNet.load(), np.random.default_rng(1)
    nouns = [name for name in wordnet.names if ".n." in name and len(name) < 14]
    pool = [nouns[i] for i in dice.choice(len(nouns), 1000, replace=False)]
    weights = 1 / np.arange(1, len(pool) + 1)
    images = []
    for _ in range(2000):
        picked = dice.choice(len(pool), 25, p=weights / weights.sum())
        areas = dice.uniform(0.01, 0.5, size=25)
        images.append(Concepts(tuple(Thing(pool[i], (0, 0, a, 1), area=a) for i, a in zip(picked, areas, strict=True))))
    agreement(images[0], images[1], similarities(images[:2], wordnet))
    order = dice.integers(len(images), size=(failures, 2))

    def work() -> int:
        similar = similarities(images, wordnet)
        return len([agreement(images[g], images[r], similar) for g, r in order])

    return work


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Times both on the same sets, in turn, and compares every value."""
    pairs = 1000 if options.quick else 20_000
    tasks = {"limner": Task(ours, pairs), "networkx": Task(networkx_way, pairs)}
    found = interleaved(tasks, rounds=1 if options.quick else 2, threads=1)
    gap = float(np.max(np.abs(np.subtract(found["limner"].value, found["networkx"].value))))
    yield Claim(
        f"NCS of {pairs:,} random pairs, times faster than NetworkX, CPU seconds",
        found["networkx"].cpu / found["limner"].cpu,
        goal=">= 30",
        note=f"{found['limner'].cpu:.2f} s and {found['networkx'].cpu:.1f} s",
    )
    yield Claim("greatest difference between the two ways in any value", gap, goal="<= 1e-9")
    failures = 2000 if options.quick else 28_817
    cost = interleaved({"all scores": Task(paper_sized, failures)}, rounds=1 if options.quick else 2, threads=1)
    yield Claim(f"CA, NCS, CE, SD of {failures:,} failures, CPU seconds", cost["all scores"].cpu, goal="<= 30")
    log(f"{failures:,} failures in {cost['all scores'].cpu:.1f} CPU seconds")


if __name__ == "__main__":
    main(run, __doc__)
