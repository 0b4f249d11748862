"""Which worker does what: every core gets its share of a pass, and one that somebody else holds does not stop it."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from machines import add_node

from limner import Embeddings, Scores
from limner.cluster import connect

TASKS = 16


@pytest.fixture(autouse=True)
def _shipped_whole() -> Iterator[None]:
    """Workers cannot import this file, so what is defined in it travels with the tasks."""
    ray = pytest.importorskip("ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def scores(tasks, dimensions=16):
    """So many blocks of 256 rows."""
    rng = np.random.default_rng(0)
    sides = [(f"{name}", n, rng.standard_normal((n, dimensions))) for name, n in (("q", 256 * tasks), ("c", 600))]
    return Scores.from_embeddings(*(Embeddings([f"{name}{k}" for k in range(n)], rows) for name, n, rows in sides))


def napping(start, block):
    """Takes its time, which is the same for every block, and says on which node."""
    import ray

    time.sleep(0.15)
    return ray.get_runtime_context().get_node_id()


def test_every_core_gets_its_share(joined):
    """Three nodes with one, one and two cores: none has more than its share and one more task per core."""
    node = add_node(joined, num_cpus=2)
    joined.wait_for_nodes()
    source = scores(TASKS, dimensions=2048)
    try:
        with connect() as cluster:
            assert cluster.cores == 4
            shares = [Counter(source.stream(napping)) for _ in range(6)][1:]  # processes are started in the first
    finally:
        joined.remove_node(node)
    highest = [
        max(count / (2 if node_id == node.node_id else 1) for node_id, count in share.items()) for share in shares
    ]
    assert statistics.median(highest) <= -(-TASKS // 4) + 1, shares  # in one of them the machine may be busy


class Holder:
    """Somebody else's work, which never ends."""

    def held(self):
        return True


def test_a_core_that_somebody_else_holds_does_not_stop_a_pass(joined):
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    node = add_node(joined)
    joined.wait_for_nodes()
    source = scores(12)
    local = source.top(3)
    holder = ray.remote(num_cpus=1, scheduling_strategy=On(node.node_id, soft=False))(Holder).remote()
    try:
        assert ray.get(holder.held.remote())
        with connect() as cluster:
            assert cluster.cores == 3
            remote = source.top(3)
    finally:
        ray.kill(holder)
        joined.remove_node(node)
    assert np.array_equal(local.indices, remote.indices) and np.array_equal(local.scores, remote.scores)
