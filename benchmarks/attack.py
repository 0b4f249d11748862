"""The server under attack: clients that say nothing or too little, many logins, few file descriptors.

A real server in a process of its own on this machine alone. Attackers hold their connections open, send a byte a second
where they send at all, and come back when they are dropped, while simulated annotators answer pairs as in `serve.py`.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import random
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from claims import Claim, log, main
from serve import PASSWORD, TIMEOUT, Server, Storm, Tally, annotate, compared, fill, sessions

HEAD = b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"
WITHOUT_PROTOCOL = """
import socket
from limner.web import connections
class Plain(connections.Gate):
    def __init__(self, family, kind, protocol):
        super().__init__(family, kind)
connections.Gate = Plain
from limner.cli import app
app()
"""
"""The command with a listening socket as it was: of the right kind, but without the name of its protocol."""


# --- attackers --------------------------------------------------------------------------------------------------


def _besiege(port: int, idle: int, slow: int, ended: Event) -> None:
    """Holds so many connections open, in a process of its own."""
    says = [b""] * idle + [HEAD, BODY] * (slow // 2)
    sockets: list[socket.socket | None] = [None] * len(says)
    while not ended.wait(1.0):
        for place, opening_bytes in enumerate(says):
            sockets[place] = _reopened_if_closed(sockets[place], opening_bytes) or _opened(port, opening_bytes)


def _opened(port: int, opening_bytes: bytes) -> socket.socket | None:
    with suppress(OSError):
        opened = socket.create_connection(("127.0.0.1", port), timeout=1)
        opened.sendall(opening_bytes)
        opened.setblocking(False)
        return opened
    return None


def _reopened_if_closed(connection: socket.socket | None, opening_bytes: bytes) -> socket.socket | None:
    """The connection with one more byte; None if it was dropped."""
    if connection is None:
        return None
    try:
        if opening_bytes:
            connection.send(b"x")
        if connection.recv(4096):
            return connection
    except BlockingIOError:
        return connection
    except OSError:
        pass
    connection.close()
    return None


@contextmanager
def besieged(port: int, *, idle: int, slow: int) -> Iterator[None]:
    """Attackers while this lasts."""
    context = multiprocessing.get_context("spawn")
    ended = context.Event()
    attackers = context.Process(target=_besiege, args=(port, idle, slow, ended), daemon=True)
    attackers.start()
    time.sleep(3.0)  # until all of them are there
    try:
        yield
    finally:
        ended.set()
        attackers.join(20)
        attackers.kill()


# --- annotators meanwhile ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """How much work annotators have."""

    annotators: int = 50
    tasks: int = 100
    size: int = 20
    replication: int = 2
    think: float = 0.3
    images: int = 200

    @property
    def answers(self) -> int:
        """How many answers that makes."""
        return self.tasks * self.size * self.replication


@contextmanager
def working(server: Server, size: Size, tally: Tally) -> Iterator[list[threading.Thread]]:
    """Annotators at work, waited for in the end."""
    path = server.folder / "answers.db"
    cookies = sessions(path, size.annotators)
    people = [
        threading.Thread(
            target=annotate, args=(server, f"annotator {n}", cookies[n], tally, n, size.think), daemon=True
        )
        for n in range(size.annotators)
    ]
    for person in people:
        person.start()
    yield people
    for person in people:
        person.join()


@dataclass(frozen=True)
class Work:
    """What came of it: the store beside what was acknowledged, seconds of every submit, what it cost the server.

    The seconds count from the first try, however often a request has to be sent again. `cpu` is in CPU-seconds of the
    server, `written` in bytes of its log.
    """

    stored: Storm
    waits: list[float]
    cpu: float = 0.0
    written: int = 0

    @property
    def p95(self) -> float:
        """Milliseconds in which 95 of 100 answers are stored."""
        return 1000 * sorted(self.waits)[int(0.95 * (len(self.waits) - 1))]

    @property
    def median(self) -> float:
        """Milliseconds in which half of the answers are stored."""
        return 1000 * statistics.median(self.waits)


def worked(folder: Path, size: Size, *, idle: int = 0, slow: int = 0, descriptors: int = 0) -> Work:
    """All the work under attack."""
    path, tally = folder / "answers.db", Tally()
    fill(
        path,
        annotators=size.annotators,
        tasks=size.tasks,
        size=size.size,
        replication=size.replication,
        images=size.images,
    )
    server = Server(folder, images=size.images, descriptors=descriptors, log=folder / "log")
    server.start()
    try:
        with besieged(server.port, idle=idle, slow=slow):
            before, _ = server.cost()
            with working(server, size, tally):
                pass
            after, _ = server.cost()
    finally:
        server.kill()
    stored, written = compared(path, tally, size.replication, 0), (folder / "log").stat().st_size
    return Work(stored, tally.waits, after - before, written)


def logged_in(folder: Path, size: Size, logins: int) -> tuple[Work, int]:
    """All the work while many people log in at once, and how many of them came in."""
    path, tally = folder / "answers.db", Tally()
    people = max(size.annotators, logins)
    fill(path, annotators=people, tasks=size.tasks, size=size.size, replication=size.replication, images=size.images)
    server, replies = Server(folder, images=size.images), []
    server.start()

    def come(number: int) -> None:
        form = {"name": f"annotator {number}", "password": PASSWORD}
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        with suppress(OSError, http.client.HTTPException):
            words = "&".join(f"{name}={value.replace(' ', '+')}" for name, value in form.items())
            line.request("POST", "/login", words, {"Content-Type": "application/x-www-form-urlencoded"})
            replies.append(line.getresponse().status)
        line.close()

    try:
        with working(server, size, tally):
            while len(tally.acknowledged) < size.answers // 10:
                time.sleep(0.01)
            crowd = [threading.Thread(target=come, args=(n,), daemon=True) for n in range(logins)]
            for each in crowd:
                each.start()
            for each in crowd:
                each.join()
    finally:
        server.kill()
    return Work(compared(path, tally, size.replication, 0), tally.waits), replies.count(303)


# --- latency ----------------------------------------------------------------------------------------------------


def latency(folder: Path, asks: int, *program: str) -> float:
    """Median milliseconds of a small reply on a connection that is kept."""
    server = Server(folder, images=50, **({"program": program} if program else {}))
    server.start()
    try:
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
        took = []
        for _ in range(asks + 5):
            begun = time.perf_counter()
            line.request("GET", "/login")
            line.getresponse().read()
            took.append(time.perf_counter() - begun)
        return 1000 * statistics.median(took[5:])
    finally:
        server.kill()


# --- progress with many answers ---------------------------------------------------------------------------------


def grown(path: Path, people: int, tasks: int) -> int:
    """A store with the answers of many people to all its tasks; how many answers."""
    from limner.annotate.store import open_store
    from limner.annotate.store.people import annotators
    from limner.annotate.store.schema import assignment, judgement, sa, task_item

    fill(path, annotators=people, tasks=tasks, size=20, replication=2, images=1000)
    draw, answer_count = random.Random(0), 0
    with open_store(path) as store:
        everybody, timestamp = [each.id for each in annotators(store)], store.timestamp()
        with store.writing() as connection:
            items: dict[int, list[int]] = {}
            for row in connection.execute(sa.select(task_item.c.id, task_item.c.task_id)):
                items.setdefault(row.task_id, []).append(row.id)
            for task, item_ids in items.items():
                for annotator in draw.sample(everybody, 2):
                    reservation = {
                        "task_id": task,
                        "annotator_id": annotator,
                        "leased": timestamp,
                        "expires": timestamp,
                        "finished": timestamp,
                    }
                    key = connection.execute(sa.insert(assignment).values(**reservation)).inserted_primary_key[0]
                    common = {
                        "assignment_id": key,
                        "revision": 1,
                        "reasons": "[]",
                        "guideline": "1",
                        "added": timestamp,
                    }
                    rows = [
                        {**common, "item_id": item, "client_key": f"{key}-{item}", "grade": draw.choice((1, 2, 3, 4)),
                         "milliseconds": draw.randrange(500, 9000)}
                        for item in item_ids
                    ]  # fmt: skip
                    connection.execute(sa.insert(judgement), rows)
                    answer_count += len(rows)
    return answer_count


def watched(folder: Path, people: int, tasks: int) -> tuple[int, list[float]]:
    """How many answers there are, and the seconds of the admin's page: first, while it is worked out, and then."""
    answer_count = grown(folder / "answers.db", people, tasks)
    server, took = Server(folder, team=False), []
    server.start()
    try:
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        for _ in range(8):
            begun = time.perf_counter()
            line.request("GET", "/admin")
            reply = line.getresponse()
            assert reply.status == 200, reply.read()
            reply.read()
            took.append(time.perf_counter() - begun)
        return answer_count, took
    finally:
        server.kill()


