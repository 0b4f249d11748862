"""Search in an index: exact and approximate, one query and many, beside a plain numpy scan and LanceDB's own scan.

100,000 vectors of 256 numbers around 2,000 centres, queries near other points of the same centres. Milliseconds per
query, warm: files in the system's cache, loops compiled. "In memory" is the index as a server holds it; "streamed"
reads every vector from the store for every search, as an index larger than memory does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from claims import Claim, Cost, Task, interleaved, log, main

K, DIM, CENTRES, ASKED = 10, 256, 2_000, 256
KINDS = ("ivf_hnsw_sq", "ivf_sq")
TUNED = 100  # queries that recall is measured with
WARM = "ours also scores the finalists on the grid of Scores, and gives their ids and values"


def write_index(folder: Path, rows: int) -> None:
    """Vectors, queries, and an index of each kind."""
    from limner import Embeddings
    from limner.search import index

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CENTRES, DIM)).astype(np.float32)

    def clustered(count: int) -> Any:
        return centres[rng.integers(0, CENTRES, count)] + rng.standard_normal((count, DIM)).astype(np.float32)

    vectors, queries = clustered(rows), clustered(ASKED)
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (vectors, queries)]
    np.save(folder / "vectors.npy", unit[0].astype(np.float32))
    np.save(folder / "queries.npy", unit[1].astype(np.float32))
    for name in ("plain", *KINDS):
        log(f"making the index {name}")
        built = index(folder / name, Embeddings(range(rows), vectors))
        if name != "plain":
            log(f"  {built.approximate(name, queries=queries[:TUNED])}")


def ours(folder: str, count: int, *, memory: int, name: str = "plain", exact: bool = True) -> Callable[[], Any]:
    """limner: `count` queries one by one, or all in one call where it is negative."""
    from limner.search import open_index

    queries = np.load(Path(folder, "queries.npy"))
    opened = open_index(Path(folder, name), memory=memory)
    pieces = [queries] if count < 0 else [queries[row] for row in range(count)]

    def run() -> list[Any]:
        return [
            hits.ranking[key] for hits in (opened.search(p, K, exact=exact) for p in pieces) for key in hits.queries.ids
        ]

    run()
    return run


def streamed(folder: str, count: int) -> Callable[[], Any]:
    """limner, reading the store for every search."""
    return ours(folder, count, memory=0)


def warm(folder: str, count: int) -> Callable[[], Any]:
    """limner with the vectors in memory."""
    return ours(folder, count, memory=2**34)


def approximate(folder: str, count: int, kind: str) -> Callable[[], Any]:
    """limner with LanceDB's approximate index."""
    return ours(folder, count, memory=0, name=kind, exact=False)


def numpy_scan(folder: str, count: int) -> Callable[[], Any]:
    """What one writes without a library: a product, argpartition, a sort."""
    queries, vectors = np.load(Path(folder, "queries.npy")), np.load(Path(folder, "vectors.npy"))
    pieces = [queries] if count < 0 else [queries[row : row + 1] for row in range(count)]

    def run() -> list[Any]:
        return [best for piece in pieces for best in _best(piece @ vectors.T)]

    run()
    return run


def _best(scores: Any) -> list[list[str]]:
    chosen = np.argpartition(-scores, K, axis=1)[:, :K]
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    return [[str(place) for place in row] for row in np.take_along_axis(chosen, order, axis=1)]


def lance_scan(folder: str, count: int) -> Callable[[], Any]:
    """LanceDB's own exact search of the same table."""
    from limner.search import open_index

    queries = np.load(Path(folder, "queries.npy"))
    table = open_index(Path(folder, "plain")).store.table

    def one(query: Any) -> list[str]:
        request = table.search(query, vector_column_name="vector").distance_type("dot").limit(K)
        return list(request.select(["id", "_distance"]).to_arrow()["id"].to_pylist())

    def run() -> list[Any]:
        return [one(query) for query in queries[:count]]

    run()
    return run


def run(options: Any) -> Iterator[Claim]:
    rows, rounds, count = (10_000, 1, 10) if options.quick else (100_000, 3, 20)
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder), rows)
        tasks = {
            "warm": Task(warm, folder, count),
            "numpy": Task(numpy_scan, folder, count),
            "streamed": Task(streamed, folder, count),
            "lance": Task(lance_scan, folder, count),
            "warm batch": Task(warm, folder, -1),
            "streamed batch": Task(streamed, folder, -1),
            "numpy batch": Task(numpy_scan, folder, -1),
            **{kind: Task(approximate, folder, count, kind) for kind in KINDS},
        }
        costs = interleaved(tasks, rounds=rounds)
        yield from _claims(costs, f"{rows:,} x {DIM}", count, Path(folder))


def _claims(costs: dict[str, Cost], size: str, count: int, folder: Path) -> Iterable[Claim]:
    each = {name: 1000 * cost.wall / (ASKED if "batch" in name else count) for name, cost in costs.items()}
    one, batch_label = (
        f"one query over {size}, exact top-{K}, ms",
        f"{ASKED} queries over {size}, exact top-{K}, ms per query",
    )
    yield Claim(f"{one}: in memory vs a numpy scan", each["warm"], each["numpy"], goal="<= 1.1", note=WARM)
    yield Claim(
        f"{one}: streamed from the store vs LanceDB's exact scan", each["streamed"], each["lance"], goal="<= 1.25"
    )
    yield Claim(f"{batch_label}: in memory vs a numpy scan", each["warm batch"], each["numpy batch"], goal="<= 1")
    yield Claim(
        f"{batch_label}: streamed vs a numpy scan in memory", each["streamed batch"], each["numpy batch"], goal="<= 1.5"
    )
    wrong = sum(a != b for a, b in zip(costs["warm"].value, costs["numpy"].value, strict=True))
    yield Claim(f"exact lists of {count} queries that differ from the numpy scan's", wrong, goal="<= 0")
    yield from (claim for kind in KINDS for claim in _approximate_claims(kind, each, folder, size))


def _approximate_claims(kind: str, each: dict[str, float], folder: Path, size: str) -> Iterable[Claim]:
    from limner.search import open_index
    from limner.search.approximate import Ann

    ann = Ann.noted(open_index(folder / kind).store)
    assert ann is not None
    note = f"{ann.probes} clusters looked into: the fewest of the powers of 2 that reach recall 0.95, if any does"
    yield Claim(f"recall@{K} of {kind} over {size}, {TUNED} queries", ann.recall.value, goal=">= 0.95", note=note)
    yield Claim(f"one query with {kind} vs exact and streamed, ms", each[kind], each["streamed"], goal="<= 0.5")


if __name__ == "__main__":
    main(run, __doc__)
