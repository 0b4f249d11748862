"""An index in S3-compatible storage, on a local server: the answers of a local index, through failures and kills."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from limner import Embeddings, LimnerError
from limner.search import index, open_index

KEY, SECRET = "AKIATESTINGKEY", "this-secret-is-never-shown"
VECTORS = np.random.default_rng(0).standard_normal((600, 16)).astype(np.float32)


class Storage:
    """An application in front of the server that counts requests, refuses some, and can hold an upload."""

    def __init__(self, served):
        self.served, self.asked = served, []
        self.refused, self.held, self.arrived, self.go_on = 0, False, threading.Event(), threading.Event()

    def __call__(self, environ, start):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.asked.append((method, path))
        if self.refused > 0:
            self.refused -= 1
            start("503 Slow Down", [("Content-Type", "text/plain")])
            return [b"slow down"]
        if self.held and method == "PUT" and "/data/" in path:
            self.held = False
            self.arrived.set()
            self.go_on.wait(60)
        return self.served(environ, start)


@pytest.fixture(scope="module")
def storage():
    with pytest.MonkeyPatch.context() as path:
        path.setattr(sys, "path", [*sys.path, str(Path(sys.prefix) / "s3")])  # where `make test` puts it
        yield from served()


def served():
    pytest.importorskip("moto.server", reason="no S3 server here: 'make test' installs one from locks/s3.txt")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *words):
            pass

    storage = Storage(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, storage, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    settings = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}", "AWS_ALLOW_HTTP": "true"}
    settings |= {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        urllib.request.urlopen(urllib.request.Request(f"{settings['AWS_ENDPOINT_URL']}/bucket", method="PUT"))
        yield storage
    server.shutdown()
    thread.join()


def embeddings(low, high):
    return Embeddings([str(n) for n in range(low, high)], VECTORS[low:high])


def same_hits(one, second):
    queries = np.concatenate([VECTORS[:5], VECTORS[595:]])
    first_hits, second_hits = one.search(queries, 7), second.search(queries, 7)
    return [first_hits[key] for key in first_hits.queries.ids] == [second_hits[key] for key in second_hits.queries.ids]


def run(*words):
    return subprocess.run([sys.executable, "-m", "limner", *map(str, words)], capture_output=True, text=True)


def test_the_answers_of_a_local_index(storage, tmp_path):
    changed = []
    for place in (tmp_path / "local", "s3://bucket/answers"):
        vector_index = index(place, embeddings(0, 400))
        vector_index.add(embeddings(400, 600))
        vector_index.delete(["7", "450"])
        vector_index.compact()
        changed.append(open_index(place))
    local, remote = changed
    assert len(remote) == 598 and list(remote.ids) == list(local.ids) and same_hits(local, remote)
    assert [each.rows for each in remote.versions()] == [each.rows for each in local.versions()]


def test_vectors_in_memory_are_not_fetched_again(storage):
    index("s3://bucket/cached", embeddings(0, 500))
    opened = open_index("s3://bucket/cached")
    first = [opened.search(VECTORS[:5], 3) for _ in range(2)][-1]  # the vectors are loaded
    before = len(storage.asked)
    second = opened.search(VECTORS[:5], 3)
    assert [first[key] for key in first.queries.ids] == [second[key] for key in second.queries.ids]
    assert not [path for _, path in storage.asked[before:] if "/data/" in path]


def test_requests_that_fail_are_sent_again(storage):
    vector_index = index("s3://bucket/flaky", embeddings(0, 300))
    for change in (lambda: vector_index.add(embeddings(300, 400)), lambda: vector_index.search(VECTORS[:3], 2)):
        storage.refused = 3
        change()
        assert storage.refused == 0
    assert len(open_index("s3://bucket/flaky")) == 400


ADDING = """
import sys
import numpy as np
from limner import Embeddings
from limner.search import open_index

opened, vectors = open_index("s3://bucket/killed"), np.load(sys.argv[1])
for low in range(200, 600, 100):
    opened.add(Embeddings([str(n) for n in range(low, low + 100)], vectors[low : low + 100]))
    print(low, flush=True)
"""


def test_a_writer_that_is_killed_in_the_middle_of_an_upload(storage, tmp_path):
    """What was acknowledged is there, what was not is not there in part, and the next writer goes on."""
    vector_index = index("s3://bucket/killed", embeddings(0, 200))
    np.save(tmp_path / "vectors.npy", VECTORS)
    writer = subprocess.Popen(
        [sys.executable, "-c", ADDING, tmp_path / "vectors.npy"], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None and writer.stdout.readline() == "200\n"
    storage.held = True
    assert storage.arrived.wait(60)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    storage.go_on.set()
    time.sleep(0.2)
    reopened = open_index("s3://bucket/killed")
    assert len(reopened) % 100 == 0 and list(reopened.ids) == [str(n) for n in range(len(reopened))]
    vector_index.refresh()
    vector_index.add(embeddings(0, 600), existing="skip")
    vector_index.compact(keep_days=1)
    assert list(open_index("s3://bucket/killed").ids) == [str(n) for n in range(600)]
    assert same_hits(index(tmp_path / "whole", embeddings(0, 600)), open_index("s3://bucket/killed"))


def test_from_the_shell_and_no_key_is_shown(storage, tmp_path):
    embeddings(0, 50).save(tmp_path / "vectors.npy")
    embeddings(0, 1).save(tmp_path / "query.npy")
    done = run("index", "s3://bucket/shell", "--embeddings", tmp_path / "vectors.npy")
    assert done.returncode == 0, done.stderr
    result = run("search", "s3://bucket/shell", "--queries", tmp_path / "query.npy")
    missing = run("search", "s3://no-such-bucket/shell", "--queries", tmp_path / "query.npy")
    assert result.returncode == 0 and "50 items searched, exact" in result.stdout
    assert missing.returncode in (2, 3) and len(missing.stderr.strip().splitlines()) == 1, missing.stderr
    for text in (each.stdout + each.stderr for each in (done, result, missing)):
        assert SECRET not in text and KEY not in text


def test_a_key_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(LimnerError, match="a key in the address s3://...@bucket/x: leave it out") as refused:
        open_index(f"s3://{KEY}:{SECRET}@bucket/x")
    assert SECRET not in str(refused.value) and KEY not in str(refused.value)
