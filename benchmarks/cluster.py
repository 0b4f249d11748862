"""A Ray cluster on this machine: what a score, a task and sending cost, and what more workers bring.

The constants from which docs/cluster.md works its arithmetic. Nodes join until they have as many workers as the machine
has cores, and the time of a pass is compared with the one that the constants predict. Results on the cluster are
compared with the local ones, bit by bit. `--table` prints the tables of that page from the saved constants.
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
from pathlib import Path
from typing import Any

import numpy as np

from claims import ROOT, Claim, log, main

DIM = 512
RESULTS = ROOT / "benchmarks" / "results" / "cluster.aarch64.json"  # what the arithmetic of the page stands on
NODES = {"num_cpus": 1, "object_store_memory": 1 << 30}
QUIET = {"log_to_driver": False, "logging_level": "warning"}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Measures the constants."""
    if options.table:
        print(table())
        sys.exit()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    n, rounds = items(options.quick), 2 if options.quick else 3
    from ray.cluster_utils import Cluster

    scores = made(n, n)
    core = cpu_seconds(lambda: scores.top(10, workers=1))
    rate = n * n * DIM / core / 1e9
    yield Claim("products per second of one core, 10^9 multiply-adds, top-10 included", rate, goal="> 0")
    sums = cpu_seconds(lambda: scores.correct("inverted_softmax").statistics)
    yield Claim("log sums of the columns vs top-10, CPU-seconds", sums, core, goal="<= 2.0")
    loopback = {**NODES, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args={**loopback, "include_dashboard": False})
    try:
        import ray

        ray.init(cluster.address, **QUIET)
        yield from on_cluster(cluster, scores, rounds, core)
    finally:
        ray.shutdown()
        cluster.shutdown()


def items(quick: bool) -> int:
    """Queries and candidates: a few seconds of all cores."""
    return 4_096 if quick else int(8_192 * math.sqrt(usable() / 2)) // 4096 * 4096


def usable() -> int:
    return len(os.sched_getaffinity(0))


