"""A process outside the cluster, through ray://: passes, corrections and encoding give the same bits as here."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from limner import Embeddings, LimnerError, Scores
from limner.cluster import _join

# What a notebook on a laptop does. The encoder is defined in it, so that it travels to the workers.
NOTEBOOK = """
import sys
import numpy as np
import limner
from limner.cluster import connect

class Lengths:
    dim = 3
    def encode(self, items):
        return np.array([[len(items), len(text), text.count("a")] for text in items.values], dtype=np.float32)

address, folder = sys.argv[1:]
sides = [limner.Embeddings.load(f"{folder}/{name}.npy") for name in ("queries", "candidates")]
scores = limner.Scores.from_embeddings(*sides)
texts = limner.Items([str(n) for n in range(40)], [f"a caption {'a' * n}" for n in range(40)], kind="text")
with connect(address) as cluster:
    top, csls = scores.top(5), scores.correct("csls").top(5)
    vectors = cluster.encode(Lengths(), texts, batch=16)
found = {"top": top.indices, "scores": top.scores, "csls": csls.indices, "corrected": csls.scores}
np.savez(f"{folder}/found.npz", **found, vectors=vectors.matrix)
"""


def test_a_process_that_is_on_no_node(nodes, client_address, tmp_path):
    rng = np.random.default_rng(0)
    sides = []
    for name, count in (("queries", 600), ("candidates", 1500)):
        sides.append(Embeddings([f"{name}{n}" for n in range(count)], rng.standard_normal((count, 16))))
        sides[-1].save(tmp_path / f"{name}.npy")
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    command = [sys.executable, tmp_path / "notebook.py", client_address, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    stored, scores = np.load(tmp_path / "found.npz"), Scores.from_embeddings(*sides)
    for ranking, names in ((scores.top(5), ("top", "scores")), (scores.correct("csls").top(5), ("csls", "corrected"))):
        assert np.array_equal(ranking.indices, stored[names[0]]) and np.array_equal(ranking.scores, stored[names[1]])
    batches = [16] * 32 + [8] * 8
    assert stored["vectors"].tolist() == [[size, n + 10, n + 2] for n, size in enumerate(batches)]


class Proxy:
    """Stands for Ray's proxy, which starts no server for the first `failing` times that a client asks."""

    def __init__(self, failures_left):
        self.failing, self.asked = failures_left, 0

    def init(self, address, **options):
        self.asked += 1
        if self.asked <= self.failing:
            raise ConnectionAbortedError("Starting Ray client server failed")


def test_a_client_asks_again_for_a_server_that_did_not_start():
    proxy = Proxy(failures_left=2)
    _join(proxy, "ray://127.0.0.1:1")
    assert proxy.asked == 3


def test_a_client_gives_up_in_the_end():
    proxy = Proxy(failures_left=9)
    with pytest.raises(LimnerError, match=r"no Ray cluster at .* \(Starting Ray client server failed\)"):
        _join(proxy, "ray://127.0.0.1:1")
    assert proxy.asked == 3
