"""A real Ray cluster on this machine's loopback: a head and a further node of one core each, with small stores."""

from __future__ import annotations

import faulthandler
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import add_node, free_port

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 300
"""Seconds to join the cluster, on a busy machine."""
collect_ignore = ["conftest.py"]  # no doctests here; and two files of this name would be taken for one


@pytest.fixture(scope="session")
def nodes() -> Iterator[Any]:
    """The nodes; `.address` joins them, `.add_node` and `.remove_node` change them."""
    environment = dict(os.environ)
    folder = tempfile.mkdtemp(prefix="limner-")  # short: the names of sockets in it may have 107 characters at most
    (Path(folder) / "ray").mkdir()  # Ray notes the current cluster there, and does not make the folder itself
    os.environ |= {
        "RAY_TMPDIR": folder,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), environment.get("PYTHONPATH", "")]).strip(os.pathsep),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "GRPC_ENABLE_FORK_SUPPORT": "0",  # the proxy forks only to start another program; gRPC's handlers can end that
        "RAY_worker_niceness": "0",  # Ray's is 15: beside other tests, its workers would wait for minutes
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on any system: use the loopback, whatever other address there is
    }
    # Ray reads settings when it is imported: a test that imports it before has made joining wait for ever.
    pytest.importorskip("ray", reason="no Ray here: pip install 'limner[cluster]'")
    from ray.cluster_utils import Cluster

    head = {"include_dashboard": False, "temp_dir": folder, "ray_client_server_port": free_port()}
    started = Cluster()
    try:
        add_node(started, **head)
        add_node(started)
        yield started
    finally:
        started.shutdown()
        os.environ.clear()
        os.environ.update(environment)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def client_address(nodes: Any) -> str:
    """The address for a process that is on none of the nodes."""
    return f"ray://127.0.0.1:{nodes.head_node._ray_params.ray_client_server_port}"


@pytest.fixture(scope="session")
def joined(nodes: Any) -> Iterator[Any]:
    """The nodes, with this process among them; `connect("auto")` then joins at once."""
    import ray

    # Ray can wait for its head for ever, deaf to signals: then this process ends, and with -n another takes its place.
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=sys.__stderr__)
    ray.init(nodes.address, log_to_driver=False, logging_level="warning")
    faulthandler.cancel_dump_traceback_later()
    yield nodes
    ray.shutdown()
