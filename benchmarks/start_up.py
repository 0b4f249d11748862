"""From typing to the first answer: importing limner, its help, a new index and one search, beside other packages.

Every command runs in a fresh process, in turn, with files in the system's cache. CPU-seconds are user and system time
of the process; seconds are by the clock. `import ranx`, `import sentence_transformers` and `import lancedb` are what
other programs for the same work pay before they do anything.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from claims import Claim, log, main

PEERS = ("ranx", "sentence_transformers", "lancedb")
FEW = 1_000
"""Vectors of a new index: what it takes beside them is measured."""
LIMNER = [sys.executable, "-c", "from limner.cli import app; app()"]
WITHOUT_PANDAS = """
import sys
class Absent:
    def find_spec(self, name, *rest):
        if name == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import pyarrow.dataset
del sys.meta_path[0]
from limner.cli import app; app()
"""
"""limner as where pandas is not installed: pyarrow imports it where it is, and `limner[store]` does not bring it."""


def imported(name: str) -> list[str]:
    return [sys.executable, "-c", f"import {name}"]


def written_inputs(folder: Path, rows: int) -> list[str]:
    """The command that searches an index of as many rows for one vector."""
    from limner import Embeddings
    from limner.search import index

    rng = np.random.default_rng(0)
    index(folder / "index", Embeddings(range(rows), rng.standard_normal((rows, 256), dtype=np.float32)))
    np.save(folder / "query.npy", rng.standard_normal((1, 256), dtype=np.float32))
    return [*LIMNER, "search", str(folder / "index"), "--queries", str(folder / "query.npy")]


def indexed(folder: Path, rows: int) -> list[str]:
    """The command that makes a new index of as many vectors; the one before is removed first."""
    vectors, place = folder / "vectors.npy", str(folder / "new")
    np.save(vectors, np.random.default_rng(1).standard_normal((rows, 256), dtype=np.float32))
    return ["sh", "-c", 'rm -rf "$0" && exec "$@"', place, *LIMNER, "index", place, "--embeddings", str(vectors)]


def as_installed() -> dict[str, str]:
    """The environment, but byte code is kept: an installed program is not compiled each time it starts."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cost(command: Sequence[str]) -> tuple[float, float]:
    """Seconds and CPU-seconds of a process."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=as_installed())
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(options: argparse.Namespace) -> Iterator[Claim]:
    rows, rounds = (10_000, 2) if options.quick else (100_000, 5)
    with tempfile.TemporaryDirectory() as folder:
        commands = {"import limner": imported("limner"), "limner --help": [*LIMNER, "--help"]}
        commands["limner search"] = written_inputs(Path(folder), rows)
        commands["limner index"] = indexed(Path(folder), FEW)
        commands["without pandas"] = [sys.executable, "-c", WITHOUT_PANDAS, *commands["limner search"][len(LIMNER) :]]
        commands |= {f"import {name}": imported(name) for name in PEERS if find_spec(name)}
        costs = _measured(commands, rounds)
    load = f"load average when measured {os.getloadavg()[0]:.1f}"
    yield Claim("import limner, CPU-seconds", costs["import limner"][1], goal="< 0.2", note=load)
    yield Claim("limner --help, CPU-seconds", costs["limner --help"][1], goal="< 1", note=load)
    first = f"limner search, one vector over {rows:,} x 256, from the command to the answer"
    yield Claim(f"{first}, seconds", costs["limner search"][0], goal="< 1.5", note=load)
    yield Claim(f"{first}, CPU-seconds", costs["limner search"][1], goal="< 1.5", note=load)
    new = f"limner index, a new index of {FEW:,} x 256, from the command to the answer"
    yield Claim(f"{new}, seconds", costs["limner index"][0], goal="< 1.5", note=load)
    yield Claim(f"{new}, CPU-seconds", costs["limner index"][1], goal="< 1.5", note=load)
    alone = f"{first}, pandas not installed, CPU-seconds"
    yield Claim(alone, costs["without pandas"][1], goal="< 1.5", note=load)
    for name in (each for each in PEERS if f"import {each}" in costs):
        ours = "limner search" if name == "lancedb" else "limner --help"
        theirs = costs[f"import {name}"][1]
        yield Claim(f"{ours} vs import {name}, CPU-seconds", costs[ours][1], theirs, goal="< 1", note=load)


def _measured(commands: dict[str, list[str]], rounds: int) -> dict[str, tuple[float, float]]:
    """Medians of seconds and CPU-seconds, measured in turn after a first round that does not count."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            wall, cpu = cost(command)
            log(f"round {number}/{rounds} {name}: {wall:.2f} s, {cpu:.2f} CPU s")
            costs[name] += [(wall, cpu)] if number else []
    return {
        name: (statistics.median(w for w, _ in each), statistics.median(c for _, c in each))
        for name, each in costs.items()
    }


if __name__ == "__main__":
    main(run, __doc__)
