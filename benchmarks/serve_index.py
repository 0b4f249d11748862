"""The page over an index: `limner serve --index` on 1,000,000 vectors of 256 numbers, beside LanceDB's own scan.

A person asks for images like an image: the server looks up its vector by id, searches all others exactly, and answers
as JSON. The reference is LanceDB's search for the same vectors, already in hand, without a server. The memory is that
of the server after all queries; the vectors alone are rows x 256 x 4 bytes.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from claims import Claim, log, main

DIM, K, ASKED = 256, 12, 60


def made(folder: Path, rows: int) -> Any:
    """An index of random directions, as images whose files are elsewhere; and the ids and vectors of the queries."""
    from limner import Embeddings, Items
    from limner.search import index

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((rows, DIM), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = [f"image-{number:07d}" for number in range(rows)]
    log(f"making an index of {rows:,} vectors")
    index(folder / "photos.index", Embeddings(ids, vectors), Items(ids, [f"/elsewhere/{key}.jpg" for key in ids]))
    chosen = rng.choice(rows, ASKED, replace=False)
    return [ids[int(row)] for row in chosen], vectors[chosen]


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """`limner serve --index` in a process of its own: its address and process number."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "limner", "serve", "--index", "photos.index", "--port", str(port)]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                    break
            except OSError:
                if process.poll() is not None:
                    raise SystemExit("the server ended by itself") from None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


def asked(address: str, key: str) -> list[str]:
    """The ids that the page finds for images like this one."""
    with urllib.request.urlopen(f"{address}/api/search?image={quote(key)}&find=images&k={K}", timeout=60) as reply:
        return [answer["id"] for answer in json.load(reply)["columns"][0]["answers"]]


def resident(process: int) -> float:
    """Memory of a process in MB."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def run(options: Any) -> Iterator[Claim]:
    """Measures the page and LanceDB, query by query in turn."""
    import lancedb

    rows = 50_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there)
        keys, vectors = made(folder, rows)
        table = lancedb.connect(folder / "photos.index").open_table("items")
        ours, theirs, same = [], [], 0
        with served(folder) as (address, process):
            asked(address, keys[0])
            for key, vector in zip(keys, vectors, strict=True):
                began = time.perf_counter()
                found = asked(address, key)
                ours.append(time.perf_counter() - began)
                began = time.perf_counter()
                near = (
                    table.search(vector)
                    .distance_type("dot")
                    .limit(K + 1)
                    .select(["id", "_distance"])
                    .to_arrow()["id"]
                    .to_pylist()
                )
                theirs.append(time.perf_counter() - began)
                same += [each for each in near if each != key][:K] == found
            memory = resident(process)
    size = f"{rows:,} x {DIM}"
    p95 = [1000 * float(np.quantile(times, 0.95)) for times in (ours, theirs)]
    note = "the page also looks up the query by its id, reads ids and values, and answers by HTTP"
    yield Claim(
        f"images like an image over {size}: p95 of the page vs LanceDB's scan, ms", *p95, goal="<= 1.5", note=note
    )
    yield Claim(f"lists of the page that are LanceDB's, of {ASKED}, over {size}", float(same), goal=f">= {ASKED}")
    yield Claim(f"server memory over {size} vs the vectors alone, MB", memory, rows * DIM * 4 / 2**20, goal="<= 1.5")


if __name__ == "__main__":
    main(run, __doc__)
