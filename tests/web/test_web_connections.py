"""Clients that say nothing, or too slowly, or too much: they cost little, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import attack
import websites
from limner.web.connections import BURST, Connections, Limits, affordable, listen
from limner.web.rate_limits import BoundedLog

ROOT = Path(__file__).resolve().parents[2]
SHORT = Limits(first=0.5, body=0.5, idle=1.0, next=1.0)
HALF_HEAD = b"GET /login HTTP/1.1\r\nHost: localhost\r\n"
HALF_BODY = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\nname="
PATIENCE = 60.0  # a test waits so long for what must come


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return websites.client(websites.filled(tmp_path_factory.mktemp("store") / "answers.db"), team=True).app


def connected(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname, url.port), timeout=PATIENCE)


def ended(sock: socket.socket) -> bool:
    """Whether the server ends a connection; what it says before is not looked at."""
    try:
        while sock.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def status_of(address: str, path: str = "/login") -> int:
    url = urlsplit(address)
    with closing(http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE)) as line:
        line.request("GET", path)
        reply = line.getresponse()
        reply.read()
        return reply.status


# --- deadlines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent_bytes",
    [
        b"",
        HALF_HEAD,
        HALF_BODY,
        b"POST /judge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\nanswered before it is read",
        b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\nGET /login HTTP/1.1\r\n",
    ],
    ids=["nothing", "half a head", "half a body", "a body that nobody wants", "one request", "one and a half"],
)
def test_a_client_that_falls_silent_is_let_go(app, sent_bytes):
    with websites.running(app, limits=SHORT) as address, closing(connected(address)) as sock:
        sock.sendall(sent_bytes)
        assert ended(sock)
        assert status_of(address) == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n",
        b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\nGET /login HTTP/1.1\r\nX-Slow: ",
    ],
    ids=["head", "body", "second head"],
)
def test_one_byte_at_a_time_gains_no_time(app, head):
    with websites.running(app, limits=SHORT) as address, closing(connected(address)) as sock:
        sock.sendall(head)
        with pytest.raises(OSError):
            drip(sock)


def drip(sock: socket.socket) -> None:
    """Sends a byte now and then, as long as somebody takes it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        sock.sendall(b"x")
        time.sleep(0.05)


def test_a_body_may_take_its_time_while_it_comes(app):
    """Slow, but faster than the rate that is asked for: longer than `body` allows without it."""
    limits = Limits(body=0.5, rate=1000.0)
    with websites.running(app, limits=limits) as address, closing(connected(address)) as sock:
        sock.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n")
        for _ in range(9):
            sock.sendall(b"x" * 1000)
            time.sleep(0.4)
        assert b" 401 " in sock.recv(65_536).split(b"\r\n")[0]


def test_a_client_that_does_not_read_is_let_go(app):
    large = websites.client(app.state.site.store_at, team=True).app
    large.router.routes.insert(0, _large())
    with websites.running(large, limits=SHORT) as address, closing(connected(address)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until = time.monotonic() + PATIENCE
        while len(large.state.connections) and time.monotonic() < until:
            time.sleep(0.1)
        assert len(large.state.connections) == 0


def _large():
    from starlette.responses import Response
    from starlette.routing import Route

    return Route("/large", lambda request: Response(bytes(30_000_000)))


def test_a_handshake_that_never_comes_is_let_go(app, tmp_path):
    certificate, key = certified(tmp_path)
    with (
        websites.running(app, limits=SHORT, certificate=certificate, key=key) as address,
        closing(connected(address)) as silent,
    ):
        assert ended(silent)
        context = ssl.create_default_context(cafile=certificate)
        url = urlsplit(address)
        with closing(http.client.HTTPSConnection("localhost", url.port, timeout=PATIENCE, context=context)) as line:
            line.request("GET", "/login")
            assert line.getresponse().status == 200


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate of this machine's own, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    return certificate, key


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_whoever_goes_in_the_middle_is_not_written_about(app, caplog, kind):
    head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 50\r\n\r\n--b"
    with caplog.at_level(logging.WARNING), websites.running(app) as address:
        logging.getLogger("uvicorn.error").addHandler(caplog.handler)
        for _ in range(3):
            with closing(connected(address)) as sock:
                sock.sendall(head.encode())
        until = time.monotonic() + PATIENCE
        while len(app.state.connections) and time.monotonic() < until:
            time.sleep(0.02)
        assert status_of(address) == 200
    logging.getLogger("uvicorn.error").removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records] == []


def test_no_work_is_begun_for_half_a_body(app):
    """Otherwise a client that is slow counts as one that is being worked for, and cannot be dropped."""
    begun = []

    async def counted(scope, receive, send):
        begun.append(scope["type"] == "http" and scope["method"])
        await app(scope, receive, send)

    counted.state = app.state
    with websites.running(counted, limits=SHORT) as address, closing(connected(address)) as sock:
        sock.sendall(HALF_BODY)
        assert ended(sock)
        assert status_of(address) == 200
    assert "POST" not in begun


