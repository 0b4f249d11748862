"""A Ray cluster on this machine: what a score, a task and sending cost, and what more workers bring.

The constants from which evidence/cluster.md is computed. Nodes join until they have as many workers as the machine
has cores, and the time of a pass is compared with the one that the constants predict. Results on the cluster are
compared with the local ones, bit by bit. `--table` prints the tables of that page from the saved constants.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from claims import ROOT, Claim, log, main
from limner.scores.vectors import VectorScores
from projection import DIM, Costs, projected, table

NODES = {"num_cpus": 1, "object_store_memory": 1 << 30}
NAP = 0.6
"""Seconds that every worker sleeps in a pass of blocks that only wait."""
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

    scores = random_scores(n, n)
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
    seconds, results = alternately({"here": lambda: scores.top(10, workers=1), "1": lambda: top(scores)}, rounds)
    yield Claim(
        "top-10 by one worker vs one local thread, seconds", seconds["1"], seconds["here"], goal="<= 1.25",
        note=shared(),
    )  # fmt: skip
    join(cluster, 2)
    works = {"2": lambda: top(scores), "shards": lambda: top(scores, shard=scores.shape[1] // 4)}
    more_seconds, lists = alternately(works, rounds)
    seconds, results = seconds | more_seconds, results | lists
    spent = worker_seconds(scores)
    yield Claim("top-10 by two workers vs one local thread, CPU-seconds", spent, core, goal="<= 1.15")
    yield Claim("top-10: one worker vs two, speed-up", seconds["1"], seconds["2"], goal=">= 1.6", note=shared())
    yield Claim("top-10, candidates in four shards vs whole, seconds", seconds["shards"], seconds["2"], goal="<= 1.15")
    pieces = worker_seconds(scores, shard=scores.shape[1] // 4)
    yield Claim("top-10, candidates in four shards vs whole, CPU-seconds of the workers", pieces, spent, goal="<= 1.15")
    moving = [*overheads(scores), broadcast()]
    yield from moving
    by_name = {claim.claim.partition(",")[0]: claim.ours for claim in moving}
    costs = Costs(
        product=scores.shape[0] ** 2 * DIM / core,
        share=spent / core,
        task=by_name["a task that does nothing"] / 1e3,
        start=by_name["a pass with next to nothing to compute"],
        put=by_name["putting an array into the object store"] * 1e9,
        copy=by_name["from one node's object store to another's"] * 1e9,
    )
    yield from with_more_workers(cluster, scores, rounds, seconds, results, costs)
    yield from asleep(cluster, scores, rounds)
    for name, cluster_result in results.items():
        if name != "here":
            count = differing(results["here"], cluster_result)
            label = "four shards" if name == "shards" else f"{name} workers"
            yield Claim(f"numbers that differ between local and cluster: {label}", count, goal="== 0")


def with_more_workers(
    cluster: Any, scores: Any, rounds: int, seconds: dict[str, float], results: dict[str, Any], costs: Costs
) -> Iterator[Claim]:
    """Two workers, four, and so on beside the projection, and where the time goes; times and results are added."""
    counts = [workers for workers in (2, 4, 8, 16) if workers <= max(2, usable())]
    for workers in counts:
        name = str(workers)
        if workers > 2:
            join(cluster, workers)
            more_seconds, lists = alternately({name: lambda: top(scores)}, rounds)
            seconds |= more_seconds
            results |= lists
            speed_up = f"top-10: one worker vs {workers}, speed-up"
            yield Claim(speed_up, seconds["1"], more_seconds[name], goal=f">= {0.8 * workers:.1f}", note=shared())
            yield broadcast()
        label = f"top-10 by {workers} workers vs what the constants predict, seconds"
        expected = projected(*scores.shape, workers, nodes(), costs)
        yield Claim(label, seconds[name], expected, goal="<= 1.3", note=shared())
        yield from where_the_time_goes(scores, workers)
        if workers > 2:
            spent, core = worker_seconds(scores), scores.shape[0] ** 2 * DIM / costs.product
            yield Claim(f"top-10 by {workers} workers vs one local thread, CPU-seconds", spent, core, goal="<= 1.15")
    if counts[-1] > 2:
        yield from longer(scores, counts[-1], rounds, costs)


def longer(scores: Any, workers: int, rounds: int, costs: Costs) -> Iterator[Claim]:
    """A pass of four times the queries beside the projection: what is constant counts for less."""
    larger = random_scores(4 * scores.shape[0], scores.shape[1])
    more_seconds, lists = alternately({"longer": lambda: top(larger)}, rounds)
    expected = projected(*larger.shape, workers, nodes(), costs)
    label = f"top-10 of four times the queries by {workers} workers vs what the constants predict, seconds"
    yield Claim(label, more_seconds["longer"], expected, goal="<= 1.3", note=shared())
    differ = differing(larger.top(10), lists["longer"])
    yield Claim("numbers that differ between local and cluster: four times the queries", differ, goal="== 0")


def join(cluster: Any, workers: int) -> None:
    """Nodes join until there are as many workers."""
    import ray

    cluster.add_node(**NODES | {"node_ip_address": "127.0.0.1", "num_cpus": workers // 2})
    cluster.wait_for_nodes()
    while ray.cluster_resources().get("CPU", 0) < workers:
        time.sleep(0.1)


def nodes() -> int:
    """How many there are."""
    import ray

    return sum(node["Alive"] for node in ray.nodes())


def where_the_time_goes(scores: Any, workers: int) -> Iterator[Claim]:
    """Who does how much of a pass, when the last worker begins, and how long workers wait in between."""
    traces, traced_seconds = traced(Timed(scores.query_vectors, scores.candidate_vectors), workers)
    yield Claim(
        f"tasks of the busiest of {workers} workers vs an equal share", *busiest(traces, workers), goal="<= 1.3"
    )
    late = max(each.first for each in traces)
    yield Claim(f"the last of {workers} workers begins its first task after, seconds", late, goal="> 0")
    waiting = sum(each.waiting for each in traces) / sum(each.waiting + each.busy for each in traces)
    yield Claim(f"{workers} workers: share of the time that they wait between tasks", waiting, goal="<= 0.1")
    early = traced_seconds - min(each.last for each in traces)
    yield Claim(f"the first of {workers} workers has nothing left to do before the end, seconds", early, goal="> 0")


def asleep(cluster: Any, scores: Any, rounds: int) -> Iterator[Claim]:
    """The hand-out alone: blocks take their time and no core, so that workers may outnumber cores."""
    import ray

    if (workers := int(ray.cluster_resources()["CPU"])) < 4:
        join(cluster, workers := 4)
    sleeping = Sleeping(scores.query_vectors, scores.candidate_vectors)
    object.__setattr__(sleeping, "seconds", NAP * workers * scores.block_rows / scores.shape[0])
    results = [traced(sleeping, workers) for _ in range(rounds + 1)][1:]
    busiest_counts, equal = zip(*(busiest(traces, workers) for traces, _ in results), strict=True)
    place_label = f"{workers} workers on {nodes()} nodes"
    label = f"blocks that only wait: tasks of the busiest of {place_label} vs an equal share"
    yield Claim(label, statistics.median(busiest_counts), equal[0], goal="<= 1.3")
    median_seconds = statistics.median(seconds for _, seconds in results)
    label = f"blocks that only wait: a pass by {place_label} vs an equal share of the waiting, seconds"
    yield Claim(label, median_seconds, NAP, goal="> 0", note="With sending the vectors, and the start of the pass.")


def busiest(traces: list[Trace], workers: int) -> tuple[float, float]:
    """The tasks of the worker that has most, and an equal share."""
    return max(each.tasks for each in traces), sum(each.tasks for each in traces) / workers


def traced(timed: Timed, workers: int) -> tuple[list[Trace], float]:
    """What every worker did in a pass, and how long that took; vectors are sent anew."""
    import limner.cluster
    from limner.cluster.task_queue import RowSpans

    start = time.perf_counter()
    with limner.cluster.connect():
        streamed = list(timed.stream(Traced(timed)))
    elapsed = time.perf_counter() - start
    of_task = RowSpans.of(*timed.shape, workers).size // timed.block_rows
    by_worker = [
        [(b - start, e - start) for pid, b, e in streamed if pid == one] for one in {pid for pid, *_ in streamed}
    ]
    traces = sorted((Trace.of(blocks, of_task) for blocks in by_worker), key=lambda trace: trace.first)
    for each in traces:
        log(
            f"  {each.tasks:.0f} tasks, the first after {each.first:.3f} s, all done after {each.last:.3f} of "
            f"{elapsed:.3f} s, at work {each.busy:.3f} s, waiting in between {each.waiting:.3f} s"
        )
    return traces, elapsed


@dataclass(frozen=True)
class Trace:
    """What one worker did in a pass, in seconds since its start.

    >>> Trace.of([(0.5, 1.0), (1.0, 1.5), (1.75, 2.25)], 1)
    Trace(tasks=3.0, first=0.5, last=2.25, busy=1.5, waiting=0.25)
    """

    tasks: float
    first: float
    last: float
    busy: float
    waiting: float

    @classmethod
    def of(cls, blocks: list[tuple[float, float]], of_task: int) -> Trace:
        """From begin and end of every block, of which a task has so many."""
        first, last = min(begun for begun, _ in blocks), max(ended for _, ended in blocks)
        busy = sum(ended - begun for begun, ended in blocks)
        return cls(len(blocks) / of_task, first, last, busy, last - first - busy)


class Timed(VectorScores):
    """Scores that note when the computation of a block begins."""

    def block(self, start: int, stop: int, out: Any = None) -> Any:
        """The block."""
        object.__setattr__(self, "begun", time.perf_counter())
        return super().block(start, stop, out)


class Sleeping(Timed):
    """Scores whose blocks take `seconds` each, and are all 0."""

    def block(self, start: int, stop: int, out: Any = None) -> Any:
        """The block."""
        object.__setattr__(self, "begun", time.perf_counter())
        time.sleep(self.__dict__["seconds"])
        return np.zeros((stop - start, 16), dtype=np.float32)


@dataclass(frozen=True)
class Traced:
    """Finds the best ten, and says who did it and when; the clock is that of the machine, the same in all processes."""

    scores: Any

    def __call__(self, start: int, block: Any) -> tuple[int, float, float]:
        """(process, begin, end)."""
        from limner.scores.base import Best

        Best(10)(start, block)
        return os.getpid(), self.scores.begun, time.perf_counter()


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

    idle = ray.remote(num_cpus=1)(_empty_task)
    ray.get([idle.remote() for _ in range(20)])
    works = {"tasks": lambda: ray.get([idle.remote() for _ in range(300)])}
    seconds = alternately(works, 3)[0]["tasks"]
    yield Claim("a task that does nothing, milliseconds", 1e3 * seconds / 300, goal="> 0")
    small = random_scores(8 * scores.block_rows, scores.block_rows, 8)
    seconds = alternately({"a small pass": lambda: top(small)}, 3)[0]["a small pass"]
    yield Claim("a pass with next to nothing to compute, seconds", seconds, goal="> 0")
    array = np.ones((1 << 26,), dtype=np.float32)
    seconds = alternately({"put": lambda: ray.put(array)}, 9)[0]["put"]  # in most rounds the memory was used before
    yield Claim("putting an array into the object store, GB per second", array.nbytes / seconds / 1e9, goal="> 0")
    part = scores.top(10)
    per_query = (part.indices.nbytes + part.scores.nbytes) / len(part)
    yield Claim("bytes that come back per query, top-10", per_query, goal="<= 80")
    yield Claim("bytes per item, 512 numbers", scores.candidate_vectors.matrix.nbytes / scores.shape[1], goal="== 2048")


def broadcast() -> Claim:
    """From one node's store to all others at once; all are on this machine: copying and protocol, not a network."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    node_id = ray.get_runtime_context().get_node_id()
    other_nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != node_id]
    fetched = [ray.remote(num_cpus=1, scheduling_strategy=On(node, soft=False))(_fetched) for node in other_nodes]

    def slowest(array: Any) -> float:
        return max(ray.get([each.remote([array]) for each in fetched]))

    slowest(ray.put(np.ones(4)))
    size = 1 << 28 if len(other_nodes) == 1 else 1 << 26
    arrays = [ray.put(np.full(size // 4, k, dtype=np.float32)) for k in range(3)]
    rate = statistics.median(size / slowest(array) / 1e9 for array in arrays)
    nodes_label = "another's" if len(other_nodes) == 1 else f"those of {len(other_nodes)} others at the same time"
    return Claim(
        f"from one node's object store to {nodes_label}, GB per second", rate, goal="> 0",
        note="All nodes are on this machine: copying and protocol, no network.",
    )  # fmt: skip


def _empty_task() -> None:
    return None


def _fetched(reference: list[Any]) -> float:
    import ray

    start = time.perf_counter()
    ray.get(reference[0])
    return time.perf_counter() - start


def random_scores(queries: int, candidates: int, dimensions: int = DIM) -> Any:
    """Random unit vectors."""
    from limner import Embeddings, Scores

    rng = np.random.default_rng(0)
    sides = (rng.standard_normal((count, dimensions), dtype=np.float32) for count in (queries, candidates))
    return Scores.from_embeddings(*(Embeddings(range(len(side)), side) for side in sides))


def alternately(works: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Median seconds of works that take turns, after a round that does not count, and their last results."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    results = {}
    for number in range(rounds + 1):
        for name, work in works.items():
            start = time.perf_counter()
            results[name] = work()
            seconds[name].append(time.perf_counter() - start)
            log(f"round {number}/{rounds} {name}: {seconds[name][-1]:.3f} s")
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}, results


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU-seconds of a second run: what else runs on the machine counts for little in them."""
    work()
    start = time.process_time()
    work()
    return time.process_time() - start


def differing(local: Any, remote: Any) -> int:
    """How many places of two rankings are not the same to the last bit."""
    return int((local.indices != remote.indices).sum() + (local.scores != remote.scores).sum())


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--table`."""
    parser.add_argument("--table", action="store_true", help="print the table of docs/cluster.md and measure nothing")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