def on_cluster(cluster: Any, scores: Any, rounds: int, core: float) -> Iterator[Claim]:
    """The same work here and on one worker, two, four, and so on; in shards on two; and what moving costs."""
    seconds, found = alternately({"here": lambda: scores.top(10, workers=1), "1": lambda: top(scores)}, rounds)
    yield Claim(
        "top-10 by one worker vs one local thread, seconds", seconds["1"], seconds["here"], goal="<= 1.25",
        note=shared(),
    )  # fmt: skip
    join(cluster, 2)
    works = {"2": lambda: top(scores), "shards": lambda: top(scores, shard=scores.shape[1] // 4)}
    taken, lists = alternately(works, rounds)
    seconds, found = seconds | taken, found | lists
    spent = worker_seconds(scores)
    yield Claim("top-10 by two workers vs one local thread, CPU-seconds", spent, core, goal="<= 1.15")
    yield Claim("top-10: one worker vs two, speed-up", seconds["1"], seconds["2"], goal=">= 1.6", note=shared())
    yield Claim("top-10, candidates in four shards vs whole, seconds", seconds["shards"], seconds["2"], goal="<= 1.15")
    pieces = worker_seconds(scores, shard=scores.shape[1] // 4)
    yield Claim("top-10, candidates in four shards vs whole, CPU-seconds of the workers", pieces, spent, goal="<= 1.15")
    moving = [*overheads(scores), broadcast()]
    yield from moving
    costs = {claim.claim.partition(",")[0]: claim.ours for claim in moving}
    rates = (
        scores.shape[0] ** 2 * DIM / core,
        costs["a task that does nothing"] / 1e3,
        costs["putting an array into the object store"] * 1e9,
        costs["from one node's object store to another's"] * 1e9,
    )
    for workers in (2, 4, 8, 16):
        if workers > max(2, usable()):
            break
        if workers > 2:
            join(cluster, workers)
            taken, lists = alternately({str(workers): lambda: top(scores)}, rounds)
            seconds, found = seconds | taken, found | lists
            speed_up = f"top-10: one worker vs {workers}, speed-up"
            yield Claim(speed_up, seconds["1"], taken[str(workers)], goal=f">= {0.8 * workers:.1f}", note=shared())
        expected = projected(*scores.shape, workers, *rates)
        what = f"top-10 by {workers} workers vs what the constants predict, seconds"
        yield Claim(what, seconds[str(workers)], expected, goal="<= 1.3", note=shared())
    for name, there in found.items():
        if name != "here":
            count = differing(found["here"], there)
            label = "four shards" if name == "shards" else f"{name} workers"
            yield Claim(f"numbers that differ between local and cluster: {label}", count, goal="== 0")


def join(cluster: Any, workers: int) -> None:
    """Nodes join until there are as many workers."""
    import ray

    cluster.add_node(**NODES | {"node_ip_address": "127.0.0.1", "num_cpus": workers // 2})
    cluster.wait_for_nodes()
    while ray.cluster_resources().get("CPU", 0) < workers:
        time.sleep(0.1)


def projected(queries: int, items: int, workers: int, product: float, task: float, put: float, copy: float) -> float:
    """Seconds of a pass of top-10: both matrices are sent, then every worker computes whole tasks.

    Args:
        queries: How many.
        items: How many.
        workers: Cores of all nodes.
        product: Multiplications and additions per second of a core.
        task: Seconds of the driver for every task.
        put: Bytes per second into the object store.
        copy: Bytes per second to another node.
    """
    from limner.cluster._running import WIDEST
    from limner.cluster._spans import Spans

    width = min(items, WIDEST)
    size = min(Spans.of(queries, width, workers).size, queries)
    tasks = math.ceil(queries / size) * math.ceil(items / width)
    sent = (queries + items) * DIM * 4
    computed = math.ceil(tasks / workers) * size * width * DIM / product
    return max(computed, tasks * task) + sent / put + sent / copy


def top(scores: Any, *, shard: int | None = None) -> Any:
    """Top-10 on the cluster, vectors sent anew."""
    import limner.cluster

    with limner.cluster.connect(shard=shard):
        return scores.top(10)


def worker_seconds(scores: Any, *, shard: int | None = None) -> float:
    """CPU-seconds that the workers spend on top-10: unlike the clock's, they do not depend on what else runs."""
    import limner.cluster

    with limner.cluster.connect(shard=shard):
        workers = set(scores.stream(_process)) | set(scores.stream(_process))
        scores.top(10)
        before = sum(map(_spent, workers))
        scores.top(10)
        return sum(map(_spent, workers)) - before


def _process(start: int, block: Any) -> int:
    return os.getpid()


def _spent(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shared() -> str:
    """Why a speed-up may not say much."""
    load, cores = os.getloadavg()[1], len(os.sched_getaffinity(0))
    return (
        f"Ray's own processes, the driver and both workers share {cores} cores here with whatever else runs: the load "
        f"average was {load:.1f}. Well above {cores}, it shows what is left for them, not what free cores would give."
    )


def overheads(scores: Any) -> Iterator[Claim]:
    """What a task costs that does nothing, what putting an array costs, and how many bytes come back."""
    import ray

    idle = ray.remote(num_cpus=1)(_nothing)
    ray.get([idle.remote() for _ in range(20)])
    works = {"tasks": lambda: ray.get([idle.remote() for _ in range(300)])}
    seconds = alternately(works, 3)[0]["tasks"]
    yield Claim("a task that does nothing, milliseconds", 1e3 * seconds / 300, goal="> 0")
    array = np.ones((1 << 26,), dtype=np.float32)
    seconds = alternately({"put": lambda: ray.put(array)}, 3)[0]["put"]
    yield Claim("putting an array into the object store, GB per second", array.nbytes / seconds / 1e9, goal="> 0")
    part = scores.top(10)
    per_query = (part.indices.nbytes + part.scores.nbytes) / len(part)
    yield Claim("bytes that come back per query, top-10", per_query, goal="<= 80")
    yield Claim("bytes per item, 512 numbers", scores.candidate_vectors.matrix.nbytes / scores.shape[1], goal="== 2048")


def broadcast() -> Claim:
    """From one node's store to the other's; both are on this machine: copying and protocol, not a network."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    there = next(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    fetched = ray.remote(num_cpus=1, scheduling_strategy=On(there, soft=False))(_fetched)
    ray.get(fetched.remote([ray.put(np.ones(4))]))
    arrays = [ray.put(np.full(1 << 26, k, dtype=np.float32)) for k in range(3)]
    rates = [(1 << 28) / ray.get(fetched.remote([array])) / 1e9 for array in arrays]
    return Claim(
        "from one node's object store to another's, GB per second", statistics.median(rates), goal="> 0",
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


def alternately(works: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Median seconds of works that take turns, after a round that does not count, and their last results."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    found = {}
    for number in range(rounds + 1):
        for name, work in works.items():
            start = time.perf_counter()
            found[name] = work()
            seconds[name].append(time.perf_counter() - start)
            log(f"round {number}/{rounds} {name}: {seconds[name][-1]:.3f} s")
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}, found


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU-seconds of a second run: what else runs on the machine counts for little in them."""
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


def differing(here: Any, there: Any) -> int:
    """How many places of two rankings are not the same to the last bit."""
    return int((here.indices != there.indices).sum() + (here.scores != there.scores).sum())


# --- the table of docs/cluster.md ---------------------------------------------------------------------------------

SIZES = (10**5, 10**6, 10**7, 10**8, 10**9)
PASSES = ((25_000, 100_000), (100_000, 100_000), (1_000_000, 1_000_000), (10_000, 10_000_000), (10**7, 10**7))
MACHINES, CORES = (1, 10, 100), 16


def constants() -> dict[str, float]:
    """The saved numbers that the arithmetic stands on, in basic units."""
    claims = json.loads(RESULTS.read_text(encoding="utf-8"))["claims"]
    found = {claim["claim"].partition(",")[0]: claim for claim in claims}
    return {
        "products per second and core": found["products per second of one core"]["ours"] * 1e9,
        "a pass of log sums, in passes of top-10": found["log sums of the columns vs top-10"]["ratio"],
        "seconds per task that does nothing": found["a task that does nothing"]["ours"] / 1e3,
        "bytes per second into the object store": found["putting an array into the object store"]["ours"] * 1e9,
        "bytes per second from store to store": found["from one node's object store to another's"]["ours"] * 1e9,
        "CPU-seconds of workers, per CPU-second of a local thread": found["top-10 by two workers vs one local thread"][
            "ratio"
        ],
        "speed-up of a second worker, by the clock": found["top-10: one worker vs two"]["ratio"],
    }


def table() -> str:
    """The constants, every step at every size, and passes on 1 to 100 machines, computed from them."""
    measured = [f"| {name} | {number(value)} |" for name, value in constants().items()]
    head = (
        "| items | vectors, GB | 1,000 queries, core-hours | all against all, core-hours | with inverted softmax, "
        "core-hours | tasks | their overhead, core-hours | to the store, s | to each node, s | top-10 back, GB |"
    )
    computed = ["| " + " | ".join(map(number, row)) + " |" for row in map(steps, SIZES)]
    machines = [f"| {q:,} × {i:,} | " + " | ".join(map(lasting, passes(q, i))) + " |" for q, i in PASSES]
    return "\n".join(
        [
            *("| constant | measured |", "|---|---:|", *measured, ""),
            *(head, "|" + "---:|" * 10, *computed, ""),
            f"| top-10, queries × items | {' | '.join(f'{n} of {CORES} cores' for n in MACHINES)} | share of ideal |",
            "|---|" + "---:|" * (len(MACHINES) + 1),
            *machines,
        ]
    )


def passes(queries: int, items: int) -> list[float]:
    """Seconds of a pass on each number of machines, and the share of the ideal speed on the most."""
    product, _, task, put, copy, *_ = constants().values()
    seconds = [projected(queries, items, CORES * n, product, task, put, copy) for n in MACHINES]
    return [*seconds, queries * items * DIM / product / CORES / MACHINES[-1] / seconds[-1]]


def lasting(value: float) -> str:
    """Seconds, minutes or hours; a share below 1 as it is."""
    if value <= 1:
        return f"{value:.2f}"
    unit, name = next((u, n) for u, n in ((3600, "h"), (60, "min"), (1, "s")) if value >= 2 * u or u == 1)
    return f"{number(value / unit)} {name}"


def steps(items: int) -> list[float]:
    """What all steps of matching `items` with as many cost, a row of the table."""
    from limner.cluster._running import WIDEST
    from limner.cluster._spans import MOST_SCORES
    from limner.scores import TILE_ROWS

    product, sums, task, put, copy, *_ = constants().values()
    size, each = items * DIM * 4, items * DIM / product / 3600
    width = min(items, WIDEST)
    tasks = math.ceil(items / max(TILE_ROWS, MOST_SCORES / width)) * math.ceil(items / width)
    back = items * 80
    costs = [1_000 * each, items * each, items * each * (1 + sums), tasks, tasks * task / 3600, size / put, size / copy]
    return [items, size / 1e9, *costs, back / 1e9]


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
