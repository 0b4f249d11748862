"""limner ... --cluster ADDRESS: the same answer as without, and clear words where there is no cluster."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from limner import Embeddings, MissingExtra


def run(*words):
    return subprocess.run([sys.executable, "-m", "limner", *map(str, words)], capture_output=True, text=True)


def test_evaluate(nodes, tmp_path):
    rng = np.random.default_rng(0)
    images = rng.standard_normal((300, 16))
    texts = np.repeat(images, 5, axis=0) + 2 * rng.standard_normal((1500, 16))
    for name, matrix in (("images", images), ("texts", texts)):
        Embeddings([f"{name}{k}" for k in range(len(matrix))], matrix).save(tmp_path / f"{name}.npy")
    words = ["evaluate", "per-image:5", "--images", tmp_path / "images.npy", "--texts", tmp_path / "texts.npy"]
    local, remote = run(*words, "--json"), run(*words, "--json", "--cluster", nodes.address)
    assert remote.returncode == 0, remote.stderr
    assert json.loads(local.stdout) == json.loads(remote.stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["search", "nowhere", "a dog", "--cluster", "auto"], "--cluster is for --correct"),
        (["search", "nowhere", "a dog", "--cluster", "auto", "--correct", "csls"], "no index"),
    ],
)
def test_refused(words, message):
    done = run(*words)
    assert done.returncode in (2, 3) and message in done.stderr


def test_without_ray(monkeypatch):
    import limner.cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'limner\[cluster\]'"), limner.cluster.connect():
        pass
