"""The same computation on a Ray cluster: inside `connect`, every pass over scores runs on its workers.

    with limner.cluster.connect("auto"):
        report = limner.evaluate(scores.correct("csls"), pairs.test)

Top-k, correction statistics and evaluation are passes over blocks of rows, and all of them go through `Scores.stream`
and `Scores.fold`. A worker gets a span of whole blocks and runs the same code as local threads, and states are merged
along the same tree, so results are bit-identical. If a worker or a node dies, only time is lost: its spans are computed
again elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from limner.cluster.ray_cluster import Cluster
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.scores.base import RUNNER
from limner.scores.parallel_blocks import TILE_COLUMNS, usable_cores

__all__ = ["Cluster", "connect"]

CLIENT_ATTEMPTS = 3
"""How often a process that is on no node asks the cluster for a server."""

_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def connect(address: str = "auto", *, shard: int | None = None, shared: str | Path | None = None) -> Iterator[Cluster]:
    """Joins a Ray cluster; inside the `with` block, passes over scores run there.

    Every node needs the same version of limner and of its dependencies. Arrays are sent once and kept in each node's
    shared memory until the `with` block ends.

    Args:
        address: "auto" for the cluster this machine belongs to (or the one this process has joined already),
            "host:port" for another that this machine is a node of, "ray://host:port" for a cluster that this machine is
            not part of, "local" for one that runs on this machine's cores until the `with` block ends.
        shard: Candidates per shard, if they are too many for one node; by default they are split when
            they would fill half of the smallest node's object store. Top-k and evaluation of plain products of vectors
            are done in shards; other passes need whole rows and get them.
        shared: A folder that every node sees under the same path. Arrays mapped from a file in it are not sent: every
            node maps the file itself.
    """
    if shard is not None and (shard < 1 or shard % TILE_COLUMNS):
        raise LimnerError(f"shard={shard}: expected a multiple of {TILE_COLUMNS}, the width of a tile")
    ray = _ray()
    joined = ray.is_initialized()
    if joined and address != "auto":
        raise LimnerError(
            f"this process is in a Ray cluster already, got {address!r}: use 'auto', or call ray.shutdown()"
        )
    if not joined:
        _join(ray, address)
    token = RUNNER.set(cluster := Cluster(shard, None if shared is None else Path(shared)))
    try:
        yield cluster
    finally:
        RUNNER.reset(token)
        cluster.forget()
        if not joined:
            ray.shutdown()


def _ray() -> ModuleType:
    """The ray module, with usage reports turned off; an error if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return needed("ray", what="a cluster")


@contextmanager
def _loopback() -> Iterator[None]:
    """Makes Ray listen on localhost only, as it does on macOS and Windows; on Linux it listens on the network.

    Ray has no argument for this and rejects a loopback address. It reads this environment variable, which its processes
    inherit, when it is imported.
    """
    from ray._private import ray_constants

    before = os.environ.get(_CLUSTERS), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[_CLUSTERS], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before[1]
        if before[0] is None:
            del os.environ[_CLUSTERS]
        else:
            os.environ[_CLUSTERS] = before[0]


def _join(ray: ModuleType, address: str) -> None:
    quiet: dict[str, object] = {"logging_level": "warning", "log_to_driver": False}
    if address == "local":
        quiet |= {"num_cpus": usable_cores(), "include_dashboard": False}
    try:
        with _loopback() if address == "local" else nullcontext():
            _init(ray, address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, ImportError, TimeoutError) as error:
        raise LimnerError(
            f"no Ray cluster at {address!r} ({error}): expected 'auto', 'local', 'host:port' or 'ray://host:port'; "
            "start one with 'ray start --head'"
        ) from error


def _init(ray: ModuleType, address: str, **options: Any) -> None:
    """`ray.init`, again where the cluster accepts a client but its server for that client did not start.

    The proxy behind ray:// forks that server while its own threads call gRPC, which now and then ends the child.
    """
    for _ in range(CLIENT_ATTEMPTS - 1):
        with suppress(ConnectionAbortedError):
            ray.init(address, **options)
            return
    ray.init(address, **options)