# --- too many ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent_bytes", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "half a head", "half a body"])
def test_a_visitor_comes_in_however_many_say_nothing(app, sent_bytes):
    with websites.running(app, limits=Limits(most=8)) as address, ExitStack() as stack:
        silent = [stack.enter_context(closing(connected(address))) for _ in range(40)]
        for sock in silent:
            with suppress(OSError):  # dropped already
                sock.sendall(sent_bytes)
        assert status_of(address) == 200
        until = time.monotonic() + PATIENCE
        while len(app.state.connections) > 8 and time.monotonic() < until:
            time.sleep(0.02)  # what was dropped is let go of at the next turn of the server's loop
        assert len(app.state.connections) <= 8
        assert ended(silent[0]), "the one that waited longest is the one that went"


def test_whoever_is_being_worked_for_stays(app):
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    entered, may_go = threading.Event(), threading.Event()

    def slow(request):
        entered.set()
        may_go.wait(PATIENCE)
        return PlainTextResponse("done")

    app.router.routes.insert(0, Route("/slow", slow))
    with websites.running(app, limits=Limits(most=4)) as address, ExitStack() as stack:
        sock = stack.enter_context(closing(connected(address)))
        sock.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert entered.wait(PATIENCE)
        for _ in range(20):
            stack.enter_context(closing(connected(address)))
        assert status_of(address) == 200
        may_go.set()
        assert sock.recv(65_536).startswith(b"HTTP/1.1 200")
        workers = [stack.enter_context(closing(connected(address))) for _ in range(4)]
        may_go.clear()
        for each in workers:
            each.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until = time.monotonic() + PATIENCE
        while sum(each.step == "server" for each in opened(app)) < 4:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert status_of(address) == 503, "nobody is left who could go: whoever comes now is told to come again"
        may_go.set()
        assert all(each.recv(65_536).startswith(b"HTTP/1.1 200") for each in workers)


def opened(app):
    return app.state.connections.open


def test_whoever_sends_two_requests_at_once_stays_while_the_second_is_worked_on():
    async def two_requests():
        connections = Connections()
        connection = connections.accepted(_FakeSocket(), ("one", 1))
        running = []

        async def app(scope, receive, send):
            if scope["path"] == "/first":
                running.append(asyncio.create_task(answer("/second")))
            await asyncio.sleep(0 if scope["path"] == "/first" else 1000)

        async def body():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def answer(path):
            await connections.watch(app)({"type": "http", "path": path, "client": ("one", 1)}, body, None)

        await answer("/first")
        await asyncio.sleep(0)
        step = connection.step
        running[0].cancel()
        return step, (await asyncio.gather(*running, return_exceptions=True)) and connection.step

    steps = []
    thread = threading.Thread(target=lambda: steps.append(asyncio.run(two_requests())))
    thread.start()
    thread.join()
    assert steps == [("server", "next")]


class _FakeSocket:
    """A socket without a network."""

    closed = False

    def fileno(self) -> int:
        return -1 if self.closed else 5

    def shutdown(self, direction: int) -> None:
        self.closed = True


