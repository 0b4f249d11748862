"""Workers and nodes that die in the middle: the answer is the same, and what was lost was really done twice."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from machines import add_node

from limner import Embeddings, Scores
from limner.cluster import connect

TASKS = 24


def scores(seed):
    rng = np.random.default_rng(seed)
    sides = [(f"q{seed}", 256 * TASKS), ("c", 600)]
    return Scores.from_embeddings(
        *(Embeddings([f"{name}{k}" for k in range(n)], rng.standard_normal((n, 16))) for name, n in sides)
    )


class Marked:
    """A consumer that leaves a mark when it begins and another when it is done, and takes its time."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, start, block):
        import ray

        mark = Path(self.folder) / f"{start}-{os.getpid()}-{ray.get_runtime_context().get_node_id()}"
        mark.touch()
        time.sleep(0.4)
        mark.with_suffix(".done").touch()
        return block.copy()


class Adding(Marked):
    def __call__(self, held, start, block):
        return super().__call__(start, block).astype(np.float64).sum(axis=0)


def begun(folder):
    """Which processes began with each block."""
    marks = defaultdict(set)
    for name in os.listdir(folder):
        if not name.endswith(".done"):
            start, pid, _ = name.split("-")
            marks[int(start)].add(int(pid))
    return marks


def kill_one_at_work(folder):
    """Kills a process that has begun a block and not ended it."""
    for _ in range(200):
        names = set(os.listdir(folder))
        busy = [name for name in names if not name.endswith(".done") and f"{name}.done" not in names]
        for name in sorted(busy, key=lambda name: (folder / name).stat().st_mtime)[-1:]:
            pid = int(name.split("-")[1])
            os.kill(pid, signal.SIGKILL)
            if not (folder / f"{name}.done").exists():
                return pid
        time.sleep(0.02)
    raise AssertionError("nobody was at work")


def wait_for_work(folder, node_id):
    """Waits until a node has done a block and begun another one."""
    for _ in range(500):
        names = [name for name in os.listdir(folder) if node_id in name]
        done = [name for name in names if name.endswith(".done")]
        if done and len(names) > 2 * len(done):
            return
        time.sleep(0.02)
    raise AssertionError(f"node {node_id} was given nothing to do")


@pytest.fixture(autouse=True)
def _shipped_whole():
    """Workers cannot import this file, so what is defined in it travels with the tasks."""
    ray = pytest.importorskip("ray")
    import sys

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_a_worker_is_killed(joined, tmp_path):
    source = scores(1)
    matrix = source.matrix()
    with connect():
        results = source.stream(Marked(tmp_path))
        blocks = [next(results)]
        pid = kill_one_at_work(tmp_path)
        blocks += results
    assert np.array_equal(np.concatenate(blocks), matrix)
    assert any(pid in pids and len(pids) > 1 for pids in begun(tmp_path).values())


def test_a_node_is_lost_with_what_it_had_found(joined, tmp_path):
    """Blocks of 600 kB stay on the node that made them until they are asked for, and are made again when it dies."""
    source = scores(2)
    matrix = source.matrix()
    node = add_node(joined)
    joined.wait_for_nodes()
    with connect() as cluster:
        assert cluster.cores == 3
        source.top(1)  # a worker is started on every node
        results = source.stream(Marked(tmp_path))
        blocks = [next(results)]
        wait_for_work(tmp_path, node.node_id)
        joined.remove_node(node, allow_graceful=False)
        blocks += results
    assert np.array_equal(np.concatenate(blocks), matrix)
    assert any(len(pids) > 1 for pids in begun(tmp_path).values())


def test_a_sum_is_the_same_to_the_last_bit_after_a_worker_died(joined, tmp_path):
    source = scores(3)
    (tmp_path / "here").mkdir()
    local = source.fold(Adding(tmp_path / "here"), np.add, steady=True)
    killed = []

    def kill_one(done, rows):
        if not killed:
            killed.append(kill_one_at_work(tmp_path / "there"))

    (tmp_path / "there").mkdir()
    with connect():
        remote = source.fold(Adding(tmp_path / "there"), np.add, steady=True, progress=kill_one)
    assert killed and np.array_equal(local, remote)
    assert any(len(pids) > 1 for pids in begun(tmp_path / "there").values())
