"""The arithmetic of evidence/cluster.md: what a pass takes on a cluster, from constants that cluster.py has saved."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from claims import ROOT

DIM = 512
RESULTS = ROOT / "benchmarks" / "results" / "cluster.aarch64.json"
SIZES = (10**5, 10**6, 10**7, 10**8, 10**9)
PASSES = ((25_000, 100_000), (100_000, 100_000), (1_000_000, 1_000_000), (10_000, 10_000_000), (10**7, 10**7))
MACHINES, CORES = (1, 10, 100), 16


@dataclass(frozen=True)
class Costs:
    """What the projection stands on.

    Args:
        product: Multiplications and additions per second of a core.
        share: CPU-seconds of workers, per CPU-second of a local thread.
        task: Seconds of the driver for every task.
        start: Seconds of a pass with next to nothing to compute.
        put: Bytes per second into the object store.
        copy: Bytes per second to another node.
    """

    product: float
    share: float
    task: float
    start: float
    put: float
    copy: float


def projected(queries: int, items: int, workers: int, nodes: int, costs: Costs) -> float:
    """Seconds of a pass of top-10: both matrices are sent, then every worker computes whole tasks.

    A node that has the matrices passes them on, so that the number of copies doubles in the time that one takes.
    """
    from limner.cluster.ray_cluster import WIDEST
    from limner.cluster.task_queue import RowSpans

    width = min(items, WIDEST)
    size = min(RowSpans.of(queries, width, workers).size, queries)
    tasks = math.ceil(queries / size) * math.ceil(items / width)
    sent = (queries + items) * DIM * 4
    computed = math.ceil(tasks / workers) * size * width * DIM / costs.product * costs.share
    copied = math.ceil(math.log2(nodes)) * sent / costs.copy
    return costs.start + max(computed, tasks * costs.task) + sent / costs.put + copied


def constants() -> dict[str, float]:
    """The saved numbers that the arithmetic stands on, in basic units."""
    claims = json.loads(RESULTS.read_text(encoding="utf-8"))["claims"]
    claims_by_name = {claim["claim"].partition(",")[0]: claim for claim in claims}
    return {
        "products per second and core": claims_by_name["products per second of one core"]["ours"] * 1e9,
        "a pass of log sums, in passes of top-10": claims_by_name["log sums of the columns vs top-10"]["ratio"],
        "seconds per task that does nothing": claims_by_name["a task that does nothing"]["ours"] / 1e3,
        "seconds per pass with next to nothing to compute": claims_by_name["a pass with next to nothing to compute"][
            "ours"
        ],
        "bytes per second into the object store": claims_by_name["putting an array into the object store"]["ours"]
        * 1e9,
        "bytes per second from store to store": claims_by_name["from one node's object store to another's"]["ours"]
        * 1e9,
        "CPU-seconds of workers, per CPU-second of a local thread": claims_by_name[
            "top-10 by two workers vs one local thread"
        ]["ratio"],
        "speed-up of a second worker, by the clock": claims_by_name["top-10: one worker vs two"]["ratio"],
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
    product, _, task, start, put, copy, share, _ = constants().values()
    costs = Costs(product, share, task, start, put, copy)
    seconds = [projected(queries, items, CORES * n, n, costs) for n in MACHINES]
    return [*seconds, queries * items * DIM / product / CORES / MACHINES[-1] / seconds[-1]]


def lasting(value: float) -> str:
    """Seconds, minutes or hours; a share below 1 as it is."""
    if value <= 1:
        return f"{value:.2f}"
    unit, name = next((u, n) for u, n in ((3600, "h"), (60, "min"), (1, "s")) if value >= 2 * u or u == 1)
    return f"{number(value / unit)} {name}"


def steps(items: int) -> list[float]:
    """What all steps of matching `items` with as many cost, a row of the table."""
    from limner.cluster.ray_cluster import WIDEST
    from limner.cluster.task_queue import MOST_SCORES
    from limner.scores.parallel_blocks import TILE_ROWS

    product, sums, task, _, put, copy, *_ = constants().values()
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
