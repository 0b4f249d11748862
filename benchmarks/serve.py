"""The server under fire: many annotators at once, killed again and again; attacks on its login; what it costs.

A real server in a process of its own, asked over HTTP by as many simulated annotators as a team has, and killed with
SIGKILL at random moments: every answer that was acknowledged must be there afterwards, once. The clients keep their
keys and send again what was not acknowledged, as the page does.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from claims import ROOT, Claim, log, main

PASSWORD = "a password for the benchmark"
TIMEOUT = 10


@dataclass
class Server:
    """A server process that can be killed and started again on the same port and store.

    `program` is what Python runs before the command's own words, `descriptors` how many files the process may hold
    open, `log` where it writes what it has to say, and `code` the checkout that it runs.
    """

    folder: Path
    team: bool = True
    images: int = 200
    port: int = 0
    program: tuple[str, ...] = ("-m", "limner")
    descriptors: int = 0
    log: Path | None = None
    code: Path = ROOT
    process: subprocess.Popen[str] | None = None
    invitation: str | None = None

    def start(self) -> None:
        """Starts, and waits until it answers."""
        self.port = self.port or free_port()
        command = [sys.executable, *self.program, "serve", "scenes", "-O", f"images={self.images}", "--json"]
        command += [
            "--store",
            str(self.folder / "answers.db"),
            "--port",
            str(self.port),
            *(["--team"] if self.team else []),
        ]
        environment = os.environ | {"PYTHONPATH": str(self.code / "src")}
        with self.log.open("ab") if self.log else nullcontext() as log_file:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log_file, text=True, env=environment, preexec_fn=self._limit
            )
        assert self.process.stdout is not None
        state = json.loads("".join(iter(self.process.stdout.readline, "}\n")) + "}")
        self.invitation = self.invitation or state["invitation"]
        self._await()

    def _limit(self) -> None:
        if self.descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

    def _await(self) -> None:
        for _ in range(600):
            try:
                self.ask("GET", "/login")
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the server never answered")

    def kill(self) -> None:
        """Ends it as a power cut would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(
        self, method: str, path: str, *, body: object = None, form: dict[str, str] | None = None, cookie: str = ""
    ) -> Reply:
        """One request on a connection of its own; OSError where no whole reply came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        headers = {"Cookie": cookie} if cookie else {}
        data = None
        if form is not None:
            data, headers["Content-Type"] = urlencode(form), "application/x-www-form-urlencoded"
        elif body is not None:
            data, headers["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.request(method, path, data, headers)
            reply = connection.getresponse()
            return Reply(reply.status, reply.read(), reply.getheader("Set-Cookie", "").partition(";")[0])
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error  # a reply that was cut off is no reply
        finally:
            connection.close()

    def cost(self) -> tuple[float, float]:
        """CPU-seconds and resident megabytes of the process now."""
        assert self.process is not None
        return process_cost(self.process.pid)


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    data: bytes
    cookie: str = ""

    @property
    def json(self) -> dict[str, Any]:
        """The data, read."""
        return json.loads(self.data)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def process_cost(pid: int) -> tuple[float, float]:
    """CPU-seconds and resident megabytes of a process now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- annotators -------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What all annotators together were told, and how long it took."""

    acknowledged: dict[str, tuple[str, int, int]] = field(default_factory=dict)  # key -> (name, item, grade)
    seconds: list[float] = field(default_factory=list)  # of the reply that came
    waits: list[float] = field(default_factory=list)  # from the first try on
    again: int = 0
    errors: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def fill(path: Path, *, annotators: int, tasks: int, size: int, replication: int, images: int) -> None:
    """A store with tasks and accounts."""
    import limner
    from limner.annotate.store import open_store
    from limner.annotate.store.contents import add_collection
    from limner.annotate.store.people import add_annotator
    from limner.annotate.store.tasks import Draft, TaskPair, add_tasks
    from limner.web.accounts import hashed

    test_set = limner.load("scenes", images=images).test
    pairs = [(image, text) for shift in range(len(test_set.texts)) for image, text in _shifted(test_set, shift)]
    with open_store(path) as store:
        add_collection(store, test_set, spec="scenes")
        chosen = pairs[: tasks * size]
        drafts = [
            Draft(tuple(TaskPair(*pair) for pair in chosen[low : low + size])) for low in range(0, len(chosen), size)
        ]
        add_tasks(store, drafts, replication=replication)
        password_hash = hashed(PASSWORD, name="annotator")
        for number in range(annotators):
            add_annotator(store, f"annotator {number}", password_hash=password_hash)


def _shifted(test_set, shift: int):
    texts = list(test_set.texts.ids)
    return [(image, texts[(row * 5 + shift) % len(texts)]) for row, image in enumerate(test_set.images.ids)]


def sessions(path: Path, annotators: int) -> list[str]:
    """Cookies of all annotators, opened beside the server: the login itself is measured elsewhere."""
    from limner.annotate.store import open_store
    from limner.annotate.store.people import by_name, open_session

    with open_store(path) as store:
        people = [by_name(store, f"annotator {number}") for number in range(annotators)]
        return [f"limner_session={open_session(store, person.id)}" for person in people if person is not None]


def annotate(server: Server, name: str, cookie: str, tally: Tally, seed: int, think: float) -> None:
    """Answers until nothing is left; what is not acknowledged is sent again with the same key.

    A person looks at a pair before answering: `think` seconds on average, from half to one and a half of it.
    """
    draw = random.Random(seed)
    while True:
        task = persist(server, "/api/task", {}, cookie, tally).json.get("task")
        if task is None:
            return
        for item in task["items"]:
            if item["grade"] is None:
                time.sleep(draw.uniform(0.5, 1.5) * think)
                submit(server, name, item["id"], cookie, tally, draw)


def submit(server: Server, name: str, item: int, cookie: str, tally: Tally, draw: random.Random) -> None:
    grade = draw.choice((1, 2, 3, 4))
    body = {"item": item, "key": secrets.token_hex(16), "grade": grade, "milliseconds": draw.randrange(500, 9000)}
    reply = persist(server, "/api/answers", body, cookie, tally, timed=True)
    with tally.lock:
        if reply.status == 200:
            tally.acknowledged[body["key"]] = (name, item, grade)
        else:
            tally.errors.append(f"{reply.status} {reply.data[:120]!r}")


def persist(server: Server, path: str, body: object, cookie: str, tally: Tally, *, timed: bool = False) -> Reply:
    """Asks until there is a reply."""
    first = time.perf_counter()
    while True:
        begun = time.perf_counter()
        try:
            reply = server.ask("POST", path, body=body, cookie=cookie)
        except OSError:
            with tally.lock:
                tally.again += 1
            time.sleep(0.5)
            continue
        if timed:
            with tally.lock:
                tally.seconds.append(time.perf_counter() - begun)
                tally.waits.append(time.perf_counter() - first)
        return reply


@dataclass(frozen=True)
class Storm:
    """What came of it."""

    acknowledged: int
    lost: int
    doubled: int
    over: int
    again: int
    errors: list[str]
    p50: float
    p95: float
    kills: int


def storm(
    folder: Path,
    *,
    annotators: int,
    tasks: int,
    size: int,
    replication: int,
    kills: int,
    seed: int = 0,
    images: int = 200,
    think: float = 0.0,
) -> Storm:
    """Many annotators at once while the server is killed at random moments; then the store is compared."""
    path = folder / "answers.db"
    fill(path, annotators=annotators, tasks=tasks, size=size, replication=replication, images=images)
    cookies = sessions(path, annotators)
    server, tally, draw = Server(folder, images=images), Tally(), random.Random(seed)
    server.start()
    try:
        people = [
            threading.Thread(
                target=annotate, args=(server, f"annotator {n}", cookies[n], tally, seed + n, think), daemon=True
            )
            for n in range(annotators)
        ]
        for person in people:
            person.start()
        # Random moments of the work, not of the clock: every kill meets answers on their way, on a fast machine too.
        moments = sorted(draw.sample(range(1, tasks * size * replication - annotators), kills))
        for killed, moment in enumerate(moments, start=1):
            while len(tally.acknowledged) < moment:
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.03))
            server.kill()
            log(f"killed {killed} times, {len(tally.acknowledged)} answers acknowledged")
            server.start()
        for person in people:
            person.join()
    finally:
        server.kill()
    return compared(path, tally, replication, kills)


def compared(path: Path, tally: Tally, replication: int, kills: int) -> Storm:
    """The store beside what was acknowledged."""
    from collections import Counter

    from limner.annotate.store import open_store
    from limner.annotate.store.answers import answers, history

    with open_store(path) as store:
        stored = {row["client_key"]: (row["annotator"], row["item_id"], row["grade"]) for row in history(store)}
        current = answers(store)
    lost = sum(stored.get(key) != sent for key, sent in tally.acknowledged.items())
    each = Counter((answer.annotator, answer.item) for answer in current)
    per_pair = Counter(answer.pair for answer in current if answer.role == "real")
    times = sorted(tally.seconds)
    return Storm(
        len(tally.acknowledged),
        lost,
        sum(count - 1 for count in each.values()) + len(stored) - len(tally.acknowledged),
        sum(count > replication for count in per_pair.values()),
        tally.again,
        tally.errors,
        statistics.median(times),
        times[int(0.95 * (len(times) - 1))],
        kills,
    )


# --- login ------------------------------------------------------------------------------------------------------


def besieged(folder: Path, tries: int) -> tuple[int, float, float]:
    """How many guesses at a password were looked at, CPU-seconds per guess, and how long a page took meanwhile."""
    fill(folder / "answers.db", annotators=1, tasks=1, size=2, replication=1, images=50)
    server = Server(folder, images=50)
    server.start()
    try:
        before, _ = server.cost()
        looked_at, slowest = 0, 0.0
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
        for number in range(tries):
            form = urlencode({"name": "annotator 0", "password": f"guess number {number}"})
            line.request("POST", "/login", form, {"Content-Type": "application/x-www-form-urlencoded"})
            reply = line.getresponse()
            reply.read()
            looked_at += reply.status != 429
            if number % 500 == 0:
                begun = time.perf_counter()
                server.ask("GET", "/login")
                slowest = max(slowest, time.perf_counter() - begun)
        after, _ = server.cost()
        return looked_at, (after - before) / tries, slowest
    finally:
        server.kill()


# --- what it costs ----------------------------------------------------------------------------------------------


def first_page(folder: Path) -> tuple[float, float, float, float]:
    """CPU-seconds and megabytes when the first page was sent, and when the first pair to judge was."""
    server = Server(folder, team=False, images=2000)
    server.start()
    try:
        assert server.ask("GET", "/").status == 200
        page = server.cost()
        assert server.ask("GET", "/judge").status == 200
        return *page, *server.cost()
    finally:
        server.kill()


def run(options: argparse.Namespace) -> Iterator[Claim]:
    quick = options.quick
    with tempfile.TemporaryDirectory() as folder:
        yield from _storm_claims(Path(folder), quick)
    with tempfile.TemporaryDirectory() as folder:
        tries = 500 if quick else 10_000
        looked_at, cpu, slowest = besieged(Path(folder), tries)
        cost = f"{1000 * cpu:.2f} CPU ms per try, a page took at most {1000 * slowest:.0f} ms meanwhile"
        allowed = f"10 at once, then one in 30 s; {cost}"
        yield Claim(f"guesses looked at of {tries:,} requests to log in", looked_at, goal="<= 60", note=allowed)
    with tempfile.TemporaryDirectory() as folder:
        cpu, memory, judge_cpu, judge_memory = first_page(Path(folder))
    yield Claim("first page, CPU-seconds of the server", cpu, goal="< 3")
    yield Claim("first page, resident MB of the server", memory, goal="< 120")
    note = "the store is open then, no model is loaded"
    yield Claim("first page for judging, CPU-seconds of the server", judge_cpu, goal="< 3", note=note)
    yield Claim("first page for judging, resident MB of the server", judge_memory, goal="< 120", note=note)


def _storm_claims(folder: Path, quick: bool) -> Iterator[Claim]:
    people, kills = (10, 3) if quick else (50, 20)
    tasks, size = (10, 10) if quick else (100, 20)
    outcome = storm(
        folder, annotators=people, tasks=tasks, size=size, replication=2, kills=kills, think=0.1 if quick else 0.3
    )
    label = f"{people} annotators over HTTP, {outcome.kills} kills"
    note = f"{outcome.acknowledged:,} answers acknowledged, {outcome.again:,} requests sent again"
    yield Claim(f"{label}: acknowledged answers", outcome.acknowledged, goal=f"== {tasks * size * 2}")
    yield Claim(f"{label}: acknowledged answers that are not in the store", outcome.lost, goal="<= 0", note=note)
    yield Claim(f"{label}: answers stored twice", outcome.doubled, goal="<= 0")
    yield Claim(f"{label}: pairs with more answers than asked", outcome.over, goal="<= 0")
    yield Claim(f"{label}: requests refused", len(outcome.errors), goal="<= 0", note="; ".join(outcome.errors[:2]))
    rate = f"median {1000 * outcome.p50:.0f} ms; clients, server and disk share one machine"
    yield Claim(f"{label}: p95 of a submit, ms", 1000 * outcome.p95, goal="< 1000", note=rate)


if __name__ == "__main__":
    main(run, __doc__)
