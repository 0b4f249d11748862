"""Passes on a Ray cluster on this machine: what a score costs a core, what sending and a task cost, what a second worker brings.

The constants from which docs/cluster.md works its arithmetic. The results on the cluster are compared with the local ones, bit
by bit. `--table` prints the table of that page from the saved constants.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from claims import ROOT, Claim, log, main

DIM = 512
RESULTS = ROOT / "benchmarks" / "results" / "cluster.json"
NODES = {"num_cpus": 1, "object_store_memory": 1 << 30}
QUIET = {"log_to_driver": False, "logging_level": "warning"}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Measures the constants."""
    if options.table:
        print(table())
        sys.exit()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    n, rounds = (4_096, 2) if options.quick else (16_384, 3)
    from ray.cluster_utils import Cluster

    scores = made(n, n)
    local, here = timed(lambda: scores.top(10, workers=1), rounds)
    core = cpu_seconds(lambda: scores.top(10, workers=1))
    yield Claim(
        "products per second of one core, 10^9 multiply-adds, top-10 included", n * n * DIM / core / 1e9, goal="> 0"
    )
    cluster = Cluster(
        initialize_head=True, head_node_args={**NODES, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    )
    try:
        yield from on_cluster(cluster, scores, local, here, rounds)
    finally:
        cluster.shutdown()


def on_cluster(cluster: Any, scores: Any, local: float, here: Any, rounds: int) -> Iterator[Claim]:
    """One worker, then two; then what moving costs."""
    import ray

    import limner.cluster

    ray.init(cluster.address, **QUIET)
    try:
        with limner.cluster.connect():
            one, there = timed(lambda: scores.top(10), rounds)
            yield Claim("top-10 on a cluster of one worker vs one local thread, seconds", one, local, goal="<= 1.25")
            yield Claim("scores that differ between local and cluster", differing(here, there), goal="== 0")
            yield from statistics_of(scores, one)
            yield from overheads(scores)
        cluster.add_node(**NODES, node_ip_address="127.0.0.1")
        cluster.wait_for_nodes()
        with limner.cluster.connect():
            two, there = timed(lambda: scores.top(10), rounds)
            yield Claim("top-10: one worker vs two, speed-up", one, two, goal=">= 1.6", note=TWO)
            yield Claim("scores that differ between local and two workers", differing(here, there), goal="== 0")
            yield broadcast()
        with limner.cluster.connect(shard=4_096):
            cut, there = timed(lambda: scores.top(10), rounds)
            yield Claim("top-10 in shards of 4,096 candidates vs whole, two workers, seconds", cut, two, goal="<= 1.25")
            yield Claim("scores that differ between local and shards", differing(here, there), goal="== 0")
    finally:
        ray.shutdown()


TWO = "Ray's own processes, the driver and both workers share two cores here; whatever else runs counts against it."


def statistics_of(scores: Any, top: float) -> Iterator[Claim]:
    """A pass that gathers statistics beside one that chooses the best."""
    from limner.match import _columns

    sums, _ = timed(lambda: _columns.log_sums(scores, 30.0), 2)
    yield Claim("log sums of the columns vs top-10, one worker, seconds", sums, top, goal="<= 2.0")


def overheads(scores: Any) -> Iterator[Claim]:
    """What a task costs that does nothing, what putting an array costs, and how many bytes come back."""
    import ray

    idle = ray.remote(num_cpus=1)(_nothing)
    ray.get([idle.remote() for _ in range(20)])
    seconds, _ = timed(lambda: ray.get([idle.remote() for _ in range(300)]), 3)
    yield Claim("a task that does nothing, milliseconds", 1e3 * seconds / 300, goal="< 20")
    array = np.ones((1 << 26,), dtype=np.float32)
    seconds, _ = timed(lambda: ray.put(array), 3)
    yield Claim("putting an array into the object store, GB per second", array.nbytes / seconds / 1e9, goal="> 0.2")
    part = scores.top(10)
    per_query = (part.indices.nbytes + part.scores.nbytes) / len(part)
    yield Claim("bytes that come back per query, top-10", per_query, goal="<= 80")
    yield Claim("bytes per item, 512 numbers", scores.candidate_vectors.matrix.nbytes / scores.shape[1], goal="== 2048")


def broadcast() -> Claim:
    """From one node's store to the other's; both are on this machine, so this is copying and protocol, not a network."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    there = next(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    fetched = ray.remote(num_cpus=1, scheduling_strategy=On(there, soft=False))(_fetched)
    ray.get(fetched.remote([ray.put(np.ones(4))]))
    arrays = [ray.put(np.full(1 << 26, k, dtype=np.float32)) for k in range(3)]
    rates = [(1 << 28) / ray.get(fetched.remote([array])) / 1e9 for array in arrays]
    return Claim(
        "from one node's object store to another's, GB per second", statistics.median(rates), goal="> 0.1",
        note="Both nodes are on this machine: copying and protocol, no network.",
    )  # fmt: skip


def _nothing() -> None:
    return None


def _fetched(reference: list[Any]) -> float:
    import ray

    start = time.perf_counter()
    ray.get(reference[0])
    return time.perf_counter() - start


def made(queries: int, candidates: int) -> Any:
    """Random unit vectors."""
    from limner import Embeddings, Scores

    rng = np.random.default_rng(0)
    sides = (rng.standard_normal((count, DIM), dtype=np.float32) for count in (queries, candidates))
    return Scores.from_embeddings(*(Embeddings(range(len(side)), side) for side in sides))


def timed(work: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """The median seconds of some rounds after one that does not count, and the last result."""
    work()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    log(f"{statistics.median(seconds):.3f} s")
    return statistics.median(seconds), result


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU-seconds of one run: what else runs on the machine counts for little in them."""
    start = time.process_time()
    work()
    return time.process_time() - start


def differing(here: Any, there: Any) -> int:
    """How many places of two rankings are not the same to the last bit."""
    return int((here.indices != there.indices).sum() + (here.scores != there.scores).sum())


# --- the table of docs/cluster.md ---------------------------------------------------------------------------------

SIZES = (10**5, 10**6, 10**7, 10**8, 10**9)
CORES = 64
"""Cores of a node in the table, with 8 bytes of memory for each byte of object store."""


def constants() -> dict[str, float]:
    """The saved numbers, by the words they begin with."""
    claims = json.loads(RESULTS.read_text(encoding="utf-8"))["claims"]
    found = {claim["claim"].partition(",")[0]: claim["ours"] for claim in claims}
    sums = next(claim["ratio"] for claim in claims if claim["claim"].startswith("log sums"))
    return {
        "products": found["products per second of one core"] * 1e9,
        "sums": sums,
        "task": found["a task that does nothing"] / 1e3,
        "copy": found["from one node's object store to another's"] * 1e9,
    }


def table() -> str:
    """Every step at every size, computed from the constants."""
    known = constants()
    head = "| items | vectors, GB | 1,000 queries, core-hours | all against all, core-hours | CSLS of all, core-hours | tasks | their overhead, core-hours | sent to a node, s | top-10 back, GB |"
    lines = [head, "|" + "---:|" * 9]
    for items in SIZES:
        pair = items * DIM / known["products"] / 3600
        tasks = max(1, math.ceil(items * items / 2**31))
        cells = [
            f"{items:,}", number(items * DIM * 4 / 1e9), number(1_000 * pair), number(items * pair),
            number(items * pair * (1 + known["sums"])), number(tasks), number(tasks * known["task"] / 3600),
            number(items * DIM * 4 / known["copy"]), number(items * 80 / 1e9),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def number(value: float) -> str:
    """Two significant digits, and thousands apart."""
    digits = max(0, 1 - math.floor(math.log10(value))) if value else 0
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.{digits}f}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--table`."""
    parser.add_argument("--table", action="store_true", help="print the table of docs/cluster.md and measure nothing")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
