"""A judge behind an endpoint: pairs per second with several requests at once, with faults, and from the cache.

The endpoint is a stub on loopback that answers after 200 ms. Each answer is in the store before it counts.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import limner
from claims import Claim, log, main
from judge_stub import Stub, running
from limner.annotate import open_store
from limner.annotate.endpoint import EndpointJudge
from limner.annotate.endpoint_requests import ReplyCache
from limner.annotate.judge_runs import ask_all
from limner.annotate.store.contents import add_collection
from limner.annotate.store.designs import machine_answers

LATENCY = 0.2
RATE = 25
"""Requests a second that an endpoint with a limit takes."""
FAULTS = 0.1
"""The share of requests that fail: status 429, status 500, a cut connection, wrong JSON."""


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Each way of asking, on a new store."""
    world = limner.load("scenes", images=200)
    number = 400 if options.quick else 2000
    pairs = random.Random(0).sample([(i, t) for i in world.images.ids for t in world.texts.ids], number)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with running(latency=LATENCY) as stub:
            one = _pace(folder, world, pairs[: number // 20], stub, concurrency=1)
            parallel = _pace(folder, world, pairs, stub, concurrency=32, cache=ReplyCache(folder))
            cached = _pace(folder, world, pairs, stub, concurrency=32, cache=ReplyCache(folder))
            together = _pace(folder, world, sorted(pairs), stub, concurrency=32, pairs_per_request=5)
        with running(latency=LATENCY, faults=FAULTS) as stub:
            faulty = _pace(folder, world, pairs, stub, concurrency=32)
            note = f"{faulty.requests:,} requests; " + ", ".join(f"{n:,} {kind}" for kind, n in stub.statuses.items())
        with running(latency=LATENCY, per_second=RATE) as stub:
            limited = _pace(folder, world, pairs[: number // 4], stub, concurrency=32)
            refused = f"{stub.statuses['429']:,} of {limited.requests:,} requests were refused"
    yield Claim("pairs per second, one at a time", one.rate, 1 / LATENCY, "<= 1", source="theory")
    yield Claim("pairs per second, 32 at once", parallel.rate, goal=">= 50", note=f"at most {32 / LATENCY:g}")
    yield Claim("pairs per second, 32 at once, one request in ten fails", faulty.rate, goal=">= 50", note=note)
    yield Claim("pairs per second, 32 at once, up to 5 pairs in a request", together.rate, goal=">= 50")
    yield Claim("requests for pairs whose answers are in the cache", cached.requests, goal="<= 0")
    words = f"pairs per second, 32 at once, at an endpoint that takes {RATE} requests a second"
    yield Claim(words, limited.rate, RATE, ">= 0.7", refused, "theory")
    yield Claim("pairs without an answer at that endpoint", limited.failed, goal="<= 0")


@dataclass(frozen=True)
class _Speed:
    """Pairs per second, requests, and pairs without an answer."""

    rate: float
    requests: int
    failed: int


def _pace(folder: Path, world: Any, pairs: list[Any], stub: Stub, **settings: Any) -> _Speed:
    """Asks for all pairs, on a new store."""
    with open_store(folder / f"{time.time_ns()}.db") as store:
        add_collection(store, world)
        judge = EndpointJudge(stub.url, "stub", world, **settings)
        began = time.perf_counter()
        result = ask_all(store, judge, pairs)
        seconds = time.perf_counter() - began
        assert len(machine_answers(store, judge.name)) == len(pairs) - result["failed"], "an answer is missing"
        log(f"{settings}: {len(pairs) / seconds:.1f} pairs/s, {result}, at most {stub.highest} at once")
        return _Speed(len(pairs) / seconds, result["requests"], result["failed"])


if __name__ == "__main__":
    main(run, __doc__)
