"""What a newcomer pays for `limner demo`: CPU-seconds of the first run and of the next one.

Both run in a fresh process with the default settings. The first has an empty cache of compiled loops; Python's own
byte code is there already, as after an installation. CPU-seconds are user and system time of the process.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from claims import Claim, log, main

LIMNER = [sys.executable, "-c", "from limner.cli import app; app()"]


def cost(folder: Path, *options: str) -> float:
    """CPU-seconds of one demo that keeps its compiled code in this folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "compiled")}
    command = [*LIMNER, "demo", "-o", str(folder / "out"), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(options: argparse.Namespace) -> Iterator[Claim]:
    size_options = ("-O", "images=100") if options.quick else ()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "before").mkdir()
        cost(Path(folder) / "before", "-O", "images=25")  # Python writes its byte code
        first, second = (cost(Path(folder), *size_options) for _ in range(2))
    load = f"load average when measured {os.getloadavg()[0]:.1f}"
    log(f"first {first:.1f}, again {second:.1f} CPU-seconds, {load}")
    yield Claim("limner demo, first run, CPU-seconds", first, goal="<= 10", note=load)
    yield Claim("limner demo, compiled code cached, CPU-seconds", second, goal="<= 10", note=load)


if __name__ == "__main__":
    main(run, __doc__)
