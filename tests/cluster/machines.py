"""One more node for the cluster on this machine."""

from __future__ import annotations

import socket
from typing import Any

STORE = 200 << 20
"""Bytes of a node's object store: small, so that what does not fit is tested too."""


def add_node(cluster: Any) -> Any:
    """One more node with one core."""
    return cluster.add_node(num_cpus=1, object_store_memory=STORE, node_ip_address="127.0.0.1")


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