# --- claims -----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> Iterator[Claim]:
    quick = options.quick
    size = Size(annotators=10, tasks=10, size=10, think=0.1) if quick else Size()
    yield _latency_claim(50 if quick else 500)
    yield from _siege_claims(size, *((60, 60) if quick else (300, 300)))
    yield from _login_claims(size, 60 if quick else 300)
    people, tasks = (20, 40) if quick else (100, 390)
    with tempfile.TemporaryDirectory() as folder:
        answer_count, took = watched(Path(folder), people, tasks)
    note = f"{took[0]:.2f} s at first, {statistics.median(took):.2f} s in the middle of eight"
    yield Claim(
        f"progress page, {answer_count:,} answers of {people} people: longest, s", max(took), goal="< 4", note=note
    )


def _latency_claim(asks: int) -> Claim:
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        before = latency(Path(theirs), asks, "-c", WITHOUT_PROTOCOL)
        after = latency(Path(ours), asks)
    log(f"a kept connection: {before:.1f} ms before, {after:.1f} ms now")
    note = "reference: the same server on a socket without the name of its protocol, as before"
    return Claim("reply on a kept connection, median ms", after, before, goal="<= 0.2", note=note)


def _siege_claims(size: Size, idle: int, slow: int) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as folder:
        quiet = worked(Path(folder), size)
    log(f"quiet: p95 {quiet.p95:.0f} ms")
    for descriptors in (0, 256):
        with tempfile.TemporaryDirectory() as folder:
            outcome = worked(Path(folder), size, idle=idle, slow=slow, descriptors=descriptors)
        limit_note = f", {descriptors} file descriptors" if descriptors else ""
        label = f"{idle} idle and {slow} slow clients, {size.annotators} annotators{limit_note}"
        stored = outcome.stored
        log(f"{label}: p95 {outcome.p95:.0f} ms, {stored.again} again, {outcome.written} bytes of log")
        note = (
            f"reference: without attackers; medians {outcome.median:.0f} and {quiet.median:.0f} ms; one machine for all"
        )
        bad = stored.lost + stored.doubled + len(stored.errors)
        yield Claim(f"{label}: p95 of a submit, ms", outcome.p95, quiet.p95, goal="<= 2", note=note)
        cost = f"reference: without attackers; {outcome.cpu:.1f} and {quiet.cpu:.1f} CPU-seconds for all answers"
        each = 1000 / size.answers
        yield Claim(f"{label}: CPU ms per answer", outcome.cpu * each, quiet.cpu * each, goal="<= 2", note=cost)
        yield Claim(f"{label}: acknowledged answers", stored.acknowledged, goal=f"== {size.answers}")
        yield Claim(f"{label}: answers lost, doubled or refused", bad, goal="== 0", note="; ".join(stored.errors[:2]))
        yield Claim(f"{label}: requests that had to be sent again", stored.again, goal=f"<= {size.answers // 100}")
        yield Claim(f"{label}: bytes of log", outcome.written, goal="< 20000")


def _login_claims(size: Size, logins: int) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as folder:
        outcome, came = logged_in(Path(folder), size, logins)
    label = f"{logins} logins at once from one address, {size.annotators} annotators"
    longest = 1000 * max(outcome.waits)
    log(f"{label}: p95 {outcome.p95:.0f} ms, longest {longest:.0f} ms, {came} came in")
    yield Claim(f"{label}: logins that came in", came, goal=f"== {logins}")
    yield Claim(f"{label}: p95 of a submit, ms", outcome.p95, goal="< 1000", note=f"median {outcome.median:.0f} ms")
    yield Claim(f"{label}: longest submit, ms", longest, goal="< 3000")


if __name__ == "__main__":
    main(run, __doc__)
