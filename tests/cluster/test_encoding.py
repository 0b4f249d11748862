"""Encoding on a cluster: the vectors of a plain loop over batches, in the order of the items, whoever dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from machines import add_node

from limner import Items, LimnerError
from limner.cluster import connect

BATCH = 7


class Letters:
    """Counts letters; the first number says in how large a batch, which a real encoder's rounding may depend on."""

    dim = 27

    def __init__(self, folder=None, wait=0.0, until=""):
        self.folder, self.wait, self.until = folder, wait, until

    def encode(self, items):
        if self.folder:
            import ray

            node = ray.get_runtime_context().get_node_id()
            (Path(self.folder) / f"{items.ids[0]}-{node}-{os.getpid()}").touch()
            time.sleep(self.wait)
            end = time.monotonic() + 60  # a busy machine may start the encoder of a node late
            while not any(self.until in name for name in os.listdir(self.folder)) and time.monotonic() < end:
                time.sleep(0.1)
        counts = [[text.count(chr(97 + k)) for k in range(26)] for text in items.values]
        return np.hstack([np.full((len(items), 1), len(items)), counts]).astype(np.float32)


class Broken:
    dim = 3

    def encode(self, items):
        return np.ones((1, 3))


@pytest.fixture(scope="module")
def items():
    words = [f"{'abcdefg'[k % 7] * (k % 5)} caption {k}" for k in range(80)]
    return Items([f"t{k}" for k in range(80)], words, kind="text")


@pytest.fixture(autouse=True)
def _shipped_whole():
    ray = pytest.importorskip("ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def looped(items):
    return np.concatenate([Letters().encode(items[low : low + BATCH]) for low in range(0, len(items), BATCH)])


def kill_the_first(folder, killed, ended):
    """Waits until somebody encodes, and kills it."""
    while not ended.is_set():
        marks = os.listdir(folder)
        if marks:
            killed.append(int(marks[0].rpartition("-")[2]))
            os.kill(killed[0], signal.SIGKILL)
            return
        time.sleep(0.05)


def test_an_encoder_is_killed_and_nothing_is_lost(joined, items, tmp_path):
    killed, ended = [], threading.Event()
    killer = threading.Thread(target=kill_the_first, args=(tmp_path, killed, ended))
    killer.start()
    try:
        with connect() as cluster:
            encoded = cluster.encode(Letters(tmp_path, wait=0.5), items, batch=BATCH)
    finally:
        ended.set()
        killer.join()
    assert encoded.ids == items.ids and np.array_equal(encoded.matrix, looped(items))
    begun = [name.partition("-")[0] for name in os.listdir(tmp_path)]
    assert killed and len(set(begun)) == 12 < len(begun), "the batch of the killed one was begun twice"


def test_a_node_is_lost_while_it_encodes(joined, items, tmp_path):
    """The batches that it had begun, and those that it had done and not delivered, are encoded elsewhere."""
    node, ended, lost = add_node(joined), threading.Event(), []
    joined.wait_for_nodes()

    def pull_the_plug():
        while not lost and not ended.wait(0.05):
            lost.extend(name for name in os.listdir(tmp_path) if node.node_id in name)
        joined.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=pull_the_plug)
    killer.start()
    try:
        with connect() as cluster:
            assert cluster.cores == 3
            encoded = cluster.encode(Letters(tmp_path, wait=0.5, until=node.node_id), items, batch=BATCH)
    finally:
        ended.set()
        killer.join()
    assert encoded.ids == items.ids and np.array_equal(encoded.matrix, looped(items))
    begun = [name.partition("-")[0] for name in os.listdir(tmp_path)]
    assert lost, "the node that is lost has begun a batch"
    assert begun.count(lost[0].partition("-")[0]) > 1, "what the lost node had begun was begun again"


def test_an_encoder_that_gives_too_few_rows_is_refused(joined, items):
    with pytest.raises(LimnerError, match="40 ids for 1 rows of embeddings"), connect() as cluster:
        cluster.encode(Broken(), items, batch=40)
    with pytest.raises(LimnerError, match="0 items"), connect() as cluster:
        cluster.encode(Broken(), items[:0])
