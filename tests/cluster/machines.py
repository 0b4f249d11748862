"""One more node for the cluster on this machine."""

from __future__ import annotations

import itertools
import socket
from typing import Any

import psutil

STORE = 200 << 20
"""Bytes of a node's object store: small, so that what does not fit is tested too."""


ATTEMPTS = 3
"""How often a node is started on a machine so busy that Ray gives up waiting for it."""


def add_node(cluster: Any, **more: Any) -> Any:
    """One more node with one core."""
    options = {"num_cpus": 1, "object_store_memory": STORE, "node_ip_address": "127.0.0.1", **more}
    for attempt in itertools.count(1):
        children = psutil.Process().children(recursive=True)
        try:
            return cluster.add_node(**options)
        except Exception as error:
            if attempt == ATTEMPTS or "timed out during startup" not in str(error):
                raise
            for left in set(psutil.Process().children(recursive=True)) - set(children):
                left.kill()
    return None


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
