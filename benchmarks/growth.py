"""Growth: time and memory of exact search from 1,000 to 1,000,000 candidates, all pairs, and 10,000,000 rows on disk.

`--only` picks parts. candidates: 1,000 queries over n candidates, 256 dimensions, in memory, beside the bare product
(and faiss where it is installed). square: n queries over n candidates, 128 dimensions. disk: top-10 of an index of
`--rows` vectors of 256 numbers that is read from disk for every search, beside a scan in double precision; the index
takes 1,040 bytes of disk for a row (`--folder` says where), and no vector is held in memory. `--plot FILE` draws the
first part. `--quick` takes a fraction of the sizes.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from claims import Claim, Cost, Task, interleaved, log, main
from match import CORES, bare, extra, faiss_top, grown, load, ours

PARTS = ("candidates", "square", "disk")
QUERIES, DIM, K = 1_000, 256, 10
BLOCK = 1 << 16
"""Rows of the index that are drawn at once."""
POINTS: dict[str, list[float]] = {}


def candidates(options: argparse.Namespace) -> Iterator[Claim]:
    """As many queries over more and more candidates: linear in the candidates."""
    sizes = (1_000, 4_000, 16_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000)
    queries = QUERIES // 4 if options.quick else QUERIES
    names = ["bare", "top-10", "CSLS top-10", *(["faiss"] if find_spec("faiss") else [])]
    costs = {n: _costs(queries, n, DIM, names, rounds=1 if n > 100_000 else 3) for n in sizes}
    POINTS.update({"sizes": list(sizes), **{name: [costs[n][name].cpu for n in sizes] for name in names}})
    last, before, label = sizes[-1], sizes[-2], f"{queries:,} queries over n candidates, d = {DIM}"
    for name in ("top-10", "CSLS top-10"):
        slope = np.log(costs[last][name].cpu / costs[before][name].cpu) / np.log(last / before)
        note = f"CPU {_series(sizes, [costs[n][name].cpu for n in sizes])}; {load()}"
        yield Claim(f"{name}, {label}: exponent between the two largest n", float(slope), goal="<= 1.1", note=note)
    top, size = costs[last]["top-10"], f"{queries:,} queries over {last:,} candidates, d = {DIM}"
    yield Claim(f"top-10, {size}: CPU s vs the bare product", top.cpu, costs[last]["bare"].cpu, goal="<= 1.15")
    yield Claim(f"top-10, {size}: memory beyond the inputs, MB per core", grown(top) / CORES, goal="< 1200")
    if "faiss" in names:
        yield Claim(f"top-10, {size}: seconds vs faiss", top.wall, costs[last]["faiss"].wall, goal="< 1")


def square(options: argparse.Namespace) -> Iterator[Claim]:
    """n queries over n items; d = 128, so that a hundred thousand items take a minute."""
    sizes = (1_000, 2_000, 4_000) if options.quick else (1_000, 3_162, 10_000, 31_623, 100_000)
    names = ["bare", "top-10", "CSLS top-10"]
    costs = {n: _costs(n, n, 128, names, rounds=1 if n > 20_000 else 3) for n in sizes}
    for name in names[1:]:
        seconds = [costs[n][name].cpu for n in sizes]
        slope = np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])
        label = f"{name} of n x n: exponent of the growth between the two largest n"
        yield Claim(label, float(slope), goal="<= 2.2", note=f"CPU {_series(sizes, seconds)}")


def _costs(n: int, m: int, d: int, names: list[str], *, rounds: int) -> dict[str, Cost]:
    tasks = {"bare": Task(bare, n, m, d), "top-10": Task(ours, n, m, d, K, None)}
    tasks |= {"CSLS top-10": Task(ours, n, m, d, K, "csls"), "faiss": Task(faiss_top, n, m, d, K)}
    return interleaved({name: tasks[name] for name in names}, rounds=rounds, cores=CORES)


def _series(sizes: tuple[int, ...], seconds: list[float]) -> str:
    return f"seconds {', '.join(f'{s:.3g}' for s in seconds)} for {', '.join(f'{n:,}' for n in sizes)} items"


# --- from disk ----------------------------------------------------------------------------------------------------


def drawn(start: int, rows: int) -> np.ndarray:
    """Rows of length 1 from this position on, always the same."""
    part = np.random.default_rng([7, start]).standard_normal((rows, DIM), dtype=np.float32)
    return part / np.linalg.norm(part, axis=1, keepdims=True)


def random_queries(count: int) -> np.ndarray:
    """Queries."""
    return drawn(-1 % 2**32, count)


def write_index(folder: Path, rows: int) -> None:
    """The index, in one commit, from rows that are drawn as they are written."""
    from limner.search.index_table import NOTHING, About, batch
    from limner.search.store import VectorStore

    about = About(DIM)

    def batches() -> Iterator[Any]:
        for low in range(0, rows, BLOCK):
            part = drawn(low, min(BLOCK, rows - low))
            yield batch(about, [str(low + n) for n in range(len(part))], part, [NOTHING] * len(part))
            if low // BLOCK % 16 == 0:
                log(f"  {low:,} of {rows:,} rows")

    VectorStore.create(folder, about, batches())


def from_disk(folder: str, count: int) -> Callable[[], Any]:
    """limner, which reads every vector from disk; the loops are compiled before."""
    from limner.search import open_index

    warm = Path(tempfile.mkdtemp()) / "index"
    write_index(warm, 2_000)
    open_index(warm, memory=0).search(random_queries(count), K)
    shutil.rmtree(warm.parent)
    opened = open_index(folder, memory=0)

    def work() -> list[list[int]]:
        hits = opened.search(random_queries(count), K)
        return [[int(hit.id) for hit in hits[key]] for key in hits.queries.ids]

    return extra(work)


def scanned(rows: int, count: int) -> Callable[[], Any]:
    """The best of a few queries by a scan in double precision of rows that are drawn again."""

    def work() -> list[list[int]]:
        queries = random_queries(count).astype(np.float64)
        places, scores = np.zeros((count, 0), np.int64), np.zeros((count, 0))
        for low in range(0, rows, BLOCK):
            part = queries @ drawn(low, min(BLOCK, rows - low)).astype(np.float64).T
            nearest = np.argpartition(-part, K, axis=1)[:, :K]
            places = np.hstack([places, low + nearest])
            scores = np.hstack([scores, np.take_along_axis(part, nearest, axis=1)])
            order = np.argsort(-scores, axis=1, kind="stable")[:, :K]
            places, scores = (np.take_along_axis(each, order, axis=1) for each in (places, scores))
        return [[int(place) for place in row] for row in places]

    return extra(work)


def disk(options: argparse.Namespace) -> Iterator[Claim]:
    """Top-10 of an index that is larger than the memory that a search may take."""
    rows, checked = (20_000 if options.quick else options.rows), 4
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = str(Path(folder) / "index")
        log(f"making an index of {rows:,} rows: {rows * 1040 / 1e9:.1f} GB")
        write_index(Path(path), rows)
        tasks = {"one": Task(from_disk, path, 1), "checked": Task(from_disk, path, checked)}
        tasks |= {"many": Task(from_disk, path, 100), "scan": Task(scanned, rows, checked)}
        costs = interleaved(tasks, rounds=1, cores=CORES)
    size = f"{rows:,} x {DIM} on disk, top-{K}"
    read = rows * DIM * 4 / 1e6
    for name, count in (("one", 1), ("many", 100)):
        note = f"{read / costs[name].wall:,.0f} MB of vectors a second; {load()}"
        yield Claim(f"{count} queries over {size}, seconds", costs[name].wall, goal="< 600", note=note)
    yield Claim(f"100 queries over {size}: memory beyond the start, MB", grown(costs["many"]), goal="< 1500")
    pairs = zip(costs["checked"].value[0], costs["scan"].value[0], strict=True)
    wrong = sum(one != second for one, second in pairs)
    yield Claim(f"lists of {checked} queries over {size} that differ from a scan in float64", wrong, goal="== 0")


# --- all ----------------------------------------------------------------------------------------------------------


def draw(path: Path) -> None:
    """Time against the number of candidates, both on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "limner"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    sizes = POINTS["sizes"]
    for (name, values), mark in zip(((k, v) for k, v in POINTS.items() if k != "sizes"), "os^d", strict=False):
        axes.loglog(sizes, values, marker=mark, label={"bare": "the bare matrix product"}.get(name, name))
    axes.loglog(sizes, [POINTS["bare"][-1] * n / sizes[-1] for n in sizes], ":", color="grey", label="n")
    axes.set(xlabel="candidates", ylabel="CPU seconds", title=f"{QUERIES:,} queries, {DIM} dimensions, {CORES} cores")
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    log(f"drew {path}")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    parts = {"candidates": candidates, "square": square, "disk": disk}
    for name in options.only:
        yield from parts[name](options)
    if options.plot and POINTS:
        draw(options.plot)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="+", choices=PARTS, default=["candidates", "square"])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the index on disk")
    parser.add_argument("--folder", type=Path, help="where the index on disk is made (default: the temporary folder)")
    parser.add_argument("--plot", type=Path, help="where to draw how time grows (svg or png)")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
