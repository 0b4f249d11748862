"""Which addresses a cluster listens on that limner itself starts, with none of the settings of the other tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("ray") is None, reason="no Ray here: pip install 'limner[cluster]'")
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc to see who listens")
def test_a_local_cluster_listens_to_this_machine_alone():
    code = """
import os, re
from pathlib import Path
import limner.cluster

def children(of):
    found = {of}
    while True:
        more = {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and parent(p) in found} - found
        if not more:
            return found
        found |= more

def parent(process):
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1

def sockets(process):
    try:
        links = [os.readlink(f) for f in Path(f"/proc/{process}/fd").iterdir()]
    except OSError:
        links = []
    return {m[1] for link in links if (m := re.fullmatch(r"socket:\\[(\\d+)\\]", link))}

with limner.cluster.connect("local"):
    ours = set().union(*(sockets(p) for p in children(os.getpid())))
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and cells[9] in ours:
                print(cells[1].partition(":")[0])
"""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=plain)
    assert done.returncode == 0, done.stderr
    listening = set(done.stdout.split())
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert listening and listening <= loopback, listening
    assert socket.gethostname()  # the machine has a name of its own that Ray could have chosen