def test_the_address_with_most_connections_loses_first_and_then_whoever_waited_longest():
    clock = [0.0]
    connections = Connections(Limits(most=5), clock=lambda: clock[0])
    accepted = []
    for port, address in enumerate(["honest", "stranger", "stranger", "stranger", "working"]):
        clock[0] += 1
        accepted.append(connections.accepted(_FakeSocket(), (address, port)))
        accepted[-1].step = "server" if address == "working" else "next"
    dropped = []
    for _ in range(5):
        connections.drop_some()
        dropped.append([port for port, each in enumerate(accepted) if each.gone])
    assert dropped == [[1], [1, 2], [1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]


def test_a_slow_body_is_no_better_than_silence_but_one_that_comes_is():
    """Had slow bodies been spared, they alone would hold every place."""
    clock = [0.0]
    connections = Connections(Limits(most=3, rate=1000.0), clock=lambda: clock[0])
    accepted = [connections.accepted(_FakeSocket(), ("one", port)) for port in range(3)]
    for connection, step in zip(accepted, ("body", "body", "first"), strict=True):
        connection.step = step
    swept = threading.Thread(target=lambda: asyncio.run(connections.sweep()))  # the browser tests have a loop here
    swept.start()
    swept.join()
    accepted[0].received = 100_000
    clock[0] = 5.0
    dropped = []
    for _ in range(3):
        connections.drop_some()
        dropped.append([port for port, each in enumerate(accepted) if each.gone])
    assert dropped == [[1], [1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("received", "dropped"), [(0, [True, True, True, False]), (200_000, [True, False, True, False])]
)
def test_each_step_of_a_client_has_its_time_and_a_body_that_comes_has_more(received, dropped):
    clock = [0.0]
    connections = Connections(Limits(), clock=lambda: clock[0])
    accepted = [connections.accepted(_FakeSocket(), ("one", port)) for port in range(4)]
    for connection, step in zip(accepted, ("first", "body", "next", "server"), strict=True):
        connection.step, connection.received = step, received
    clock[0] = 35.0
    swept = threading.Thread(target=lambda: asyncio.run(connections.sweep()))
    swept.start()
    swept.join()
    assert [each.gone for each in accepted] == dropped


def test_no_more_are_let_in_than_can_be_closed():
    """What is dropped keeps its descriptor until the event loop looks: here it never does."""
    with closing(listen("127.0.0.1", 0, Connections(Limits(most=32)))) as gate, ExitStack() as stack:
        gate.setblocking(False)
        for _ in range(80):
            stack.enter_context(closing(socket.create_connection(gate.getsockname(), timeout=PATIENCE)))
        for _ in range(32 + BURST):
            stack.enter_context(closing(gate.accept()[0]))
        with pytest.raises(BlockingIOError):
            gate.accept()


def test_as_many_connections_as_there_are_descriptors():
    limits = affordable()
    assert 16 <= limits.most <= Limits.most


# --- file descriptors, and the log ------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="no ulimit")
def test_a_few_descriptors_are_enough_and_the_log_stays_short(tmp_path):
    """The attack as it was: more silent clients than the process has descriptors, and then plain nonsense."""
    command = f"ulimit -n 56; exec {sys.executable} -m limner serve scenes --team --port 0 --json -O images=50"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with (tmp_path / "log").open("wb") as log, ExitStack() as stack:
        server = subprocess.Popen(
            ["bash", "-c", command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        try:
            report = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")
            for number in range(150):
                sock = stack.enter_context(closing(connected(report["url"])))
                sock.sendall((b"", HALF_HEAD, HALF_BODY)[number % 3])
                assert number % 10 or status_of(report["url"]) == 200
            assert [status_of(report["url"]) for _ in range(5)] == [200] * 5
            for _ in range(300):
                with closing(connected(report["url"])) as sock:
                    sock.sendall(b"nonsense\r\n\r\n")
                    ended(sock)
            assert status_of(report["url"]) == 200
        finally:
            server.kill()
            server.wait()
    assert (tmp_path / "log").stat().st_size < 20_000


@pytest.mark.long
@pytest.mark.parametrize("descriptors", [0, 256])
def test_annotators_lose_nothing_to_600_clients_that_say_nothing_or_too_little(tmp_path, descriptors):
    size = attack.Size()
    outcome = attack.worked(tmp_path, size, idle=300, slow=300, descriptors=descriptors)
    assert outcome.stored.acknowledged == size.answers
    assert (outcome.stored.lost, outcome.stored.doubled, outcome.stored.over, outcome.stored.errors) == (0, 0, 0, [])
    assert outcome.stored.again <= size.answers // 100
    assert outcome.written < 20_000


def test_annotators_lose_nothing_to_40_of_them(tmp_path):
    """The small form of benchmarks/attack.py: as many attackers as there are places, and a few people at work."""
    size = attack.Size(annotators=3, tasks=3, size=6, replication=1, think=0.05, images=50)
    outcome = attack.worked(tmp_path, size, idle=20, slow=20, descriptors=150)
    assert outcome.stored.acknowledged == size.answers
    assert (outcome.stored.lost, outcome.stored.doubled, outcome.stored.errors) == (0, 0, [])
    assert outcome.written < 20_000


def test_a_line_of_the_log_is_written_a_few_times_and_then_counted():
    clock, written = [0.0], []
    bounded = BoundedLog(burst=3, every=10.0, clock=lambda: clock[0])

    def say(line: int, text: str) -> None:
        record = logging.LogRecord("limner.web", logging.WARNING, "x.py", line, text, (), None)
        if bounded.filter(record):
            written.append(record.getMessage())

    for _ in range(1000):
        say(1, "again")
    say(2, "something else")
    clock[0] = 10.0
    say(1, "again")
    assert written == ["again"] * 3 + ["something else", "again (and 997 times more before this)"]


# --- latency ----------------------------------------------------------------------------------------------------


def test_small_replies_are_sent_at_once(app):
    """Without TCP_NODELAY every reply on a kept connection waits 40 ms for the client; see benchmarks/attack.py."""
    with websites.running(app) as address, closing(connected(address)) as sock:
        sock.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(100)
        (connection,) = opened(app)
        assert connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
