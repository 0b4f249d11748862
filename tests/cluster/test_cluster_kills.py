"""A driver that is killed: what it had written stays, what it had not is done again; the cluster lives on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import limner
from limner.search import open_index

pytestmark = pytest.mark.long
KILLS = 20


def begun(words, folder):
    return subprocess.Popen(
        [sys.executable, "-m", "limner", *map(str, words)],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(words, folder):
    """To its end; says how long it took."""
    began = time.monotonic()
    process = begun(words, folder)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 0, errors
    return time.monotonic() - began


def killed(words, folder, after):
    """Whether the kill came before the end."""
    process = begun(words, folder)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode != 0


@pytest.fixture(scope="module")
def folder_of_inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    world = limner.load("scenes", images=60)
    limner.train(world, "colours").save(folder / "m.npz")
    texts = [f"{text} {n}" for n in range(90) for text in world.texts.values]
    (folder / "texts.txt").write_text("\n".join(texts))
    return folder


def test_an_index_that_a_cluster_encodes_for(nodes, folder_of_inputs, tmp_path):
    def words(place):
        named = ("--items", folder_of_inputs / "texts.txt", "--model", folder_of_inputs / "m.npz", "--resume")
        return ("index", tmp_path / place, *named, "--cluster", nodes.address)

    seconds, draw = run(words("reference"), tmp_path), random.Random(2)
    reference = open_index(tmp_path / "reference")
    met = rows = place = 0
    while met < KILLS:
        met += killed(words(f"i{place}"), tmp_path, draw.uniform(0, seconds))
        if not (tmp_path / f"i{place}" / "items.lance" / "_versions").is_dir():
            continue
        cluster_index = open_index(tmp_path / f"i{place}")
        assert list(cluster_index.ids) == list(reference.ids)[: len(cluster_index)] and len(cluster_index) >= rows
        rows = len(cluster_index)
        if rows == len(reference):
            rows, place = 0, place + 1
    run(words(f"i{place}"), tmp_path)
    vectors = [np.concatenate(list(open_index(tmp_path / name).store.vectors())) for name in (f"i{place}", "reference")]
    assert len(reference) == len(vectors[0]) > 3 * 4096 and np.allclose(*vectors, atol=1e-6)


def test_a_report_that_a_cluster_computes(nodes, folder_of_inputs, tmp_path):
    def words(file):
        world = ("evaluate", "scenes", "-O", "images=60", "--model", folder_of_inputs / "m.npz")
        return (*world, "-o", tmp_path / file, "--cluster", nodes.address)

    seconds, draw = run(words("reference.json"), tmp_path), random.Random(3)
    expected = limner.Report.load(tmp_path / "reference.json").rows()
    met = 0
    while met < KILLS:
        (tmp_path / "r.json").write_text("old")
        met += killed(words("r.json"), tmp_path, draw.uniform(0.5, 1) * seconds)
        if (tmp_path / "r.json").read_text() != "old":
            assert limner.Report.load(tmp_path / "r.json").rows() == expected
    run(words("r.json"), tmp_path)
    assert limner.Report.load(tmp_path / "r.json").rows() == expected
