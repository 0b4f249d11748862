"""The same on every machine: a frozen record of what is computed, and kernels of linear algebra that do not matter."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
FROZEN = Path(__file__).with_name("same_everywhere.json")
PLAINEST = {"aarch64": "ARMV8", "arm64": "ARMV8", "x86_64": "Prescott", "AMD64": "Prescott"}


@pytest.fixture
def proof(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "proofs"))
    import same_everywhere

    return same_everywhere


def test_this_machine_computes_what_every_machine_does(proof):
    """Pixels, captions, judgements, features and rankings of a small world, to the last bit.

    Where a change of the world or of a system is meant: python proofs/same_everywhere.py --quick --save
    tests/same_everywhere.json
    """
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    differing = [name for name in proof.different(proof.record(quick=True), frozen) if name != "comparison"]
    assert differing == [], f"other values than on {frozen['machine']['family']}"


def test_records_of_both_kinds_of_machine_are_the_same(proof):
    """The whole record, demo included, as an aarch64 and an x86-64 machine wrote it."""
    paths = sorted((ROOT / "proofs" / "records").glob("*.json"))
    assert [path.stem for path in paths] == ["aarch64", "x86_64"]
    assert proof.compare(paths) == ""


def test_what_differs_is_named(proof):
    one = {"values": {"p": 0.25, "hash": "ab", "rows": [{"n": 1, "p": math.nan}]}}
    close = {"values": {"p": 0.25 * (1 + 1e-14), "hash": "ab", "rows": [{"n": 1, "p": 0.5}]}}
    far = {"values": {"p": 0.25 * (1 + 1e-9), "hash": "ac", "more": 1}}
    assert proof.different(one, close) == ["rows"]
    assert proof.different(one, far) == ["hash", "more", "p", "rows"]


def test_kernels_of_linear_algebra_do_not_matter():
    """OpenBLAS chooses kernels by the processor; with the plainest ones the scores are the same bits."""
    code = (
        "import hashlib, sys, limner\n"
        "world = limner.load('scenes', images=60)\n"
        "found = []\n"
        "for name, options in (('kcca', {'points': 40, 'images': 'histogram'}), ('histograms', {}), ('colours', {})):\n"
        "    scores = limner.train(world, name, **options).scores(world.test)\n"
        "    found.append(hashlib.sha256(scores.matrix().tobytes()).hexdigest())\n"
        "print(found)"
    )
    plain = {"OPENBLAS_CORETYPE": PLAINEST[platform.machine()], "OPENBLAS_NUM_THREADS": "1"}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")} | chosen,
        )
        for chosen in ({}, plain)
    ]
    assert runs[0].stdout == runs[1].stdout


def test_records_are_compared_value_by_value(proof, tmp_path, capsys):
    one = {"values": {"a": "x", "b": [1, 2], "c": 3}}
    changed = {"values": {"a": "x", "b": [1, 3], "d": 4}}
    assert proof.different(one, changed) == ["b", "c", "d"]
    assert proof.different(one, one) == []
    paths = [tmp_path / name for name in ("one.json", "other.json")]
    for path, record in zip(paths, (one, changed), strict=True):
        path.write_text(json.dumps(record))
    assert "one.json" in proof.compare(paths)
    assert proof.compare([paths[0], paths[0]]) == ""
    assert "3 values of one.json, other.json: 3 differ" in capsys.readouterr().err


def test_a_fingerprint_knows_types_shapes_and_not_byte_orders(proof):
    values = np.arange(6, dtype="<i4")
    assert proof.fingerprint(values) == proof.fingerprint(values.astype(">i4"))
    variants = [values.astype("<i8"), values.reshape(2, 3), values[::-1]]
    assert len({proof.fingerprint(each) for each in [values, *variants]}) == 4
    assert proof.fingerprint("a", "b") != proof.fingerprint("b", "a")
