"""The Wikipedia scale on one GPU: 92,367 x 92,367, d = 768, CSLS, top-5, from vectors in the host's memory.

Needs torch and a GPU; nothing else that the light core of limner brings is used but numpy, so that it runs on a bare
machine with torch: `PYTHONPATH=src python benchmarks/match_gpu.py`. First it checks the card against float64 on the
processor; then it times copying, the bare product, top-5 and CSLS. `--quick` takes a tenth of the size.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main
from limner.core.embeddings import Embeddings
from limner.scores import Scores
from limner.scores.base import Best

SIZE, DIMENSIONS, K = 92_367, 768, 5


def vectors(n: int, d: int, seed: int) -> Embeddings:
    """A cloud with a centre, so that there are hubs."""
    rng = np.random.default_rng(seed)
    return Embeddings(range(n), rng.standard_normal((n, d), dtype=np.float32) + np.float32(0.3))


def lists(scores: Scores, k: int) -> tuple[Any, Any]:
    """Indices and scores of the k best of every query."""
    parts = scores.map(Best(k))
    indices, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    return indices, values


def timed(work: Callable[[], object], rounds: int) -> float:
    """Median seconds; the answer is on the host when the clock stops."""
    import torch

    seconds = []
    for _ in range(rounds):
        finish(torch)
        start = time.perf_counter()
        work()
        finish(torch)
        seconds.append(time.perf_counter() - start)
    log(f"  {[round(s, 4) for s in seconds]}")
    return statistics.median(seconds)


def finish(torch: ModuleType) -> None:
    """Wait until the GPU has done all its work; nothing where there is none."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def exact(queries: Embeddings, candidates: Embeddings) -> np.ndarray:
    """Cosines in double precision."""
    a, b = (e.matrix.astype(np.float64) for e in (queries, candidates))
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def check(device: str) -> Iterator[Claim]:
    """Scores, lists, CSLS and ties on the card against plain numpy."""
    queries, candidates = vectors(1500, 64, 1), vectors(6000, 64, 2)
    scores, plain = Scores.from_embeddings(queries, candidates, device=device), exact(queries, candidates)
    yield Claim(
        "card: largest difference from float64 cosines", float(np.abs(scores.matrix() - plain).max()), goal="< 1e-6"
    )
    k_best = [
        np.sort(plain, axis=axis).take(range(-10, 0), axis=axis).mean(axis=axis, keepdims=True) for axis in (0, 1)
    ]
    csls = 2 * plain - k_best[0] - k_best[1]
    columns, values = lists(scores.correct("csls"), K)
    expected = np.take_along_axis(csls, np.argsort(-csls, axis=1, kind="stable")[:, :K], axis=1)
    yield Claim(
        "card: largest difference of the top-5 CSLS values from float64",
        float(np.abs(values - expected).max()),
        goal="< 1e-5",
    )
    yield Claim(
        "card: largest loss of a chosen candidate",
        float((expected - np.take_along_axis(csls, columns, axis=1)).max()),
        goal="< 1e-5",
    )
    integers = np.random.default_rng(5).integers(-1, 2, (3000, 16)).astype(np.float32)  # exact products, full of ties
    integers[~integers.any(axis=1)] = 1
    tied = Scores.from_embeddings(
        Embeddings(range(500), integers[:500]), Embeddings(range(3000), integers), similarity="dot", device=device
    )
    order = np.argsort(-(integers[:500] @ integers.T), axis=1, kind="stable")[:, :10]
    yield Claim(
        "card: lists that differ from a stable sort where scores tie",
        float((lists(tied, 10)[0] != order).any(axis=1).sum()),
        goal="== 0",
    )


def low(prepared: Any, csls: Callable[[], tuple[Any, Any]], rounds: int, bare: float, size: str) -> Iterator[Claim]:
    """The same lists without the filter, which is used by itself: float32 products decide alone."""
    from limner.scores.lowprecision import gpu_filter

    log("low precision: top-10, and top-10 and CSLS top-5 without the filter")
    filtered, top = (csls(), lists(prepared, 10)), timed(lambda: lists(prepared, 10), rounds)
    decides = gpu_filter.saves_time
    gpu_filter.saves_time = lambda scores: False
    plain = csls(), lists(prepared, 10)
    product_seconds, corrected = timed(lambda: lists(prepared, 10), rounds), timed(csls, rounds)
    gpu_filter.saves_time = decides
    yield Claim(f"low precision: top-10 vs the bare product, seconds ({size})", top, bare, goal="<= 0.5")
    yield Claim(f"float32 alone: top-10 vs the bare product, seconds ({size})", product_seconds, bare, goal="<= 2")
    yield Claim(f"float32 alone: CSLS top-5 of {size}, from host memory to lists, seconds", corrected, goal="< 3")
    for name, one, unfiltered in zip(("CSLS top-5", "top-10"), filtered, plain, strict=True):
        differ = (one[0] != unfiltered[0]).any(axis=1) | (one[1] != unfiltered[1]).any(axis=1)
        yield Claim(
            f"low precision: lists of {name} that differ from float32 in any bit", float(differ.sum()), goal="== 0"
        )


def run(options: argparse.Namespace) -> Iterator[Claim]:
    import torch

    device = options.device
    log(f"torch {torch.__version__}, {torch.cuda.get_device_name() if device == 'cuda' else device}")
    yield from check(device)
    n = SIZE // 10 if options.quick else SIZE
    queries, candidates = vectors(n, DIMENSIONS, 0), vectors(n, DIMENSIONS, 1)
    prepared = Scores.from_embeddings(queries, candidates, device=device)
    size = f"{n:,} x {n:,}, d = {DIMENSIONS}"
    rounds = options.rounds

    def product() -> None:
        for start in range(0, n, prepared.block_rows):
            prepared.block(start, min(start + prepared.block_rows, n))

    def csls_pass() -> tuple[Any, Any]:
        return lists(Scores.from_embeddings(queries, candidates, device=device).correct("csls"), K)

    product(), csls_pass()
    log("copy and normalise, bare product, top-5, CSLS top-5, inverted softmax top-5, all from host memory")
    copy = timed(lambda: Scores.from_embeddings(queries, candidates, device=device), rounds)
    bare = timed(product, rounds)
    top = timed(lambda: lists(prepared, K), rounds)
    softmax = timed(lambda: lists(prepared.correct("inverted_softmax"), K), rounds)
    csls = timed(csls_pass, rounds)
    yield Claim(f"CSLS top-5 of {size}, from host memory to lists, seconds", csls, goal="< 3")
    yield Claim(f"copying and normalising, seconds ({size})", copy, goal="< 1")
    yield Claim(f"top-5 vs the bare product, seconds ({size})", top, bare, goal="<= 2")
    yield Claim(f"inverted softmax top-5 vs the bare product, seconds ({size})", softmax, bare, goal="<= 5")
    yield Claim(f"CSLS top-5 from host memory vs the bare product, seconds ({size})", csls, bare, goal="<= 5")
    yield from low(prepared, csls_pass, rounds, bare, size)
    if device == "cuda":
        yield Claim("peak memory of the card, GB", torch.cuda.max_memory_allocated() / 1e9, goal="< 20")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script out")
    parser.add_argument("--rounds", type=int, default=5)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
