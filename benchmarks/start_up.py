"""From typing to the first answer: limner's import, help, new index, search and evaluation, beside other ways.

Every command runs in a fresh process, in turn, with files in the system's cache. CPU-seconds are user and system time
of the process; seconds are by the clock. `import ranx`, `import sentence_transformers` and `import lancedb` are what
other programs for the same work pay before they do anything.

The evaluations read two files of vectors, 5,000 or 1,000 images with five captions each and 512 dimensions, once with
an empty cache of compiled loops and once with a full one. Beside them are two scripts in numpy that read these files
and print R@1, R@5 and R@10 of both directions, without intervals, from one product that is kept in memory: one takes
the ten best of every query with `argpartition`, one counts the scores above the best right one.
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


PRODUCT = """
import sys
import numpy as np
images, texts = (np.load(path) for path in sys.argv[1:])
images /= np.linalg.norm(images, axis=1, keepdims=True)
texts /= np.linalg.norm(texts, axis=1, keepdims=True)
scores, image_of = images @ texts.T, np.arange(len(texts)) // 5
"""
LISTS = """
def ten_best(scores):
    top = np.argpartition(-scores, 10, axis=1)[:, :10]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1)
    return np.take_along_axis(top, order, axis=1)
hits = image_of[ten_best(scores)] == np.arange(len(images))[:, None], ten_best(scores.T) == image_of[:, None]
for right in hits:
    print(*(f"R@{k} {100 * right[:, :k].any(axis=1).mean():.1f}" for k in (1, 5, 10)))
"""
COUNTS = """
own = scores[image_of, np.arange(len(texts))]
best = own.reshape(-1, 5).max(axis=1, keepdims=True)
for ranks in ((scores > best).sum(axis=1), (scores > own).sum(axis=0)):
    print(*(f"R@{k} {100 * (ranks < k).mean():.1f}" for k in (1, 5, 10)))
"""
SCRIPTS = {"lists of ten by argpartition": PRODUCT + LISTS, "counts of scores above": PRODUCT + COUNTS}
"""Recall in numpy, without intervals."""
EVALUATION = """
import sys
import numpy as np
import limner
images, texts = (np.load(path) for path in sys.argv[1:])
print(limner.evaluate(images, texts, per_image=5))
"""
SIZES, DIMENSIONS, NOISE = (5_000, 1_000), 512, 5.0
"""Images of the evaluations; each has five captions, whose vectors are its own and so much noise."""
TWICE = "limner computes a product for each direction, eight measures and their intervals; a script one product"
EMPTY = "empty cache"
"""What the name of a command ends with if it starts with an empty cache of compiled loops."""


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


def evaluations(folder: Path, images: int) -> dict[str, list[str]]:
    """The commands that evaluate vectors of as many images, which are written first."""
    rng, files = np.random.default_rng(0), [str(folder / f"{side}{images}.npy") for side in ("images", "texts")]
    vectors = rng.standard_normal((images, DIMENSIONS), dtype=np.float32)
    np.save(files[0], vectors)
    noise = rng.standard_normal((5 * images, DIMENSIONS), dtype=np.float32)
    np.save(files[1], np.repeat(vectors, 5, axis=0) + np.float32(NOISE) * noise)
    command = [*LIMNER, "evaluate", "per-image:5", "--images", files[0], "--texts", files[1]]
    script = [sys.executable, "-c", EVALUATION, *files]
    commands = {"limner evaluate": command, "import limner; limner.evaluate": script}
    named = {f"{name} {images}{state}": words for name, words in commands.items() for state in ("", f", {EMPTY}")}
    return named | {f"{name} {images}": [sys.executable, "-c", code, *files] for name, code in SCRIPTS.items()}


def as_installed(cache: str) -> dict[str, str]:
    """The environment, but byte code is kept: an installed program is not compiled each time it starts."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return inherited | {"NUMBA_CACHE_DIR": cache}


def cost(command: Sequence[str], cache: str) -> tuple[float, float]:
    """Seconds and CPU-seconds of a process with this cache of compiled loops."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, check=True, env=as_installed(cache), **quiet)
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
        for images in SIZES:
            commands |= evaluations(Path(folder), images)
        costs = _measured(commands, rounds, Path(folder))
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

    yield from _of_evaluations({name: cpu for name, (_, cpu) in costs.items()}, load)


def _of_evaluations(cpu: dict[str, float], load: str) -> Iterator[Claim]:
    for images in SIZES:
        size = f"{images:,} x {5 * images:,} ({DIMENSIONS} dimensions)"
        for way in ("limner evaluate", "import limner; limner.evaluate"):
            name, ours = f"{way}, {size}", cpu[f"{way} {images}"]
            cold = cpu[f"{way} {images}, {EMPTY}"]
            yield Claim(f"{name}, {EMPTY} vs full cache of compiled loops, CPU-seconds", cold, ours, "<= 1.5", load)
            for script in SCRIPTS if images == SIZES[0] else ():
                theirs = cpu[f"{script} {images}"]
                yield Claim(f"{name}, vs numpy ({script}), CPU-seconds", ours, theirs, "<= 1", f"{TWICE}; {load}")


def _measured(commands: dict[str, list[str]], rounds: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Medians of seconds and CPU-seconds, measured in turn after a first round that does not count."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            with tempfile.TemporaryDirectory() as empty:
                wall, cpu = cost(command, empty if name.endswith(EMPTY) else str(folder / "compiled"))
            log(f"round {number}/{rounds} {name}: {wall:.2f} s, {cpu:.2f} CPU s")
            costs[name] += [(wall, cpu)] if number else []
    return {
        name: (statistics.median(w for w, _ in each), statistics.median(c for _, c in each))
        for name, each in costs.items()
    }


if __name__ == "__main__":
    main(run, __doc__)
